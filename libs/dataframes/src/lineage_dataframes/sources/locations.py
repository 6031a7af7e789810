"""Rows of files as a person names them: ``path:line`` of text files, ``path#row`` of others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import Recipe, Source
from lineage_core.recipe.names import HIVE_TEXT, JDBC, KAFKA
from lineage_dataframes.errors import NoMatchError, RefusedError
from lineage_dataframes.sources import jdbc, topics
from lineage_dataframes.sources.file_changes import literal_path, local_path
from lineage_dataframes.sources.splits import UNSPLIT_FILES
from lineage_dataframes.sources.text_records import NO_LINES, has_lines, header_count, text_file
from lineage_dataframes.sources.views import ROW_COLUMN, view_of
from lineage_dataframes.sources.witnesses import Witnesses
from lineage_dataframes.spark.connected import new_session
from lineage_dataframes.spark.pyspark_parts import to_arrow

EACH_LINE = {"text", HIVE_TEXT}
"""Formats each line of which is a row, whatever it holds."""

NOT_BLANK = {"csv": r"[^\x00-\x20]", "json": r"[^ \t\r\n]"}
"""What makes a line a record: readers skip lines of nothing but what each takes for white space."""

ARRAY_LINE = r"^[\x00-\x20\uFEFF]*\["
"""A line of JSON that may be several rows, or none."""


def locations(spark: SparkSession, recipe: Recipe, witnesses: Witnesses) -> Iterator[str]:
    """The witnesses' names, file by file, in order: lines count from 1, other rows from 0."""
    for (source_number, path), ordinals in sorted(
        witnesses.rows.items(), key=lambda item: item[0][1]
    ):
        source = None if source_number is None else recipe.sources[source_number]
        yield from row_locations(spark, source, path, ordinals)


def row_locations(
    spark: SparkSession,
    source: Source | None,
    path: str,
    ordinals: NDArray[np.uint64],
    shown: str = "",
) -> list[str]:
    """The names of rows of one file; ``ordinals`` ascend. ``shown``: what the file is called, if not by its path."""
    if source is not None and source.format == JDBC:
        return jdbc.row_names(view_of(new_session(spark), source), source, ROW_COLUMN, ordinals)
    if source is not None and source.format == KAFKA:
        return topics.record_names(path, ordinals)
    local = local_path(path)
    name = shown or (path if local is None or source is None else str(local))
    if source is not None and has_lines(source):
        return [f"{name}:{line}" for line in line_numbers(spark, source, path, ordinals).tolist()]
    return [f"{name}#{row}" for row in ordinals.tolist()]


def line_numbers(
    spark: SparkSession, source: Source, path: str, ordinals: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """The lines, from 1, at which rows of a file stand; ``ordinals`` ascend."""
    if source.format in EACH_LINE:
        return ordinals + np.uint64(1)
    file = text_file(source, path)
    if file is not None:
        record_numbers = ordinals.astype(np.int64) + header_count(source)
        return (file.rows_of(record_numbers) + 1).astype(np.uint64)
    session, records = _records(spark, source, path)
    record_numbers = (ordinals + np.uint64(header_count(source))).tolist()
    requested = session.createDataFrame([(number,) for number in record_numbers], "wanted bigint")
    rows = records.join(F.broadcast(requested), F.col("record") == F.col("wanted"), "leftsemi")
    return np.array(sorted(row.line + 1 for row in rows.collect()), np.uint64)


def line_numbers_of_file(
    spark: SparkSession, source: Source, path: str
) -> NDArray[np.uint64] | None:
    """The line, from 1, of every row of a file, in order; None where row and line go together."""
    if source.format in EACH_LINE:
        return None
    file = text_file(source, path)
    if file is not None:
        rows = np.concatenate(
            [np.zeros(0, np.int64), *(records.rows for records in file.records())]
        )
        return (rows[header_count(source) :] + 1).astype(np.uint64)
    _, records = _records(spark, source, path)
    numbers = to_arrow(records.select("line"))["line"].to_numpy()
    return (np.sort(numbers)[header_count(source) :] + 1).astype(np.uint64)


def ordinal_at_line(spark: SparkSession, source: Source, path: str, line: int) -> int:
    """The ordinal, from 0, of the row at a line of a file, from 1.

    Raises:
        NoMatchError: no row stands there: a blank line, a comment, the header, or past the end.
    """
    if source.format in EACH_LINE:
        return line - 1
    file = text_file(source, path)
    if file is not None:
        record = file.record_at(line - 1)
    else:
        _, records = _records(spark, source, path)
        rows = records.where(F.col("line") == line - 1).collect()
        record = rows[0].record if rows else None
    if record is None or record < header_count(source):
        raise NoMatchError(f"{path}:{line} is no row")
    return record - header_count(source)


def _records(spark: SparkSession, source: Source, path: str) -> tuple[SparkSession, DataFrame]:
    """The lines of a file that are records, the header among them, both numbered from 0."""
    session = new_session(spark)
    for name, value in UNSPLIT_FILES.items():
        session.conf.set(name, value)
    lines = session.read.text(literal_path(path)).select("value", _running_number().alias("line"))
    if source.format == "json" and lines.where(F.col("value").rlike(ARRAY_LINE)).take(1):
        raise RefusedError(f"{path}: {NO_LINES}")
    return session, lines.where(_is_record(source)).select(
        "line", _running_number().alias("record")
    )


def _running_number() -> Column:
    """The running number in the one partition that the file is."""
    return F.monotonically_increasing_id()


def _is_record(source: Source) -> Column:
    condition = F.col("value").rlike(NOT_BLANK[source.format])
    comment = source.options.get("comment", "")
    if source.format == "csv" and comment:
        condition = condition & ~F.col("value").startswith(F.lit(comment))
    return condition
