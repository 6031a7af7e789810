"""What a query keeps from batch to batch, and which rows a batch may be made of because of it.

A group of an aggregate by event time is made of rows of this batch and those before it, and so is one that the output modes ``update`` and
``complete`` give, before it is due and without a time, too. A row that a deduplication, or a limit, lets
through is one of this batch. A pair of a join of two streams has at least one row of this batch, and its other of this or one before; a
row that it gives without a match is of this batch or one before. What a function makes that keeps a state itself may be made of all rows so
far. Which rows the state held is not in any plan: where that decides, the batch is recorded with a condition that a trace can't compute
anew, and the rows of the output tell by their values which rows they are.

Where nodes that keep state read rows of others, a batch may give what the batch query gives of all rows so far: when a row is due that went
through several of them is not known. Where groups may lack rows that have their keys, dropped as late or by a node below, their values tell
nothing: they are found by their keys, and a trace says that it may name too many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pyspark.errors import PySparkException

from lineage_emitter.dataframes.plan_text import compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_emitter.dataframes.stream_reports import Known

PLANS_CLASS = "lineage.StreamPlans"
STATE_CLASS = "lineage.StreamState"
STATE = "it may hold rows of earlier batches as its state"
LATE_BY_BATCH_BEFORE = "spark.sql.streaming.statefulOperator.allowMultiple"
APPEND, UPDATE, COMPLETE = "Append", "Update", "Complete"
"""Output modes: groups are given once they are due, whenever a batch changes them, or all by each batch."""
OF_ALL_GROUPS = ("Aggregate", "Sort", "GlobalLimit", "LocalLimit")
"""What a batch gives of all rows so far in the output mode ``complete``, as the batch query does."""
CHOICES = ("Deduplicate", "DeduplicateWithinWatermark", "GlobalLimit", "LocalLimit")
"""What lets rows of this batch through, or not."""
FUNCTIONS = (
    "FlatMapGroupsInPandasWithState",
    "TransformWithStateInPandas",
    "TransformWithStateInPySpark",
)
"""What calls a function of the program that keeps a state for each group."""


class Rows(Protocol):
    """Plans over the rows of streams."""

    def __call__(self, plan: Any, part: str, given: Sequence[tuple[Any, Any]] = ()) -> Any:
        """A plan over the rows of ``NEW``, ``OLD`` or ``ALL``. ``given``: nodes of it, with what stands in their places."""


NEW, OLD, ALL = "of this batch", "of those before", "of both"


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where a batch of a stream begins and ends (Spark's objects); None: at the beginning, and nothing was read.

    ``first_end_text``: where the first batch that read something of the stream ends, as JSON; empty: it is not known. ``is_first_own``: this run of
    the query has run that batch.
    """

    start: Any | None
    end: Any | None
    first_end_text: str = ""
    is_first_own: bool = False

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

    def of(self, rows: str, beginning: Any | None = None) -> Offsets:
        """Those of ``NEW``, ``OLD`` or ``ALL`` rows, where these are of a batch. ``beginning``: where those before begin; None: with the first."""
        if rows == NEW:
            return self
        return replace(self, start=beginning, end=self.start if rows == OLD else self.end)


def offsets_of_batch(log: Any, number: int) -> tuple[Offsets, ...] | None:
    """Those of each stream that a query reads, in Spark's order; None: the checkpoint does not have the batch any more.

    ``log``: of the query's checkpoint (Spark's object). The first batch of a stream is taken for one that this run has run.
    """
    end = log.get(number)
    start = log.get(number - 1) if number else None
    if not end.isDefined() or (start is not None and not start.isDefined()):
        return None
    ends = end.get().offsets()
    starts = None if start is None else start.get().offsets()
    found = []
    for at in range(ends.size()):
        one = Offsets(None if starts is None else _value(starts.apply(at)), _value(ends.apply(at)))
        is_first = one.start is None and one.end is not None
        found.append(
            replace(one, first_end_text=one.end_text, is_first_own=True) if is_first else one
        )
    return tuple(found)


Firsts: TypeAlias = dict[int, tuple[str, bool]]
"""By the place of a stream, where the first batch that read something of it ends, and whether this run has run that batch."""


