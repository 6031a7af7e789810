"""Where DataFrame work is noticed: PySpark's own methods, each wrapped once a process.

Whatever such a method calls in turn is suspended, so what is noticed is the outermost call: the
user's, or that of a part of PySpark that works on DataFrames (pandas on Spark).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from lineage_core.answers import ANSWERS
from lineage_core.recipe.document import Output
from lineage_core.recipe.names import JDBC, KAFKA
from lineage_emitter import scope
from lineage_emitter.dataframes import (
    catalog,
    commands,
    delta,
    iceberg,
    local_rows,
    own_commits,
    plans,
    topics,
)
from lineage_emitter.dataframes.current_time import AS_IT_RAN, TIME_CALL
from lineage_emitter.dataframes.failed_actions import failure_of
from lineage_emitter.dataframes.in_program import lineage_property
from lineage_emitter.dataframes.jdbc import DATABASE_OPTIONS
from lineage_emitter.dataframes.jvm import (
    activate,
    analysed_text,
    explicit_settings,
    planned_anew,
)
from lineage_emitter.dataframes.leaves import Tables
from lineage_emitter.dataframes.outputs import (
    FILE_FORMATS,
    READABLE_OPTIONS,
    WRITER_CALLS,
    Target,
    WriterCalls,
    located,
    to_database,
    to_driver,
    to_files,
    to_table,
    to_topic,
    with_columns,
)
from lineage_emitter.dataframes.own_commits import OwnCommits
from lineage_emitter.dataframes.recorder import ReturnedAction
from lineage_emitter.dataframes.traced_frames import is_traced_frame
from lineage_emitter.dataframes.watched_rows import WATCHED
from lineage_emitter.failures import in_words
from lineage_emitter.pyspark_parts import WITH_DELTA, frame_class, merge_class

if TYPE_CHECKING:
    from lineage_core.recipe.document import Recipe
    from lineage_emitter.session.session import Session

ActiveSession: TypeAlias = "Callable[[], Session | None]"
"""Gives the session of the active SparkContext."""
Describe: TypeAlias = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], tuple[Any, Target]]
"""The frame and the target of a call (method, object, arguments), before it runs."""

UNSUPPORTED_WORK = "such work on DataFrames has no record-level lineage in this version"
ACTIONS = ("collect", "count", "show", "toPandas", "toArrow", "take", "first", "head", "tail",
           "foreach", "foreachPartition", "toLocalIterator", "isEmpty")  # fmt: skip
"""Actions whose rows, or what is reported of them, come from the frame's own plan."""
WITHOUT_RECIPE = ("toJSON", "checkpoint", "localCheckpoint", "approxQuantile", "corr", "cov",
                  "crosstab", "freqItems")  # fmt: skip
"""Actions that are just named in the verdict: what they give is of no plan that could be recorded."""
OF_RDD = {"DataFrame.foreach", "DataFrame.foreachPartition"}
"""Actions that may leave rows of a partition unread: what was set aside of it is not reported then."""
GIVING_NOTHING = {
    *OF_RDD,
    *(f"DataFrame.{name}" for name in ("show", "toJSON", "checkpoint", "localCheckpoint")),
    "MergeIntoWriter.merge",
    "Catalog.truncateTable",
}
"""Actions whose rows the program does not get."""
REFUSALS = {"AnalysisException", "ParseException"}
"""Errors by which Spark refuses an action before it reads a row."""
WRITES = ("save", *FILE_FORMATS, "saveAsTable", "insertInto", "jdbc")
WRITES_V2 = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")

