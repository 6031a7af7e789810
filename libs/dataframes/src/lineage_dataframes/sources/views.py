"""Sources as views whose rows know where they stand.

Each source has a view of its columns and another with two more: `FILE_COLUMN`, the file's path, and `ROW_COLUMN`, the row's ordinal in it,
from 0. Parquet readers give both. Of other formats a running number in each split of a file gives the ordinal (`splits`);
but for large text files of this machine that is the whole file, so tracing such files is slower. A table of Delta
Lake is read in the version that the job read; its reader gives files, and rows where the table has deletion vectors.
A table of Iceberg is read in its snapshot (`iceberg`).
Lines of Hive's text tables are split by `hive_text`, rows of databases are named by `jdbc`, records of Kafka by `topics`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import Source
from lineage_core.recipe.names import DELTA, HIVE_TEXT, ICEBERG, JDBC, KAFKA
from lineage_dataframes.errors import ChangedSourceError, RefusedError
from lineage_dataframes.sandbox.starting import check_reach
from lineage_dataframes.sources import hive_text, iceberg, jdbc, topics
from lineage_dataframes.sources.file_changes import literal_path, reading_version
from lineage_dataframes.sources.schemas import check_names, check_schema, parse_schema_json
from lineage_dataframes.sources.splits import (
    NUMBERED_FORMATS,
    SPLIT_BYTES_OF_ONE_FILE,
    SPLIT_SETTING,
    ordinal_term,
)
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import is_connected

FILE_COLUMN = "__lineage_file"
ROW_COLUMN = "__lineage_row"

VERSIONED_FORMATS = {DELTA, ICEBERG}
"""Formats of tables that keep earlier versions."""

_REQUIRED_OPTIONS = {
    ICEBERG: ("metadata", "latest"),
    JDBC: ("url", "key", "zone"),
    HIVE_TEXT: ("sep",),
}
"""Options without which sources of a format can't be read."""

_UNENCODED_PATH = re.compile(r"[-\w./:=@,~]*", re.ASCII)
"""Paths that are the same in an address."""

RUNNING_NUMBER = f"(monotonically_increasing_id() & {(1 << 33) - 1})"
"""The place of a row in its split, where each is alone in its partition, whose number stands in the bits above."""


def files_of(source: Source) -> list[str]:
    """The files of a source, by their paths; a table of a database is one, and each partition of a topic."""
    if source.format == JDBC:
        return [source.name or ""]
    if source.format == KAFKA:
        return topics.partitions_of(source)
    return [file.path for file in source.files]


def view_name(source: int) -> str:
    """The name of the view that gives a source's rows."""
    return f"lineage_source_{source}"


def plain_view_name(source: int) -> str:
    """The name of the view that gives a source's rows without their names."""
    return f"lineage_plain_{source}"


def make_views(spark: SparkSession, source: Source, source_number: int) -> None:
    """Make both views of a source; raises as `view_of`.

    Where nothing is asked of ``_metadata``, Spark's readers give all of it, row by row: rows whose names are not
    wanted are read far faster by a view that knows none.
    """
    named_rows, plain_rows = _named_and_plain_rows(spark, source)
    named_rows.createOrReplaceTempView(view_name(source_number))
    plain_rows.createOrReplaceTempView(plain_view_name(source_number))


def replace_views(source_number: int, named_rows: DataFrame) -> None:
    """Have both views of a source give these rows, which have names."""
    named_rows.createOrReplaceTempView(view_name(source_number))
    plain_rows = named_rows.drop(FILE_COLUMN, ROW_COLUMN)
    plain_rows.createOrReplaceTempView(plain_view_name(source_number))


def unnamed_rows_reason(source: Source) -> str:
    """Why rows of such a source have no names; empty where they have."""
    if source.format in VERSIONED_FORMATS | {JDBC}:
        return ""
    if source.format == KAFKA:
        return topics.untraced_reason(source)
    if source.format != "parquet" and source.format not in NUMBERED_FORMATS:
        return f"rows of {source.format} sources have no names yet"
    if source.options.get("mode", "").upper() == "DROPMALFORMED":
        return "rows that the reader drops have no names (mode DROPMALFORMED)"
    return ""


def view_of(spark: SparkSession, source: Source) -> DataFrame:
    """The source's rows with `FILE_COLUMN` and `ROW_COLUMN`, from the files that the job read.

    Raises:
        RefusedError: rows of such a source have no names.
        ChangedSourceError: the version of a table is gone.
    """
    return _named_and_plain_rows(spark, source)[0]


