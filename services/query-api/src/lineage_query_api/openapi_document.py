"""The OpenAPI document: one problem schema for all errors, and the authentication schemes."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from fastapi import FastAPI

from lineage_query_api.problems import PROBLEM_SCHEMA

PROBLEM_REFERENCE = "#/components/schemas/Problem"
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "a token of `lineage token`, of the OIDC issuer, or of a server of one user",
}
OPEN = ("/v1/sign-in",)
"""Paths that need no token."""


class DescribedApi(FastAPI):
    """An application whose OpenAPI document includes what routes alone don't declare."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        document = super().openapi()
        components = document["components"]
        components["schemas"]["Problem"] = {"title": "Problem", **PROBLEM_SCHEMA}
        components["securitySchemes"] = {"bearer": BEARER}
        document["security"] = [{"bearer": []}]
        for path in OPEN:
            for operation in document["paths"][path].values():
                operation["security"] = []
        return document

    @cached_property
    def query_parameters(self) -> dict[tuple[str, str], frozenset[str]]:
        """Names of the parameters that a query may have, by method and path of a route, as the document has them."""
        return {
            (method.upper(), path): frozenset(
                parameter["name"]
                for parameter in operation.get("parameters", ())
                if parameter["in"] == "query"
            )
            for path, operations in self.openapi()["paths"].items()
            for method, operation in operations.items()
        }
