"""Where DataFrame work is noticed: PySpark's own methods, each wrapped once a process.

Whatever such a method calls in turn is suspended, so what is noticed is the outermost call: the
user's, or that of a part of PySpark that works on DataFrames (pandas on Spark).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from lineage_emitter import scope
from lineage_emitter.dataframes import catalog, commands, delta, iceberg, jdbc, local_rows, plans
from lineage_emitter.dataframes.current_time import AS_IT_RAN
from lineage_emitter.dataframes.in_program import is_of_an_answer, lineage_property
from lineage_emitter.dataframes.jvm import activate, explicit_settings
from lineage_emitter.dataframes.leaves import Tables
from lineage_emitter.dataframes.outputs import (
    FORMATS,
    READABLE_OPTIONS,
    SAID,
    Said,
    Target,
    fitting,
    located,
    to_driver,
    to_files,
    to_table,
)
from lineage_emitter.dataframes.recorder import Done
from lineage_emitter.failures import in_words
from lineage_emitter.pyspark_parts import frame_class, merge_class

if TYPE_CHECKING:
    from lineage_core.recipe.document import Output, Recipe
    from lineage_emitter.session.session import Session

Sessions: TypeAlias = "Callable[[], Session | None]"
"""Gives the session of the active SparkContext."""
Describe: TypeAlias = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], tuple[Any, Target]]
"""The frame and the target of a call (method, object, arguments), before it runs."""

REASON = "such work on DataFrames has no record-level lineage in this version"
ACTIONS = ("collect", "count", "show", "toPandas", "toArrow", "take", "first", "head", "tail",
           "foreach", "foreachPartition", "toLocalIterator", "isEmpty")  # fmt: skip
"""Actions whose rows, or what is told of them, come from the frame's own plan."""
WITHOUT_RECIPE = ("toJSON", "checkpoint", "localCheckpoint", "approxQuantile", "corr", "cov",
                  "crosstab", "freqItems")  # fmt: skip
"""Actions that are just named in the verdict: what they give is of no plan that could be noted."""
WRITES = ("save", *FORMATS, "saveAsTable", "insertInto", "jdbc")
WRITES_V2 = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")

_installed = False


@dataclass(frozen=True, slots=True)
class Called:
    """An action as it was called.

    ``settings``: what was set in its session then; None: not known. ``listed``: the files of tables then (`catalog`).
    ``reads``: of its tables of Iceberg, the plan that is noted, and what it read at other times (`iceberg`).
    """

    frame: Any
    target: Target
    settings: Mapping[str, str] | None
    listed: catalog.Listed
    reads: tuple[iceberg.Read | None, ...] = ()


def install(sessions: Sessions) -> None:
    """Notice what actions do, from now on; a second call changes nothing."""
    global _installed  # noqa: PLW0603 - PySpark's classes are the process's, too
    if _installed:
        return
    _installed = True
    from pyspark.sql import SparkSession
    from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2

    frame = frame_class()
    for name in ACTIONS:
        _wrap(frame, name, _noting(f"DataFrame.{name}", _of_frame, sessions))
    for name in WITHOUT_RECIPE:
        _wrap(frame, name, _naming(f"DataFrame.{name}", sessions))
    for name in WRITES:
        what = f"DataFrameWriter.{name}"
        _wrap(DataFrameWriter, name, _noting(what, _of_writer, sessions, writes=True))
    for name in WRITES_V2:
        what = f"DataFrameWriterV2.{name}"
        _wrap(DataFrameWriterV2, name, _noting(what, _of_writer, sessions, writes=True))
    merge = merge_class()
    if merge is not None:
        _wrap(merge, "merge", _naming("MergeIntoWriter.merge", sessions))
    _wrap(SparkSession, "sql", _running(sessions))
    _wrap(SparkSession, "_create_dataframe", local_rows.keeping)
    _wrap(DataFrameWriter, "__init__", _listening(lambda _said, _df: None))
    _wrap(DataFrameWriter, "format", _listening(lambda said, name: setattr(said, "format", name)))
    _wrap(DataFrameWriterV2, "using", _listening(lambda said, name: setattr(said, "format", name)))
    for owner in (DataFrameWriter, DataFrameWriterV2):
        _wrap(owner, "option", _listening(_option))
        _wrap(owner, "options", _listening(_options))
    frame.lineage = property(lineage_property)
    _wrap(DataFrameWriterV2, "__init__", _listening(lambda said, _df, table: _named(said, table)))


def _wrap(owner: Any, name: str, around: Callable[[Any], Any]) -> None:
    """Wrap a method, its own or inherited, where this PySpark has it."""
    stock = getattr(owner, name, None)
    if stock is not None:
        setattr(owner, name, around(stock))


