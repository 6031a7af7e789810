"""Tagged ranges as pairs: in parts that fit into memory, and each pair once; see :mod:`lineage_core.tracing.tagged`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lineage_core.contract.block import I64
from lineage_core.contract.runs import EMPTY, sorted_unique, spread, subtract_runs, union_runs
from lineage_core.tracing.tagged import TaggedRuns, clipped, concatenated


def by_tags(rows: TaggedRuns, most: int) -> Iterator[TaggedRuns]:
    """The same pairs in parts of about ``most`` of them at most, none in two parts; all of one tag may be a larger one.

    Of a larger one no pair is in two rows.
    """
    pending = [(rows, int(rows.tag.min()), int(_last_tags(rows).max()))] if len(rows) else []
    while pending:
        some, low, high = pending.pop()
        if some.pairs <= most:
            yield some
        elif low == high:
            yield _once(some, low)
        else:
            middle = (low + high) // 2
            for begin, end in ((middle + 1, high), (low, middle)):
                half = _of_tags(some, begin, end)
                if len(half):
                    pending.append((half, begin, end))


def _last_tags(rows: TaggedRuns) -> I64:
    return rows.tag + np.where(rows.each, (rows.last - rows.first).astype(np.int64), 0)


def _of_tags(rows: TaggedRuns, low: int, high: int) -> TaggedRuns:
    at = np.flatnonzero((rows.tag <= high) & (_last_tags(rows) >= low))
    some = rows.take(at)
    before = np.where(some.each, np.maximum(low - some.tag, 0), 0).astype(np.uint64)
    after = np.where(some.each, np.maximum(_last_tags(some) - high, 0), 0).astype(np.uint64)
    return clipped(rows, at, some.first + before, some.last - after)


def _once(rows: TaggedRuns, tag: int) -> TaggedRuns:
    """All positions of the one tag of some rows, each once: with the smallest reason."""
    covered, parts = EMPTY, []
    for reason in sorted_unique(rows.reason).tolist():
        some = rows.take(rows.reason == reason)
        runs = subtract_runs(union_runs([(some.first, some.last)]), covered)
        covered = union_runs([covered, runs])
        parts.append(TaggedRuns.of(np.full(len(runs[0]), tag, np.int64), runs, False, reason))
    return concatenated(parts)


def written_out(rows: TaggedRuns) -> TaggedRuns:
    """One row for each pair of each row."""
    at, step = spread((rows.last - rows.first).astype(np.int64) + 1)
    position = rows.first[at] + step.astype(np.uint64)
    tag = rows.tag[at] + np.where(rows.each[at], step, 0)
    return TaggedRuns.of(tag, (position, position), False, rows.reason[at])


def distinct_pairs(rows: TaggedRuns, most: int) -> Iterator[TaggedRuns]:
    """One row for each pair, with its smallest reason: exact where a way to it is; about ``most`` at a time.

    ``rows``: a part of `by_tags`.
    """
    if rows.pairs <= most:
        singles = written_out(rows)
        order = np.lexsort((singles.reason, singles.first, singles.tag))
        tag, position = singles.tag[order], singles.first[order]
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (tag[1:] != tag[:-1]) | (position[1:] != position[:-1])
        yield singles.take(order[is_new])
        return
    lengths = rows.last - rows.first
    for at in range(len(rows)):
        row, length = rows.take(slice(at, at + 1)), int(lengths[at])
        for start in range(0, length + 1, most):
            begin = row.first + np.uint64(start)
            end = np.minimum(row.last, begin + np.uint64(most - 1))
            yield written_out(clipped(row, np.zeros(1, np.int64), begin, end))
