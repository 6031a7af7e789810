"""The files of an index of triples as frames, and tables that are written of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Final

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_dataframes.spark.table_files import PARTITIONS, read_files, spark_address
from lineage_store.triples.columns import COLUMNS, TEXT, Part
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.files import Numbers, PartFile

PARTITION_TRIPLES: Final = 1 << 20
MOST_PARTITIONS: Final = 4_096


class IndexFrames:
    """Frames of files of a table of triples. ``partitions``: of a shuffle.

    Args:
        spark: of `session_for`.
        store: whose files they are.
    """

    def __init__(self, spark: SparkSession, store: TripleStore) -> None:
        self._spark = spark
        self._place = spark_address(store.table.address.location)
        self.partitions = 1

    def size_for(self, triples: int) -> None:
        """Have so many partitions that a task takes some million triples."""
        least = max(self._spark.sparkContext.defaultParallelism, -(-triples // PARTITION_TRIPLES))
        self.partitions = min(least, MOST_PARTITIONS)
        self._spark.conf.set(PARTITIONS, str(self.partitions))

    def frame(
        self,
        part: Part,
        files: Sequence[PartFile],
        firsts: Numbers | None = None,
        lasts: Numbers | None = None,
    ) -> DataFrame:
        """The rows of some files of one part, with all of its columns; null are those that files leave out.

        Args:
            part: which.
            files: of this part; these alone are read.
            firsts: where ranges of the first column begin; None: all rows.
            lasts: where they end.
        """
        columns = COLUMNS[part]
        types = {name: "STRING" if kind == TEXT else "BIGINT" for name, kind in columns.items()}
        schema = ", ".join(f"{name} {kind}" for name, kind in types.items())
        place = f"{self._place}/"
        rows = read_files(self._spark, schema, [f"{place}{file.file.path}" for file in files])
        if firsts is not None and lasts is not None:
            rows = rows.where(_within(F.col(next(iter(columns))), firsts, lasts))
        return rows


def _within(number: Column, firsts: Numbers, lasts: Numbers) -> Column:
    ranges = zip(firsts.tolist(), lasts.tolist(), strict=True)
    return reduce(or_, (number.between(first, last) for first, last in ranges))


def coarse(firsts: Numbers, lasts: Numbers, most: int) -> tuple[Numbers, Numbers]:
    """At most so many ranges that hold all of some.

    Args:
        firsts: where the ranges begin; they are in order and apart.
        lasts: where they end; both ends belong to them.
        most: ranges; at least one.
    """
    gaps = firsts[1:] - lasts[:-1]
    cuts = np.sort(np.argsort(gaps, kind="stable")[max(len(gaps) - most + 1, 0) :])
    return firsts[np.r_[0, cuts + 1]], lasts[np.r_[cuts, len(lasts) - 1]]


def union_of(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of some frames."""
    return reduce(DataFrame.union, frames)
