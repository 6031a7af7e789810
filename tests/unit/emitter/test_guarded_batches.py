"""Functions of DataFrames that get rows by Arrow, and go on without the rows they fail on, as a worker runs them."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import types as T

from lineage_emitter.dataframes.guarded_code import guarded_code
from lineage_emitter.worker.arrow_batches import ArrowBatches
from lineage_emitter.worker.guarded_batches import (
    ARROW,
    PANDAS,
    ROWS,
    BatchFlags,
    Failures,
    GuardedBatches,
    GuardedRows,
    RowFlags,
    guarded_values,
    kept_flags,
)
from lineage_emitter.worker.guarded_function import Reports
from lineage_emitter.worker.pandas_batches import PandasBatches
from lineage_emitter.worker.row_batches import Batches, NotSetAsideError
from tests.support.added_reports import Added

pytestmark = pytest.mark.unit


class Guarded:
    """A function with its flags, as Spark's worker calls them on a batch: values, flags, and what is reported."""

    def __init__(
        self,
        *functions: Callable[..., Any],
        batches: Batches,
        records_max: int = 99,
        may_repeat: bool = True,
    ) -> None:
        self.added, failures = Added(), Failures({})
        reports = Reports(self.added, "it", 7, ["int"], records_max)
        self._values = GuardedBatches(list(functions), batches, failures, records_max, may_repeat)
        self._flags = BatchFlags(reports, failures, batches)

    def __call__(self, column: Any, texts: Any) -> tuple[Any, list[bool]]:
        values = self._values(column)
        return values, [bool(flag) for flag in pa.array(self._flags(texts)).to_pylist()]

    @property
    def arguments(self) -> list[str | None]:
        return [report["arguments"][0] for report in self.added.reports]


def of_pandas(*functions: Callable[..., Any], kind: str = "int", **settings: Any) -> Guarded:
    return Guarded(*functions, batches=PandasBatches([kind]), **settings)


def series(values: list[Any], dtype: Any = None) -> pd.Series:
    return pd.Series(values, dtype=dtype)


def texts(values: list[Any]) -> pd.Series:
    return pd.Series([None if v is None else str(v) for v in values], dtype=object)


def inverse(column: pd.Series) -> pd.Series:
    if (column == 0).any():
        raise ZeroDivisionError("a zero")
    return 840 // column


