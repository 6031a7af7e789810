"""What processes of Spark do between two applications: items at which the trace of one ends become items of others; see `exchange`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from lineage_core.codec.tagged_runs import unpack_tagged
from lineage_core.tracing.space_parts import ANY
from lineage_core.tracing.tagged import TaggedRuns, clipped, compacted, concatenated
from lineage_dataframes.lakes.exchange import RowKind, end_rows, item_rows, to_batch

_REASON: Final = 5
"""The place of ``reason`` among the columns of rows between processes: of items, the number of their application here."""


@dataclass(frozen=True, slots=True)
class Onward:
    """Items ``first..last`` of a space are, ``shift`` further (modulo 2**64), those of ``space`` of the application with a number. ``reason``: of the way."""

    first: int
    last: int
    app: int
    space: str
    shift: int
    reason: int


@dataclass(frozen=True, slots=True)
class SpaceOnward:
    """Where items of a space go on, and the ranges of those that are ends."""

    links: Sequence[Onward]
    ends: Sequence[tuple[int, int]]


def onward_rows(
    batches: Iterable[pa.RecordBatch], spaces: Mapping[str, SpaceOnward]
) -> Iterator[pa.RecordBatch]:
    """Items found (rows of kind `FOUND`) as items of other applications, with their numbers as ``reason``; and those that are ends."""
    for space, part, found in _tagged(batches):
        onward = spaces[space]
        for first, last in onward.ends:
            yield from end_rows(space, part, RowKind.FOUND, _within(found, first, last))
        for link in onward.links:
            some = _within(found, link.first, link.last)
            if not len(some):
                continue
            shift = np.uint64(link.shift)
            reason = np.where(some.reason == 0, link.reason, some.reason)
            moved = replace(some, first=some.first + shift, last=some.last + shift, reason=reason)
            for row in item_rows(link.space, ANY, moved):
                yield to_batch([(*row[:_REASON], link.app, *row[_REASON + 1 :])])


def merged_ends(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Items found several times once; ``batches`` are in the order of space and part."""
    at: tuple[str, int] | None = None
    parts: list[TaggedRuns] = []
    for space, part, found in _tagged(batches):
        if at is not None and at != (space, part):
            yield from end_rows(*at, RowKind.FOUND, compacted(concatenated(parts)))
            parts = []
        at = space, part
        parts.append(found)
    if at is not None:
        yield from end_rows(*at, RowKind.FOUND, compacted(concatenated(parts)))


def _tagged(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, int, TaggedRuns]]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("space", "part", "payload")]
        for space, part, payload in zip(*columns, strict=True):
            yield space, part, unpack_tagged(payload)


def _within(rows: TaggedRuns, first: int, last: int) -> TaggedRuns:
    low, high = np.uint64(first), np.uint64(last)
    at = np.flatnonzero((rows.first <= high) & (rows.last >= low))
    return clipped(rows, at, np.maximum(rows.first[at], low), np.minimum(rows.last[at], high))
