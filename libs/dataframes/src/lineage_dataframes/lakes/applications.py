"""A trace by Spark through one application, or on through all that wrote what it read, or read what it wrote.

Applications are taken one after the other, backward the one that began last first, so that what several others lead to is
traced once, if nothing ran beside its readers; where it is traced again, items found twice count once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.contract.address import parse_space
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_core.tracing.tagged import TaggedRuns
from lineage_core.tracing.tagged_plan import WITHOUT_SPARK, group_of
from lineage_core.tracing.topology import Topology
from lineage_dataframes.lakes.exchange import ROWS_DDL, RowKind, ranges_of
from lineage_dataframes.lakes.onward import Onward, SpaceOnward, merged_ends, onward_rows
from lineage_dataframes.lakes.questions import Arrivals, LakeQuestion, LakeTrace, union_of
from lineage_dataframes.lakes.tracing import check_pairs, trace_lake
from lineage_query.all_jobs import QUERIES_MAX
from lineage_query.range_links import RangeFollower
from lineage_query.record_tracing import incomplete_warning
from lineage_query.snapshot import ApplicationSnapshot
from lineage_store.lake.store import LakeStore

Span = tuple[int, int]


@dataclass(slots=True, eq=False)
class Ends:
    """Items of one application at which the trace ends: rows between processes, of kind `FOUND`, and the first and last of each space."""

    opened: ApplicationSnapshot
    frames: list[DataFrame] = field(default_factory=list)
    spaces: dict[str, Span] = field(default_factory=dict)

    def add(self, rows: DataFrame, spaces: Mapping[str, Span]) -> None:
        """What another trace of the application found."""
        self.frames.append(rows)
        for space, (first, last) in spaces.items():
            low, high = self.spaces.get(space, (first, last))
            self.spaces[space] = min(low, first), max(high, last)

    def rows(self) -> DataFrame | None:
        """All of them, each once; None: there are none."""
        if len(self.frames) < 2:
            return self.frames[0] if self.frames else None
        rows = union_of(self.frames).repartition("space", "part")
        return rows.sortWithinPartitions("space", "part").mapInArrow(merged_ends, ROWS_DDL)


@dataclass(slots=True)
class ApplicationsTrace:
    """What a trace found.

    ``ends``: by application. ``numbered``: the application and text of each reason, by the numbers that ranges have, from 1 on. ``reasons``: why the answer is not exact. ``missing``: of the first application,
    groups with items past which nothing is known. ``complete``: whether nothing of the applications is missing, as far as is known. ``refused``: what is not queried. ``steps``: joins.
    """

    ends: dict[str, Ends] = field(default_factory=dict)
    numbered: list[tuple[str, str]] = field(default_factory=list)
    reasons: dict[tuple[str, str], None] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True
    refused: list[str] = field(default_factory=list)
    steps: int = 0

    @property
    def texts(self) -> tuple[str, ...]:
        """Why the answer is not exact, for people."""
        return tuple(map(self.text, self.reasons))

    def text(self, reason: tuple[str, str]) -> str:
        """A reason, with its application where there are several."""
        app, text = reason
        return f"{app}: {text}" if app and len(self.ends) > 1 else text


@dataclass(frozen=True, slots=True)
class ApplicationsQuestion:
    """What is traced; as `LakeQuestion`. ``lake_of``: where an application is. ``follower``: None where other applications are left out."""

    opened: ApplicationSnapshot
    start: Mapping[str, TaggedRuns]
    backward: bool
    most_pairs: int
    lake_of: Callable[[str], LakeStore]
    follower: RangeFollower | None


def trace_applications(spark: SparkSession, question: ApplicationsQuestion) -> ApplicationsTrace:
    """Trace items of an application, and on through others.

    Args:
        spark: of `session_for`; settings of it are changed.
        question: which items, and which way.

    Raises:
        LineageError: as `trace_lake`.
        TooMuchError: more applications lie on the way than one trace takes, or more rows.
    """
    return _Applications(spark, question).trace()


class _Applications:
    def __init__(self, spark: SparkSession, question: ApplicationsQuestion) -> None:
        self._spark = spark
        self._question = question
        self._pending: dict[str, Arrivals] = {}
        self._started: dict[str, float] = {}
        self._pairs = 0.0
        self._trace = ApplicationsTrace()

    def trace(self) -> ApplicationsTrace:
        """Trace all applications on the way."""
        question, answer = self._question, self._trace
        first = self._traced(question.opened, question.start)
        answer.missing = first.missing
        traced = 1
        while self._pending and question.follower is not None:
            current_budget().check()
            traced += 1
            if traced > QUERIES_MAX:
                raise TooMuchError(
                    f"more than {QUERIES_MAX} traces of single applications lie on the way"
                )
            app = self._next()
            opened = question.follower.opened(app)
            if not opened.verdict.complete:
                answer.complete = False
                answer.warnings[incomplete_warning(app, opened.verdict)] = None
            self._traced(opened, self._pending.pop(app))
        if question.follower is not None:
            follower = question.follower
            answer.reasons |= {("", text): None for text in follower.copies(exact=False)}
            answer.warnings |= dict.fromkeys(follower.copies(exact=True))
            answer.refused = [gap.warning() for gap in follower.refused]
        return answer

    def _next(self) -> str:
        """The application to be traced now: of those that items wait for backward the latest, forward the earliest."""
        choose = max if self._question.backward else min
        return choose(self._pending, key=lambda app: (self._started[app], app))

    def _traced(
        self, opened: ApplicationSnapshot, start: Mapping[str, TaggedRuns] | Arrivals
    ) -> LakeTrace:
        question, answer = self._question, self._trace
        app, backward = opened.app, question.backward
        topology = Topology(opened.graph.nodes(), opened.graph.links())
        carried = tuple(text for _, text in answer.numbered)
        trace = trace_lake(
            self._spark,
            question.lake_of(app),
            LakeQuestion(
                app, opened.graph, topology, start, backward, question.most_pairs, carried
            ),
        )
        answer.steps += trace.steps
        answer.numbered += [(app, text) for text in trace.numbered[1 + len(carried) :]]
        answer.reasons |= {(app, text): None for text in trace.reasons}
        beyond = dict.fromkeys(_frames_beyond(opened, topology, trace, backward=backward))
        answer.warnings |= beyond
        answer.complete = answer.complete and not beyond and not trace.missing
        ends = answer.ends.setdefault(app, Ends(opened))
        if trace.found:
            found = union_of(trace.found)
            if question.follower is None:
                ends.add(found, trace.spaces)
            else:
                self._go_on(question.follower, ends, found, trace.spaces)
        return trace

    def _go_on(
        self, follower: RangeFollower, ends: Ends, found: DataFrame, spaces: Mapping[str, Span]
    ) -> None:
        """Have what was found wait for its applications, and keep what is an end."""
        apps: list[str] = []
        onward = {}
        for space, span in sorted(spaces.items()):
            current_budget().check()
            of_space = follower.of(ends.opened, space, *span)
            links = []
            for link in of_space.links:
                if link.app not in apps:
                    apps.append(link.app)
                reason = self._number(link.reason)
                links.append(
                    Onward(link.first, link.last, apps.index(link.app), link.space, link.shift, reason)
                )  # fmt: skip
            onward[space] = SpaceOnward(links, of_space.ends)
        if not apps:
            ends.add(found, spaces)
            return
        sent = self._spark.sparkContext.broadcast(onward)
        rows = found.mapInArrow(partial(_onward_rows, sent=sent), ROWS_DDL).localCheckpoint()
        self._take(follower, ends, rows, apps)

    def _take(self, follower: RangeFollower, ends: Ends, rows: DataFrame, apps: list[str]) -> None:
        counts = rows.groupBy("space", "kind", "reason").agg(
            F.min("low"), F.max("high"), F.sum("ranges"), F.sum("pairs")
        )
        groups: dict[str, set[str]] = {}
        end_spaces: dict[str, Span] = {}
        ranges = 0
        for space, kind, number, low, high, held, pairs in counts.collect():
            if kind == RowKind.FOUND:
                end_spaces[space] = ranges_of(low, high)
                self._pairs += pairs
            else:
                ranges += held
                groups.setdefault(apps[number], set()).add(group_of(space))
                self._arrivals(follower, apps[number]).bound(space, low, high)
        check_pairs(max(ranges, self._pairs), self._question.most_pairs)
        if end_spaces:
            ends.add(rows.where(F.col("kind") == int(RowKind.FOUND)), end_spaces)
        for app, of_app in groups.items():
            is_next = (F.col("kind") == int(RowKind.ITEMS)) & (F.col("reason") == apps.index(app))
            self._pending[app].add(of_app, rows.where(is_next))

    def _arrivals(self, follower: RangeFollower, app: str) -> Arrivals:
        if app not in self._started:
            self._started[app] = follower.began_at(app)
        return self._pending.setdefault(app, Arrivals())

    def _number(self, reason: str) -> int:
        """The number of a reason that is of no application; of none: 0."""
        if not reason:
            return 0
        key = ("", reason)
        if key not in self._trace.numbered:
            self._trace.numbered.append(key)
        return 1 + self._trace.numbered.index(key)


def _onward_rows(
    batches: Iterable[pa.RecordBatch], sent: Broadcast[dict[str, SpaceOnward]]
) -> Iterator[pa.RecordBatch]:
    """As `onward_rows`, in a process of Spark."""
    return onward_rows(batches, sent.value)


def _frames_beyond(
    opened: ApplicationSnapshot, topology: Topology, trace: LakeTrace, *, backward: bool
) -> Iterator[str]:
    """What is to be said of rows that were found, and come from DataFrames or go into them."""
    found = {parse_space(space).name for space in trace.spaces}
    kind = "frame" if backward else "frame-source"
    for link in opened.graph.links():
        near, far = (link.dest, link.src) if backward else (link.src, link.dest)
        record = topology.by_id.get(far)
        if near in found and record is not None and record.kind == kind:
            yield (
                f"rows of {opened.names.label(near)} are rows of a DataFrame ({opened.names.label(far)}), which are traced by its "
                f"recipe, a few at a time: {WITHOUT_SPARK}"
            )