@given(st.lists(st.integers(0, 8), min_size=1, max_size=40))
def test_just_the_rows_that_fail_alone_are_set_aside(values: list[int]) -> None:
    guarded = of_pandas(inverse)
    given_values, kept = guarded(series(values, "int32"), texts(values))
    assert kept == [value != 0 for value in values]
    assert len(given_values) == len(values)
    left = [v for v, is_kept in zip(given_values.tolist(), kept, strict=True) if is_kept]
    assert left == [840 // value for value in values if value]
    # Of the type that they have where these rows are not.
    if any(values):
        assert given_values.dtype == inverse(series([v for v in values if v], "int32")).dtype
    assert guarded.arguments == (["0"] if 0 in values else [])
    assert sum(report["records"] for report in guarded.added.reports) == values.count(0)


@given(st.lists(st.one_of(st.none(), st.integers(-3, 3)), min_size=1, max_size=20))
def test_arrays_of_arrow(values: list[int | None]) -> None:
    def inverse_of(column: Any) -> Any:
        return pc.divide(12, column)

    guarded = Guarded(inverse_of, batches=ArrowBatches())
    column = pa.array(values, pa.int32())
    given_values, kept = guarded(column, pa.array([None if v is None else str(v) for v in values]))
    assert kept == [value != 0 for value in values]
    expected = [inverse_of(pa.array([v], pa.int32()))[0].as_py() for v in values if v != 0]
    assert given_values.filter(pa.array(kept)).to_pylist() == expected


def test_what_is_left_comes_as_a_batch_of_its_own() -> None:
    seen: list[list[Any]] = []

    def strict(column: pd.Series) -> pd.Series:
        seen.append([column.dtype.name, *column.tolist()])
        if column.isna().any():
            raise ValueError("NULL")
        return column.astype(str)

    guarded = of_pandas(strict)
    # Where one is NULL, pandas has doubles.
    column = series([1.0, None, 3.0])
    given_values, kept = guarded(column, texts([1, None, 3]))
    assert (given_values[0], given_values[2], kept) == ("1", "3", [True, False, True])
    assert ["int32", 1, 3] in seen
    assert guarded.arguments == [None]
    guarded = of_pandas(strict, kind="boolean")
    given_values, _ = guarded(series([True, None], object), texts(["true", None]))
    assert ["bool", True] in seen
    guarded = of_pandas(strict, kind="bigint")
    with pytest.raises(ValueError, match="NULL") as raised:
        guarded(series([float(2**53), None]), texts([2**53 + 1, None]))
    assert "pandas rounds whole numbers" in raised.value.__notes__[0]
    assert guarded.arguments == []


def test_a_function_may_change_what_it_gets_and_gets_the_value_of_another() -> None:
    def doubled(column: pd.Series) -> pd.Series:
        column *= 2
        return column

    guarded = of_pandas(doubled, inverse)
    given_values, kept = guarded(series([1, 0, 2], "int32"), texts([1, 0, 2]))
    assert (given_values[0], given_values[2], kept) == (420, 210, [True, False, True])


def fails_together(column: pd.Series) -> pd.Series:
    if len(column) > 1:
        raise ValueError("too many")
    return column


def fails_of_two(column: pd.Series) -> pd.Series:
    if {1, 3} <= set(column):
        raise ValueError("zero and three")
    return inverse(column)


def of_another_length(column: pd.Series) -> pd.Series:
    inverse(column)
    return column.head(1) if len(column) > 1 else pd.Series([], dtype="int32")


def scaled(column: pd.Series) -> pd.Series:
    if column.nunique() < 2 or 0 in set(column):
        raise ValueError("zero or constant")
    parts: pd.Series = (column - column.min()) / (column.max() - column.min())
    return parts


def standardised(column: pd.Series) -> pd.Series:
    if not column.std() > 0 or 0 in set(column):
        raise ValueError("zero or one alone")
    return (column - column.mean()) / column.std()


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (fails_together, [1, 2]),
        (fails_of_two, [0, 1, 2, 3]),
        (of_another_length, [0, 1, 2]),
        (scaled, [1, 2, 1, 0]),
        (scaled, [1, 2, 3, 4, 5, 0]),
        (standardised, [1, 2, 3, 4, 0, 6, 7, 8]),
    ],
)
def test_what_is_no_failure_of_rows_ends_the_task(
    function: Callable[..., Any], values: list[int]
) -> None:
    guarded = of_pandas(function)
    with pytest.raises(Exception, match=r"zero|too many") as raised:
        guarded(series(values, "int32"), texts(values))
    assert any("not set aside" in note for note in raised.value.__notes__)
    assert guarded.arguments == []


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_what_is_set_aside_fails_in_company_and_equals_nothing_that_is_left(
    values: list[int],
) -> None:
    guarded = of_pandas(scaled)

    def of_rows(places: list[int]) -> pd.Series:
        return series([values[place] for place in places], "int32")

    try:
        given_values, kept = guarded(series(values, "int32"), texts(values))
    except ValueError:
        return
    left = [place for place, is_kept in enumerate(kept) if is_kept]
    assert {values[place] for place in left}.isdisjoint(map(int, filter(None, guarded.arguments)))
    if left:
        expected = scaled(of_rows(left)).tolist()
        assert [given_values[place] for place in left] == expected
    for place in set(range(len(values))) - set(left):
        with pytest.raises(ValueError, match="zero or constant"):
            scaled(of_rows(sorted([*left, place])))


