"""Traces many items through triples by Spark: frames over the files of an index, and the answer as a table of Parquet.

The ranges of components or sets choose files and row groups (CCProv, CSProv). What they leave is searched on the driver where it is
little, else step by step by joins: items that were reached go into the next join until there are no new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_dataframes.errors import FramesError
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, from_arrow, spark_reason
from lineage_dataframes.spark.table_files import (
    check_free,
    check_written,
    session_for,
    write_table,
)
from lineage_dataframes.triples.tables import IndexFrames, coarse, union_of
from lineage_store.errors import StoreError
from lineage_store.lake.arrow import array_of
from lineage_store.triples.columns import Part
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.files import Columns, Numbers
from lineage_store.triples.finding import has_texts
from lineage_store.triples.following import reachable, recursion
from lineage_store.triples.numbering import sorted_distinct
from lineage_store.triples.reading import SortedPart, check_room
from lineage_store.triples.tracing import (
    MOST_ASKED,
    Method,
    Reading,
    ends,
    with_reading,
)

DRIVER_TRIPLES: Final = 2_000_000
"""Triples that the driver searches by itself: some 100 MB of memory."""
LOOKED_UP: Final = 50_000
"""Triples that `Method.AUTO` finds by look-ups on the driver: each may read a row group, and an answer of many steps takes no joins. The
driver also finds the names of so many: jobs of Spark take longer."""
BROADCAST_ROWS: Final = 1_000_000
"""Numbers that each process holds in memory for a join, instead of sending both sides by their hash."""
MOST_PIECES: Final = 8
"""Frames of reached items that are joined with as they are: a plan with one for each step would grow without end."""
MOST_RANGES: Final = 32
"""Ranges of a filter: Spark compares the statistics of each row group with all of them."""
ALL: Final = (np.array([0], np.int64), np.array([np.iinfo(np.int64).max], np.int64))


@dataclass(frozen=True, slots=True)
class SparkTrace:
    """What a trace by Spark wrote.

    ``asked``: items of the question. ``items``: others that were reached. ``triples``: rows of the table. ``method``: the one that
    was used, and ``reason`` why it was chosen; empty: it was named. ``read``: triples in the row groups that were chosen.
    ``steps``: joins; 0 where the driver searched.
    """

    asked: int
    items: int
    triples: int
    method: Method
    read: int
    steps: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Reached:
    """Triples of an answer, by numbers, and the numbers of all items in it."""

    triples: DataFrame
    numbers: DataFrame
    count: int
    steps: int


def trace_to_table(
    spark: SparkSession,
    store: TripleStore,
    name: str,
    asked: pa.Array[Any],
    folder: str,
    *,
    is_back: bool,
    method: Method = Method.AUTO,
    driver_triples: int = DRIVER_TRIPLES,
) -> SparkTrace:
    """Trace items of a data set, and write the triples on the way as a table of src, dst and op.

    Args:
        spark: a session of this process; others of its settings are used than its own.
        store: where the data set is; Spark reads its files from there.
        name: of the data set.
        asked: the items: integers, or texts, which stand for integers in a data set of these.
        folder: an absolute path, or a URL that Spark knows; it is not there yet.
        is_back: whether to what they were derived from, and not to what was derived from them.
        method: all give the same answer; ``AUTO`` is look-ups on the driver where the answer is small, else CSProv.
        driver_triples: what row groups of at most so many triples have is searched on the driver.

    Raises:
        StoreError: there is no such data set or item, something waits to be indexed, or the index is damaged.
        FramesError: Spark can't read or write the files, or the folder is there.
        BudgetError: the trace takes more than it may.
    """
    check_room(len(asked), MOST_ASKED)
    own = session_for(spark)
    tables = IndexFrames(own, store)
    check_free(own, folder)

    def traced(reading: Reading) -> tuple[DataFrame, SparkTrace]:
        try:
            return _Tracer(own, tables, reading, driver_triples).trace(asked, is_back, method)
        except SPARK_ERRORS as error:
            if not store.table.holds(file.file for file in reading.files):
                raise FileNotFoundError(spark_reason(error)) from error
            raise FramesError(f"Spark can't trace {name}: {spark_reason(error)}") from error

    # From here on nothing is read of the lake.
    rows, counts = with_reading(store, name, traced)
    write_table(rows, folder)
    check_written(rows, folder, counts.triples)
    return counts


class _Tracer:
    def __init__(
        self, spark: SparkSession, tables: IndexFrames, reading: Reading, driver_triples: int
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._reading = reading
        self._driver_triples = driver_triples
        self._reason = ""

    def trace(
        self, asked: pa.Array[Any], is_back: bool, method: Method
    ) -> tuple[DataFrame, SparkTrace]:
        """The rows of the answer, which need no file of the lake, and their counts."""
        start = self._reading.numbers_of(asked)
        part, near, far = ends(is_back)
        triples = self._reading.part(part)
        if method is Method.AUTO:
            rows = self._looked_up(triples, start, near, far)
            most = f"at most {self._looked_up_most:,} triples"
            if rows is not None:
                self._reason = f"as the answer has {most}"
                read = self._reading.reader.counts.triples
                return self._named_here(rows, start, Method.RQ, read)
            self._reason = f"as the question or its answer has not {most}"
            method = Method.CSPROV
        ranges = self._ranges(start, is_back, method)
        files, read = triples.overlapping(*ranges)
        self._tables.size_for(read)
        if read <= self._driver_triples:
            rows = reachable(triples.between(*ranges), start, near, far)
            if max(len(rows["op"]), len(start)) <= LOOKED_UP:
                return self._named_here(rows, start, method, read)
            return self._table(self._searched(start, rows), ranges, start, method, read)
        edges = self._tables.frame(part, files, *coarse(*ranges, MOST_RANGES))
        edges = edges.repartition(self._tables.partitions, near)
        edges.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            reached = self._joined(edges, start, near, far)
            return self._table(reached, ranges, start, method, read)
        finally:
            edges.unpersist()

    @property
    def _looked_up_most(self) -> int:
        return min(self._driver_triples, LOOKED_UP)

    def _looked_up(
        self, triples: SortedPart, start: Numbers, near: str, far: str
    ) -> Columns | None:
        """The triples on the way from some items, where they are few; None: they are more."""
        most = self._looked_up_most
        if len(start) > most:
            return None
        try:
            return recursion(triples, start, near, far, most)
        except TooMuchError:
            return None

    def _table(
        self,
        reached: _Reached,
        ranges: tuple[Numbers, Numbers],
        start: Numbers,
        method: Method,
        read: int,
    ) -> tuple[DataFrame, SparkTrace]:
        named, count = self._named(reached, ranges)
        others = reached.count - len(start)
        trace = SparkTrace(len(start), others, count, method, read, reached.steps, self._reason)
        return named, trace

    def _named_here(
        self, rows: Columns, start: Numbers, method: Method, read: int
    ) -> tuple[DataFrame, SparkTrace]:
        """As :meth:`_table`, of few triples, whose names the driver finds by itself."""
        self._tables.size_for(len(rows["op"]))
        named = self._reading.named(rows, start)
        item = pa.string() if has_texts(self._reading.part(Part.ITEMS)) else pa.int64()
        columns = zip(*named.triples, strict=True) if named.triples else ((), (), ())
        table = pa.table(
            [
                pa.array(column, kind)
                for column, kind in zip(columns, (item, item, pa.string()), strict=True)
            ],
            names=["src", "dst", "op"],
        )
        others = len(named.items) - len(start)
        count = len(named.triples)
        trace = SparkTrace(len(start), others, count, method, read, 0, self._reason)
        return from_arrow(self._spark, table), trace

    def _ranges(self, start: Numbers, is_back: bool, method: Method) -> tuple[Numbers, Numbers]:
        """The ranges of numbers that hold all that can be reached."""
        if method is Method.RQ:
            return ALL
        if method is Method.CSPROV:
            return self._reading.closure(start, is_back)
        components = self._reading.components(start)
        return components["component"], components["last"]

    def _numbers_frame(self, numbers: Numbers) -> DataFrame:
        return from_arrow(self._spark, pa.table({"number": array_of(numbers)}))

    def _searched(self, start: Numbers, rows: Columns) -> _Reached:
        numbers = _ends_of(rows, start)
        columns = {name: array_of(rows[name]) for name in ("src", "dst", "op")}
        frame = from_arrow(self._spark, pa.table(columns))
        return _Reached(frame, self._numbers_frame(numbers), len(numbers), 0)

    def _joined(self, edges: DataFrame, start: Numbers, near: str, far: str) -> _Reached:
        """Triples on the way from some items, by a join for each step."""
        new, count = self._numbers_frame(start).localCheckpoint(), len(start)
        pieces, total, steps = [new], count, 0
        while count:
            current_budget().check()
            frontier = _small(new, count)
            reached = edges.join(frontier, F.col(near) == F.col("number"), "left_semi")
            reached = reached.select(F.col(far).alias("number")).distinct()
            seen = _small(union_of(pieces), total)
            # Eager, and cut off from the frames before it: each step plans, and computes, itself alone.
            new = reached.join(seen, "number", "left_anti").localCheckpoint()
            count = new.count()
            total += count
            steps += 1
            pieces.append(new)
            if len(pieces) > MOST_PIECES:
                pieces = [self._merged(pieces)]
        numbers = self._merged(pieces)
        on_way = edges.join(
            _small(numbers, total), F.col(near) == F.col("number"), "left_semi"
        ).select("src", "dst", "op")
        return _Reached(on_way, numbers, total, steps)

    def _merged(self, pieces: Sequence[DataFrame]) -> DataFrame:
        both = union_of(pieces).repartition(self._tables.partitions, "number")
        return both.localCheckpoint()

    def _named(self, reached: _Reached, ranges: tuple[Numbers, Numbers]) -> tuple[DataFrame, int]:
        """The triples of an answer with the names of their items and operations, and how many they are."""
        files, _ = self._reading.part(Part.ITEMS).overlapping(*ranges)
        items = self._tables.frame(Part.ITEMS, files, *coarse(*ranges, MOST_RANGES))
        numbers = _small(reached.numbers, reached.count)
        name = "item_text" if has_texts(self._reading.part(Part.ITEMS)) else "item"
        items = items.select("number", F.col(name).alias("item"))
        items = items.join(numbers, "number", "left_semi").persist(StorageLevel.MEMORY_AND_DISK)
        ops = self._tables.frame(Part.OPS, [f for f in self._reading.files if f.part is Part.OPS])
        try:
            if items.count() != reached.count:
                raise StoreError(f"the index of {self._reading.name} is damaged: items are missing")
            rows = reached.triples
            for end in ("src", "dst"):
                names = items.select(F.col("number").alias(end), F.col("item").alias(f"{end}_item"))
                rows = rows.join(_small(names, reached.count), end, "left")
            rows = rows.join(ops, "op", "left").select(
                F.col("src_item").alias("src"),
                F.col("dst_item").alias("dst"),
                F.col("op_text").alias("op"),
            )
            rows = rows.localCheckpoint()
        finally:
            items.unpersist()
        counts = rows.agg(F.count("*"), *(F.count(name) for name in rows.columns)).collect()[0]
        if len(set(counts)) > 1:
            raise StoreError(f"the index of {self._reading.name} is damaged: names are missing")
        return rows, int(counts[0])


def _ends_of(rows: Columns, start: Numbers) -> Numbers:
    """The numbers of all items of triples and of some others, in order."""
    return sorted_distinct(rows["src"], rows["dst"], start)


def _small(frame: DataFrame, count: int) -> DataFrame:
    """A side of a join that is sent to each process where it is small: of frames that were cut off Spark knows no size."""
    return F.broadcast(frame) if count <= BROADCAST_ROWS else frame