_installed = False


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action as it was called.

    ``settings``: what was set in its session then; None: not known. ``listed``: the files of tables then (`catalog`).
    ``reads``: of its tables of Iceberg, the plan that is recorded, and what it read at other times (`iceberg`). ``topics``: what it would
    have read of topics then (`topics`). ``watched``: what its operators are watched by (`watched_rows`).
    """

    frame: Any
    target: Target
    settings: Mapping[str, str] | None
    listed: catalog.Listed
    reads: tuple[iceberg.IcebergRead | None, ...] = ()
    topics: topics.TopicReads = field(default_factory=dict)
    watched: str = ""


def install(sessions: ActiveSession) -> None:
    """Notice what actions do, from now on; a second call changes nothing."""
    global _installed  # noqa: PLW0603 - PySpark's classes are the process's, too
    if _installed:
        return
    _installed = True
    from pyspark.sql import SparkSession
    from pyspark.sql.catalog import Catalog
    from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2

    frame = frame_class()
    for name in ACTIONS:
        _wrap(frame, name, _recorded(f"DataFrame.{name}", _of_frame, sessions))
    for name in WITHOUT_RECIPE:
        _wrap(frame, name, _named_only(f"DataFrame.{name}", sessions))
    for name in WRITES:
        method_name = f"DataFrameWriter.{name}"
        _wrap(DataFrameWriter, name, _recorded(method_name, _of_writer, sessions, writes=True))
    for name in WRITES_V2:
        method_name = f"DataFrameWriterV2.{name}"
        _wrap(DataFrameWriterV2, name, _recorded(method_name, _of_writer, sessions, writes=True))
    merge = merge_class()
    if merge is not None:
        _wrap(merge, "merge", _named_only("MergeIntoWriter.merge", sessions))
    _wrap(Catalog, "truncateTable", _named_only("Catalog.truncateTable", sessions))
    for name in ("cache", "persist"):
        _wrap(frame, name, _keeping(lambda kept: kept.sparkSession, sessions))
    _wrap(Catalog, "cacheTable", _keeping(lambda catalog: catalog._sparkSession, sessions))
    _wrap(SparkSession, "sql", _hooked_sql(sessions))
    _wrap(SparkSession, "_create_dataframe", local_rows.hooked_create_dataframe)
    _wrap(DataFrameWriter, "__init__", _writer_hook(lambda _calls, _df: None, begins=True))
    _wrap(
        DataFrameWriter,
        "format",
        _writer_hook(lambda writer_calls, name: setattr(writer_calls, "format", name)),
    )
    _wrap(
        DataFrameWriter,
        "mode",
        _writer_hook(lambda writer_calls, mode: setattr(writer_calls, "mode", mode or "")),
    )
    _wrap(
        DataFrameWriterV2,
        "using",
        _writer_hook(lambda writer_calls, name: setattr(writer_calls, "format", name)),
    )
    for owner in (DataFrameWriter, DataFrameWriterV2):
        _wrap(owner, "option", _writer_hook(_option))
        _wrap(owner, "options", _writer_hook(_options))
    frame.lineage = property(lineage_property)
    _wrap(
        DataFrameWriterV2,
        "__init__",
        _writer_hook(lambda writer_calls, _df, table: _named(writer_calls, table), begins=True),
    )


def _wrap(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    """Wrap a method, its own or inherited, where this PySpark has it."""
    stock = getattr(owner, name, None)
    if stock is not None:
        setattr(owner, name, wrap(stock))


# -- actions ---------------------------------------------------------------------------------------


def _recorded(
    action_name: str, describe: Describe, sessions: ActiveSession, *, writes: bool = False
) -> Callable[[Any], Any]:
    def wrap(stock: Any) -> Any:
        @functools.wraps(stock)
        def method(self: Any, *arguments: Any, **named: Any) -> Any:
            plain = scope.is_suspended() or (not writes and is_traced_frame(self))
            session = None if plain else sessions()
            if session is None:
                with scope.suspended():
                    return stock(self, *arguments, **named)
            with (
                scope.operator(action_name) as running,
                session.frames.running_action(running),
                session.watched_rows.running(running.call_site) as watched,
            ):
                called = _describe_call(
                    session, running, watched, lambda: describe(stock, self, arguments, named)
                )
                try:
                    with (
                        session.recorded(writes=writes),
                        scope.suspended(),
                        _setting_aside(session, action_name, called),
                        _observed(called) as commits,
                    ):
                        result = stock(self, *arguments, **named)
                except Exception as problem:
                    target = None if called is None else called.target
                    if not session.frames.record_failed_write(action_name, target, problem):
                        session.jobs.record_failed_action(action_name, problem)
                    if called is not None:
                        record_failure(session, running, called, problem)
                    raise
                finally:
                    session.jobs.record_lazy_jobs()
                if called is not None:
                    record_action(session, running, called, commits)
                if not writes:
                    _note_answer(action_name, running.call_site)
                session.problems.check()
            return result

        return method

    return wrap


def _note_answer(action_name: str, site: str) -> None:
    """Note that the program got rows, or something of them."""
    if action_name not in GIVING_NOTHING:
        ANSWERS.note(f"{action_name} at {site}")


def _setting_aside(
    session: Session, action_name: str, called: ActionCall | None
) -> AbstractContextManager[None]:
    """The body runs an action; rows that Python functions fail on are set aside, where that is reported and recorded."""
    if called is None or action_name in OF_RDD:
        return contextlib.nullcontext()
    return session.set_aside.running()


def _planned(session: Session, running: scope.Operator, frame: Any) -> Any:
    """The frame by the plan that the action runs: where Spark plans it anew, it sets rows aside that the frame's own plan may not."""
    name = running.name.rpartition(".")[2]
    if not session.set_aside.is_on or (name in AS_IT_RAN and name != "toPandas"):
        return frame
    # Of some Sparks, it is of the frame with other names of columns; where it has the current time, it is that of its own plan.
    is_own = name == "toPandas" and TIME_CALL.search(analysed_text(frame))
    return frame if is_own else planned_anew(frame)


