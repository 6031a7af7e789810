"""Arrays made of rows, and written to files of rows: kept, read again, and traced row by row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_arrays import (
    ArrayLineageError,
    CellError,
    Cells,
    Recording,
    RecordingError,
    UntracedError,
)
from lineage_arrays.collecting import collected_values
from lineage_arrays.saved import (
    parse_address,
    read_recording,
    store_recording,
    trace_back,
    trace_forward,
)
from lineage_arrays.saved.document import pack_workflow, unpack_workflow
from lineage_arrays.saved.row_tracing import StoredCells, cells_of_rows, rows_of_cells
from lineage_core.contract.collected import CollectedRows
from lineage_core.contract.message import RecordSplits
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction
from lineage_query.collected_rows import place_of_row, regions_of_rows, row_at
from lineage_query.rows.places import Location, parse_location
from lineage_store.dataset_paths import action_of_rows, rows_of_action
from lineage_store.port import GraphStore
from lineage_store.url import open_store

pytestmark = pytest.mark.unit


class Collected:
    """An RDD that is captured, as far as `rows_of` sees it."""

    def __init__(self, *partitions: list[Any]) -> None:
        self.partitions = partitions

    def collectRows(self) -> tuple[CollectedRows, list[Any]]:
        rows = CollectedRows("local-1", "14", tuple(map(len, self.partitions)))
        return rows, [record for records in self.partitions for record in records]


THREE = Collected([(1.0, 2.0), (3.0, 4.0)], [], [(5.0, 6.0)])


@pytest.fixture(autouse=True)
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINEAGE_STORE", "sqlite:///lineage.db")
    return "sqlite:///lineage.db"


@pytest.fixture
def store(url: str) -> Iterator[GraphStore]:
    with open_store(url, create=True) as opened:
        yield opened


class Files:
    """Spark as far as `frame` needs it: it reads nothing."""

    def __init__(self) -> None:
        self.read = self

    def parquet(self, path: str) -> str:
        return path


def modelled() -> str:
    """A program that writes a file of rows of what it made of rows; what it kept is stored."""
    recording = Recording()
    table = recording.rows_of("features", THREE)
    scores: Any = np.stack([table[:, 0], table[::-1, 1]], axis=1)
    assert recording.frame(Files(), "scores.parquet", scores).endswith("/scores.parquet")
    return store_recording(recording, "model")


def places(answer: Any) -> list[str]:
    return [item.location for group in answer.groups for item in group.items]


@given(st.lists(st.integers(0, 4), max_size=6))
def test_rows_are_those_of_partitions_one_behind_the_other(counts: list[int]) -> None:
    rows = CollectedRows("app", "1", tuple(counts))
    expected = [(p, k) for p, count in enumerate(counts) for k in range(count)]
    assert list(rows.places(range(rows.total))) == expected
    assert [rows.row(*place) for place in expected] == list(range(rows.total))
    with pytest.raises(IndexError):
        list(rows.places([rows.total]))
    for partition, count in enumerate(counts):
        with pytest.raises(IndexError):
            rows.row(partition, count)


@given(
    st.sampled_from(["local-17-2", "app_1.x", "a:b"]), st.sampled_from(["14", "read:x"]),
    st.integers(0, 99), st.integers(0, 10**9),
)  # fmt: skip
def test_places_of_collected_rows_are_read_as_they_are_written(
    app: str, node: str, partition: int, ordinal: int
) -> None:
    place = place_of_row(app, node, partition, ordinal)
    assert row_at(parse_location(str(place))) == (app, node, partition, ordinal)
    assert action_of_rows(rows_of_action(app, node).path) == (app, node)


def test_rows_become_items_of_their_partitions() -> None:
    rows = [place_of_row("a", "14", partition, at) for partition, at in ((2, 5), (0, 1), (2, 4))]
    regions = regions_of_rows([*rows, Location("in.txt", 1)])
    assert {space: region.to_text() for space, region in regions.items()} == {
        "14#0": "1",
        "14#2": "4-5",
    }


@given(st.integers(1, 5), st.lists(st.integers(1, 3), max_size=2), st.data())
def test_cells_of_rows_lie_in_these_rows(rows: int, others: list[int], data: st.DataObject) -> None:
    shape = (rows, *others)
    chosen = data.draw(st.sets(st.integers(0, rows - 1)))
    expected = np.zeros(shape, bool)
    expected[sorted(chosen)] = True
    region = cells_of_rows(shape, list(chosen))
    assert (Cells.of_region(shape, region).mask() == expected).all()
    assert list(rows_of_cells(shape, region).positions()) == sorted(chosen)
    some = data.draw(st.sets(st.integers(0, expected.size - 1)))
    of_some = {at // (expected.size // rows) for at in some}
    assert set(rows_of_cells(shape, Region.from_positions(some)).positions()) == of_some
    assert cells_of_rows(shape, [None, 0]).count == expected.size
    assert not cells_of_rows((rows, 0), [None, 0])
    assert not cells_of_rows((rows, 0), [0])
    with pytest.raises(CellError):
        cells_of_rows(shape, [rows])


def test_rows_are_kept_with_a_recording(store: GraphStore) -> None:
    app = modelled()
    [source] = read_recording(store, app).sources
    assert source.rows == CollectedRows("local-1", "14", (2, 0, 1))
    [read] = [one for one in store.messages(app, "record_splits") if isinstance(one, RecordSplits)]
    assert action_of_rows(read.splits[0].path) == ("local-1", "14")


def test_a_recording_whose_rows_make_no_such_array_is_refused() -> None:
    recording = Recording()
    table = recording.rows_of("features", THREE)
    recording.flow.rows_collected[table.node.number] = CollectedRows("a", "1", (2, 2))
    with pytest.raises(RecordingError, match="4 rows made an array"):
        unpack_workflow(pack_workflow(recording.flow))


def test_a_row_of_a_file_goes_back_to_collected_rows(store: GraphStore, tmp_path: Path) -> None:
    app = modelled()
    [output] = read_recording(store, app).outputs
    rows = [Location(str(tmp_path / "scores.parquet"), 2, "record")]
    node = f"array-{output.node.number}"
    answer = StoredCells(store).trace_rows(Direction.BACKWARD, app, node, rows)
    assert (answer.exact, answer.complete) == (True, True)
    # Its second column is that of the first row.
    assert places(answer) == [str(place_of_row("local-1", "14", p, k)) for p, k in ((0, 0), (2, 0))]
    assert [item.address for item in answer.groups[0].items] == ["features[0]", "features[2]"]


def test_a_collected_row_goes_forward_to_rows_of_a_file(store: GraphStore, tmp_path: Path) -> None:
    app = modelled()
    rows = [place_of_row("local-1", "14", 0, 0)]
    answer = StoredCells(store).trace_rows(Direction.FORWARD, app, "array-0", rows)
    assert places(answer) == [f"{tmp_path}/scores.parquet#{row}" for row in (0, 2)]
    assert (answer.exact, answer.complete, answer.changed) == (True, True, False)
    other = [place_of_row("local-2", "14", 0, 0)]
    with pytest.raises(ArrayLineageError, match="was not made of"):
        StoredCells(store).trace_rows(Direction.FORWARD, app, "array-0", other)
    with pytest.raises(CellError):
        StoredCells(store).trace_rows(
            Direction.FORWARD, app, "array-0", [place_of_row("local-1", "14", 1, 0)]
        )
    with pytest.raises(ArrayLineageError, match="which of its cells"):
        StoredCells(store).trace_rows(Direction.BACKWARD, app, "array-0", rows)


def test_a_trace_of_cells_alone_says_where_rows_go_on(store: GraphStore) -> None:
    modelled()
    address = parse_address("scores.parquet[1,1]")
    assert trace_back(store, address).complete
    assert trace_back(store, address, all_jobs=True, to_rows=True).complete
    ended = trace_back(store, address, all_jobs=True)
    assert not ended.complete
    assert "has rows of other programs" in ended.incomplete_reasons[0]


def test_cells_of_a_file_of_rows_name_others_that_read_it(store: GraphStore) -> None:
    modelled()
    apps = []
    for name in ("one", "other"):
        recording = Recording()
        recording.output("sum", recording.load("scores.parquet").sum())
        apps.append(store_recording(recording, name))
    trace = trace_forward(
        store, parse_address("scores.parquet[1,1]"), app=apps[0], all_jobs=True, to_rows=True
    )
    assert [one.name for one in trace.found] == ["sum"]
    assert [apps[1] in reason for reason in trace.incomplete_reasons] == [True]
    node = f"array-{read_recording(store, apps[0]).sources[0].node.number}"
    place = Location(str(Path("scores.parquet").resolve()), 1, "record")
    assert StoredCells(store).trace_rows(Direction.FORWARD, apps[0], node, [place]).complete


VALUES = [
    np.array([1.5, np.nan, -0.0]),
    np.arange(6).reshape(3, 2),
    np.array([[True, False], [False, True]]),
    np.array(["", "é", "long text"]),
    np.array(["2020-01-01", "1969-12-31"], "datetime64[ms]"),
    np.zeros((0, 2)),
    np.array([1.5, 2.5], ">f4"),
]


@pytest.mark.parametrize("values", VALUES, ids=lambda values: str(values.dtype))
def test_files_of_rows_hold_arrays_as_they_are(values: Any, store: GraphStore) -> None:
    recording = Recording()
    recording.frame(Files(), "made.parquet", recording.source("given", values))
    again = Recording().load("made.parquet")
    np.testing.assert_array_equal(again.current, values)
    assert again.current.dtype.kind == values.dtype.kind


def test_what_makes_no_rows_is_refused_before_it_is_written(tmp_path: Path) -> None:
    recording = Recording()
    for at, values in enumerate(
        (
            np.zeros((2, 2, 2)),
            np.zeros((2, 1)),
            np.zeros(()),
            1j * np.ones(2),
            np.ones(2, np.float16),
            np.ones(2, "M8[ns]"),
        )
    ):
        with pytest.raises(UntracedError, match="makes no rows"):
            recording.frame(Files(), "made.parquet", recording.source(f"no {at}", values))
    never = recording.source("never", np.array(["2020-01-01", "NaT"], "M8[D]"))
    with pytest.raises(UntracedError, match="NULL"):
        recording.frame(Files(), "made.parquet", never)
    table = recording.source("table", np.zeros((2, 2)))
    for columns in (["a"], ["a", "a"]):
        with pytest.raises(ArrayLineageError, match="different names for 2 columns"):
            recording.frame(Files(), "made.parquet", table, columns)
    with pytest.raises(ArrayLineageError, match=r"ends in \.parquet"):
        recording.frame(Files(), "made.csv", table)
    assert not list(tmp_path.glob("made*"))
    Path("made.parquet").write_text("mine")
    with pytest.raises(FileExistsError):
        recording.frame(Files(), "made.parquet", table)


def test_tables_that_are_no_arrays_are_refused() -> None:
    pq.write_table(pa.table({"a": [1.0, None]}), "null.parquet")
    pq.write_table(pa.table({"a": [1.0], "b": ["x"]}), "mixed.parquet")
    pq.write_table(pa.table({"a": [[1.0]]}), "lists.parquet")
    for name, problem in (("null", "NULL"), ("mixed", "several types"), ("lists", "type list")):
        with pytest.raises(UntracedError, match=problem):
            Recording().load(f"{name}.parquet")
    Path("text.parquet").write_text("no such file")
    with pytest.raises(ArrayLineageError, match="can't be read"):
        Recording().load("text.parquet")


@pytest.mark.parametrize(
    "records", [[(1, "a")], ["a", 1], [(1.0, None)], [(1.0,), (1.0, 2.0)], [{"a": 1}], [10**30]]
)
def test_rows_that_make_no_array_are_refused(records: list[Any]) -> None:
    with pytest.raises(UntracedError, match="the rows of 'x'"):
        collected_values("x", Collected(records), None)


def test_partitions_follow_each_other_in_the_array() -> None:
    collected = collected_values("x", THREE, None)
    bounds = np.cumsum([0, *collected.rows.counts]).tolist()
    parts = [collected.values[first:last].tolist() for first, last in pairwise(bounds)]
    assert parts == [list(map(list, part)) for part in THREE.partitions]
