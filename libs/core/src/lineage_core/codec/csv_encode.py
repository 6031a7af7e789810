"""Writing flow blocks as CSV, column by column; the format is that of :mod:`csv_codec`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from lineage_core.codec import arrow_text as arrow
from lineage_core.codec.csv_cells import COLUMNS, CSV_BYTES_MAX
from lineage_core.contract.address import OPAQUE_SPACE
from lineage_core.contract.block import U64, FlowBlock
from lineage_core.contract.block_check import cell_name, check_block
from lineage_core.contract.digits import Mask
from lineage_core.contract.positions import text_positions
from lineage_core.errors import BlockError

if TYPE_CHECKING:
    import pyarrow as pa

_HEADER_ROW = (",".join(COLUMNS) + "\n").encode()
_CACHED_ROWS = 2**16


def encode_csv(block: FlowBlock) -> bytes:
    """Write a block as CSV.

    Raises:
        BlockError: the block breaks an invariant, or holds a text that CSV in UTF-8 can't carry
            (NUL, lone surrogates; see :func:`clean_value`).
    """
    check_block(block)
    if block.rows == 0:
        return _HEADER_ROW
    # What begins each row ends the one before it: a part less to join, of all that are joined row by row.
    begin = f"{block.block_id}/"
    cells = (_row_numbers(block.rows), *_input_cells(block), *_output_cells(block))
    if block.values is None:
        lines = arrow.join_columns(*cells, f",\n{begin}")
    else:
        values = _quoted_cells(block.values, "value")
        lines = arrow.join_columns(*cells, ",", values, f"\n{begin}")
    payload = arrow.utf8_of(lines, _HEADER_ROW + begin.encode(), cut=len(begin.encode()))
    if len(payload) > CSV_BYTES_MAX:
        raise BlockError(f"longer than {CSV_BYTES_MAX} bytes", where="payload")
    return payload


def clean_value(text: str) -> str:
    """A text as ``value`` can hold it: NUL and lone surrogates become U+FFFD."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd") if "\0" in text else text


@cache
def _first_row_numbers() -> pa.StringArray:
    return arrow.decimal_texts(np.arange(_CACHED_ROWS, dtype=np.uint64))


def _row_numbers(rows: int) -> pa.StringArray:
    if 1024 <= rows <= _CACHED_ROWS:
        return _first_row_numbers()[:rows]
    return arrow.decimal_texts(np.arange(rows, dtype=np.uint64))


def _runs(first: U64, last: U64 | None) -> pa.StringArray:
    """Runs as text: ``7`` or ``0-3``."""
    texts = arrow.decimal_texts(first)
    if last is None:
        return texts
    wide = last != first
    if not wide.any():
        return texts
    joined = arrow.join_columns(
        arrow.decimal_texts(first[wide]), "-", arrow.decimal_texts(last[wide])
    )
    return joined if wide.all() else arrow.replace_rows(texts, wide, joined)


def _input_cells(block: FlowBlock) -> tuple[str, pa.StringArray]:
    """The hashIn cells, and what stands before all of them."""
    if block.in_text is not None:
        return ",", _opaque_input_cells(block, block.in_text)
    runs = _runs(block.in_first, block.in_last)
    if block.in_ptr is not None:
        runs = arrow.join_groups(runs, block.in_ptr, " ")
    return f",{block.in_space}#", runs


def _opaque_input_cells(block: FlowBlock, texts: Sequence[str]) -> pa.StringArray:
    filled: Mask = np.ones(block.rows, np.bool_)
    if block.in_ptr is not None:
        filled = np.diff(block.in_ptr) > 0
    if filled.all():
        return _opaque_cells(texts, block.in_first, "hashIn")
    _refuse_texts([text if not has else "" for text, has in zip(texts, filled, strict=True)])
    opaque_texts = [texts[row] for row in np.flatnonzero(filled).tolist()]
    empty_cells = _quoted_cells([None] * block.rows, "hashIn")
    return arrow.replace_rows(
        empty_cells, filled, _opaque_cells(opaque_texts, block.in_first, "hashIn")
    )


def _opaque_cells(
    texts: Sequence[str], positions: U64, column: str, offset: int = 0
) -> pa.StringArray:
    cells = _quoted_cells(texts, column, offset)
    wrong = text_positions(texts) != positions
    if wrong.any():
        text = texts[int(wrong.argmax())]
        raise BlockError(f"{text!r:.80} has another position than given", where=f"column {column}")
    return cells


def _output_cells(block: FlowBlock) -> tuple[str | pa.StringArray, pa.StringArray]:
    """The hashOut cells, and what stands before them."""
    if block.out_text is not None:
        return ",", _mixed_output_cells(block, block.out_text)
    runs = _runs(block.out_first, block.out_last)
    if len(block.out) == 1:
        return f",{block.out[0].space}#", runs
    sizes = [section.row_stop - section.row_first for section in block.out]
    prefixes = arrow.text_column([f",{section.space}#" for section in block.out])
    assert prefixes is not None
    return arrow.take_rows(prefixes, np.repeat(np.arange(len(sizes)), sizes)), runs


def _mixed_output_cells(block: FlowBlock, texts: Sequence[str]) -> pa.StringArray:
    """Cells of which some are opaque strings and others addresses."""
    cells = []
    for section in block.out:
        rows = slice(section.row_first, section.row_stop)
        first = block.out_first[rows]
        if section.space == OPAQUE_SPACE:
            cells.append(_opaque_cells(texts[rows], first, "hashOut", section.row_first))
            continue
        _refuse_texts(texts[rows])
        runs = _runs(first, None if block.out_last is None else block.out_last[rows])
        cells.append(arrow.join_columns(f"{section.space}#", runs))
    return arrow.concatenate(cells)


def _refuse_texts(texts: Sequence[str]) -> None:
    if any(texts):
        raise BlockError("a text where there is no opaque position", where="in_text or out_text")


def _quoted_cells(texts: Sequence[str | None], column: str, offset: int = 0) -> pa.StringArray:
    _check_texts(texts, column, offset)
    array = arrow.text_column(texts)
    if array is None:
        raise BlockError(f"longer than {CSV_BYTES_MAX} bytes", where=f"column {column}")
    return arrow.quote_cells(array)


def _check_texts(texts: Sequence[str | None], column: str, offset: int) -> None:
    present_texts = [text for text in texts if text is not None]
    if all(issubclass(kind, str) for kind in set(map(type, present_texts))) and _is_writable(
        "".join(present_texts)
    ):
        return
    for row, text in enumerate(texts):
        if text is not None and not (isinstance(text, str) and _is_writable(text)):
            message = f"{text!r:.80} is not a text without NUL and lone surrogates"
            raise BlockError(message, where=cell_name(row + offset, column))


def _is_writable(text: str) -> bool:
    try:
        return "\0" not in text and (text.isascii() or bool(text.encode()))
    except UnicodeEncodeError:
        return False