def _observed(called: ActionCall | None) -> AbstractContextManager[OwnCommits]:
    """What an action commits to tables with versions, as far as that can be known."""
    if called is None or not called.target.may_commit:
        return contextlib.nullcontext(OwnCommits())
    return _observed_with(called.settings)


def _observed_with(settings: Mapping[str, str] | None) -> AbstractContextManager[OwnCommits]:
    with_delta = WITH_DELTA and delta.is_used(settings)
    return own_commits.observed(with_delta=with_delta, with_iceberg=iceberg.is_used(settings))


def _describe_call(
    session: Session,
    running: scope.Operator,
    watched: str,
    describe: Callable[[], tuple[Any, Target]],
) -> ActionCall | None:
    """What is to be recorded; None where that can't be determined: then the verdict says so."""
    try:
        with scope.suspended():
            frame, target = describe()
            session.set_aside.install(frame.sparkSession)
            with session.watched_rows.pause():
                frame = _planned(session, running, frame)
            settings = explicit_settings(frame.sparkSession)
            session.watched_rows.install(frame.sparkSession, settings)
            reads_iceberg = iceberg.is_used(settings) and not _uses_own_snapshots(running)
            reads = (iceberg.read_now(frame),) if reads_iceberg else ()
            is_planned = _uses_own_snapshots(running)
            with contextlib.nullcontext() if is_planned else session.watched_rows.pause():
                listed, of_topics = catalog.listed(frame), topics.read_now(frame)
            return ActionCall(frame, target, settings, listed, reads, of_topics, watched)
    except Exception as problem:
        _record_unreadable(session, running, problem)
        return None


def _record_unreadable(session: Session, running: scope.Operator, problem: Exception) -> None:
    session.nodes.unknown(
        running.name, f"what it does could not be recorded: {in_words(problem)}", ()
    )


