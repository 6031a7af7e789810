"""An application that is deleted while it is traced: no answer has what was left of it at some moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_query.verdicts import verdict_of
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import StoredRun, store_run

pytestmark = pytest.mark.unit


def back(store: SqliteStore, run: StoredRun) -> Any:
    query = TraceQuery(Direction.BACKWARD, (f"{run.sink}:1",), app=run.app)
    return QueryEngine(store, RowReader()).ask(query).to_json()


class DeletedStore(SqliteStore):
    """Somebody deletes the application behind a query, as `lineage archive` and `lineage expire` do in another process."""

    app = ""
    left = -1

    def _query(self, query: str, *values: str | float) -> list[Any]:
        rows = super()._query(query, *values)
        self.left -= 1
        if self.left == 0:
            with SqliteStore(self.path) as other:
                other.delete(self.app)
        return rows


def test_an_application_that_is_deleted_meanwhile_is_refused(tmp_path: Path) -> None:
    url, path = f"sqlite:///{tmp_path}/lineage.db", tmp_path / "lineage.db"
    run = store_run(url, tmp_path)
    with DeletedStore(path) as store:
        expected, verdict = back(store, run), verdict_of(store, run.app)
        queries = -1 - store.left
    whole = path.read_bytes()
    refused = 0
    for left in range(1, queries + 1, 3):
        path = tmp_path / f"{left}.db"
        path.write_bytes(whole)
        with DeletedStore(path) as store:
            store.app, store.left = run.app, left
            try:
                assert back(store, run) == expected, left
                assert verdict_of(store, run.app) == verdict, left
            except (KeyError, LineageError):
                refused += 1
            assert store.application_ids() == []
    assert refused > 3
