"""The lineage of one row in two runs, against the lines that each run truly read: none is called the same, or another, that is not."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Link, Read, SinkFile, SinkFiles, Split, Splits
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.run_difference import RunDifference
from lineage_query.trace_query import TraceQuery
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.budget import examples
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import flows, sums_of

pytestmark = pytest.mark.property

KEY = 7
NAMES = ("a", "b", "c")
BACK = TraceQuery(Direction.BACKWARD, ())


@dataclass(frozen=True)
class File:
    """A file as a run reads it. ``picked``: the lines, from 0, that its output row is made of."""

    lines: tuple[str, ...]
    picked: frozenset[int]


@dataclass(frozen=True)
class Change:
    """What becomes of a file between two runs. ``kept``: it stays as it is; else the second run reads ``other`` in its place."""

    kept: bool
    other: File | None
    picked: frozenset[int]


Row = tuple[str, int, int]
"""Path, version and number of a line, from 1."""


@dataclass
class Ran:
    app: str
    rows: dict[Row, str] = field(default_factory=dict)
    versions: set[tuple[str, int]] = field(default_factory=set)
    """Of all files that it read."""


@st.composite
def files(draw: st.DrawFn) -> File:
    lines = tuple(draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=4)))
    return File(lines, frozenset(draw(st.sets(st.integers(0, len(lines) - 1)))))


@st.composite
def changes(draw: st.DrawFn) -> Change:
    picked = frozenset(draw(st.sets(st.integers(0, 3))))
    return Change(draw(st.booleans()), draw(st.none() | files()), picked)


class Runs:
    """Writes files and the lineage of runs that read them; every version of a file has a time of its own."""

    def __init__(self, folder: Path, *, summed: bool) -> None:
        self.folder = folder
        self.summed = summed
        self._times = count(1_000)
        self.version: dict[str, int] = {}
        """Of the files as they are now."""

    def write(self, path: Path, lines: tuple[str, ...]) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
        at = next(self._times)
        os.utime(path, (at, at))
        self.version[str(path)] = at

    def run(self, app: str, read: dict[Path, File]) -> Ran:
        """A run whose one output row is made of the lines that are picked."""
        ran = Ran(app)
        out = self.folder / f"out-{app}"
        self.write(out / "part-00000", ("row",))
        spool = Spool(self.folder / "spool", app)
        spool.begin(1000.0, "totals.py")
        source = str(next(iter(read)).parent)
        spool.node("0", "source", "textFile", alias="read", path=source)
        spool.node("2", "shuffle", "combineByKey", name="reduceByKey")
        spool.node("3", "sink", "saveAsTextFile", alias="write", path=str(out))
        spool.send(Link(app=app, src="0", dest="2"), Link(app=app, src="2", dest="3"))
        splits = []
        for partition, (path, file) in enumerate(read.items()):
            state = path.stat()
            at = self.version[str(path)]
            ran.versions.add((str(path), at))
            splits.append(
                Split(
                    partition=partition,
                    path=f"file:{path}",
                    start=0,
                    length=state.st_size,
                    file_size=state.st_size,
                    mtime=state.st_mtime,
                )
            )
            for number in file.picked:
                ran.rows[str(path), at, number + 1] = file.lines[number]
            rows = [(sorted(file.picked), KEY)] if file.picked else [([], 99)]
            block = flows(BlockId("2", partition, partition, 0), f"0#{partition}", "2@0", rows, app)
            sums = sums_of(list(file.lines)) if self.summed else ""
            reads = (Read(space=f"0#{partition}", rows=len(file.lines), exhausted=True, sums=sums),)
            spool.task("2", partition, partition, [block], flows=block.rows, reads=reads)
        made = [([KEY], 0)] if ran.rows else [([], 0)]
        last = flows(BlockId("3", 0, 50, 0), "2@0", "3#0", made, app)
        spool.task("3", 0, 50, [last], flows=last.rows, rows=1)
        state = (out / "part-00000").stat()
        sink = SinkFile(
            partition=0,
            path=f"file:{out}/part-00000",
            size=state.st_size,
            mtime=state.st_mtime,
            rows=1,
        )
        spool.send(Splits(app=app, node="0", splits=tuple(splits)))
        spool.send(SinkFiles(app=app, node="3", path=str(out), files=(sink,)))
        spool.job("3", n2=len(read), n3=1)
        spool.end(blocks=len(read) + 1, tasks=len(read) + 1)
        return ran

    def is_readable(self, row: Row) -> bool:
        """Whether the version of a row is what stands there now."""
        return self.version[row[0]] == row[1]


def compare(runs: Runs, left: Ran, right: Ran) -> RunDifference:
    with SqliteStore(runs.folder / "lineage.db") as store:
        ingest_all(store, runs.folder / "spool")
        places = tuple((f"{runs.folder}/out-{ran.app}/part-00000:1",) for ran in (left, right))
        return QueryEngine(store, RowReader()).compare_runs(
            BACK, (places[0], places[1]), (left.app, right.app)
        )


def check(difference: RunDifference, runs: Runs, left: Ran, right: Ran) -> None:
    shared = left.versions & right.versions
    placed, others = [], []
    for ran in (left, right):
        placed.append({row for row in ran.rows if row[:2] in shared})
        others.append([row for row in ran.rows if row[:2] not in shared])
    assert sum(group.same_places for group in difference.groups) == len(placed[0] & placed[1])
    texts = [
        Counter(ran.rows[row] for row in of) for ran, of in zip((left, right), others, strict=True)
    ]
    both = texts[0] & texts[1]
    same_texts = sum(group.same_texts for group in difference.groups)
    assert same_texts <= both.total()
    undecided = 0
    for at, ran in enumerate((left, right)):
        only, unknown = set[tuple[str, int]](), 0
        for group in difference.groups:
            listed = (group.only_left, group.only_right)[at]
            assert listed.count == len(listed.items)
            for item in listed.items:
                path, _, number = (item.location or "").rpartition(":")
                only.add((path, int(number)))
            unknown += (group.undecided_left, group.undecided_right)[at].count
        undecided += unknown
        of_place = {(path, number): (path, at_, number) for path, at_, number in ran.rows}
        rows = {of_place[place] for place in only}
        by_place = rows & placed[at]
        # Lines of versions that both read are decided, each one rightly.
        assert by_place == placed[at] - placed[1 - at]
        assert Counter(ran.rows[row] for row in rows - by_place) <= texts[at] - both
        total = len(placed[0] & placed[1]) + same_texts + len(only) + unknown
        assert total == len(ran.rows)
    assert difference.exact == (undecided == 0)
    if all(map(runs.is_readable, (*others[0], *others[1]))):
        assert (same_texts, undecided) == (both.total(), 0)
    assert difference.complete


@settings(max_examples=examples(25))
@given(
    st.dictionaries(st.sampled_from(NAMES), st.tuples(files(), changes()), min_size=1),
    st.booleans(),
    st.booleans(),
)
def test_rows_are_in_both_runs_or_in_one_or_not_known(
    drawn: dict[str, tuple[File, Change]], elsewhere: bool, summed: bool
) -> None:
    """``elsewhere``: the second run reads another folder, with copies of the files that are kept."""
    with tempfile.TemporaryDirectory() as name:
        runs = Runs(Path(name).resolve(), summed=summed)
        folders = runs.folder / "in", runs.folder / ("other" if elsewhere else "in")
        first: dict[Path, File] = {}
        for file_name, (file, _) in drawn.items():
            runs.write(folders[0] / file_name, file.lines)
            first[folders[0] / file_name] = file
        left = runs.run("app-1", first)
        second: dict[Path, File] = {}
        for file_name, (file, change) in drawn.items():
            path = folders[1] / file_name
            if change.kept:
                if elsewhere:
                    runs.write(path, file.lines)
                picked = frozenset(at for at in change.picked if at < len(file.lines))
                second[path] = File(file.lines, picked)
            elif change.other is not None:
                runs.write(path, change.other.lines)
                second[path] = change.other
        if not second:
            second = first
        right = runs.run("app-2", second)
        check(compare(runs, left, right), runs, left, right)
        check(compare(runs, right, left), runs, right, left)
        with pytest.raises(TraceError, match="two runs are compared"):
            compare(runs, left, left)
