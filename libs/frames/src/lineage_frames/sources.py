"""Sources as views whose rows know where they stand.

Each view has a source's columns and two more: `FILE`, the file's path, and `ROW`, the row's ordinal in it,
from 0. Parquet readers tell both. Of other formats each file is read as one split, where a running number
is the ordinal; Spark gives that only a whole file at a time, so tracing such files is slower.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lineage_core.recipe import Source
from lineage_frames.errors import RefusedError

FILE = "__lineage_file"
ROW = "__lineage_row"

NUMBERED = {"orc", "csv", "json", "text"}
"""Formats whose rows are numbered by reading each file as one split."""

WHOLE_FILES = {
    "spark.sql.files.maxPartitionBytes": str(1 << 40),
    "spark.sql.files.openCostInBytes": str(1 << 40),
    "spark.sql.files.minPartitionNum": "1",
}
"""Settings by which each file is one split, alone in its partition."""

_ORDINAL_BITS = (1 << 33) - 1
"""`monotonically_increasing_id` has the partition above, the row's number within it in these bits."""


def whole_files(sources: Sequence[Source]) -> bool:
    """Whether a source needs its files read as one split each."""
    return any(source.format in NUMBERED for source in sources)


def view_of(spark: SparkSession, source: Source) -> DataFrame:
    """The source's rows with `FILE` and `ROW`, from the files that the job read.

    Raises:
        RefusedError: rows of such a source have no names.
    """
    if source.format != "parquet" and source.format not in NUMBERED:
        raise RefusedError(f"rows of {source.format} sources have no names yet")
    if source.options.get("mode", "").upper() == "DROPMALFORMED":
        raise RefusedError("rows that the reader drops have no names (mode DROPMALFORMED)")
    reader = spark.read.format(source.format).options(**_options(source))
    frame = reader.schema(_schema(source)).load([file.path for file in source.files])
    row = (
        F.col("_metadata.row_index")
        if source.format == "parquet"
        else F.monotonically_increasing_id().bitwiseAND(F.lit(_ORDINAL_BITS))
    )
    path = F.col("_metadata.file_path")
    return frame.select("*", path.alias(FILE), row.alias(ROW))


def _schema(source: Source) -> StructType:
    fields = json.loads(source.schema)["fields"]
    if source.partitions:
        fields = fields + json.loads(source.partitions)["fields"]
    schema: StructType = StructType.fromJson({"type": "struct", "fields": fields})
    return schema


def _options(source: Source) -> Mapping[str, Any]:
    options = dict(source.options)
    if source.partitions and len(source.paths) == 1:
        # Files are named one by one; their folders' names are columns below this path.
        options.setdefault("basePath", source.paths[0])
    return options
