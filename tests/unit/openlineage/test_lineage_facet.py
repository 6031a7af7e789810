"""The facets ``version`` and ``lineage`` of OpenLineage events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openlineage.client import facet_v2
from openlineage.client.facet_v2 import lineage

from lineage_core.contract.graph import LinkRecord
from lineage_core.contract.message import (
    Begin,
    Message,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    Register,
    SinkFile,
)
from lineage_openlineage.derivations import derivations_of
from lineage_openlineage.errors import OpenLineageError
from lineage_openlineage.events import run_events
from lineage_openlineage.facts import facts_of
from lineage_openlineage.naming import Naming
from lineage_openlineage.sending import lines_of
from lineage_openlineage.uses import Use
from lineage_store.sqlite.store import SqliteStore
from tests.support.memory_graph import MemoryGraph, node
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.unit


def last_event(store: SqliteStore, app: str, *, lineage_facet: bool = True) -> dict[str, Any]:
    naming = Naming(lineage_facet=lineage_facet)
    event: dict[str, Any] = json.loads(
        lines_of(run_events(facts_of(store, app, naming=naming, now=5_000.0)))[-1]
    )
    return event


def test_each_output_has_its_own_inputs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    store_run(url, tmp_path)
    store_run(url, tmp_path, "app-2", committed=False)
    with SqliteStore(tmp_path / "lineage.db") as store:
        facet = last_event(store, "app-1")["job"]["facets"]["lineage"]
        assert "lineage" not in last_event(store, "app-1", lineage_facet=False)["job"]["facets"]
        # Not all of its lineage is there: a backend must not take the facet for all that there is.
        assert "lineage" not in last_event(store, "app-2")["job"]["facets"]
    assert facet["_schemaURL"].endswith("/LineageFacet.json#/$defs/LineageJobFacet")
    (entry,) = facet["entries"]
    (source,) = entry["inputs"]
    # As the client's own model of the facet has it, which refuses fields that it does not know.
    lineage.LineageDatasetEntry(**entry)
    lineage.LineageDatasetInput(**source)
    assert (entry["namespace"], entry["name"]) == ("file", f"{tmp_path}/out")
    assert (source["namespace"], source["name"]) == ("file", f"{tmp_path}/in.txt")


def test_a_client_without_the_facet_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_run(f"sqlite:///{tmp_path}/lineage.db", tmp_path)
    monkeypatch.delattr(facet_v2, "lineage")
    with SqliteStore(tmp_path / "lineage.db") as store:
        assert last_event(store, "app-1", lineage_facet=False)
        with pytest.raises(OpenLineageError, match="openlineage-python>="):
            last_event(store, "app-1")


def use_of(path: str, *, wrote: bool, version: str, states: Sequence[tuple[int, float]]) -> Message:
    if wrote:
        files = tuple(
            SinkFile(partition=at, path=f"{path}/part-{at}", size=size, mtime=mtime)
            for at, (size, mtime) in enumerate(states)
        )
        return RecordFiles(app="app", node="0", path=path, files=files, version=version)
    splits = tuple(
        RecordSplit(
            partition=at,
            path=f"file:{path}/part-{at}",
            start=0,
            length=size,
            file_size=size,
            mtime=mtime,
        )
        for at, (size, mtime) in enumerate(states)
    )
    return RecordSplits(app="app", node="0", whole=False, splits=splits, version=version)


def version_in_event(tmp_path: Path, *uses: Message) -> str | None:
    message = uses[0]
    wrote = isinstance(message, RecordFiles)
    kind = "sink" if wrote else "source"
    with SqliteStore(tmp_path / f"{len(list(tmp_path.iterdir()))}.db") as store:
        begin = Begin(app="app", name="", started_at=1_000.0)
        register = Register(
            app="app",
            node="0",
            kind=kind,
            op="x",
            name="x",
            description="",
            call_site="",
            path="/t",
        )
        store.write("app", [begin, register, *uses])
        event = last_event(store, "app")
    (dataset,) = event["outputs" if wrote else "inputs"]
    facet = dataset.get("facets", {}).get("version")
    return None if facet is None else facet["datasetVersion"]


@pytest.mark.parametrize(
    ("read", "is_same"),
    [
        ([(7, 1.5), (9, 2.001)], True),
        ([(7, 1.5)], False),
        ([(7, 1.5), (9, 2.002)], False),
        ([(8, 1.5), (9, 2.001)], False),
        # Readers leave files out that hold nothing.
        ([(7, 1.5), (9, 2.001), (0, 3.0)], True),
    ],
)
def test_what_is_read_has_the_version_of_what_was_written(
    tmp_path: Path, read: list[tuple[int, float]], is_same: bool
) -> None:
    written = use_of("/t", wrote=True, version="", states=[(7, 1.5), (9, 2.001)])
    read_use = use_of("/t", wrote=False, version="", states=read)
    version = version_in_event(tmp_path, written)
    assert version is not None
    assert version.startswith("files:2:")
    assert (version_in_event(tmp_path, read_use) == version) == is_same


def test_a_table_has_its_own_version_and_several_are_none(tmp_path: Path) -> None:
    for wrote in (True, False):
        one = use_of("/t", wrote=wrote, version="3", states=[(7, 1.0)])
        other = use_of("/t", wrote=wrote, version="12", states=[(7, 2.0)])
        assert version_in_event(tmp_path, one) == "3"
        assert version_in_event(tmp_path, one, other) is None
    changed = use_of("/t", wrote=False, version="", states=[(8, 1.0)])
    as_it_was = use_of("/t", wrote=False, version="", states=[(7, 1.0)])
    assert version_in_event(tmp_path, as_it_was, changed) is None


NODES = 7
KINDS = st.sampled_from(["source", "operator", "operator", "sink", "frame", "unknown"])
LINKS = st.sets(st.tuples(st.integers(0, NODES), st.integers(0, NODES - 1)), max_size=10)


@given(
    kinds=st.lists(KINDS, min_size=NODES, max_size=NODES),
    links=LINKS,
    reads=st.dictionaries(st.sampled_from("abc"), st.sets(st.integers(0, NODES - 1)), max_size=3),
    writes=st.dictionaries(st.sampled_from("xyz"), st.sets(st.integers(0, NODES - 1)), max_size=3),
)
@settings(max_examples=150, deadline=None)
def test_derivations_are_those_of_a_walk(
    kinds: list[str],
    links: set[tuple[int, int]],
    reads: dict[str, set[int]],
    writes: dict[str, set[int]],
) -> None:
    """Node ``NODES`` is not registered: what it leads to may be made of anything."""
    graph = MemoryGraph(
        [node(str(number), kind) for number, kind in enumerate(kinds)],
        [LinkRecord(str(src), str(dest)) for src, dest in links],
        [],
    )
    read, written = (
        {("file", name): {str(number): Use() for number in nodes} for name, nodes in uses.items()}
        for uses in (reads, writes)
    )
    expected = {}
    for output, writers in writes.items():
        above = set(writers)
        for _ in range(NODES):
            above |= {src for src, dest in links if dest in above}
        is_known = all(number < NODES and kinds[number] != "unknown" for number in above)
        expected["file", output] = [
            ("file", name) for name, readers in reads.items() if not is_known or above & readers
        ]
    assert derivations_of(graph, read, written) == expected
