"""Regions: sets of positions of one space, as runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from lineage_core.contract.block import U64
from lineage_core.contract.digits import PAD, find_bytes, parse_numbers
from lineage_core.contract.runs import (
    count_positions,
    intersect_runs,
    normalise,
    spread,
    subtract_runs,
    union_runs,
)
from lineage_core.errors import RegionError

_SPACE, _DASH = 32, 45
_EMPTY = np.empty(0, np.uint64)


class Region:
    """A set of positions: the runs ``first[i]..last[i]`` (uint64, inclusive ends).

    Runs are in order, disjoint and not adjacent, so that equal sets are equal regions.
    Immutable; iterating gives the runs as pairs of ints. Its text is like ``0-3 7 12``.
    """

    __slots__ = ("first", "last")

    first: U64
    last: U64

    def __init__(self, first: U64 = _EMPTY, last: U64 | None = None) -> None:
        """Take runs that are in order, disjoint and not adjacent; ``last`` None: as ``first``.

        Raises:
            RegionError: they are not, or not uint64 of one length.
        """
        last = first if last is None else last
        _check_runs(first, last)
        self._set(first, last)

    def _set(self, first: U64, last: U64) -> None:
        for name, ends in (("first", first), ("last", last)):
            view = ends.view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a region can't change: {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a region can't change: {name}")

    def __reduce__(self) -> tuple[type[Region], tuple[U64, U64]]:
        return Region, (self.first, self.last)

    @classmethod
    def _of(cls, runs: tuple[U64, U64]) -> Region:
        region = object.__new__(cls)
        region._set(*runs)
        return region

    @classmethod
    def from_positions(cls, positions: Iterable[int] | npt.NDArray[np.integer]) -> Region:
        """The region of some positions, in any order, repeated or not.

        Raises:
            RegionError: a position is not 0 to 2**64 - 1.
        """
        ends = _unsigned(positions)
        return cls._of(normalise(ends, ends))

    @classmethod
    def of_runs(cls, first: U64, last: U64) -> Region:
        """The region of some runs (uint64, inclusive ends), in any order, overlapping or not."""
        return cls._of(normalise(first, last))

    @classmethod
    def from_text(cls, text: str) -> Region:
        """Read a region from its text, in the one form that :meth:`to_text` gives.

        Raises:
            RegionError: anything else; ``where`` names the run.
        """
        if not text:
            return cls()
        if not text.isascii():
            raise RegionError(f"{text!r:.80} is not a region (like 0-3 7 12)")
        buffer = np.frombuffer(bytes(PAD) + text.encode() + bytes(PAD), np.uint8)
        end = len(buffer) - PAD
        inner = find_bytes(buffer, (_SPACE, _DASH))
        stop = np.append(inner, end)
        start = np.concatenate(([PAD], inner + 1))
        numbers, bad = parse_numbers(buffer, start, stop)
        closes = np.concatenate(([False], buffer[inner] == _DASH))
        bad[1:] |= closes[1:] & closes[:-1]
        closing = np.flatnonzero(closes)
        bad[closing] |= numbers[closing] <= numbers[closing - 1]
        run_of = np.cumsum(~closes) - 1
        _refuse(bad, "is not a position, or first-last with first below last", run_of)
        first = numbers[~closes]
        last = first.copy()
        last[run_of[closing]] = numbers[closing]
        return cls(first, last)

    def to_text(self) -> str:
        """The region as text: ``0-3 7 12``."""
        pairs = zip(self.first.tolist(), self.last.tolist(), strict=True)
        return " ".join([f"{a}-{b}" if a != b else str(a) for a, b in pairs])

    @property
    def count(self) -> int:
        """Number of positions (up to 2**64)."""
        return count_positions((self.first, self.last))

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.first)

    @staticmethod
    def union(regions: Iterable[Region]) -> Region:
        """Positions that are in any of the regions."""
        return Region._of(union_runs([(region.first, region.last) for region in regions]))

    def intersect(self, other: Region) -> Region:
        """Positions that are in both."""
        return Region._of(intersect_runs((self.first, self.last), (other.first, other.last)))

    def minus(self, other: Region) -> Region:
        """Positions of this region that are not in the other."""
        return Region._of(subtract_runs((self.first, self.last), (other.first, other.last)))

    __and__ = intersect
    __sub__ = minus

    def __or__(self, other: Region) -> Region:
        return Region.union((self, other))

    def contains(self, positions: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """For each position, whether it is in the region.

        Raises:
            RegionError: a position is not 0 to 2**64 - 1.
        """
        unsigned = _unsigned(positions)
        if not len(self.first):
            return np.zeros(len(unsigned), np.bool_)
        at = np.searchsorted(self.last, unsigned)
        inside: npt.NDArray[np.bool_] = at < len(self.first)
        inside[inside] = self.first[at[inside]] <= unsigned[inside]
        return inside

    def positions(self, limit: int | None = None) -> U64:
        """The positions in order: uint64, the first ``limit`` of them or all.

        All of a wide region may not fit in memory; :attr:`count_positions` returns its size without expanding it.
        """
        part = self if limit is None else self.slice(0, limit)
        sizes = (part.last - part.first + np.uint64(1)).astype(np.int64)
        owner, step = spread(sizes)
        positions: U64 = part.first[owner] + step.astype(np.uint64)
        return positions

    def slice(self, offset: int, limit: int) -> Region:
        """At most ``limit`` positions, in order, from the ``offset``-th (from 0) on.

        Raises:
            RegionError: one of them is negative.
        """
        if offset < 0 or limit < 0:
            raise RegionError(f"offset {offset}, limit {limit}: must not be negative")
        stop = min(offset + limit, self.count)
        if offset >= stop:
            return Region()
        sizes = self.last - self.first
        preceding = np.zeros(len(sizes), np.uint64)
        np.cumsum(sizes[:-1] + np.uint64(1), out=preceding[1:])
        start, end = np.uint64(offset), np.uint64(stop - 1)
        low = int(np.searchsorted(preceding, start, side="right")) - 1
        high = int(np.searchsorted(preceding, end, side="right"))
        first, last = self.first[low:high].copy(), self.last[low:high].copy()
        last[-1] = first[-1] + (end - preceding[high - 1])
        first[0] += start - preceding[low]
        return Region._of((first, last))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.first.tolist(), self.last.tolist(), strict=True)

    def __bool__(self) -> bool:
        return len(self.first) > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region):
            return NotImplemented
        same = np.array_equal(self.first, other.first)
        return same and np.array_equal(self.last, other.last)

    def __hash__(self) -> int:
        return hash((self.first.tobytes(), self.last.tobytes()))

    def __repr__(self) -> str:
        text = self.to_text() if self.runs <= 8 else f"{Region(*self._head(8)).to_text()} ..."
        return f"Region({text!r})"

    def _head(self, runs: int) -> tuple[U64, U64]:
        return self.first[:runs], self.last[:runs]


def _unsigned(numbers: Iterable[int] | npt.NDArray[np.integer]) -> U64:
    if not isinstance(numbers, np.ndarray):
        try:
            return np.fromiter(numbers, np.uint64)
        except (OverflowError, TypeError, ValueError) as error:
            raise RegionError(f"not positions: {error}", where="positions") from error
    if numbers.dtype == np.uint64:
        return numbers.view(np.uint64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise RegionError(f"{numbers.dtype} is not a column of integers", where="positions")
    if numbers.dtype.kind == "i" and bool((numbers < 0).any()):
        raise RegionError("a position is negative", where="positions")
    return numbers.astype(np.uint64)


def _check_runs(first: U64, last: U64) -> None:
    if first.dtype != np.uint64 or last.dtype != np.uint64 or first.ndim != 1:
        raise RegionError("must be columns of uint64", where="runs")
    if first.shape != last.shape:
        raise RegionError(f"{len(first)} begins and {len(last)} ends", where="runs")
    _refuse(last < first, "ends before it begins")
    apart = (first[1:] > last[:-1]) & (first[1:] - last[:-1] > 1)
    broken = np.concatenate(([False], ~apart))[: len(first)]
    _refuse(broken, "does not follow the previous run after a gap")


def _refuse(
    broken: npt.NDArray[np.bool_], message: str, run_of: npt.NDArray[np.int64] | None = None
) -> None:
    if broken.any():
        at = int(broken.argmax())
        raise RegionError(message, where=f"run {at if run_of is None else int(run_of[at])}")