# -- actions ---------------------------------------------------------------------------------------


def _noting(
    what: str, describe: Describe, sessions: Sessions, *, writes: bool = False
) -> Callable[[Any], Any]:
    def around(stock: Any) -> Any:
        @functools.wraps(stock)
        def method(self: Any, *given: Any, **named: Any) -> Any:
            plain = scope.is_suspended() or (not writes and is_of_an_answer(self))
            session = None if plain else sessions()
            if session is None:
                with scope.suspended():
                    return stock(self, *given, **named)
            with scope.operator(what) as running, session.frames.running_action(running):
                called = _called(session, running, lambda: describe(stock, self, given, named))
                try:
                    with session.recorded(writes=writes), scope.suspended():
                        result = stock(self, *given, **named)
                except Exception as problem:
                    session.jobs.record_failed_action(what, problem)
                    raise
                finally:
                    session.jobs.record_lazy_jobs()
                if called is not None:
                    note(session, running, called)
                session.problems.check()
            return result

        return method

    return around


def _called(
    session: Session, running: scope.Operator, describe: Callable[[], tuple[Any, Target]]
) -> Called | None:
    """What is to be noted; None where that can't be told: then the verdict says so."""
    try:
        with scope.suspended():
            frame, target = describe()
            settings = explicit_settings(frame.sparkSession)
            asked = iceberg.is_used(settings) and not _as_it_ran(running)
            reads = (iceberg.read_now(frame),) if asked else ()
            return Called(frame, target, settings, catalog.listed(frame), reads)
    except Exception as problem:
        _not_noted(session, running, problem)
        return None


def _not_noted(session: Session, running: scope.Operator, problem: Exception) -> None:
    session.nodes.unknown(running.name, f"what it does could not be noted: {in_words(problem)}", ())


def note(session: Session, running: scope.Operator, called: Called) -> str | None:
    """Have an action noted that has returned: the name of its node, or None where it can't be noted."""
    frame = called.frame
    try:
        with scope.suspended():
            versions = _versions(called)
            # The next action may write to the same folder.
            called = _after(called)
            output = called.target.output()
            tables = Tables(versions, _listed(called, output), _read(running, called))
    except Exception as problem:
        _not_noted(session, running, problem)
        return None

    def recipe(site: str) -> Recipe:
        activate(frame.sparkSession)
        whole = called.target.with_files(output)
        return plans.recipe_of(frame, whole, site, called.settings, tables)

    node = session.nodes.next_id()
    session.frames.note(Done(node, running, recipe))
    return node


def _after(called: Called) -> Called:
    """An action with its target, which may be a table that it has made."""
    target = called.target
    if target.kind == "table" and target.folder is None and target.snapshots is None:
        target = located(called.frame.sparkSession, target, is_new=True)
    if target.snapshots is not None:
        target.snapshots.returned()
    return replace(called, target=target)


def _listed(called: Called, output: Output) -> catalog.Listed:
    """The files of tables that stayed what they were while the action ran."""
    if not called.listed:
        return {}
    return catalog.unchanged(called.listed, catalog.listed(called.frame), output.files)


def _versions(called: Called) -> Mapping[str, int]:
    """The versions of the Delta tables that an action read, which the next action may change."""
    log = called.target.log
    if log is not None:
        log.returned()
    if not delta.is_used(called.settings):
        return {}
    versions = delta.latest(called.frame)
    return versions if log is None else log.others(versions)


def _as_it_ran(running: scope.Operator) -> bool:
    """Whether an action runs its frame's plan with the snapshots that the frame has."""
    return running.name.rpartition(".")[2] in AS_IT_RAN


def _read(running: scope.Operator, called: Called) -> iceberg.Read | None:
    """What the action read of tables of Iceberg, with which of their snapshots are certain."""
    if not iceberg.is_used(called.settings):
        return None
    if _as_it_ran(running):
        return iceberg.read_by_itself(called.frame)
    noted, *others = called.reads
    if noted is None:
        return None
    after = iceberg.read_again(called.frame)
    return noted.settled((*others, after), called.target.snapshots)


def _of_frame(stock: Any, frame: Any, given: Any, named: Any) -> tuple[Any, Target]:
    running = scope.outermost()
    assert running is not None
    return frame, to_driver(running.name, stock, frame, given, named)


