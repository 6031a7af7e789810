"""Records of captured bags by their keys: a total of each key, and the source records that it was made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial, reduce
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.bag import chunk
from dask.bag.core import merge_with, no_default, pluck, reduceby

from lineage_emitter.sdk.dask_rows import Origins, Rows, joined, joined_rows

if TYPE_CHECKING:
    from lineage_core.contract.block import I64

ROWS_PENDING = 1 << 21
"""Records whose values wait to be counted."""


class Counting:
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


def counted(batches: Iterable[Rows]) -> Rows:
    counting = Counting()
    for rows in batches:
        counting.add(rows)
    return counting.result()


def counted_together(parts: Iterable[Rows]) -> Rows:
    parts = list(parts)
    totals: defaultdict[Any, int] = defaultdict(int)
    for rows in parts:
        for value, number in rows.values:
            totals[value] += number
    return _united(parts, totals)


def _united(parts: list[Rows], totals: dict[Any, Any]) -> Rows:
    """A row for each key with its total, made from what the rows of this key in any part were made from."""
    numbers = {key: number for number, key in enumerate(totals)}
    group = [numbers[key] for rows in parts for key, _ in rows.values]
    origins = joined([rows.origins for rows in parts]).grouped(
        np.array(group, np.int64), len(numbers)
    )
    reasons = frozenset[str]().union(*(rows.reasons for rows in parts))
    return Rows(list(totals.items()), origins, reasons)


def folded(key: Any, binop: Callable[..., Any], initial: Any, batches: Iterable[Rows]) -> Rows:
    """A row for each key of a partition: the key, and what is made of its values."""
    rows = joined_rows(batches)
    numbers: defaultdict[Any, int] = defaultdict(count().__next__)
    group = list[int]()
    of_value = key if callable(key) else partial(_item, key)

    def numbered_key(value: Any) -> Any:
        found = of_value(value)
        group.append(numbers[found])
        return found

    options = () if initial is no_default else (initial,)
    totals = reduceby(numbered_key, binop, rows.values, *options)
    origins = rows.origins.grouped(np.array(group, np.int64), len(numbers))
    return Rows(list(totals.items()), origins, rows.reasons)


def _item(key: Any, value: Any) -> Any:
    (item,) = pluck(key, [value])
    return item


def folded_together(combine: Callable[..., Any], initial: Any, parts: Iterable[Rows]) -> Rows:
    """A row for each key of the parts, in the order in which Dask combines them."""
    parts = list(parts)
    if initial is no_default:
        totals = merge_with(partial(reduce, combine), [dict(rows.values) for rows in parts])
    else:
        pairs = chain.from_iterable(rows.values for rows in parts)
        totals = reduceby(0, partial(chunk.foldby_combine2, combine), pairs, initial)
    return _united(parts, totals)
