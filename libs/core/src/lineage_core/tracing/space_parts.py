"""Parts of spaces that are crossed apart from each other, and what of blocks and of tagged positions belongs to each.

A part is a space, and in an exchange space, where the records of all tasks of a shuffle are, those that one task sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from lineage_core.contract.address import ORDINAL_BITS, SpaceKind
from lineage_core.contract.block import I64, U64, FlowBlock, Relation, Section
from lineage_core.contract.region import Region
from lineage_core.contract.runs import (
    sorted_unique,
    spread,
    subtract_runs,
    union_runs,
)
from lineage_core.linking.attempts import was_read
from lineage_core.tracing.block_lookup import cached_space
from lineage_core.tracing.budget import TooMuchError
from lineage_core.tracing.crossing import inputs_of_rows
from lineage_core.tracing.tagged import (
    FEWER,
    PIECES_MAX,
    TaggedIndex,
    TaggedRuns,
    compacted,
    concatenated,
)
from lineage_core.tracing.tagged_crossing import TaggedCrossing
from lineage_core.tracing.tagged_pairs import written_out

ANY: Final = "*"
"""Of positions that are no keys: whatever attempt put them out or read them."""
_BITS: Final = np.uint64(ORDINAL_BITS)


def by_part(space: str, rows: TaggedRuns) -> Iterator[tuple[int, TaggedRuns]]:
    """Tagged positions of a space by its parts.

    Raises:
        TooMuchError: ranges go over more parts than a shuffle has tasks.
    """
    if cached_space(space).kind is not SpaceKind.EXCHANGE:
        yield 0, rows
        return
    at, part = _parts(rows.first, rows.last)
    low = part.astype(np.uint64) << _BITS
    high = low + (np.uint64(1) << _BITS) - np.uint64(1)
    first, last = np.maximum(rows.first[at], low), np.minimum(rows.last[at], high)
    skipped = np.where(rows.each[at], (first - rows.first[at]).astype(np.int64), 0)
    cut = TaggedRuns(rows.tag[at] + skipped, first, last, rows.each[at], rows.reason[at])
    for number in sorted_unique(part).tolist():
        yield number, cut.take(part == number)


def _parts(first: U64, last: U64) -> tuple[I64, I64]:
    """Which runs lie in which parts of an exchange space: the index of a run, and the part."""
    low = (first >> _BITS).astype(np.int64)
    counts = (last >> _BITS).astype(np.int64) - low + 1
    if counts.sum(dtype=np.float64) > PIECES_MAX:
        raise TooMuchError("a range of records goes over more tasks than a shuffle has")
    at, step = spread(counts)
    return at, low[at] + step


def block_parts(
    block: FlowBlock, spaces: Mapping[str, object], *, backward: bool
) -> Iterator[tuple[str, int, FlowBlock]]:
    """What of a block is crossed from each part of some spaces: backward from its outputs, forward from its inputs.

    A block of a part has all inputs (outputs) of the outputs (inputs) that lie in the part, and perhaps others.
    The texts of its records are left out.
    """
    block = replace(block, values=None)
    if not backward:
        if block.in_space in spaces:
            last = block.in_first if block.in_last is None else block.in_last
            owner = _row_of_run(block)
            for space, part, some in _parts_of(block, block.in_space, owner, block.in_first, last):
                # Rows without inputs of their own are made from all of them, too.
                yield space, part, block if block.relation is Relation.ALL else some
        return
    last = block.out_first if block.out_last is None else block.out_last
    for space in dict.fromkeys(section.space for section in block.out):
        if space not in spaces:
            continue
        rows = np.concatenate(
            [np.arange(s.row_first, s.row_stop) for s in block.out if s.space == space]
        ).astype(np.int64)
        yield from _parts_of(block, space, rows, block.out_first[rows], last[rows])


def _parts_of(
    block: FlowBlock, space: str, owner: I64, first: U64, last: U64
) -> Iterator[tuple[str, int, FlowBlock]]:
    """The rows of a block by the parts in which their runs lie. ``owner``: the row of each run."""
    if not len(first):
        return
    if cached_space(space).kind is not SpaceKind.EXCHANGE:
        yield space, 0, _with_rows(block, owner)
        return
    at, part = _parts(first, last)
    for number in sorted_unique(part).tolist():
        yield space, number, _with_rows(block, owner[at[part == number]])


def _row_of_run(block: FlowBlock) -> I64:
    if block.in_ptr is None:
        return np.arange(block.rows, dtype=np.int64)
    return spread(np.diff(block.in_ptr))[0]


def _with_rows(block: FlowBlock, some: I64) -> FlowBlock:
    """A block with some of its rows alone. If each output is from all inputs, the inputs are all kept."""
    rows = sorted_unique(some)
    if len(rows) == block.rows:
        return block
    in_first, in_last = inputs_of_rows(block, rows)
    counts = np.ones(len(rows), np.int64)
    if block.in_ptr is not None:
        counts = block.in_ptr[rows + 1] - block.in_ptr[rows]
    if block.relation is Relation.ALL:
        all_last = block.in_first if block.in_last is None else block.in_last
        in_first, in_last = union_runs([(block.in_first, all_last)])
        counts = np.zeros(len(rows), np.int64)
        counts[:1] = len(in_first)
    sections, at = list[Section](), 0
    for section in block.out:
        low, high = np.searchsorted(rows, (section.row_first, section.row_stop))
        if low < high:
            sections.append(Section(section.space, at, at + int(high - low)))
            at += int(high - low)
    return replace(
        block,
        out=tuple(sections),
        in_first=in_first,
        in_last=None if in_last is in_first else in_last,
        in_ptr=np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))),
        out_first=block.out_first[rows],
        out_last=None if block.out_last is None else block.out_last[rows],
    )


@dataclass(frozen=True, slots=True)
class PartKind:
    """What the parts of some spaces have in common.

    ``is_source``: nothing but what comes from outside is made there. ``reason``: the number of the reason why items there are a superset;
    0: they are exact.
    """

    backward: bool
    is_source: bool = False
    reason: int = 0


class PartTrace:
    """The trace through one part of a space: blocks with inputs are crossed first, then those without, then what is left is an end.

    ``arrivals``: what was reached there, by the attempts that count: backward as text the attempts that a reader read, forward the one
    that put it out; `ANY` where all do.
    """

    def __init__(self, space: str, arrivals: Mapping[str, TaggedRuns], kind: PartKind) -> None:
        self._kind = kind
        self._is_keyed = cached_space(space).kind is SpaceKind.KEYS
        self._crossings = {
            reader: TaggedCrossing(
                TaggedIndex(compacted(_reasoned(rows, kind.reason))), space, kind.backward
            )
            for reader, rows in arrivals.items()
        }
        self._is_open: bool | None = None

    def cross(
        self, block: FlowBlock, reason: int
    ) -> tuple[bool, Iterator[tuple[str, str, TaggedRuns]]]:
        """Cross a block: whether it holds any of the positions, and what they lead to, by space and attempts.

        Raises:
            TooMuchError: rows of the question share too many others.
        """
        if not len(block.in_first) and not self._takes_valueless():
            return False, iter(())
        reached = []
        for reader, crossing in self._crossings.items():
            if self._is_read(reader, block):
                found = crossing.cross(block, reason)
                if found is not None:
                    reached.append(found)
        return bool(reached), (
            (space, self._reader_in(space, block), rows)
            for found in reached
            for space, rows in found
        )

    def _takes_valueless(self) -> bool:
        """Whether blocks without inputs are crossed: they say that items were made of nothing, unless others say of what."""
        if self._is_open is None:
            self._is_open = (
                self._kind.backward and not self._kind.is_source and bool(len(self.ends()))
            )
        return self._is_open

    def _is_read(self, reader: str, block: FlowBlock) -> bool:
        if reader == ANY:
            return True
        if self._kind.backward:
            return was_read(Region.from_text(reader), block.block_id.attempt)
        return was_read(block.attempts_read, int(reader))

    def _reader_in(self, space: str, block: FlowBlock) -> str:
        if cached_space(space).kind is not SpaceKind.KEYS:
            return ANY
        if not self._kind.backward:
            return str(block.block_id.attempt)
        return ANY if block.attempts_read is None else block.attempts_read.to_text()

    def ends(self) -> TaggedRuns:
        """The positions that no block held.

        Raises:
            TooMuchError: they are too many, of several attempts at a task.
        """
        ends = {}
        for reader, crossing in self._crossings.items():
            rows = crossing.index.rows
            if crossing.seen:
                crossing.seen[:] = [union_runs(crossing.seen)]
                whole = union_runs([(rows.first, rows.last)])
                hits = TaggedIndex(rows).hits(*subtract_runs(whole, crossing.seen[0]))
                rows = TaggedIndex(rows).parts(hits, 0, len(hits.run))[1]
            ends[reader] = rows
        if len(ends) > 1:
            ends = self._of_no_attempt(ends)
        return compacted(concatenated(list(ends.values())))

    def _of_no_attempt(self, ends: Mapping[str, TaggedRuns]) -> dict[str, TaggedRuns]:
        """Ends without the pairs that another attempt led on from."""
        left = {}
        for reader, rows in ends.items():
            left[reader] = rows
            for other, crossing in self._crossings.items():
                if other != reader and crossing.seen:
                    left[reader] = _without(left[reader], crossing)
        return left


def _without(rows: TaggedRuns, crossing: TaggedCrossing) -> TaggedRuns:
    """Pairs without those that a crossing held and led on from; they are written out, as such are few."""
    if rows.pairs > PIECES_MAX:
        raise TooMuchError("attempts at tasks were read differently, by too many rows", FEWER)
    singles = written_out(rows)
    seen = union_runs(crossing.seen)
    held = crossing.index
    hits = held.hits(singles.first, singles.first)
    run, members = held.parts(hits, 0, len(hits.run))
    is_same = members.tag == singles.tag[run]
    is_seen = Region(*seen).contains(singles.first[run])
    is_left = np.ones(len(singles), np.bool_)
    is_left[run[is_same & is_seen]] = False
    return singles.take(is_left)


def _reasoned(rows: TaggedRuns, reason: int) -> TaggedRuns:
    if not reason:
        return rows
    why = np.where(rows.reason == 0, reason, rows.reason)
    return TaggedRuns(rows.tag, rows.first, rows.last, rows.each, why)