def test_a_function_that_remembers_its_calls_or_fails_once_ends_the_task() -> None:
    seen = set[int]()

    def unseen(column: pd.Series) -> pd.Series:
        if seen & set(column):
            raise KeyError("seen")
        seen.update(column)
        return inverse(column)

    guarded = of_pandas(unseen)
    with pytest.raises(ZeroDivisionError) as raised:
        guarded(series([1, 0, 2], "int32"), texts([1, 0, 2]))
    assert "it may remember its calls" in raised.value.__notes__[0]
    fails = iter([True, False])

    def at_first(column: pd.Series) -> pd.Series:
        if next(fails):
            raise OSError("away")
        return column

    guarded = of_pandas(at_first)
    with pytest.raises(OSError, match="away"):
        guarded(series([1], "int32"), texts([1]))
    assert guarded.arguments == []


def test_a_search_ends_in_time() -> None:
    now = [0.0]

    def slow(column: pd.Series) -> pd.Series:
        now[0] += 100
        return inverse(column)

    batches = PandasBatches(["int"])
    values = GuardedBatches([slow], batches, Failures({}), 9, True, clock=lambda: now[0])
    assert values(series([1, 2, 3], "int32")).tolist() == [840, 420, 280]
    with pytest.raises(ZeroDivisionError) as raised:
        values(series([1, 2, 3, 4, 5, 6, 7, 0], "int32"))
    assert "within 300 seconds" in raised.value.__notes__[0]
    assert now[0] < 1000


def test_a_function_gets_the_columns_of_spark_as_without_capture() -> None:
    def named(column: pd.Series) -> pd.Series:
        column[column.isna()] = "none"
        return column

    def kind(column: pd.Series) -> pd.Series:
        return column.isna().map({True: "NULL", False: "text"})

    # Functions of one projection share a column.
    shared = series(["a", None], object)
    of_pandas(named, kind="string")(shared, shared.copy())
    assert of_pandas(kind, kind="string")(shared, shared.copy())[0].tolist() == ["text", "text"]

    def clipped(column: pd.Series) -> pd.Series:
        column[column > 2] = 2
        return column

    of_spark = pa.chunked_array([pa.array([1, 2, 3])]).to_pandas()
    with pytest.raises(ValueError, match="read-only"):
        of_pandas(clipped, kind="bigint")(of_spark, texts([1, 2, 3]))


def test_what_a_failing_call_changed_is_there_again_when_it_is_repeated() -> None:
    def filled(column: pd.Series) -> pd.Series:
        if column.isna().any():
            column.fillna("", inplace=True)
        return column.map(int)

    guarded = of_pandas(filled, kind="string")
    column = series(["1", None, "3"], object)
    given_values, kept = guarded(column, column.copy())
    assert (kept, given_values[0], given_values[2]) == ([True, False, True], 1, 3)
    assert guarded.arguments == [None]


def test_what_may_not_be_set_aside_ends_the_task() -> None:
    values = [0, 1, 0, 2]
    for guarded in (
        of_pandas(inverse, records_max=1),
        of_pandas(inverse, may_repeat=False),
    ):
        with pytest.raises(ZeroDivisionError, match="a zero"):
            guarded(series(values, "int32"), texts(values))
    # Batch by batch, too.
    guarded = of_pandas(inverse, records_max=1)
    guarded(series([0, 1], "int32"), texts([0, 1]))
    with pytest.raises(ZeroDivisionError) as raised:
        guarded(series([0, 1], "int32"), texts([0, 1]))
    assert "had set aside 1 records" in raised.value.__notes__[0]


