"""What a query keeps from batch to batch, and which rows a batch may be made of because of it.

A group of an aggregate by event time is made of rows of this batch and those before it. A row that a deduplication lets through is one
of this batch. A pair of a join of two streams has at least one row of this batch, and its other of this or one before; a row that it
gives without a match is of this batch or one before. Which rows the state held is not in any plan: where that decides, the batch is
recorded with a condition that a trace can't compute anew, and the rows of the output tell by their values which rows they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lineage_emitter.dataframes.plan_text import compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLANS_CLASS = "lineage.StreamPlans"
STATE_CLASS = "lineage.StreamState"
STATE = "it may hold rows of earlier batches as its state"
DEDUPLICATIONS = ("Deduplicate", "DeduplicateWithinWatermark")

Rows = Callable[[Any, str], Any]
"""A plan of what is below a node, over the rows of ``NEW``, ``OLD`` or ``ALL``."""
NEW, OLD, ALL = "of this batch", "of those before", "of both"


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where a batch of a stream begins and ends (Spark's objects); None: at the beginning, and nothing was read."""

    start: Any | None
    end: Any | None

    @property
    def start_text(self) -> str:
        """The start as JSON; empty: there is none."""
        return "" if self.start is None else str(self.start.json())

    @property
    def end_text(self) -> str:
        """The end as JSON; empty: there is none."""
        return "" if self.end is None else str(self.end.json())

    @property
    def is_empty(self) -> bool:
        """Whether the batch read nothing of the stream."""
        return self.end is None or self.start_text == self.end_text

    def of(self, rows: str) -> Offsets:
        """Those of ``NEW``, ``OLD`` or ``ALL`` rows, where these are of a batch."""
        if rows == NEW:
            return self
        return Offsets(None, self.start) if rows == OLD else replace(self, start=None)


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Between which watermarks (in ms since 1970) rows are due that a batch gives.

    ``run_problem``: why the plan by which all earlier batches ran is not known; empty: it is that of this batch.
    ``late_problem``: why it is not known that groups lack no row that was dropped as late; empty: they lack none.
    """

    before: int
    now: int
    run_problem: str = ""
    late_problem: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """What the one node of a plan that keeps state does.

    ``node``: Spark's object. ``kind``: its class. ``is_timed``: it gives groups by event time. ``parts``: which rows a batch may be
    made of, each part to be read by itself. ``problem``: why rows can't be traced through it; empty: they can.
    """

    node: Any
    kind: str
    is_timed: bool = False
    parts: tuple[str, ...] = (NEW,)
    problem: str = ""

    def plan(self, spark: SparkSession, rows: Rows, watermarks: Watermarks) -> Any:
        """What the node gives in a batch (Spark's object)."""
        below = _children(self.node)
        if self.is_timed:
            return _plans().due(self.node, rows(below[0], ALL), *_times(spark, watermarks))
        made = compiled(STATE_CLASS)
        if self.kind != "Join":
            return made.chosen(rows(below[0], NEW))
        jvm: Any = spark._jvm
        sides = []
        for side in below:
            plans = jvm.java.util.ArrayList()
            for part in self.parts:
                plans.add(rows(side, part))
            sides.append(plans)
        return made.joined(self.node, *sides)

    def ends(self, rows: Rows) -> Any | None:
        """The ends of the windows of each row that groups by event time are made of (Spark's object); None: it has none."""
        if not self.is_timed:
            return None
        return _plans().ends(self.node, rows(_children(self.node)[0], ALL))


def state_of(rows: Any, mode: str, watermarks: Watermarks) -> State | None:
    """What a plan keeps from batch to batch (``rows``: Spark's object); None: nothing.

    ``mode``: the query's output mode.
    """
    plans = _plans()
    kind = str(plans.stateful(rows))
    if not kind:
        return None
    node = plans.state(rows)
    if node is None or mode == "Complete":
        return State(node, kind, problem=STATE)
    if kind in DEDUPLICATIONS:
        return State(node, kind)
    if kind == "Join" and compiled(STATE_CLASS).kind(node) is not None:
        return State(node, kind, parts=(NEW, OLD, ALL), problem=watermarks.run_problem)
    if mode == "Append" and plans.isTimed(node):
        is_all = plans.streams(node).size() == plans.streams(rows).size()
        problem = watermarks.run_problem or watermarks.late_problem
        return State(node, kind, True, (ALL,) if is_all else (ALL, NEW), problem)
    return State(node, kind, problem=STATE)


def keeps(rows: Any, mode: str) -> str:
    """What decides when nothing more comes of a row, as `lineage_core.contract.message.Stream.keeps` has it."""
    state = state_of(rows, mode, Watermarks(0, 0))
    # A row that a deduplication drops never comes again.
    if state is None or (state.kind in DEDUPLICATIONS and not state.problem):
        return "nothing"
    return "windows" if state.is_timed else "more"


def _children(node: Any) -> Sequence[Any]:
    children = node.children()
    return [children.apply(place) for place in range(children.size())]


def _times(spark: SparkSession, watermarks: Watermarks) -> tuple[Any, Any]:
    jvm: Any = spark._jvm
    long = jvm.java.lang.Long
    return long.valueOf(watermarks.before), long.valueOf(watermarks.now)


def _plans() -> Any:
    return compiled(PLANS_CLASS)
