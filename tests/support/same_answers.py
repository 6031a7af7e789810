"""Holds the answers of one store against those of another that has the same applications."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lineage.access import StoredAccess
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query.trace_query import TraceQuery
from lineage_query.verdicts import verdict_of
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.moving import move_application
from lineage_store.port import GraphStore
from tests.support.job_runs import part_files

ROWS = 8
"""Rows of a file that are traced."""


def lake_of(store: GraphStore, folder: Path) -> LakeStore:
    """A lake that has all applications of a store."""
    lake = LakeStore(LakeAddress(str(folder)))
    for app in store.application_ids():
        move_application(store, lake, app, deletes=False)
    return lake


def places_of(outputs: Iterable[Path], sources: Iterable[Path]) -> list[TraceQuery]:
    """Questions about some rows of outputs, and of sources: the first, the last, and some between."""
    queries = [
        TraceQuery(Direction.BACKWARD, (place,))
        for out in outputs
        for file in part_files(out)
        for place in _places(file)
    ]
    queries += [
        TraceQuery(Direction.FORWARD, (place,)) for file in sources for place in _places(file)
    ]
    assert {query.direction for query in queries} == set(Direction)
    return queries


def _places(file: Path) -> list[str]:
    count = file.read_bytes().count(b"\n")
    numbers = sorted({1 + at * (count - 1) // max(ROWS - 1, 1) for at in range(ROWS)})
    return [f"{file}:{number}" for number in numbers] if count else []


def check_same(
    store: GraphStore, other: GraphStore, url: str, queries: Sequence[TraceQuery]
) -> int:
    """Compare lists, verdicts, graphs and answers, also those through all jobs and by dataset; how many rows were found.

    ``url``: of ``store``, beside which indexes of files are kept.
    """
    assert other.applications() == store.applications()
    assert other.names() == store.names()
    for app in store.application_ids():
        # The time since the last message is that of each store's clock.
        assert replace(other.counts(app), silent_s=None) == replace(
            store.counts(app), silent_s=None
        )
        assert verdict_of(other, app) == verdict_of(store, app)
        graph, of_other = store.graph(app), other.graph(app)
        assert of_other.nodes() == graph.nodes()
        assert of_other.links() == graph.links()
    found = 0
    for query in queries:
        for asked in (query, replace(query, all_jobs=True), replace(query, by="dataset")):
            answer = _answer(store, url, asked)
            assert _answer(other, url, asked) == answer
            found += _rows_in(answer) if asked is query else 0
    return found


def _answer(store: GraphStore, url: str, query: TraceQuery) -> dict[str, Any]:
    try:
        return StoredAccess(store, url).ask(query).to_json()
    except LineageError as refusal:
        return {"refused": str(refusal)}


def _rows_in(answer: dict[str, Any]) -> int:
    return sum(group["count"] for group in answer.get("sources", answer.get("sinks", ())))
