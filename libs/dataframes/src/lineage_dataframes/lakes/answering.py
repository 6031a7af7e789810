"""``lineage back --engine spark``: a question about records of an application in a lake, answered by a table of Parquet and a verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.region import Region
from lineage_core.contract.runs import Runs
from lineage_core.tracing.tagged_plan import WITHOUT_SPARK, name_of
from lineage_core.tracing.trace_result import TraceError
from lineage_core.tracing.walk import NOT_RECORDED
from lineage_dataframes.lakes.applications import (
    ApplicationsQuestion,
    ApplicationsTrace,
    trace_applications,
)
from lineage_dataframes.lakes.questions import tagged_regions, union_of
from lineage_dataframes.lakes.writing import TABLE_DDL, Asked, SpaceFiles, Writing, table_rows
from lineage_dataframes.spark.table_files import (
    check_free,
    check_written,
    session_for,
    write_table,
    write_text,
)
from lineage_query.range_links import RangeFollower
from lineage_query.record_starts import RecordStart
from lineage_query.rows.places import LocationError
from lineage_query.snapshot import ApplicationSnapshot
from lineage_store.lake.store import LakeStore

VERDICT: Final = "_verdict.json"
"""Beside the files of the table: readers of Parquet leave out what begins so."""


@dataclass(frozen=True, slots=True)
class WrittenTrace:
    """What a trace wrote, and the verdict.

    ``application``: of the question; ``applications``: all on the way. ``items``: of the question. ``rows``: of the table. ``exact``: the rows are just those that took part; else those whose column ``exact`` is
    false are a superset, or something is missing: ``reasons``. ``complete``: no row is missing, as far as is known; ``not_queried``: what is, where
    other applications could not be asked. ``steps``: joins of Spark.
    """

    application: str
    direction: str
    items: int
    rows: int
    exact: bool
    complete: bool
    changed: bool
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    steps: int
    applications: tuple[str, ...]
    not_queried: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How a trace goes, and what its table has.

    ``backward``: to what records were made from, and not to what was made of them. ``together``: each row of the answer once, and not of which
    item of the question it is. ``most_rows``: that the table may have. ``follower``: finds where it goes on in other applications; None: these are left out.
    """

    backward: bool
    together: bool
    most_rows: int
    follower: RangeFollower | None = None


def write_trace(
    spark: SparkSession,
    lake_of: Callable[[str], LakeStore],
    start: RecordStart,
    folder: str,
    options: TableOptions,
) -> WrittenTrace:
    """Trace records, and write which were made of which as a table, with the verdict in a small file beside it.

    Args:
        spark: a session of this process; others of its settings are used than its own.
        lake_of: where an application is; Spark reads its files from there.
        start: the records of the question.
        folder: an absolute path, or a URL that Spark knows; it is not there yet.
        options: which way, and what the table has.

    Raises:
        TraceError: records that Spark does not trace, or the application changed meanwhile.
        LocationError: there is no such record.
        StoreError: the lake can't be read.
        FramesError: Spark can't read or write the files, or the folder is there.
        BudgetError: the trace takes more than it may.
    """
    check_numbered(start)
    own = session_for(spark)
    check_free(own, folder)
    tagged, firsts = tagged_regions(start.regions, together=options.together)
    question = ApplicationsQuestion(
        start.opened, tagged, options.backward, options.most_rows, lake_of, options.follower
    )
    trace = trace_applications(own, question)
    _refuse_missing(start, trace.missing)
    written = _write(
        _table(own, start, trace, None if options.together else firsts, options), folder
    )
    result = WrittenTrace(
        application=start.opened.app,
        direction="backward" if options.backward else "forward",
        items=sum(region.count for region in start.regions.values()),
        rows=written,
        exact=not trace.reasons,
        complete=start.complete and trace.complete and not trace.refused,
        changed=start.changed,
        reasons=trace.texts,
        warnings=tuple(dict.fromkeys((*start.warnings, *trace.warnings, *trace.refused))),
        steps=trace.steps,
        applications=tuple(trace.ends),
        not_queried=tuple(trace.refused),
    )
    write_text(own, f"{folder}/{VERDICT}", json.dumps(asdict(result), indent=2) + "\n")
    return result


