"""Watchpoints in the workers: records that fulfil a condition, break one, or are slow are reported while the task runs.

Who watches puts conditions into a folder (:mod:`lineage_store.watch_folder`), and takes them out again. Records pass in
portions of about `POLL_S`, and between two portions the folder is looked at: with nothing to watch for, a record costs
a step of two iterators of Python's own, before and behind a function.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.latency import Tally
from lineage_emitter.worker.partition_inputs import (
    NumberedCollection,
    is_uncountable,
    wrap_like,
)
from lineage_emitter.worker.portions import portions
from lineage_emitter.worker.recorders import made_from
from lineage_emitter.worker.segment import Numbering, Segment
from lineage_emitter.worker.stopwatch import Stopwatch
from lineage_emitter.worker.values import ValueTexts
from lineage_emitter.worker.watch_conditions import Conditions, Watch, conditions_of
from lineage_emitter.worker.watch_hits import Hits
from lineage_store.watch_folder import HITS, WatchableNode

Records = Iterable[Any]
PartitionFunction = Callable[[int, Records], Records]

NO_SINGLE_RECORDS = "it has no function that takes its records one by one"
IN_THREAD = "its function takes them in a thread of its own"
AS_COLLECTION = "its function gets all of them at once"
OWN_COLLECTION = "its function returned a collection of a type of its own"


@dataclass(slots=True)
class WatchedNode:
    """An operator that can be watched. On the driver ``report`` gets it when it gets a function."""

    folder: str
    facts: WatchableNode
    texts: ValueTexts | None
    report: Callable[[WatchableNode], None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return WatchedNode, (self.folder, self.facts, self.texts)

    def around(self, function: PartitionFunction, *, takes_records: bool) -> PartitionFunction:
        """``function``, whose records can be watched. ``takes_records``: it works on records of the chain, which can be timed."""
        if self.report is not None:
            self.report(self.facts)
        return Watchable(function, self, takes_records=takes_records)


class Watchable:
    """``function``, whose records are tested and timed by the conditions that count while they pass."""

    def __init__(
        self, function: PartitionFunction, node: WatchedNode, *, takes_records: bool
    ) -> None:
        self.function = function
        self.node = node
        self.takes_records = takes_records

    def __call__(self, split: int, iterator: Records) -> Records:
        if self.takes_records:
            run = _Run(self.node, segments.current_segment(), split)
            inputs = run.inputs(iterator)
            try:
                records = self.function(split, inputs)
            finally:
                run.stopwatch.leave()
        else:
            records = self.function(split, iterator)
            run = _Run(self.node, segments.current_segment(), split)
            run.cannot_time(NO_SINGLE_RECORDS)
        run.made_by_function()
        if is_uncountable(records):
            run.cannot_watch(OWN_COLLECTION)
            return records
        return wrap_like(records, chain.from_iterable(run.output_portions(records)))


class _Inputs:
    """Records on their way to a function, as often as they are iterated over."""

    def __init__(self, records: Records, run: _Run) -> None:
        self._records = records
        self._run = run

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._run.input_portions(self._records))


class _Run:
    """What one run of a segment reports of an operator."""

    def __init__(self, node: WatchedNode, segment: Segment, split: int) -> None:
        self._conditions: Conditions = conditions_of(node.folder)
        self._node = node
        self._segment = segment
        self._split = split
        self._name = uuid.uuid4().hex
        self._hits: dict[str, tuple[Watch, Hits]] = {}
        self._watches: list[tuple[Callable[[Any], Any], bool, Hits]] = []
        self._tallies: dict[str, Tally] = {}
        self._is_begun = self._is_done = False
        """Whether a record may have passed, and whether the function gave its last one."""
        self._untimed = ""
        """Why records can't be timed."""
        self._refused: set[str] = set()
        """Watches that were told so."""
        # Records that rules leave out of lineage are watched, too.
        self._taken = self._given = segment.numbering.unlimited or segment.numbering
        self._may_buffer: bool | None = None
        """Whether the function may work on records that it got before; None: it is being called."""
        self.stopwatch: Stopwatch[Hits] = Stopwatch(segment, self._report_slow)
        segment.on_end(self.close)

    def made_by_function(self) -> None:
        """The function has been called: its records have the numbering that the segment has now."""
        self._may_buffer = self._buffers()
        self._given = self._segment.numbering.unlimited or self._segment.numbering

    # -- what is watched for -------------------------------------------------------------------

    def _poll(self) -> None:
        """Take up the conditions that count now."""
        if self._conditions.are_due:
            with self._segment.capturing():
                self._conditions.read()
        watches = self._conditions.of(self._node.facts)
        if watches or self._watches or self.stopwatch.is_needed:
            with self._segment.capturing():
                self._take_up([(watch, self._hits_of(watch)) for watch in watches])

    def _take_up(self, watches: list[tuple[Watch, Hits]]) -> None:
        self._watches = [
            (watch.test, watch.request.must, hits)
            for watch, hits in watches
            if watch.test is not None
        ]
        if self._untimed:
            self._refuse_slow()
        self.stopwatch.set_bounds(
            [
                (watch.request.slower_than_s, hits)
                for watch, hits in watches
                if watch.request.slower_than_s is not None and not self._untimed
            ],
            [
                self._tally_of(watch)
                for watch, _ in watches
                if watch.request.latency and not self._untimed
            ],
        )

    def _tally_of(self, watch: Watch) -> Tally:
        if watch.name not in self._tallies:
            self._tallies[watch.name] = Tally(self._slow, not self._is_begun)
        return self._tallies[watch.name]

    def _hits_of(self, watch: Watch) -> Hits:
        if watch.name not in self._hits:
            path = self._conditions.folder / HITS / watch.name / f"{self._name}.jsonl"
            facts = {
                "node": self._node.facts.node,
                "label": self._node.facts.label,
                "partition": self._split,
            }
            hits = Hits(str(path), facts, watch.request.limit, watch.request.must)
            self._hits[watch.name] = (watch, hits)
            if watch.problem:
                hits.write({"problem": watch.problem})
        return self._hits[watch.name][1]

    def cannot_watch(self, reason: str) -> None:
        """Say so to those who watch now."""
        self.cannot_time(reason)
        if self._conditions.are_due:
            self._conditions.read()
        for watch in self._conditions.of(self._node.facts):
            self._hits_of(watch).write({"problem": f"records can't be watched here: {reason}"})

    def cannot_time(self, reason: str) -> None:
        """From now on no record is timed; those who want to know are told."""
        self._untimed = reason
        self.stopwatch.stop()

    def _refuse_slow(self) -> None:
        for name, (watch, hits) in self._hits.items():
            if watch.request.is_timed and name not in self._refused:
                self._refused.add(name)
                hits.write({"problem": f"records can't be timed here: {self._untimed}"})

    # -- records on their way ------------------------------------------------------------------

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
        if threading.get_ident() != self._segment.thread:
            self.cannot_time(IN_THREAD)
            yield iter(records)
            return
        for first, others in portions(records):
            self._poll()
            self._is_begun = True
            if self.stopwatch.is_needed:
                yield self.stopwatch.inputs(chain((first,), others))
            else:
                yield (first,)
                yield others

    def output_portions(self, records: Records) -> Iterator[Iterable[Any]]:
        """The records that the function gives."""
        self.stopwatch.resume()
        try:
            for first, others in portions(records):
                self._poll()
                if self._watches or self.stopwatch.is_needed:
                    passing = self.stopwatch.outputs(chain((first,), others))
                    for test, must, hits in self._watches:
                        passing = self._tested(passing, test, must=must, hits=hits)
                    yield passing
                else:
                    self.stopwatch.miss_outputs()
                    yield (first,)
                    yield others
                self.stopwatch.await_outputs()
            self._is_done = True
        finally:
            # Of the last record, whatever the function did with it.
            self.stopwatch.finish()

    def _tested(
        self, records: Iterator[Any], test: Callable[[Any], Any], *, must: bool, hits: Hits
    ) -> Iterator[Any]:
        """Pass records on, and report those that fulfil a condition, or break one."""
        count = 0
        try:
            for record in records:
                count += 1
                try:
                    is_reported = (not test(record)) is must
                except Exception as problem:
                    hits.fail(problem)
                    is_reported = must
                if is_reported:
                    self._report(hits, record, self._given)
                yield record
        finally:
            hits.tested += count

    # -- reports -------------------------------------------------------------------------------

    def _report(self, hits: Hits, record: Any, numbering: Numbering, **more: float | bool) -> None:
        if hits.is_full:
            hits.beyond += 1
            return
        try:
            hits.write(self._origin(record, numbering) | more)
            hits.count += 1
        except Exception as problem:
            hits.fail(problem)

    def _origin(self, record: Any, numbering: Numbering) -> dict[str, Any]:
        texts = self._node.texts
        return {
            "text": None if texts is None else texts(record),
            "made_from": made_from(numbering),
            "superset": numbering.opaque,
        }

    def _times(self, seconds: float) -> dict[str, float | bool]:
        may_buffer = self._buffers() if self._may_buffer is None else self._may_buffer
        return {"seconds": seconds, "may_buffer": may_buffer}

    def _report_slow(self, hits: Hits, record: Any, seconds: float) -> None:
        self._report(hits, record, self._taken, **self._times(seconds))

    def _slow(self, record: Any, seconds: float) -> dict[str, Any]:
        """What is said of one of the slowest records of a task."""
        try:
            return self._origin(record, self._taken) | self._times(seconds)
        except Exception as problem:
            return {"error": type(problem).__name__}

    def _report_tally(self, tally: Tally, hits: Hits) -> None:
        is_whole = tally.sees_first and self._is_done and not self._untimed
        hits.write({"records": tally.records, "seconds": tally.seconds, "is_whole": is_whole})
        for description in tally.slowest():
            hits.write(description)

    def _buffers(self) -> bool:
        """Whether the function called last left a numbering that says so."""
        numbering: Numbering | None = self._segment.numbering
        while numbering is not None:
            numbering = numbering.unlimited or numbering
            if numbering.cell is self._taken.cell:
                return numbering is not self._taken and numbering.opaque
            numbering = numbering.base
        return False

    def close(self) -> None:
        """The end of the run: what was only counted is written."""
        self.stopwatch.finish()
        self.stopwatch.stop()
        if self._untimed:
            self._refuse_slow()
        for name, tally in self._tallies.items():
            if tally.records:
                self._report_tally(tally, self._hits[name][1])
        for _, hits in self._hits.values():
            hits.close()
