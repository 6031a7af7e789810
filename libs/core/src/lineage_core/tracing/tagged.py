"""Positions beside the starting items that reached them, as ranges: what a trace of many items at once goes along.

A starting item is a number, its *tag*. Rows of ranges stand for pairs of a tag and a position: all positions of a row were reached
from its one tag, or the k-th position from the k-th tag from its first one on. Sets of pairs are never written out where
ranges say them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lineage_core.contract.block import I64, U64
from lineage_core.contract.runs import (
    Runs,
    sorted_unique,
    spread,
)
from lineage_core.tracing.budget import TooMuchError

Mask: TypeAlias = npt.NDArray[np.bool_]
PIECES_MAX = 1 << 26
"""Parts of ranges of one space in memory: some GiB. Ranges of different tags that overlap are cut where others begin and end."""
POSITION_LAST = np.uint64(2**64 - 1)
FEWER = "ask for fewer rows, or without saying which row was made of which"


@dataclass(frozen=True, slots=True, eq=False)
class TaggedRuns:
    """Pairs of tags and positions of one space.

    Row i: positions ``first[i]..last[i]`` (uint64, inclusive). Where ``each[i]`` (bool) the k-th of them belongs to tag
    ``tag[i] + k`` (int64), else all to ``tag[i]``. ``reason[i]`` (int64): 0 where the way there was exact, else the number of a reason
    why it was not.
    """

    tag: I64
    first: U64
    last: U64
    each: Mask
    reason: I64

    def __len__(self) -> int:
        return len(self.tag)

    @classmethod
    def of(cls, tag: I64, runs: Runs, each: Mask | bool, reason: I64 | int) -> TaggedRuns:
        """Rows whose ``each`` and ``reason`` may be the same for all."""
        count = len(tag)
        return cls(
            tag,
            runs[0],
            runs[1],
            np.full(count, each, np.bool_) if isinstance(each, bool) else each,
            np.full(count, reason, np.int64) if isinstance(reason, int) else reason,
        )

    def take(self, rows: Any) -> TaggedRuns:
        """Some rows, by a mask, indices or a slice."""
        columns = (self.tag, self.first, self.last, self.each, self.reason)
        return TaggedRuns(*(column[rows] for column in columns))

    @property
    def pairs(self) -> float:
        """About how many pairs they are; those that several rows hold count several times."""
        return float((self.last - self.first).sum(dtype=np.float64)) + len(self)


def tagged_runs(runs: Runs, first_tag: int | None) -> TaggedRuns:
    """Normal runs of a question: their positions numbered from a tag on, or (None) all with tag 0."""
    if first_tag is None:
        return TaggedRuns.of(np.zeros(len(runs[0]), np.int64), runs, False, 0)
    lengths = (runs[1] - runs[0]).astype(np.int64) + 1
    return TaggedRuns.of(first_tag + np.cumsum(lengths) - lengths, runs, True, 0)


NO_ROWS = TaggedRuns.of(np.empty(0, np.int64), (np.empty(0, np.uint64),) * 2, False, 0)


def concatenated(parts: Sequence[TaggedRuns]) -> TaggedRuns:
    """The rows of all parts."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return NO_ROWS
    names = ("tag", "first", "last", "each", "reason")
    return TaggedRuns(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def compacted(rows: TaggedRuns) -> TaggedRuns:
    """The same pairs and reasons in few rows: of rows of one kind none overlaps another.

    However often a pair was reached, afterwards at most two rows of a reason hold it. Without this, items with two
    ways to each of the steps before them would double at each step.
    """
    if len(rows) < 2:
        return rows
    is_each = rows.each & (rows.last > rows.first)
    whole = rows.take(~is_each)
    at, first, last = _merged((whole.tag, whole.reason), whole.first, whole.last)
    whole = TaggedRuns.of(whole.tag[at], (first, last), False, whole.reason[at])
    # Single pairs may be a part of ranges of tags: the next tag with the next position.
    is_single = whole.first == whole.last
    pairs = concatenated((rows.take(is_each), whole.take(is_single)))
    shift = pairs.first - pairs.tag.astype(np.uint64)
    tags = pairs.tag.astype(np.uint64)
    at, first, last = _merged((shift, pairs.reason), tags, tags + (pairs.last - pairs.first))
    shift = shift[at]
    ranges = (first + shift, last + shift)
    joined = TaggedRuns.of(first.astype(np.int64), ranges, True, pairs.reason[at])
    return concatenated((whole.take(~is_single), joined))


def _merged(keys: Sequence[npt.NDArray[Any]], first: U64, last: U64) -> tuple[I64, U64, U64]:
    """Runs of equal keys that overlap or touch as one: the index of one of them, where they begin and end."""
    if len(first) == 0:
        return np.empty(0, np.int64), first, last
    order = np.lexsort((first, *keys))
    first, last = first[order], last[order]
    is_new = np.zeros(len(order), np.bool_)
    is_new[0] = True
    for key in keys:
        ordered = key[order]
        is_new[1:] |= ordered[1:] != ordered[:-1]
    # The largest end so far of the same keys: ranks of ends, each group's above those of the one before.
    ends = sorted_unique(last)
    group = (np.cumsum(is_new) - 1) * len(ends)
    reach = ends[np.maximum.accumulate(group + np.searchsorted(ends, last)) - group]
    apart = (first[1:] > reach[:-1]) & (first[1:] - reach[:-1] > 1)
    is_new[1:] |= apart
    starts = np.flatnonzero(is_new)
    stops = np.append(starts[1:], len(order)) - 1
    return order[starts], first[starts], reach[stops]


def clipped(rows: TaggedRuns, at: I64, first: U64, last: U64) -> TaggedRuns:
    """Parts ``first..last`` of rows ``at``, which lie within these."""
    each = rows.each[at]
    skipped = np.where(each, (first - rows.first[at]).astype(np.int64), 0)
    return TaggedRuns(rows.tag[at] + skipped, first, last, each, rows.reason[at])


def each_tag(rows: TaggedRuns, owner: I64) -> tuple[I64, I64, I64]:
    """Tags of rows written out, each once for an owner: owner, tag, and reason.

    ``owner``: of each row. Rows that all belong to one tag give one.

    Raises:
        TooMuchError: there are too many.
    """
    counts = np.where(rows.each, rows.last - rows.first, np.uint64(0)).astype(np.int64) + 1
    if counts.sum(dtype=np.float64) > PIECES_MAX:
        raise TooMuchError("too many rows of the question were made of the same ones", FEWER)
    at, step = spread(counts)
    owner, tag, reason = owner[at], rows.tag[at] + step, rows.reason[at]
    order = np.lexsort((reason, tag, owner))
    owner, tag, reason = owner[order], tag[order], reason[order]
    is_new = np.ones(len(order), np.bool_)
    if len(order):
        is_new[1:] = (owner[1:] != owner[:-1]) | (tag[1:] != tag[:-1]) | (reason[1:] != reason[:-1])
    return owner[is_new], tag[is_new], reason[is_new]


class TaggedIndex:
    """Finds the parts of tagged ranges that lie in others.

    Raises:
        TooMuchError: the ranges overlap in too many ways.
    """

    def __init__(self, rows: TaggedRuns) -> None:
        self.rows = rows
        after = rows.last[rows.last != POSITION_LAST] + np.uint64(1)
        cuts = sorted_unique(np.concatenate((rows.first, after)))
        low = np.searchsorted(cuts, rows.first)
        counts = np.searchsorted(cuts, rows.last, side="right") - low
        if counts.sum() > PIECES_MAX:
            raise TooMuchError("the rows of the question share too many others", FEWER)
        owner, step = spread(counts.astype(np.int64))
        piece = low[owner] + step
        held = np.bincount(piece, minlength=len(cuts)).astype(np.int64)
        is_held = held > 0
        ends = np.append(cuts[1:] - np.uint64(1), POSITION_LAST)[: len(cuts)]
        self._first, self._last = cuts[is_held], ends[is_held]
        self._count = held[is_held]
        self._start = np.cumsum(self._count) - self._count
        self._members = owner[np.argsort(piece, kind="stable")]

    def hits(self, first: U64, last: U64) -> Hits:
        """The parts of any runs that lie in some of the ranges."""
        low = np.searchsorted(self._last, first, side="left")
        high = np.maximum(np.searchsorted(self._first, last, side="right"), low)
        run, step = spread((high - low).astype(np.int64))
        piece = low[run] + step
        return Hits(
            run,
            np.maximum(first[run], self._first[piece]),
            np.minimum(last[run], self._last[piece]),
            piece,
            self._count[piece],
        )

    def parts(self, hits: Hits, start: int, stop: int) -> tuple[I64, TaggedRuns]:
        """Of some hits the run of each, and the rows of the index cut to them."""
        some = slice(start, stop)
        at, step = spread(hits.members[some])
        member = self._members[self._start[hits.piece[some]][at] + step]
        rows = clipped(self.rows, member, hits.first[some][at], hits.last[some][at])
        return hits.run[some][at], rows


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Parts of runs that lie in ranges of an index: ``members`` of them each."""

    run: I64
    first: U64
    last: U64
    piece: I64
    members: I64

    def batches(self, pairs: int) -> list[tuple[int, int]]:
        """Slices of hits with about so many members each."""
        total = np.cumsum(self.members)
        if not len(total):
            return []
        targets = np.arange(pairs, int(total[-1]), pairs)
        cuts = sorted_unique(np.append(np.searchsorted(total, targets) + 1, len(total)))
        starts = np.concatenate(([0], cuts[:-1]))
        return [(int(a), int(b)) for a, b in zip(starts, cuts, strict=True)]