def with_firsts(
    found: Sequence[Offsets], firsts: Firsts, log: Any, number: int, *, has_run: bool
) -> tuple[Offsets, ...]:
    """The offsets of a batch with what is known of the first one of each stream.

    Args:
        found: as :func:`offsets_of_batch` gives them.
        firsts: what is known of earlier batches; gets what this one tells.
        log: as there.
        number: of the batch.
        has_run: this run has run it.
    """
    for place, offsets in enumerate(found):
        if offsets.is_first_own:
            firsts[place] = offsets.end_text, has_run
        elif place not in firsts and offsets.start is not None:
            firsts[place] = first_end(log, place, number), False
    known = (firsts.get(place, ("", False)) for place in range(len(found)))
    return tuple(
        replace(offsets, first_end_text=text, is_first_own=is_own)
        for offsets, (text, is_own) in zip(found, known, strict=True)
    )


def is_late_by_batch_before(spark: SparkSession) -> bool:
    """Whether rows are late by the watermark of the batch before theirs: a group that is due in a batch then lacks none of its rows."""
    try:
        return str(spark.conf.get(LATE_BY_BATCH_BEFORE)) == "true"
    except PySparkException:
        # A Spark that has no such setting.
        return False


def watermarks_of(log: Any, number: int, known: Known) -> Watermarks:
    """The watermarks of a batch. ``log``: as of :func:`offsets_of_batch`, which has it and the one before. ``known``: of its run.

    That of the first batch is 0, by which what is older is late.
    """
    plans = _plans()
    before, now = (
        0 if at < 0 else int(plans.watermark(log.get(at).get())) for at in (number - 1, number)
    )
    return Watermarks(before, now, known.run_problem, known.late_problem, known.late_rows)


def first_end(log: Any, stream: int, before: int) -> str:
    """Where the first batch ends that read something of a stream, as JSON; empty: it is not known, or none before ``before``."""
    for number in range(before):
        entry = log.get(number)
        if not entry.isDefined():
            return ""
        end = _value(entry.get().offsets().apply(stream))
        if end is not None:
            return str(end.json())
    return ""


