"""One watch of a running job, step by step: what `lineage watch` and the API repeat."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from lineage_core.tracing.trace_result import TraceError
from lineage_query.watching.latency import RankedTime, TaskReads, TaskTime, rank_times
from lineage_query.watching.reports import Candidate, Report, Reports
from lineage_query.watching.requests import RunningJob, counting_condition, has_operator
from lineage_query.watching.sources import NOT_LINKED, Sources, row_sources
from lineage_store.watch_folder import (
    JOB,
    WatchRequest,
    is_held,
    remove_if_over,
    unwatched_nodes,
)

POLL_S = 0.1
TRACE_EVERY_S = 1.0
LINKED_S = 60.0
"""For which sources are waited for when the job has ended."""

Find: TypeAlias = Callable[[Sequence[Candidate]], Sources | None]
"""Gives the sources of a record by what runs say of it; None: they are not known yet."""


_NAMES: dict[type, str] = {TaskTime: "task", TaskReads: "reads", Report: "record"}
"""Of events, for tools."""


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of sources that a record was made from."""

    report: Report
    sources: Sources


Event: TypeAlias = Report | Found | TaskTime | TaskReads | str
"""A text is a note: what is no record."""


class WatchLoop:
    """One watch, whose condition counts until it is over or closed.

    Args:
        job: which is watched.
        request: what for.
        finder: opens what finds sources, again and again.
        clock: in seconds, as ``time.monotonic``.

    Raises:
        TraceError: too many conditions count already, or the operator can't be watched.
        OSError: the job's folder can't be written.
    """

    def __init__(
        self,
        job: RunningJob,
        request: WatchRequest,
        finder: Callable[[], AbstractContextManager[Find]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.job = job
        self.request = request
        self.is_waited_for = not has_operator(job.folder, request)
        """The program had not made the operator when the watch began."""
        self._has_operator = not self.is_waited_for
        self._finder = finder
        self._clock = clock
        self._watching = counting_condition(job.folder, request)
        self._reports = Reports(self._watching.hits)
        self._pending: list[Report] = []
        self._traced_at = self._looked_at = clock()
        self._is_full = False
        self._deadline: float | None = None
        """Until when sources are waited for; None: records are still reported."""
        self.is_over = False

    def step(self) -> Iterator[Event]:
        """What has happened since the last step.

        Raises:
            TraceError: the program has made an operator that is watched, and that can't be.
        """
        if self._deadline is None:
            yield from self._watch()
        yield from self._find_sources()
        if self._deadline is not None and (not self._pending or self._clock() >= self._deadline):
            yield from self.give_up(NOT_LINKED)

    def _watch(self) -> Iterator[Event]:
        yield from self._look()
        if not self._is_full and (reason := self._fullness()):
            self._is_full = True
            self._watching.close()
            yield f"stopped watching after {reason}"
        if not is_held(self.job.folder / JOB) or (self._is_full and not self._pending):
            yield from self.rest()
            self._deadline = self._clock() + LINKED_S

    def _fullness(self) -> str:
        found = self._reports.tasks if self.request.latency else self._reports.reports
        if len(found) >= self.request.limit:
            what = "tasks" if self.request.latency else "records"
            return f"{self.request.limit:,} {what} (--limit)"
        return "as many bytes as a watch may report" if self._reports.is_full else ""

    def rest(self) -> Iterator[Event]:
        """What tasks have written since, and what they only counted."""
        yield from self._look()
        if self.request.must or self.request.slower_than_s is not None:
            yield from self._unwatched()
        yield from self._reports.summary()

    def _unwatched(self) -> Iterator[str]:
        """What could not be watched of what must fulfil the condition, or of the calls that are timed."""
        with suppress(FileNotFoundError):
            missed = [node for node in unwatched_nodes(self.job.folder) if node.fits(self.request)]
            self._reports.sees_all &= not missed
            yield from dict.fromkeys(
                f"{node.label} can't be watched: {node.why}" for node in missed
            )

    def give_up(self, reason: str) -> Iterator[Event]:
        """The end: sources that are not known by now have a reason."""
        pending, self._pending = self._pending, []
        for report in pending:
            yield Found(report, Sources((), (reason,)))
        self.is_over = True

    def close(self) -> None:
        """The condition does not count any more."""
        self._watching.close()
        shutil.rmtree(self._watching.hits, ignore_errors=True)
        with suppress(OSError):
            remove_if_over(self.job.folder)

    def check_operator(self) -> None:
        """Check that something was watched.

        Raises:
            TraceError: the job has ended without such an operator.
        """
        if not self._has_operator:
            raise TraceError(
                f"{self.job.app} ended without an operator {self.request.node} that can be watched"
            )

    @property
    def is_kept(self) -> bool:
        """Of a condition that all must fulfil: whether some were tested, none broke it, and no task said that it can't see or report some."""
        reports = self._reports
        return reports.sees_all and not reports.count and reports.tested > 0

    def violations(self) -> dict[str, Any]:
        """How many records broke a condition that all must fulfil, and how many were tested."""
        reports = self._reports
        return {
            "violations": reports.count,
            "tested": reports.tested,
            "sees_all": reports.sees_all,
        }

    def reads_of(self, task: TaskTime) -> Sequence[str]:
        """What a task read, as far as that is known."""
        reads = self._reports.reads.get((task.node, task.partition))
        return () if reads is None else reads.parts

    def ranked_times(self) -> list[RankedTime]:
        """Tasks by the time of their function."""
        return rank_times(self._reports.tasks[: self.request.limit])

    def _look(self) -> Iterator[Event]:
        now = self._clock()
        if not self._has_operator and now - self._looked_at >= TRACE_EVERY_S:
            self._looked_at = now
            self._has_operator = has_operator(self.job.folder, self.request)
        for found in self._reports.read():
            self._has_operator = True
            if isinstance(found, Report):
                if self._is_within_limit(found):
                    self._pending.append(found)
                    yield found
            elif not isinstance(found, TaskTime) or found.number <= self.request.limit:
                yield found

    def _is_within_limit(self, report: Report) -> bool:
        number = report.number if report.task is None else report.task
        return number <= self.request.limit

    def _find_sources(self) -> Iterator[Event]:
        now = self._clock()
        if not self._pending or now - self._traced_at < TRACE_EVERY_S:
            return
        unknown: list[Report] = []
        try:
            with self._finder() as find:
                while self._pending:
                    sources = self._sources(self._pending[0], find)
                    report = self._pending.pop(0)
                    if sources is None:
                        unknown.append(report)
                    else:
                        yield Found(report, sources)
        finally:
            # Who looks on may stop in the middle.
            self._pending = unknown + self._pending
            # From its end on: a store that is slow is not asked all the time.
            self._traced_at = self._clock()

    def _sources(self, report: Report, find: Find) -> Sources | None:
        if report.row is not None:
            return row_sources(self.job.app, report.row, report.unnamed)
        return find(self._reports.candidates(report))


def document_of(event: Event) -> dict[str, Any]:
    """The JSON shape of an event that tools rely on."""
    if isinstance(event, str):
        return {"event": "note", "note": event}
    if isinstance(event, Found):
        return {"event": "sources", "record": event.report.number} | event.sources.to_json()
    name = _NAMES[type(event)]
    return {"event": name} | event.to_json()
