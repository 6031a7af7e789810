"""Dask bags and delayed calls, captured while a program runs as it is.

Records of a bag carry the addresses of the source records that they were made from. What a task gives is its
record and its lineage in one, so a task that is tried again, or computed again elsewhere, counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, partialmethod
from importlib import import_module
from itertools import count
from typing import Any, NoReturn

import dask
from dask import bag, base
from dask.bag.core import Bag, Item
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from distributed import Client

from lineage_emitter.errors import UnsupportedOperatorError
from lineage_emitter.sdk.api import LineageApi

calls = import_module("dask.delayed")  # the package has a function of this name
PARTITION_REASON = "a function over whole partitions may use any record of the partition"
REDUCTION_REASON = "a reduction may use fewer records than it is given"
SOURCES = ("from_sequence", "read_text", "range", "from_url")
MANY_BAGS = ("concat", "zip", "map", "map_partitions", "to_textfiles", "from_delayed")
CAPTURED = frozenset(
    [
        "map",
        "starmap",
        "filter",
        "remove",
        "flatten",
        "groupby",
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
        "visualize",
    ]
)
_all_combined = "fold", "sum", "count", "mean", "var", "std"


@dataclass(frozen=True, slots=True)
class Row:
    """A record, the source records that it was made from, and why these may be too many."""

    value: Any
    ids: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()


def _combined(value: Any, rows: list[Row], reasons: Iterable[str] = ()) -> Row:
    value = list(value) if isinstance(value, Iterator) else value
    ids = frozenset[str]().union(*(row.ids for row in rows))
    return Row(value, ids, frozenset(reasons).union(*(row.reasons for row in rows)))


def _numbered(space: str, records: Iterable[Any]) -> list[Row]:
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


def _refuse(operator: str, *_: Any, **__: Any) -> NoReturn:
    raise UnsupportedOperatorError(operator, "compute the bag first, and go on from its result")


class TracedItem(Item):  # type: ignore[misc]
    """One value computed from a bag; its task gives a :class:`Row`."""

    to_delayed = partial(_refuse, "Item.to_delayed")

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
            _refuse(f"Bag.{name}")
        return super().__getattribute__(name)

    def map(self, func: Callable[..., Any], *args: Any, **options: Any) -> TracedBag:
        if base.unpack_collections(args, options)[0]:
            _refuse("Bag.map over several collections")
        return _traced(_rows(self).map(partial(_mapped, func, args, options)))

    def starmap(self, func: Callable[..., Any], **options: Any) -> TracedBag:
        return self.map(partial(_starred, func), **options)

    def filter(self, predicate: Callable[[Any], Any]) -> TracedBag:
        return _traced(_rows(self).filter(partial(_on_value, predicate)))

    def remove(self, predicate: Callable[[Any], Any]) -> TracedBag:
        return _traced(_rows(self).remove(partial(_on_value, predicate)))

    def flatten(self) -> TracedBag:
        return _traced(_rows(self).map(_spread).flatten())

    def groupby(self, grouper: Callable[[Any], Any], **options: Any) -> TracedBag:
        return _traced(_rows(self).groupby(partial(_on_value, grouper), **options).map(_group))

    def map_partitions(self, func: Callable[..., Any], *args: Any, **options: Any) -> TracedBag:
        if args or base.unpack_collections(options)[0]:
            _refuse("Bag.map_partitions over several collections")
        return _traced(_rows(self).map_partitions(partial(_partition, partial(func, **options))))

    def reduction(
        self,
        perpartition: Any,
        aggregate: Any,
        split_every: Any = None,
        out_type: Any = Item,
        name: Any = None,
    ) -> TracedItem:
        if out_type is not Item:
            _refuse("Bag.reduction into a bag")
        first, then = (partial(_gathered, func, self.reasons) for func in (perpartition, aggregate))
        item = _rows(self).reduction(first, then, split_every)
        return TracedItem(item.dask, item.key)


def _rows(traced: TracedBag) -> Bag:
    return Bag(traced.dask, traced.name, traced.npartitions)


def _traced(rows: Bag) -> TracedBag:
    return TracedBag(rows.dask, rows.name, rows.npartitions)


class _Capture:
    def __init__(self, api: LineageApi) -> None:
        self.api = api
        self.numbers = count()
        self.compute = base.compute

    def source(self, make: Callable[..., Any], *args: Any, **options: Any) -> TracedBag:
        """A source of a bag, whose records are numbered in each partition."""
        made = make(*args, **options)
        node = self.api.register(
            f"{make.__name__}-{next(self.numbers)}", make.__name__, kind="source"
        )
        name = f"numbered-{node}-{made.name}"
        graph = {
            (name, n): (_numbered, f"{node}#{n}", (made.name, n)) for n in range(made.npartitions)
        }
        layers = HighLevelGraph.from_collections(name, graph, dependencies=[made])
        return TracedBag(layers, name, made.npartitions)

    def computed(self, *args: Any, **options: Any) -> tuple[Any, ...]:
        """What ``dask.compute`` gives, with its lineage."""
        for arg in args:
            if not isinstance(arg, TracedBag | TracedItem | Delayed) and (
                found := base.unpack_collections(arg)[0]
            ):
                _refuse(f"dask.compute of {type(found[0]).__name__} here")
        results = self.compute(*args, **options)
        return tuple(map(self.keep, args, results))

    def keep(self, collection: Any, result: Any) -> Any:
        """Keep the lineage of a result; gives the result as it would be without capture."""
        if isinstance(collection, Delayed):
            self.keep_calls(collection)
        if not isinstance(collection, TracedBag | TracedItem):
            return result
        rows = [result] if isinstance(result, Row) else result
        sink = self.api.register(f"compute-{next(self.numbers)}", "compute", kind="sink")
        for source in sorted({item.partition("#")[0] for row in rows for item in row.ids}):
            self.api.flow_link(source, sink)
        with self.api.task(sink) as task:
            task.superset_reason = "; ".join(sorted(set().union(*(row.reasons for row in rows))))
            for n, row in enumerate(rows):
                for item in sorted(row.ids):
                    task.add_input(item)
                task.add_output(f"{sink}#0#{n}", reset=True)
        return result.value if isinstance(result, Row) else [row.value for row in rows]

    def keep_calls(self, call: Delayed) -> None:
        """Keep the lineage of delayed calls: a value is made from its arguments. Keys name them in this result."""
        sink = self.api.register(f"delayed-{next(self.numbers)}", "delayed", kind="sink")
        with self.api.task(sink) as task:
            for key, arguments in call.dask.get_all_dependencies().items():
                for argument in arguments:
                    task.add_input(f"{sink}:{argument}", key)
                # A call without such arguments is where the data begins.
                if arguments:
                    task.add_output(f"{sink}:{key}", key)
            task.add_input(f"{sink}:{call.key}")
            task.add_output(f"{sink}#0#0")


def _check_bags(collections: Iterable[Any]) -> None:
    if not all(isinstance(one, TracedBag | TracedItem) for one in collections):
        _refuse("dask.persist of other collections than bags")


def _persisted(persist: Callable[..., Any], *args: Any, **options: Any) -> Any:
    _check_bags(args)
    return persist(*args, **options)


def _persisted_by(client: Client, persist: Callable[..., Any], kept: Any, **options: Any) -> Any:
    _check_bags(kept if isinstance(kept, list | tuple) else [kept])
    return persist(client, kept, **options)


def _argument(unpack: Callable[..., Any], argument: Any, **options: Any) -> Any:
    if isinstance(argument, TracedBag | TracedItem):
        _refuse("dask.delayed of a bag")
    return unpack(argument, **options)


def _checked(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A function of Dask that is not captured: collections here are refused by name."""
    if base.unpack_collections(args, options)[0]:
        _refuse(f"{original.__module__}.{original.__name__}")
    return original(*args, **options)


@contextmanager
def replace_operators(api: LineageApi) -> Iterator[None]:
    """As :func:`lineage_emitter.sdk.dask_capture.capture_dask`."""
    capture = _Capture(api)
    replaced: list[tuple[Any, str, Any]] = [
        (Client, "compute", partial(_refuse, "Client.compute")),
        (Client, "persist", partialmethod(_persisted_by, Client.persist)),
        (calls, "unpack_collections", partial(_argument, calls.unpack_collections)),
    ]
    for name in SOURCES:
        replaced.append((bag, name, partial(capture.source, getattr(bag, name))))
    for name in MANY_BAGS:
        replaced.append((bag, name, partial(_checked, getattr(bag, name))))
    for module in (dask, base):
        replaced.append((module, "compute", capture.computed))
        replaced.append((module, "persist", partial(_persisted, base.persist)))
    with ExitStack() as stack:
        for owner, name, replacement in replaced:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield
