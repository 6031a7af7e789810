"""Blocks and edges in the form in which they are stored, and sent to be stored.

Columns are compressed bytes beside their bounds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lineage_core.codec.columns import pack_block
from lineage_core.codec.zstd import decompress
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.block_check import BLOCK_RUNS_MAX
from lineage_core.contract.block_header import header_of
from lineage_core.contract.graph import EdgeBatch
from lineage_core.errors import RecordBatchError
from lineage_core.linking.joining import JoinEntry, join_entry_of

_EDGE_HEADER = struct.Struct("<BBB")
_EDGE_VERSION = 1
_WIDTHS = (np.uint8, np.uint16, np.uint32)
_DELTAS = 0x80
"""Set in a column's width where the column is stored as differences (it never decreases)."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedBlock:
    """A block ready to be stored and linked; its own columns are no longer needed.

    ``in_low``/``in_high``: None when no row has an input. ``sections``: (space, low, high), each
    space once.
    """

    block_id: BlockId
    in_space: str
    in_low: int | None
    in_high: int | None
    rows: int
    associations: int
    exact: bool
    reason: str
    sections: tuple[tuple[str, int, int], ...]
    data: bytes
    entry: JoinEntry

    @property
    def nbytes(self) -> int:
        """Bytes that the block keeps in memory."""
        return len(self.data) + self.entry.nbytes


def pack_for_store(
    block: FlowBlock,
    is_source: Callable[[str], bool] = lambda node: False,
    associations: int | None = None,
) -> PackedBlock:
    """Pack a block. ``associations``: their number, if the caller has counted them.

    Raises:
        AddressError: a space of the block can't be read.
    """
    entry = join_entry_of(block, is_source)
    in_last = block.in_first if block.in_last is None else block.in_last
    empty = len(block.in_first) == 0
    return PackedBlock(
        block_id=block.block_id,
        in_space=block.in_space,
        in_low=None if empty else int(block.in_first.min()),
        in_high=None if empty else int(in_last.max()),
        rows=block.rows,
        associations=header_of(block).associations if associations is None else associations,
        exact=block.exact,
        reason=block.reason,
        sections=tuple((space, side.low, side.high) for space, side in entry.outputs.items()),
        data=pack_block(block),
        entry=entry,
    )


def pack_edge(edge: EdgeBatch) -> bytes | None:
    """Row columns of an edge batch; None when they are implied."""
    if edge.rows_producer is None or edge.rows_consumer is None:
        return None
    consumer, consumer_width = _narrow(edge.rows_consumer)
    producer, producer_width = _narrow(edge.rows_producer)
    header = _EDGE_HEADER.pack(_EDGE_VERSION, consumer_width, producer_width)
    return header + _codec().compress(consumer + producer, asbytes=True)


def unpack_edge(pairs: int, data: bytes) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """(producer rows, consumer rows), both uint32 of shape (pairs,).

    Raises:
        RecordBatchError: the bytes are damaged.
    """
    try:
        version, consumer_width, producer_width = _EDGE_HEADER.unpack_from(data)
        if version != _EDGE_VERSION:
            raise RecordBatchError(f"edges of version {version} are not known", where="edges")
        if not 0 <= pairs <= BLOCK_RUNS_MAX:
            raise RecordBatchError(
                f"{pairs} pairs, at most {BLOCK_RUNS_MAX} are written out", where="edges"
            )
        sizes = [
            pairs * np.dtype(_integer_type(width)).itemsize
            for width in (consumer_width, producer_width)
        ]
        raw = decompress(data[_EDGE_HEADER.size :], sum(sizes))
        if len(raw) != sum(sizes):
            raise RecordBatchError(f"{len(raw)} bytes of rows for {pairs} pairs", where="edges")
        consumer = _widen(raw[: sizes[0]], consumer_width)
        producer = _widen(raw[sizes[0] :], producer_width)
    except (struct.error, ValueError, OSError, KeyError) as error:
        raise RecordBatchError(f"damaged: {error}", where="edges") from error
    return producer, consumer


def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=3)


def _narrow(rows: npt.NDArray[np.uint32]) -> tuple[bytes, int]:
    """A column in the narrowest integers, and its width in bytes (with ``_DELTAS``)."""
    delta_flag = 0
    if len(rows) and bool((rows[1:] >= rows[:-1]).all()):
        rows = np.diff(rows, prepend=rows.dtype.type(0))
        delta_flag = _DELTAS
    largest = int(rows.max()) if len(rows) else 0
    dtype = next(kind for kind in _WIDTHS if largest <= np.iinfo(kind).max)
    return rows.astype(dtype).tobytes(), delta_flag | np.dtype(dtype).itemsize


def _widen(raw: bytes, width: int) -> npt.NDArray[np.uint32]:
    rows = np.frombuffer(raw, _integer_type(width)).astype(np.uint32)
    return np.cumsum(rows, dtype=np.uint32) if width & _DELTAS else rows


def _integer_type(width: int) -> type[np.unsignedinteger[Any]]:
    """The integers of a width in bytes; raises KeyError."""
    return {np.dtype(kind).itemsize: kind for kind in _WIDTHS}[width & ~_DELTAS]
