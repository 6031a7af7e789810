"""Records of running jobs that callers watch, as server-sent events."""

from __future__ import annotations

import time
import weakref
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import nullcontext, suppress
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from lineage_core.tracing.budget import (
    BusyError,
    TimeUpError,
    TooMuchError,
    current_budget,
    use_budget,
)
from lineage_query.finding import NotFoundError
from lineage_query.record_trace import RecordTrace
from lineage_query.snapshot import ApplicationSnapshot
from lineage_query.trace_query import TraceQuery
from lineage_query.watching.loop import Find, WatchLoop, document_of
from lineage_query.watching.reports import Candidate
from lineage_query.watching.requests import RunningJob, find_jobs
from lineage_query.watching.sources import Sources, find_sources
from lineage_query_api.errors import ProblemError, busy_error
from lineage_query_api.event_streams import MARGIN_S, EventStream, shared_spool
from lineage_query_api.lineages import Lineages
from lineage_store.watch_folder import WatchableNode, WatchRequest, watchable_nodes

WATCHES_MAX = 8
"""At once on a server: a job takes twice as many, so that its user has some, too."""
OPERATORS_MAX = 1_000
"""Of a job that are listed."""
OPERATOR_CHARACTERS_MAX = 1 << 20
SOURCES_MAX = 100
"""Rows of each source of one record that are listed."""
SENT_BYTES_MAX = 32 << 20
"""After which a watch ends."""
TIME_UP = "the time of the watch was up before they were known"
TOO_COSTLY = "to find them costs more than a question may"
ALL_SENT = "stopped watching after as many bytes as a watch may send"
NOT_RUNNING = "it does not run, or was started without LINEAGE_WATCH=true"


class RecordsWatched:
    """The watches on a server."""

    def __init__(self) -> None:
        self._places = BoundedSemaphore(WATCHES_MAX)

    def watchable(self, lineages: Lineages, name: str) -> tuple[str, str, Sequence[WatchableNode]]:
        """An application, why its records can't be watched now (or nothing), and operators that can be.

        Raises:
            LineageError, ProblemError: no such job, or this server shares no folder with jobs.
        """
        found = _find_job(lineages, name)
        if found is None:
            return lineages.find(name), NOT_RUNNING, ()
        if found.refusal:
            return found.app, found.refusal, ()
        return found.app, "", _operators(found.folder)

    def watch(
        self, lineages: Lineages, name: str, request: WatchRequest, request_id: str
    ) -> AsyncIterator[bytes]:
        """Events of a watch, as they happen.

        Args:
            lineages: those of all applications.
            name: of the application, as `AppName`.
            request: what is watched for.
            request_id: for a problem.

        Raises:
            LineageError, ProblemError: the job can't be watched, or too much is.
        """
        job = _find_job(lineages, name)
        if job is None or job.refusal:
            app = lineages.find(name) if job is None else job.app
            raise _not_now(app, NOT_RUNNING if job is None else job.refusal)
        if not self._places.acquire(blocking=False):
            raise busy_error("watches")
        try:
            loop = WatchLoop(job, request, lambda: nullcontext(_finder(lineages, job.app)))
        except BaseException as problem:
            self._places.release()
            if isinstance(problem, OSError):
                raise _not_now(job.app, "its folder can't be written from here") from problem
            raise
        watching = _Watching(lineages, loop, request_id)
        weakref.finalize(watching, _release, loop, self._places)
        return watching.events()


def _not_now(app: str, reason: str) -> ProblemError:
    return ProblemError(
        HTTPStatus.CONFLICT,
        f"{app} can't be watched: {reason}",
        hint="only a running job is watched, on the machine that it runs on",
    )


def _operators(folder: Path) -> Sequence[WatchableNode]:
    """Those that can be watched, each once, as many as an answer may hold."""
    nodes: dict[str, WatchableNode] = {}
    characters = 0
    # The job may have ended meanwhile, or have just begun.
    with suppress(OSError):
        for facts in watchable_nodes(folder):
            characters += len(facts.node) + len(facts.op) + len(facts.label)
            if characters > OPERATOR_CHARACTERS_MAX or len(nodes) >= OPERATORS_MAX:
                break
            nodes[facts.node] = facts
    return list(nodes.values())


def _release(loop: WatchLoop, places: BoundedSemaphore) -> None:
    # Also of a stream that never began.
    loop.close()
    places.release()


def _find_job(lineages: Lineages, name: str) -> RunningJob | None:
    """The running job of a name; None: there is none.

    Raises:
        LineageError, ProblemError: more than one, or there is no spool.
    """
    spool: Path = shared_spool(
        lineages, "jobs are not seen from here", "use `lineage watch` where the job runs"
    )
    jobs = find_jobs(spool, lineages.find(name) if name == "latest" else name)
    exact = [job for job in jobs if job.app == name]
    if len(exact or jobs) > 1:
        raise NotFoundError(f"{len(jobs)} jobs that run begin with {name!r}: give more of the id")
    return next(iter(exact or jobs), None)


class _Tracer:
    """Traces within what a question may cost. Implements `lineage_query.watching.sources.SourceTracer`."""

    def __init__(self, lineages: Lineages) -> None:
        self._lineages = lineages

    def opened(self, name: str) -> ApplicationSnapshot:
        """As `SourceTracer`."""
        return self._lineages.open(name)

    def trace(self, query: TraceQuery) -> RecordTrace:
        """As `SourceTracer`."""
        return self._lineages.trace_records(query)


def _finder(lineages: Lineages, app: str) -> Find:
    tracer = _Tracer(lineages)

    def find(candidates: Sequence[Candidate]) -> Sources | None:
        budget, whole = lineages.new_budget(), current_budget()
        budget.extend(min(budget.left_s, max(whole.left_s - 2 * MARGIN_S, 0)))
        try:
            with lineages.turn(), use_budget(budget):
                return find_sources(tracer, app, candidates, SOURCES_MAX)
        except ProblemError:
            # All turns are taken: later, then.
            return None
        except (TimeUpError, TooMuchError, BusyError):
            whole.check()
            return Sources((), (TOO_COSTLY,))

    return find


class _Watching(EventStream):
    """One watch."""

    def __init__(self, lineages: Lineages, loop: WatchLoop, request_id: str) -> None:
        super().__init__(lineages, request_id)
        self._loop = loop

    @property
    def _is_full(self) -> bool:
        return self._sent_bytes >= SENT_BYTES_MAX

    @property
    def _is_over(self) -> bool:
        return self._loop.is_over or self._is_full

    def _step(self) -> Iterator[dict[str, Any]]:
        for event in self._loop.step():
            yield document_of(event)
            if self._is_full or time.monotonic() >= self._until:
                return

    def _end(self) -> Iterator[dict[str, Any]]:
        is_over = self._is_over
        if self._is_full:
            yield document_of(ALL_SENT)
        elif self._loop.is_over:
            self._loop.check_operator()
        else:
            for event in chain(self._loop.rest(), self._loop.give_up(TIME_UP)):
                yield document_of(event)
        tasks = [task.to_json() for task in self._loop.ranked_times()]
        yield {"event": "end", "time_up": not is_over, "tasks": tasks} | self._loop.violations()

    def _close(self) -> None:
        self._loop.close()
