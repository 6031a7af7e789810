"""Functions of DataFrames that go on without the rows they fail on, as a worker runs them."""

from __future__ import annotations

import datetime
import decimal
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import types as T

from lineage_emitter.dataframes.guarded_code import guarded_code
from lineage_emitter.worker import guarded_function
from lineage_emitter.worker.guarded_function import GuardedFunction, Reports, guarded, internal_text
from lineage_emitter.worker.row_batches import NotSetAsideError
from tests.support.added_reports import Added

pytestmark = pytest.mark.unit


def inverse(value: int) -> int:
    return 12 // value


def plus(value: int, by: int = 1) -> int:
    return value + by


def made(*functions: Any, records_max: int = 9, types: tuple[str, ...] = ("int",)) -> Any:
    added = Added()
    reports = Reports(added, "it", 7, list(types), records_max)
    return GuardedFunction(list(functions), None, reports), added.reports


def test_a_value_is_a_struct_and_a_failure_is_null_and_reported() -> None:
    function, reports = made(inverse)
    assert [function(value) for value in (1, 0, 3, 0, 5)] == [(12,), None, (4,), None, (2,)]
    (report,) = reports
    assert (report["function"], report["arguments"], report["records"]) == (7, ("0",), 2)
    assert report["error"].startswith("ZeroDivisionError")


def test_functions_of_each_other_are_one_call() -> None:
    function, reports = made(plus, inverse)
    assert [function(value) for value in (1, -1)] == [(6,), None]
    assert [report["arguments"] for report in reports] == [("-1",)]


def test_an_equal_call_that_does_not_fail_ends_the_task() -> None:
    fails = iter([True, False, False])

    def once(value: float) -> float:
        if next(fails):
            raise OSError("away")
        return value

    function, _ = made(once, types=("double",))
    assert [function(-0.0), function(0.0)] == [None, (0.0,)]
    with pytest.raises(NotSetAsideError, match=r"same arguments.*OSError: away"):
        function(-0.0)


def test_the_bound_ends_the_task() -> None:
    function, _ = made(inverse, records_max=1)
    assert function(0) is None
    with pytest.raises(ZeroDivisionError) as raised:
        function(0)
    assert "had set aside 1 records" in raised.value.__notes__[0]


def test_what_ends_data_and_what_can_not_be_named_ends_the_task() -> None:
    def stops(value: object) -> object:
        raise StopIteration

    function, reports = made(stops)
    with pytest.raises(StopIteration):
        function(1)
    function, reports = made(inverse, types=("string",))
    with pytest.raises(TypeError) as raised:
        function("\ufffd")
    assert "not set aside" in raised.value.__notes__[0]
    assert reports == []


def test_a_value_of_another_type_fails_as_the_function_does() -> None:
    def dated(value: int) -> Any:
        return datetime.date(2020, 1, 1) if value else "no date"

    added = Added()
    code = cloudpickle.dumps((dated, T.DateType()))
    function, kind = guarded(pickle.dumps((added, "it")), "5", "3", "int", "dated", '"date"', code)
    assert kind.fields == [T.StructField("__lineage_kept", T.DateType())]
    assert [function(1), function(0)] == [
        (T.DateType().toInternal(datetime.date(2020, 1, 1)),),
        None,
    ]


def test_a_value_is_converted_once_as_plain_spark_does() -> None:
    def paired(value: int) -> Any:
        return zip(str(value), [datetime.date(2020, 1, 1)], strict=False)

    pairs = T.StructType([T.StructField("k", T.StringType()), T.StructField("d", T.DateType())])
    returns = T.ArrayType(pairs)
    code = cloudpickle.dumps((paired, returns))
    function, kind = guarded(pickle.dumps((Added(), "it")), "5", "3", "int", "paired", "{}", code)
    # Spark's worker converts what a function gives where its type says so.
    given = kind.toInternal(function(7)) if kind.needConversion() else function(7)
    assert given == (returns.toInternal(paired(7)),) == ([("7", 18262)],)


def test_jobs_of_others_end_with_a_row_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Context:
        owner: str | None = "it"

        @classmethod
        def get(cls) -> Any:
            return cls

        @classmethod
        def getLocalProperty(cls, name: str) -> str | None:
            return cls.owner if name == guarded_function.RUNNING else None

        stageId = partitionId = staticmethod(lambda: 0)

    monkeypatch.setattr(guarded_function, "TaskContext", Context)
    function, reports = made(inverse)
    assert function(0) is None
    for owner in (None, "another"):
        Context.owner = owner
        with pytest.raises(ZeroDivisionError) as raised:
            function(0)
        assert "of no recorded action" in raised.value.__notes__[0]
    assert [report["records"] for report in reports] == [1]


def test_long_arguments_end_the_task() -> None:
    function, reports = made(inverse, types=("string",))
    assert function("x" * guarded_function.ARGUMENT_BYTES_MAX) is None
    with pytest.raises(TypeError) as raised:
        function("\xfc" * (guarded_function.ARGUMENT_BYTES_MAX // 2 + 1))
    assert "its arguments have 4,098 bytes" in raised.value.__notes__[0]
    assert len(reports) == 1


def test_the_code_behind_a_function_is_read_without_loading_it() -> None:
    parts = ("reports", "5", "3", "int|string", "f", '"int"', b"no pickle", "g", '"date"', b"none")
    text = b"".join(
        b"B" + len(part).to_bytes(4, "little") + part
        if isinstance(part, bytes)
        else b"X" + len(part.encode()).to_bytes(4, "little") + part.encode()
        for part in parts
    )
    name = b"clineage_emitter.worker.guarded_function\nguarded\n("
    code = guarded_code(b"\x80\x03" + name + text + b"tR.")
    assert (code.number, code.types) == (3, ("int", "string"))
    assert code.chain == (("f", '"int"', b"no pickle"), ("g", '"date"', b"none"))
    with pytest.raises(pickle.UnpicklingError, match="is not what was written"):
        guarded_code(cloudpickle.dumps((inverse, T.DateType())))


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "int", None),
        (True, "boolean", "true"),
        (-3, "bigint", "-3"),
        (decimal.Decimal("1.50"), "decimal(7,2)", "1.50"),
        (0.1, "double", "0.1"),
        (-0.0, "double", "-0.0"),
        (math.nan, "double", "NaN"),
        (-math.inf, "float", "-Infinity"),
        ("a'b", "string", "a'b"),
        (datetime.date(33, 2, 1), "date", "0033-02-01"),
    ],
)
def test_texts_of_arguments(value: Any, kind: str, text: str | None) -> None:
    assert internal_text(value, kind) == text


@pytest.mark.parametrize(("value", "kind"), [("\ufffd", "string"), ([1], "array<int>")])
def test_what_names_no_row(value: Any, kind: str) -> None:
    with pytest.raises(ValueError, match=r"can't be named|bytes that are none"):
        internal_text(value, kind)


@given(st.integers(-(10**15), 4 * 10**15))
def test_a_time_is_named_by_the_very_time_that_a_worker_got(micros: int) -> None:
    got = T.TimestampType().fromInternal(micros)
    try:
        text = internal_text(got, "timestamp")
    except ValueError:
        return
    assert text == str(micros)
