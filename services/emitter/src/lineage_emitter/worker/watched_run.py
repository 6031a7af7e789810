"""What one run of a segment watches of an operator, and reports of it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lineage_emitter.worker.latency import Tally
from lineage_emitter.worker.recorders import made_from
from lineage_emitter.worker.segment import Numbering, Segment
from lineage_emitter.worker.stopwatch import Stopwatch
from lineage_emitter.worker.values import ValueTexts
from lineage_emitter.worker.watch_conditions import Conditions, ConditionSet, Watch, conditions_of
from lineage_emitter.worker.watch_hits import Hits
from lineage_store.watch_folder import HITS, WatchableNode

Test = Callable[[Any], Any]

IN_THREAD = "its function takes them in a thread of its own"


@dataclass(slots=True)
class WatchedOperator:
    """An operator that can be watched.

    Args:
        folder: by which its job is watched.
        facts: of the operator.
        texts: what records look like; None: they are not shown.
        report: on the driver gets the facts when it gets a function.
    """

    folder: str
    facts: WatchableNode
    texts: ValueTexts | None
    report: Callable[[WatchableNode], None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return WatchedOperator, (self.folder, self.facts, self.texts)


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that counts, and where the records go that fulfil it (``must``: that do not)."""

    test: Test
    must: bool
    hits: Hits


@dataclass(slots=True, eq=False)
class RunWatch:
    """What one run reports of a watch. ``is_refused``: who watches was told that records can't be timed."""

    watch: Watch
    hits: Hits
    tally: Tally | None = None
    is_refused: bool = False


