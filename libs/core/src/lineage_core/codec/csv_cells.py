"""Splitting CSV (RFC 4180) into cells, in columns.

Strict where RFC 4180 is: every line has the same number of cells, quotes stand around a whole
cell, quotes inside are doubled. Lines end with LF or all with CRLF, the last one too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lineage_core.contract.block import I64
from lineage_core.contract.block_check import cell_name
from lineage_core.contract.digits import U8, Mask, find_bytes
from lineage_core.errors import BlockError

COLUMNS = ("flowId", "hashIn", "hashOut", "value")
CSV_BYTES_MAX = 256 * 2**20
"""Longest CSV of one block in bytes."""
MARKS_MAX = 2**25
"""Most marks of one kind (ends of cells, quotes, spaces and dashes) in a payload: each takes eight
times its size as a place in memory, and nothing packs better than a payload of nothing but commas."""
_COMMA, _LF, _CR, _QUOTE, _SPACE, _DASH = 44, 10, 13, 34, 32, 45


@dataclass(frozen=True, slots=True)
class CsvCells:
    """Where the cells of a payload are, without their quotes.

    ``begin`` and ``end`` are int64 matrices of lines by columns; ``begin`` is None where every
    cell begins right behind the end before it. ``quoted``: which cells had quotes, None if
    none had. Quotes inside a quoted cell are still doubled.
    """

    payload: bytes
    buffer: U8
    begin: I64 | None
    end: I64
    quoted: Mask | None
    separators: I64
    """Places of all spaces and dashes."""

    def start(self, column: int) -> I64:
        """Where the cells of a column begin, the header's left out."""
        if self.begin is not None:
            return self.begin[1:, column]
        previous_end = self.end[:-1, -1] if column == 0 else self.end[1:, column - 1]
        start: I64 = previous_end + 1
        return start

    def stop(self, column: int) -> I64:
        """Where the cells of a column end (exclusive), the header's left out."""
        return self.end[1:, column]

    def filled(self, column: int) -> Mask:
        """Which cells of a column hold something, be it just quotes; the header's left out."""
        filled: Mask = self.stop(column) > self.start(column)
        if self.quoted is not None:
            filled |= self.quoted[1:, column]
        return filled

    def row_text(self, row: int, column: int) -> str:
        """Text of a cell, its quotes resolved; ``row`` -1 is the header."""
        line = row + 1
        if self.begin is not None:
            begin = int(self.begin[line, column])
        else:
            at = line * self.end.shape[1] + column
            begin = int(self.end.flat[at - 1]) + 1 if at else 0
        raw = self.payload[begin : int(self.end[line, column])]
        if self.quoted is not None and self.quoted[line, column]:
            raw = raw.replace(b'""', b'"')
        return raw.decode()

    def texts(self, column: int) -> list[str]:
        """Texts of a column, quotes resolved, the header's left out."""
        start, stop = self.start(column).tolist(), self.stop(column).tolist()
        bounds = zip(start, stop, strict=True)
        if self.payload.isascii():
            text = self.payload.decode("ascii")
            texts = [text[begin:end] for begin, end in bounds]
        else:
            texts = [self.payload[begin:end].decode() for begin, end in bounds]
        if self.quoted is not None:
            for row in np.flatnonzero(self.quoted[1:, column]).tolist():
                texts[row] = texts[row].replace('""', '"')
        return texts


def split_cells(payload: bytes, columns: tuple[str, ...], lines: int) -> CsvCells:
    """Split a payload of UTF-8 text into ``lines`` lines (with the header) of cells.

    Raises:
        BlockError: the payload is not such CSV; ``where`` names the row (or the header row).
    """
    _check_characters(payload)
    _check_marks(payload)
    text = np.frombuffer(payload, np.uint8)
    inside = _inside_quotes(text) if b'"' in payload else None
    cell_ends = find_bytes(text, (_COMMA, _LF))
    if inside is not None:
        cell_ends = cell_ends[~inside[cell_ends]]
    if len(cell_ends) == 0 or cell_ends[-1] != len(text) - 1 or text[-1] != _LF:
        raise BlockError("the last line has no end: truncated", where="payload")
    width = len(columns)
    shape_fits = len(cell_ends) == width * lines
    if not shape_fits or not _ends_only_at_last(text, cell_ends.reshape(-1, width)):
        raise _wrong_shape(text, cell_ends, width, lines)
    begin, quoted, end = None, None, cell_ends.reshape(-1, width)
    if inside is not None or b"\r" in payload:
        begin = np.concatenate(([0], cell_ends[:-1] + 1)).reshape(-1, width)
        end = _without_returns(text, begin, end, inside, columns)
    if begin is not None and inside is not None:
        begin, end, quoted = _without_quotes(text, begin, end, columns)
    # Most blocks have none, which is quickly seen.
    separators = tuple(code for code in (_SPACE, _DASH) if code in payload)
    return CsvCells(payload, text, begin, end, quoted, find_bytes(text, separators))


