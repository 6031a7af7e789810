"""One captured application on the driver: its parts, and its beginning and end."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import threading
import time
import uuid
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from lineage_core.contract.message import Begin, EndStatus, Message, Unknown
from lineage_core.environment.private_files import folder_named
from lineage_emitter import spark_versions
from lineage_emitter.dataframes import catalyst_check
from lineage_emitter.dataframes.recorder import RecipeRecorder
from lineage_emitter.dataframes.set_aside import NOT_ASKED, SetAsideCalls
from lineage_emitter.dataframes.watched_rows import WatchedRows
from lineage_emitter.dispatch.driver_spool import claim_folder
from lineage_emitter.dispatch.opening import store_messages
from lineage_emitter.errors import CaptureFailedError, SettingsError
from lineage_emitter.open_sessions import LOCK, SESSIONS, count_next, latest_app
from lineage_emitter.sdk.api import LineageApi
from lineage_emitter.sdk.checksums import BYTES_MAX
from lineage_emitter.session import call_sites, program_end
from lineage_emitter.session.commit_thread import CommitThread
from lineage_emitter.session.executor_check import ExecutorCheck
from lineage_emitter.session.job_files import JobFiles
from lineage_emitter.session.jobs import Jobs
from lineage_emitter.session.lazy_sinks import LazySinks
from lineage_emitter.session.nodes import Nodes
from lineage_emitter.session.problems import LINKING, Problems
from lineage_emitter.session.quarantined import Quarantined, quarantine_rule
from lineage_emitter.session.rules import Details
from lineage_emitter.session.spark_writes import REASON as NOT_RECORDED
from lineage_emitter.session.spark_writes import SparkWrites
from lineage_emitter.session.stored_rows import StoredRowsByName
from lineage_emitter.session.watched import Watched
from lineage_emitter.settings import Settings, read_settings
from lineage_emitter.worker.commits import MarkerParam
from lineage_emitter.worker.task_config import TaskConfig
from lineage_store.run_notes import note_application, note_uncaptured

if TYPE_CHECKING:
    from pyspark import SparkContext

    from lineage_emitter.session.streams import Streams
    from lineage_emitter.worker.quarantine import QuarantineRule

logger = logging.getLogger(__name__)
COUNTING = "count what Spark writes"
UNNAMED = ("", "pyspark-shell")
"""What Spark calls an application whose program gives it no name."""


def application_name(sc: SparkContext) -> str:
    """The name of an application: the one that it has in Spark, else its program's file or module."""
    name = sc.appName or ""
    if name not in UNNAMED:
        return name
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return str(spec.name).removesuffix(".__main__")
    # A folder or an archive is run by the file in it; an interactive program has no file.
    file = getattr(main, "__file__", None)
    path = Path(file) if file else None
    if path is None:
        return name
    return path.parent.name if path.name == "__main__.py" else path.name


