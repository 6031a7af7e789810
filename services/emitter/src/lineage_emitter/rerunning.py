"""A program of RDDs run again by a plan: its sources are cut down, and what it writes goes to another folder.

Sources are known by their order, so a program that makes them in several threads is refused. What the job read or wrote is not
changed by Python's own functions; what a program changes by other means (a shell, Hadoop's file systems, databases) it changes again.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from py4j.java_gateway import is_instance_of
from pyspark import RDD, cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lineage_core.contract.region import Region
from lineage_core.environment.user_functions import load_function
from lineage_emitter import context_methods, scope
from lineage_emitter.driver.rdd import LineageRDD
from lineage_emitter.driver.saving import SAVES
from lineage_emitter.errors import RerunError
from lineage_emitter.program.recipes import SourceRecipe, recipe_of
from lineage_emitter.program.replaying import cut_source, repair_source
from lineage_emitter.pyspark_parts import frame_class
from lineage_emitter.worker.record_selection import count_records
from lineage_store.rerun_plan import RerunPlan, RerunSource, report_fact

ALL_ROWS = Region.from_text("0-9223372036854775806")
OUTPUT_FOLDERS = ("mapreduce.output.fileoutputformat.outputdir", "mapred.output.dir")
"""Keys of a Hadoop configuration that name the folder of an output."""
WRITES_TO_PATH = ("parquet", "json", "csv", "orc", "text", "xml", "save")
WRITES_ELSEWHERE = ("insertInto", "saveAsTable", "jdbc")
QUERIES = frozenset({"Project", "Filter", "Aggregate", "Sort", "GlobalLimit", "LocalLimit", "Distinct", "Union", "Join", "With",
                     "UnresolvedWith", "UnresolvedHaving", "UnresolvedRelation", "UnresolvedInlineTable", "SubqueryAlias",
                     "Window", "WithWindowDefinition", "Except", "Intersect", "Generate", "Pivot", "Unpivot", "Offset",
                     "SetCommand", "CreateViewCommand", "CreateTempViewUsing", "UnresolvedSubqueryColumnAliases", "Sample",
                     "ShowTables", "ShowTablesCommand", "DescribeRelation", "SetCatalogAndNamespace", "CacheTableAsSelect",
                     "CacheTable", "RefreshTable"})  # fmt: skip
"""Parsed statements of SQL that write no table, where nothing below them does."""
LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
STATEMENTS = ("ParsedStatement", "Command")
"""What parsed statements that write extend."""
OPENED_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_CREAT | os.O_APPEND
CHANGES = {"os.remove": 1, "os.rmdir": 1, "os.rename": 2, "os.truncate": 1, "os.link": 2, "os.symlink": 2, "shutil.rmtree": 1,
           "shutil.move": 2}  # fmt: skip
"""Audited calls that change files: how many of their first arguments are paths."""
Method: TypeAlias = "Callable[..., Any]"


def install(plan: RerunPlan) -> None:
    """Run what this process runs from now on by a plan. Once a process, before the program."""
    rerun = _Rerun(plan)
    context_methods.give_sources_to(rerun.source)
    _redirect_saves(rerun)
    _redirect_frames(rerun)
    _keep_files(rerun)


class _Rerun:
    """What was met of a plan so far."""

    def __init__(self, plan: RerunPlan) -> None:
        self._plan = plan
        self._kept = [real for path in plan.kept_paths if (real := _real(path))]
        self._repair = _repair_of(plan)
        self._sources = 0
        self._names: set[str] = set()
        self._saving = threading.local()

    def refuse(self, problem: str) -> RerunError:
        """The error for what a rerun does not do; reported, as a program may catch it."""
        report_fact(self._plan.report, "problem", problem)
        return RerunError(problem)

    def source(self, rdd: RDD[Any]) -> RDD[Any]:
        """A source that the program makes, cut down to its rows in the plan."""
        recipe = recipe_of(rdd)
        if not isinstance(rdd, LineageRDD) or not isinstance(recipe, SourceRecipe):
            return rdd
        if threading.current_thread() is not threading.main_thread():
            raise self.refuse(
                "the program makes its sources in several threads, so their order is not known"
            )
        at, self._sources = self._sources, self._sources + 1
        if at >= len(self._plan.sources):
            raise self.refuse(
                f"the program makes more sources than the job, which made {len(self._plan.sources)}"
            )
        report_fact(self._plan.report, "source", recipe.node)
        self._check_expected(at, rdd)
        if self._plan.counts:
            report_fact(self._plan.report, "counts", _counted(recipe))
        rows = self._plan.sources[at]
        if rows.is_whole:
            return rdd
        if not recipe.repeatable:
            raise self.refuse(
                f"node {recipe.node} gives its rows in another order each time: the very rows can't be read again"
            )
        if rows.repaired:
            assert self._repair is not None
            return repair_source(rdd, recipe, rows.repaired, self._repair)
        return cut_source(rdd, replace(recipe, ordinals=_ordinals(rdd, rows), full_rdd=rdd))

    def _check_expected(self, at: int, rdd: LineageRDD) -> None:
        node = rdd.node
        what = f"{node.op} of {node.path}" if node.path else node.op
        # Rows are known by their splits.
        described = f"{what} at {node.call_site} in {rdd.getNumPartitions()} splits"
        report_fact(self._plan.report, "described", described)
        expected = self._plan.expected
        if expected and described not in expected[at : at + 1]:
            raise self.refuse(f"the program makes other sources on fewer rows: {described}")

    # -- outputs -----------------------------------------------------------------------------

    def is_saving(self) -> bool:
        """Whether PySpark writes for itself, within a save that was redirected."""
        return bool(getattr(self._saving, "is_on", False))

    def saved(self, path: str, write: Callable[[str], Any]) -> Any:
        """Write to the folder of the rerun instead of to a path."""
        base = os.path.basename(path.rstrip("/")) or "output"
        name, number = base, 1
        while name in self._names:
            number += 1
            name = f"{base}-{number}"
        self._names.add(name)
        folder = self._plan.folder / name
        self._saving.is_on = True
        try:
            written = write(f"file:{folder}")
        finally:
            self._saving.is_on = False
        report_fact(self._plan.report, "output", str(folder))
        return written

    # -- files of the job --------------------------------------------------------------------

    def is_kept(self, path: Any, *, around: bool = True) -> bool:
        """Whether a path is what the job read or wrote, or below it; with ``around`` also a folder around that."""
        real = _real(path)
        return bool(real) and any(
            real == kept
            or real.startswith(kept + os.sep)
            or (around and kept.startswith(real.rstrip(os.sep) + os.sep))
            for kept in self._kept
        )


def _repair_of(plan: RerunPlan) -> Callable[[Any], Any] | None:
    """The function that repairs rows; workers, which have no such module, get all of it."""
    if not plan.repair:
        return None
    function, module = load_function(plan.repair, "--with")
    cloudpickle.register_pickle_by_value(module)
    return function


def _ordinals(rdd: RDD[Any], rows: RerunSource) -> Mapping[int, Region]:
    if rows.kept is not None:
        return rows.kept
    splits = range(rdd.getNumPartitions())
    return {split: ALL_ROWS - rows.left_out.get(split, Region()) for split in splits}


def _counted(recipe: SourceRecipe) -> dict[int, int] | None:
    """How many rows each split has; None: the source can't be cut down."""
    if not recipe.repeatable:
        return None
    with scope.suspended():
        return dict(recipe.plain.mapPartitionsWithIndex(count_records).collect())