def record_action(
    session: Session, running: scope.Operator, called: ActionCall, commits: OwnCommits
) -> str | None:
    """Have an action recorded that has returned: the name of its node, or None where it can't be recorded.

    ``commits``: those that were observed while it ran.
    """
    frame = called.frame
    returned_at = time.time()
    try:
        with scope.suspended():
            # The next action may write to the same folder.
            called = _after(called, commits)
            versions = _versions(called)
            output = called.target.output()
            tables = _tables(running, called, versions, output)
    except Exception as problem:
        _record_unreadable(session, running, problem)
        return None

    def recipe(site: str) -> Recipe:
        activate(frame.sparkSession)
        output_with_files = called.target.with_files(output)
        calls, settings = session.set_aside, called.settings

        def of_operator(plan: Any) -> Recipe:
            spark, rows = frame.sparkSession, Output(action=WATCHED)
            return plans.recipe_of_operator(spark, plan, rows, site, settings, tables, calls)

        recipe = plans.recipe_of(frame, output_with_files, site, settings, tables, calls=calls)
        session.watched_rows.record(called.watched, frame, of_operator)
        return recipe

    node = session.nodes.next_id()
    session.frames.add(ReturnedAction(node, running, recipe, called.target.began_at, returned_at))
    return node


def record_failure(
    session: Session, running: scope.Operator, called: ActionCall, problem: Exception
) -> None:
    """Have the recipe of an action recorded that failed; where that can't be done, nothing is: the program gets its own error."""
    if type(problem).__name__ in REFUSALS:
        return
    frame, failed_at = called.frame, time.time()
    says_errors = session.settings.values and not session.settings.redact
    with contextlib.suppress(Exception), scope.suspended():
        output = called.target.failed(failure_of(problem, says_message=says_errors))
        tables = _tables(running, called, _versions(called), output)

        def recipe(site: str) -> Recipe:
            activate(frame.sparkSession)
            settings, calls = called.settings, session.set_aside
            return plans.recipe_of(frame, output, site, settings, tables, calls=calls)

        began_at = called.target.began_at
        session.frames.add(
            ReturnedAction(session.nodes.next_id(), running, recipe, began_at, failed_at, True)
        )


def _tables(
    running: scope.Operator, called: ActionCall, versions: delta.Versions, output: Output
) -> Tables:
    """What is known of the tables that an action read."""
    read_of_topics = (
        topics.certain(called.topics, topics.read_now(called.frame)) if called.topics else {}
    )
    return Tables(versions, _listed(called, output), _read(running, called), read_of_topics)


def _after(called: ActionCall, commits: OwnCommits) -> ActionCall:
    """An action with its target, which may be a table that it has made, and which has what it committed."""
    target = called.target
    if target.kind == "table" and target.folder is None and target.snapshots is None:
        target = located(called.frame.sparkSession, target, is_new=True)
    target.record_return(commits)
    return replace(called, target=target)


def _listed(called: ActionCall, output: Output) -> catalog.Listed:
    """The files of tables that stayed what they were while the action ran."""
    if not called.listed:
        return {}
    return catalog.unchanged(called.listed, catalog.listed(called.frame), output.files)


def _versions(called: ActionCall) -> delta.Versions:
    """The versions of the Delta tables that an action read, which the next action may change."""
    log = called.target.log
    if not delta.is_used(called.settings):
        return {}
    versions = delta.latest(called.frame)
    return versions if log is None else log.others(versions)


def _uses_own_snapshots(running: scope.Operator) -> bool:
    """Whether an action runs its frame's plan with the snapshots that the frame has."""
    return running.name.rpartition(".")[2] in AS_IT_RAN


def _read(running: scope.Operator, called: ActionCall) -> iceberg.IcebergRead | None:
    """What the action read of tables of Iceberg, with which of their snapshots are certain."""
    if not iceberg.is_used(called.settings):
        return None
    if _uses_own_snapshots(running):
        return iceberg.read_by_itself(called.frame)
    planned, *others = called.reads
    if planned is None:
        return None
    after = iceberg.read_again(called.frame)
    return planned.with_certain_snapshots((*others, after), called.target.snapshots)


def _of_frame(stock: Any, frame: Any, arguments: Any, named: Any) -> tuple[Any, Target]:
    running = scope.outermost()
    assert running is not None
    return frame, to_driver(running.name, stock, frame, arguments, named)


