"""The server's Spark: the first query that needs it starts it, and each query has a time limit."""

from __future__ import annotations

import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import structlog

from lineage_core.tracing.budget import Budget, current_budget
from lineage_query_api.errors import ProblemError, SparkStartingError, busy_error
from lineage_query_api.settings import QueryApiSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
START_S = 120.0
"""Seconds that Spark may take to start, in addition to the time of the query that starts it."""
CANCEL_EVERY_S = 1.0
"""Seconds between cancellations of a request over its time limit: it runs several Spark jobs, and each is cancelled."""
CANCEL_LIMIT_S = 30.0
"""Seconds that a cancelled query may still run: Spark does not interrupt the computation of a row."""
CLEAR_CHECKS = 3
"""Consecutive checks that must find no running task: Spark's reports are delayed."""
MISSING_S = 30.0
"""Seconds for which it is known what Spark lacks: to find out runs Java."""
NEEDED_FOR = "the Spark that traces rows of DataFrames"
TRACE_ELSEWHERE = "ask `lineage back` or `forward` where the store and Spark are"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SparkProgress:
    """What Spark does. ``tasks``: of the stages that run now, for whichever query; ``tasks_done``: those of them that have ended."""

    state: Literal["idle", "starting", "ready"]
    tasks: int = 0
    tasks_done: int = 0


