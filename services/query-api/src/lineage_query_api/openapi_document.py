"""The OpenAPI document: one problem schema for all errors, and who may request what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts

from lineage_query_api.problems import PROBLEM_SCHEMA

PROBLEM_REFERENCE = "#/components/schemas/Problem"
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "a token of `lineage token`, of the OIDC issuer, or of a server of one user",
}
ROLES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "read": (
        ("lineage-reader",),
        ("lineage-rows",),
        ("lineage-delete",),
        ("lineage-erase",),
        ("lineage-access",),
        ("lineage-watch",),
        ("lineage-admin",),
    ),
    "rows": (("lineage-rows",), ("lineage-admin",)),
    "delete": (("lineage-delete",),),
    "erase": (("lineage-erase",),),
    "access": (("lineage-access", "lineage-rows"), ("lineage-access", "lineage-admin")),
    "watch": (("lineage-watch", "lineage-rows"), ("lineage-watch", "lineage-admin")),
    "admin": (("lineage-admin",),),
}
"""By right, the roles of OpenID Connect: all of one of these are enough."""
WITH: Mapping[str, tuple[str, ...]] = {"access": ("rows",), "watch": ("rows",)}
"""By right, those that a caller needs beside it."""


def _openid_connect(issuer: str) -> dict[str, str]:
    return {
        "type": "openIdConnect",
        "openIdConnectUrl": f"{issuer.rstrip('/')}/.well-known/openid-configuration",
        "description": "a token of this issuer, which lists the role",
    }


class DescribedApi(FastAPI):
    """An application whose OpenAPI document includes what routes alone don't declare.

    Its state has ``rights``, those that dependencies ask for; ``oidc_issuer``, empty where there is none; and ``is_open``:
    everybody may do everything.
    """

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        document = super().openapi()
        components = document["components"]
        components["schemas"]["Problem"] = {"title": "Problem", **PROBLEM_SCHEMA}
        issuer = self.state.oidc_issuer
        components["securitySchemes"] = {"bearer": BEARER} | (
            {"oidc": _openid_connect(issuer)} if issuer else {}
        )
        document["security"] = self._security("read")
        for route in self._described_routes():
            right = self._right_of(route.dependant)
            for method in route.methods or ():
                operation = document["paths"][route.path_format][method.lower()]
                operation["security"] = [] if right is None else self._security(right)
        return document

    def _security(self, right: str) -> list[dict[str, list[str]]]:
        """What a caller needs, in one of these ways; nothing where the server lets everybody in."""
        if self.state.is_open:
            return []
        of_issuer = [{"oidc": [*roles]} for roles in ROLES[right] if self.state.oidc_issuer]
        return [{"bearer": [right, *WITH.get(right, ())]}, *of_issuer]

    def _right_of(self, dependant: Dependant) -> str | None:
        """The right that the dependencies of a route ask for last; None: none, for they know no caller."""
        rights: Mapping[object, str] = self.state.rights
        own = rights.get(dependant.call)
        needed = [own, *(self._right_of(needs) for needs in dependant.dependencies)]
        return max(filter(None, needed), key=list(ROLES).index, default=None)

    def _described_routes(self) -> Iterator[APIRoute]:
        for context in iter_route_contexts(self.routes):
            route = context.original_route
            if isinstance(route, APIRoute) and route.include_in_schema:
                yield route

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