def _of_writer(stock: Any, writer: Any, arguments: Any, named: Any) -> tuple[Any, Target]:
    running = scope.outermost()
    assert running is not None
    action = running.name
    name = action.rpartition(".")[2]
    bound = inspect.signature(stock).bind(writer, *arguments, **named).arguments
    writer_calls: WriterCalls | None = writer.__dict__.get(WRITER_CALLS)
    if writer_calls is None:
        raise ValueError(
            "its writer was made before capture began, and may have more options than are known"
        )
    spark = writer._df.sparkSession
    if name == "jdbc":
        # As Spark does, for what the same writer writes next.
        writer_calls.format = JDBC
        writer_calls.database |= {"url": bound["url"], "dbtable": bound["table"]}
        return writer._df, to_database(Target("table", action, format=JDBC), writer_calls.database)
    if name in WRITES_V2:
        return writer._df, to_table(spark, action, writer_calls.table, writer_calls)
    if bound.get("format"):
        writer_calls.format = bound["format"]
    if bound.get("mode"):
        writer_calls.mode = bound["mode"]
    if name in FILE_FORMATS:
        writer_calls.format = name
    # The path of one write is none of the writer's next one.
    _options(
        writer_calls,
        **{
            key: value
            for key, value in bound.items()
            if key != "path" and isinstance(value, str | bool)
        },
    )
    _options(writer_calls, **bound.get("options", {}))
    if name in {"saveAsTable", "insertInto"}:
        target = to_table(spark, action, bound.get("name") or bound["tableName"], writer_calls)
        return writer._df, with_columns(target, writer._df.columns)
    writer_calls.format = writer_calls.format or spark.conf.get("spark.sql.sources.default")
    path = bound.get("path") or writer_calls.path
    if not path:
        # A format that writes elsewhere: to a database, say.
        target = Target("table", action, table=writer_calls.format, format=writer_calls.format)
        if writer_calls.format.lower() == JDBC:
            target = to_database(target, writer_calls.database)
        elif writer_calls.format.lower() == KAFKA:
            target = to_topic(spark, target, writer_calls.topic)
        return writer._df, target
    return writer._df, to_files(spark, action, path, writer_calls)


# -- options of writers -------------------------------------------------------------------------


def _writer_hook(update: Callable[..., None], *, begins: bool = False) -> Callable[[Any], Any]:
    """``begins``: the method makes the writer. Of a writer that was made before, some calls were not seen: none counts.

    ``update`` gets the arguments by place, however the program gives them.
    """

    def wrap(stock: Any) -> Any:
        signature = inspect.signature(stock)

        @functools.wraps(stock)
        def method(self: Any, *arguments: Any, **named: Any) -> Any:
            # Called wrongly, the method itself says so.
            with contextlib.suppress(TypeError, AttributeError):
                if begins:
                    self.__dict__[WRITER_CALLS] = WriterCalls()
                if WRITER_CALLS in self.__dict__:
                    bound = signature.bind(self, *arguments, **named)
                    update(self.__dict__[WRITER_CALLS], *bound.args[1:], **bound.kwargs)
            return stock(self, *arguments, **named)

        return method

    return wrap


def _named(writer_calls: WriterCalls, table: str) -> None:
    writer_calls.table = table


def _option(writer_calls: WriterCalls, key: str, value: Any) -> None:
    _options(writer_calls, **{key: value})


def _options(writer_calls: WriterCalls, **options: Any) -> None:
    for key, value in options.items():
        if key.lower() in DATABASE_OPTIONS:
            writer_calls.database[key.lower()] = value
        if key.lower() == "topic" or key.lower().startswith("kafka."):
            writer_calls.topic[key.lower()] = str(value)
        if key.lower() == "path":
            writer_calls.path = str(value)
        elif key.lower() in READABLE_OPTIONS and value is not None:
            writer_calls.options[key.lower()] = (
                str(value).lower() if value in (True, False) else str(value)
            )


# -- without a recipe ------------------------------------------------------------------------------