def _of_writer(stock: Any, writer: Any, given: Any, named: Any) -> tuple[Any, Target]:
    running = scope.outermost()
    assert running is not None
    action = running.name
    name = action.rpartition(".")[2]
    bound = inspect.signature(stock).bind(writer, *given, **named).arguments
    said: Said | None = writer.__dict__.get(SAID)
    if said is None:
        raise ValueError("its writer was made before capture began, and may have been told more")
    spark = writer._df.sparkSession
    if name == "jdbc":
        place = f"{jdbc.address(bound['url'])}/{bound['table']}"
        return writer._df, Target("table", action, table=place, format="jdbc")
    if name in WRITES_V2:
        return writer._df, to_table(spark, action, said.table, said)
    if bound.get("format"):
        said.format = bound["format"]
    if name in FORMATS:
        said.format = name
    _options(said, **{key: value for key, value in bound.items() if isinstance(value, str | bool)})
    _options(said, **bound.get("options", {}))
    if name in {"saveAsTable", "insertInto"}:
        target = to_table(spark, action, bound.get("name") or bound["tableName"], said)
        return writer._df, fitting(target, writer._df.columns)
    said.format = said.format or spark.conf.get("spark.sql.sources.default")
    path = bound.get("path") or said.path
    if not path:
        # A format that writes elsewhere: to a database, say.
        return writer._df, Target("table", action, table=said.format, format=said.format)
    return writer._df, to_files(spark, action, path, said)


# -- what writers are told -------------------------------------------------------------------------


def _listening(hear: Callable[..., None]) -> Callable[[Any], Any]:
    def around(stock: Any) -> Any:
        @functools.wraps(stock)
        def method(self: Any, *given: Any, **named: Any) -> Any:
            # Called wrongly, the method itself says so.
            with contextlib.suppress(TypeError, AttributeError):
                hear(self.__dict__.setdefault(SAID, Said()), *given, **named)
            return stock(self, *given, **named)

        return method

    return around


def _named(said: Said, table: str) -> None:
    said.table = table


def _option(said: Said, key: str, value: Any) -> None:
    _options(said, **{key: value})


def _options(said: Said, **options: Any) -> None:
    for key, value in options.items():
        if key.lower() == "path":
            said.path = str(value)
        elif key.lower() in READABLE_OPTIONS and value is not None:
            said.options[key.lower()] = str(value).lower() if value in (True, False) else str(value)


# -- without a recipe ------------------------------------------------------------------------------


def _naming(what: str, sessions: Sessions) -> Callable[[Any], Any]:
    def around(stock: Any) -> Any:
        @functools.wraps(stock)
        def method(self: Any, *given: Any, **named: Any) -> Any:
            plain = scope.is_suspended() or is_of_an_answer(self)
            session = None if plain else sessions()
            if session is None:
                with scope.suspended():
                    return stock(self, *given, **named)
            session.nodes.unknown(what, REASON, ())
            try:
                with session.recorded(), scope.suspended():
                    return stock(self, *given, **named)
            finally:
                session.jobs.record_lazy_jobs()

        return method

    return around


# -- SQL -------------------------------------------------------------------------------------------


def _running(sessions: Sessions) -> Callable[[Any], Any]:
    """``spark.sql``: a query is lazy, a command has run when it returns."""

    def around(stock: Any) -> Any:
        @functools.wraps(stock)
        def method(self: Any, *given: Any, **named: Any) -> Any:
            session = None if scope.is_suspended() else sessions()
            if session is None:
                with scope.suspended():
                    return stock(self, *given, **named)
            operator = scope.operator("SparkSession.sql")
            with operator as running, session.frames.running_action(running):
                text = given[0] if given else named.get("sqlQuery")
                with scope.suspended():
                    before = commands.before(self, text)
                    settings = _settings(self)
                    with session.recorded():
                        result = stock(self, *given, **named)
                session.jobs.record_lazy_jobs()
                _note_command(session, running, result, before, settings)
            return result

        return method

    return around


def _settings(spark: Any) -> Mapping[str, str] | None:
    """What is set in a session; None where it does not say (it has been stopped)."""
    try:
        return explicit_settings(spark)
    except Exception:
        return None


def _note_command(
    session: Session,
    running: scope.Operator,
    result: Any,
    before: commands.Before,
    settings: Mapping[str, str] | None,
) -> None:
    try:
        with scope.suspended():
            found = commands.command_of(result, before.target)
            called = None
            if isinstance(found, tuple):
                called = _command(*found, before, settings)
    except Exception as problem:
        _not_noted(session, running, problem)
        return
    if isinstance(found, str):
        session.nodes.unknown(running.name, f"{found}: {REASON}", ())
    elif called is not None:
        note(session, running, called)
        session.problems.check()


def _command(
    frame: Any, target: Target, before: commands.Before, settings: Mapping[str, str] | None
) -> Called:
    used = iceberg.is_used(settings)
    reads = (iceberg.read_as_planned(frame), before.read) if used else ()
    return Called(frame, target, settings, before.listed, reads)
