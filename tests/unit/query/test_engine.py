import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.graph import SinkFileRecord, SplitRecord
from lineage_core.contract.message import (
    Begin,
    Link,
    Recipe,
    RecordFiles,
    Register,
    SinkFile,
    Split,
    Splits,
    Unknown,
)
from lineage_core.contract.positions import text_positions
from lineage_core.contract.region import Region
from lineage_core.errors import AddressError
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer
from lineage_query.engine import QueryEngine
from lineage_query.finding import (
    NotFoundError,
    find_application,
    find_readers,
    find_uses,
)
from lineage_query.names import Names, looks_like_address
from lineage_query.recipe_rows import RecipeRowError
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import Location, LocationError, parse_location
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.paths import RowsError, shown_path
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.memory_graph import MemoryGraph, node
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import StoredRun, store_run

pytestmark = pytest.mark.unit


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return f"sqlite:///{tmp_path}/lineage.db"


def ask(url: str, *places: str, forward: bool = False, **more: object) -> Answer:
    direction = Direction.FORWARD if forward else Direction.BACKWARD
    with SqliteStore(url.removeprefix("sqlite:///")) as store:
        return QueryEngine(store, RowReader()).ask(TraceQuery(direction, places, **more))  # type: ignore[arg-type]


def lines(answer: Answer) -> list[str]:
    return [f"{item.location}: {item.text}" for group in answer.groups for item in group.items]


@pytest.mark.parametrize("counted", [True, False])
def test_back_and_forward_by_line(url: str, tmp_path: Path, counted: bool) -> None:
    store_run(url, tmp_path, counted=counted)
    back = ask(url, "out/part-00000:2")
    assert lines(back) == ["in.txt:1: a b", "in.txt:2: b", "in.txt:4: b"]
    (group,) = back.groups
    assert [item.address for item in group.items] == ["read#0#0", "read#0#1", "read#1#2"]
    assert (group.path, group.count, back.exact, back.changed) == ("in.txt", 3, True, False)
    assert any("carriage return" in warning for warning in back.warnings)
    assert lines(ask(url, "in.txt:1", forward=True)) == [
        "out/part-00000:1: a",
        "out/part-00000:2: b",
    ]
    # A lone carriage return cuts the line in two rows: both are meant.
    assert lines(ask(url, "in.txt:4", forward=True)) == [
        "out/part-00000:2: b",
        "out/part-00000:5: d",
    ]


def test_a_record_with_a_newline_spans_two_lines(url: str, tmp_path: Path) -> None:
    store_run(url, tmp_path)
    for line in (3, 4):
        back = ask(url, f"out/part-00000:{line}")
        assert back.start[0].items[0].address == "write#0#2"
        assert back.start[0].items[0].text == "two\nlines"
        assert lines(back) == ["in.txt:2: b"]
    assert lines(ask(url, "out/part-00000:5")) == ["in.txt:4: d"]
    with pytest.raises(LocationError, match="has 5 lines; there is no line 6"):
        ask(url, "out/part-00000:6")
    with pytest.raises(LocationError, match="no line 6"):
        ask(url, "in.txt:6", forward=True)


def test_paths_as_people_type_them(url: str, tmp_path: Path) -> None:
    run = store_run(url, tmp_path)
    (tmp_path / "link").symlink_to(run.sink.parent)
    for path in (run.sink, f"file:{run.sink}", f"file://{run.sink}", "./out//part-00000"):
        assert ask(url, f"{path}:2").groups[0].count == 3
    assert ask(url, "link/part-00000:2").groups[0].count == 3


def test_addresses_and_several_places(url: str, tmp_path: Path) -> None:
    store_run(url, tmp_path)
    assert ask(url, "write#0#1").groups == ask(url, "3#0#1").groups
    assert lines(ask(url, "write#0#3", "out/part-00000:3")) == ["in.txt:2: b", "in.txt:4: d"]
    step = ask(url, "write#0#1", steps=1)
    assert step.groups[0].what == "reduceByKey"
    assert step.groups[0].items[0].address.startswith("2@0#")
    assert ask(url, "write#0#1", until="2").groups == step.groups
    with pytest.raises(AddressError, match="known: read, write"):
        ask(url, "nothing#0#1")
    with pytest.raises(TraceError, match=r"flatMap\) keeps no items"):
        ask(url, "write#0#1", until="1")


