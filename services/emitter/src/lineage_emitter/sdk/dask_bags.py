"""Bags of Dask whose records carry the addresses of the source records that they were made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, NoReturn

from dask import base
from dask.bag.core import Bag, Item

from lineage_emitter.errors import UnsupportedOperatorError

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


class Row(NamedTuple):
    """A record, the source records that it was made from, and why these may be too many."""

    value: Any
    ids: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()


def _combined(value: Any, rows: list[Row], reasons: Iterable[str] = ()) -> Row:
    value = list(value) if isinstance(value, Iterator) else value
    ids = frozenset[str]().union(*(row.ids for row in rows))
    return Row(value, ids, frozenset(reasons).union(*(row.reasons for row in rows)))


def numbered(space: str, records: Iterable[Any]) -> list[Row]:
    """Records of a source, by their place in it."""
    return [Row(record, frozenset((f"{space}#{n}",))) for n, record in enumerate(records)]


def _mapped(func: Callable[..., Any], args: Any, options: Any, row: Row) -> Row:
    return _combined(func(row.value, *args, **options), [row])


def _on_value(func: Callable[[Any], Any], row: Row) -> Any:
    return func(row.value)


def _spread(row: Row) -> list[Row]:
    return [Row(value, row.ids, row.reasons) for value in row.value]


def _starred(func: Callable[..., Any], value: Any, **options: Any) -> Any:
    return func(*value, **options)


def _gathered(func: Callable[[Any], Any], reasons: Iterable[str], rows: Iterable[Row]) -> Row:
    rows = list(rows)
    return _combined(func([row.value for row in rows]), rows, reasons)


def _partition(func: Callable[[Any], Any], rows: Iterable[Row]) -> list[Row]:
    return _spread(_gathered(func, [PARTITION_REASON], rows))


def _group(group: tuple[Any, list[Row]]) -> Row:
    return _combined((group[0], [row.value for row in group[1]]), group[1])


class _Count:
    """How often a value is there, and where it was."""

    __slots__ = ("count", "ids", "reasons")

    def __init__(self) -> None:
        self.count, self.ids, self.reasons = 0, set[str](), set[str]()


def _counted(rows: Iterable[Row]) -> dict[Any, _Count]:
    counts: defaultdict[Any, _Count] = defaultdict(_Count)
    for value, ids, reasons in rows:
        counted = counts[value]
        counted.count += 1
        counted.ids |= ids
        counted.reasons |= reasons
    return dict(counts)


def _counted_together(parts: Iterable[dict[Any, _Count]]) -> dict[Any, _Count]:
    whole: defaultdict[Any, _Count] = defaultdict(_Count)
    for part in parts:
        for value, counted in part.items():
            total = whole[value]
            total.count += counted.count
            total.ids |= counted.ids
            total.reasons |= counted.reasons
    return dict(whole)


def _count_rows(counts: dict[Any, _Count]) -> list[Row]:
    return [
        Row((value, each.count), frozenset(each.ids), frozenset(each.reasons))
        for value, each in counts.items()
    ]


def refuse(operator: str, *_: Any, **__: Any) -> NoReturn:
    """Refuse an operator that is not captured.

    Raises:
        UnsupportedOperatorError: always.
    """
    raise UnsupportedOperatorError(operator, "compute the bag first, and go on from its result")


class TracedItem(Item):  # type: ignore[misc]
    """One value computed from a bag; its task gives a :class:`Row`."""

    to_delayed = partial(refuse, "Item.to_delayed")

    def apply(self, func: Callable[[Any], Any]) -> TracedItem:
        item = Item(self.dask, self.key).apply(partial(_mapped, func, (), {}))
        return TracedItem(item.dask, item.key)


class TracedBag(Bag):  # type: ignore[misc]
    """A bag whose tasks give rows. An operator that is not captured is refused by name."""

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
        return _traced(bag_of_rows(self).map(partial(_mapped, func, args, options)))

    def starmap(self, func: Callable[..., Any], **options: Any) -> TracedBag:
        return self.map(partial(_starred, func), **options)

    def filter(self, predicate: Callable[[Any], Any]) -> TracedBag:
        return _traced(bag_of_rows(self).filter(partial(_on_value, predicate)))

    def remove(self, predicate: Callable[[Any], Any]) -> TracedBag:
        return _traced(bag_of_rows(self).remove(partial(_on_value, predicate)))

    def flatten(self) -> TracedBag:
        return _traced(bag_of_rows(self).map(_spread).flatten())

    def groupby(self, grouper: Callable[[Any], Any], **options: Any) -> TracedBag:
        return _traced(
            bag_of_rows(self).groupby(partial(_on_value, grouper), **options).map(_group)
        )

    def frequencies(self, split_every: Any = None, sort: bool = False) -> TracedBag:
        if sort:
            refuse("Bag.frequencies that are sorted")
        counts = bag_of_rows(self).reduction(_counted, _counted_together, split_every, out_type=Bag)
        return _traced(counts.map_partitions(_count_rows))

    def map_partitions(self, func: Callable[..., Any], *args: Any, **options: Any) -> TracedBag:
        if args or base.unpack_collections(options)[0]:
            refuse("Bag.map_partitions over several collections")
        return _traced(
            bag_of_rows(self).map_partitions(partial(_partition, partial(func, **options)))
        )

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
        item = bag_of_rows(self).reduction(first, then, split_every)
        return TracedItem(item.dask, item.key)


def bag_of_rows(traced: TracedBag) -> Bag:
    """The same bag, with rows for records."""
    return Bag(traced.dask, traced.name, traced.npartitions)


def _traced(rows: Bag) -> TracedBag:
    return TracedBag(rows.dask, rows.name, rows.npartitions)