class Session:
    """Capture of one SparkContext. Make it by :func:`capture_session`; thread-safe.

    What it does is done by its parts: ``nodes``, ``jobs``, ``files``, ``commits``, ``stored_rows``, ``frames``
    (recipes of DataFrames), ``streams``, ``executors`` and ``problems``.
    """

    def __init__(
        self,
        sc: SparkContext,
        settings: Settings,
        app: str,
        details: Details,
        quarantine: QuarantineRule,
    ) -> None:
        self.sc = sc
        self.settings = settings
        self.app = app
        self._spark_id = sc.applicationId
        self._lock = threading.RLock()
        self._closed = False
        self.records: WeakValueDictionary[str, Any] = WeakValueDictionary()
        """What gives the records of a node again, by node, while the program holds its RDD."""
        self.is_fully_captured = False
        """Whether all that the SparkContext does is to be captured, not just what a LineageContext makes."""
        self.frames = RecipeRecorder(self)
        self.streams: Streams | None = None
        """Streaming queries, once there are any."""
        self.api = LineageApi(
            application_name(sc),
            app=self.app,
            settings=settings,
            spark_version=sc.version,
            raising=True,  # self.problems takes them
        )
        lazy = LazySinks()
        self.stored_rows = StoredRowsByName()
        self.problems = Problems(self.api, settings)
        folder = self.api.dispatcher.blocks_dir.parent
        self.watched = Watched(settings, self.app, folder, sc.master or "local")
        details.watched = self.watched
        self.nodes = Nodes(self.api, self.problems, settings, details)
        self.quarantine = Quarantined(self.nodes, quarantine)
        self.set_aside = SetAsideCalls(sc, settings)
        self.watched_rows = WatchedRows(sc, settings, self.watched.folder)
        self.commits = CommitThread(
            self.api, self.problems, settings, self.stored_rows, lazy, self.quarantine
        )
        checksums_max = BYTES_MAX if settings.checksums else 0
        self.files = JobFiles(sc, app, self.problems, self.nodes, self.commits, checksums_max)
        self.jobs = Jobs(self.api, self.problems, self.nodes, self.commits, self.files, lazy)
        self.config = TaskConfig(
            app=self.app,
            blocks_dir=str(self.api.dispatcher.blocks_dir),
            markers=sc.accumulator([], MarkerParam(self.commits.queue)),
            memory_bytes=settings.memory_mb << 20,
            fail_job=settings.on_error == "fail",
            kafka=self.api.dispatcher.target,
        )
        call_sites.install()
        self.executors = ExecutorCheck(
            *(sc, self.api, self.problems, settings, self.config),
            is_closed=lambda: self._closed,
            end=self._end_unfit,
        )
        self._writes: SparkWrites | None = None
        self.problems.guard(COUNTING, self._count_writes)
        self.commits.start()
        self._process = os.getpid()
        program_end.close_at_end(self.close)

    @property
    def problem(self) -> str:
        """What went wrong first; empty: nothing did."""
        return self.problems.first

    def _count_writes(self) -> None:
        self._writes = SparkWrites(self.sc)

    def recorded(
        self, *, writes: bool = True, lasting: bool = False
    ) -> AbstractContextManager[None]:
        """What Spark writes for this thread in the body is recorded (else the verdict names it).

        ``writes``: False where nothing is written: then nothing is done, either. ``lasting``: what the
        body begins writes on when it is over, as streams do.
        """
        if self._writes is None or not writes:
            return nullcontext()
        return self._writes.recorded(lasting=lasting)

    def _record_writes(self) -> None:
        """Name the writes of Spark that no action recorded."""
        if self._writes is not None:
            for writer in self._writes.close():
                self.api.unknown(writer, NOT_RECORDED)

    # -- end ---------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing is captured any more."""
        return self._closed

    def close(self, status: EndStatus | None = None) -> None:
        """Send the end of the application and link what is left. May be called again.

        ``status``: how the program ended. Left out, it failed where an exception is under way (in a
        ``finally`` or an ``except``); an action that failed and was caught is not the program.
        """
        if os.getpid() != self._process:
            # A fork of the program: the program itself goes on.
            return
        for publish in list(self.jobs.open_ends):
            with contextlib.suppress(CaptureFailedError):
                publish()
        with self._lock:
            if self._closed:
                return
            self._closed = True
        program_end.cancel_close(self.close)
        SESSIONS.pop(self._spark_id, None)
        if self.streams is not None:
            self.streams.close()
        self.frames.close()
        self._end_set_aside()
        self.watched_rows.close()
        self.commits.stop()
        self.stored_rows.close()
        self.watched.close()
        ended = status or program_end.status_of(sys.exc_info()[1])
        with ExitStack() as stack:
            # The last one first: OpenLineage gets the problems, too, and a lake all of it.
            stack.callback(self.api.linker.hand_over)
            stack.callback(self.api.linker.publish)
            stack.callback(self._record_problem)
            stack.callback(self.problems.guard, LINKING, self.api.linker.close)
            stack.callback(
                self.problems.guard, "write the end", functools.partial(self.api.end, ended)
            )
            stack.callback(self.jobs.record_lazy_jobs)
            stack.callback(self.problems.guard, COUNTING, self._record_writes)

    def _end_set_aside(self) -> None:
        self.set_aside.end()
        for number in self.set_aside.not_asked():
            with contextlib.suppress(CaptureFailedError):
                self.nodes.unknown(f"Python function {number} of a DataFrame", NOT_ASKED, ())

    def _end_unfit(self) -> None:
        self.close()
        with LOCK:
            SESSIONS[self._spark_id] = None

    def _record_problem(self) -> None:
        """Say what went wrong, straight in the store where it is ours: the spool may be what failed.

        Not so when only linking failed: what is in the spool can still be linked.
        """
        if not self.problems.lost or not self.settings.link:
            return
        unknown = Unknown(app=self.app, what="capture", reason=self.problems.lost[:500])
        with contextlib.suppress(Exception):
            store_messages(
                self.settings, self.app, [self.api.beginning, unknown, *self._end_messages()]
            )

    def _end_messages(self) -> list[Message]:
        return [] if self.api.ending is None else [self.api.ending]