def _check_characters(payload: bytes) -> None:
    if b"\0" in payload:
        raise BlockError("NUL character", where=_line_of(payload, payload.index(b"\0")))
    if not payload.isascii():
        try:
            payload.decode()
        except UnicodeDecodeError as error:
            where = _line_of(payload, error.start)
            raise BlockError(f"not UTF-8: {error.reason}", where=where) from error


def _check_marks(payload: bytes) -> None:
    if len(payload) <= MARKS_MAX:
        return
    for kind in (b",\n", b'"', b" -"):
        if sum(payload.count(mark) for mark in kind) > MARKS_MAX:
            raise BlockError(f"more than {MARKS_MAX} of {kind!r}", where="payload")


def _line_of(payload: bytes, at: int) -> str:
    line = payload.count(b"\n", 0, at)
    return f"line {line + 1}, byte {at}"


def _row_name(line: int) -> str:
    return f"row {line - 1}" if line else "header row"


def _inside_quotes(text: U8) -> Mask:
    """Mask of bytes after an odd number of quotes (an opening quote counts as inside)."""
    return np.logical_xor.accumulate(text == _QUOTE)


def _ends_only_at_last(text: U8, cell_ends: I64) -> bool:
    marks = text[cell_ends]
    return bool((marks[:, -1] == _LF).all() and (marks[:, :-1] == _COMMA).all())


def _wrong_shape(text: U8, cell_ends: I64, width: int, lines: int) -> BlockError:
    ends = np.flatnonzero(text[cell_ends] == _LF)
    widths = np.diff(ends, prepend=-1)
    wrong = np.flatnonzero(widths != width)
    if len(wrong):
        line = int(wrong[0])
        return BlockError(f"{widths[line]} cells, must be {width}", where=_row_name(line))
    return BlockError(f"{len(ends) - 1} rows, the header says {lines - 1}", where="payload")


def _without_returns(
    text: U8, start: I64, stop: I64, inside: Mask | None, columns: tuple[str, ...]
) -> I64:
    """Stops with the CR of a CRLF left off.

    Raises:
        BlockError: a CR stands alone outside quotes, or just some lines end with CRLF (some
            writers do not quote a value for its CR: it would be lost at a line's end).
    """
    stop = stop.copy()
    last = stop[:, -1]
    ends = (last > start[:, -1]) & (text[last - 1] == _CR)
    if ends.any() and not ends.all():
        line = int((~ends).argmax()) or int(ends.argmax())
        raise BlockError("lines end with LF and with CRLF", where=_row_name(line))
    allowed = (last - 1)[ends]
    last -= ends
    returns = text == _CR
    if inside is not None:
        returns &= ~inside
    lone = np.setdiff1d(np.flatnonzero(returns), allowed, assume_unique=True)
    if len(lone):
        line, column = divmod(int(np.searchsorted(stop.ravel(), lone[0])), len(columns))
        where = cell_name(line - 1, columns[column]) if line else _row_name(line)
        raise BlockError("a carriage return outside quotes", where=where)
    return stop


def _without_quotes(
    text: U8, start: I64, stop: I64, columns: tuple[str, ...]
) -> tuple[I64, I64, Mask]:
    """Starts and stops inside the quotes, and which cells have them.

    Raises:
        BlockError: a quote stands where none may be.
    """
    quotes = np.flatnonzero(text == _QUOTE)
    cell = np.searchsorted(stop.ravel(), quotes)
    opening, closing = quotes[::2], quotes[1::2]
    first_in_cell, stop_of_cell = start.ravel()[cell], stop.ravel()[cell]
    # Quotes pair up, for the last line's end lies outside. A pair opens at the cell's start or
    # right behind the pair before it (a doubled quote), and closes likewise.
    doubled = closing[:-1] + 1 == opening[1:]
    opens = opening == first_in_cell[::2]
    closes = closing + 1 == stop_of_cell[1::2]
    wrong = ~(opens | np.concatenate(([False], doubled)))
    wrong |= ~(closes | np.concatenate((doubled, [False])))
    if wrong.any():
        line, column = divmod(int(cell[2 * int(wrong.argmax())]), len(columns))
        where = cell_name(line - 1, columns[column]) if line else _row_name(line)
        raise BlockError("a quote that does not enclose the cell", where=where)
    quoted = np.zeros(start.shape, np.bool_)
    quoted.reshape(-1)[cell] = True
    return start + quoted, stop - quoted, quoted
