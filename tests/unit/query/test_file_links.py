"""Which applications are named where a file leads no further, and how many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lineage_core.contract.message import (
    Begin,
    Message,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    SinkFile,
    SinkFiles,
)
from lineage_core.contract.times import time_text
from lineage_core.tracing.trace_result import Direction
from lineage_query.all_jobs import FileLinks
from lineage_query.copy_links import VERSIONS_MAX
from lineage_query.engine import QueryEngine
from lineage_query.job_links import NAMED_MAX, FileNode
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.dataset_paths import table_of_database
from lineage_store.recorded_files import FileQuery, RecordedFiles
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.chained_runs import spool_job
from tests.support.spool_builder import Spool

PATH = "/data/part-00000"
WRITER = FileNode("writer", "0")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """The store, in which one application wrote the file."""
    with SqliteStore(tmp_path / "store.db") as store:
        _write(store, "writer", size=10, mtime=5.0, checksum="sha256:aa")
        yield store


def _write(
    store: SqliteStore, app: str, *, size: int, mtime: float, checksum: str = "", path: str = PATH
) -> None:
    file = SinkFile(partition=0, path=path, size=size, mtime=mtime, checksum=checksum)
    files = SinkFiles(app=app, node="0", path="/data", files=(file,))
    store.write(app, [Begin(app=app, name=app, started_at=mtime), files])


def _read(
    store: SqliteStore, app: str, *, size: int, mtime: float, checksum: str = "", path: str = PATH
) -> None:
    split = RecordSplit(
        partition=0,
        path=path,
        start=0,
        length=size,
        file_size=size,
        mtime=mtime,
        checksum=checksum,
    )
    splits = RecordSplits(app=app, node="0", whole=False, splits=(split,))
    store.write(app, [Begin(app=app, name=app, started_at=mtime), splits])


@pytest.mark.parametrize(
    ("version", "is_named"),
    [
        ({"size": 10, "mtime": 50.0}, True),
        # Edited, appended to or cut by nobody that is known: its rows may still be there.
        ({"size": 10, "mtime": 50.0, "checksum": "sha256:bb"}, True),
        ({"size": 20, "mtime": 50.0}, True),
        ({"size": 5, "mtime": 50.0}, True),
        ({"size": 10, "mtime": 5.0, "checksum": "sha256:bb"}, True),
        # What was there before it was written.
        ({"size": 20, "mtime": 1.0}, False),
        # What another application wrote instead.
        ({"size": 30, "mtime": 40.0}, False),
    ],
)
def test_readers_of_versions_that_may_hold_what_was_written_are_named(
    store: SqliteStore, version: Mapping[str, float], is_named: bool
) -> None:
    _write(store, "later", size=30, mtime=40.0)
    _read(store, "reader", **version)  # type: ignore[arg-type]
    links = FileLinks(store, Direction.FORWARD, RowReader()).of(WRITER, PATH, is_end=True)
    assert links.nodes == ()
    assert [gap.app for gap in links.refused] == ["reader"] * is_named


def test_back_at_a_table_of_a_database_it_is_not_known_who_wrote_its_rows(
    store: SqliteStore,
) -> None:
    store.write("asks", [Begin(app="asks", name="asks", started_at=9.0)])
    links = FileLinks(store, Direction.BACKWARD, RowReader())
    (gap,) = links.of_rows_in_no_place(FileNode("asks", "3"), "postgresql://db/sales.orders")
    assert gap.app == "asks"
    assert "whether another application wrote its rows is not known" in gap.reason


def _use_table(
    store: SqliteStore,
    app: str,
    name: str,
    at: float,
    *,
    wrote: bool,
    address: str = "jdbc:x:db",
    version: str | None = None,
) -> None:
    table = table_of_database(address, name)
    assert table is not None
    use = {"app": app, "node": "0", "version": time_text(at) if version is None else version}
    if wrote:
        file = SinkFile(partition=0, path=table.path, size=0, mtime=at)
        message: Message = RecordFiles(path=table.path, files=(file,), **use)
    else:
        split = RecordSplit(partition=0, path=table.path, start=0, length=0, file_size=0, mtime=at)
        message = RecordSplits(whole=False, splits=(split,), **use)
    store.write(app, [Begin(app=app, name=app, started_at=at), message])


@pytest.mark.parametrize("direction", list(Direction))
def test_who_used_a_table_of_a_database_is_named_by_name_and_time(
    store: SqliteStore, direction: Direction
) -> None:
    is_backward = direction is Direction.BACKWARD
    _use_table(store, "origin", "public.orders", 100.0, wrote=not is_backward)
    for name, at in (("Orders", 80.0), ('shop."PUBLIC".orders', 90.0), ("orders", 110.0)):
        _use_table(store, f"{name} {at:g}", name, at, wrote=is_backward)
    for name in ("hr.orders", "places"):
        for at in (90.0, 110.0):
            _use_table(store, f"{name} {at:g}", name, at, wrote=is_backward)
    _use_table(store, "elsewhere", "orders", 90.0, wrote=is_backward, address="jdbc:x:other")
    _use_table(store, "elsewhen", "orders", 110.0, wrote=is_backward, address="jdbc:x:other")
    # A file of that name is none of it, at whatever time.
    _write(store, "file", size=0, mtime=100.0, path="/data/orders")
    _read(store, "reader of file", size=0, mtime=100.0, path="/data/orders")
    # Those that did as the origin does.
    _use_table(store, "same side", "orders", 100.0, wrote=not is_backward)
    links = FileLinks(store, direction, RowReader())
    *named, own = links.of_rows_in_no_place(FileNode("origin", "0"), "jdbc:x:db/public.orders")
    in_time = ['shop."PUBLIC".orders 90', "Orders 80"] if is_backward else ["orders 110"]
    assert [gap.app for gap in named] == in_time
    assert own.app == "origin"
    assert "is not known" in own.reason
    # Nor is the table what a file of its name was copied from.
    origin = FileNode("reader of file" if is_backward else "file", "0")
    assert links.of(origin, "/data/orders", is_end=True).copies == ()


@pytest.mark.parametrize(
    ("read", "is_named"),
    [
        ("0:5-6", True),
        ("0:0-5", False),
        ("0:9-20 1:0-3", False),
        ("0:9-20 1:0-4", True),
        ("2:0-100", False),
        # A partition that is listed twice is read wherever it may be.
        ("0:0-1 0:20-30", True),
        # What is no list of ranges may be any.
        ("", True),
        ("0:0-1;", True),
        ("0:0-\u0661", True),
    ],
)
@pytest.mark.parametrize("direction", list(Direction))
def test_who_used_a_topic_is_named_by_its_offsets(
    store: SqliteStore, direction: Direction, read: str, is_named: bool
) -> None:
    is_backward = direction is Direction.BACKWARD
    _use_table(store, "writes", "t", 10.0, wrote=True, version="0:5-9 1:3-8")
    _use_table(store, "reads", "t", 20.0, wrote=False, version=read)
    origin, other = ("reads", "writes") if is_backward else ("writes", "reads")
    links = FileLinks(store, direction, RowReader())
    gaps = links.of_rows_in_no_place(FileNode(origin, "0"), "t")
    assert (other in {gap.app for gap in gaps}) == is_named
    assert origin in {gap.app for gap in gaps}


def test_a_file_is_no_copy_of_a_table_of_its_name(store: SqliteStore) -> None:
    _use_table(store, "database", "arrived", 7.0, wrote=True)
    _read(store, "reader", path=COPY, size=0, mtime=7.0)
    assert _copies(store, Direction.BACKWARD) == ([], True)


def test_a_reader_of_the_version_is_followed_and_those_of_others_named(store: SqliteStore) -> None:
    _read(store, "reader", size=10, mtime=5.0)
    _read(store, "other", size=12, mtime=7.0)
    links = FileLinks(store, Direction.FORWARD, RowReader()).of(WRITER, PATH, is_end=True)
    assert links.nodes == (FileNode("reader", "0"),)
    assert [gap.app for gap in links.refused] == ["other"]


@pytest.mark.parametrize("direction", list(Direction))
def test_no_more_applications_are_named_for_a_file_than_people_read(
    store: SqliteStore, direction: Direction
) -> None:
    for number in range(NAMED_MAX + 5):
        if direction is Direction.FORWARD:
            _read(store, f"app-{number}", size=11, mtime=50.0)
        else:
            _write(store, f"app-{number}", size=11, mtime=50.0)
    _read(store, "reader", size=11, mtime=50.0)
    origin = WRITER if direction is Direction.FORWARD else FileNode("reader", "0")
    refused = FileLinks(store, direction, RowReader()).of(origin, PATH, is_end=True).refused
    assert len(refused) == NAMED_MAX
    more = 6 if direction is Direction.FORWARD else 5
    assert all(f"{more} more" in gap.reason for gap in refused)


COPY = "/data/arrived"
READER = FileNode("reader", "0")


def _copies(store: SqliteStore, direction: Direction) -> tuple[list[tuple[str, str, bool]], bool]:
    """The copies by which the reader and the writer are linked, and whether nothing is refused."""
    origin, path = (READER, COPY) if direction is Direction.BACKWARD else (WRITER, PATH)
    links = FileLinks(store, direction, RowReader()).of(origin, path, is_end=True)
    assert links.nodes == ()
    copies = [(copy.node.app, copy.path, copy.exact) for copy in links.copies]
    return copies, not links.refused


@pytest.mark.parametrize(
    ("version", "exact"),
    [
        ({"size": 10, "mtime": 5.0, "checksum": "sha256:aa"}, True),
        ({"size": 10, "mtime": 9.0, "checksum": "sha256:aa"}, False),
        # Older than what was written; another content, or none known.
        ({"size": 10, "mtime": 4.0, "checksum": "sha256:aa"}, None),
        ({"size": 10, "mtime": 5.0, "checksum": "sha256:bb"}, None),
        ({"size": 10, "mtime": 5.0}, None),
    ],
)
def test_copies_of_a_file_are_found_by_its_checksum(
    store: SqliteStore, version: Mapping[str, float], exact: bool | None
) -> None:
    _read(store, "reader", path=COPY, **version)  # type: ignore[arg-type]
    linked = [] if exact is None else [("writer", PATH, exact)]
    assert _copies(store, Direction.BACKWARD) == (linked, True)
    linked = [] if exact is None else [("reader", COPY, exact)]
    assert _copies(store, Direction.FORWARD) == (linked, True)


def test_a_copy_of_one_of_several_files_is_refused_and_the_moved_one_preferred(
    store: SqliteStore,
) -> None:
    _read(store, "reader", path=COPY, size=10, mtime=9.0, checksum="sha256:aa")
    _write(store, "same", path="/data/same", size=10, mtime=6.0, checksum="sha256:aa")
    assert _copies(store, Direction.BACKWARD) == ([], False)
    # Whichever it was copied from: forward, each is followed, and not exact.
    assert _copies(store, Direction.FORWARD) == ([("reader", COPY, False)], True)
    _write(store, "moved", path="/data/moved", size=10, mtime=9.0, checksum="sha256:aa")
    assert _copies(store, Direction.BACKWARD) == ([("moved", "/data/moved", True)], True)


def test_one_of_several_equal_files_that_was_moved_is_followed_and_is_not_exact(
    store: SqliteStore,
) -> None:
    _write(store, "twin", path="/data/twin", size=10, mtime=5.0, checksum="sha256:aa")
    _read(store, "reader", path=COPY, size=10, mtime=5.0, checksum="sha256:aa")
    assert _copies(store, Direction.BACKWARD) == ([], False)
    assert _copies(store, Direction.FORWARD) == ([("reader", COPY, False)], True)
    links = FileLinks(store, Direction.FORWARD, RowReader()).of(WRITER, PATH, is_end=True)
    assert "which of them it is, is not known" in links.copies[0].text


def test_a_file_that_was_written_again_and_touched_is_not_exactly_the_first(
    store: SqliteStore,
) -> None:
    _write(store, "again", size=10, mtime=20.0, checksum="sha256:aa")
    _read(store, "reader", size=10, mtime=50.0, checksum="sha256:aa")
    back = FileLinks(store, Direction.BACKWARD, RowReader()).of(READER, PATH, is_end=True)
    assert {gap.app for gap in back.refused} == {"writer", "again"}
    for app in ("writer", "again"):
        links = FileLinks(store, Direction.FORWARD, RowReader()).of(
            FileNode(app, "0"), PATH, is_end=True
        )
        assert [(copy.node.app, copy.exact) for copy in links.copies] == [("reader", False)]
    # A copy that was read before the second write is of the first.
    _read(store, "early", size=10, mtime=7.0, checksum="sha256:aa")
    links = FileLinks(store, Direction.FORWARD, RowReader()).of(WRITER, PATH, is_end=True)
    assert {copy.node.app: copy.exact for copy in links.copies} == {
        "reader": False,
        "early": True,
    }


@pytest.mark.parametrize("direction", list(Direction))
def test_a_copy_that_was_used_in_another_version_too_is_refused(
    store: SqliteStore, direction: Direction
) -> None:
    _read(store, "reader", path=COPY, size=10, mtime=5.0, checksum="sha256:aa")
    other, path = ("writer", PATH) if direction is Direction.BACKWARD else ("reader", COPY)
    use = _write if direction is Direction.BACKWARD else _read
    use(store, other, path=path, size=11, mtime=8.0, checksum="sha256:bb")
    assert _copies(store, direction) == ([], False)


@pytest.mark.parametrize("direction", list(Direction))
def test_copies_of_a_file_that_was_used_in_several_versions_are_refused(
    store: SqliteStore, direction: Direction
) -> None:
    _read(store, "reader", path=COPY, size=10, mtime=9.0, checksum="sha256:aa")
    if direction is Direction.BACKWARD:
        _read(store, "reader", path=COPY, size=11, mtime=12.0, checksum="sha256:bb")
        origin, path, other = READER, COPY, "writer"
    else:
        _write(store, "writer", size=11, mtime=12.0, checksum="sha256:bb")
        origin, path, other = WRITER, PATH, "reader"
    links = FileLinks(store, direction, RowReader()).of(origin, path, is_end=True)
    assert (links.nodes, links.copies) == ((), ())
    assert [gap.app for gap in links.refused] == [other]
    assert "several versions" in links.refused[0].reason


def test_copies_of_a_file_with_very_many_versions_are_not_looked_for(store: SqliteStore) -> None:
    for number in range(VERSIONS_MAX):
        _write(store, "writer", size=20 + number, mtime=20.0 + number, checksum=f"sha256:{number}")
    _read(store, "reader", path=COPY, size=20, mtime=50.0, checksum="sha256:0")
    links = FileLinks(store, Direction.FORWARD, RowReader()).of(WRITER, PATH, is_end=True)
    assert (links.nodes, links.copies) == ((), ())
    assert [gap.app for gap in links.refused] == ["writer"]
    assert "not looked for" in links.refused[0].reason


def test_who_may_have_read_a_copy_is_named(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _read(store, "reader", path=COPY, size=10, mtime=5.0, checksum="sha256:aa")
    find = store.recorded_files

    def recorded(query: FileQuery) -> RecordedFiles:
        found = find(query)
        return RecordedFiles(found.items, ("damaged",)) if query.checksum else found

    monkeypatch.setattr(store, "recorded_files", recorded)
    links = FileLinks(store, Direction.FORWARD, RowReader()).of(WRITER, PATH, is_end=True)
    assert [copy.node.app for copy in links.copies] == ["reader"]
    assert [gap.app for gap in links.refused] == ["damaged"]


def test_what_a_captured_application_wrote_is_no_copy_of_another(store: SqliteStore) -> None:
    _write(store, "own", path=COPY, size=10, mtime=9.0, checksum="sha256:aa")
    _read(store, "reader", path=COPY, size=10, mtime=9.0, checksum="sha256:aa")
    links = FileLinks(store, Direction.BACKWARD, RowReader()).of(READER, COPY, is_end=True)
    assert (links.nodes, links.copies, links.refused) == ((FileNode("own", "0"),), (), ())
    assert _copies(store, Direction.FORWARD) == ([], True)


def test_a_file_that_was_touched_is_the_same(store: SqliteStore) -> None:
    _read(store, "reader", size=10, mtime=50.0, checksum="sha256:aa")
    for direction, origin, other in (
        (Direction.BACKWARD, READER, "writer"),
        (Direction.FORWARD, WRITER, "reader"),
    ):
        links = FileLinks(store, direction, RowReader()).of(origin, PATH, is_end=True)
        assert [(copy.node.app, copy.path, copy.exact) for copy in links.copies] == [
            (other, PATH, True)
        ]
        assert (links.nodes, links.refused) == ((), ())


def test_a_record_of_several_lines_goes_on_by_each_of_them(tmp_path: Path) -> None:
    source, middle, sink = (tmp_path / name for name in ("in", "mid", "out"))
    source.write_text("a\nb\n")
    middle.write_text("a\nstill a\nb\n")
    sink.write_text("of a\nof still a\nof b\n")
    spool = tmp_path / "spool"
    spool_job(Spool(spool, "app-1"), source, middle, [[0], [1]], started_at=1e3, newlines=((0, 1),))
    spool_job(Spool(spool, "app-2"), middle, sink, [[0], [1], [2]], started_at=2e3)
    with SqliteStore(tmp_path / "lineage.db") as store:
        ingest_all(store, spool)
        engine = QueryEngine(store, RowReader())
        for direction, file, expected in (
            (Direction.FORWARD, source, {1: {1, 2}, 2: {3}}),
            (Direction.BACKWARD, sink, {1: {1}, 2: {1}, 3: {2}}),
        ):
            end = sink if file == source else source
            for line, lines in expected.items():
                answer = engine.ask(TraceQuery(direction, (f"{file}:{line}",), all_jobs=True))
                found = {item.location for group in answer.groups for item in group.items}
                assert found == {f"{end}:{number}" for number in lines}
                assert (answer.exact, answer.complete) == (True, True)
