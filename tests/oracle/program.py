"""Hypothesis strategies: programs over the captured operators, and data to run them on.

The interpreter runs beside the drawing: only steps whose result Spark's definition fixes are drawn
(``sample`` where the placement is known, ``zipWithIndex`` where the order is), and results stay
small enough to be compared row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.oracle.brute import Bag, Evaluation
from tests.oracle.functions import KEYS_MIXED, order_key
from tests.oracle.model import (
    CHOOSING,
    COMBINING,
    ELEMENTWISE,
    JOINS,
    KEPT,
    RANKING,
    SETS,
    Program,
    Sink,
    Source,
    Step,
)

ROWS_MAX = 150
TEXT_MAX = 300

ROWS = st.integers(0, 24) | st.integers(6, 24)
"""Rows of a source, drawn first: lists of Hypothesis are mostly short."""

TO_ANY = ("tag", "compact", "text_of", "small_int", "mostly_one", "float_key", "mixed_key")
TO_KEY = ("small_int", "one_of_two", "mostly_one", "float_key", "mixed_key")
TO_PAIR = ("pair_small", "pair_float", "pair_mixed", "pair_skewed", "pair_self")
TO_FEWER = (
    "two_of_three",
    "two_of_three",
    "two_of_three",
    "few",
    "not_empty",
    "not_empty",
    "nothing",
)
TO_MANY = ("up_to_two", "words", "numbered", "first_characters")
BY_PARTITION = ("each", "running", "total")
BY_INDEXED_PARTITION = ("each_with_index", "total_with_index")

WORDS = ("a", "b", "the", "é", "日本", "🙂", "-1", "x\u2028y", "tab\there", "\x85", "q\x0bq")

# data -----------------------------------------------------------------------------------------


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """A text file: empty lines, either line end, maybe none at the end, duplicates, Unicode."""
    line = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
    pool = draw(st.lists(line, min_size=1, max_size=6))
    rows = draw(ROWS)
    lines = draw(st.lists(st.sampled_from(pool) | line, min_size=rows, max_size=rows))
    ends = draw(st.sampled_from((("\n",), ("\r\n",), ("\n", "\r\n"))))
    text = "".join(line + ends[i % len(ends)] for i, line in enumerate(lines))
    if draw(st.booleans()):
        text = text.removesuffix("\n").removesuffix("\r")
    return text.encode("utf-8")


def elements() -> st.SearchStrategy[Any]:
    """A value of a list source."""
    return (
        st.integers(-3, 3) | st.sampled_from(KEYS_MIXED) | st.sampled_from((*WORDS, "two\nlines"))
    )


@st.composite
def rows_of_lists(draw: st.DrawFn) -> tuple[Any, ...]:
    """Values, or pairs of key and value."""
    pairs = st.tuples(st.sampled_from(KEYS_MIXED) | st.integers(-3, 3), elements())
    row, rows = draw(st.sampled_from((elements(), pairs))), draw(ROWS)
    return tuple(draw(st.lists(row, min_size=rows, max_size=rows)))


@st.composite
def sources(draw: st.DrawFn, name: str) -> Source:
    """One source; text is more likely than any other."""
    partitions = draw(st.integers(1, 4))
    kinds = ("text", "text", "text", "folder", "gz", "list", "list", "whole", "bytes")
    kind = draw(st.sampled_from(kinds))
    if kind == "whole":
        text = st.lists(st.sampled_from(WORDS), max_size=6).map("\n".join)
        texts = draw(st.lists(text, min_size=1, max_size=5))
        files = tuple((f"{name}-{n}.txt", one.encode()) for n, one in enumerate(texts))
        return Source(name, "whole", partitions, files=files)
    if kind == "bytes":
        records = draw(st.lists(st.sampled_from((b"abc", b"\n\r\x00", b"\xff -")), min_size=1))
        return Source(name, "bytes", partitions, files=((f"{name}.bin", b"".join(records)),))
    if kind == "list":
        return Source(name, "list", partitions, rows=draw(rows_of_lists()))
    names = {"text": ("t.txt",), "gz": ("t.txt.gz",), "folder": ("one.txt", "two.txt")}[kind]
    files = tuple((f"{name}-{file}", draw(contents())) for file in names)
    return Source(name, "text", partitions, files=files)


# programs -------------------------------------------------------------------------------------


@dataclass
class Drafting:
    """A program being drawn; ``pairs[i]`` says whether step ``i`` gives (key, value) rows."""

    run: Evaluation
    draw: st.DrawFn
    pairs: list[bool] = field(default_factory=list)

    def add(self, step: Step, pairs: bool) -> bool:
        """Evaluate a step; False, and the step taken back, when its result is too large."""
        bag = self.run.add(step)
        if _too_large(bag):
            self.run.take_back()
            return False
        self.pairs.append(pairs)
        return True

    def pick(self, wanted: Callable[[int], bool] = lambda step: True) -> int | None:
        """A step to go on from: mostly the last that fits, now and then an earlier one."""
        fitting = [i for i in range(len(self.pairs)) if wanted(i)]
        if not fitting:
            return None
        if self.draw(st.integers(0, 3)) > 0:
            return fitting[-1]
        return self.draw(st.sampled_from(fitting))

    def partitions(self) -> int:
        return self.draw(st.integers(1, 4))

    def paired(self, other_than: int = -1) -> int:
        """A step that gives pairs; one is made when there is none or another one is wanted."""
        found = self.pick(lambda i: self.pairs[i] and i != other_than)
        if found is not None and (other_than < 0 or self.draw(st.booleans())):
            return found
        here = self.pick() if other_than < 0 else self.draw(st.sampled_from(range(len(self.pairs))))
        assert here is not None, "a draft starts with its sources"
        function = self.draw(st.sampled_from(TO_PAIR))
        if not self.add(Step("map", (here,), function), pairs=True):
            self.add(Step("filter", (here,), "nothing"), pairs=True)
        return len(self.pairs) - 1


def _too_large(bag: Bag) -> bool:
    rows = bag.rows
    return len(rows) > ROWS_MAX or any(len(order_key(row.value)) > TEXT_MAX for row in rows)


def _element_step(draft: Drafting) -> None:
    here = draft.pick()
    assert here is not None, "a draft starts with its sources"
    op = draft.draw(st.sampled_from(ELEMENTWISE))
    if op == "filter":
        function = draft.draw(st.sampled_from(TO_FEWER))
        draft.add(Step("filter", (here,), function), draft.pairs[here])
    elif op == "flatMap":
        function = draft.draw(st.sampled_from(TO_MANY))
        pairs = function == "numbered" or (function == "up_to_two" and draft.pairs[here])
        draft.add(Step("flatMap", (here,), function), pairs)
    elif op == "keyBy":
        draft.add(Step("keyBy", (here,), draft.draw(st.sampled_from(TO_KEY))), True)
    else:
        function = draft.draw(st.sampled_from(TO_ANY + TO_PAIR + TO_PAIR))
        draft.add(Step("map", (here,), function), function in (*TO_PAIR, "tag"))


def _pair_step(draft: Drafting) -> None:
    here = draft.paired()
    op = draft.draw(st.sampled_from(("mapValues", "flatMapValues", "keys", "values")))
    function = {
        "mapValues": st.sampled_from(TO_ANY),
        "flatMapValues": st.sampled_from(TO_MANY),
    }.get(op, st.just(""))
    draft.add(Step(op, (here,), draft.draw(function)), op in ("mapValues", "flatMapValues"))


def _partition_step(draft: Drafting) -> None:
    here = draft.pick(lambda i: draft.run.bags[i].placed)
    if here is None:
        anywhere = draft.pick()
        assert anywhere is not None, "a draft starts with its sources"
        draft.add(Step("mapPartitions", (anywhere,), "each"), True)
    elif draft.draw(st.booleans()):
        function = draft.draw(st.sampled_from(BY_PARTITION))
        draft.add(Step("mapPartitions", (here,), function), function == "each")
    else:
        function = draft.draw(st.sampled_from(BY_INDEXED_PARTITION))
        draft.add(Step("mapPartitionsWithIndex", (here,), function), True)


def _placed_step(draft: Drafting) -> None:
    if draft.draw(st.booleans()):
        here = draft.pick(lambda i: draft.run.bags[i].ordered)
        if here is not None:
            draft.add(Step("zipWithIndex", (here,)), True)
        return
    here = draft.pick(lambda i: draft.run.bags[i].placed)
    if here is not None and draft.draw(st.integers(0, 3)) == 0:
        op = draft.draw(st.sampled_from(("zipWithUniqueId", "zipWithUniqueId", "glom")))
        draft.add(Step(op, (here,)), op == "zipWithUniqueId")
    elif here is not None:
        fraction, seed = (
            draft.draw(st.sampled_from((0.3, 0.6, 0.9))),
            draft.draw(st.integers(0, 99)),
        )
        draft.add(Step("sample", (here,), fraction=fraction, seed=seed), draft.pairs[here])


def _combine_step(draft: Drafting) -> None:
    here = draft.paired()
    op = draft.draw(st.sampled_from(COMBINING))
    function = {
        "reduceByKey": st.sampled_from(("add", "larger")),
        "foldByKey": st.just("add"),
    }.get(op, st.just(""))
    step = Step(op, (here,), draft.draw(function), partitions=draft.partitions())
    draft.add(step, True)


def _group_step(draft: Drafting) -> None:
    here = draft.pick()
    assert here is not None, "a draft starts with its sources"
    partitions = draft.partitions()
    if draft.draw(st.booleans()):
        draft.add(Step("distinct", (here,), partitions=partitions), draft.pairs[here])
    else:
        function = draft.draw(st.sampled_from(TO_KEY))
        draft.add(Step("groupBy", (here,), function, partitions=partitions), True)


def _join_step(draft: Drafting) -> None:
    left = draft.paired()
    right = draft.paired(other_than=left)
    op = draft.draw(st.sampled_from((*JOINS, *JOINS, "cogroup")))
    draft.add(Step(op, (left, right), partitions=draft.partitions()), True)


def _set_step(draft: Drafting) -> None:
    if draft.draw(st.booleans()):
        left = draft.paired()
        right = draft.paired(other_than=left)
        step = Step("subtractByKey", (left, right), partitions=draft.partitions())
        draft.add(step, True)
        return
    steps = st.sampled_from(range(len(draft.pairs)))
    left, right = draft.draw(steps), draft.draw(steps)
    op = draft.draw(st.sampled_from(SETS))
    partitions = draft.partitions() if op == "subtract" else None
    draft.add(Step(op, (left, right), partitions=partitions), draft.pairs[left])


def _product_step(draft: Drafting) -> None:
    def size(step: int) -> int:
        return len(draft.run.bags[step].rows)

    here = draft.pick(lambda i: size(i) <= ROWS_MAX // 4)
    steps = range(len(draft.pairs))
    fitting = [i for i in steps if here is not None and size(i) * size(here) <= ROWS_MAX]
    if here is None or not fitting:
        return
    other = draft.draw(st.sampled_from(fitting))
    # One partition: a product of many would take most of the time of all programs.
    draft.add(Step("coalesce", (other,), partitions=1), draft.pairs[other])
    sides = (here, len(draft.pairs) - 1)
    draft.add(Step("cartesian", sides if draft.draw(st.booleans()) else sides[::-1]), True)


def _two_at_once_step(draft: Drafting) -> None:
    draft.draw(st.sampled_from((_product_step, _zip_step)))(draft)


def _zip_step(draft: Drafting) -> None:
    here = draft.pick(lambda i: draft.run.bags[i].placed)
    if here is None or not draft.add(
        Step("map", (here,), draft.draw(st.sampled_from(TO_ANY + TO_PAIR))), False
    ):
        return
    # PySpark itself can't zip any two: what has just been mapped fits whatever is as long.
    sides = (here, len(draft.pairs) - 1)
    draft.add(Step("zip", sides if draft.draw(st.booleans()) else sides[::-1]), True)


def _union_step(draft: Drafting) -> None:
    count = draft.draw(st.integers(2, 3))
    steps = st.sampled_from(range(len(draft.pairs)))
    chosen = (len(draft.pairs) - 1, *(draft.draw(steps) for _ in range(count - 1)))
    draft.add(Step("union", chosen), all(draft.pairs[i] for i in chosen))


def _sort_step(draft: Drafting) -> None:
    ascending, partitions = draft.draw(st.booleans()), draft.partitions()
    here = draft.pick(lambda i: draft.pairs[i] and _comparable(draft.run.bags[i]))
    if here is not None and draft.draw(st.booleans()):
        op = draft.draw(st.sampled_from(("sortByKey", "repartitionAndSortWithinPartitions")))
        draft.add(Step(op, (here,), partitions=partitions, ascending=ascending), True)
        return
    here = draft.pick()
    assert here is not None, "a draft starts with its sources"
    function = draft.draw(st.sampled_from(("tag", "compact", *TO_KEY)))
    step = Step("sortBy", (here,), function, partitions=partitions, ascending=ascending)
    draft.add(step, draft.pairs[here])


def _comparable(bag: Bag) -> bool:
    keys = [row.value[0] for row in bag.rows]
    return all(isinstance(key, (int, float)) for key in keys) or all(
        isinstance(key, str) for key in keys
    )


def _moving_step(draft: Drafting) -> None:
    op = draft.draw(st.sampled_from(("repartition", "coalesce", "partitionBy", *KEPT)))
    here = draft.paired() if op == "partitionBy" else draft.pick()
    assert here is not None, "a draft starts with its sources"
    partitions = None if op in KEPT else draft.partitions()
    draft.add(Step(op, (here,), partitions=partitions), draft.pairs[here])


_STEPS = (
    _element_step,
    _element_step,
    _pair_step,
    _partition_step,
    _placed_step,
    _combine_step,
    _combine_step,
    _group_step,
    _join_step,
    _join_step,
    _set_step,
    _union_step,
    _two_at_once_step,
    _sort_step,
    _sort_step,
    _moving_step,
    _moving_step,
)


@st.composite
def programs(
    draw: st.DrawFn,
    steps_max: int = 8,
    sinks_max: int = 2,
    source: Callable[[str], st.SearchStrategy[Source]] = sources,
) -> Program:
    """A program of one or two sources, up to ``steps_max`` steps (and those they need), sinks.

    The first sink saves the step with the most behind it. ``source``: what each source is drawn by.
    """
    chosen = tuple(draw(source(name)) for name in ("s", "r")[: draw(st.integers(1, 2))])
    draft = Drafting(Evaluation(chosen), draw)
    for i, one in enumerate(chosen):
        pairs = bool(one.rows) and all(_is_pair(row) for row in one.rows)
        pairs |= one.kind == "whole"
        draft.add(Step("source", (i,)), pairs)
    count = draw(st.sampled_from(range(1, steps_max + 1)))
    meeting = draw(st.sampled_from(range(count))) if len(chosen) > 1 else -1
    for number in range(count):
        if number == meeting:
            _meet(draft)
        draw(st.sampled_from(_STEPS))(draft)
    steps = tuple(draft.run.steps)
    drawn = Program(chosen, steps)
    deepest = max(range(len(steps)), key=lambda step: (len(drawn.ancestors(step)), step))
    others = [_sink(draft) for _ in range(draw(st.integers(0, sinks_max - 1)))]
    return Program(chosen, steps, (Sink("save", deepest), *others))


def _meet(draft: Drafting) -> None:
    """Bring the rows of both sources together."""
    other = draft.draw(st.sampled_from((0, 1)))
    if draft.draw(st.booleans()):
        draft.add(Step("union", (len(draft.pairs) - 1, other)), False)
        return
    sides = []
    for here in (len(draft.pairs) - 1, other):
        if draft.add(Step("keyBy", (here,), draft.draw(st.sampled_from(TO_KEY))), True):
            sides.append(len(draft.pairs) - 1)
    if len(sides) == 2:
        op = draft.draw(st.sampled_from((*JOINS, "cogroup")))
        draft.add(Step(op, tuple(sides), partitions=draft.partitions()), True)


def _is_pair(row: Any) -> bool:
    return isinstance(row, tuple) and len(row) == 2


def _sink(draft: Drafting) -> Sink:
    actions = ("save", "collect", "count", "reduce", "foreach", *CHOOSING, *RANKING)
    action = draft.draw(st.sampled_from(actions))
    here = draft.pick()
    assert here is not None, "a draft starts with its sources"
    if action in ("first", "reduce", "max", "min") and not draft.run.bags[here].rows:
        action = "count"
    counted = action in ("take", "takeSample", "toLocalIterator", "top", "takeOrdered")
    least = 1 if action == "toLocalIterator" else 0
    return Sink(action, here, draft.draw(st.integers(least, 5)) if counted else 0)