def _real(path: Any) -> str:
    """A path without links; "" for what is none."""
    if path is None or isinstance(path, int):
        return ""
    try:
        return os.path.realpath(os.fsdecode(path))
    except (TypeError, ValueError, OSError):
        return ""


# -- saves of RDDs ---------------------------------------------------------------------------------


def _redirect_saves(rerun: _Rerun) -> None:
    for owner in (LineageRDD, RDD):
        for name in ("saveAsTextFile", *SAVES):
            setattr(owner, name, _redirected_save(rerun, name, getattr(owner, name)))


def _redirected_save(rerun: _Rerun, name: str, stock: Method) -> Method:
    @functools.wraps(stock)
    def save(self: RDD[Any], /, *arguments: Any, **named: Any) -> Any:
        if rerun.is_saving():
            return stock(self, *arguments, **named)
        if arguments:
            first, *rest = arguments
        else:
            rest, first = [], named.pop("path" if "path" in named else "conf", None)
        if isinstance(first, str):
            return rerun.saved(first, lambda to: stock(self, to, *rest, **named))
        if isinstance(first, Mapping):
            keys = [key for key in OUTPUT_FOLDERS if key in first]
            if len(keys) == 1:
                return rerun.saved(
                    first[keys[0]],
                    lambda to: stock(self, {**first, keys[0]: to}, *rest, **named),
                )
        raise rerun.refuse(f"{name} names no folder that could be another in a replay")

    return save