class SparkSessionHolder:
    """Runs queries on one Spark session. May be shared by threads.

    A Spark started here that has ended, or that does not stop a cancelled query, is replaced by another one.

    ``roots``: where it may read, as `lineage_dataframes.spark.own_spark.start_spark` has them.
    """

    def __init__(self, settings: QueryApiSettings, roots: Sequence[str] | None = None) -> None:
        self._master = settings.spark_master
        self._roots = roots
        self._limit_s = settings.api_query_s
        self._pool = ThreadPoolExecutor(settings.api_spark_parallel, "spark")
        self._turns = threading.BoundedSemaphore(settings.api_spark_parallel)
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._session: SparkSession | None = None
        self._is_own = False
        self._is_closed = False
        self._is_starting = False
        self._has_started = False
        self._missing_lock = threading.Lock()
        self._missing = ""
        self._missing_until = 0.0

    def missing(self) -> str:
        """What Spark lacks to start here, with what brings it; empty: nothing that is known."""
        if self._has_started or self._master.startswith("sc://"):
            return ""
        with self._missing_lock:
            if time.monotonic() > self._missing_until:
                self._missing = _missing_here()
                self._missing_until = time.monotonic() + MISSING_S
            return self._missing

    def progress(self) -> SparkProgress:
        """What Spark does now; it starts none."""
        if self._is_starting:
            return SparkProgress("starting")
        session = self._session
        if session is None:
            return SparkProgress("idle")
        from lineage_dataframes.spark.own_spark import running_tasks

        return SparkProgress("ready", *running_tasks(session))

    def run(self, work: Callable[[SparkSession], Result]) -> Result:
        """The result of ``work`` on the session.

        Raises:
            ProblemError: Spark does not start or has ended, all turns are taken, or the work takes too long.
        """
        budget = current_budget()
        self._await_turn(budget)
        tag, started = f"lineage-{uuid.uuid4().hex}", threading.Event()
        # The time limit starts when Spark is ready.
        budget.extend(START_S + self._limit_s)
        try:
            future = self._pool.submit(copy_context().run, self._run_tagged, work, tag, started)
        except RuntimeError:
            self._turns.release()
            raise
        future.add_done_callback(lambda _: self._turns.release())
        if not started.wait(START_S):
            raise SparkStartingError
        budget.extend(self._limit_s)
        either: list[Future[Any]] = [future, budget.gone]
        wait(either, timeout=self._limit_s, return_when=FIRST_COMPLETED)
        if not future.done():
            threading.Thread(target=self._cancel, args=(tag, future), daemon=True).start()
            budget.check_client()
            raise ProblemError(
                HTTPStatus.GATEWAY_TIMEOUT,
                f"the queries of the trace take more than {self._limit_s:g} s",
                hint=f"give more values, so that fewer rows are traced, or {TRACE_ELSEWHERE}",
            )
        return future.result()

    def unmet_restrictions(self) -> str:
        """Why its Spark is not confined as the settings require, known before it starts; empty: it is."""
        try:
            from lineage_dataframes.errors import NoSparkError
            from lineage_dataframes.sandbox.policy import SandboxSettings
        except ImportError:
            return ""
        try:
            return "; ".join(SandboxSettings.of(os.environ, self._roots).lacks(self._master))
        except NoSparkError as problem:
            return str(problem)

    def _await_turn(self, budget: Budget) -> None:
        until = time.monotonic() + self._limit_s
        while not self._turns.acquire(timeout=CANCEL_EVERY_S / 4):
            budget.check_client()
            if time.monotonic() > until:
                raise busy_error("questions about DataFrames")

    def close(self) -> None:
        """End what runs, and Spark, if it was started here."""
        with self._lock:
            self._is_closed = True
            if self._session is not None and self._is_own:
                from lineage_dataframes.sandbox import starting
                from lineage_dataframes.spark.connected import stop_session
                from lineage_dataframes.spark.own_spark import is_alive, kill_spark

                sandbox = starting.active_sandbox()
                (stop_session if is_alive(self._session) else kill_spark)(self._session)
                if sandbox is not None:
                    # A signal ends the server without cleanup: nothing else would remove it.
                    starting.remove_folder(sandbox.folder)
        self._pool.shutdown(cancel_futures=True)
        if self._folder is not None:
            self._folder.cleanup()

    def _run_tagged(
        self, work: Callable[[SparkSession], Result], tag: str, started: threading.Event
    ) -> Result:
        try:
            session = self._running_session()
        finally:
            started.set()
        from lineage_dataframes.spark.connected import cancellable_session
        from lineage_dataframes.spark.own_spark import is_alive

        try:
            with cancellable_session(session, tag) as tagged_session, _without_exits():
                return work(tagged_session)
        except Exception as problem:
            if self._is_own:
                threading.Thread(
                    target=self._end_leftover_tasks, args=(session,), daemon=True
                ).start()
            if not self._is_own or is_alive(session):
                raise
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "Spark, which traces rows of DataFrames, ended while it computed: a query may need more memory than it has",
                hint=f"try again; where it ends again, give more values, so that fewer rows are traced, or {TRACE_ELSEWHERE}",
                headers={"Retry-After": "10"},
            ) from problem

    def _running_session(self) -> SparkSession:
        with self._lock:
            if self._is_closed:
                raise _no_spark("it is stopping")
            if self._session is not None and self._is_own:
                from lineage_dataframes.spark.own_spark import is_alive

                if not is_alive(self._session):
                    self._end_session("spark_ended")
            if self._session is None:
                self._is_starting = True
                try:
                    self._session = self._start()
                finally:
                    self._is_starting = False
                self._has_started = True
            return self._session

    def _start(self) -> SparkSession:
        """Start Spark.

        Raises:
            ProblemError: it does not start, or is not installed.
        """
        try:
            from pyspark import SparkContext

            from lineage_dataframes.errors import NoSparkError
            from lineage_dataframes.sandbox.starting import missing_restrictions
            from lineage_dataframes.spark.own_spark import start_spark
        except ImportError as error:
            raise _no_spark(_missing_here() or f"{error.name} is not installed here") from error
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="lineage-spark-")
        self._is_own = SparkContext._active_spark_context is None
        try:
            session = start_spark(self._master, Path(self._folder.name), roots=self._roots)
        except NoSparkError as error:
            log.warning("spark_failed", reason=str(error))
            raise _no_spark(f"Spark does not start: {self.missing() or error}") from error
        # The part after a server's address may be a token.
        log.info("spark_is_there", master=self._master.partition(";")[0])
        for restriction in missing_restrictions():
            log.warning("spark_not_confined", lacks=restriction)
        return session

    def _cancel(self, tag: str, future: Future[Result]) -> None:
        from lineage_dataframes.spark.connected import cancel_queries
        from lineage_dataframes.spark.pyspark_parts import is_connected

        until = time.monotonic() + CANCEL_LIMIT_S
        with self._lock:
            session = self._session
        while not future.done():
            with self._lock:
                if (
                    session is None
                    or session is not self._session
                    or (self._is_closed and self._is_own)
                ):
                    return
                if time.monotonic() > until and self._is_own and not is_connected(session):
                    self._end_session("spark_is_stuck")
                    return
                # It may have ended.
                with suppress(Exception):
                    cancel_queries(session, tag)
            wait([future], timeout=CANCEL_EVERY_S)

    def _end_leftover_tasks(self, session: SparkSession) -> None:
        """Wait until the tasks of a failed or cancelled query end: each would occupy a core."""
        from lineage_dataframes.spark.own_spark import leftover_tasks
        from lineage_dataframes.spark.pyspark_parts import is_connected

        until, clear = time.monotonic() + CANCEL_LIMIT_S, 0
        while not is_connected(session) and clear < CLEAR_CHECKS:
            time.sleep(CANCEL_EVERY_S)
            with self._lock:
                if self._is_closed or session is not self._session:
                    return
                if not leftover_tasks(session):
                    until, clear = time.monotonic() + CANCEL_LIMIT_S, clear + 1
                    continue
                clear = 0
                # Spark's reports of tasks are of different moments, but not over that many checks.
                if time.monotonic() > until:
                    self._end_session("spark_is_stuck")
                    return

    def _end_session(self, why: str) -> None:
        """End the Spark that was started here; the next query starts another one. The caller holds the lock."""
        from lineage_dataframes.spark.own_spark import kill_spark

        assert self._session is not None
        log.warning(why)
        session, self._session = self._session, None
        kill_spark(session)


@contextmanager
def _without_exits() -> Iterator[None]:
    """What would end the process, in whose threads results are given back, is an error of the query."""
    try:
        yield
    except (SystemExit, KeyboardInterrupt) as problem:
        raise RuntimeError(f"a query tried to end the process: {problem!r}") from problem


def _missing_here() -> str:
    try:
        from lineage_dataframes.spark.java import missing_for_spark
    except ImportError as error:
        return f"{error.name} is not installed here"
    return missing_for_spark(NEEDED_FOR)


def _no_spark(why: str) -> ProblemError:
    return ProblemError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        f"rows of DataFrames are traced by Spark, which this server has not: {why}",
        hint=f"a server needs the package lineage-dataframes and Java 17 or 21 for it; or {TRACE_ELSEWHERE}",
    )
