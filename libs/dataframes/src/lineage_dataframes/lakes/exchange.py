"""What processes of Spark do in a trace through a lake: cut blocks and tagged positions into parts of spaces, and cross each part.

All of it runs where Spark's workers are, of the packages that are installed there; nothing here needs Spark itself. Rows between
processes have the columns of `ROWS`; what stands in ``payload`` is packed as the lake's blocks are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lineage_core.codec.columns import pack_block, unpack_block
from lineage_core.codec.tagged_runs import pack_tagged, unpack_tagged
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.tracing.budget import TooMuchError
from lineage_core.tracing.space_parts import PartKind, PartTrace, block_parts, by_part
from lineage_core.tracing.tagged import TaggedRuns, compacted, concatenated
from lineage_core.tracing.tagged_pairs import by_tags
from lineage_core.tracing.tagged_plan import group_of
from lineage_store.signed import BIAS

ITEMS_AT_ONCE: Final = 1 << 20
"""Ranges that a process collects before it sends them on."""
CHUNK_ROWS: Final = 1 << 16
"""Ranges in one payload: at most some MiB."""
PAIRS_AT_ONCE: Final = 1 << 18
"""Pairs of results in one payload; more where they are all of one item."""


class RowKind(IntEnum):
    """What a row between processes is. The order is that in which the rows of a part are taken."""

    ITEMS = 0
    BLOCK = 1
    VALUES = 2
    """A block without inputs."""
    FOUND = 3
    MISSING = 4
    """Items past which nothing is known."""
    MET = 5
    """A reason, by its number, that holds of what was crossed."""
    REFUSED = 6
    """The trace takes more than it may; ``reader`` says why."""


ROWS: Final[dict[str, tuple[str, pa.DataType]]] = {
    "grp": ("STRING", pa.string()),
    "space": ("STRING", pa.string()),
    "part": ("BIGINT", pa.int64()),
    "kind": ("INT", pa.int32()),
    "reader": ("STRING", pa.string()),
    "reason": ("BIGINT", pa.int64()),
    "low": ("BIGINT", pa.int64()),
    "high": ("BIGINT", pa.int64()),
    "ranges": ("BIGINT", pa.int64()),
    "pairs": ("DOUBLE", pa.float64()),
    "payload": ("BINARY", pa.binary()),
}
"""Columns: Spark's type and Arrow's. ``low`` and ``high``: of all positions, less 2**63."""
ROWS_DDL: Final = ", ".join(f"{name} {ddl}" for name, (ddl, _) in ROWS.items())
_SCHEMA: Final = pa.schema([(name, kind) for name, (_, kind) in ROWS.items()])
_Row: TypeAlias = tuple[Any, ...]


def to_batch(rows: Iterable[_Row]) -> pa.RecordBatch:
    """Rows between processes as Spark takes them."""
    columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _SCHEMA.types, strict=True)]
    return pa.record_batch(arrays, schema=_SCHEMA)


def item_rows(space: str, reader: str, rows: TaggedRuns) -> Iterator[_Row]:
    """Tagged positions as rows between processes."""
    group = group_of(space)
    for part, of_part in by_part(space, rows):
        for start in range(0, len(of_part), CHUNK_ROWS):
            chunk = of_part.take(slice(start, start + CHUNK_ROWS))
            yield _row_of(group, space, part, RowKind.ITEMS, reader, chunk)


def _row_of(
    group: str, space: str, part: int, kind: RowKind, reader: str, rows: TaggedRuns
) -> _Row:
    low, high = int(rows.first.min()) - BIAS, int(rows.last.max()) - BIAS
    packed = pack_tagged(rows)
    return group, space, part, int(kind), reader, 0, low, high, len(rows), rows.pairs, packed


@dataclass(frozen=True, slots=True)
class Cutting:
    """How blocks are cut.

    ``spaces``: those that the trace goes on from. ``hidden``: blocks that are not visible. ``decided``: why blocks are supersets, of those
    whose partition was computed several times; empty: they are not. ``numbers``: of reasons, by node and reason.
    """

    backward: bool
    spaces: frozenset[str]
    hidden: frozenset[BlockId]
    decided: Mapping[BlockId, str]
    numbers: Mapping[tuple[str, str], int]

    def number(self, block_id: BlockId, reason: str, *, exact: bool) -> int:
        """The number of the reason why a block is a superset; 0: it is exact."""
        if block_id in self.decided:
            reason = self.decided[block_id]
            exact = not reason
        return 0 if exact else self.numbers[block_id.node, reason]


BLOCK_COLUMNS: Final = ("node", "partition", "attempt", "seq", "exact", "reason", "data")


def cut_blocks(batches: Iterable[pa.RecordBatch], cutting: Cutting) -> Iterator[pa.RecordBatch]:
    """Blocks of the lake by the parts of spaces that they are crossed from; ``batches`` have `BLOCK_COLUMNS`."""
    spaces = dict.fromkeys(cutting.spaces)
    for batch in batches:
        for *key, exact, reason, data in zip(
            *(batch.column(name).to_pylist() for name in BLOCK_COLUMNS), strict=True
        ):
            block_id = BlockId(*key)
            if block_id in cutting.hidden:
                continue
            block = unpack_block(data)
            number = cutting.number(block_id, reason or "", exact=exact)
            rows = []
            for space, part, some in block_parts(block, spaces, backward=cutting.backward):
                is_whole = some.rows == block.rows and block.values is None
                packed = data if is_whole else pack_block(some)
                kind = RowKind.BLOCK if len(some.in_first) else RowKind.VALUES
                rows.append(("", space, part, int(kind), "", number, 0, 0, some.rows, 0.0, packed))
            if rows:
                yield to_batch(rows)


@dataclass(frozen=True, slots=True)
class Crossing:
    """How the parts of a group of spaces are crossed. ``ends``: what items are that no block continues; None: nothing."""

    kind: PartKind
    ends: RowKind | None


def cross_parts(batches: Iterable[pa.RecordBatch], crossing: Crossing) -> Iterator[pa.RecordBatch]:
    """Cross parts of spaces: their items and blocks, in the order of space, part and kind."""
    step = _Step(crossing)
    rows = _rows_of(batches)
    try:
        for row in rows:
            yield from step.take(row)
        yield from step.finish()
    except TooMuchError as error:
        for _ in rows:
            pass
        yield to_batch([("", "", 0, int(RowKind.REFUSED), str(error), 0, 0, 0, 0, 0.0, b"")])


def _rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    names = ("space", "part", "kind", "reader", "reason", "payload")
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in names]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))


@dataclass(slots=True)
class _Step:
    """The parts that one task of Spark crosses, one after the other."""

    crossing: Crossing
    at: tuple[str, int] | None = None
    arrivals: dict[str, list[TaggedRuns]] = field(default_factory=dict)
    trace: PartTrace | None = None
    met: set[int] = field(default_factory=set)
    reached: dict[tuple[str, str], list[TaggedRuns]] = field(default_factory=dict)
    waiting: int = 0

    def take(self, row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """Take the next row."""
        if (row["space"], row["part"]) != self.at:
            yield from self._end()
            self.at = row["space"], row["part"]
        if row["kind"] == RowKind.ITEMS:
            self.arrivals.setdefault(row["reader"], []).append(unpack_tagged(row["payload"]))
            return
        trace = self._opened()
        if trace is not None:
            yield from self._cross(trace, unpack_block(row["payload"]), row["reason"])

    def _opened(self) -> PartTrace | None:
        """The trace through the part; None where no item is in it."""
        if self.trace is None and self.arrivals and self.at is not None:
            arrivals = {reader: concatenated(parts) for reader, parts in self.arrivals.items()}
            self.trace = PartTrace(self.at[0], arrivals, self.crossing.kind)
            self.arrivals = {}
        return self.trace

    def _cross(self, trace: PartTrace, block: FlowBlock, reason: int) -> Iterator[pa.RecordBatch]:
        is_met, reached = trace.cross(block, reason)
        if is_met:
            self.met.add(reason)
        for space, reader, rows in reached:
            self.reached.setdefault((space, reader), []).append(rows)
            self.waiting += len(rows)
            if self.waiting > ITEMS_AT_ONCE:
                yield from self._sent()

    def _sent(self) -> Iterator[pa.RecordBatch]:
        """What was reached so far."""
        for (space, reader), parts in self.reached.items():
            for row in item_rows(space, reader, compacted(concatenated(parts))):
                yield to_batch([row])
        self.reached, self.waiting = {}, 0

    def _end(self) -> Iterator[pa.RecordBatch]:
        """What is left of a part when all of its blocks are crossed."""
        trace = self._opened()
        self.trace, self.arrivals = None, {}
        if trace is None or self.at is None or self.crossing.ends is None:
            return
        yield from end_rows(*self.at, self.crossing.ends, trace.ends())

    def finish(self) -> Iterator[pa.RecordBatch]:
        """What is left when all parts are crossed."""
        yield from self._end()
        yield from self._sent()
        rows = [
            ("", "", 0, int(RowKind.MET), "", number, 0, 0, 0, 0.0, b"")
            for number in sorted(self.met - {0})
        ]
        if rows:
            yield to_batch(rows)


def end_rows(space: str, part: int, kind: RowKind, ends: TaggedRuns) -> Iterator[pa.RecordBatch]:
    """Tagged positions of a part of a space that lead to no others; ``ends``: no row of one tag overlaps another."""
    for some in by_tags(ends, PAIRS_AT_ONCE):
        for start in range(0, len(some), PAIRS_AT_ONCE):
            chunk = some.take(slice(start, start + PAIRS_AT_ONCE))
            yield to_batch([_row_of(group_of(space), space, part, kind, "", chunk)])


def ranges_of(low: int, high: int) -> tuple[int, int]:
    """Positions of the columns ``low`` and ``high``."""
    return low + BIAS, high + BIAS
