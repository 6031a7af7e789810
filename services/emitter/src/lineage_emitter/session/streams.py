"""Streaming queries of an application: each micro-batch is recorded once it has been committed.

A thread looks at what Spark reports as soon as it does, so that no query waits for it. What it missed, the query's checkpoint knows; what that
does not know any more is named in the verdict.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from lineage_emitter import scope
from lineage_emitter.dataframes.awaited_reports import AwaitedReports
from lineage_emitter.dataframes.earlier_runs import RunNotes
from lineage_emitter.dataframes.recorder import ReturnedAction
from lineage_emitter.dataframes.stream_frames import commit_batch
from lineage_emitter.dataframes.stream_reports import Known, Progress
from lineage_emitter.dataframes.stream_sinks import UnknownBatchError
from lineage_emitter.dataframes.streams import QueryRun, Seen
from lineage_emitter.failures import in_words

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from lineage_core.contract.message import Stream
    from lineage_emitter.session.session import Session

_creating = threading.Lock()
logger = logging.getLogger(__name__)
RECORDED_S = 5.0
"""For which batches are waited for until they are recorded; then it is said later that they are."""
UNSEEN_FUNCTION = "the function of its foreachBatch was given before capture began"
PARTLY = "it may have written a part of its rows"
NO_REPORTS = "Spark did not report which batches it ran"


def streams_of(session: Session) -> Streams:
    """What records the streaming queries of an application."""
    with _creating:
        if session.streams is None:
            session.streams = Streams(session)
        return session.streams


@dataclass(slots=True)
class _Watched:
    """A query. ``last``: the last batch that was recorded; None: none yet."""

    query: QueryRun
    operator: scope.Operator
    last: int | None = None
    known: Known = field(default_factory=Known)
    is_over: bool = False
    is_done: bool = False
    """Whether it was said that it is over."""
    begun: Stream | None = None
    """What was said of what it reads."""
    is_begun: bool = False
    """Whether nothing more is to be said of that."""
    unsaid: list[int] = field(default_factory=list)
    """Batches of which it was not said yet that they are recorded."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Guards ``_first_unknown``: those who record, and those who watch, change it."""
    _first_unknown: int | None = None

    def add_unknown(self, number: int) -> None:
        """Something of a batch is not recorded, or not known."""
        with self._lock:
            known = self._first_unknown
            self._first_unknown = number if known is None else min(known, number)

    def complete_to(self, number: int) -> int | None:
        """The last batch, of those up to a number, up to which all is known; -1: none; None: not known."""
        if self.query.has_function:
            # What it writes by other means than DataFrames is known when capture ends.
            return None
        with self._lock:
            first = self._first_unknown
        return number if first is None else max(min(number, first - 1), -1)


