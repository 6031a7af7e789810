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
from lineage_emitter.worker.watch_conditions import Conditions, Watch, conditions_of
from lineage_emitter.worker.watch_hits import Hits
from lineage_store.watch_folder import HITS, WatchableNode

IN_THREAD = "its function takes them in a thread of its own"


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that counts, and where the records go that fulfil it (``must``: that do not)."""

    test: Callable[[Any], Any]
    must: bool
    hits: Hits


class WatchedRun:
    """Of one operator.

    Args:
        folder: by which the job is watched.
        facts: of the operator.
        texts: what records look like; None: they are not shown.
        segment: which runs the operator's function.
        split: of its partition.
    """

    def __init__(
        self,
        folder: str,
        facts: WatchableNode,
        texts: ValueTexts | None,
        segment: Segment,
        split: int,
    ) -> None:
        self._conditions: Conditions = conditions_of(folder)
        self._facts = facts
        self._texts = texts
        self.segment = segment
        self._split = split
        self._name = uuid.uuid4().hex
        self._version = -1
        """Of the conditions that were taken up last."""
        self._hits: dict[str, tuple[Watch, Hits]] = {}
        self.checks: list[Check] = []
        self._tallies: dict[str, Tally] = {}
        self.is_begun = self.is_done = False
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
        self._given = self.segment.numbering.unlimited or self.segment.numbering

    # -- what is watched for -------------------------------------------------------------------

    def poll(self) -> None:
        """Take up the conditions that count now."""
        if self._conditions.are_due:
            with self.segment.capturing():
                self._conditions.read()
        if self._version != self._conditions.version:
            with self.segment.capturing():
                self._version = self._conditions.version
                watches = self._conditions.of(self._facts)
                self.take_up([(watch, self._hits_of(watch)) for watch in watches])

    @property
    def is_watched(self) -> bool:
        """Whether records are tested or timed now."""
        return bool(self.checks) or self.stopwatch.is_needed

    def take_up(self, watches: list[tuple[Watch, Hits]]) -> None:
        """These count from now on."""
        self.checks = [
            Check(watch.test, watch.request.must, hits)
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
            self._tallies[watch.name] = Tally(self._slow, not self.is_begun)
        return self._tallies[watch.name]

    def _hits_of(self, watch: Watch) -> Hits:
        if watch.name not in self._hits:
            path = self._conditions.folder / HITS / watch.name / f"{self._name}.jsonl"
            facts = {
                "node": self._facts.node,
                "label": self._facts.label,
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
        for watch in self._conditions.of(self._facts):
            self._hits_of(watch).write({"problem": f"records can't be watched here: {reason}"})

    def cannot_time(self, reason: str) -> None:
        """From now on no record is timed; those who want to know are told."""
        if self._untimed:
            return
        self._untimed = reason
        self._version = -1
        self.stopwatch.stop()

    def is_in_own_thread(self) -> bool:
        """Whether the records come in the segment's thread; in another no record is timed."""
        if threading.get_ident() == self.segment.thread:
            return True
        self.cannot_time(IN_THREAD)
        return False

    def _refuse_slow(self) -> None:
        for name, (watch, hits) in self._hits.items():
            if watch.request.is_timed and name not in self._refused:
                self._refused.add(name)
                hits.write({"problem": f"records can't be timed here: {self._untimed}"})

    # -- records on their way ------------------------------------------------------------------

    def given(self, records: Iterator[Any]) -> Iterator[Any]:
        """A portion of the records that the operator gives, tested by the conditions that count now."""
        self.poll()
        self.is_begun = True
        return self.checked(records)

    def checked(self, records: Iterator[Any]) -> Iterator[Any]:
        """The records that the operator gives, tested as they pass."""
        for check in self.checks:
            records = self._checked(records, check)
        return records

    def _checked(self, records: Iterator[Any], check: Check) -> Iterator[Any]:
        """Pass records on, and report those that fulfil a condition, or break one."""
        test, must, hits = check.test, check.must, check.hits
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
        texts = self._texts
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
        for name, tally in self._tallies.items():
            if tally.records:
                self._report_tally(tally, self._hits[name][1])
        for _, hits in self._hits.values():
            hits.close()
