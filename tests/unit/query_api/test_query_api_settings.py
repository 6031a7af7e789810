"""The query API's settings and metrics are as documented."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from starlette.types import Receive, Scope, Send

from lineage_query.rows.reader import RowReader
from lineage_query_api.audit import Auditor
from lineage_query_api.audit_log import open_audit
from lineage_query_api.completeness import Completeness
from lineage_query_api.lineages import Lineages
from lineage_query_api.rates import Rates
from lineage_query_api.request_middleware import RequestMiddleware
from lineage_query_api.settings import QueryApiSettings, read_settings
from lineage_service.redis_settings import RedisSettings
from lineage_store.sqlite.store import SqliteStore
from tests.support.reference_pages import documented_metrics, metric_names, section

pytestmark = pytest.mark.unit


def test_the_table_of_the_documentation_is_the_settings() -> None:
    found = []
    for name, field in QueryApiSettings.model_fields.items():
        default = f"`{field.default}`" if field.default not in (None, "", ()) else ""
        found.append(f"| `LINEAGE_{name.upper()}` | {default} | {field.description} |")
    assert section("settings.md", "Settings of the query API") == found[1:]


def test_the_table_of_the_documentation_is_the_metrics(tmp_path: Path) -> None:
    async def nothing(scope: Scope, receive: Receive, send: Send) -> None: ...

    registry = CollectorRegistry()
    rates = Rates("1/second", RedisSettings(), registry)
    RequestMiddleware(nothing, rates=rates, body_bytes=1, registry=registry)
    audit = open_audit(str(tmp_path / "audit"), 1)
    assert audit is not None
    Auditor(nothing, audit=audit, registry=registry)
    audit.close()
    with SqliteStore(tmp_path / "lineage.db") as store:
        lineages = Lineages(store, RowReader(tmp_path), read_settings())
        registry.register(Completeness(lineages, 1))
        assert documented_metrics("Query API") == metric_names(registry)
