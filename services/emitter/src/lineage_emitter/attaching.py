"""The way in for a session that exists: ``attach`` captures all that it does from then on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from lineage_emitter import context_methods, scope
from lineage_emitter.context import LineageContext, active_session
from lineage_emitter.driver import frame_actions, older_rdds
from lineage_emitter.errors import CaptureFailedError, ConnectSessionError
from lineage_emitter.open_sessions import allow_retry, open_session_of
from lineage_emitter.session.executors import are_local
from lineage_emitter.session.session import capture_session
from lineage_emitter.settings import SPARK_PREFIX, setting_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_emitter.session.session import Session


def attach(spark: SparkSession | SparkContext, **settings: Any) -> LineageContext:
    """Capture the lineage of all that a running Spark session does from now on, as `lineage run` does.

    Files that are read, RDDs and DataFrames, in whatever session of the same SparkContext, are captured without further calls.
    Actions on DataFrames made before are recorded, since a DataFrame is a plan. An RDD made before is not captured any
    more, and what it gives is named in the verdict as unknown. A second call changes nothing.

    Args:
        spark: The session, or its SparkContext.
        **settings: Settings of capture (docs/reference/settings.md). They go before `spark.lineage.*` of the session, those
            before that of the context, those before `LINEAGE_*` of the environment. `unsupported` is `continue` unless it is set.

    Returns:
        The captured context: `app` is its id, `getLineage` and `graph` ask it, `close` ends its lineage. Where capture is
        switched off or can't begin, its `session` is None and the program goes on without lineage.

    Raises:
        ConnectSessionError: It is a session of Spark Connect, whose work runs in another process.
        SettingsError: A setting can't be used.
        TypeError: It is neither a session nor a context.
        CaptureFailedError: The context has been stopped; or capture can't begin, and the setting `on_error` is `fail`.
    """
    sc = _context_of(spark)
    if getattr(sc, "_jsc", None) is None:
        raise CaptureFailedError("capture can't begin: the SparkContext has been stopped")
    if open_session_of(sc) is None:
        allow_retry(sc)
        settings = _of_session(spark) | settings
        if not _is_set(sc, "unsupported"):
            settings.setdefault("unsupported", "continue")
    python = sc.pythonExec
    session = capture_session(sc, **settings)
    if not are_local(sc.master or ""):
        # The context's own interpreter is the one that its executors have.
        sc.pythonExec = python
    context = LineageContext(sc)
    if session is not None:
        session.is_fully_captured = True
        frame_actions.install(active_session)
        context_methods.install(_fully_captured_session)
        context_methods.notice_frames(_active_fully_captured_session, _fully_captured_session)
        older_rdds.install(_fully_captured_session)
        if not isinstance(spark, SparkContext):
            _watch_running_queries(spark, session)
    return context


def _watch_running_queries(spark: SparkSession, session: Session) -> None:
    """Record the batches that streaming queries of the session commit from now on."""

    def watch() -> None:
        queries = spark.streams.active
        if queries:
            # Programs without streams load nothing of them.
            from lineage_emitter.session.streams import streams_of

            with scope.operator("attach") as running:
                for query in queries:
                    streams_of(session).watch(query, running, has_function=False, is_new=False)

    session.problems.guard("record streaming queries", watch)


def detach(spark: SparkSession | SparkContext | None = None) -> None:
    """End the capture that `attach` began: what the session does from now on is its own again.

    The application's lineage is closed and linked. A later `attach` begins another application.

    Args:
        spark: The session, or its SparkContext; by default the active one. Where nothing is captured, nothing is done.

    Raises:
        ConnectSessionError: It is a session of Spark Connect.
        TypeError: It is neither a session nor a context.
    """
    sc = SparkContext._active_spark_context if spark is None else _context_of(spark)
    session = None if sc is None else open_session_of(sc)
    if session is not None:
        session.close()


def _context_of(spark: Any) -> SparkContext:
    if isinstance(spark, SparkContext):
        return spark
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise ConnectSessionError("attach")
    context = getattr(spark, "sparkContext", None)
    if not isinstance(context, SparkContext):
        raise TypeError(f"a SparkSession or a SparkContext is wanted, not {type(spark).__name__}")
    return context


def _of_session(spark: Any) -> dict[str, Any]:
    # Its context's are among them.
    if isinstance(spark, SparkContext):
        return {}
    java: Any = spark._jsparkSession.sessionState().conf().settings()
    spark_settings = {key: java[key] for key in list(java) if key.startswith(SPARK_PREFIX)}
    return {setting_of(key): value for key, value in spark_settings.items()}


def _is_set(sc: SparkContext, setting: str) -> bool:
    in_spark = SPARK_PREFIX + setting.replace("_", ".")
    return f"LINEAGE_{setting.upper()}" in os.environ or bool(sc._conf.contains(in_spark))


def _fully_captured_session(sc: SparkContext) -> Session | None:
    session = open_session_of(sc)
    return session if session is not None and session.is_fully_captured else None


def _active_fully_captured_session() -> Session | None:
    sc = SparkContext._active_spark_context
    return None if sc is None else _fully_captured_session(sc)
