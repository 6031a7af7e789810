"""Traces many items of a captured application by Spark: frames over its rows in a lake, one step for each kind of spaces of a node.

Items go as ranges with the items of the question that they were reached from (:mod:`lineage_core.tracing.tagged`). Each step joins them with
the blocks that hold them, by the parts of spaces, and all steps lead on in the order of the application's nodes; so each block is
read once. What the driver holds are nodes, reasons, and the bounds of spaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_core.tracing.space_parts import ANY
from lineage_core.tracing.tagged_plan import SpaceGroup, TaggedPlan, group_of
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.lakes import exchange
from lineage_dataframes.lakes.exchange import ROWS_DDL, Crossing, Cutting, RowKind
from lineage_dataframes.lakes.frames import LakeFrames
from lineage_dataframes.lakes.processes import not_traced, use_own_python
from lineage_dataframes.lakes.questions import Arrivals, LakeQuestion, LakeTrace, union_of
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, from_arrow, spark_reason
from lineage_dataframes.spark.table_files import PARTITIONS
from lineage_store.errors import StoreError
from lineage_store.lake.application import reasons_of
from lineage_store.lake.arrivals import arrivals_of
from lineage_store.lake.files import Files
from lineage_store.lake.store import LakeStore
from lineage_store.signed import BIAS

REASONS_MAX: Final = 10_000
BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCH_ROWS: Final = 16
"""Rows that Spark hands to Python at once: a block may have several MiB."""
TASK_FLOWS: Final = 1 << 22
"""Flows that one task of Spark crosses, about."""
MOST_PARTITIONS: Final = 4_096
FEWER: Final = (
    "ask for fewer rows, raise --rows, or give --together: each row once, and not of which"
)


def trace_lake(spark: SparkSession, lake: LakeStore, question: LakeQuestion) -> LakeTrace:
    """Trace items of an application.

    Args:
        spark: of `session_for`; settings of it are changed.
        lake: where the application is.
        question: which items, and which way.

    Returns:
        The frames of what was found: they need no file of the lake.

    Raises:
        TraceError: items that Spark does not trace, or the application changed meanwhile.
        StoreError: the lake can't be read.
        FramesError: Spark can't read it.
        BudgetError: the trace takes more than it may.
    """
    spark.conf.set(BATCH, str(BATCH_ROWS))
    spark.conf.set(PARTITIONS, str(spark.sparkContext.defaultParallelism))
    use_own_python(spark)
    revision = lake.revision(question.app)

    def work(files: Files) -> LakeTrace:
        try:
            return _Tracer(spark, lake, files, question).trace()
        except SPARK_ERRORS as error:
            if not lake.table.holds(files):
                # Compacted meanwhile: all begins again with the newest files.
                raise FileNotFoundError(spark_reason(error)) from error
            raise not_traced(question.app, error) from error

    trace = lake.reader.answer(lake.reader.key_of(question.app), work)
    if lake.revision(question.app) != revision:
        raise TraceError(f"{question.app} was written to while it was traced: try again")
    return trace


class _Tracer:
    def __init__(
        self, spark: SparkSession, lake: LakeStore, files: Files, question: LakeQuestion
    ) -> None:
        self._spark = spark
        self._question = question
        self._frames = LakeFrames(spark, lake.table, files)
        self._hidden = arrivals_of(lake.reader, files).hidden
        self._decided = dict(reasons_of(lake.reader, files))
        self._flows = {node.node: node.flows for node in question.graph.nodes()}
        self._arrivals = Arrivals()
        self._trace = LakeTrace()

    def trace(self) -> LakeTrace:
        """Go through all groups of spaces, each after those that lead to it."""
        question = self._question
        plan = self._plan()
        if isinstance(question.start, Arrivals):
            # A copy: what was compacted meanwhile is traced again from the beginning.
            arrivals = question.start
            frames = {group: list(some) for group, some in arrivals.frames.items()}
            self._arrivals = Arrivals(frames, dict(arrivals.bounds))
        else:
            for space, rows in question.start.items():
                self._arrive(exchange.item_rows(space, ANY, rows))
                low, high = int(rows.first.min()) - BIAS, int(rows.last.max()) - BIAS
                self._arrivals.bound(space, low, high)
        waiting = self._arrivals.frames
        for group in plan.order(list(waiting)):
            arrived = waiting.pop(group, [])
            if arrived:
                current_budget().check()
                self._trace.passed.append(group)
                self._step(plan, group, union_of(arrived))
        if waiting:
            # Nothing is left out without a word.
            raise StoreError(
                f"{question.app} is damaged in the lake: blocks put out items of {', '.join(sorted(waiting))}, and its sections do not say so"
            )
        self._trace.reasons = plan.verdict(self._trace.passed)
        self._trace.numbered = plan.reasons
        return self._trace

    def _plan(self) -> TaggedPlan:
        question = self._question
        supersets = self._frames.supersets(REASONS_MAX + 1)
        supersets += [(block.node, reason) for block, reason in self._decided.items() if reason]
        if len(supersets) > REASONS_MAX:
            raise TooMuchError(f"blocks are supersets for more than {REASONS_MAX:,} reasons")
        return TaggedPlan(
            question.graph,
            question.topology,
            self._frames.links(),
            backward=question.backward,
            supersets=set(supersets),
            carried=question.carried,
        )

    def _arrive(self, rows: Iterator[tuple[object, ...]]) -> None:
        batch = exchange.to_batch(rows)
        frame = from_arrow(self._spark, pa.Table.from_batches([batch]))
        self._arrivals.add({str(group) for group in batch.column("grp").to_pylist()}, frame)

    def _step(self, plan: TaggedPlan, group: SpaceGroup, items: DataFrame) -> None:
        """Cross all blocks that hold items of a group's spaces."""
        ranges = [(space, *span) for space, span in sorted(self._bounds_of(group).items())]
        kind = plan.kind(group)
        nodes = plan.nodes_at(group)
        rows = items
        if nodes:
            blocks = self._frames.blocks(group, nodes, ranges, backward=self._question.backward)
            cutting = Cutting(
                self._question.backward,
                frozenset(space for space, _, _ in ranges),
                self._hidden,
                self._decided,
                plan.of_blocks,
            )
            cut = blocks.mapInArrow(partial(exchange.cut_blocks, cutting=cutting), ROWS_DDL)
            rows = rows.unionByName(cut)
        ends = None
        if plan.is_found(group):
            ends = RowKind.FOUND
        elif plan.missing(group):
            ends = RowKind.MISSING
        rows = rows.repartition(self._partitions(nodes), "space", "part")
        rows = rows.sortWithinPartitions("space", "part", "kind")
        cross = partial(exchange.cross_parts, crossing=Crossing(kind, ends))
        reached = rows.mapInArrow(cross, ROWS_DDL).localCheckpoint()
        self._trace.steps += 1
        self._take(plan, group, reached)

    def _partitions(self, nodes: list[str]) -> int:
        """Partitions of a step: as many as cores, or more where there is much to cross."""
        flows = sum(self._flows.get(node, 0) for node in nodes)
        cores = self._spark.sparkContext.defaultParallelism
        return min(max(cores, flows // TASK_FLOWS + 1), MOST_PARTITIONS)

    def _take(self, plan: TaggedPlan, group: SpaceGroup, reached: DataFrame) -> None:
        """Have what a step reached wait for its own, and remember what it says about the answer."""
        counts = reached.groupBy("grp", "space", "kind", "reason").agg(
            F.max("reader"), F.min("low"), F.max("high"), F.sum("ranges"), F.sum("pairs")
        )
        ranges = 0
        groups = set()
        for next_group, space, kind, reason, reader, low, high, held, pairs in counts.collect():
            match RowKind(kind):
                case RowKind.REFUSED:
                    raise TooMuchError(reader)
                case RowKind.MET:
                    plan.meet([reason])
                case RowKind.MISSING:
                    plan.meet_missing(group)
                    self._trace.missing[group] = plan.missing(group)
                case RowKind.FOUND:
                    self._trace.pairs += pairs
                    self._trace.spaces[space] = exchange.ranges_of(low, high)
                case _:
                    ranges += held
                    groups.add(next_group)
                    self._arrivals.bound(space, low, high)
        check_pairs(max(ranges, self._trace.pairs), self._question.most_pairs)
        if self._trace.spaces.keys() & self._bounds_of(group).keys():
            self._trace.found.append(reached.where(F.col("kind") == int(RowKind.FOUND)))
        self._arrivals.add(groups, reached.where(F.col("kind") == int(RowKind.ITEMS)))

    def _bounds_of(self, group: SpaceGroup) -> dict[str, tuple[int, int]]:
        bounds = self._arrivals.bounds
        return {space: span for space, span in bounds.items() if group_of(space) == group}


def check_pairs(count: float, most: int) -> None:
    """Refuse more rows than an answer may have.

    Raises:
        TooMuchError: there are more.
    """
    if count > most:
        raise TooMuchError(f"the answer has more than {most:,} rows", FEWER)