def _named_and_plain_rows(spark: SparkSession, source: Source) -> tuple[DataFrame, DataFrame]:
    """Rows with their names, and without."""
    _check_options(source)
    check_reach([source])
    special_reader = {
        DELTA: _delta_rows, ICEBERG: _iceberg_rows, JDBC: _jdbc_rows, KAFKA: _topic_rows,
    }.get(source.format)  # fmt: skip
    if special_reader is not None:
        named_rows = special_reader(spark, source)
        return named_rows, named_rows
    reason = unnamed_rows_reason(source)
    if reason:
        raise RefusedError(reason)
    paths = [literal_path(file.path) for file in source.files]
    if source.format == HIVE_TEXT:
        frame = hive_text.read_hive_rows(spark, source, paths)
        # The reader's own column is one of the frame's here.
        names = _name_columns(source, _ordinal_term(spark, source))
        return frame.selectExpr("*", *names).drop("_metadata"), frame
    reader = spark.read.format(source.format).options(**_reader_options(source))
    frame = reader.schema(parse_schema_json(source.schema, source.partitions)).load(paths)
    check_names(source, frame)
    row = "_metadata.row_index" if source.format == "parquet" else _ordinal_term(spark, source)
    return frame.selectExpr("*", *_name_columns(source, row)), frame


def _check_options(source: Source) -> None:
    """See that a source has all options that its reader needs."""
    missing = [
        name for name in _REQUIRED_OPTIONS.get(source.format, ()) if name not in source.options
    ]
    if source.format in {DELTA, HIVE_TEXT} and not source.paths:
        missing.append("path")
    if missing:
        raise RefusedError(f"a source of {source.format} does not say its {missing[0]}")


def _ordinal_term(spark: SparkSession, source: Source) -> str:
    """The term for a row's ordinal, by its running number in its split."""
    setting = spark.conf.get(SPLIT_SETTING) or ""
    # In a session that a trace did not make, the value has a unit.
    size = int(setting) if setting.isdecimal() else SPLIT_BYTES_OF_ONE_FILE
    return ordinal_term(RUNNING_NUMBER, source, size, _path_term(source))


def _iceberg_rows(spark: SparkSession, source: Source) -> DataFrame:
    return iceberg.read_snapshot_rows(spark, source, FILE_COLUMN, ROW_COLUMN)


def _jdbc_rows(spark: SparkSession, source: Source) -> DataFrame:
    return jdbc.read_table_rows(spark, source, FILE_COLUMN, ROW_COLUMN)


def _topic_rows(spark: SparkSession, source: Source) -> DataFrame:
    return topics.read_records(spark, source, FILE_COLUMN, ROW_COLUMN)


def _name_columns(source: Source, row: str) -> list[str]:
    """The columns that name a row: the path of its file as Hadoop has it, and its ordinal."""
    return [f"{_path_term(source)} AS {FILE_COLUMN}", f"{row} AS {ROW_COLUMN}"]


def _path_term(source: Source) -> str:
    """The term for a row's file. Spark gives a path as that of a URL, with signs encoded."""
    if len(source.files) == 1 and source.format not in VERSIONED_FORMATS:
        # A hidden column would make Spark's readers of text give an object for each row. Of a table other files are read, too.
        return literals.string_constant(source.files[0].path)
    if all(_UNENCODED_PATH.fullmatch(file.path) for file in source.files):
        return "_metadata.file_path"
    return "url_decode(replace(_metadata.file_path, '+', '%2B'))"


def _delta_rows(spark: SparkSession, source: Source) -> DataFrame:
    """The rows that a version of a Delta table has in the source's files."""
    table = source.paths[0]
    reader = spark.read.format(source.format).option("versionAsOf", source.version or "")
    needs = f"{table} is a Delta table: Spark needs Delta Lake's jars and settings to read it"
    with reading_version(spark, f"version {source.version} of {table}", needs):
        frame = reader.load(table)
        check_schema(frame)
        check_names(source, frame)
        files = set(frame.inputFiles())
    recorded_files = {file.path for file in source.files}
    if not recorded_files <= files:
        raise ChangedSourceError(f"{table} was made anew: its version {source.version} is another")
    # Without deletion vectors every row of a file is read, and Delta Lake does not say which it is.
    has_row_index = "row_index" in frame.select("_metadata.*").columns
    row = "_metadata.row_index" if has_row_index else RUNNING_NUMBER
    if not has_row_index and is_connected(spark):
        raise RefusedError(f"Spark Connect does not tell how files of {table} are read")
    if not has_row_index and frame._jdf.rdd().getNumPartitions() != len(files):
        raise RefusedError(
            f"Spark reads files of {table} together: their rows can't be distinguished"
        )
    column_terms = [
        f"`{field['name'].replace('`', '``')}`" for field in json.loads(source.schema)["fields"]
    ]
    rows = frame.selectExpr(*column_terms, *_name_columns(source, row))
    return (
        rows
        if recorded_files == files
        else rows.where(F.col(FILE_COLUMN).isin(sorted(recorded_files)))
    )


def _reader_options(source: Source) -> Mapping[str, Any]:
    options = dict(source.options)
    if source.partitions and len(source.paths) == 1:
        # Files are named one by one; their folders' names are columns below this path.
        options.setdefault("basePath", source.paths[0])
    return options