def test_the_limit_bounds_items_not_counts(url: str, tmp_path: Path) -> None:
    store_run(url, tmp_path)
    for limit in (0, 1, 2, 3, 9):
        (group,) = ask(url, "write#0#1", limit=limit).groups
        assert (group.count, len(group.items)) == (3, min(limit, 3))


def test_a_changed_source_is_said_to_have_changed(url: str, tmp_path: Path) -> None:
    run = store_run(url, tmp_path)
    with run.source.open("a") as file:
        file.write("more\n")
    back = ask(url, "out/part-00000:1")
    assert back.changed
    assert back.groups[0].changed
    assert any("in.txt has changed" in warning for warning in back.warnings)
    run.source.unlink()
    gone = ask(url, "out/part-00000:1")
    assert gone.changed
    assert any("in.txt no longer exists" in warning for warning in gone.warnings)
    assert not any("has changed" in warning for warning in gone.warnings)
    assert [item.location for item in gone.groups[0].items] == ["in.txt:1", "in.txt:3", "in.txt:6"]
    assert [item.text for item in gone.groups[0].items] == [None] * 3


def test_a_change_between_two_questions_is_noticed(url: str, tmp_path: Path) -> None:
    run = store_run(url, tmp_path)
    question = TraceQuery(Direction.BACKWARD, ("write#0#0",))
    with SqliteStore(url.removeprefix("sqlite:///")) as store:
        query_engine = QueryEngine(store, RowReader())
        assert not query_engine.ask(question).changed
        run.source.write_text("all new\n")
        assert query_engine.ask(question).changed


def test_rows_that_can_not_be_counted_any_more_have_no_line(url: str, tmp_path: Path) -> None:
    run = store_run(url, tmp_path, counted=False)
    run.source.unlink()
    items = ask(url, "out/part-00000:1").groups[0].items
    assert [item.location for item in items] == ["in.txt:1", None, None]
    with pytest.raises(RowsError, match="has changed"):
        ask(url, "in.txt:4", forward=True)


def test_an_overwritten_output_is_said_to_be_one(url: str, tmp_path: Path) -> None:
    run = store_run(url, tmp_path)
    run.sink.write_text("something else\n")
    back = ask(url, "out/part-00000:1")
    assert back.changed
    assert any("has changed since app-1 wrote it" in warning for warning in back.warnings)
    run.sink.unlink()
    back = ask(url, "out/part-00000:1")
    assert any("the file no longer exists;" in warning for warning in back.warnings)
    assert not any("has changed" in warning for warning in back.warnings)


def touch(run: StoredRun, mtime: float) -> None:
    os.utime(run.sink, (mtime, mtime))


def test_the_run_that_wrote_the_file_as_it_is_now_is_chosen(url: str, tmp_path: Path) -> None:
    run = store_run(url, tmp_path, "app-1", started_at=1000.0)
    touch(run, 5000.0)
    store_run(url, tmp_path, "app-2", started_at=2000.0)
    assert ask(url, "out/part-00000:1").app == "app-2"
    first = ask(url, "out/part-00000:1", app="app-1")
    assert first.app == "app-1"
    assert first.changed
    touch(run, 6000.0)
    store_run(url, tmp_path, "app-0", started_at=500.0)
    assert ask(url, "out/part-00000:1").app == "app-0"
    assert ask(url, "write#0#1").app == "app-2"
    assert ask(url, "in.txt:1", forward=True).apps == ("app-2", "app-1", "app-0")
    # A node is one of some application.
    forward = ask(url, "in.txt:1", forward=True, until="write")
    assert forward.app == "app-2"
    (warning,) = (text for text in forward.warnings if "also read it" in text)
    assert warning.startswith("in.txt:1: the trace covers app-2 only; app-1, app-0 also read it")
    assert not any("too" in w for w in ask(url, "in.txt:1", forward=True, app="app-1").warnings)


def test_an_input_traced_back_is_itself(url: str, tmp_path: Path) -> None:
    store_run(url, tmp_path)
    back = ask(url, "in.txt:2")
    assert lines(back) == ["in.txt:2: b"]
    assert any("nothing lies before it" in warning for warning in back.warnings)