def check_numbered(start: RecordStart) -> None:
    """Refuse items that are no records of partitions.

    Args:
        start: of the question.

    Raises:
        TraceError: there are some.
    """
    for space in start.regions:
        if parse_space(space).kind in (SpaceKind.KEYS, SpaceKind.OPAQUE):
            shown = start.opened.names.space(space)
            raise TraceError(f"{shown} has no numbered records: {WITHOUT_SPARK}")


def _refuse_missing(start: RecordStart, missing: Mapping[str, str]) -> None:
    """Refuse items that no block puts out, if the lineage is complete: there are none such.

    Raises:
        LocationError: an item of the question does not exist.
    """
    if not start.opened.verdict.complete:
        return
    of_question = {parse_space(space).name for space in start.regions}
    for group, reason in missing.items():
        if reason == NOT_RECORDED and name_of(group) in of_question:
            label = start.opened.names.label(name_of(group))
            raise LocationError(f"some of these items of {label} are not in this application")


def _table(
    spark: SparkSession,
    start: RecordStart,
    trace: ApplicationsTrace,
    firsts: Mapping[str, int] | None,
    options: TableOptions,
) -> DataFrame:
    """The rows of the table, as a frame. ``firsts``: the first tag by space; None: tags say nothing."""
    asked, of_question = None, dict[str, SpaceFiles]()
    if firsts is not None:
        asked = _asked(start.regions, firsts)
        of_question = {
            space: _files_of(start.opened, space, start.regions[space]) for space in asked.spaces
        }
    texts = ("", *map(trace.text, trace.numbered))
    tables = []
    for app, ends in trace.ends.items():
        rows = ends.rows()
        if rows is not None:
            found = {
                space: _files_of(ends.opened, space, Region.of_runs(*_span(*bounds)))
                for space, bounds in ends.spaces.items()
            }
            writing = Writing(app, options.backward, texts, found, of_question, asked)
            sent = spark.sparkContext.broadcast(writing)
            tables.append(rows.mapInArrow(partial(_rows_of, sent=sent), TABLE_DDL))
    return union_of(tables) if tables else spark.createDataFrame([], TABLE_DDL)


def _rows_of(
    batches: Iterable[pa.RecordBatch], sent: Broadcast[Writing]
) -> Iterator[pa.RecordBatch]:
    """As `table_rows`, in a process of Spark."""
    return table_rows(batches, sent.value)


def _span(first: int, last: int) -> Runs:
    return np.array([first], np.uint64), np.array([last], np.uint64)


def _files_of(opened: ApplicationSnapshot, space: str, region: Region) -> SpaceFiles:
    label = opened.names.label(parse_space(space).name)
    return SpaceFiles.of_parts(label, opened.locations.parts_of(space, region))


def _asked(regions: Mapping[str, Region], firsts: Mapping[str, int]) -> Asked:
    spaces = tuple(firsts)
    counts = []
    for space in spaces:
        region = regions[space]
        lengths = (region.last - region.first).astype(np.int64) + 1
        counts.append(np.cumsum(lengths) - lengths)
    return Asked(
        spaces,
        np.array(list(firsts.values()), np.int64),
        tuple(regions[space].first for space in spaces),
        tuple(counts),
    )


def _write(rows: DataFrame, folder: str) -> int:
    """Write the table; returns how many rows it has."""
    observation = Observation()
    observed = rows.observe(observation, F.count(F.lit(1)).alias("rows"))
    write_table(observed, folder)
    count = int(observation.get["rows"])
    check_written(rows, folder, count)
    return count
