"""Rows of Apache Iceberg's tables in the snapshot that the job read.

A table is read by the recorded file of metadata, which is never written again and says all of the snapshot: a
trace needs no catalog. Iceberg gives file and position of each row, whatever rows are deleted.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import Source
from lineage_core.recipe.names import ICEBERG
from lineage_dataframes.errors import ChangedSourceError, RefusedError
from lineage_dataframes.sources.file_changes import reading_version
from lineage_dataframes.sources.schemas import check_names, parse_schema_json
from lineage_dataframes.spark import literals


def read_snapshot_rows(spark: SparkSession, source: Source, file: str, row: str) -> DataFrame:
    """The rows of a snapshot that are in the source's files, with columns for the file and the row's place in it.

    Raises:
        RefusedError: Spark has no Iceberg, or the snapshot's columns are others.
        ChangedSourceError: the snapshot is gone.
    """
    if spark.version.startswith("3."):
        raise RefusedError(f"{source.name} is a table of Iceberg: it takes Spark 4.1 to read it")
    schema = parse_schema_json(source.schema)
    columns = [F.col(literals.quoted_name(field.name)) for field in schema]
    needs = f"{source.name} is a table of Iceberg: Spark needs Iceberg's jar to read it"
    with reading_version(spark, f"snapshot {source.version} of {source.name}", needs):
        frame = _read_snapshot(spark, source)
        check_names(source, frame)
        files = {entry.file_path for entry in _read_snapshot(spark, source, "#files").collect()}
    recorded_files = {recorded_file.path for recorded_file in source.files}
    if not recorded_files <= files:
        raise ChangedSourceError(f"{source.name} was made anew: its metadata is of other files")
    named_rows = frame.select(*columns, F.col("_file").alias(file), F.col("_pos").alias(row))
    kinds = [field.dataType.simpleString() for field in named_rows.schema][: len(columns)]
    if kinds != [field.dataType.simpleString() for field in schema]:
        raise RefusedError(f"columns of {source.name} had other types when the job ran")
    return (
        named_rows
        if recorded_files == files
        else named_rows.where(F.col(file).isin(sorted(recorded_files)))
    )


def _read_snapshot(spark: SparkSession, source: Source, metadata_table: str = "") -> DataFrame:
    """The snapshot's rows, or ``metadata_table`` Iceberg knows of it."""
    reader = spark.read.format(ICEBERG)
    if source.options["latest"] != "true":
        # Its columns are then those that the snapshot was written with.
        reader = reader.option("versionAsOf", source.version or "")
    frame = reader.load(source.options["metadata"] + metadata_table)
    return frame.where("content = 0").select("file_path") if metadata_table else frame
