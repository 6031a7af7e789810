"""Traces many items of a captured application by Spark: frames over its rows in a lake, one step for each kind of spaces of a node.

Items go as ranges with the items of the question that they were reached from (:mod:`lineage_core.tracing.tagged`). Each step joins them with
the blocks that hold them, by the parts of spaces, and all steps lead on in the order of the application's nodes; so each block is
read once. What the driver holds are nodes, reasons, and the bounds of spaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.region import Region
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_core.tracing.space_parts import ANY
from lineage_core.tracing.tagged import TaggedRuns, tagged_runs
from lineage_core.tracing.tagged_plan import SpaceGroup, TaggedPlan, group_of
from lineage_core.tracing.topology import Topology
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.lakes import exchange
from lineage_dataframes.lakes.exchange import ROWS_DDL, Crossing, Cutting, RowKind
from lineage_dataframes.lakes.frames import LakeFrames
from lineage_dataframes.lakes.processes import not_traced, use_own_python
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, from_arrow, spark_reason
from lineage_dataframes.spark.table_files import PARTITIONS
from lineage_store.errors import StoreError
from lineage_store.lake.application import reasons_of
from lineage_store.lake.arrivals import arrivals_of
from lineage_store.lake.columns import application_key
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
MOST_PAIRS: Final = 1_000_000_000
FEWER: Final = (
    "ask for fewer rows, raise --rows, or give --together: each row once, and not of which"
)


@dataclass(frozen=True, slots=True)
class LakeQuestion:
    """What is traced.

    ``start``: tagged positions by space. ``most_pairs``: rows that the answer may have, and ranges that a step may reach.
    """

    app: str
    graph: FlowGraph
    topology: Topology
    start: Mapping[str, TaggedRuns]
    backward: bool
    most_pairs: int = MOST_PAIRS


@dataclass(slots=True)
class LakeTrace:
    """What a trace found.

    ``found``: rows between processes, of kind `FOUND`. ``spaces``: those of what was found, with the first and last position. ``pairs``: how
    many rows of a table they are at most. ``passed``: groups with items on the way. ``missing``: groups with items past which nothing is known, and why. ``reasons``: why the answer is not exact;
    ``numbered``: all reasons, by the numbers that ranges have. ``steps``: joins.
    """

    found: list[DataFrame] = field(default_factory=list)
    spaces: dict[str, tuple[int, int]] = field(default_factory=dict)
    passed: list[SpaceGroup] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    numbered: tuple[str, ...] = ()
    pairs: float = 0.0
    steps: int = 0


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

    trace = lake.reader.answer(application_key(question.app), work)
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
        self._waiting: dict[SpaceGroup, list[DataFrame]] = {}
        self._bounds: dict[str, tuple[int, int]] = {}
        self._trace = LakeTrace()

    def trace(self) -> LakeTrace:
        """Go through all groups of spaces, each after those that lead to it."""
        question = self._question
        plan = self._plan()
        for space, rows in question.start.items():
            self._arrive(exchange.item_rows(space, ANY, rows))
            self._bound(space, int(rows.first.min()) - BIAS, int(rows.last.max()) - BIAS)
        for group in plan.order(list(self._waiting)):
            arrived = self._waiting.pop(group, [])
            if arrived:
                current_budget().check()
                self._trace.passed.append(group)
                self._step(plan, group, _union(arrived))
        if self._waiting:
            # Nothing is left out without a word.
            raise StoreError(
                f"{question.app} is damaged in the lake: blocks put out items of {', '.join(sorted(self._waiting))}, and its sections do not say so"
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
        )

    def _arrive(self, rows: Iterator[tuple[object, ...]]) -> None:
        batch = exchange.to_batch(rows)
        frame = from_arrow(self._spark, pa.Table.from_batches([batch]))
        for group in sorted({str(group) for group in batch.column("grp").to_pylist()}):
            self._waiting.setdefault(group, []).append(frame.where(F.col("grp") == group))

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
                    self._bound(space, low, high)
        if max(ranges, self._trace.pairs) > self._question.most_pairs:
            raise TooMuchError(
                f"the answer has more than {self._question.most_pairs:,} rows", FEWER
            )
        if self._trace.spaces.keys() & self._bounds_of(group).keys():
            self._trace.found.append(reached.where(F.col("kind") == int(RowKind.FOUND)))
        for next_group in sorted(groups):
            is_next = (F.col("grp") == next_group) & (F.col("kind") == int(RowKind.ITEMS))
            self._waiting.setdefault(next_group, []).append(reached.where(is_next))

    def _bound(self, space: str, low: int, high: int) -> None:
        """Some positions of a space, less 2**63, are on the way."""
        least, most = self._bounds.get(space, (low, high))
        self._bounds[space] = min(least, low), max(most, high)

    def _bounds_of(self, group: SpaceGroup) -> dict[str, tuple[int, int]]:
        return {space: span for space, span in self._bounds.items() if group_of(space) == group}


def _union(frames: list[DataFrame]) -> DataFrame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def tagged_regions(
    regions: Mapping[str, Region], *, together: bool
) -> tuple[dict[str, TaggedRuns], dict[str, int]]:
    """Items of a question with their tags: numbered in the order of spaces and positions, or (together) all with one.

    Returns:
        By space the tagged positions, and the first tag.
    """
    start: dict[str, TaggedRuns] = {}
    firsts: dict[str, int] = {}
    number = 0
    for space in sorted(regions):
        region = regions[space]
        if not region:
            continue
        firsts[space] = number
        runs = (region.first, region.last)
        start[space] = tagged_runs(runs, None if together else number)
        number += 0 if together else region.count
    return start, firsts