# -- writes of DataFrames --------------------------------------------------------------------------


def _redirect_frames(rerun: _Rerun) -> None:
    for name in WRITES_TO_PATH:
        stock = getattr(DataFrameWriter, name, None)
        if stock is not None:
            setattr(DataFrameWriter, name, _redirected_write(rerun, name, stock))
    frame = frame_class()
    for owner, names in (
        (DataFrameWriter, WRITES_ELSEWHERE),
        (frame, ("writeTo", "mergeInto")),
        (DataStreamWriter, ("start", "toTable")),
    ):
        for name in names:
            if hasattr(owner, name):
                setattr(owner, name, _refused(rerun, f"{owner.__name__}.{name}"))
    SparkSession.sql = _checked_sql(rerun, SparkSession.sql)  # type: ignore[method-assign]


def _redirected_write(rerun: _Rerun, name: str, stock: Method) -> Method:
    @functools.wraps(stock)
    def write(self: Any, path: str | None = None, /, *arguments: Any, **named: Any) -> Any:
        if rerun.is_saving():
            return stock(self, path, *arguments, **named)
        path = named.pop("path", path)
        if path is None:
            raise rerun.refuse(f"DataFrameWriter.{name} without a path is not replayed")
        return rerun.saved(path, lambda to: stock(self, to, *arguments, **named))

    return write


def _refused(rerun: _Rerun, name: str) -> Method:
    def refused(*_: Any, **__: Any) -> Any:
        raise rerun.refuse(f"{name} writes where a replay can't: it is not replayed")

    return refused


def _checked_sql(rerun: _Rerun, stock: Method) -> Method:
    @functools.wraps(stock)
    def sql(self: Any, sqlQuery: str, *arguments: Any, **named: Any) -> Any:
        kind = statement_that_writes(self, sqlQuery)
        if kind:
            raise rerun.refuse(f"a statement of SQL ({kind}) that may write is not replayed")
        return stock(self, sqlQuery, *arguments, **named)

    return sql


def statement_that_writes(session: SparkSession, text: str) -> str:
    """What a statement of SQL is parsed as that may write, in Spark's words; empty: nothing.

    ``WITH`` and ``FROM`` may stand before INSERT.
    """
    untyped_session: Any = session
    plan = untyped_session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    kind: str = plan.getClass().getSimpleName()
    if kind not in QUERIES:
        return kind
    gateway, below = untyped_session.sparkContext._gateway, _children(plan)
    while below:
        node = below.pop()
        kind = node.getClass().getSimpleName()
        if kind.startswith("InsertInto") or any(
            is_instance_of(gateway, node, f"{LOGICAL}.{statement}") for statement in STATEMENTS
        ):
            return kind
        below += _children(node)
    return ""


def _children(plan: Any) -> list[Any]:
    children = plan.children()
    return [children.apply(at) for at in range(children.size())]


# -- files of the job ------------------------------------------------------------------------------


def _keep_files(rerun: _Rerun) -> None:
    """Keep Python's own functions from changing what the job read or wrote."""
    stock = shutil.rmtree

    @functools.wraps(stock)
    def rmtree(path: Any, *arguments: Any, **named: Any) -> None:
        # Programs make room for an output, which goes elsewhere.
        if not rerun.is_kept(path):
            stock(path, *arguments, **named)

    shutil.rmtree = rmtree  # type: ignore[assignment]

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            is_kept = bool(flags and flags & OPENED_TO_WRITE) and rerun.is_kept(path, around=False)
        else:
            paths = arguments[: CHANGES.get(event, 0)]
            is_kept = any(map(rerun.is_kept, paths))
            path = paths[0] if paths else ""
        if is_kept:
            raise PermissionError(
                f"a replay does not change what the job read or wrote: {os.fsdecode(path)} ({event})"
            )

    sys.addaudithook(audit)
