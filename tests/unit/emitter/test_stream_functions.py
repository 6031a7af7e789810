"""Functions that PySpark's streams of RDDs are made of are known by what they are, also when a checkpoint gives them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pyspark.cloudpickle import dumps, loads
from pyspark.streaming import dstream
from pyspark.streaming.dstream import DStream

from lineage_emitter.driver import rdd_streams
from lineage_emitter.driver.partition_rule import one_record_rule, stream_operator

pytestmark = pytest.mark.unit


class _Rdd:
    """Takes the function that ``mapPartitionsWithIndex`` is given."""

    def __init__(self) -> None:
        self.functions: list[Any] = []

    def mapPartitionsWithIndex(self, function: Any, preserves: bool) -> None:
        self.functions.append(function)


class _Stream(DStream[Any]):
    """A stream whose batches are one such RDD."""

    def __init__(self) -> None:
        self.rdd = _Rdd()

    def transform(self, function: Any) -> Any:
        function(self.rdd)
        return self


def function_of(make: Callable[[DStream[Any]], Any]) -> Any:
    stream = _Stream()
    make(stream)
    (function,) = stream.rdd.functions
    return function


def _upper(records: Iterable[str]) -> Iterable[str]:
    return (record.upper() for record in records)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    ("make", "operator"),
    [
        (lambda stream: stream.map(str.upper), "map"),
        (lambda stream: stream.mapValues(str.upper), "map"),
        (lambda stream: stream.filter(bool), "filter"),
        (lambda stream: stream.flatMap(str.split), "flatMap"),
        (lambda stream: stream.flatMapValues(str.split), "flatMap"),
        (lambda stream: stream.mapPartitions(_upper), ""),
        (lambda stream: stream.glom(), ""),
        (lambda stream: stream.mapPartitionsWithIndex(lambda _, records: records), ""),
    ],
)
def test_operators_that_work_record_by_record(
    make: Callable[[DStream[Any]], Any], operator: str, kept: bool
) -> None:
    function = function_of(make)
    assert stream_operator(loads(dumps(function)) if kept else function) == operator


def test_the_users_own_function_is_looked_into() -> None:
    assert one_record_rule(function_of(lambda stream: stream.mapPartitions(_upper))).holds
    assert not one_record_rule(function_of(lambda stream: stream.mapPartitions(sorted))).holds


def test_what_keeps_a_state_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def transform_function(sc: Any, function: Any, *deserializers: Any) -> Any:
        given.append(function)
        raise InterruptedError

    monkeypatch.setattr(dstream, "TransformFunction", transform_function)
    stream: Any = _Stream()
    stream._sc = type("Context", (), {"serializer": None, "defaultParallelism": 1})
    stream._jrdd_deserializer = None
    stream._validate_window_param = lambda *_: None
    stream.reduceByKey = lambda *_: stream
    with pytest.raises(InterruptedError):
        stream.updateStateByKey(lambda new, old: None)
    with pytest.raises(InterruptedError):
        stream.reduceByKeyAndWindow(min, max, 10, 1)
    names = [rdd_streams.state_operator(loads(dumps(function))) for function in given]
    assert names == ["DStream.updateStateByKey", "DStream.reduceByKeyAndWindow"]
    assert not rdd_streams.state_operator(_upper)