class Streams:
    """Records batches of the queries that an application runs. Thread-safe."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        """Held while queries are looked at, or their list is changed."""
        self._watched: list[_Watched] = []
        self._reports = AwaitedReports()
        self._notes = RunNotes(session.settings.query_folder())
        self._thread: threading.Thread | None = None

    def watch(
        self,
        query: StreamingQuery,
        running: scope.Operator,
        *,
        has_function: bool,
        seen: Seen | None = None,
        is_new: bool = True,
    ) -> None:
        """Record the batches of a query.

        ``has_function``: of its ``foreachBatch``, which records what it writes. ``seen``: what it reads, before it began. ``is_new``: it has just begun; others were begun
        before capture, which records what they commit from now on. A query that is watched already is left alone.
        """
        watched = _Watched(QueryRun(self._session.sc, query, seen, self._notes), running)
        with self._lock:
            if any(other.query.run == watched.query.run for other in self._watched):
                return
        refusal = watched.query.refusal
        if not refusal and watched.query.has_function and not has_function:
            refusal = UNSEEN_FUNCTION
        if refusal:
            self._name(running, refusal)
            self._lose(watched, refusal)
            return
        self._session.commits.send(watched.query.started(self._session.app))
        self._session.commits.push(durably=False)
        if not is_new:
            watched.last = watched.query.committed()
            watched.known.run_problem = "rows of batches before capture began"
        self._reports.listen(query)
        with self._lock:
            self._watched.append(watched)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="lineage-streams", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Record what has been committed, and name what is still running."""
        self._reports.close()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._look()
            for watched in self._watched:
                self._name_running(watched)
            self._watched.clear()

    def _run(self) -> None:
        while self._reports.wait():
            with self._lock:
                self._look()
                self._watched = [watched for watched in self._watched if not watched.is_done]

    def _look(self) -> None:
        with scope.suspended():
            for watched in self._watched:
                try:
                    if watched.is_over:
                        self._pass(watched)
                        continue
                    # Asked first: what a query commits before it ends is not missed.
                    is_active = watched.query.is_active
                    watched.query.look_at_tables()
                    self._record(watched)
                    self._begin(watched)
                    if not is_active:
                        self._end(watched)
                    self._pass(watched)
                except Exception as problem:
                    reason = f"its batches could not be recorded: {in_words(problem)}"
                    self._lose(watched, reason)
                    self._name(watched.operator, reason)

    def _begin(self, watched: _Watched) -> None:
        """Say what a query reads, for those who follow rows of it."""
        if watched.is_begun:
            return
        try:
            # Where its first batch is recorded, the reports of all are.
            is_first = None if watched.last is None else not watched.known.run_problem
            begun, watched.is_begun = watched.query.begun(self._session.app, is_first=is_first)
        except Exception as problem:
            # Its batches are recorded all the same.
            logger.warning("what a streaming query reads is not known: %s", in_words(problem))
            watched.is_begun = True
            return
        if begun is not None and begun != watched.begun:
            watched.begun = begun
            self._session.commits.send(begun)
            self._session.commits.push(durably=False)

    def _pass(self, watched: _Watched) -> None:
        """Say which batches of a query are recorded, behind what was recorded of them, and that it is over."""
        if watched.is_done or not (watched.unsaid or watched.is_over):
            return
        if not self._session.frames.wait_until_recorded(RECORDED_S):
            return
        if watched.unsaid and self._session.problems.lost:
            # It may have been of any of them.
            watched.add_unknown(watched.unsaid[0])
        app, commits = self._session.app, self._session.commits
        for number in watched.unsaid:
            commits.send(watched.query.passed(app, number, watched.complete_to(number)))
        watched.unsaid.clear()
        if watched.is_over:
            last = -1 if watched.last is None else watched.last
            committed = max(last, watched.query.committed())
            commits.send(watched.query.ended(app, committed, watched.complete_to(last)))
            watched.is_done = True
        commits.push(durably=False)

    def _lose(self, watched: _Watched, reason: str) -> None:
        """Say that what comes of a query is not recorded."""
        watched.is_over = watched.is_done = True
        if watched.unsaid:
            # They may not be recorded.
            watched.add_unknown(watched.unsaid[0])
        watched.unsaid.clear()
        last = -1 if watched.last is None else watched.last
        self._session.commits.send(
            watched.query.ended(self._session.app, last, watched.complete_to(last), reason)
        )

    def _record(self, watched: _Watched) -> None:
        """Record batches that Spark reports, and those between them."""
        beyond = -1 if watched.last is None else watched.last
        reported, is_all = watched.query.reported(beyond)
        for progress in reported:
            if watched.last is None and not is_all:
                watched.add_unknown(0)
                self._name(watched.operator, f"batches before {progress.number} may be missing")
            first = progress.number if watched.last is None else watched.last + 1
            for number in range(first, progress.number):
                self._add(watched, number, None)
            self._add(watched, progress.number, progress)

    def _end(self, watched: _Watched) -> None:
        """Record what a query that is over has written and not reported."""
        watched.is_over = True
        query = watched.query
        if query.has_function:
            return
        committed, planned = query.committed(), query.planned()
        if watched.last is None:
            _, is_all = query.reported(-1)
            if not is_all and committed == planned >= 0:
                watched.add_unknown(0)
                self._name(watched.operator, NO_REPORTS)
            is_last = query.has_failed and committed == planned >= 0
            is_own = is_last and query.may_have_committed(committed)
            watched.last = committed - 1 if is_own else committed
        for number in range(watched.last + 1, committed + 1):
            self._add(watched, number, None)
        if planned <= committed:
            return
        if not query.sink.writes_whole_batches:
            self._name(watched.operator, f"batch {planned} was cut short: {PARTLY}")
            return
        try:
            has_batch = query.sink.has(planned)
        except UnknownBatchError as problem:
            self._name(watched.operator, f"batch {planned} was cut short: {problem}")
            return
        if has_batch:
            self._add(watched, planned, None)

    def _add(self, watched: _Watched, number: int, progress: Progress | None) -> None:
        late_count = not watched.query.drops_none_of_due_groups
        is_first = watched.last is None
        watched.known.add(number, progress, is_first=is_first, late_count=late_count)
        watched.known.times.add(number, progress)
        watched.last = number
        watched.unsaid.append(number)
        if watched.query.has_function:
            commit_batch(self._session.sc, watched.query.run, number)
            return
        operator, now = watched.operator, time.time()
        known = replace(watched.known, versions=watched.query.versions_before(progress))
        recipe = partial(watched.query.recipe, number, progress, known, operator.name)
        began_at = now if progress is None else progress.began_at
        node = self._session.nodes.next_id()
        self._session.frames.add(
            ReturnedAction(
                *(node, operator, recipe, began_at, now),
                on_unknown=partial(watched.add_unknown, number),
            )
        )

    def _name_running(self, watched: _Watched) -> None:
        if watched.is_done:
            return
        if watched.is_over:
            self._lose(watched, "its batches were not recorded in time")
            return
        upto = "no batch" if watched.last is None else f"batches up to {watched.last}"
        reason = f"was running when capture ended: {upto} recorded"
        self._name(watched.operator, f"the streaming query {watched.query.id} {reason}")
        self._lose(watched, reason)

    def _name(self, running: scope.Operator, reason: str) -> None:
        logger.warning("a streaming query is not fully recorded: %s", reason)
        with scope.resumed(running):
            self._session.nodes.unknown(running.name, reason, ())
