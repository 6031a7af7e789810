"""Answers at levels above rows: their bounds, and rows that lie in no container or can't be told apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.message import (
    Link,
    RecordSplit,
    RecordSplits,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
)
from lineage_core.contract.region import Region
from lineage_core.errors import AddressError, LineageError
from lineage_core.tracing.budget import Budget, TooMuchError, use_budget
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query import folders, levels
from lineage_query.answers import Answer
from lineage_query.engine import QueryEngine
from lineage_query.rows.places import LocationError
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import LEVELS, TraceQuery
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import flows, store_run

pytestmark = pytest.mark.unit
MANY = 10**9


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return f"sqlite:///{tmp_path}/lineage.db"


def ask(url: str, query: TraceQuery) -> Answer:
    with SqliteStore(url.removeprefix("sqlite:///")) as store:
        return QueryEngine(store, RowReader()).ask(query)


def containers(answer: Answer) -> dict[str, int]:
    return {container.name: container.rows for container in answer.containers}


def store_copies(folder: Path) -> None:
    """A job that copied a file of very many rows, each to the same place."""
    spool = Spool(folder / "spool")
    spool.begin()
    spool.node("0", "source", "textFile", alias="read", path="in.txt")
    spool.node("1", "sink", "saveAsTextFile", alias="write", path="out")
    spool.send(Link(app=spool.app, src="0", dest="1"))
    split = Split(
        partition=0, path=f"file:{folder}/in.txt", start=0, length=9, file_size=9, mtime=5.0
    )
    spool.send(Splits(app=spool.app, node="0", splits=(split,)))
    block = FlowBlock(
        BlockId("1", 0, 3, 0),
        Relation.IDENTITY,
        "0#0",
        (Section("1#0", 0, 1),),
        np.array([0], np.uint64),
        np.array([0], np.uint64),
        in_last=np.array([MANY - 1], np.uint64),
        out_last=np.array([MANY - 1], np.uint64),
        app=spool.app,
    )
    spool.task("1", 0, 3, [block], flows=1, rows=MANY)
    spool.job("1", n1=1)
    file = SinkFile(partition=0, path=f"file:{folder}/out/part-00000", size=9, mtime=5.0, rows=MANY)
    spool.send(SinkFiles(app=spool.app, node="1", path="out", files=(file,)))
    spool.end(blocks=1, tasks=1)
    with SqliteStore(folder / "lineage.db") as store:
        ingest_all(store, folder / "spool")


def test_rows_of_ranges_are_counted_and_not_listed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_copies(tmp_path)
    whole = Region(np.array([0], np.uint64), np.array([MANY - 1], np.uint64))
    query = TraceQuery(Direction.BACKWARD, (), app="app-1", regions={"1#0": whole}, by="file")
    positions = Region.positions

    def few_positions(region: Region, limit: int | None = None) -> object:
        assert region.count <= levels.START_ITEMS
        return positions(region, limit)

    monkeypatch.setattr(Region, "positions", few_positions)
    with use_budget(Budget(seconds=20)):
        answer = ask(url, query)
    assert containers(answer) == {"in.txt": MANY}
    assert (answer.groups[0].count, answer.groups[0].items) == (MANY, ())
    assert (answer.exact, answer.complete, answer.changed) == (True, True, True)
    assert len(answer.start[0].items) == levels.START_ITEMS


def test_a_level_that_does_not_exist_is_refused(url: str, tmp_path: Path) -> None:
    store_run(url, tmp_path)
    with pytest.raises(TraceError, match="there is no level 'folder'"):
        ask(url, TraceQuery(Direction.BACKWARD, ("out/part-00000:1",), by="folder"))


def test_a_level_that_does_not_exist_is_refused_before_the_trace(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_run(url, tmp_path)

    def trace(*_: object) -> None:
        raise AssertionError("it was traced")

    monkeypatch.setattr(QueryEngine, "_trace_part", trace)
    for query in (
        TraceQuery(Direction.BACKWARD, ("out/part-00000:1",), by="folder"),
        TraceQuery(Direction.BACKWARD, ("write#0#0",), app="app-1", by="folder"),
        TraceQuery(Direction.FORWARD, ("in.txt:1",), by="folder"),
    ):
        with pytest.raises(TraceError, match="there is no level 'folder'"):
            ask(url, query)


def test_containers_are_bounded(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_run(url, tmp_path)
    query = TraceQuery(Direction.BACKWARD, ("out/part-00000:1",), by="split")
    assert len(ask(url, query).containers) == 2
    monkeypatch.setattr(levels, "CONTAINERS_MAX", 1)
    with pytest.raises(TooMuchError, match="more than 1 splits"):
        ask(url, query)


def test_a_changed_file_is_reported_at_every_level(url: str, tmp_path: Path) -> None:
    run = store_run(url, tmp_path)
    run.source.write_text("other\n")
    for level in LEVELS:
        answer = ask(url, TraceQuery(Direction.BACKWARD, ("out/part-00000:1",), by=level))
        assert answer.changed, level
        assert answer.groups[0].changed, level
        assert any("in.txt has changed" in warning for warning in answer.warnings), level


def test_items_on_the_way_lie_in_tasks_and_in_no_file(url: str, tmp_path: Path) -> None:
    store_run(url, tmp_path)
    step = TraceQuery(Direction.BACKWARD, ("out/part-00000:2",), steps=1)
    for level, expected in (("task", {"write#0.2": 1}), ("node", {"2": 1}), ("file", {})):
        answer = ask(url, replace(step, by=level))
        assert containers(answer) == expected
        assert [rows.rows for rows in answer.outside] == ([1] if level == "file" else [])


def test_rows_that_can_not_be_told_apart_are_said_to_count_twice(url: str, tmp_path: Path) -> None:
    """Two nodes read a file in other splits, no task counted rows, and the file is gone: their second splits may overlap."""
    spool = Spool(tmp_path / "spool")
    spool.begin()
    spool.node("2", "sink", "saveAsTextFile", alias="write", path="out")
    for node, cut in (("0", 3), ("1", 5)):
        spool.node(node, "source", "textFile", alias="read", path="in.txt")
        spool.send(Link(app=spool.app, src=node, dest="2"))
        splits = tuple(
            Split(
                partition=partition,
                path=f"file:{tmp_path}/in.txt",
                start=start,
                length=length,
                file_size=12,
                mtime=5.0,
            )
            for partition, (start, length) in enumerate(((0, cut), (cut, 12 - cut)))
        )
        spool.send(Splits(app=spool.app, node=node, splits=splits))
        block = flows(BlockId("2", int(node), 0, 0), f"{node}#1", "2#0", [([0], 0)], spool.app)
        spool.task("2", int(node), 0, [block], flows=1, rows=1)
    spool.job("2", n2=2)
    spool.end(blocks=2, tasks=2)
    with SqliteStore(tmp_path / "lineage.db") as store:
        ingest_all(store, tmp_path / "spool")
    answer = ask(url, TraceQuery(Direction.BACKWARD, ("2#0#0",), by="file"))
    assert containers(answer) == {"in.txt": 2}
    assert any("may count more than once" in warning for warning in answer.warnings)


def test_folders_have_the_files_of_then_and_of_now(url: str, tmp_path: Path) -> None:
    run = store_run(url, tmp_path)
    asked = TraceQuery(Direction.BACKWARD, ("out/",))
    whole = ask(url, asked)
    assert (whole.complete, whole.groups[0].count, whole.requested_places) == (True, 6, ("out/",))
    (tmp_path / "out" / "part-00007").write_text("of another\n")
    (tmp_path / "out" / "_SUCCESS").write_text("")
    more = ask(url, asked)
    assert (more.complete, more.groups[0].count) == (False, 6)
    assert any("part-00007: rows of 1 file are left out" in warning for warning in more.warnings)
    (tmp_path / "out" / "part-00007").unlink()
    run.sink.rename(tmp_path / "kept")
    with pytest.raises(LineageError, match="out"):
        ask(url, asked)
    gone = ask(url, replace(asked, app="app-1"))
    assert (gone.changed, gone.groups[0].count) == (True, 6)
    assert any("no longer exists" in warning for warning in gone.warnings)
    forward = ask(url, TraceQuery(Direction.FORWARD, (str(tmp_path),), by="node"))
    assert containers(forward) == {"write": 4}


def test_folders_of_very_many_files_are_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_run(url, tmp_path)
    monkeypatch.setattr(folders, "FILES_MAX", 0)
    with pytest.raises(TooMuchError, match="at most 0 of a folder"):
        ask(url, TraceQuery(Direction.BACKWARD, ("out",)))


@pytest.mark.parametrize("counted", [True, False])
def test_whole_files_and_their_splits(url: str, tmp_path: Path, counted: bool) -> None:
    store_run(url, tmp_path, counted=counted)
    forward = TraceQuery(Direction.FORWARD, ("in.txt",))
    (group,) = ask(url, forward).groups
    assert [item.location for item in group.items] == [
        f"out/part-00000:{line}" for line in (1, 2, 3, 5)
    ]
    found = containers(ask(url, TraceQuery(Direction.BACKWARD, ("out/part-00000",), by="split")))
    assert found == {"in.txt@0+5": 2, "in.txt@5+11": 4}
    by_split = {
        name: [item.location for item in ask(url, replace(forward, places=(name,))).groups[0].items]
        for name in found
    }
    assert by_split == {
        "in.txt@0+5": [f"out/part-00000:{line}" for line in (1, 2, 3)],
        "in.txt@5+11": [f"out/part-00000:{line}" for line in (1, 2, 5)],
    }
    for place in ("in.txt@0+4", "out/part-00000@0+1"):
        with pytest.raises(LocationError, match="split"):
            ask(url, replace(forward, places=(place,)))


def test_a_task_is_asked_for_what_it_read_and_made(url: str, tmp_path: Path) -> None:
    store_run(url, tmp_path)
    back = ask(url, TraceQuery(Direction.BACKWARD, ("2#1.1",)))
    # The first task put out a and b, too: what it read for them is not of this task.
    assert [item.address for item in back.groups[0].items] == [
        f"read#1#{row}" for row in (0, 1, 2, 3)
    ]
    forward = ask(url, TraceQuery(Direction.FORWARD, ("2#0.0",)))
    assert [item.address for item in forward.groups[0].items] == [
        f"write#0#{row}" for row in (0, 1, 2)
    ]
    for task, error in (("2#1.0", LocationError), ("7#0.0", AddressError)):
        with pytest.raises(error):
            ask(url, TraceQuery(Direction.BACKWARD, (task,)))


def test_files_that_are_an_item_each_are_told_apart(url: str, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.begin()
    spool.node("0", "source", "wholeTextFiles", alias="read", path="in")
    spool.node("1", "sink", "collect", alias="collect")
    spool.send(Link(app=spool.app, src="0", dest="1"))
    (tmp_path / "in").mkdir()
    splits: list[RecordSplit] = []
    for row, name in enumerate("abc"):
        file = tmp_path / "in" / name
        file.write_text(name)
        splits.append(
            RecordSplit(
                partition=0,
                path=f"file:{file}",
                row=row,
                start=0,
                length=1,
                file_size=1,
                mtime=file.stat().st_mtime,
            )
        )
    spool.send(RecordSplits(app=spool.app, node="0", whole=True, splits=tuple(splits)))
    block = flows(BlockId("1", 0, 0, 0), "0#0", "1#0", [([0, 2], 0), ([1], 1)], spool.app)
    spool.task("1", 0, 0, [block], flows=2, rows=2)
    spool.job("1", n1=1)
    spool.end(blocks=1, tasks=1)
    with SqliteStore(tmp_path / "lineage.db") as store:
        ingest_all(store, tmp_path / "spool")
    answer = ask(url, TraceQuery(Direction.BACKWARD, ("1#0#0",), by="file"))
    assert containers(answer) == {"in/a": 1, "in/c": 1}
    for place, rows in (("in/b", 1), ("in", 2)):
        forward = ask(url, TraceQuery(Direction.FORWARD, (place,), by="file"))
        assert (containers(forward), [one.rows for one in forward.outside]) == ({}, [rows])