def note_frames(url: str, app: str, source: Path, output: Path) -> None:
    """Beside what the application has: a DataFrame read a file of text and wrote one of records."""
    state, written = source.stat(), output.stat()
    split = Split(
        partition=0,
        path=f"file:{source}",
        start=0,
        length=state.st_size,
        file_size=state.st_size,
        mtime=state.st_mtime,
    )
    file = SinkFile(
        partition=0, path=f"file:{output}", size=written.st_size, mtime=written.st_mtime
    )
    with SqliteStore(url.removeprefix("sqlite:///")) as store:
        store.write(
            app,
            [
                Register(app=app, node="9.0", kind="frame-source", op="text", name="text"),
                Register(app=app, node="9", kind="frame", op="save", name="save", alias="saved"),
                Link(app=app, src="9.0", dest="9"),
                Recipe(app=app, node="9", recipe='{"version":1}'),
                Splits(app=app, node="9.0", splits=(split,)),
                RecordFiles(app=app, node="9", path="frames", files=(file,)),
            ],
        )


def test_rows_of_frames_are_not_looked_up(url: str, tmp_path: Path) -> None:
    run = store_run(url, tmp_path)
    output = tmp_path / "part-0.parquet"
    output.write_bytes(b"PAR1")
    note_frames(url, run.app, run.source, output)
    for place, node_id in ((f"{output}#0", "9"), ("saved#0#0", "9"), ("9.0#0#1", "9.0")):
        with pytest.raises(RecipeRowError, match="query over the recorded recipe") as refused:
            ask(url, place)
        assert (refused.value.app, refused.value.nodes) == (run.app, (node_id,))
    # What an RDD made of the same file is known, and it is said what is left out.
    forward = ask(url, "in.txt:1", forward=True)
    assert lines(forward) == ["out/part-00000:1: a", "out/part-00000:2: b"]
    assert any(
        "rows that DataFrames computed from it are left out" in one for one in forward.warnings
    )
    assert ([one.node for one in forward.not_queried], forward.complete) == (["9.0"], False)
    assert lines(ask(url, "out/part-00000:2"))


def test_what_is_not_there_is_refused(url: str, tmp_path: Path) -> None:
    run = store_run(url, tmp_path)
    (tmp_path / "other.txt").write_text("x\n")
    with pytest.raises(NotFoundError, match="no application read or wrote"):
        ask(url, "other.txt:1")
    with pytest.raises(NotFoundError, match="no such file"):
        ask(url, "gone.txt:1")
    with pytest.raises(NotFoundError, match="did not read or write"):
        ask(url, "other.txt:1", app="app-1")
    with pytest.raises(LocationError, match="from 1"):
        ask(url, f"{run.sink}:0")
    with pytest.raises(LocationError, match=r"folder; .*out/part-00000:1"):
        ask(url, "out:3")
    (tmp_path / "empty").mkdir()
    for place in ("empty", "empty/", f"file:{tmp_path}/empty"):
        with pytest.raises(LocationError, match=r"no known file; .*empty/part-00000:1"):
            ask(url, place)


def test_a_file_may_be_of_a_part_that_is_not_known(url: str, tmp_path: Path) -> None:
    store_run(url, tmp_path)
    spool = Spool(tmp_path / "spool", "partly")
    spool.begin(2000.0)
    spool.send(Unknown(app="partly", what="RDD.saveAsPickleFile", reason="", call_site="job.py:3"))
    spool.end()
    with SqliteStore(url.removeprefix("sqlite:///")) as store:
        ingest_all(store, tmp_path / "spool")
    (tmp_path / "other.txt").write_text("x\n")
    with pytest.raises(NotFoundError, match=r"without lineage of partly \(.*: RDD.saveAsPickleF"):
        ask(url, "other.txt:1")
    os.utime(tmp_path / "other.txt", (1500.0, 1500.0))
    with pytest.raises(NotFoundError, match=r"the store$"):
        ask(url, "other.txt:1")


def test_an_item_that_does_not_exist_is_refused(url: str, tmp_path: Path) -> None:
    store_run(url, tmp_path)
    with pytest.raises(LocationError, match="has 4 rows, counted from 0; there is no write#0#7"):
        ask(url, "write#0#7")
    with pytest.raises(LocationError, match="no such partition"):
        ask(url, "write#5#0")
    with pytest.raises(LocationError, match="no read#1#4"):
        ask(url, "read#1#4", forward=True)
    with pytest.raises(LocationError, match="no item 2@0#7"):
        ask(url, "2@0#7")


