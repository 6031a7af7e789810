"""Bags of Dask whose records carry the addresses of the source records that they were made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from random import Random
from typing import Any

from dask import base
from dask.bag.core import Bag, Item, no_default, random_state_data_python, reify
from dask.highlevelgraph import HighLevelGraph
from dask.utils import funcname

from lineage_emitter.sdk.dask_batches import (
    chosen,
    first_of_all,
    first_rows,
    gathered,
    gathered_item,
    groups,
    mapped,
    on_value,
    one_batch,
    partition,
    plucked,
    sampled,
    single_rows,
    spread_out,
    starred,
)
from lineage_emitter.sdk.dask_keys import counted, counted_together, folded, folded_together
from lineage_emitter.sdk.dask_refusals import INSIDE, refuse

REDUCTION_REASON = "a reduction may use fewer records than it is given"
CAPTURED = frozenset(
    [
        "map",
        "starmap",
        "filter",
        "remove",
        "flatten",
        "pluck",
        "random_sample",
        "take",
        "distinct",
        "foldby",
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


class TracedItem(Item):  # type: ignore[misc]
    """One value computed from a bag; its task gives :class:`Rows` of one row."""

    to_delayed = partial(refuse, "Item.to_delayed")

    def apply(self, func: Callable[[Any], Any]) -> TracedItem:
        item = Item(self.dask, self.key).apply(partial(gathered_item, func))
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
        return each_partition(self, partial(mapped, func, args, options))

    def starmap(self, func: Callable[..., Any], **options: Any) -> TracedBag:
        return self.map(partial(starred, func), **options)

    def filter(self, predicate: Callable[[Any], Any]) -> TracedBag:
        return each_partition(self, partial(chosen, predicate, keep=True))

    def remove(self, predicate: Callable[[Any], Any]) -> TracedBag:
        return each_partition(self, partial(chosen, predicate, keep=False))

    def flatten(self) -> TracedBag:
        return each_partition(self, spread_out)

    def pluck(self, key: Any, default: Any = no_default) -> TracedBag:
        return each_partition(self, partial(plucked, key, default))

    def random_sample(self, prob: float, random_state: Any = None) -> TracedBag:
        if not 0 <= prob <= 1:
            raise ValueError("prob must be a number in the interval [0, 1]")
        if not isinstance(random_state, Random):
            random_state = Random(random_state)
        name = f"random-sample-{base.tokenize(self, prob, random_state.getstate())}"
        states = random_state_data_python(self.npartitions, random_state)
        graph = {
            (name, n): (reify, (partial(sampled, prob, state), (self.name, n)))
            for n, state in enumerate(states)
        }
        layers = HighLevelGraph.from_collections(name, graph, dependencies=[self])
        return TracedBag(layers, name, self.npartitions)

    def take(self, k: int, npartitions: int = 1, compute: bool = True, warn: bool = True) -> Any:
        if npartitions <= -1:
            npartitions = self.npartitions
        if npartitions > self.npartitions:
            raise ValueError(f"only {self.npartitions} partitions, take received {npartitions}")
        name = f"take-{base.tokenize(self, k, npartitions, warn)}"
        graph: dict[Any, Any] = {
            (f"{name}-part", n): (reify, (partial(first_rows, k), (self.name, n)))
            for n in range(npartitions)
        }
        graph[name, 0] = (partial(first_of_all, k, warn), list(graph))
        layers = HighLevelGraph.from_collections(name, graph, dependencies=[self])
        taken = TracedBag(layers, name, 1)
        return tuple(taken.compute()) if compute else taken

    def distinct(self, key: Any = None) -> TracedBag:
        if key is not None:
            refuse("Bag.distinct by a key")
        return self.frequencies().map(itemgetter(0))

    def foldby(
        self,
        key: Any,
        binop: Callable[..., Any],
        initial: Any = no_default,
        combine: Callable[..., Any] | None = None,
        combine_initial: Any = no_default,
        split_every: Any = None,
    ) -> TracedBag:
        first = partial(folded, key, binop, initial)
        then = partial(folded_together, combine or binop, combine_initial)
        totals = bag_of_batches(self).reduction(first, then, split_every, out_type=Bag)
        return each_partition(totals, one_batch)

    def groupby(self, grouper: Callable[[Any], Any], **options: Any) -> TracedBag:
        single = bag_of_batches(each_partition(self, single_rows))
        return each_partition(single.groupby(partial(on_value, grouper), **options), groups)

    def frequencies(self, split_every: Any = None, sort: bool = False) -> TracedBag:
        if sort:
            refuse("Bag.frequencies that are sorted")
        batches = bag_of_batches(self)
        counts = batches.reduction(counted, counted_together, split_every, out_type=Bag)
        return each_partition(counts, one_batch)

    def map_partitions(self, func: Callable[..., Any], *args: Any, **options: Any) -> TracedBag:
        if args or base.unpack_collections(options)[0]:
            refuse("Bag.map_partitions over several collections")
        return each_partition(self, partial(partition, partial(func, **options)))

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
        first, then = (partial(gathered, func, self.reasons) for func in (perpartition, aggregate))
        item = bag_of_batches(self).reduction(first, then, split_every)
        return TracedItem(item.dask, item.key)


def bag_of_batches(traced: TracedBag) -> Bag:
    """The same bag, with batches for records."""
    return Bag(traced.dask, traced.name, traced.npartitions)


def concatenated(concat: Callable[..., Any], bags: Iterable[Any]) -> Any:
    """As ``bag.concat``, of bags that are captured."""
    bags = list(bags)
    if not all(isinstance(part, TracedBag) for part in bags):
        refuse("dask.bag.concat of other collections than captured bags", way_out=INSIDE)
    return _traced(concat(bags))


def each_partition(source: Bag, func: Callable[[Any], Any]) -> TracedBag:
    """A bag whose partitions are what a function makes of those of another."""
    name = f"{funcname(func)}-{base.tokenize(source, func)}"
    graph = {(name, n): (reify, (func, (source.name, n))) for n in range(source.npartitions)}
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[source])
    return TracedBag(layers, name, source.npartitions)


def _traced(rows: Bag) -> TracedBag:
    return TracedBag(rows.dask, rows.name, rows.npartitions)
