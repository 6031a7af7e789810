"""Copies of an application while its store is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from lineage_core.contract.block import BlockId
from lineage_core.contract.graph import EdgeBatch
from lineage_core.linking.joining import join_entry_of
from lineage_core.linking.linker import Linker, MemoryState
from lineage_store.copying import copy_application
from lineage_store.sqlite.graph import SqliteGraph
from lineage_store.sqlite.store import SqliteStore
from tests.hunt.simulated import MapTask, Simulated

pytestmark = pytest.mark.unit

JOB = Simulated((MapTask(((0,),)), MapTask(((0,),))), ((0, 0),))


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    with SqliteStore(tmp_path / "one.db") as one, SqliteStore(tmp_path / "two.db") as two:
        yield one, two


def test_a_seal_that_comes_behind_its_edges_is_not_copied_without_them(
    stores: tuple[SqliteStore, SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks are there, and their edges come while the copy is made: the linker had lost its state."""
    source, target = stores
    blocks = [block for _, _, some in JOB.tasks() for block in some]
    source.write(JOB.app, JOB.head(), blocks)
    linker, edges = Linker(MemoryState()), []
    for task, _, some in JOB.tasks():
        linker.commit(task)
        edges += [edge for one in some for edge in linker.receive(task, join_entry_of(one)).edges]
    linker.recount_unmatched()
    read = SqliteGraph.edges_into

    def late(graph: SqliteGraph, consumers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        found = read(graph, consumers)
        source.write(JOB.app, edges=edges, seals=linker.seal())
        return found

    monkeypatch.setattr(SqliteGraph, "edges_into", late)
    copy_application(source, target, JOB.app)
    monkeypatch.undo()
    assert list(source.graph(JOB.app).sealed(["2@0"])) == ["2@0"]
    assert target.graph(JOB.app).sealed(["2@0"]) == []
    copy_application(source, target, JOB.app)
    assert list(target.graph(JOB.app).sealed(["2@0"])) == ["2@0"]
    assert len(target.graph(JOB.app).edges_into([blocks[-1].block_id])) == 2
