"""The rows of an application in a lake as frames: its blocks, and between which spaces they lie."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.tracing.tagged_plan import GroupLink, SpaceGroup, name_of
from lineage_dataframes.lakes.exchange import BLOCK_COLUMNS
from lineage_dataframes.spark.pyspark_parts import from_arrow
from lineage_dataframes.spark.table_files import read_files, spark_address
from lineage_store.lake.columns import BLOCK_ID, TYPES, Kind
from lineage_store.lake.files import Files
from lineage_store.lake.table import LakeTable

DDL: Final = {
    pa.string(): "STRING",
    pa.int64(): "BIGINT",
    pa.bool_(): "BOOLEAN",
    pa.binary(): "BINARY",
}
READ: Final = (
    "kind", *BLOCK_ID, "number", "in_space", "in_low", "in_high", "space", "low", "high", "exact", "reason", "data",
)  # fmt: skip
NEXT: Final = {"#": "$", "@": "A", "#*": "#+"}
"""What follows the names of a group's spaces, in the order of texts."""
MOST_RANGES: Final = 32
"""Ranges of a filter; more are joined."""
_RANGES: Final[dict[str, pa.DataType]] = {
    "of_space": pa.string(),
    "least": pa.int64(),
    "most": pa.int64(),
}


class LakeFrames:
    """Frames of some files of a lake.

    Args:
        spark: of `session_for`.
        table: of the lake; Spark reads its files from there.
        files: of one application.
    """

    def __init__(self, spark: SparkSession, table: LakeTable, files: Files) -> None:
        self._spark = spark
        self._has_copies = len(files) > 1
        place = spark_address(table.address.location)
        schema = ", ".join(f"{name} {DDL[TYPES[name]]}" for name in READ)
        self._rows = read_files(spark, schema, [f"{place}/{file.path}" for file in files])

    def _of(self, kind: Kind) -> DataFrame:
        return self._rows.where(F.col("kind") == str(kind))

    def links(self) -> list[GroupLink]:
        """Between which groups of spaces the blocks lie."""
        rows = self._of(Kind.SECTION).select(
            _group(F.col("in_space")).alias("src"), _group(F.col("space")).alias("dest"), "node"
        )
        return [GroupLink(*row) for row in sorted(rows.distinct().collect())]

    def supersets(self, most: int) -> list[tuple[str, str]]:
        """Nodes and reasons of blocks that are supersets, about so many at most."""
        rows = self._of(Kind.BLOCK).where(~F.col("exact")).select("node", "reason")
        return [(row[0], row[1] or "") for row in rows.distinct().limit(most).collect()]

    def blocks(
        self,
        group: SpaceGroup,
        nodes: Collection[str],
        ranges: Sequence[tuple[str, int, int]],
        *,
        backward: bool,
    ) -> DataFrame:
        """Blocks that may hold some positions, each once, with `BLOCK_COLUMNS`.

        Args:
            group: of the spaces.
            nodes: whose blocks lie there.
            ranges: the spaces, with the first and last position in each, less 2**63.
            backward: whether blocks that put them out; else those that read them.
        """
        blocks = self._of(Kind.BLOCK).where(F.col("node").isin(sorted(nodes)))
        if backward:
            sections = self._of(Kind.SECTION).where(_in_group(F.col("space"), group))
            ids = self._within(sections, ("space", "low", "high"), ranges).select(*BLOCK_ID)
            blocks = blocks.join(ids, list(BLOCK_ID), "left_semi")
        else:
            blocks = blocks.where(_in_group(F.col("in_space"), group))
            blocks = self._within(blocks, ("in_space", "in_low", "in_high"), ranges)
        if self._has_copies:
            # Of equal ones the first one written counts.
            firsts = blocks.groupBy(*BLOCK_ID).agg(F.min("number").alias("number"))
            blocks = blocks.join(firsts, [*BLOCK_ID, "number"], "left_semi")
        return blocks.select(*BLOCK_COLUMNS)

    def _within(
        self,
        rows: DataFrame,
        columns: tuple[str, str, str],
        ranges: Sequence[tuple[str, int, int]],
    ) -> DataFrame:
        """Rows whose space and range (the columns) may hold some of others."""
        space, low, high = map(F.col, columns)
        if len(ranges) <= MOST_RANGES:
            # Spark compares these with the statistics of row groups.
            spans = (
                (space == name) & (low <= most) & (high >= least) for name, least, most in ranges
            )
            return rows.where(reduce(or_, spans))
        wanted = F.broadcast(from_arrow(self._spark, _table(ranges)))
        fits = (space == F.col("of_space")) & (low <= F.col("most")) & (high >= F.col("least"))
        return rows.join(wanted, fits, "left_semi")


def _group(space: Column) -> Column:
    return F.regexp_replace(space, "(?<=[#@])[0-9.]+$", "")


def _in_group(space: Column, group: SpaceGroup) -> Column:
    """A range of names, by the statistics of row groups; with spaces of other groups of the node."""
    name = name_of(group)
    kind = group[len(name) :]
    return (space >= f"{name}{kind}") & (space < f"{name}{NEXT[kind]}")


def _table(ranges: Sequence[tuple[str, int, int]]) -> pa.Table:
    columns: list[Any] = list(zip(*ranges, strict=True))
    return pa.table(
        [pa.array(column) for column in columns], schema=pa.schema(list(_RANGES.items()))
    )