def capture_session(sc: SparkContext, **arguments: Any) -> Session | None:
    """The session of a SparkContext, begun on first use.

    None when capture is switched off, or when it can't begin: then the program goes on without
    lineage, says so on the log, and the store (if it can be written) names the reason.

    Raises:
        SettingsError: a setting can't be used.
        CaptureFailedError: capture can't begin, and ``on_error`` is ``fail``.
    """
    with LOCK:
        if sc.applicationId in SESSIONS:
            existing = SESSIONS[sc.applicationId]
            if existing is not None and arguments:
                _warn_of_late_settings(existing.settings, arguments)
            return existing
        settings = read_settings(dict(sc._conf.getAll()), **arguments)
        if not settings.enabled:
            note_uncaptured("capture is switched off (LINEAGE_ENABLED, spark.lineage.enabled)")
            return None
        _check_spark(sc.version)
        details, quarantine = Details(settings), quarantine_rule(settings)
        if "PYSPARK_PYTHON" not in os.environ and not sc._conf.contains("spark.pyspark.python"):
            sc.pythonExec = sys.executable
        count_next(sc)
        app = latest_app(sc)
        try:
            if settings.dispatcher == "spool":
                app = claim_folder(settings.spool_folder(), app)
            elif app.startswith("local-"):
                # Named by the millisecond, and no folder shows whether another driver has the name.
                app = f"{app}-{uuid.uuid4().hex[:8]}"
            session = Session(sc, settings, app, details, quarantine)
        except CaptureFailedError:
            raise
        except Exception as problem:
            _record_uncaptured(sc, settings, app, problem)
            if settings.on_error == "fail":
                raise CaptureFailedError(f"capture can't begin: {problem}") from problem
            SESSIONS[sc.applicationId] = None
            return None
        SESSIONS[sc.applicationId] = session
        _close_before_stop(sc, session)
        return session


def _check_spark(version: str) -> None:
    """See that plans of a Spark that is newer than the tested ones are what recipes take them for.

    Raises:
        SettingsError: they are not.
    """
    if not spark_versions.is_untested(version):
        return
    changed = catalyst_check.changed_classes()
    if changed:
        raise SettingsError(spark_versions.changed_refusal(version, changed))
    logger.warning(spark_versions.untested_warning(version))


def _warn_of_late_settings(settings: Settings, arguments: dict[str, Any]) -> None:
    """Warn of arguments that come too late: a context's capture has started with other settings.

    Raises:
        SettingsError: an argument is none, or can't be used.
    """
    requested = read_settings(**arguments)
    late = [
        name
        for name, value in arguments.items()
        if value is not None and getattr(requested, name) != getattr(settings, name)
    ]
    if late:
        logger.warning(
            "capture of this SparkContext has begun with other settings: %s ignored; "
            "close() the LineageContext before it to begin anew",
            ", ".join(late),
        )


def _record_uncaptured(sc: SparkContext, settings: Settings, app: str, problem: Exception) -> None:
    logger.warning("no lineage is captured: %s", problem)
    kafka = settings.kafka if settings.dispatcher == "kafka" else ""
    note_application(app, folder_named(settings.spool_folder(), app), kafka)
    begin = Begin(app=app, name=application_name(sc), started_at=time.time())
    unknown = Unknown(app=app, what="capture", reason=f"it can't begin: {problem}")
    with contextlib.suppress(Exception):
        store_messages(settings, app, [begin, unknown])


def _close_before_stop(sc: SparkContext, session: Session) -> None:
    stop = sc.stop

    def stop_after_lineage() -> None:
        try:
            session.close()
        finally:
            stop()

    sc.stop = stop_after_lineage  # type: ignore[method-assign]