class WatchedRun:
    """Of one operator.

    Args:
        operator: what is watched.
        segment: which runs the operator's function.
        split: of its partition.
    """

    def __init__(self, operator: WatchedOperator, segment: Segment, split: int) -> None:
        self._conditions: Conditions = conditions_of(operator.folder)
        self._operator = operator
        self.segment = segment
        self._split = split
        self._name = uuid.uuid4().hex
        self._tested_by: ConditionSet | None = None
        self._timed_by: ConditionSet | None = None
        """The conditions that were taken up last."""
        self._watches: dict[str, RunWatch] = {}
        """By name: all that counted at some time."""
        self.checks: list[Check] = []
        self.is_begun = self.is_done = False
        """Whether a record may have passed, and whether the function gave its last one."""
        self._untimed = ""
        """Why records can't be timed."""
        # Records that rules leave out of lineage are watched, too.
        self._taken = self._given = segment.numbering.unlimited or segment.numbering
        self._may_buffer: bool | None = None
        """Whether the function may work on records that it got before; None: it is being called."""
        self.stopwatch: Stopwatch[Hits] = Stopwatch(segment, self._report_slow)
        segment.on_end(self.close)

    def made_by_function(self) -> None:
        """The function has been called: its records have the numbering that the segment has now."""
        self._may_buffer = self._buffers()
        self._given = self.segment.numbering.unlimited or self.segment.numbering

    # -- what is watched for -------------------------------------------------------------------

    def conditions_in_force(self) -> ConditionSet:
        """The conditions that count now. A portion of records is begun with one look, whatever operators it passes."""
        if self._conditions.are_due:
            with self.segment.capturing():
                self._conditions.read()
        return self._conditions.in_force

    def poll(self) -> None:
        """Test and time records by the conditions that count now."""
        in_force = self.conditions_in_force()
        self.test_by(in_force)
        self.time_by(in_force)

    @property
    def is_watched(self) -> bool:
        """Whether records are tested or timed now."""
        return bool(self.checks) or self.stopwatch.is_needed

    def test_by(self, in_force: ConditionSet) -> None:
        """What the operator gives from now on is tested by these conditions."""
        if in_force is self._tested_by:
            return
        self._tested_by = in_force
        with self.segment.capturing():
            self.checks = [
                Check(test, run_watch.watch.request.must, run_watch.hits)
                for run_watch in self._reported(in_force)
                if (test := run_watch.watch.test) is not None
            ]

    def time_by(self, in_force: ConditionSet) -> None:
        """What the operator gets from now on is timed by these conditions."""
        if in_force is self._timed_by:
            return
        self._timed_by = in_force
        with self.segment.capturing():
            watches = self._reported(in_force)
            for run_watch in self._watches.values():
                if run_watch.tally is not None and run_watch not in watches:
                    # It may count again, as where the folder could not be read for a while.
                    run_watch.tally.sees_first = False
            self.take_up_times(watches)

    def take_up_times(self, watches: list[RunWatch]) -> None:
        """Time records by these from now on."""
        if self._untimed:
            self._refuse_slow()
            self.stopwatch.stop()
            return
        self.stopwatch.set_bounds(
            [
                (bound_s, run_watch.hits)
                for run_watch in watches
                if (bound_s := run_watch.watch.request.slower_than_s) is not None
            ],
            [self._tally_of(run_watch) for run_watch in watches if run_watch.watch.request.latency],
        )

    def _tally_of(self, run_watch: RunWatch) -> Tally:
        if run_watch.tally is None:
            run_watch.tally = Tally(self._slow, not self.is_begun)
        return run_watch.tally

    def _reported(self, in_force: ConditionSet) -> list[RunWatch]:
        """The watches of the operator that count."""
        return [self._run_watch(watch) for watch in in_force.of(self._operator.facts)]

    def _run_watch(self, watch: Watch) -> RunWatch:
        if watch.name not in self._watches:
            path = self._conditions.folder / HITS / watch.name / f"{self._name}.jsonl"
            operator = self._operator.facts
            facts = {"node": operator.node, "label": operator.label, "partition": self._split}
            hits = Hits(str(path), facts, watch.request.limit, watch.request.must)
            self._watches[watch.name] = RunWatch(watch, hits)
            if watch.problem:
                hits.write({"problem": watch.problem})
        return self._watches[watch.name]

    def cannot_watch(self, reason: str) -> None:
        """Say so to those who watch now."""
        self.cannot_time(reason)
        for run_watch in self._reported(self.conditions_in_force()):
            run_watch.hits.write({"problem": f"records can't be watched here: {reason}"})

    def cannot_time(self, reason: str) -> None:
        """From now on no record is timed; those who want to know are told."""
        if self._untimed:
            return
        self._untimed = reason
        self._timed_by = None
        self.stopwatch.stop()

    def is_in_own_thread(self) -> bool:
        """Whether the records come in the segment's thread; in another no record is timed."""
        if threading.get_ident() == self.segment.thread:
            return True
        self.cannot_time(IN_THREAD)
        return False

    def _refuse_slow(self) -> None:
        for run_watch in self._watches.values():
            if run_watch.watch.request.is_timed and not run_watch.is_refused:
                run_watch.is_refused = True
                run_watch.hits.write({"problem": f"records can't be timed here: {self._untimed}"})

    # -- records on their way ------------------------------------------------------------------

    def given(self, records: Iterator[Any], in_force: ConditionSet) -> Iterator[Any]:
        """A portion of the records that the operator gives, tested by conditions."""
        self.test_by(in_force)
        self.is_begun = True
        return self.checked(records)

    def checked(self, records: Iterator[Any]) -> Iterator[Any]:
        """The records that the operator gives, tested as they pass."""
        for check in self.checks:
            find = self._find_breaking if check.must else self._find_fulfilling
            records = find(records, check.test, check.hits)
        return records

    # Each of their steps takes as long as a short function.

    def _find_fulfilling(self, records: Iterator[Any], test: Test, hits: Hits) -> Iterator[Any]:
        """Pass records on, and report those that fulfil a condition."""
        for record in records:
            try:
                is_passed = not test(record)
            except Exception as problem:
                hits.fail(problem)
                is_passed = True
            if not is_passed:
                self._report(hits, record, self._given)
            yield record

    def _find_breaking(self, records: Iterator[Any], test: Test, hits: Hits) -> Iterator[Any]:
        """Pass records on, report those that do not fulfil a condition, and count all."""
        count = 0
        try:
            for record in records:
                count += 1
                try:
                    is_reported = not test(record)
                except Exception as problem:
                    hits.fail(problem)
                    is_reported = True
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
        texts = self._operator.texts
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
        is_whole = tally.sees_first and self.is_done and not self._untimed
        hits.write({"records": tally.records, "seconds": tally.seconds, "is_whole": is_whole})
        for description in tally.slowest():
            hits.write(description)

    def _buffers(self) -> bool:
        """Whether the function called last left a numbering that says so."""
        numbering: Numbering | None = self.segment.numbering
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
        for run_watch in self._watches.values():
            if run_watch.tally is not None and run_watch.tally.records:
                self._report_tally(run_watch.tally, run_watch.hits)
            run_watch.hits.close()
