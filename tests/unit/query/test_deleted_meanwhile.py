"""An application that is deleted while it is traced: no answer has what was left of it at some moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lineage_core.contract.verdict import Verdict
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query import snapshot
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_query.verdicts import verdict_of
from lineage_store.copying import copy_application
from lineage_store.errors import StoreError
from lineage_store.port import GraphStore
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store
from tests.support.stored_lineage import StoredRun, store_run

pytestmark = pytest.mark.unit


def back(store: GraphStore, run: StoredRun) -> Any:
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


@pytest.mark.parametrize("kind", ["sqlite", "lake"])
def test_a_verdict_of_what_was_deleted_is_said_of_nothing_that_is_stored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A part of it alone is there, as while it is archived, and the verdict was that of the whole."""
    run = store_run(f"sqlite:///{tmp_path}/whole.db", tmp_path)
    url = f"lake:{tmp_path}/lake" if kind == "lake" else f"sqlite:///{tmp_path}/lineage.db"
    with SqliteStore(tmp_path / "whole.db") as whole, open_store(url, create=True) as store:
        copy_application(whole, store, run.app)
        expected = back(store, run)
        verdicts = []

        def verdict(of: GraphStore, app: str) -> Verdict:
            verdicts.append(verdict_of(of, app))
            store.delete(app)
            store.write(app, whole.messages(app))
            return verdicts[-1]

        monkeypatch.setattr(snapshot, "verdict_of", verdict)
        with pytest.raises(StoreError, match="while it was read"):
            back(store, run)
        assert verdicts[0].complete
        monkeypatch.undo()
        store.delete(run.app)
        copy_application(whole, store, run.app)
        assert back(store, run) == expected
