"""Arrays of what actions gave, and of what may be such: linked as it is, else said."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch
from weakref import WeakValueDictionary

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_arrays import ArrayLineageError, Recording, UntracedError, carrying
from lineage_arrays.libraries import black_box
from lineage_arrays.operators import Operator, OperatorGraph
from lineage_arrays.saved import parse_address, store_recording, trace_back, trace_forward
from lineage_core.answers import ANSWERS, Answer, CollectedAnswer, LinkedRows
from lineage_core.contract.collected import CollectedRows
from lineage_emitter.driver.named_answers import RowsOfFrame, without_names
from lineage_query.verdicts import verdict_of
from lineage_store.url import open_store

pytestmark = pytest.mark.unit


class Linked(RowsOfFrame):
    """Rows of a DataFrame, each of which is linked by itself."""

    def link(self, positions: Sequence[int]) -> LinkedRows:
        return LinkedRows(CollectedRows("app", "1", (len(positions),)), positions)


def kept(given: Any, columns: Sequence[str] = ("key", "x")) -> Any:
    answer = Linked("DataFrame.toPandas at job.py:1", tuple(columns))
    answer.remember(given)
    ANSWERS.keep_object(given, answer)
    return given


def pandas() -> Any:
    return kept(pd.DataFrame({"key": [1, 2, 3], "x": [0.5, 1.5, 1.5]}))


def _replaced(values: Callable[[Any], Any], column: str = "key") -> Callable[[Any], Any]:
    return lambda frame: frame.__setitem__(column, values(frame[column]))


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a number for a text": lambda frame: frame.__setitem__("text", [1, "1", None, "é"]),
    "a truth value for a number": lambda frame: frame.loc.__setitem__((0, "mixed"), True),
    "an equal text": lambda frame: frame.iloc.__setitem__((3, 1), "é" * len(frame["text"][3])),
    "the other way": _replaced(lambda column: column[::-1].to_numpy().copy()),
    "equal values": _replaced(lambda column: column.to_numpy() + 0),
    "gone and there again": lambda frame: frame.insert(0, "key", frame.pop("key").tolist()),
    "texts the other way": _replaced(lambda column: column[::-1].to_numpy().copy(), "same"),
}


@pytest.mark.parametrize("way", ["nothing", *CHANGES])
def test_a_frame_whose_values_look_alike_is_another_one(way: str) -> None:
    same = "".join(["x", "y"])
    frame = pd.DataFrame(
        {"key": [1, 2, 2, 1], "text": ["1", "1", None, "".join(["é", "é"])], "mixed": [1, True, 2.0, "1"], "same": [same] * 4}
    ).astype({"text": object, "same": object})  # fmt: skip
    kept(frame, list(frame.columns))
    frame.describe(), frame.sort_values("key"), frame.to_numpy(), repr(frame), frame.copy()
    CHANGES.get(way, len)(frame)
    recording = Recording()
    if way == "nothing":
        assert recording.rows_of("table", frame, ["key"]).current.tolist() == [[1], [2], [2], [1]]
        return
    with pytest.raises(ArrayLineageError, match="has been changed since"):
        recording.rows_of("table", frame, ["key"])


@pytest.mark.parametrize("value", [[1], np.array([1]), {"a": 1}, ([1],)])
def test_a_frame_with_what_may_be_written_to_is_refused(value: Any) -> None:
    frame = kept(pd.DataFrame({"key": [1], "x": pd.Series([value], dtype=object)}))
    with pytest.raises(ArrayLineageError, match="has been changed since"):
        Recording().rows_of("table", frame, ["key"])


STEPS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda frame: None,
    "read": lambda frame: frame.sort_values("x") + 1,
    "a copy written": lambda frame: frame.copy().__setitem__("x", 0),
    "a cell": lambda frame: frame.__setitem__("x", [0.5, 1.5, 1.25]),
    "in place": lambda frame: frame.sort_values("x", ascending=False, inplace=True),
    "two equal ones swapped": lambda frame: frame.__setitem__("key", [1, 3, 2]),
    "through memory": lambda frame: frame["x"].to_numpy().__setitem__(0, 9),
    "index": lambda frame: frame.set_index("key", inplace=True),
    "names": lambda frame: frame.rename(columns={"x": "y"}, inplace=True),
    "a column more": lambda frame: frame.insert(0, "one", 1),
    "types": lambda frame: frame.__setitem__("key", frame["key"].astype("float")),
    "rows gone": lambda frame: frame.drop(index=0, inplace=True),
}


@settings(max_examples=40)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=3))
def test_a_frame_of_pandas_is_linked_as_it_was_given(steps: list[str]) -> None:
    ANSWERS.reset()
    frame = pandas()
    before = frame.copy()
    for step in steps:
        try:
            STEPS[step](frame)
        except (KeyError, ValueError):
            # What it needs is gone.
            break
    recording = Recording()
    if before.equals(frame) and list(before.dtypes) == list(frame.dtypes):
        table = recording.rows_of("table", frame, ["x", "key"])
        np.testing.assert_array_equal(table.current, before[["x", "key"]].to_numpy())
    else:
        with pytest.raises(ArrayLineageError, match="has been changed since"):
            recording.rows_of("table", frame)


def test_what_is_made_of_a_frame_is_not_the_frame() -> None:
    frame = pandas()
    for other in (frame.copy(), frame[frame.x > 0], frame[["x", "key"]], frame.reset_index()):
        with pytest.raises(ArrayLineageError, match="is not what an action gave"):
            Recording().rows_of("table", other)


def test_a_table_of_arrow_is_linked() -> None:
    table = kept(pa.table({"key": [1, 2], "x": ["a", "b"]}))
    values = Recording().rows_of("x", table, ["x"])
    assert values.current.tolist() == [["a"], ["b"]]
    with pytest.raises(UntracedError, match="int, str"):
        Recording().rows_of("mixed", table)
    with pytest.raises(ArrayLineageError, match="is not what"):
        Recording().rows_of("x", table.slice(1))
    with pytest.raises(UntracedError, match="NULL"):
        Recording().rows_of("null", kept(pa.table({"key": [1, None], "x": [1, 2]})))


WITHOUT_ARRAY: dict[str, tuple[dict[str, Any], str]] = {
    "times": ({"x": pd.to_datetime(["2020-01-01", "2020-01-02"])}, "datetime64"),
    "times beside numbers": (
        {"key": [1, 2], "x": pd.to_datetime(["2020-01-01"] * 2)},
        "datetime64",
    ),
    "differences": ({"x": pd.to_timedelta([1, 2])}, "timedelta64"),
    "large numbers": ({"key": [1, 2**53 + 1], "x": [0.5, 1.5]}, "rounded"),
    "large negative numbers": ({"key": [1, -(2**53) - 1], "x": [0.5, 1.5]}, "rounded"),
}


@pytest.mark.parametrize("way", WITHOUT_ARRAY)
@pytest.mark.parametrize("kind", ["pandas", "arrow", "list"])
def test_rows_that_an_array_would_change_are_refused(way: str, kind: str) -> None:
    columns, reason = WITHOUT_ARRAY[way]
    frame = pd.DataFrame(columns)
    recording = Recording()
    if kind == "list":
        given: Any = list(zip(*(frame[name].tolist() for name in columns), strict=True))
        ANSWERS.keep_list(given, Linked("collect at job.py:1", tuple(columns)))
    else:
        given = kept(frame if kind == "pandas" else pa.Table.from_pandas(frame), list(columns))
    if kind == "list" and reason != "rounded":
        reason = "are values of"
    with pytest.raises(UntracedError, match=reason):
        recording.rows_of("table", given)


def test_large_numbers_stay_as_they_are_where_they_are_no_others() -> None:
    for columns in ({"key": [1, 2**53 + 1]}, {"key": [1, 2], "x": [0.5, 1e300]}):
        given = kept(pd.DataFrame(columns), list(columns))
        np.testing.assert_array_equal(Recording().rows_of("table", given).current, given.to_numpy())


def same_type() -> Any:
    return kept(pd.DataFrame(np.array([[1.0, 0.5], [2.0, 1.5], [3.0, 1.5]]), columns=["key", "x"]))


ARRAYS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "a column": (lambda frame: frame["x"].to_numpy(), True),
    "its values": (lambda frame: frame.x.values, True),
    "asarray": (lambda frame: np.asarray(frame["x"]), True),
    "all": (lambda frame: frame.to_numpy(), True),
    "a copy": (lambda frame: frame["x"].to_numpy().copy(), False),
    "equal values": (lambda frame: np.array([0.5, 1.5, 1.5]), False),
    "some": (lambda frame: frame["x"].to_numpy()[1:], False),
    "every other one": (lambda frame: frame["x"].to_numpy()[::2], False),
    "turned": (lambda frame: frame["x"].to_numpy()[::-1], False),
    "across": (lambda frame: frame.to_numpy().T, False),
    "other bits": (lambda frame: frame["x"].to_numpy().view("int64"), False),
    "computed": (lambda frame: frame["x"].to_numpy() * 1, False),
    "sorted": (lambda frame: frame.sort_values("x")["x"].to_numpy(), False),
}


@pytest.mark.parametrize("way", ARRAYS)
def test_an_array_with_the_memory_of_an_answer_is_linked(way: str) -> None:
    take, linked = ARRAYS[way]
    frame = same_type()
    ANSWERS.note("DataFrame.toPandas at job.py:1")
    recording = Recording()
    array = recording.source("x", take(frame))
    assert (array.node.number in recording.flow.rows_collected) is linked
    assert recording.back(array).complete is linked


def test_the_memory_of_a_frame_that_was_written_to_is_not_linked() -> None:
    frame = same_type()
    ANSWERS.note("DataFrame.toPandas at job.py:1")
    values = frame["x"].to_numpy()
    frame.iloc[0, 0] = 7.0
    recording = Recording()
    assert not recording.back(recording.source("x", values)).complete
    # What is gone is nobody's.
    frame = same_type()
    values = frame["x"].to_numpy()
    del frame
    assert not recording.back(recording.source("gone", values)).complete


def test_columns_of_arrow_are_linked() -> None:
    table = kept(pa.table({"key": [1, 2], "x": [0.5, 1.5]}))
    column = table.column("x").to_numpy()
    assert Recording().rows_of("x", column).current.tolist() == [0.5, 1.5]
    with pytest.raises(ArrayLineageError, match="is not what an action gave"):
        Recording().rows_of("x", table.column("x").to_numpy() + 0)
    with pytest.raises(ArrayLineageError, match="columns are those"):
        Recording().rows_of("x", column, ["x"])


def test_rows_that_the_program_may_have_written_to_are_refused() -> None:
    records = [([1.0, 2.0],), ([3.0, 4.0],)]
    ANSWERS.keep_list(records, CollectedAnswer("collect", CollectedRows("app", "1", (2,))))
    records[0][0][1] = 9.0
    with pytest.raises(UntracedError, match="may have written to"):
        Recording().rows_of("lists", records)


@given(st.permutations(range(5)), st.integers(0, 5), st.booleans())
def test_cells_of_some_rows_go_back_to_these(order: list[int], count: int, by_name: bool) -> None:
    ANSWERS.reset()
    records = [(at, at * 10) for at in range(5)]
    rows = CollectedRows("app", "1", (2, 0, 3))
    answer: Answer = Linked("take", ("a", "b")) if by_name else CollectedAnswer("collect", rows)
    ANSWERS.keep_list(records, answer)
    taken = [records[at] for at in order[:count]]
    recording = Recording()
    if not taken:
        with pytest.raises(ArrayLineageError, match="not all of its elements"):
            recording.rows_of("table", taken)
        return
    table = recording.rows_of("table", taken)
    np.testing.assert_array_equal(table.current, taken)
    [source] = [node for node in recording.flow.nodes if node.name]
    assert recording.flow.rows_collected[source.number].total == source.shape[0]
    for row, at in enumerate(order[:count]):
        trace = recording.back(table, np.s_[row, 1])
        assert (trace.exact, trace.complete) == (True, True)
        [cell] = trace.cells["table"].coordinates().tolist()
        # Of a DataFrame each row is linked by itself.
        assert cell == [row if by_name else at, 1]


def test_an_answer_before_the_recording_is_not_linked() -> None:
    with pytest.raises(ArrayLineageError, match="make the Recording before the action"):
        Recording().rows_of("table", [(1, 2.0)])


# -- arrays that may hold rows ---------------------------------------------------------------------


def test_an_array_from_outside_may_hold_rows(tmp_path: Path) -> None:
    recording = Recording()
    early = recording.source("early", np.arange(3.0))
    ANSWERS.note("DataFrame.toPandas at job.py:7")
    late = recording.source("late", np.arange(3.0))
    apart = recording.source("apart", np.arange(3.0), apart=True)
    for array, complete in ((early + apart, True), (early + late, False), (late * 1, False)):
        for trace in (recording.back(array, 1), recording.back(array)):
            assert trace.complete is complete
            assert all(
                "DataFrame.toPandas at job.py:7 gave rows" in one
                for one in trace.incomplete_reasons
            )
    assert not recording.forward("early", early + late, 1).complete
    assert recording.forward("early", early + apart, 1).complete
    recording.output("sum", early + late)
    recording.output("other", early + apart)
    url = f"sqlite:///{tmp_path / 'lineage.db'}"
    app = store_recording(recording, "program", url)
    with open_store(url) as store:
        assert not trace_back(store, parse_address("sum[1]")).complete
        assert trace_back(store, parse_address("other[1]")).complete
        assert not trace_forward(store, parse_address("late[1]")).complete
        assert trace_forward(store, parse_address("apart[1]")).complete
        gaps = [reason for reason in verdict_of(store, app).reasons if "toPandas" in str(reason)]
    assert len(gaps) == 1


def _written(array: Any, value: Any) -> Any:
    copy = array + 0
    copy[1] = value
    return copy


def _added(array: Any, value: Any) -> Any:
    copy = array.copy()
    copy += value
    return copy


class Scale(Operator):
    def __init__(self, factor: Any) -> None:
        super().__init__()
        self.factor = factor

    def run(self, *inputs: Any, modes: Any) -> Any:
        return inputs[0] * self.factor


GIVEN = np.array([0.5, 1.5, 2.5])
"""What an action gave the program, as values of its own."""
ROW = pickle.loads(pickle.dumps((0.75, 300, "xx")))
TAKING: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "an array": (lambda flow, a: a * GIVEN, True),
    "a column": (lambda flow, a: a * pd.Series(GIVEN).to_numpy(), True),
    "a number of it": (lambda flow, a: a + GIVEN[1], True),
    "a number of Python": (lambda flow, a: a + ROW[0], True),
    "what is computed with it": (lambda flow, a: a + ROW[0] * 2, True),
    "a list": (lambda flow, a: np.add(a, [ROW[1], ROW[1], 1]), True),
    "a list of a function": (lambda flow, a: np.dot(a, [ROW[1], 1, ROW[1]]), True),
    "in a list": (lambda flow, a: np.concatenate([a, GIVEN]), True),
    "an option": (lambda flow, a: np.average(a, weights=GIVEN), True),
    "written": (lambda flow, a: _written(a, GIVEN[1]), True),
    "added": (lambda flow, a: _added(a, GIVEN), True),
    "by a black box": (lambda flow, a: black_box(lambda x, y: x * y)(a, GIVEN), True),
    "in an operator": (lambda flow, a: flow.run(Scale(GIVEN), a), True),
    "numbers in code": (lambda flow, a: a * 0.5 + 2 - 1e300, False),
    "a list in code": (lambda flow, a: np.convolve(a, [0.25, 0.5, 0.25], mode="same"), False),
    "an operator of a number in code": (lambda flow, a: flow.run(Scale(2.5), a), False),
    "places and axes": (lambda flow, a: np.transpose(a.reshape((3, 1))[1:, [0]], (1, 0)), False),
    "written in code": (lambda flow, a: _written(a, 0.5), False),
    "rows by their places": (lambda flow, a: a[np.array([2, 0])], False),
    "named": (lambda flow, a: a * flow.source("weights", GIVEN, apart=True), False),
    "nothing": (lambda flow, a: np.cumsum(a), False),
}


@pytest.mark.parametrize("way", TAKING)
def test_values_that_calls_take_may_be_rows(way: str) -> None:
    take, may_be = TAKING[way]
    recording = Recording()
    array = recording.source("a", np.arange(3.0))
    before = take(recording, array) if way != "named" else array
    assert recording.back(before).complete
    ANSWERS.note("DataFrame.toPandas at job.py:7")
    after = take(recording, array)
    for trace in (recording.back(after), recording.forward("a", after)):
        assert trace.complete is not may_be
        assert may_be is any("toPandas at job.py:7 gave" in one for one in trace.incomplete_reasons)


def test_which_rows_are_taken_is_told_of_choices() -> None:
    recording = Recording()
    array = recording.source("a", np.arange(3.0))
    ANSWERS.note("DataFrame.toPandas at job.py:7")
    taken = array[np.array([2, 0])]
    assert recording.back(taken, 0).complete
    assert not recording.back(taken, 0, choices=True).complete
    assert not recording.forward("a", taken, choices=True).complete


def test_texts_that_calls_take_may_be_rows() -> None:
    recording = Recording()
    texts = recording.source("texts", np.array(["a", "b"]))
    ANSWERS.note("collect at job.py:7")
    add: Any = np.strings.add
    assert not recording.back(add(texts, ROW[2])).complete
    assert recording.back(add(texts, "xx")).complete
    # Python has one object for each text of one character.
    assert not recording.back(add(texts, ROW[2][0])).complete


def test_values_that_calls_took_stay_doubtful_when_they_are_stored(tmp_path: Path) -> None:
    recording = Recording()
    array = recording.source("a", np.arange(3.0))
    ANSWERS.note("DataFrame.toPandas at job.py:7")
    recording.output("product", array * GIVEN)
    recording.output("half", array[np.array([2, 0])] * 0.5)
    url = f"sqlite:///{tmp_path / 'lineage.db'}"
    app = store_recording(recording, "program", url)
    with open_store(url) as store:
        assert not trace_back(store, parse_address("product[1]")).complete
        assert trace_back(store, parse_address("half[1]")).complete
        gaps = [reason for reason in verdict_of(store, app).reasons if "toPandas" in str(reason)]
    assert len(gaps) == 1


@pytest.mark.parametrize("way", ["an array", "numbers in code"])
def test_values_that_another_process_took_may_be_rows(way: str) -> None:
    take, may_be = TAKING[way]
    recording = Recording()
    array = recording.source("a", np.arange(3.0))
    for noted in (False, True):
        if noted:
            ANSWERS.note("collect at job.py:7")
        sent = pickle.dumps(array)
        with patch.multiple(carrying, _homes=WeakValueDictionary(), _away=WeakValueDictionary()):
            came = pickle.dumps(take(None, pickle.loads(sent)))
        assert recording.back(pickle.loads(came)).complete is not (noted and may_be)


@pytest.mark.parametrize("apart", [False, True])
def test_operators_of_a_graph_may_hold_rows(apart: bool) -> None:
    graph = OperatorGraph()
    scaled = graph.add(Scale(GIVEN), graph.source("values"))
    assert graph.run({"values": [1.0, 2.0, 3.0]}).back(scaled, 0).complete
    ANSWERS.note("collect at job.py:7")
    version = graph.run({"values": [1.0, 2.0, 3.0]}, apart=apart)
    trace = version.back(scaled, 0)
    assert trace.complete is apart
    assert any("Scale" in one for one in trace.incomplete_reasons) is not apart


def test_sources_of_a_graph_may_hold_rows() -> None:
    graph = OperatorGraph()
    values = graph.source("values")
    turned = graph.apply(np.flip, values)
    assert graph.run({"values": [1.0, 2.0]}).back(turned, 0).complete
    ANSWERS.note("collect at job.py:7")
    assert not graph.run({"values": [1.0, 2.0]}).back(turned, 0).complete
    assert graph.run({"values": [1.0, 2.0]}, apart=True).back(turned, 0).complete


# -- names of rows ---------------------------------------------------------------------------------


def test_names_are_taken_off_as_they_came() -> None:
    from pyspark.sql import Row

    names = [-(2**63), 0, 2**63 - 1]
    rows = [Row(a=at, b=None, lineage_row=name) for at, name in enumerate(names)]
    plain, taken = without_names(rows)
    assert plain == [Row(a=at, b=None) for at in range(3)]
    assert all(row.asDict() == {"a": at, "b": None} for at, row in enumerate(plain))
    assert list(taken) == names
    assert without_names(rows[0])[0] == Row(a=0, b=None)
    assert without_names([]) == ([], type(taken)("q"))
    frame, taken = without_names(pd.DataFrame({"a": [1, 2, 3], "lineage_row": names}))
    assert list(frame.columns) == ["a"]
    assert list(taken) == names
    table, taken = without_names(pa.table({"a": [1, 2, 3], "lineage_row": names}))
    assert table.column_names == ["a"]
    assert list(taken) == names