def test_incomplete_lineage_is_said_to_be_incomplete(url: str, tmp_path: Path) -> None:
    store_run(url, tmp_path, committed=False)
    back = ask(url, "write#0#1")
    assert not back.complete
    assert any("is incomplete" in warning for warning in back.warnings)
    other = f"{url}2"
    store_run(other, tmp_path)
    assert ask(other, "write#0#1").complete


def test_applications_by_prefix(url: str, tmp_path: Path) -> None:
    for number, app in enumerate(("local-11", "local-12", "other")):
        store_run(url, tmp_path, app, started_at=float(number))
    with SqliteStore(url.removeprefix("sqlite:///")) as store:
        assert find_application(store, None) == "other"
        assert find_application(store, "latest") == "other"
        assert find_application(store, "local-11") == "local-11"
        assert find_application(store, "o") == "other"
        with pytest.raises(NotFoundError, match="local-12, local-11"):
            find_application(store, "local")
        with pytest.raises(NotFoundError, match="lineage apps"):
            find_application(store, "x")


def test_opaque_strings_of_a_program_instrumented_by_hand(url: str, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", "by-hand")
    spool.begin()
    for name in ("orders", "bills"):
        spool.node(name, "operator", name)
    spool.send(Link(app="by-hand", src="orders", dest="bills"))
    given = {"bill:7": ["order-1", "order 2"], "bill:8": ["order 2"]}
    pairs = [(source, bill) for bill, sources in given.items() for source in sources]
    flows = FlowBlock(
        BlockId("bills", 0, 0, 0),
        Relation.ROWS,
        "*@0",
        (Section("*@0", 0, 3),),
        text_positions([source for source, _ in pairs]),
        text_positions([bill for _, bill in pairs]),
        in_text=[source for source, _ in pairs],
        out_text=[bill for _, bill in pairs],
        app="by-hand",
    )
    spool.task("bills", 0, 0, [flows])
    spool.end()
    with SqliteStore(url.removeprefix("sqlite:///")) as store:
        ingest_all(store, tmp_path / "spool")
    back = ask(url, "bill:7")
    assert [group.node for group in back.groups] == ["orders"]
    assert sorted(str(item.text) for item in back.groups[0].items) == ["order 2", "order-1"]
    (group,) = ask(url, "order 2", forward=True).groups
    assert (group.node, group.count) == ("bills", 2)
    with pytest.raises(NotFoundError):
        ask(url, "bill:9")


def test_names_of_several_sources() -> None:
    names = Names(
        [
            node("0", "source", alias="read", path="data/flights.csv"),
            node("1", "source", alias="read:airports", path="airports.csv"),
            node("2"),
            node("3", "sink", alias="write", path="out"),
        ]
    )
    assert [names.label(n) for n in "0123"] == ["read:flights", "read:airports", "2", "write"]
    assert [names.node(n) for n in ("read:flights", "read", "2", "write")] == ["0", "0", "2", "3"]
    assert names.space("0#4") == "read:flights#4"
    graph = MemoryGraph([], [], [])
    assert names.find("read:flights#0#6", graph) == {"0#0": Region.from_positions([6])}
    assert names.find("*@0#6", graph) == {"*@0": Region.from_positions([6])}
    with pytest.raises(AddressError):
        names.find("read#x#6", graph)
    assert looks_like_address("read:flights#0#6")
    assert looks_like_address("4@3#123")
    assert not looks_like_address("out/part-00000:2")
    assert not looks_like_address("a#b:2")


@pytest.mark.parametrize(
    ("newlines", "expected"),
    [
        ((), [1, 2, 3, 4]),
        (((0, 2),), [1, 4, 5, 6]),
        (((1, 1), (2, 3)), [1, 2, 4, 8]),
        (((3, 1),), [1, 2, 3, 4]),
    ],
)
def test_lines_of_output_rows(newlines: tuple[tuple[int, int], ...], expected: list[int]) -> None:
    file = SinkFileRecord("3", 0, "/gone/part-00000", 9, 1.0, 4, newlines)
    graph = MemoryGraph([node("3", "sink")], [], [], file_list=[file])
    places = Locations(graph, RowReader())
    (rows,) = places.rows_of("3#0", Region.from_positions(range(4)))
    assert rows.numbers is not None
    assert rows.numbers.tolist() == expected
    assert rows.texts == [None] * 4
    assert rows.changed
    for row, line in enumerate(expected):
        for within in range(dict(newlines).get(row, 0) + 1):
            found = places.items_at("3", Location("/gone/part-00000", line + within))
            assert found == {"3#0": Region.from_positions([row])}


def split(partition: int, path: str, start: int = 0, **more: Any) -> SplitRecord:
    length = more.pop("length", 40)
    rows = more.pop("rows", None)
    return SplitRecord("0", partition, path, start, length, 80, 1.0, False, rows, **more)


def located(graph: MemoryGraph, space: str, *positions: int) -> list[str | None]:
    found = Locations(graph, RowReader()).rows_of(space, Region.from_positions(positions))
    assert all(rows.texts == [None] * len(rows.positions) for rows in found)
    return [place for rows in found for place in rows.places(rows.path)]


def items(graph: MemoryGraph, place: str) -> dict[str, list[int]]:
    found = Locations(graph, RowReader()).items_at("0", parse_location(place))
    return {space: region.positions().tolist() for space, region in found.items()}


def source_of(*splits: SplitRecord) -> MemoryGraph:
    return MemoryGraph([node("0", "source")], [], [], split_list=list(splits))


def test_records_are_numbered_through_the_splits_of_their_file() -> None:
    graph = source_of(
        split(2, "/gone/b", unit="record", rows=2),
        split(0, "/gone/a", 40, unit="record"),
        split(1, "/gone/a", unit="record", rows=3),
    )
    assert located(graph, "0#1", 0, 2) == ["/gone/a#0", "/gone/a#2"]
    assert located(graph, "0#0", 0, 9) == ["/gone/a#3", "/gone/a#12"]
    assert located(graph, "0#2", 1) == ["/gone/b#1"]
    assert located(graph, "0#0.7", 1) == []
    assert items(graph, "/gone/a#2") == {"0#1": [2]}
    assert items(graph, "/gone/a#5") == {"0#0": [2]}
    with pytest.raises(LocationError, match=r"had 2 records .*; there is no record 2"):
        items(graph, "/gone/b#2")
    places = Locations(graph, RowReader())
    assert places.unit("0", "/gone/a") == "record"
    assert places.unit("0", "/gone/c") is None


def test_a_record_behind_others_that_nobody_counted_has_no_number() -> None:
    uncounted = [split(at, "/gone/a", 40 * at, unit="record") for at in (0, 1)]
    graph = source_of(*uncounted)
    assert located(graph, "0#0", 1) == ["/gone/a#1"]
    assert located(graph, "0#1", 1) == [None]
    with pytest.raises(RowsError, match="not all read"):
        items(graph, "/gone/a#7")
    # Where all are equally long, nobody has to count.
    graph = source_of(*(replace(one, first=10 * one.partition) for one in uncounted))
    assert located(graph, "0#1", 1) == ["/gone/a#11"]
    assert items(graph, "/gone/a#11") == {"0#1": [1]}


def test_a_folder_that_was_moved_is_known_by_the_link_left_in_its_place(
    url: str, tmp_path: Path
) -> None:
    run = store_run(url, tmp_path)
    folder = run.sink.parent
    moved = folder.rename(tmp_path / "archive")
    folder.symlink_to(moved)
    for there in (folder, moved):
        answer = ask(url, f"{there / run.sink.name}:1")
        assert answer.app == run.app
    folder.unlink()
    with pytest.raises(NotFoundError, match="no application read or wrote"):
        ask(url, f"{moved / run.sink.name}:1")


def test_who_knew_a_moved_folder_is_asked_beside_who_knows_it_by_now(
    url: str, tmp_path: Path
) -> None:
    before = store_run(url, tmp_path, "before")
    moved = before.sink.parent.rename(tmp_path / "archive")
    before.sink.parent.symlink_to(moved)
    state = (moved / before.sink.name).stat()
    split = Split(
        partition=0,
        path=str(moved / before.sink.name),
        start=0,
        length=state.st_size,
        file_size=state.st_size,
        mtime=state.st_mtime,
    )
    with SqliteStore(url.removeprefix("sqlite:///")) as store:
        for app, started_at in (("reads", 2000.0), ("reads too", 3000.0)):
            place = str(split.path if app == "reads" else before.sink)
            known = split.model_copy(update={"path": place})
            store.write(app, [Begin(app=app, name="job", started_at=started_at)])
            store.write(
                app,
                [
                    Register(app=app, node="0", kind="source", op="textFile", name=app),
                    Splits(app=app, node="0", splits=(known,)),
                ],
            )
        path = str(moved / before.sink.name)
        assert find_readers(store, RowReader(), path).apps == ("reads too", "reads")
        (use,) = find_uses(store, RowReader(), path, wrote=True)
        assert (use.app, use.wrote) == ("before", True)


def test_links_on_the_way_to_a_file_are_followed_once_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    followed = list[str]()

    def counted(path: str) -> str:
        followed.append(path)
        return path

    monkeypatch.setattr("lineage_store.paths.canonical", counted)
    graph = source_of(split(0, "/gone/a", rows=3), split(1, "/gone/a", 40, rows=3))
    places = Locations(graph, RowReader())
    places.rows_of("0#0", Region.from_positions([1]))
    first = len(followed)
    places.rows_of("0#1", Region.from_positions([0, 2]))
    assert len(followed) == first
    places.as_now().rows_of("0#1", Region.from_positions([0]))
    assert len(followed) == first + 1


def test_a_partition_of_whole_files_has_an_item_each() -> None:
    graph = source_of(
        split(0, "/gone/b", row=1, unit="file", rows=1),
        split(0, "/gone/a", row=0, unit="file", rows=1),
        split(1, "/gone/c", row=0, unit="file", rows=1),
    )
    assert located(graph, "0#0", 0, 1, 2) == ["/gone/a", "/gone/b", None]
    assert items(graph, "/gone/b") == {"0#0": [1]}
    places = Locations(graph, RowReader())
    places.check("0#0", Region.from_positions([1]), "read#0")
    with pytest.raises(LocationError, match="has 2 rows"):
        places.check("0#0", Region.from_positions([2]), "read#0")


def test_a_file_that_is_read_twice_has_each_line_twice() -> None:
    twice = [
        split(2 * time + half, "/gone/a", 40 * half, rows=3) for time in (0, 1) for half in (0, 1)
    ]
    graph = source_of(*twice)
    for partition in (1, 3):
        assert located(graph, f"0#{partition}", 0, 2) == ["/gone/a:4", "/gone/a:6"]
    assert items(graph, "/gone/a:4") == {"0#1": [0], "0#3": [0]}


def test_records_of_an_output_are_counted_from_0() -> None:
    file = SinkFileRecord("3", 0, "/gone/part-00000", 9, 1.0, 4, (), "record")
    graph = MemoryGraph([node("3", "sink")], [], [], file_list=[file])
    assert located(graph, "3#0", 0, 3) == ["/gone/part-00000#0", "/gone/part-00000#3"]
    places = Locations(graph, RowReader())
    found = places.items_at("3", parse_location("/gone/part-00000#3"))
    assert found == {"3#0": Region.from_positions([3])}
    with pytest.raises(LocationError, match="4 records, counted from 0; there is no record 4"):
        places.items_at("3", parse_location("/gone/part-00000#4"))


def test_a_place_must_fit_what_the_file_holds(url: str, tmp_path: Path) -> None:
    run = store_run(url, tmp_path)
    with pytest.raises(LocationError, match=r"names no row: give PATH:LINE as grep -n prints"):
        ask(url, f"{run.source}#1", forward=True)


def test_locations_are_read_as_grep_writes_them() -> None:
    assert parse_location("a:b/c:12").path == "a:b/c"
    assert parse_location("a:b/c:12").number == 12
    for text in ("x:3", "x#3", "x", "a:b", "a#b", "a:3#4", "a#3:4"):
        assert str(parse_location(text)) == text
    assert parse_location("a#3:4") == Location("a#3", 4, "line")


def test_paths_are_shown_as_the_program_named_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inside = f"{Path.cwd()}/data/a.csv"
    assert shown_path(inside, "data") == "data/a.csv"
    assert shown_path(inside, str(tmp_path / "data")) == inside
    assert shown_path(inside, f"file:{tmp_path}") == inside
    assert shown_path("/elsewhere/a.csv", "data") == "/elsewhere/a.csv"
    assert shown_path("hdfs://host/a", "a") == "hdfs://host/a"
