"""The query API's settings and metrics are as documented."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from starlette.types import Receive, Scope, Send

from lineage_query_api.settings import QueryApiSettings
from lineage_query_api.shell import Shell
from tests.reference_pages import documented_metrics, metric_names, section

pytestmark = pytest.mark.unit


def test_the_table_of_the_documentation_is_the_settings() -> None:
    found = []
    for name, field in QueryApiSettings.model_fields.items():
        default = f"`{field.default}`" if field.default not in (None, "", ()) else ""
        found.append(f"| `LINEAGE_{name.upper()}` | {default} | {field.description} |")
    assert section("settings.md", "Settings of the query API") == found[1:]


def test_the_table_of_the_documentation_is_the_metrics() -> None:
    async def nothing(scope: Scope, receive: Receive, send: Send) -> None: ...

    registry = CollectorRegistry()
    Shell(nothing, rate="1/second", body_bytes=1, registry=registry)
    assert documented_metrics("Query API") == metric_names(registry)
