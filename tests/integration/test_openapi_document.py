"""The description of the API: what generators of clients make of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from lineage_query_api.app import create_app
from lineage_query_api.settings import read_settings
from lineage_store.port import GraphStore

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    app = create_app(cast("GraphStore", None), read_settings(store="sqlite:///unused.db"))
    return app.openapi()


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(path, one) for path, methods in document["paths"].items() for one in methods.values()]


def test_operations_are_called_by_short_names(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(names)) == len(names) > 20
    assert {"list_applications", "get_application", "make_trace", "me"} < set(names)
    assert not [name for name in names if "_v1_" in name]


def test_all_errors_are_one_problem(document: dict[str, Any]) -> None:
    problem = document["components"]["schemas"]["Problem"]
    assert {"type", "title", "status", "detail", "request_id"} == set(problem["required"])
    for path, operation in operations(document):
        errors = [told for status, told in operation["responses"].items() if int(status) >= 400]
        assert errors, path
        for told in errors:
            schema = told["content"]["application/problem+json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Problem"}


def untyped(schema: Any, path: str) -> Iterator[str]:
    """Paths of the objects of which a schema says nothing."""
    if isinstance(schema, dict):
        if (
            schema.get("type") == "object"
            and "properties" not in schema
            and "additionalProperties" not in schema
            and "patternProperties" not in schema
        ):
            yield path
        for name, part in schema.items():
            yield from untyped(part, f"{path}.{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from untyped(part, path)


def test_every_answer_of_json_has_a_model(document: dict[str, Any]) -> None:
    for path, operation in operations(document):
        for status, response in operation["responses"].items():
            if "application/json" not in response.get("content", {}) or path.endswith("/export"):
                continue
            schema = response["content"]["application/json"]["schema"]
            parts = schema.get("oneOf", [schema])
            assert all("$ref" in part for part in parts), (path, status)
    schemas = document["components"]["schemas"]
    assert not list(untyped(schemas, ""))
    open_ended = [
        name for name, schema in schemas.items() if schema.get("additionalProperties") is True
    ]
    # The specification of OpenLineage says what events hold.
    assert open_ended == ["OpenLineageEvent"]


def test_callers_say_who_they_are_by_a_bearer_token(document: dict[str, Any]) -> None:
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert document["security"] == [{"bearer": ["read"]}]
    free = [path for path, operation in operations(document) if operation["security"] == []]
    assert free == ["/v1/sign-in"]


def test_operations_name_the_right_that_they_need(document: dict[str, Any]) -> None:
    needs: dict[str, set[str]] = {}
    for _, operation in operations(document):
        for ways in operation["security"]:
            needs.setdefault(" and ".join(ways["bearer"]), set()).add(operation["operationId"])
    assert needs.pop("read") > {"me", "list_applications", "make_trace", "answer"}
    assert needs == {
        "rows": {
            *("get_rows", "dump", "get_picture", "get_values"),
            *("list_triples", "trace_triples", "export_triple_trace", "follow_rows"),
            "list_failed_calls",
        },
        "delete": {"delete_application"},
        "erase": {"plan_erasure"},
        "access and rows": {"report_access"},
        "watch and rows": {"get_watchable", "watch_records"},
        "admin": {"create_record_view", "remove_record_view"},
    }


def test_an_issuer_is_a_way_in_where_there_is_one() -> None:
    settings = read_settings(
        store="sqlite:///unused.db",
        oidc_issuer="https://login.example.org/realm",
        oidc_audience="lineage",
    )
    document = create_app(cast("GraphStore", None), settings).openapi()
    scheme = document["components"]["securitySchemes"]["oidc"]
    assert scheme["type"] == "openIdConnect"
    url = "https://login.example.org/realm/.well-known/openid-configuration"
    assert scheme["openIdConnectUrl"] == url
    rows = document["paths"]["/v1/applications/{app}/rows"]["get"]
    assert rows["security"] == [
        {"bearer": ["rows"]},
        {"oidc": ["lineage-rows"]},
        {"oidc": ["lineage-admin"]},
    ]
    reports = document["paths"]["/v1/access-reports"]["post"]
    assert reports["security"] == [
        {"bearer": ["access", "rows"]},
        {"oidc": ["lineage-access", "lineage-rows"]},
        {"oidc": ["lineage-access", "lineage-admin"]},
    ]


def test_a_server_that_lets_everybody_in_asks_for_nothing() -> None:
    settings = read_settings(store="sqlite:///unused.db", api_open=True)
    document = create_app(cast("GraphStore", None), settings).openapi()
    assert document["security"] == []
    assert all(operation["security"] == [] for _, operation in operations(document))
