"""Traces many items through triples by Spark: frames over the files of an index, and the answer as a table of Parquet.

The ranges of components or sets choose files and row groups (CCProv, CSProv). What they leave is searched on the driver where it is
little, else step by step by joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.tracing.budget import TooMuchError
from lineage_dataframes.errors import FramesError
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, from_arrow, spark_reason, to_arrow
from lineage_dataframes.spark.table_files import (
    check_free,
    check_written,
    session_for,
    write_small_table,
    write_table,
)
from lineage_dataframes.triples.joining import Reached, numbers_frame, reached_by_joins, small
from lineage_dataframes.triples.tables import IndexFrames, coarse
from lineage_store.errors import StoreError
from lineage_store.lake.arrow import array_of, array_of_texts, int64_of
from lineage_store.triples.columns import Part
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.files import Columns, Numbers
from lineage_store.triples.finding import has_texts
from lineage_store.triples.following import reachable, recursion
from lineage_store.triples.numbering import sorted_distinct
from lineage_store.triples.reading import SortedPart
from lineage_store.triples.tracing import (
    MOST_ASKED,
    MOST_TRIPLES,
    Method,
    Ranges,
    Reading,
    check_asked,
    ends,
    sets_given_up,
    with_reading,
)

DRIVER_TRIPLES: Final = MOST_TRIPLES
"""Triples that the driver searches by itself, as many as a trace without Spark has in memory: some 500 MB."""
LOOKED_UP: Final = 50_000
"""Triples that `Method.AUTO` finds by look-ups on the driver: each may read a row group, and an answer of many steps takes no joins."""
NAMED_HERE: Final = 500_000
"""Triples whose names the driver finds: jobs of Spark take longer."""
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
class _Question:
    """``start``: the numbers of its items, in order. ``part``: the triples by ``near``, their end that is known; ``far``: the other one."""

    start: Numbers
    is_back: bool
    part: Part
    near: str
    far: str


_Answer: TypeAlias = "tuple[DataFrame | pa.Table, SparkTrace]"
"""The rows, as a table where they are few; and their counts."""


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
        method: all give the same answer; ``AUTO`` is look-ups on the driver where the answer is small, else CSProv. Where connected sets depend
            on more others than may be followed, ``CSPROV`` and ``AUTO`` go on by look-ups, or by component.
        driver_triples: what row groups of at most so many triples have is searched on the driver.

    Raises:
        StoreError: there is no such data set or item, something waits to be indexed, or the index is damaged.
        FramesError: Spark can't read or write the files, or the folder is there.
        BudgetError: the trace takes more than it may.
    """
    check_asked(len(asked), MOST_ASKED, "trace some of them at a time")
    own = session_for(spark)
    tables = IndexFrames(own, store)
    check_free(own, folder)

    def traced(reading: Reading) -> _Answer:
        try:
            return _Tracer(own, tables, reading, driver_triples).trace(asked, is_back, method)
        except SPARK_ERRORS as error:
            if not store.table.holds(file.file for file in reading.files):
                raise FileNotFoundError(spark_reason(error)) from error
            raise FramesError(f"Spark can't trace {name}: {spark_reason(error)}") from error

    # From here on nothing is read of the lake.
    rows, counts = with_reading(store, name, traced)
    if isinstance(rows, pa.Table):
        write_small_table(own, rows, folder)
    else:
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
        self._reasons: list[str] = []

    def trace(self, asked: pa.Array[Any], is_back: bool, method: Method) -> _Answer:
        """The rows of the answer, which need no file of the lake, and their counts."""
        question = _Question(self._reading.numbers_of(asked), is_back, *ends(is_back))
        if method is Method.RQ:
            return self._by_ranges(question, method, ALL)
        if method is Method.CCPROV:
            return self._by_components(question)
        ways = [self._by_look_ups, self._by_sets]
        for way in ways if method is Method.AUTO else ways[::-1]:
            answer = way(question)
            if answer is not None:
                return answer
        # Ranges of components are as few as items of the question, but for those that grew, and what lies in them has no bound here.
        return self._by_components(question)

    def _by_look_ups(self, question: _Question) -> _Answer | None:
        """The answer where it has few triples, each found by a look-up; None: it has more."""
        most = min(self._driver_triples, LOOKED_UP)
        start = question.start
        if len(start) <= most:
            try:
                rows = recursion(self._triples(question), start, question.near, question.far, most)
            except TooMuchError:
                pass
            else:
                self._reasons.append(f"the answer has at most {most:,} triples")
                read = self._reading.reader.counts.triples
                return self._named_here(rows, question, Method.RQ, read)
        self._reasons.append(f"the question or its answer has not at most {most:,} triples")
        return None

    def _by_sets(self, question: _Question) -> _Answer | None:
        """The answer of the connected sets that matter; None: it takes too much to find these."""
        ranges = self._reading.closure(question.start, question.is_back)
        if ranges is None:
            self._reasons.append(sets_given_up())
            return None
        return self._by_ranges(question, Method.CSPROV, ranges)

    def _by_components(self, question: _Question) -> _Answer:
        components = self._reading.components(question.start)
        ranges = components["component"], components["last"]
        return self._by_ranges(question, Method.CCPROV, ranges)

    def _by_ranges(self, question: _Question, method: Method, ranges: Ranges) -> _Answer:
        """The answer of ranges of numbers that hold all that can be reached."""
        start, near, far = question.start, question.near, question.far
        triples = self._triples(question)
        files, read = triples.overlapping(*ranges)
        self._tables.size_for(read)
        if read <= self._driver_triples:
            rows = reachable(triples.between(*ranges), start, near, far)
            if max(len(rows["op"]), len(start)) <= NAMED_HERE:
                return self._named_here(rows, question, method, read)
            return self._table(self._searched(start, rows), ranges, question, method, read)
        edges = self._tables.frame(question.part, files, *coarse(*ranges, MOST_RANGES))
        edges = edges.repartition(self._tables.partitions, near)
        edges.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            reached = reached_by_joins(self._spark, edges, start, near, far)
            few = self._few(reached)
            if few is not None:
                return self._named_here(few, question, method, read, reached.steps)
            return self._table(reached, ranges, question, method, read)
        finally:
            edges.unpersist()

    def _triples(self, question: _Question) -> SortedPart:
        return self._reading.part(question.part)

    def _table(
        self, reached: Reached, ranges: Ranges, question: _Question, method: Method, read: int
    ) -> _Answer:
        named, count = self._named(reached, ranges)
        return named, self._counts(question, reached.count, count, method, read, reached.steps)

    def _counts(
        self,
        question: _Question,
        items: int,
        triples: int,
        method: Method,
        read: int,
        steps: int,
    ) -> SparkTrace:
        """``items``: of the answer, with those of the question."""
        asked = len(question.start)
        reason = f"as {', and '.join(self._reasons)}" if self._reasons else ""
        return SparkTrace(asked, items - asked, triples, method, read, steps, reason)

    def _named_here(
        self, rows: Columns, question: _Question, method: Method, read: int, steps: int = 0
    ) -> _Answer:
        """As :meth:`_table`, of few triples, whose names the driver finds by itself: nothing of it is a job of Spark."""
        named = self._reading.named(rows, question.start)
        item = array_of_texts if has_texts(self._reading.part(Part.ITEMS)) else _integers
        src, dst, op = zip(*named.triples, strict=True) if named.triples else ((), (), ())
        table = pa.table({"src": item(src), "dst": item(dst), "op": array_of_texts(op)})
        count = len(named.triples)
        return table, self._counts(question, len(named.items), count, method, read, steps)

    def _few(self, reached: Reached) -> Columns | None:
        """The triples of an answer by joins where they are few; None: they are more."""
        most = min(self._driver_triples, NAMED_HERE)
        if reached.count > most:
            return None
        rows = to_arrow(reached.triples.limit(most + 1))
        if rows.num_rows > most:
            return None
        return {name: int64_of(rows.column(name)) for name in rows.schema.names}

    def _searched(self, start: Numbers, rows: Columns) -> Reached:
        numbers = _ends_of(rows, start)
        columns = {name: array_of(rows[name]) for name in ("src", "dst", "op")}
        frame = from_arrow(self._spark, pa.table(columns))
        return Reached(frame, numbers_frame(self._spark, numbers), len(numbers), 0)

    def _named(self, reached: Reached, ranges: Ranges) -> tuple[DataFrame, int]:
        """The triples of an answer with the names of their items and operations, and how many they are."""
        files, _ = self._reading.part(Part.ITEMS).overlapping(*ranges)
        items = self._tables.frame(Part.ITEMS, files, *coarse(*ranges, MOST_RANGES))
        numbers = small(reached.numbers, reached.count)
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
                rows = rows.join(small(names, reached.count), end, "left")
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


def _integers(items: Sequence[int]) -> Any:
    return array_of(np.array(items, np.int64))


def _ends_of(rows: Columns, start: Numbers) -> Numbers:
    """The numbers of all items of triples and of some others, in order."""
    return sorted_distinct(rows["src"], rows["dst"], start)
