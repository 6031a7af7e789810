"""Ranges of rows go on in other applications where single rows do: over generated chains of jobs, whose files are copied and edited meanwhile."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import defaultdict
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.codec.tagged_runs import unpack_tagged
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.tagged import TaggedRuns, compacted, concatenated
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.lakes.exchange import RowKind, end_rows
from lineage_dataframes.lakes.onward import Onward, SpaceOnward, merged_ends, onward_rows
from lineage_dataframes.lakes.writing import SpaceFiles
from lineage_query.engine import QueryEngine
from lineage_query.planning import plan_of
from lineage_query.range_links import RangeFollower
from lineage_query.record_tracing import RecordTracer
from lineage_query.rows.reader import RowReader
from lineage_query.snapshot import ApplicationSnapshot
from lineage_query.trace_query import TraceQuery
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.budget import examples
from tests.support.chained_runs import Chain, link_chain, spool_chain
from tests.support.memory_graph import MemoryGraph
from tests.support.tagged_trace import pairs_of, tagged_start, tagged_trace

pytestmark = pytest.mark.property

End = tuple[int, str, str]
"""Tag, application and place."""


class Walk:
    """A trace through all jobs in memory, of all rows of a file at once."""

    def __init__(self, store: SqliteStore, direction: Direction) -> None:
        self._backward = direction is Direction.BACKWARD
        self.follower = RangeFollower(store, RowReader(), direction, lambda app: "")
        self.ends: dict[tuple[str, str], list[pa.RecordBatch]] = defaultdict(list)
        self._pending: list[tuple[str, dict[str, TaggedRuns]]] = []

    def walk(self, app: str, start: dict[str, TaggedRuns]) -> set[End]:
        self._pending.append((app, start))
        while self._pending:
            self._step(*self._pending.pop())
        return {end for (app, space), parts in self.ends.items() for end in self._placed(app, space, parts)}  # fmt: skip

    def _step(self, app: str, start: dict[str, TaggedRuns]) -> None:
        opened = self.follower.opened(app)
        graph = opened.graph
        blocks = list(graph.load([ref.block_id for ref in graph.blocks()]).values())
        memory = MemoryGraph(list(graph.nodes()), list(graph.links()), blocks)
        traced = tagged_trace(memory, start, backward=self._backward)
        assert not traced.reasons
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for tag, space, position in traced.found:
            found[space].append((tag, position))
        apps: list[str] = []
        onward: dict[str, dict[str, list[TaggedRuns]]] = defaultdict(lambda: defaultdict(list))
        for space, pairs in found.items():
            batches = end_rows(space, 0, RowKind.FOUND, compacted(_runs(pairs)))
            steps = self._onward(opened, space, [position for _, position in pairs], apps)
            for batch in onward_rows(batches, {space: steps}):
                for row in batch.to_pylist():
                    rows = unpack_tagged(row["payload"])
                    if row["kind"] == RowKind.FOUND:
                        self.ends[app, space].append(batch)
                    else:
                        onward[apps[row["reason"]]][row["space"]].append(rows)
        for other, spaces in onward.items():
            arrived = {space: concatenated(parts) for space, parts in spaces.items()}
            self._pending.append((other, arrived))

    def _onward(
        self, opened: ApplicationSnapshot, space: str, positions: list[int], apps: list[str]
    ) -> SpaceOnward:
        of_space = self.follower.of(opened, space, min(positions), max(positions))
        apps += sorted({link.app for link in of_space.links} - set(apps))
        links = [
            Onward(link.first, link.last, apps.index(link.app), link.space, link.shift, 0)
            for link in of_space.links
        ]
        return SpaceOnward(links, of_space.ends)

    def _placed(self, app: str, space: str, parts: list[pa.RecordBatch]) -> set[End]:
        """Ends as a table has them; each is there once."""
        pairs = [
            pair
            for batch in merged_ends(parts)
            for row in batch.to_pylist()
            for pair, _ in pairs_of(space, unpack_tagged(row["payload"]))
        ]
        assert len(set(pairs)) == len(pairs)
        positions = np.array([position for _, _, position in pairs], np.uint64)
        locations = self.follower.opened(app).locations
        files = SpaceFiles.of_parts("", locations.parts_of(space, Region.from_positions(positions)))
        _, paths, rows, _, _ = (column.to_pylist() for column in files.columns(space, positions))
        return {
            (tag, app, f"{path}:{row + 1}")
            for (tag, _, _), path, row in zip(pairs, paths, rows, strict=True)
        }


def _runs(pairs: list[tuple[int, int]]) -> TaggedRuns:
    tags, positions = (np.array(column) for column in zip(*sorted(pairs), strict=True))
    runs = positions.astype(np.uint64)
    return TaggedRuns.of(tags.astype(np.int64), (runs, runs), False, 0)


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.sampled_from(Direction))
def test_ranges_go_on_where_single_rows_do(seed: int, jobs: int, direction: Direction) -> None:
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()

        def meanwhile(chain: Chain) -> None:
            file, what = draw.choice(chain.files), draw.randrange(4)
            if what == 1:
                copy = folder / f"copy-{len(chain.files)}" / file.name
                copy.parent.mkdir()
                # With its time it counts as moved.
                draw.choice((shutil.copy, shutil.copy2))(file, copy)
                chain.files.append(copy)
            elif what == 2:
                with file.open("a") as edited:
                    edited.write("more\n")

        chain = spool_chain(folder / "spool", folder, draw, jobs, meanwhile)
        with SqliteStore(folder / "lineage.db") as store:
            link_chain(folder / "spool", store)
            for file in chain.files:
                check(store, file, direction)


def check(store: SqliteStore, file: Path, direction: Direction) -> None:
    """All rows of a file at once lead where each does by itself."""
    engine, reader = QueryEngine(store, RowReader()), RowReader()
    places = [f"{file}:{at}" for at in range(1, 1 + len(file.read_text().splitlines()))]
    named = TraceQuery(direction, (places[0],), all_jobs=True)
    try:
        apps = [part.query.app for part in plan_of(store, reader, named).parts]
    except LineageError:
        apps = [None]
    for place, app in product(places, apps):
        query = TraceQuery(direction, (place,), app=app, texts=False, all_jobs=True)
        try:
            answer = engine.ask(query)
        except LineageError as refused:
            # What is refused of the single row is so before anything is followed.
            with pytest.raises(type(refused)):
                RecordTracer(store, reader).start(replace(query, all_jobs=False))
            continue
        start = RecordTracer(store, reader).start(replace(query, all_jobs=False))
        items = [
            (space, position)
            for space, region in start.regions.items()
            for position in region.positions().tolist()
        ]
        walk = Walk(store, direction)
        found = walk.walk(start.opened.app, tagged_start(items, together=True))
        expected = {
            (0, group.app or answer.app, item.location)
            for group in answer.groups
            for item in group.items
        }
        assert found == expected, (place, answer)
        assert set(walk.follower.refused) == set(answer.not_queried), place
        is_sure = not walk.follower.copies(exact=False)
        assert is_sure == answer.exact
