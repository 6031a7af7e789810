"""Reading flow blocks from CSV, column by column; the format is that of :mod:`csv_codec`."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from lineage_core.codec.csv_cells import COLUMNS, CSV_BYTES_MAX, CsvCells, split_cells
from lineage_core.contract.address import OPAQUE_SPACE
from lineage_core.contract.block import I64, U64, FlowBlock
from lineage_core.contract.block_check import associations, cell_name, check_block
from lineage_core.contract.block_header import BlockHeader, check_header
from lineage_core.contract.digits import Mask, differs_from_index, lacks_prefix, parse_numbers
from lineage_core.contract.positions import text_positions
from lineage_core.errors import BlockError

_FLOW_ID, _HASH_IN, _HASH_OUT, _VALUE = range(4)
_SPACE, _DASH = 32, 45

ParsedRuns: TypeAlias = tuple[U64, U64 | None, I64 | None]
"""First and last positions (None: as first) of runs, and how many each cell has (None: one)."""


def decode_csv(payload: bytes, header: BlockHeader) -> FlowBlock:
    """Read a block; everything is checked, nothing guessed.

    Raises:
        BlockError: the payload does not match the header and the contract; ``where`` names the
            row (from 0, without the header row) and the column.
    """
    check_header(header)
    if len(payload) > CSV_BYTES_MAX:
        raise BlockError(f"longer than {CSV_BYTES_MAX} bytes", where="payload")
    cells = split_cells(payload, COLUMNS, header.rows + 1)
    header_row = tuple(cells.row_text(-1, column) for column in range(len(COLUMNS)))
    if header_row != COLUMNS:
        raise BlockError(
            f"{','.join(header_row)!r:.80} is not {','.join(COLUMNS)}", where="header row"
        )
    _check_flow_ids(cells, header)
    in_first, in_last, in_ptr, in_text = _read_inputs(cells, header)
    out_first, out_last, out_text = _read_outputs(cells, header)
    block = FlowBlock(
        block_id=header.block_id,
        relation=header.relation,
        in_space=header.in_space,
        out=header.out,
        in_first=in_first,
        out_first=out_first,
        in_ptr=in_ptr,
        in_last=in_last,
        out_last=out_last,
        exact=header.exact,
        reason=header.reason,
        values=_read_values(cells),
        in_text=in_text,
        out_text=out_text,
        app=header.app,
        attempts_read=header.attempts_read,
    )
    check_block(block)
    if associations(block) != header.associations:
        problem = f"{associations(block)} associations, the header says {header.associations}"
        raise BlockError(problem, where="payload")
    return block


def _check_flow_ids(cells: CsvCells, header: BlockHeader) -> None:
    start, stop = cells.start(_FLOW_ID), cells.stop(_FLOW_ID)
    start = _skip_prefix(cells, start, f"{header.block_id}/", _FLOW_ID)
    bad = differs_from_index(cells.buffer, start, stop)
    if bad.any():
        wrong = int(bad.argmax())
        message = f"{cells.row_text(wrong, _FLOW_ID)!r:.80} is not {header.block_id}/{wrong}"
        raise BlockError(message, where=cell_name(wrong, COLUMNS[_FLOW_ID]))


def _skip_prefix(cells: CsvCells, start: I64, prefix: str, column: int, first_row: int = 0) -> I64:
    """The offsets of the cells after a prefix that all must have."""
    raw = prefix.encode()
    bad = lacks_prefix(cells.buffer, start, raw)
    if bad.any():
        row = first_row + int(bad.argmax())
        message = f"{cells.row_text(row, column)!r:.80} does not begin with {prefix!r}"
        raise BlockError(message, where=cell_name(row, COLUMNS[column]))
    prefix_end: I64 = start + len(raw)
    return prefix_end


def _read_inputs(
    cells: CsvCells, header: BlockHeader
) -> tuple[U64, U64 | None, I64 | None, list[str] | None]:
    """Columns in_first, in_last, in_ptr and in_text of a block."""
    if header.in_space == OPAQUE_SPACE:
        return _read_opaque_inputs(cells)
    start = _skip_prefix(cells, cells.start(_HASH_IN), f"{header.in_space}#", _HASH_IN)
    first, last, counts = _parse_runs(cells, start, cells.stop(_HASH_IN), _HASH_IN, 0)
    return first, last, None if counts is None else _pointer(counts), None


def _pointer(counts: I64) -> I64:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def _read_opaque_inputs(cells: CsvCells) -> tuple[U64, None, I64 | None, list[str]]:
    filled = cells.filled(_HASH_IN)
    texts = cells.texts(_HASH_IN)
    if filled.all():
        return text_positions(texts), None, None, texts
    opaque_texts = [texts[row] for row in np.flatnonzero(filled).tolist()]
    return text_positions(opaque_texts), None, _pointer(filled.astype(np.int64)), texts


def _read_outputs(cells: CsvCells, header: BlockHeader) -> tuple[U64, U64 | None, list[str] | None]:
    """Columns out_first, out_last and out_text of a block."""
    start, stop = cells.start(_HASH_OUT).copy(), cells.stop(_HASH_OUT)
    opaque = np.zeros(header.rows, np.bool_)
    for section in header.out:
        rows = slice(section.row_first, section.row_stop)
        if section.space == OPAQUE_SPACE:
            opaque[rows] = True
        else:
            prefix = f"{section.space}#"
            start[rows] = _skip_prefix(cells, start[rows], prefix, _HASH_OUT, rows.start)
    if not opaque.any():
        first, last = _parse_outputs(cells, start, stop, np.arange(header.rows))
        has_opaque_section = any(section.space == OPAQUE_SPACE for section in header.out)
        return first, last, [""] * header.rows if has_opaque_section else None
    return _read_mixed_outputs(cells, start, stop, opaque)


def _read_mixed_outputs(
    cells: CsvCells, start: I64, stop: I64, opaque: Mask
) -> tuple[U64, U64 | None, list[str]]:
    texts = [
        text if is_opaque else ""
        for text, is_opaque in zip(cells.texts(_HASH_OUT), opaque.tolist(), strict=True)
    ]
    plain = np.flatnonzero(~opaque)
    first = text_positions(texts)
    first[plain], last = _parse_outputs(cells, start[plain], stop[plain], plain)
    if last is None:
        return first, None, texts
    every_last = first.copy()
    every_last[plain] = last
    return first, every_last, texts


def _parse_outputs(cells: CsvCells, start: I64, stop: I64, rows: I64) -> tuple[U64, U64 | None]:
    first, last, counts = _parse_runs(cells, start, stop, _HASH_OUT, rows)
    if counts is not None:
        row = int(rows[int((counts != 1).argmax())])
        raise BlockError("must be one position or run", where=cell_name(row, COLUMNS[_HASH_OUT]))
    return first, last


def _parse_runs(cells: CsvCells, start: I64, stop: I64, column: int, rows: I64 | int) -> ParsedRuns:
    """Parse runs like ``0-3 7 12`` in each of some cells; ``rows`` are their rows, for errors."""
    buffer = cells.buffer
    if len(start) == 0:
        return np.empty(0, np.uint64), None, None
    inner, inside = _separators(cells, start, stop)
    tokens = inside + 1
    tokens[start == stop] = 0
    if len(inner) == 0 and int(tokens.min()) == 1:
        numbers, bad = parse_numbers(buffer, start, stop)
        if bad.any():
            _refuse_numbers(cells, bad, np.arange(len(start)), column, rows)
        return numbers, None, None
    pointer = _pointer(tokens)
    filled = tokens > 0
    heads = np.zeros(int(pointer[-1]), np.bool_)
    heads[pointer[:-1][filled]] = True
    tails = np.zeros(len(heads), np.bool_)
    tails[pointer[1:][filled] - 1] = True
    token_start = np.empty(len(heads), np.int64)
    token_start[heads] = start[filled]
    token_start[~heads] = inner + 1
    token_stop = np.empty(len(heads), np.int64)
    token_stop[tails] = stop[filled]
    token_stop[~tails] = inner
    numbers, bad = parse_numbers(buffer, token_start, token_stop)
    closes = np.zeros(len(heads), np.bool_)
    closes[~heads] = buffer[inner] == _DASH
    bad[1:] |= closes[1:] & closes[:-1]
    if bad.any():
        _refuse_numbers(cells, bad, np.repeat(np.arange(len(tokens)), tokens), column, rows)
    if not closes.any():
        return numbers, None, None if bool((tokens == 1).all()) else tokens
    return _pair_up(cells, numbers, closes, tokens, column, rows)


def _separators(cells: CsvCells, start: I64, stop: I64) -> tuple[I64, I64]:
    """Places of the spaces and dashes in cells, and how many each cell has."""
    separators = cells.separators
    if len(separators) == 0:
        return separators, np.zeros(len(start), np.int64)
    low = np.searchsorted(separators, start)
    inside = np.searchsorted(separators, stop) - low
    total = int(inside.sum())
    if total == len(separators):
        return separators, inside
    preceding = np.cumsum(inside) - inside
    return separators[np.repeat(low - preceding, inside) + np.arange(total)], inside


def _pair_up(
    cells: CsvCells, numbers: U64, closes: Mask, tokens: I64, column: int, rows: I64 | int
) -> ParsedRuns:
    """Runs from numbers of which some close the run that the number before opens."""
    opens = ~closes
    first = numbers[opens]
    last = first.copy()
    closing = np.flatnonzero(closes)
    run = closing - np.arange(1, len(closing) + 1)
    last[run] = numbers[closing]
    pointer = _pointer(tokens)
    closed_before = np.concatenate((np.zeros(1, np.int64), np.cumsum(closes)))
    counts = tokens - np.diff(closed_before[pointer])
    narrow = np.zeros(len(numbers), np.bool_)
    narrow[closing] = last[run] <= first[run]
    if narrow.any():
        owner = np.repeat(np.arange(len(tokens)), tokens)
        message = "a run written as two numbers must end behind its begin"
        _refuse_numbers(cells, narrow, owner, column, rows, message)
    return first, last, None if bool((counts == 1).all()) else counts


def _refuse_numbers(
    cells: CsvCells,
    bad: Mask,
    cell_of: I64,
    column: int,
    rows: I64 | int,
    message: str = "not positions (whole numbers from 0, below 2**64, no leading zeros)",
) -> None:
    if not bad.any():
        return
    cell = int(cell_of[int(bad.argmax())])
    row = cell if isinstance(rows, int) else int(rows[cell])
    text = cells.row_text(row, column)
    raise BlockError(f"{text!r:.80}: {message}", where=cell_name(row, COLUMNS[column]))


def _read_values(cells: CsvCells) -> list[str | None] | None:
    has_value = cells.filled(_VALUE)
    if not has_value.any():
        return None
    texts = cells.texts(_VALUE)
    if has_value.all():
        return list(texts)
    return [text if has else None for text, has in zip(texts, has_value.tolist(), strict=True)]
