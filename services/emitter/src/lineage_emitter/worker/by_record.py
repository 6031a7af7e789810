"""Functions that work record by record, as PySpark runs them, with one call less a record.

PySpark wraps each user function so that a ``StopIteration`` from it fails the task instead of
ending the data. A generator does the same for free: what the function raises reaches the
generator's ``except``, what the records raise ends its loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from pyspark.errors import PySparkRuntimeError

from lineage_emitter.worker.partition_inputs import NumberedRecords


def stop_iteration_error(stop: StopIteration) -> PySparkRuntimeError:
    """What PySpark raises when a user function raises ``StopIteration``."""
    # By place: 4.0 gave these parameters other names.
    return PySparkRuntimeError(None, "STOP_ITERATION_OCCURRED", {"exc": str(stop)})


def pass_through(split: int, records: Iterable[Any]) -> Iterable[Any]:
    """Records as they are."""
    return records


def nothing(record: Any) -> None:
    """What is left to do with a record that a function before had."""


class ByRecord:
    """A function of the user that works record by record."""

    kind: type
    """Of the iterator that PySpark's own returns."""

    is_at_record = True
    """Whether what it raised last is of the record that it got."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, split: int, records: Iterable[Any]) -> NumberedRecords:
        return NumberedRecords(self.run(records), self.kind)

    def run(self, records: Iterable[Any]) -> Iterator[Any]:
        """What it makes of the records."""
        raise NotImplementedError

    def outputs(self, record: Any) -> Sequence[Any]:
        """What it makes of one record."""
        raise NotImplementedError

    def around(self, wrap: Callable[[Callable[[Any], Any]], Callable[[Any], Any]]) -> ByRecord:
        """The same, which calls ``wrap`` of its function with the record."""
        return type(self)(wrap(self.function))


class Map(ByRecord):
    """``map``."""

    kind: type = map

    def run(self, records: Iterable[Any]) -> Iterator[Any]:
        function = self.function
        try:
            for record in records:
                yield function(record)
        except StopIteration as stop:
            raise stop_iteration_error(stop) from stop

    def outputs(self, record: Any) -> Sequence[Any]:
        """What it makes of one record."""
        return (self.function(record),)


class MapValues(ByRecord):
    """``mapValues``."""

    kind: type = map

    def run(self, records: Iterable[Any]) -> Iterator[Any]:
        function = self.function
        try:
            for key_value in records:
                yield (key_value[0], function(key_value[1]))
        except StopIteration as stop:
            raise stop_iteration_error(stop) from stop

    def outputs(self, record: Any) -> Sequence[Any]:
        """What it makes of one record."""
        return (self._pair(record),)

    def around(self, wrap: Callable[[Callable[[Any], Any]], Callable[[Any], Any]]) -> ByRecord:
        """The same: the record is key and value."""
        return Map(wrap(self._pair))

    def _pair(self, record: Any) -> tuple[Any, Any]:
        return (record[0], self.function(record[1]))


class FlatMap(Map):
    """``flatMap``."""

    kind: type = chain

    def run(self, records: Iterable[Any]) -> Iterator[Any]:
        return chain.from_iterable(self.collections(records))

    def collections(self, records: Iterable[Any]) -> Iterator[Any]:
        """What the function gives for each of the records."""
        return super().run(records)

    def outputs(self, record: Any) -> Sequence[Any]:
        """What it makes of one record."""
        return tuple(self.function(record))


class Filter(ByRecord):
    """``filter``."""

    kind: type = filter

    def run(self, records: Iterable[Any]) -> Iterator[Any]:
        function = self.function
        try:
            for record in records:
                if function(record):
                    yield record
        except StopIteration as stop:
            raise stop_iteration_error(stop) from stop

    def outputs(self, record: Any) -> Sequence[Any]:
        """What it makes of one record."""
        return (record,) if self.function(record) else ()


class ForEach(Map):
    """``foreach``: gives the records that it was called on."""

    def run(self, records: Iterable[Any]) -> Iterator[Any]:
        function = self.function
        try:
            for record in records:
                function(record)
                yield record
        except StopIteration as stop:
            raise stop_iteration_error(stop) from stop

    def outputs(self, record: Any) -> Sequence[Any]:
        """The record itself."""
        self.function(record)
        return (record,)