def _named_only(action_name: str, sessions: ActiveSession) -> Callable[[Any], Any]:
    def wrap(stock: Any) -> Any:
        @functools.wraps(stock)
        def method(self: Any, *arguments: Any, **named: Any) -> Any:
            plain = scope.is_suspended() or is_traced_frame(self)
            session = None if plain else sessions()
            if session is None:
                with scope.suspended():
                    return stock(self, *arguments, **named)
            session.nodes.unknown(action_name, UNSUPPORTED_WORK, ())
            try:
                with session.recorded(), scope.suspended():
                    return stock(self, *arguments, **named)
            finally:
                _note_answer(action_name, scope.call_site())
                session.jobs.record_lazy_jobs()

        return method

    return wrap


def _keeping(spark_of: Callable[[Any], Any], sessions: ActiveSession) -> Callable[[Any], Any]:
    """What keeps a plan as it is at the call: what is to be in it must be there by then."""

    def wrap(stock: Any) -> Any:
        @functools.wraps(stock)
        def method(self: Any, *arguments: Any, **named: Any) -> Any:
            session = None if scope.is_suspended() else sessions()
            if session is not None:
                # What it is called on may be none of which that can be said: it says so itself.
                with scope.suspended(), contextlib.suppress(Exception):
                    session.set_aside.install(spark_of(self))
            return stock(self, *arguments, **named)

        return method

    return wrap


# -- SQL -------------------------------------------------------------------------------------------


def _hooked_sql(sessions: ActiveSession) -> Callable[[Any], Any]:
    """``spark.sql``: a query is lazy, a command has run when it returns."""

    def wrap(stock: Any) -> Any:
        @functools.wraps(stock)
        def method(self: Any, *arguments: Any, **named: Any) -> Any:
            session = None if scope.is_suspended() else sessions()
            if session is None:
                with scope.suspended():
                    return stock(self, *arguments, **named)
            operator = scope.operator("SparkSession.sql")
            with operator as running, session.frames.running_action(running):
                text = arguments[0] if arguments else named.get("sqlQuery")
                with scope.suspended():
                    session.set_aside.install(self)
                    before = commands.before(self, text)
                    settings = _settings(self)
                    if before.writes:
                        session.watched_rows.install(self, settings)
                    with (
                        session.recorded(),
                        session.watched_rows.running(running.call_site, before.writes) as watched,
                        session.set_aside.running(),
                        _observed_sql(before, settings) as commits,
                    ):
                        result = stock(self, *arguments, **named)
                session.jobs.record_lazy_jobs()
                _record_command(session, running, result, before, settings, commits, watched)
            return result

        return method

    return wrap


def _observed_sql(
    before: commands.Before, settings: Mapping[str, str] | None
) -> AbstractContextManager[OwnCommits]:
    is_wanted = before.target is None or before.target.may_commit
    if not before.writes or not is_wanted:
        return contextlib.nullcontext(OwnCommits())
    return _observed_with(settings)


def _settings(spark: Any) -> Mapping[str, str] | None:
    """What is set in a session; None where it does not say (it has been stopped)."""
    try:
        return explicit_settings(spark)
    except Exception:
        return None


def _record_command(
    session: Session,
    running: scope.Operator,
    result: Any,
    before: commands.Before,
    settings: Mapping[str, str] | None,
    commits: OwnCommits,
    watched: str,
) -> None:
    try:
        with scope.suspended():
            command = commands.command_of(result, before.target)
            called = None
            if isinstance(command, tuple):
                called = replace(_command(*command, before, settings), watched=watched)
    except Exception as problem:
        _record_unreadable(session, running, problem)
        return
    if isinstance(command, str):
        session.nodes.unknown(running.name, f"{command}: {UNSUPPORTED_WORK}", ())
    elif called is not None:
        record_action(session, running, called, commits)
        session.problems.check()


def _command(
    frame: Any, target: Target, before: commands.Before, settings: Mapping[str, str] | None
) -> ActionCall:
    used = iceberg.is_used(settings)
    reads = (iceberg.read_as_planned(frame), before.read) if used else ()
    # A table that is made by the command is looked at when it has run.
    target = replace(target, began_at=min(target.began_at, before.at))
    return ActionCall(frame, target, settings, before.listed, reads)
