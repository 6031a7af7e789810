"""Functions of groups that go on without the groups they fail on, as a worker runs them."""

from __future__ import annotations

import datetime
import decimal
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import types as T

from lineage_emitter.dataframes.guarded_code import guarded_code
from lineage_emitter.worker import guarded_groups
from lineage_emitter.worker.guarded_function import Reports
from lineage_emitter.worker.guarded_groups import (
    Failed,
    group_flag,
    guarded_group,
    guarded_pair,
    guarded_value,
    key_texts,
)
from lineage_emitter.worker.row_batches import NotSetAsideError
from tests.support.added_reports import Added

pytestmark = pytest.mark.unit


def halved(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(n=rows["n"].map(lambda n: 12 // n))


def with_key(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
    return halved(rows).assign(k=key[0])


def made(
    function: Callable[..., Any], records_max: int = 9, kinds: tuple[str, ...] = ("string",)
) -> tuple[Callable[..., Any], Any]:
    added = Added()
    reports = Reports(added, "it", 7, list(kinds), records_max)
    return guarded_group(function, reports, kinds), added.reports


def frame(*numbers: int) -> pd.DataFrame:
    return pd.DataFrame({"n": numbers})


@pytest.mark.parametrize("function", [halved, with_key])
def test_a_group_that_fails_gives_nothing_and_is_reported_with_its_rows(
    function: Callable[..., Any],
) -> None:
    of_group, reports = made(function)
    # As Spark's worker tells what a function takes.
    assert len(inspect.getfullargspec(of_group).args) == 2
    assert list(of_group(("a",), frame(1, 2))["n"]) == [12, 6]
    left = of_group(("b",), frame(1, 0, 0))
    assert (len(left), len(left.columns)) == (0, 0)
    assert list(of_group(("c",), frame(3))["n"]) == [4]
    (report,) = reports
    assert (report["function"], report["arguments"], report["records"]) == (7, ("b",), 3)
    assert report["error"].startswith("ZeroDivisionError")


def test_tables_of_arrow() -> None:
    def cast(table: pa.Table) -> pa.Table:
        return table.cast(pa.schema([("n", pa.int64())]))

    of_group, reports = made(cast, kinds=("date",))
    day = pa.scalar(datetime.date(2024, 2, 29))
    left = of_group((day,), pa.table({"n": ["1", "x"]}))
    assert (left.num_rows, left.num_columns) == (0, 0)
    assert of_group((pa.scalar(None, pa.date32()),), pa.table({"n": ["1"]})).to_pydict() == {
        "n": [1]
    }
    assert [(report["arguments"], report["records"]) for report in reports] == [
        (("2024-02-29",), 2)
    ]


def test_the_bound_is_of_rows() -> None:
    of_group, _ = made(halved, records_max=3)
    of_group(("a",), frame(0, 1))
    with pytest.raises(ZeroDivisionError) as raised:
        of_group(("b",), frame(0, 1))
    assert (
        "had set aside 2 records of the task, and failed on 2: more than"
        in (raised.value.__notes__[0])
    )
    of_group(("c",), frame(0))


def test_a_key_that_fails_once_and_not_again_ends_the_task() -> None:
    of_group, _ = made(halved)
    of_group(("a",), frame(0))
    with pytest.raises(NotSetAsideError, match="same arguments"):
        of_group(("a",), frame(1))


def test_what_ends_data_ends_the_task() -> None:
    def stops(rows: object) -> object:
        raise StopIteration

    of_group, reports = made(stops)
    with pytest.raises(StopIteration):
        of_group(("a",), frame(1))
    assert reports == []


def test_keys_are_named_as_spark_reads_constants() -> None:
    key = (
        np.int64(-(2**63)), np.float64("nan"), np.bool_(True), None, "it's", datetime.date(33, 2, 1),
        decimal.Decimal("-0.01"), np.float32(0.1), np.float64("-inf"), pd.NA, pa.scalar(7),
    )  # fmt: skip
    kinds = (
        "bigint", "int", "boolean", "string", "string", "date",
        "decimal(7,2)", "float", "double", "int", "smallint",
    )  # fmt: skip
    assert key_texts(key, kinds) == (
        "-9223372036854775808", None, "true", None, "it's", "0033-02-01",
        "-0.01", "0.10000000149011612", "-Infinity", None, "7",
    )  # fmt: skip
    assert key_texts((), ()) == ()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        # NULL, or NaN.
        (np.float64("nan"), "double"),
        (np.float64(0.0), "double"),
        (np.float32(-0.0), "float"),
        ("a\ufffd", "string"),
        (b"a", "string"),
        (pd.NaT, "date"),
        (pd.Timestamp("2024-01-01"), "date"),
        (np.float64(1.5), "int"),
    ],
)
def test_groups_that_no_condition_names_end_the_task(value: Any, kind: str) -> None:
    of_group, reports = made(halved, kinds=(kind,))
    with pytest.raises(ZeroDivisionError) as raised:
        of_group((value,), frame(0))
    assert "not set aside" in raised.value.__notes__[0]
    assert reports == []


def test_a_pair_of_groups_that_fails_gives_nothing_and_is_reported_with_the_rows_of_both() -> None:
    def both(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([halved(left), halved(right)])

    def keyed(key: tuple[Any, ...], left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        return both(left, right).assign(k=key[0])

    for function in (both, keyed):
        added = Added()
        of_pair = guarded_pair(function, Reports(added, "it", 7, ["int"], 3), ("int",))
        # As Spark's worker tells what a function takes.
        assert len(inspect.getfullargspec(of_pair).args) == 3
        assert list(of_pair((np.int32(1),), frame(1, 2), frame(3))["n"]) == [12, 6, 4]
        left = of_pair((np.float64("nan"),), frame(), frame(1, 0))
        assert (len(left), len(left.columns)) == (0, 0)
        with pytest.raises(NotSetAsideError, match="same arguments"):
            of_pair((np.float64("nan"),), frame(), frame(1))
        with pytest.raises(ZeroDivisionError) as raised:
            of_pair((np.int32(2),), frame(0), frame(1))
        assert "failed on 2: more than" in raised.value.__notes__[0]
        assert [(report["arguments"], report["records"]) for report in added.reports] == [
            ((None,), 2)
        ]


def first_text(column: pd.Series) -> str | None:
    text: str | None = column.iloc[0]
    return text


def aggregate(
    kinds: tuple[str, ...] = ("string",), records_max: int = 9
) -> tuple[Callable[..., Any], Callable[..., bool], list[Any]]:
    """A function of a group and what says whether the group is left, which Spark's worker calls in turn."""

    def total(numbers: pd.Series) -> int:
        return sum(12 // n for n in numbers)

    added, failed = Added(), Failed()
    reports = Reports(added, "it", 7, list(kinds), records_max)
    return (
        guarded_value(total, failed),
        group_flag(reports, failed, kinds, first_text),
        added.reports,
    )


def test_an_aggregate_of_a_group_that_fails_is_null_and_its_group_not_left() -> None:
    total, is_kept, reports = aggregate()
    groups: list[tuple[str | None, list[int]]] = [("a", [1, 2]), (None, [3, 0, 0]), ("b", [4])]
    kept = [
        (total(pd.Series(numbers)), is_kept(pd.Series([key] * len(numbers))))
        for key, numbers in groups
    ]
    assert kept == [(18, True), (None, False), (3, True)]
    assert total(numbers=pd.Series([1])) == 12
    with pytest.raises(NotSetAsideError, match="same arguments"):
        is_kept(pd.Series([None]))
    (report,) = reports
    assert (report["function"], report["arguments"], report["records"]) == (7, (None,), 3)


@pytest.mark.parametrize("text", ["0.0", "-0.0", "NaN"])
def test_an_aggregate_of_a_group_that_no_condition_names_ends_the_task(text: str) -> None:
    total, is_kept, reports = aggregate(("double", "string"))
    assert total(pd.Series([0])) is None
    with pytest.raises(ZeroDivisionError) as raised:
        is_kept(pd.Series([text]), pd.Series(["a"]))
    assert f"a group of {text}" in raised.value.__notes__[0]
    assert total(pd.Series([0])) is None
    assert not is_kept(pd.Series(["1.5"]), pd.Series([text]))
    assert [report["arguments"] for report in reports] == [("1.5", text)]


def test_aggregates_beyond_the_bound_end_the_task() -> None:
    total, is_kept, _ = aggregate(records_max=3)
    assert total(pd.Series([0, 1])) is None
    assert not is_kept(pd.Series(["a", "a"]))
    assert total(pd.Series([0, 1])) is None
    with pytest.raises(ZeroDivisionError) as raised:
        is_kept(pd.Series(["b", "b"]))
    assert "failed on 2: more than" in raised.value.__notes__[0]


def test_what_the_worker_loads_of_an_aggregate_and_its_flag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def total(numbers: Any) -> int:
        return sum([12 // n for n in numbers.to_pylist()])

    added = Added()
    monkeypatch.setattr(
        guarded_groups, "reports_of", lambda *_: Reports(added, "it", 12, ["string"], 9)
    )
    code = cloudpickle.dumps((total, T.LongType()))
    of_group, returns = guarded_groups.guarded_aggregate(
        "252", "9", "12", "string", "total", '"long"', code
    )
    flag, flags = guarded_groups.kept_group("252", b"", "9", "12", "string")
    assert (returns, flags) == (T.LongType(), T.BooleanType())
    assert (of_group(pa.array([3])), flag(pa.array(["a"]))) == (4, True)
    assert (of_group(pa.array([0])), flag(pa.array(["b"]))) == (None, False)
    assert [report["arguments"] for report in added.reports] == [("b",)]
    written = ("252", "9", "12", "string|int", "total", '"long"', code)
    command = pickle.dumps(_Call(written, guarded_groups.guarded_aggregate), protocol=3)
    read = guarded_code(command)
    assert (read.number, read.types, read.name) == (12, ("string", "int"), "total")


def test_the_code_that_the_rule_writes() -> None:
    returns = T.StructType([T.StructField("n", T.LongType())])
    code = cloudpickle.dumps((with_key, returns))
    written = (b"reports", "9", "12", "string|int", "with_key", returns.json(), code)
    for function in (guarded_groups.guarded_groups, guarded_groups.guarded_pairs):
        command = pickle.dumps(_Call(written, function), protocol=3)
        read = guarded_code(command)
        assert (read.number, read.types, read.name) == (12, ("string", "int"), "with_key")


class _Call:
    def __init__(self, written: tuple[Any, ...], function: Callable[..., Any]) -> None:
        self.written = written
        self.function = function

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, self.written
