"""Watches in the workers: records that fulfil a condition, break one, or are slow are reported while the task runs.

Who watches puts conditions into a folder (:mod:`lineage_store.watch_folder`), and takes them out again. Records pass in
portions of about `POLL_S`, and between two portions the folder is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.by_record import ByRecord
from lineage_emitter.worker.partition_inputs import (
    NumberedCollection,
    NumberedRecords,
    is_uncountable,
    wrap_like,
)
from lineage_emitter.worker.portions import portions
from lineage_emitter.worker.watched_run import WatchedOperator, WatchedRun
from lineage_emitter.worker.watched_steps import WatchedStep, WatchedSteps

Records = Iterable[Any]
PartitionFunction = Callable[[int, Records], Records]

NO_SINGLE_RECORDS = "it has no function that takes its records one by one"
AS_COLLECTION = "its function gets all of them at once"
OWN_COLLECTION = "its function returned a collection of a type of its own"


def watchable(
    function: PartitionFunction, operator: WatchedOperator, *, takes_records: bool
) -> PartitionFunction:
    """``function``, whose records can be watched. ``takes_records``: it works on records of the chain, which can be timed."""
    if operator.report is not None:
        operator.report(operator.facts)
    return Watchable(function, operator, takes_records=takes_records)


class Watchable:
    """``function``, whose records are tested and timed by the conditions that count while they pass."""

    def __init__(
        self, function: PartitionFunction, operator: WatchedOperator, *, takes_records: bool
    ) -> None:
        self.function = function
        self.operator = operator
        self.takes_records = takes_records

    def __call__(self, split: int, iterator: Records) -> Records:
        function = self.function
        if not self.takes_records:
            return self._given(function(split, iterator), split)
        segment = segments.current_segment()
        if isinstance(function, ByRecord):
            step = WatchedStep(self.operator, segment, split, function)
            return WatchedSteps.behind(iterator, step, function)
        run = _FunctionRun(self.operator, segment, split)
        inputs = run.inputs(iterator)
        try:
            records = function(split, inputs)
        finally:
            run.stopwatch.leave()
        run.made_by_function()
        if is_uncountable(records):
            run.cannot_watch(OWN_COLLECTION)
            return records
        return wrap_like(records, chain.from_iterable(run.output_portions(records)))

    def _given(self, records: Records, split: int) -> Records:
        """Records of a function that takes none of the chain."""
        run = WatchedRun(self.operator, segments.current_segment(), split)
        run.cannot_time(NO_SINGLE_RECORDS)
        if is_uncountable(records):
            run.cannot_watch(OWN_COLLECTION)
            return records
        kind = records.kind if isinstance(records, NumberedRecords) else type(records)
        given = WatchedSteps.given(records, run, kind)
        return wrap_like(records, given) if isinstance(records, NumberedCollection) else given


class _Inputs:
    """Records on their way to a function, as often as they are iterated over."""

    def __init__(self, records: Records, run: _FunctionRun) -> None:
        self._records = records
        self._run = run

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._run.input_portions(self._records))


class _FunctionRun(WatchedRun):
    """What one run of a segment watches of a function over a partition, which takes and gives records as it likes."""

    def inputs(self, records: Records) -> Records:
        """The records, watched on their way to the function."""
        if is_uncountable(records):
            self.cannot_time(AS_COLLECTION)
            return records
        watched = _Inputs(records, self)
        if not isinstance(records, NumberedCollection):
            return wrap_like(records, watched)

        def mark_all_read() -> None:
            records.mark_all_read()
            self.cannot_time(AS_COLLECTION)

        return NumberedCollection(records.collection, watched, mark_all_read)

    def input_portions(self, records: Records) -> Iterator[Iterable[Any]]:
        """The records on their way to the function."""
        if not self.is_in_own_thread():
            yield iter(records)
            return
        for portion in portions(records):
            self.poll()
            self.is_begun = True
            yield self.stopwatch.inputs(portion) if self.stopwatch.is_needed else portion

    def output_portions(self, records: Records) -> Iterator[Iterable[Any]]:
        """The records that the function gives."""
        self.stopwatch.resume()
        try:
            for portion in portions(records):
                self.poll()
                if self.is_watched:
                    yield self.checked(self.stopwatch.outputs(portion))
                else:
                    self.stopwatch.miss_outputs()
                    yield portion
                self.stopwatch.await_outputs()
            self.is_done = True
        finally:
            # Of the last record, whatever the function did with it.
            self.stopwatch.finish()
