"""Inputs made from the API's own description: every answer is one that it describes, none a 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lineage_query_api.app import create_app
from lineage_query_api.settings import read_settings
from lineage_store.port import GraphStore
from tests.support.api_server import word_count_served

pytestmark = pytest.mark.property
CHECKS = (
    schemathesis.checks.not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

DESCRIBED = schemathesis.openapi.from_dict(
    create_app(cast("GraphStore", None), read_settings(store="sqlite:///unused.db")).openapi()
)
# An application that is deleted could not be asked any more.
DELETING = ("DELETE", "/v1/applications/{app}")
OPERATIONS = [
    found.ok()
    for found in DESCRIBED.get_all_operations()
    if isinstance(found, Ok) and (found.ok().method.upper(), found.ok().path) != DELETING
]

TRACED = {"direction": "backward", "start": {"places": ["write#0#1"]}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("described")
    with word_count_served(folder, api_rate="1000000/second") as client:
        yield client


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_every_answer_is_described(operation: Any, client: httpx.Client) -> None:
    base = str(client.base_url).rstrip("/")

    made = client.post("/v1/applications/app-1/traces", json=TRACED).json()
    there = {"app": "app-1", "node": "read", "trace": made["trace"]}

    @given(case=operation.as_strategy(), aimed=st.booleans())
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    def answers(case: Any, aimed: bool) -> None:
        if aimed:
            # Else nearly every question is of an application that is not there.
            case.path_parameters.update(
                {name: there[name] for name in case.path_parameters if name in there}
            )
        case.call_and_validate(base_url=base, checks=list(CHECKS))

    answers()


def test_the_description_is_whole(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    # None was left out above.
    described = sum(len(methods) for methods in document["paths"].values())
    assert described == len(OPERATIONS) + 1
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (path, method)
            assert operation["description"], (path, method)
            assert "application/problem+json" in operation["responses"]["422"]["content"]