def test_rows_of_a_batch_have_their_own_flags() -> None:
    added, failures = Added(), Failures({})
    values = GuardedRows([lambda n: 12 // n, lambda n: n + 1], failures, 2)
    flags = RowFlags(Reports(added, "it", 7, ["int"], 2), failures)
    for batch in ([1, 0, 2], [3, 0]):
        given_values = [values(n) for n in batch]
        assert given_values == [12 // n + 1 if n else None for n in batch]
        assert [flags(str(n)) for n in batch] == [n != 0 for n in batch]
    assert [report["records"] for report in added.reports] == [2]
    assert values(0) is None
    with pytest.raises(ZeroDivisionError) as raised:
        flags("0")
    assert "had set aside 2 records" in raised.value.__notes__[0]
    # Failures of one batch are not kept beyond the bound.
    values = GuardedRows([lambda n: 12 // n], failures := Failures({}), 2)
    assert [values(0), values(0)] == [None, None]
    with pytest.raises(ZeroDivisionError) as raised:
        values(0)
    assert "more than 2 records" in raised.value.__notes__[0]
    assert len(failures.by_place) == 2


def test_a_row_that_a_function_does_not_fail_on_may_not_equal_one_that_it_does() -> None:
    fails = iter([False, True, False])

    def once(value: Any) -> Any:
        if next(fails):
            raise OSError("away")
        return value

    failures = Failures({})
    values = GuardedRows([once], failures, 9)
    flags = RowFlags(Reports(Added(), "it", 7, ["int"], 9), failures)
    assert [values(n) for n in (1, 2, 2)] == [1, None, 2]
    assert [flags("1"), flags("2")] == [True, False]
    with pytest.raises(NotSetAsideError, match=r"same arguments.*OSError: away"):
        flags("2")
    # Of batches, also in later ones.
    fails = iter([True] * 3 + [False])

    def as_whole(column: pd.Series) -> pd.Series:
        return column if (column != 2).all() else once(column)

    guarded = of_pandas(as_whole)
    _, kept = guarded(series([1, 2], "int32"), texts([1, 2]))
    assert kept == [True, False]
    with pytest.raises(NotSetAsideError, match="same arguments"):
        guarded(series([3, 2], "int32"), texts([3, 2]))


def test_rows_in_other_threads_end_the_task() -> None:
    values, raised = GuardedRows([lambda n: 12 // n], Failures({}), 9), list[Exception]()

    def call() -> None:
        try:
            values(0)
        except ZeroDivisionError as problem:
            raised.append(problem)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "several threads" in raised[0].__notes__[0]


@pytest.mark.parametrize("kind", [ROWS, PANDAS, ARROW])
def test_both_parts_are_loaded_in_turn(kind: int) -> None:
    def given_back(value: Any) -> Any:
        if not isinstance(value, int) and len(value) == 1:
            raise LookupError("one")
        return value

    added = Added()
    code = cloudpickle.dumps((given_back, T.IntegerType()))
    values, returns = guarded_values(str(kind), "5", "3", "int", "given_back", '"integer"', code)
    flags, of_flags = kept_flags(str(kind), pickle.dumps((added, "it")), "5", "3", "int")
    assert (returns, of_flags) == (T.IntegerType(), T.BooleanType())
    if kind == ROWS:
        assert (values(7), flags("7")) == (7, True)
        return
    made: Any = pd.Series if kind == PANDAS else pa.array
    assert list(values(made([7, 8]))) == list(made([7, 8]))
    assert pa.array(flags(made(["7", "8"]))).to_pylist() == [True, True]
    values(made([7]))
    assert pa.array(flags(made(["7"]))).to_pylist() == [False]


def test_a_function_that_adds_to_an_accumulator_is_not_called_again() -> None:
    code = cloudpickle.dumps((inverse, T.IntegerType()))
    spoiled = code + b"_deserialize_accumulator"
    values, _ = guarded_values(str(PANDAS), "5", "4", "int", "inverse", '"integer"', spoiled)
    with pytest.raises(ZeroDivisionError) as raised:
        values(series([0, 1], "int32"))
    assert "adds to an accumulator" in raised.value.__notes__[0]


def test_the_code_behind_a_function_is_read_without_loading_it() -> None:
    parts = (str(PANDAS), "5", "3", "int|string", "f", '"int"', b"no pickle")
    text = b"".join(
        b"B" + len(part).to_bytes(4, "little") + part
        if isinstance(part, bytes)
        else b"X" + len(part.encode()).to_bytes(4, "little") + part.encode()
        for part in parts
    )
    name = b"clineage_emitter.worker.guarded_batches\nguarded_values\n("
    code = guarded_code(b"\x80\x03" + name + text + b"tR.")
    assert (code.number, code.types) == (3, ("int", "string"))
    assert code.chain == (("f", '"int"', b"no pickle"),)
