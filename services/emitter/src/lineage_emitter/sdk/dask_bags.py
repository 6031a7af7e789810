"""Bags of Dask whose records carry the addresses of the source records that they were made from."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count, filterfalse, islice
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from dask import base
from dask.bag.core import Bag, Item, reify
from dask.highlevelgraph import HighLevelGraph
from dask.utils import funcname

from lineage_emitter.errors import UnsupportedOperatorError
from lineage_emitter.sdk.dask_rows import (
    BATCH_RECORDS,
    Origins,
    Rows,
    joined,
    joined_rows,
    origins_of,
)

if TYPE_CHECKING:
    from lineage_core.contract.block import I64

PARTITION_REASON = "a function over whole partitions may use any record of the partition"
REDUCTION_REASON = "a reduction may use fewer records than it is given"
CAPTURED = frozenset(
    [
        "map",
        "starmap",
        "filter",
        "remove",
        "flatten",
        "groupby",
        "frequencies",
        "map_partitions",
        "reduction",
        "fold",
        "sum",
        "count",
        "mean",
        "var",
        "std",
        "max",
        "min",
        "any",
        "all",
        "compute",
        "persist",
        "to_textfiles",
        "visualize",
    ]
)
_all_combined = "fold", "sum", "count", "mean", "var", "std"
_Step: TypeAlias = "Callable[[Iterator[Any]], Iterator[Any]]"
"""Values made from values one by one, each when it is asked for, as ``map`` does it."""
ROWS_PENDING = 1 << 21
"""Records whose values wait to be counted."""


class Row(NamedTuple):
    """A record by itself, as a shuffle moves it: the source records that it was made from, and why these may be too many."""

    value: Any
    ids: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()


# -- in tasks: what they get and give are batches --------------------------------------------------


class _Steps(Iterator[Rows]):
    """Steps over batches. As in Dask, a record goes through all of them before the next one goes through the first."""

    def __init__(self, batches: Iterable[Rows], *steps: _Step) -> None:
        self._batches, self._steps = batches, steps
        self._made = self._rows()

    def followed_by(self, step: _Step) -> _Steps:
        """These steps, which have not begun, and a further one."""
        return _Steps(self._batches, *self._steps, step)

    def __next__(self) -> Rows:
        return next(self._made)

    def _rows(self) -> Iterator[Rows]:
        for rows in self._batches:
            made, begins = list[Any](), list[int]()
            stream: Iterator[Any] = _noting(rows.values, begins, made)
            for step in self._steps:
                stream = step(stream)
            deque(map(made.append, stream), maxlen=0)
            is_ended = len(begins) <= len(rows.values)
            if is_ended:
                begins.append(len(made))
            places = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
            yield rows.of_values(_without_iterators(made), places)
            if is_ended:
                # A function raised StopIteration: to Dask the partition ends here.
                return


def _noting(values: list[Any], begins: list[int], made: list[Any]) -> Iterator[Any]:
    """Values; each time that one is asked for, and at the end, how many were made of those before it."""
    for value in values:
        begins.append(len(made))
        yield value
    begins.append(len(made))


def _step(batches: Iterable[Rows], step: _Step) -> _Steps:
    return batches.followed_by(step) if isinstance(batches, _Steps) else _Steps(batches, step)


def _mapped(func: Callable[..., Any], args: Any, options: Any, batches: Iterable[Rows]) -> _Steps:
    if args or options:
        func = partial(_called, func, args, options)
    return _step(batches, partial(map, func))


def _called(func: Callable[..., Any], args: Any, options: Any, value: Any) -> Any:
    return func(value, *args, **options)


def _without_iterators(values: list[Any]) -> list[Any]:
    if not any(issubclass(kind, Iterator) for kind in set(map(type, values))):
        return values
    return [list(value) if isinstance(value, Iterator) else value for value in values]


def _chosen(predicate: Callable[[Any], Any], batches: Iterable[Rows], *, keep: bool) -> _Steps:
    return _step(batches, partial(filter if keep else filterfalse, predicate))


def _spread(batches: Iterable[Rows]) -> _Steps:
    return _step(batches, chain.from_iterable)


def _gathered(func: Callable[[Any], Any], reasons: Iterable[str], batches: Iterable[Rows]) -> Rows:
    """One row, made from all rows."""
    rows = joined_rows(batches)
    (value,) = _without_iterators([func(rows.values)])
    return Rows([value], rows.origins.together(), rows.reasons.union(reasons))


def _gathered_item(func: Callable[[Any], Any], row: Rows) -> Rows:
    return next(_mapped(func, (), {}, [row]))


def _partition(func: Callable[[Any], Any], batches: Iterable[Rows]) -> Iterator[Rows]:
    return _spread([_gathered(func, [PARTITION_REASON], batches)])


def _single_rows(batches: Iterable[Rows]) -> Iterator[Row]:
    for rows in batches:
        for value, ids in zip(rows.values, rows.origins.ids(), strict=True):
            yield Row(value, ids, rows.reasons)


def _on_value(func: Callable[[Any], Any], row: Row) -> Any:
    return func(row.value)


def _groups(groups: Iterable[tuple[Any, list[Row]]]) -> Iterator[Rows]:
    groups = iter(groups)
    while batch := list(islice(groups, BATCH_RECORDS)):
        origins = origins_of(frozenset().union(*(row.ids for row in rows)) for _, rows in batch)
        reasons = frozenset[str]().union(*(row.reasons for _, rows in batch for row in rows))
        yield Rows([(key, [row.value for row in rows]) for key, rows in batch], origins, reasons)


def _starred(func: Callable[..., Any], value: Any, **options: Any) -> Any:
    return func(*value, **options)


class _Counting:
    """Numbers the values of rows, and unites where equal values were."""

    def __init__(self) -> None:
        self.numbers: defaultdict[Any, int] = defaultdict(count().__next__)
        self.reasons = frozenset[str]()
        self._counts = np.zeros(0, np.int64)
        self._origins: list[Origins] = []
        self._pending: list[tuple[I64, Origins]] = []
        self._rows = 0

    def add(self, rows: Rows) -> None:
        """Count the values of rows."""
        values, numbers = rows.values, self.numbers
        number = np.fromiter(map(numbers.__getitem__, values), np.int64, len(values))
        self._pending.append((number, rows.origins))
        self.reasons |= rows.reasons
        self._rows += len(values)
        if self._rows > ROWS_PENDING:
            self._unite()

    def _unite(self) -> None:
        number = np.concatenate([part for part, _ in self._pending])
        self._counts = _longer(self._counts, len(self.numbers))
        self._counts += np.bincount(number, minlength=len(self.numbers))
        origins = joined([part for _, part in self._pending])
        self._origins.append(origins.grouped(number, len(self.numbers)))
        self._pending, self._rows = [], 0

    def result(self) -> Rows:
        """A row for each value: the value, and how often it is there."""
        if self._pending:
            self._unite()
        values = list(zip(self.numbers, self._counts.tolist(), strict=True))
        return Rows(values, _by_number(self._origins, len(self.numbers)), self.reasons)


def _longer(counts: I64, length: int) -> I64:
    return np.concatenate((counts, np.zeros(length - len(counts), np.int64)))


def _by_number(parts: list[Origins], numbers: int) -> Origins:
    """The union of the origins of rows with equal places."""
    if len(parts) == 1:
        return parts[0]
    group = [np.arange(len(part)) for part in parts]
    return joined(parts).grouped(np.concatenate([np.zeros(0, np.int64), *group]), numbers)


def _one_batch(rows: Rows) -> list[Rows]:
    return [rows]


def _counted(batches: Iterable[Rows]) -> Rows:
    counting = _Counting()
    for rows in batches:
        counting.add(rows)
    return counting.result()


def _counted_together(parts: Iterable[Rows]) -> Rows:
    parts = list(parts)
    totals: defaultdict[Any, int] = defaultdict(int)
    for rows in parts:
        for value, number in rows.values:
            totals[value] += number
    numbers = {value: number for number, value in enumerate(totals)}
    group = [numbers[value] for rows in parts for value, _ in rows.values]
    origins = joined([rows.origins for rows in parts]).grouped(
        np.array(group, np.int64), len(numbers)
    )
    reasons = frozenset[str]().union(*(rows.reasons for rows in parts))
    return Rows(list(totals.items()), origins, reasons)


# -- in the program --------------------------------------------------------------------------------


def refuse(operator: str, *_: Any, **__: Any) -> NoReturn:
    """Refuse an operator that is not captured.

    Raises:
        UnsupportedOperatorError: always.
    """
    raise UnsupportedOperatorError(operator, "compute the bag first, and go on from its result")


class TracedItem(Item):  # type: ignore[misc]
    """One value computed from a bag; its task gives :class:`Rows` of one row."""

    to_delayed = partial(refuse, "Item.to_delayed")

    def apply(self, func: Callable[[Any], Any]) -> TracedItem:
        item = Item(self.dask, self.key).apply(partial(_gathered_item, func))
        return TracedItem(item.dask, item.key)


class TracedBag(Bag):  # type: ignore[misc]
    """A bag whose tasks give batches of rows. An operator that is not captured is refused by name."""

    reasons: tuple[str, ...] = (REDUCTION_REASON,)

    def __getattribute__(self, name: str) -> Any:
        if name in _all_combined:
            whole = _traced(self)
            whole.reasons = ()
            return partial(getattr(Bag, name), whole)
        if not name.startswith("_") and callable(getattr(Bag, name, None)) and name not in CAPTURED:
            refuse(f"Bag.{name}")
        return super().__getattribute__(name)

    def map(self, func: Callable[..., Any], *args: Any, **options: Any) -> TracedBag:
        if base.unpack_collections(args, options)[0]:
            refuse("Bag.map over several collections")
        return each_partition(self, partial(_mapped, func, args, options))

    def starmap(self, func: Callable[..., Any], **options: Any) -> TracedBag:
        return self.map(partial(_starred, func), **options)

    def filter(self, predicate: Callable[[Any], Any]) -> TracedBag:
        return each_partition(self, partial(_chosen, predicate, keep=True))

    def remove(self, predicate: Callable[[Any], Any]) -> TracedBag:
        return each_partition(self, partial(_chosen, predicate, keep=False))

    def flatten(self) -> TracedBag:
        return each_partition(self, _spread)

    def groupby(self, grouper: Callable[[Any], Any], **options: Any) -> TracedBag:
        single = bag_of_batches(each_partition(self, _single_rows))
        return each_partition(single.groupby(partial(_on_value, grouper), **options), _groups)

    def frequencies(self, split_every: Any = None, sort: bool = False) -> TracedBag:
        if sort:
            refuse("Bag.frequencies that are sorted")
        batches = bag_of_batches(self)
        counts = batches.reduction(_counted, _counted_together, split_every, out_type=Bag)
        return each_partition(counts, _one_batch)

    def map_partitions(self, func: Callable[..., Any], *args: Any, **options: Any) -> TracedBag:
        if args or base.unpack_collections(options)[0]:
            refuse("Bag.map_partitions over several collections")
        return each_partition(self, partial(_partition, partial(func, **options)))

    def reduction(
        self,
        perpartition: Any,
        aggregate: Any,
        split_every: Any = None,
        out_type: Any = Item,
        name: Any = None,
    ) -> TracedItem:
        if out_type is not Item:
            refuse("Bag.reduction into a bag")
        first, then = (partial(_gathered, func, self.reasons) for func in (perpartition, aggregate))
        item = bag_of_batches(self).reduction(first, then, split_every)
        return TracedItem(item.dask, item.key)


def bag_of_batches(traced: TracedBag) -> Bag:
    """The same bag, with batches for records."""
    return Bag(traced.dask, traced.name, traced.npartitions)


def each_partition(source: Bag, func: Callable[[Any], Any]) -> TracedBag:
    """A bag whose partitions are what a function makes of those of another."""
    name = f"{funcname(func)}-{base.tokenize(source, func)}"
    graph = {(name, n): (reify, (func, (source.name, n))) for n in range(source.npartitions)}
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[source])
    return TracedBag(layers, name, source.npartitions)


def _traced(rows: Bag) -> TracedBag:
    return TracedBag(rows.dask, rows.name, rows.npartitions)
