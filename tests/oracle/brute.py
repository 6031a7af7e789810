"""The interpreter: every operator by its definition, every row with the source rows that made it.

Witnesses are what the operator's own definition combines into the row: the row itself for what
works row by row, all rows of the key for what combines by key, one row of each side for a join,
nothing for a side that is missing. Where Spark's placement decides (``mapPartitions``,
``zipWithIndex``, ``sample``) it works on bags whose placement is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pyspark.rddsampler import RDDSampler

from tests.oracle import functions
from tests.oracle.layout import file_partitions, list_partitions, records_of
from tests.oracle.model import KEPT, Program, Sink, Source, Step, Witness

Witnesses = frozenset[Witness]
NOTHING: Witnesses = frozenset()


@dataclass(frozen=True, slots=True)
class Rec:
    """A row: its value, the source rows that made it, and how it was derived (interned)."""

    value: Any
    witnesses: Witnesses
    origin: int


@dataclass
class Bag:
    """The rows of one step. ``placed``: ``parts`` are Spark's partitions, in order, rows in order.

    ``ordered``: the rows read one after another are in Spark's order (always so when placed).
    """

    parts: list[list[Rec]]
    placed: bool = False
    ordered: bool = False

    @property
    def rows(self) -> list[Rec]:
        """All rows, partition by partition."""
        return [row for part in self.parts for row in part]


def function_of(step: Step) -> Callable[..., Any]:
    """The function that a step names."""
    found: Callable[..., Any] = getattr(functions, step.function)
    return found


@dataclass
class Evaluation:
    """A program run by the interpreter, step by step; ``bags[i]`` is the result of step ``i``.

    With ``keep`` and ``like`` it is a run again on some source rows alone: all others are masked
    right after the source, partitions, ordinals and random draws are those of ``like``, and a row
    that ``like`` does not have (it only exists because others are absent) is dropped and counted.
    """

    sources: tuple[Source, ...]
    keep: Witnesses | None = None
    like: Evaluation | None = None
    bags: list[Bag] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    dropped: int = 0
    _names: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _values: list[dict[int, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.like is not None:
            self._names = self.like._names

    def add(self, step: Step) -> Bag:
        """Evaluate one more step.

        Raises:
            ValueError: the step needs a placement or an order that is not known.
        """
        if step.op == "source":
            bag = self._source(self.sources[step.inputs[0]])
        else:
            bag = _OPERATORS[step.op](self, step, [self.bags[i] for i in step.inputs])
        if self.like is not None:
            bag = self._as_in(self.like, bag)
        self.steps.append(step)
        self.bags.append(bag)
        self._values.append({row.origin: functions.canonical(row.value) for row in bag.rows})
        return bag

    def take_back(self) -> None:
        """Forget the last step."""
        self.steps.pop()
        self.bags.pop()
        self._values.pop()

    def sink_rows(self, sink: Sink) -> list[Rec]:
        """The rows that an action gives the user; where it gives some: what it chooses from."""
        rows = self.bags[sink.step].rows
        if sink.action not in ("count", "reduce"):
            return rows
        witnesses = _union(rows)
        if sink.action == "count":
            return [Rec(len(rows), witnesses, -1)]
        value = rows[0].value
        for row in rows[1:]:
            value = functions.add(value, row.value)
        return [Rec(value, witnesses, -1)]

    def ranked(self, sink: Sink) -> list[Rec]:
        """The rows that max, min, top or takeOrdered gives, in order; among equals the first."""
        rows, key = self.bags[sink.step].rows, _rank
        largest = sink.action in ("max", "top")
        count = sink.rows if sink.action in ("top", "takeOrdered") else 1
        return sorted(rows, key=key, reverse=largest)[:count]

    def name(self, *how: Any) -> int:
        """A number for one derivation in the step being added; the same one in a run like it."""
        return self._names.setdefault((len(self.bags), *how), len(self._names))

    def _source(self, source: Source) -> Bag:
        parts: list[list[tuple[str, int, Any]]]
        placed = len(source.files) <= 1
        if source.kind == "whole":
            parts = [[(name, 0, (name, text.decode()))] for name, text in source.files]
            placed = False
        elif source.kind == "bytes":
            ((name, content),) = source.files
            parts = [[(name, row, value) for row, value in enumerate(records_of(content))]]
        elif source.kind == "list":
            dealt = list_partitions(source.rows, source.partitions)
            parts = [[(source.name, row, value) for row, value in part] for part in dealt]
        else:
            parts = [
                [(name, row, text) for row, text in part]
                for name, content in source.files
                for part in file_partitions(name, content, source.partitions)
            ]
        rows = [
            [
                Rec(value, frozenset([(name, row)]), self.name(name, row))
                for name, row, value in part
                if self.keep is None or (name, row) in self.keep
            ]
            for part in parts
        ]
        return Bag(rows if placed else [[row for part in rows for row in part]], placed, placed)

    def _as_in(self, like: Evaluation, bag: Bag) -> Bag:
        known = like._values[len(self.bags)]
        parts = [
            [
                row
                for row in part
                if row.origin in known and known[row.origin] == functions.canonical(row.value)
            ]
            for part in bag.parts
        ]
        kept = Bag(parts, bag.placed, bag.ordered)
        self.dropped += len(bag.rows) - len(kept.rows)
        return kept


def _rank(row: Rec) -> str:
    return functions.order_key(row.value)


def evaluate(program: Program) -> Evaluation:
    """Run the whole program."""
    run = Evaluation(program.sources)
    for step in program.steps:
        run.add(step)
    return run


def _union(rows: Iterable[Rec]) -> Witnesses:
    return NOTHING.union(*(row.witnesses for row in rows))


# row by row -----------------------------------------------------------------------------------


def _row_by_row(make: Callable[[Step, Any], Iterable[Any]]) -> Callable[..., Bag]:
    def operator(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
        (bag,) = inputs
        parts = [
            [
                Rec(value, row.witnesses, run.name(row.origin, k))
                for row in part
                for k, value in enumerate(make(step, row.value))
            ]
            for part in bag.parts
        ]
        return Bag(parts, bag.placed, bag.ordered)

    return operator


def _flat_values(step: Step, x: Any) -> Iterable[Any]:
    return [(x[0], value) for value in function_of(step)(x[1])]


# partition by partition -----------------------------------------------------------------------


def _partition_wise(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    (bag,) = inputs
    if step.function != "each":
        _need_placement(bag, step)
    with_index = step.op == "mapPartitionsWithIndex"
    parts: list[list[Rec]] = []
    for index, part in enumerate(bag.parts):
        values = [row.value for row in part]
        made = list(function_of(step)(index, values) if with_index else function_of(step)(values))
        parts.append(
            [_of_partition(run, step, index, k, value, part) for k, value in enumerate(made)]
        )
    return Bag(parts, bag.placed, bag.ordered)


def _of_partition(
    run: Evaluation, step: Step, index: int, k: int, value: Any, part: list[Rec]
) -> Rec:
    """Row ``k`` of what the function made: of its row, of the rows so far, or of all rows."""
    if step.function.startswith("each"):
        return Rec(value, part[k].witnesses, run.name(part[k].origin))
    if step.function == "running":
        return Rec(value, _union(part[: k + 1]), run.name(part[k].origin))
    return Rec(value, _union(part), run.name("partition", index))


def _zip_with_index(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    (bag,) = inputs
    if not bag.ordered:
        raise ValueError("zipWithIndex needs a known order")
    if run.like is None:
        index_of = {row.origin: index for index, row in enumerate(bag.rows)}
    else:
        index_of = {
            row.origin: index for index, row in enumerate(run.like.bags[step.inputs[0]].rows)
        }
    parts = [
        [
            Rec((row.value, index_of[row.origin]), row.witnesses, run.name(row.origin))
            for row in part
        ]
        for part in bag.parts
    ]
    return Bag(parts, bag.placed, bag.ordered)


def _glom(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    (bag,) = inputs
    _need_placement(bag, step)
    parts = [
        [Rec(tuple(row.value for row in part), _union(part), run.name("partition", index))]
        for index, part in enumerate(bag.parts)
    ]
    return Bag(parts, bag.placed, bag.ordered)


def _zip_with_unique_id(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    (bag,) = inputs
    _need_placement(bag, step)
    numbered = bag if run.like is None else run.like.bags[step.inputs[0]]
    count = len(numbered.parts)
    id_of = {
        row.origin: place * count + index
        for index, part in enumerate(numbered.parts)
        for place, row in enumerate(part)
    }
    parts = [
        [Rec((row.value, id_of[row.origin]), row.witnesses, run.name(row.origin)) for row in part]
        for part in bag.parts
    ]
    return Bag(parts, bag.placed, bag.ordered)


def _sample(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    (bag,) = inputs
    _need_placement(bag, step)
    drawn_from = bag if run.like is None else run.like.bags[step.inputs[0]]
    kept: set[int] = set()
    for index, part in enumerate(drawn_from.parts):
        sampler = RDDSampler(False, step.fraction, step.seed)
        kept.update(row.origin for row in sampler.func(index, iter(part)))
    parts = [
        [Rec(row.value, row.witnesses, run.name(row.origin)) for row in part if row.origin in kept]
        for part in bag.parts
    ]
    return Bag(parts, placed=True, ordered=True)


def _need_placement(bag: Bag, step: Step) -> None:
    if not bag.placed:
        raise ValueError(f"{step.op} with {step.function or 'draws'} needs a known placement")


# by key ---------------------------------------------------------------------------------------


def _grouped(rows: Iterable[Rec], key: Callable[[Any], Any]) -> dict[Any, list[Rec]]:
    groups: dict[Any, list[Rec]] = {}
    for row in rows:
        groups.setdefault(key(row.value), []).append(row)
    return groups


def _first(pair: Any) -> Any:
    return pair[0]


def _by_key(
    key: Callable[[Step, Any], Any], make: Callable[[Step, Any, list[Any]], Any]
) -> Callable[..., Bag]:
    def operator(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
        (bag,) = inputs
        groups = _grouped(bag.rows, lambda x: key(step, x))
        rows = [
            Rec(
                make(step, k, [row.value for row in group]),
                _union(group),
                run.name("key", functions.canonical(k)),
            )
            for k, group in groups.items()
        ]
        return Bag([rows])

    return operator


def _reduced(step: Step, key: Any, pairs: list[Any]) -> Any:
    value = pairs[0][1]
    for _, other in pairs[1:]:
        value = function_of(step)(value, other)
    return (key, value)


def _folded(step: Step, key: Any, pairs: list[Any]) -> Any:
    value: Any = 0
    for _, other in pairs:
        value = function_of(step)(value, other)
    return (key, value)


def _counted(step: Step, key: Any, pairs: list[Any]) -> Any:
    value = (0, 0)
    for _, other in pairs:
        value = functions.count_in(value, other)
    return (key, value)


def _listed(step: Step, key: Any, pairs: list[Any]) -> Any:
    return (key, functions.in_order(value for _, value in pairs))


# two and more ---------------------------------------------------------------------------------


def _join(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    left, right = (_grouped(bag.rows, _first) for bag in inputs)
    lone_left = step.op in ("leftOuterJoin", "fullOuterJoin")
    lone_right = step.op in ("rightOuterJoin", "fullOuterJoin")
    rows: list[Rec] = []
    for key in [*left, *(k for k in right if k not in left)]:
        mine: list[Rec | None] = [*left.get(key, [])]
        other: list[Rec | None] = [*right.get(key, [])]
        if not other and lone_left:
            other = [None]
        if not mine and lone_right:
            mine = [None]
        rows.extend(_pair(run, key, a, b) for a in mine for b in other)
    return Bag([rows])


def _pair(run: Evaluation, key: Any, a: Rec | None, b: Rec | None) -> Rec:
    value = (key, (None if a is None else a.value[1], None if b is None else b.value[1]))
    here = [row for row in (a, b) if row is not None]
    return Rec(
        value, _union(here), run.name("pair", a.origin if a else None, b.origin if b else None)
    )


def _cartesian(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    left, right = inputs
    return Bag([[_couple(run, a, b) for a in left.rows for b in right.rows]])


def _zip(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    left, right = inputs
    _need_placement(left, step)
    _need_placement(right, step)
    sides = inputs if run.like is None else [run.like.bags[i] for i in step.inputs]
    pairs = zip(*(side.rows for side in sides), strict=True)
    partner_of = {a.origin: b.origin for a, b in pairs}
    here = {row.origin: row for row in right.rows}
    parts = [
        [
            _couple(run, row, here[partner_of[row.origin]])
            for row in part
            if partner_of[row.origin] in here
        ]
        for part in left.parts
    ]
    return Bag(parts, placed=True, ordered=True)


def _couple(run: Evaluation, a: Rec, b: Rec) -> Rec:
    return Rec((a.value, b.value), _union((a, b)), run.name("pair", a.origin, b.origin))


def _cogroup(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    sides = [_grouped(bag.rows, _first) for bag in inputs]
    keys = dict.fromkeys(key for side in sides for key in side)
    rows = [
        Rec(
            (
                key,
                functions.groups_in_order(
                    [row.value[1] for row in side.get(key, [])] for side in sides
                ),
            ),
            _union(row for side in sides for row in side.get(key, [])),
            run.name("key", functions.canonical(key)),
        )
        for key in keys
    ]
    return Bag([rows])


def _subtract(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    by_key = step.op == "subtractByKey"
    left, right = (_grouped(bag.rows, _first if by_key else _itself) for bag in inputs)
    rows = [
        Rec((key, row.value[1]) if by_key else key, row.witnesses, run.name(row.origin))
        for key, group in left.items()
        if key not in right
        for row in group
    ]
    return Bag([rows])


def _intersection(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    left, right = (_grouped(bag.rows, _itself) for bag in inputs)
    rows = [
        Rec(value, _union([*group, *right[value]]), run.name("key", functions.canonical(value)))
        for value, group in left.items()
        if value in right
    ]
    return Bag([rows])


def _itself(value: Any) -> Any:
    return value


def _union_of(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    parts = [
        [Rec(row.value, row.witnesses, run.name(side, row.origin)) for row in part]
        for side, bag in enumerate(inputs)
        for part in bag.parts
    ]
    placed = all(bag.placed for bag in inputs)
    return Bag(parts if placed else [[row for part in parts for row in part]], placed, placed)


# another order or place -----------------------------------------------------------------------


def _sort(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    (bag,) = inputs

    def key(row: Rec) -> Any:
        if step.op == "sortByKey":
            return row.value[0]
        return functions.order_key(function_of(step)(row.value))

    rows = sorted(bag.rows, key=key, reverse=not step.ascending)
    return Bag([rows], ordered=len({key(row) for row in rows}) == len(rows))


def _elsewhere(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    return Bag([inputs[0].rows])


def _same(run: Evaluation, step: Step, inputs: list[Bag]) -> Bag:
    (bag,) = inputs
    return Bag(bag.parts, bag.placed, bag.ordered)


_OPERATORS: dict[str, Callable[[Evaluation, Step, list[Bag]], Bag]] = {
    "map": _row_by_row(lambda step, x: [function_of(step)(x)]),
    "flatMap": _row_by_row(lambda step, x: function_of(step)(x)),
    "filter": _row_by_row(lambda step, x: [x] if function_of(step)(x) else []),
    "keyBy": _row_by_row(lambda step, x: [(function_of(step)(x), x)]),
    "mapValues": _row_by_row(lambda step, x: [(x[0], function_of(step)(x[1]))]),
    "flatMapValues": _row_by_row(_flat_values),
    "keys": _row_by_row(lambda step, x: [x[0]]),
    "values": _row_by_row(lambda step, x: [x[1]]),
    "mapPartitions": _partition_wise,
    "mapPartitionsWithIndex": _partition_wise,
    "zipWithIndex": _zip_with_index,
    "glom": _glom,
    "zipWithUniqueId": _zip_with_unique_id,
    "sample": _sample,
    "reduceByKey": _by_key(lambda step, x: x[0], _reduced),
    "foldByKey": _by_key(lambda step, x: x[0], _folded),
    "aggregateByKey": _by_key(lambda step, x: x[0], _counted),
    "combineByKey": _by_key(lambda step, x: x[0], _listed),
    "groupByKey": _by_key(lambda step, x: x[0], _listed),
    "groupBy": _by_key(
        lambda step, x: function_of(step)(x),
        lambda step, key, rows: (key, functions.in_order(rows)),
    ),
    "distinct": _by_key(lambda step, x: x, lambda step, key, rows: key),
    "join": _join,
    "leftOuterJoin": _join,
    "rightOuterJoin": _join,
    "fullOuterJoin": _join,
    "cogroup": _cogroup,
    "cartesian": _cartesian,
    "zip": _zip,
    "subtract": _subtract,
    "subtractByKey": _subtract,
    "intersection": _intersection,
    "union": _union_of,
    "sortBy": _sort,
    "sortByKey": _sort,
    "repartition": _elsewhere,
    "coalesce": _elsewhere,
    "partitionBy": _elsewhere,
    "repartitionAndSortWithinPartitions": _elsewhere,
    **dict.fromkeys(KEPT, _same),
}
OPERATORS = tuple(_OPERATORS)
