"""Flow blocks in few bytes, as stores keep them.

``LMC1``, the CRC-32 of what follows, then one zstd frame that holds: the header as JSON (its length
before it), flags of the optional columns and the number of runs, then the columns (see
:mod:`lineage_core.codec.number_columns`):

==========================  ===================================================================
runs of each row            where not every row has one
begins of rows              of each row that has a run: where its first one begins
gaps                        from a run to the one before it in the row, less 2
lengths of runs             less 1, where not every run is one position
begin of outputs
lengths of outputs          less 1, where not every output is one position
texts                       lengths in bytes plus 1 (0: None), then the bytes
==========================  ===================================================================

Dense and constant columns cost 18 bytes before compression.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from zlib import crc32

import numpy as np

from lineage_core.codec.csv_cells import CSV_BYTES_MAX
from lineage_core.codec.number_columns import pack_numbers, unpack_numbers
from lineage_core.codec.zstd import compress, decompress
from lineage_core.contract.block import I64, U64, FlowBlock
from lineage_core.contract.block_check import BLOCK_RUNS_MAX, associations, check_block, run_counts
from lineage_core.contract.block_header import BlockHeader, header_of
from lineage_core.contract.digits import Mask
from lineage_core.errors import BlockError, RecordBatchError

BLOCK_MAGIC = b"LMC1"
BLOCK_COMPRESSION_LEVEL = 1
"""Level of compression: higher ones gained under 1 % on columns of gaps, for four times the time."""
_PREFIX = struct.Struct("<I")
_COUNTS = struct.Struct("<BI")
_IN_PTR, _IN_LAST, _OUT_LAST, _VALUES, _IN_TEXT, _OUT_TEXT = (1 << bit for bit in range(6))
_GAP_MIN = np.uint64(2)


def pack_block(block: FlowBlock) -> bytes:
    """Pack a block with its header.

    Raises:
        BlockError: the block breaks an invariant, or holds a text that is not UTF-8.
    """
    check_block(block)
    header = json.dumps(list(header_of(block).to_fields().values()), separators=(",", ":")).encode()
    counts = run_counts(block)
    in_last = _unless_same(block.in_last, block.in_first)
    out_last = _unless_same(block.out_last, block.out_first)
    texts = (block.values, block.in_text, block.out_text)
    parts: list[bytes] = [_PREFIX.pack(len(header)), header]
    optional = (counts, in_last, out_last, *texts)
    flags = sum(1 << bit for bit, column in enumerate(optional) if column is not None)
    parts.append(_COUNTS.pack(flags, len(block.in_first)))
    parts += _pack_inputs(block.in_first, in_last, counts)
    parts.append(pack_numbers(block.out_first))
    if out_last is not None:
        parts.append(pack_numbers(out_last - block.out_first))
    for column in texts:
        if column is not None:
            parts += _pack_texts(column)
    content = b"".join(parts)
    if len(content) > CSV_BYTES_MAX:
        raise BlockError(f"longer than {CSV_BYTES_MAX} bytes", where="block")
    packed = compress(content, BLOCK_COMPRESSION_LEVEL)
    return BLOCK_MAGIC + _PREFIX.pack(crc32(packed)) + packed


def _unless_same(last: U64 | None, first: U64) -> U64 | None:
    return None if last is None or bool((last == first).all()) else last


def _pack_inputs(first: U64, last: U64 | None, counts: I64 | None) -> list[bytes]:
    lengths = [] if last is None else [pack_numbers(last - first)]
    if counts is None:
        return [pack_numbers(first), *lengths]
    starts_row = _first_runs_of_rows(counts, len(first))
    ends = first if last is None else last
    gaps = (first[1:] - ends[:-1] - _GAP_MIN)[~starts_row[1:]]
    numbers = (counts.astype(np.uint64), first[starts_row], gaps)
    return [*map(pack_numbers, numbers), *lengths]


def _first_runs_of_rows(counts: I64, runs: int) -> Mask:
    """Mask of the runs that are the first of their row."""
    starts_row = np.zeros(runs, np.bool_)
    starts_row[(np.cumsum(counts) - counts)[counts > 0]] = True
    return starts_row


def _pack_texts(texts: Sequence[str | None]) -> list[bytes]:
    try:
        raw = [None if text is None else text.encode() for text in texts]
    except (AttributeError, UnicodeEncodeError) as error:
        raise BlockError(f"not a text in UTF-8: {error}", where="texts") from error
    sizes = np.fromiter((0 if text is None else len(text) + 1 for text in raw), np.uint64, len(raw))
    return [pack_numbers(sizes), *(text for text in raw if text is not None)]


def unpack_block(packed: bytes) -> FlowBlock:
    """Unpack a block; every invariant is checked.

    Raises:
        BlockError: the bytes are not a packed block; ``where`` names the part.
        VersionError: the block is of a version that this reader does not support.
    """
    begin = len(BLOCK_MAGIC) + _PREFIX.size
    if packed[: len(BLOCK_MAGIC)] != BLOCK_MAGIC or len(packed) < begin:
        raise BlockError("not a packed block", where="magic")
    if crc32(packed[begin:]) != _PREFIX.unpack_from(packed, len(BLOCK_MAGIC))[0]:
        raise BlockError("its checksum is wrong", where="block")
    try:
        content = memoryview(decompress(packed[begin:], CSV_BYTES_MAX))
    except RecordBatchError as error:
        raise BlockError(str(error), where="block") from error
    header, content = _unpack_header(content)
    if len(content) < _COUNTS.size:
        raise BlockError("ends too early", where="flags")
    flags, runs = _COUNTS.unpack_from(content)
    if runs > BLOCK_RUNS_MAX or flags >= 1 << 6:
        raise BlockError(f"flags {flags}, {runs} runs: not possible", where="flags")
    block = _unpack_columns(header, content[_COUNTS.size :], flags, runs)
    check_block(block)
    if associations(block) != header.associations:
        raise BlockError("the number of associations differs from the header", where="associations")
    return block


def _unpack_header(content: memoryview) -> tuple[BlockHeader, memoryview]:
    if len(content) < _PREFIX.size:
        raise BlockError("ends too early", where="header")
    (size,) = _PREFIX.unpack_from(content)
    raw, content = content[_PREFIX.size :][:size], content[_PREFIX.size :][size:]
    try:
        values = json.loads(bytes(raw))
    except (ValueError, RecursionError) as error:
        raise BlockError(f"not JSON: {error}", where="header") from error
    if not isinstance(values, list) or not _FIELDS_MIN <= len(values) <= len(_FIELDS):
        raise BlockError("not a list of its fields", where="header")
    return BlockHeader.from_fields(dict(zip(_FIELDS, values, strict=False))), content


_FIELDS = (
    *("v", "app", "node", "partition", "attempt", "seq", "relation"),
    *("in_space", "out", "rows", "associations", "exact", "reason", "attempts_read"),
)
_FIELDS_MIN = len(_FIELDS) - 1
"""The last one is there only where it is known."""


def _unpack_columns(header: BlockHeader, content: memoryview, flags: int, runs: int) -> FlowBlock:
    rows = header.rows
    first, last, pointer, content = _unpack_inputs(content, flags, rows, runs)
    out_first, content = unpack_numbers(content, rows, "out_first")
    out_last = None
    if flags & _OUT_LAST:
        lengths, content = unpack_numbers(content, rows, "out_last")
        out_last = out_first + lengths
    values = in_text = out_text = None
    if flags & _VALUES:
        values, content = _unpack_texts(content, rows, "values")
    if flags & _IN_TEXT:
        in_text, content = _unpack_opaque(content, rows, "in_text")
    if flags & _OUT_TEXT:
        out_text, content = _unpack_opaque(content, rows, "out_text")
    if len(content):
        raise BlockError(f"{len(content)} bytes too many", where="block")
    return FlowBlock(
        block_id=header.block_id,
        relation=header.relation,
        in_space=header.in_space,
        out=header.out,
        in_first=first,
        out_first=out_first,
        in_ptr=pointer,
        in_last=last,
        out_last=out_last,
        exact=header.exact,
        reason=header.reason,
        values=values,
        in_text=in_text,
        out_text=out_text,
        app=header.app,
        attempts_read=header.attempts_read,
    )


def _unpack_inputs(
    content: memoryview, flags: int, rows: int, runs: int
) -> tuple[U64, U64 | None, I64 | None, memoryview]:
    pointer: I64 | None = None
    starts_row: Mask = np.ones(runs, np.bool_)
    if flags & _IN_PTR:
        counts, content = unpack_numbers(content, rows, "in_ptr")
        pointer = _pointer(counts, runs)
        starts_row = _first_runs_of_rows(np.diff(pointer), runs)
    elif runs != rows:
        raise BlockError(f"{runs} runs for {rows} rows", where="in_ptr")
    begins, content = unpack_numbers(content, int(starts_row.sum()), "in_first")
    gaps, content = unpack_numbers(content, runs - len(begins), "in_first")
    lengths: U64 | None = None
    if flags & _IN_LAST:
        lengths, content = unpack_numbers(content, runs, "in_last")
    if pointer is None:
        return begins, None if lengths is None else begins + lengths, None, content
    first = _first_of_runs(starts_row, begins, gaps, lengths)
    return first, None if lengths is None else first + lengths, pointer, content


def _pointer(counts: U64, runs: int) -> I64:
    if len(counts) and int(counts.max()) > runs:
        raise BlockError("more runs than announced", where="in_ptr")
    pointer = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts.astype(np.int64))))
    if pointer[-1] != runs:
        raise BlockError(f"{pointer[-1]} runs, {runs} announced", where="in_ptr")
    return pointer


def _first_of_runs(starts_row: Mask, begins: U64, gaps: U64, lengths: U64 | None) -> U64:
    """Sum up the gaps and lengths from each row's begin on (modulo 2**64; checked afterwards)."""
    steps = np.empty(len(starts_row), np.uint64)
    steps[~starts_row] = gaps + _GAP_MIN
    steps[starts_row] = 0
    if lengths is not None:
        steps[1:] += np.where(starts_row[1:], np.uint64(0), lengths[:-1])
    total = np.cumsum(steps, dtype=np.uint64)
    first: U64 = total + np.repeat(
        begins - total[starts_row], np.diff(np.flatnonzero(np.append(starts_row, True)))
    )
    return first


def _unpack_texts(
    content: memoryview, rows: int, where: str
) -> tuple[list[str | None], memoryview]:
    sizes, content = unpack_numbers(content, rows, where)
    if len(sizes) and int(sizes.max()) > len(content) + 1:
        raise BlockError("ends too early", where=where)
    is_present = sizes > 0
    stops = np.cumsum(sizes.astype(np.int64) - is_present)
    end = int(stops[-1]) if rows else 0
    if end > len(content):
        raise BlockError("ends too early", where=where)
    raw = bytes(content[:end])
    starts = np.concatenate((np.zeros(1, np.int64), stops[:-1]))
    bounds = zip(starts.tolist(), stops.tolist(), is_present.tolist(), strict=True) if rows else ()
    try:
        return [raw[a:b].decode() if has else None for a, b, has in bounds], content[end:]
    except UnicodeDecodeError as error:
        raise BlockError(f"not UTF-8: {error.reason}", where=where) from error


def _unpack_opaque(content: memoryview, rows: int, where: str) -> tuple[list[str], memoryview]:
    optional_texts, content = _unpack_texts(content, rows, where)
    texts = [text for text in optional_texts if text is not None]
    if len(texts) != rows:
        raise BlockError("a text is missing", where=where)
    return texts, content