def _value(option: Any) -> Any | None:
    return option.get() if option.isDefined() else None


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Between which watermarks (in ms since 1970) rows are due that a batch gives.

    ``run_problem``: why the plan by which all earlier batches ran is not known; empty: it is that of this batch.
    ``late_problem``: why it is not known that groups lack no row that was dropped as late; empty: they lack none.
    ``late_rows``: why it is not known that no row at all was dropped as late; empty: none was.
    """

    before: int
    now: int
    run_problem: str = ""
    late_problem: str = ""
    late_rows: str = ""


NO_WATERMARKS = Watermarks(0, 0)


@dataclass(frozen=True, slots=True)
class State:
    """What a node of a plan that keeps state gives, where no other such node reads its rows.

    ``node``: Spark's object. ``kind``: its class. ``is_timed``: it gives groups by event time when they are due, and reads no other
    such node. ``below``: the classes of those that it reads. ``parts``: which rows a batch may be made of, each part to be read by
    itself. ``problem``: why rows can't be traced through it; empty: they can. ``late_rows``: as of `Watermarks`.
    ``is_filtered``: a condition above it leaves out rows. ``mode``: ``UPDATE`` where it gives groups that a batch changes, ``COMPLETE`` where it gives all of them.
    """

    node: Any
    kind: str
    is_timed: bool = False
    mode: str = APPEND
    below: tuple[str, ...] = ()
    parts: tuple[str, ...] = (NEW,)
    problem: str = ""
    late_rows: str = ""
    is_filtered: bool = False

    def plan(self, spark: SparkSession, rows: Rows, watermarks: Watermarks) -> Any:
        """What the node gives in a batch (Spark's object)."""
        made = compiled(STATE_CLASS)
        if self.kind in CHOICES and self.parts == (NEW,):
            return made.chosen(_let_through(self.node, rows))
        if self.mode == COMPLETE or (self.mode == UPDATE and _plans().isOfAll(self.node)):
            return rows(self.node, ALL)
        if self.mode == UPDATE:
            (child,) = _children(self.node)
            before, _ = _times(spark, watermarks)
            time = _plans().lateBy(self.node)
            return made.changed(self.node, time, rows(child, NEW), rows(child, OLD), before)
        if self.is_timed and not _plans().isOfSessions(self.node):
            below = rows(_children(self.node)[0], ALL)
            return _plans().due(self.node, below, *_times(spark, watermarks))
        if self.kind == "Join" and not self.below:
            return made.joined(
                self.node, *(self._parts_of(spark, side, rows) for side in _children(self.node))
            )
        whole = _Whole(self.node, spark, rows, self.late_rows, self.is_filtered, watermarks.before)
        if self.kind in FUNCTIONS:
            return self._keyed(whole) or whole.given(self.node)
        given = whole.given(self.node)
        return made.chosenOfGroups(given) if whole.is_unsure else made.chosen(given)

    def _keyed(self, whole: _Whole) -> Any | None:
        """What a function gives, by keys that the program declares its rows to hold; None: it declares none, or the state began with other rows."""
        child, *initial = _children(self.node)
        if initial and self.node.hasInitialState():
            return None
        return compiled(STATE_CLASS).byKeys(self.node, whole.of(child))

    def _parts_of(self, spark: SparkSession, side: Any, rows: Rows) -> Any:
        return _java_list(spark, [rows(side, part) for part in (NEW, OLD, ALL)])

    def oldest_us(self, plan: Any, watermarks: Watermarks) -> int | None:
        """The time behind which all rows are that groups by event time are made of, which are due in a batch, in microseconds since 1970.

        ``plan``: the whole one (Spark's object). None: that is not known.
        """
        if not self._has_windows():
            return None
        length = _plans().before(plan, self.node)
        return None if length is None else watermarks.before * 1000 - int(length)

    def _has_windows(self) -> bool:
        """Whether no row is in a group that is older than a watermark by more than the longest window."""
        if self.mode == UPDATE:
            # A group that has no time is never forgotten; windows are of rows that have one.
            time = _plans().lateBy(self.node)
            return time is not None and str(time.dataType().typeName()) == "struct"
        return self.is_timed and not _plans().isOfSessions(self.node)

    def ends(self, rows: Rows) -> Any | None:
        """The ends of the windows of each row that groups by event time are made of (Spark's object); None: it has none."""
        if not self.is_timed or _plans().isOfSessions(self.node):
            return None
        return _plans().ends(self.node, rows(_children(self.node)[0], ALL))


@dataclass
class _Whole:
    """What plans give of all rows so far, as batch queries. ``is_unsure``: groups of them may lack rows that have their keys.

    ``top``: the node whose rows no other reads. ``watermark_ms``: that of the batch before, behind which sessions have been given and forgotten.
    """

    top: Any
    spark: SparkSession
    rows: Rows
    late_rows: str
    is_filtered: bool
    watermark_ms: int
    is_unsure: bool = field(default=False, init=False)

    def of(self, plan: Any) -> Any:
        """What a plan gives."""
        tops = listed(_plans().topStates(plan))
        return self.rows(plan, ALL, [(node, self.given(node)) for node in tops])

    def given(self, node: Any) -> Any:
        """What a node gives that keeps state."""
        made, kind = compiled(STATE_CLASS), class_name(node)
        # Conditions of a join are taken for its sides' by other rules than those of its pairs.
        self.is_filtered |= kind == "Join"
        below = [self.of(child) for child in _children(node)]
        if kind == "Join":
            return made.joinedWholly(node, *below)
        if self._lets_more_through(node) and kind != "Join":
            return below[0]
        if kind == "Aggregate" and self._may_lack_rows(node):
            self.is_unsure = True
            return made.loosely(node, below[0])
        return made.over(node, _java_list(self.spark, below))

    def _may_lack_rows(self, node: Any) -> bool:
        """Whether groups of an aggregate may lack some of the rows that have their keys."""
        # Spark takes a condition on windows of sessions for one on the rows that it makes sessions of. And a row behind the watermark
        # whose own window reaches beyond it is not late, but begins a session anew where the batch query goes on with one that has been given.
        can_be_cut = self.is_filtered or self.watermark_ms > 0
        is_cut = can_be_cut and bool(_plans().isOfSessions(node))
        return (
            bool(self.late_rows) or is_cut or any(map(self._lets_more_through, _states_below(node)))
        )

    def _lets_more_through(self, node: Any) -> bool:
        """Whether the batch query in the place of a node gives more rows than the node does."""
        kind = class_name(node)
        if kind != "Deduplicate":
            return kind == "Join" or kind in CHOICES
        uses_keys = compiled(STATE_CLASS).usesKeysAlone(self.top, node)
        return bool(_states_below(node)) or not uses_keys


def _let_through(node: Any, rows: Rows) -> Any:
    """The rows of this batch below nodes that let some of them through."""
    (below,) = _children(node)
    return rows(
        below,
        NEW,
        [(inner, _let_through(inner, rows)) for inner in listed(_plans().topStates(below))],
    )


def states_of(rows: Any, mode: str, watermarks: Watermarks) -> tuple[State, ...]:
    """What a plan keeps from batch to batch (``rows``: Spark's object), by nodes whose rows no other of them reads.

    ``mode``: the query's output mode.
    """
    plans = _plans()
    streams = plans.streams(rows).size()
    return tuple(
        replace(
            _state_of(node, mode, watermarks, plans.streams(node).size() == streams),
            is_filtered=bool(plans.isFiltered(rows, node)),
        )
        for node in listed(plans.topStates(rows))
    )


def _state_of(node: Any, mode: str, watermarks: Watermarks, is_all: bool) -> State:
    """``is_all``: no stream is read beside the node."""
    plans = _plans()
    below = _states_below(node)
    kinds = tuple(map(class_name, below))
    state = State(node, class_name(node), below=kinds, late_rows=watermarks.late_rows)
    if _gives_changed(state, mode):
        late = watermarks.late_rows if plans.isLateByOther(node) else watermarks.late_problem
        problem = watermarks.run_problem or late
        return replace(state, mode=UPDATE, parts=(NEW, OLD, ALL), problem=problem)
    if mode == COMPLETE and is_all and _gives_all([*below, node]):
        return replace(state, mode=COMPLETE, parts=(ALL,), problem=watermarks.run_problem)
    if mode == COMPLETE or not all(_is_known(inner, mode) for inner in [*below, node]):
        return replace(state, problem=STATE)
    if {state.kind, *kinds} <= set(CHOICES):
        return state
    beside = () if is_all else (NEW,)
    if state.kind == "Join" and not below:
        return replace(state, parts=(NEW, OLD, ALL), problem=watermarks.run_problem)
    if plans.isTimed(node) and not below:
        problem = watermarks.run_problem
        if not plans.isOfSessions(node):
            problem = problem or watermarks.late_problem
        return replace(state, is_timed=True, parts=(ALL, *beside), problem=problem)
    return replace(state, parts=(ALL, *beside), problem=watermarks.run_problem)


def _gives_changed(state: State, mode: str) -> bool:
    """Whether a node gives the groups that a batch changes."""
    is_aggregate = mode == UPDATE and state.kind == "Aggregate" and not state.below
    return is_aggregate and not _plans().isOfSessions(state.node)


def _gives_all(nodes: Sequence[Any]) -> bool:
    """Whether nodes that keep state give what the batch query gives of all rows so far, in the output mode ``COMPLETE``.

    Only the groups of an aggregate are kept then, and none is ever forgotten.
    """
    kinds = [class_name(node) for node in nodes]
    if not set(kinds) <= set(OF_ALL_GROUPS) or kinds.count("Aggregate") != 1:
        return False
    # The first one: the others are sorted or cut groups.
    return kinds[0] == "Aggregate" and not _plans().isOfSessions(nodes[0])


def _is_known(node: Any, mode: str) -> bool:
    """Whether it is known which rows a node may have made its rows of."""
    kind = class_name(node)
    if kind == "Join":
        return compiled(STATE_CLASS).kind(node) is not None
    if kind == "Aggregate":
        return mode == APPEND and bool(_plans().isTimed(node))
    return kind in CHOICES or kind in FUNCTIONS


def keeps(rows: Any, mode: str) -> str:
    """What decides when nothing more comes of a row, as `lineage_core.contract.message.Stream.keeps` has it."""
    states = states_of(rows, mode, NO_WATERMARKS)
    # A row that is dropped never comes again.
    if all(
        state.kind in CHOICES and not state.problem and state.parts == (NEW,) for state in states
    ):
        return "nothing"
    is_timed = len(states) == 1 and states[0].is_timed and not states[0].problem
    return "windows" if is_timed and not _plans().isOfSessions(states[0].node) else "more"


def _states_below(node: Any) -> list[Any]:
    """Nodes that keep state and whose rows a node reads."""
    return listed(_plans().states(node))[:-1]


def listed(values: Any) -> list[Any]:
    """A list of Java's. Its own iterator ends by an error, which PySpark takes 20 ms to make one of Python's of."""
    return [values[place] for place in range(values.size())]


def _java_list(spark: SparkSession, values: Sequence[Any]) -> Any:
    jvm: Any = spark._jvm
    made = jvm.java.util.ArrayList()
    for value in values:
        made.add(value)
    return made


def class_name(of: Any) -> str:
    """The class of a Java object, without its package."""
    return str(of.getClass().getName()).rpartition(".")[2]


def _children(node: Any) -> Sequence[Any]:
    children = node.children()
    return [children.apply(place) for place in range(children.size())]


def _times(spark: SparkSession, watermarks: Watermarks) -> tuple[Any, Any]:
    jvm: Any = spark._jvm
    long = jvm.java.lang.Long
    return long.valueOf(watermarks.before), long.valueOf(watermarks.now)


def _plans() -> Any:
    return compiled(PLANS_CLASS)
