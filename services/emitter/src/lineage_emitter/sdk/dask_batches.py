"""What tasks of captured bags do with batches of records, and with the source records that each was made from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, filterfalse, islice
from random import Random
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from dask.bag.core import no_default, pluck, safe_take

from lineage_emitter.sdk.dask_rows import (
    BATCH_RECORDS,
    Rows,
    joined_rows,
    origins_of,
)

PARTITION_REASON = "a function over whole partitions may use any record of the partition"
_Step: TypeAlias = "Callable[[Iterator[Any]], Iterator[Any]]"
"""Values made from values one by one, each when it is asked for, as ``map`` does it."""


class Row(NamedTuple):
    """A record by itself, as a shuffle moves it: the source records that it was made from, and why these may be too many."""

    value: Any
    ids: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()


class Steps(Iterator[Rows]):
    """Steps over batches. As in Dask, a record goes through all of them before the next one goes through the first."""

    def __init__(self, batches: Iterable[Rows], *steps: _Step) -> None:
        self._batches, self._steps = batches, steps
        self._made = self._rows()

    def followed_by(self, step: _Step) -> Steps:
        """These steps, which have not begun, and a further one."""
        return Steps(self._batches, *self._steps, step)

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


def _step(batches: Iterable[Rows], step: _Step) -> Steps:
    return batches.followed_by(step) if isinstance(batches, Steps) else Steps(batches, step)


def mapped(func: Callable[..., Any], args: Any, options: Any, batches: Iterable[Rows]) -> Steps:
    if args or options:
        func = partial(_called, func, args, options)
    return _step(batches, partial(map, func))


def _called(func: Callable[..., Any], args: Any, options: Any, value: Any) -> Any:
    return func(value, *args, **options)


def _without_iterators(values: list[Any]) -> list[Any]:
    if not any(issubclass(kind, Iterator) for kind in set(map(type, values))):
        return values
    return [list(value) if isinstance(value, Iterator) else value for value in values]


def chosen(predicate: Callable[[Any], Any], batches: Iterable[Rows], *, keep: bool) -> Steps:
    return _step(batches, partial(filter if keep else filterfalse, predicate))


def spread_out(batches: Iterable[Rows]) -> Steps:
    return _step(batches, chain.from_iterable)


def gathered(func: Callable[[Any], Any], reasons: Iterable[str], batches: Iterable[Rows]) -> Rows:
    """One row, made from all rows."""
    rows = joined_rows(batches)
    (value,) = _without_iterators([func(rows.values)])
    return Rows([value], rows.origins.together(), rows.reasons.union(reasons))


def gathered_item(func: Callable[[Any], Any], row: Rows) -> Rows:
    return next(mapped(func, (), {}, [row]))


def partition(func: Callable[[Any], Any], batches: Iterable[Rows]) -> Iterator[Rows]:
    return spread_out([gathered(func, [PARTITION_REASON], batches)])


def single_rows(batches: Iterable[Rows]) -> Iterator[Row]:
    for rows in batches:
        for value, ids in zip(rows.values, rows.origins.ids(), strict=True):
            yield Row(value, ids, rows.reasons)


def on_value(func: Callable[[Any], Any], row: Row) -> Any:
    return func(row.value)


def groups(groups: Iterable[tuple[Any, list[Row]]]) -> Iterator[Rows]:
    groups = iter(groups)
    while batch := list(islice(groups, BATCH_RECORDS)):
        origins = origins_of(frozenset().union(*(row.ids for row in rows)) for _, rows in batch)
        reasons = frozenset[str]().union(*(row.reasons for _, rows in batch for row in rows))
        yield Rows([(key, [row.value for row in rows]) for key, rows in batch], origins, reasons)


def starred(func: Callable[..., Any], value: Any, **options: Any) -> Any:
    return func(*value, **options)


def one_batch(rows: Rows) -> list[Rows]:
    return [rows]


def plucked(key: Any, default: Any, batches: Iterable[Rows]) -> Steps:
    """Each row's item, or items, as ``Bag.pluck`` has them."""
    return _step(batches, partial(_items, key, default))


def _items(key: Any, default: Any, values: Iterator[Any]) -> Iterator[Any]:
    yield from pluck(key, values) if default is no_default else pluck(key, values, default)


class _First:
    """A step that gives so many values of all batches, and asks for no more than these."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, values: Iterator[Any]) -> Iterator[Any]:
        for value in islice(values, self._left):
            self._left -= 1
            yield value


def first_rows(number: int, batches: Iterable[Rows]) -> Steps:
    """The first rows of a partition."""
    return _step(batches, _First(number))


def first_of_all(number: int, warn: bool, parts: Iterable[Iterable[Rows]]) -> list[Rows]:
    """The first rows of all partitions; warns of fewer as Dask does."""
    rows = joined_rows(first_rows(number, _of_parts(parts)))
    safe_take(number, rows.values, warn)
    return [rows]


def _of_parts(parts: Iterable[Iterable[Rows]]) -> Iterable[Rows]:
    # The only part is given as it is: its steps run together with those that follow.
    parts = list(parts)
    return parts[0] if len(parts) == 1 else chain.from_iterable(parts)


class _Sample:
    """A step that gives each value of all batches with a probability, as Dask draws them."""

    def __init__(self, probability: float, state: Any) -> None:
        self._probability, self._random = probability, Random()
        self._random.setstate(state)

    def __call__(self, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            if self._random.random() < self._probability:
                yield value


def sampled(probability: float, state: Any, batches: Iterable[Rows]) -> Steps:
    """Rows of a partition that are drawn from this state on."""
    return _step(batches, _Sample(probability, state))
