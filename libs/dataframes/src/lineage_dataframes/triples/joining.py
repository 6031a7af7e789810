"""Follows triples by Spark: what was reached last goes into the next join, until nothing is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.tracing.budget import current_budget
from lineage_dataframes.spark.pyspark_parts import from_arrow, to_arrow
from lineage_dataframes.triples.tables import union_of
from lineage_store.lake.arrow import array_of, int64_of
from lineage_store.triples.files import Numbers
from lineage_store.triples.numbering import with_new

BROADCAST_ROWS: Final = 1_000_000
"""Numbers that each process holds in memory for a join, instead of sending both sides by their hash."""
MOST_PIECES: Final = 8
"""Frames of reached items that are joined with as they are: a plan with one for each step would grow without end."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Triples of an answer, by numbers, and the numbers of all items in it."""

    triples: DataFrame
    numbers: DataFrame
    count: int
    steps: int


@dataclass(frozen=True, slots=True)
class _Frontier:
    """Numbers that were reached: ``total`` in all, and ``count`` by the last of so many steps."""

    seen: DataFrame
    total: int
    new: DataFrame
    count: int
    steps: int


def numbers_frame(spark: SparkSession, numbers: Numbers) -> DataFrame:
    """A frame of numbers, as its column `number`."""
    return from_arrow(spark, pa.table({"number": array_of(numbers)}))


def small(frame: DataFrame, count: int) -> DataFrame:
    """A side of a join that is sent to each process where it is small: of frames that were cut off Spark knows no size."""
    return F.broadcast(frame) if count <= BROADCAST_ROWS else frame


def reached_by_joins(
    spark: SparkSession, edges: DataFrame, start: Numbers, near: str, far: str
) -> Reached:
    """Triples on the way from some items, by a join for each step: two jobs, for as long as the driver holds what was reached.

    Args:
        spark: of `session_for`.
        edges: triples by number, partitioned by their near end.
        start: the numbers of the items, in order, each once.
        near: the end that is known.
        far: the end that is looked for.

    Raises:
        BudgetError: the query has no time left.
    """
    seen, frontier, steps = start, start, 0
    while len(frontier) and len(seen) <= BROADCAST_ROWS:
        current_budget().check()
        reached = _step(edges, F.broadcast(numbers_frame(spark, frontier)), near, far)
        some = to_arrow(reached.limit(BROADCAST_ROWS + 1))
        if some.num_rows > BROADCAST_ROWS:
            # The step is made again, by frames.
            break
        seen, frontier = with_new(seen, int64_of(some.column("number")))
        steps += 1
    numbers, total = numbers_frame(spark, seen), len(seen)
    if len(frontier):
        new = numbers_frame(spark, frontier).localCheckpoint()
        held = _Frontier(numbers.localCheckpoint(), total, new, len(frontier), steps)
        numbers, total, steps = _joined_in_frames(edges, held, near, far)
    on_way = edges.join(small(numbers, total), F.col(near) == F.col("number"), "left_semi").select(
        "src", "dst", "op"
    )
    return Reached(on_way, numbers, total, steps)


def _joined_in_frames(
    edges: DataFrame, held: _Frontier, near: str, far: str
) -> tuple[DataFrame, int, int]:
    """All numbers that are reached from a frontier on, how many they are, and the steps."""
    pieces, total, new, count, steps = [held.seen], held.total, held.new, held.count, held.steps
    while count:
        current_budget().check()
        reached = _step(edges, small(new, count), near, far)
        seen = small(union_of(pieces), total)
        # Eager, and cut off from the frames before it: each step plans, and computes, itself alone.
        new = reached.join(seen, "number", "left_anti").localCheckpoint()
        count = new.count()
        total += count
        steps += 1
        pieces.append(new)
        if len(pieces) > MOST_PIECES:
            pieces = [_merged(pieces)]
    return _merged(pieces), total, steps


def _merged(pieces: Sequence[DataFrame]) -> DataFrame:
    # As many partitions as those of a shuffle are.
    return union_of(pieces).repartition("number").localCheckpoint()


def _step(edges: DataFrame, frontier: DataFrame, near: str, far: str) -> DataFrame:
    """The distinct numbers that triples lead to from some others."""
    reached = edges.join(frontier, F.col(near) == F.col("number"), "left_semi")
    return reached.select(F.col(far).alias("number")).distinct()
