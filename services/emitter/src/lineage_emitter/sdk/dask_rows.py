"""Records of Dask's bags in batches: which records of sources each was made from stands in columns beside them.

A column costs a few nanoseconds a record where an object for each record costs a microsecond: most of what capture costs is here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lineage_core.contract.runs import sorted_unique, spread
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.worker.recorders import split_by_runs

if TYPE_CHECKING:
    from lineage_core.contract.block import I64, U64

BATCH_RECORDS = 1 << 9
"""Records in a batch: few, so that what a function makes of them stays in the processor's caches."""
ITEMS_EXPANDED = 1 << 21
"""Items of rows that are written out at a time."""
POSITION_BITS = np.uint64(40)
"""Bits of an item that are its position in its space; those above say which space it is."""
SPACES_MAX = 1 << 24
POSITIONS_MAX = (1 << int(POSITION_BITS)) - 1
"""Positions in a space. One is never used: so the last item of a space and the first one of the next are not beside each other."""
_POSITIONS = np.uint64(POSITIONS_MAX)


class Flows(NamedTuple):
    """Flows of one input space, as :meth:`TaskCapture.capture_columns` takes them."""

    in_space: str
    in_first: U64
    in_last: U64 | None
    in_ptr: I64 | None
    out: U64


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """Of each row the items of sources that it was made from.

    Rows that were made from the same items share a set of them. ``items``: uint64[m], positions and, above them, indexes of
    ``spaces``. ``ptr``: int64[sets + 1], the set ``s`` is ``items[ptr[s]:ptr[s + 1]]``, each item once; None: a set of one
    item for each row. ``set_of``: int64[rows], of each row its set; None: each row has the set at its place.
    """

    spaces: tuple[str, ...]
    items: U64
    ptr: I64 | None = None
    set_of: I64 | None = None

    def __len__(self) -> int:
        if self.set_of is not None:
            return len(self.set_of)
        return len(self.items) if self.ptr is None else len(self.ptr) - 1

    def take(self, rows: I64) -> Origins:
        """The origins of some rows, in the order given, repeats allowed."""
        if self.ptr is None:
            return Origins(self.spaces, self.items[rows])
        set_of = rows if self.set_of is None else self.set_of[rows]
        return Origins(self.spaces, self.items, self.ptr, set_of)

    def grouped(self, group: I64, groups: int) -> Origins:
        """The union of the origins of each group of rows. ``group``: of each row the number of its group, from 0."""
        owner, items = group, self.items
        if self.ptr is not None:
            sets = np.arange(len(self.ptr) - 1) if self.set_of is None else self.set_of
            owner, chosen = _unique_pairs(group, sets.astype(np.uint64))
            at, step = spread(np.diff(self.ptr)[chosen.astype(np.int64)])
            items = items[self.ptr[chosen.astype(np.int64)][at] + step]
            owner = owner[at]
        owner, items = _unique_pairs(owner, items)
        ptr = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=groups))))
        return Origins(self.spaces, items, ptr)

    def together(self) -> Origins:
        """The origins of one row that is made from all of them."""
        return self.grouped(np.zeros(len(self), np.int64), 1)

    def ids(self) -> Iterator[frozenset[str]]:
        """The addresses of the items of each row."""
        places = [
            f"{self.spaces[code]}#{position}"
            for code, position in zip(
                (self.items >> POSITION_BITS).tolist(),
                (self.items & _POSITIONS).tolist(),
                strict=True,
            )
        ]
        ptr = range(len(places) + 1) if self.ptr is None else self.ptr.tolist()
        sets = [frozenset(places[low:high]) for low, high in pairwise(ptr)]
        yield from sets if self.set_of is None else map(sets.__getitem__, self.set_of.tolist())

    def flows(self) -> Iterator[Flows]:
        """Flows of the rows, whose outputs are numbered from 0; a row without items is in none of them."""
        sizes = np.ones(len(self.items), np.int64) if self.ptr is None else np.diff(self.ptr)
        items_before = np.cumsum(sizes if self.set_of is None else sizes[self.set_of])
        start = 0
        while start < len(items_before):
            before = int(items_before[start - 1]) if start else 0
            stop = int(np.searchsorted(items_before, before + ITEMS_EXPANDED, side="right"))
            stop = max(stop, start + 1)
            rows = np.arange(start, stop)
            yield from self._flows_of(rows)
            start = stop

    def _flows_of(self, rows: I64) -> Iterator[Flows]:
        part = self._part(int(rows[0]), int(rows[-1]) + 1)
        if part is None:
            part = self.take(rows).grouped(rows - rows[0], len(rows))
        assert part.ptr is not None
        row = np.repeat(rows, np.diff(part.ptr))
        if not len(row):
            return
        begins = np.ones(len(row), np.bool_)
        begins[1:] = (row[1:] != row[:-1]) | (part.items[1:] - part.items[:-1] != np.uint64(1))
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(row)) - 1
        row, first_item, last_item = row[first], part.items[first], part.items[last]
        space = (first_item >> POSITION_BITS).astype(np.int64)
        order = np.argsort(space, kind="stable")
        row, space = row[order], space[order]
        first_item, last_item = first_item[order] & _POSITIONS, last_item[order] & _POSITIONS
        bounds = np.flatnonzero(np.diff(space, prepend=-1, append=-1)).tolist()
        for low, high in pairwise(bounds):
            out = np.flatnonzero(np.diff(row[low:high], prepend=-1))
            of_row, _, runs = split_by_runs(np.diff(np.append(out, high - low)))
            firsts, lasts = first_item[low:high], last_item[low:high]
            yield Flows(
                self.spaces[int(space[low])],
                firsts,
                None if bool((firsts == lasts).all()) else lasts,
                None if len(of_row) == len(firsts) else np.concatenate(([0], np.cumsum(runs))),
                row[low:high][out][of_row].astype(np.uint64),
            )

    def _part(self, start: int, stop: int) -> Origins | None:
        """Rows next to each other, where each has a set of its own that is in order."""
        if self.ptr is None or self.set_of is not None:
            return None
        low, high = int(self.ptr[start]), int(self.ptr[stop])
        items, ptr = self.items[low:high], self.ptr[start : stop + 1] - low
        rises = np.ones(high - low + 1, np.bool_)
        rises[1:-1] = items[1:] > items[:-1]
        rises[ptr] = True
        return Origins(self.spaces, items, ptr) if rises.all() else None

    def without_items(self) -> U64:
        """The rows that were made from nothing."""
        if self.ptr is None:
            return np.zeros(0, np.uint64)
        is_empty = np.diff(self.ptr) == 0
        rows = np.flatnonzero(is_empty if self.set_of is None else is_empty[self.set_of])
        return rows.astype(np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Records, the source records that each was made from, and why these may be too many."""

    values: list[Any]
    origins: Origins
    reasons: frozenset[str] = frozenset()

    def of_values(self, values: list[Any], places: I64) -> Rows:
        """Values, each made from the row at its place."""
        return Rows(values, self.origins.take(places), self.reasons)


def numbered(space: str, records: Iterable[Any]) -> Iterator[Rows]:
    """Records of a source, by their place in it.

    Raises:
        CaptureFailedError: there are more than an item can name.
    """
    records, start = iter(records), 0
    while values := list(islice(records, BATCH_RECORDS)):
        if start + len(values) > POSITIONS_MAX:
            raise CaptureFailedError(f"{space} has more than {POSITIONS_MAX:,} records")
        positions = np.arange(start, start + len(values), dtype=np.uint64)
        yield Rows(values, Origins((space,), positions))
        start += len(values)


def joined_rows(batches: Iterable[Rows]) -> Rows:
    """Rows of batches behind one another."""
    batches = list(batches)
    return Rows(
        list(chain.from_iterable(rows.values for rows in batches)),
        joined([rows.origins for rows in batches]),
        frozenset[str]().union(*(rows.reasons for rows in batches)),
    )


def joined(parts: Sequence[Origins]) -> Origins:
    """The origins of all rows of parts, behind one another.

    Raises:
        CaptureFailedError: they are of too many spaces.
    """
    if len(parts) == 1:
        return parts[0]
    codes = {name: n for n, name in enumerate(dict.fromkeys(n for p in parts for n in p.spaces))}
    if len(codes) > SPACES_MAX:
        raise CaptureFailedError(f"records of more than {SPACES_MAX} partitions in one place")
    spaces = tuple(codes)
    items = [np.zeros(0, np.uint64), *(_recoded(part, spaces, codes) for part in parts)]
    if all(part.ptr is None for part in parts):
        return Origins(spaces, np.concatenate(items))
    ptr, set_of = [np.zeros(1, np.int64)], list[Any]()
    item_count = set_count = 0
    for part in parts:
        ends = np.arange(1, len(part.items) + 1) if part.ptr is None else part.ptr[1:]
        ptr.append(ends + item_count)
        of_row = np.arange(len(ends)) if part.set_of is None else part.set_of
        set_of.append(of_row + set_count)
        item_count, set_count = item_count + len(part.items), set_count + len(ends)
    return Origins(spaces, np.concatenate(items), np.concatenate(ptr), np.concatenate(set_of))


def origins_of(ids: Iterable[frozenset[str]]) -> Origins:
    """Origins of rows that were made from the items of these addresses.

    Raises:
        CaptureFailedError: a position is larger than an item can name.
    """
    sets: dict[frozenset[str], int] = {}
    set_of = [sets.setdefault(of_row, len(sets)) for of_row in ids]
    codes: dict[str, int] = {}
    items = list[int]()
    for address in chain.from_iterable(sets):
        space, _, position = address.rpartition("#")
        if int(position) >= POSITIONS_MAX:
            raise CaptureFailedError(
                f"{address}: positions from {POSITIONS_MAX:,} on are not captured"
            )
        items.append(codes.setdefault(space, len(codes)) << int(POSITION_BITS) | int(position))
    ptr = np.concatenate(([0], np.cumsum(np.fromiter(map(len, sets), np.int64, len(sets)))))
    return Origins(tuple(codes), np.array(items, np.uint64), ptr, np.array(set_of, np.int64))


def _recoded(part: Origins, spaces: Sequence[str], codes: dict[str, int]) -> U64:
    """Items of a part, whose spaces are those of ``codes``."""
    if part.spaces == spaces[: len(part.spaces)]:
        return part.items
    code = np.array([codes[space] for space in part.spaces], np.uint64) << POSITION_BITS
    items: U64 = (part.items & _POSITIONS) | code[(part.items >> POSITION_BITS).astype(np.int64)]
    return items


def _unique_pairs(major: I64, minor: U64) -> tuple[I64, U64]:
    """Pairs of two numbers in order, each once."""
    if len(major) < 2:
        return major, minor
    is_same = major[1:] == major[:-1]
    if bool(((major[1:] > major[:-1]) | (is_same & (minor[1:] > minor[:-1]))).all()):
        return major, minor
    low = minor.min()
    bits = int(minor.max() - low).bit_length()
    if int(major.max()).bit_length() + bits <= 64:
        shift = np.uint64(bits)
        pairs = sorted_unique((major.astype(np.uint64) << shift) | (minor - low))
        mask = np.uint64((1 << bits) - 1)
        return (pairs >> shift).astype(np.int64), (pairs & mask) + low
    order = np.lexsort((minor, major))
    major, minor = major[order], minor[order]
    is_new = np.ones(len(major), np.bool_)
    is_new[1:] = (major[1:] != major[:-1]) | (minor[1:] != minor[:-1])
    return major[is_new], minor[is_new]


__all__ = ["Flows", "Origins", "Rows", "joined", "joined_rows", "numbered", "origins_of"]
