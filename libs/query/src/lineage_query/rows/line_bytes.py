r"""Which bytes of a file of text its lines are, and which lines bytes are of.

Who wrote a line wrote its text and its end. Who read a line read its text: neither its end (``\n``, ``\r\n``) nor the mark of UTF-8
at the beginning of the file, but of an empty line its end. So a byte is of one line at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

import numpy as np

from lineage_core.contract.block import I64
from lineage_core.contract.region import Region
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_query.rows.line_index import (
    BOM,
    RETURN,
    STRIDE,
    LineIndex,
    ends_in,
    stride_of,
)
from lineage_query.rows.reader import RowReader
from lineage_store.paths import Bytes, RowsError, is_compressed

BYTES_MAX = 1 << 30
"""Size of a file up to which its lines are counted, for which it is read once: a few seconds."""
LINES_MAX = 10_000
"""Lines that bytes of one question may be of."""
STRIDES_KEPT = 64


class LineBytes:
    """The lines of a file that is open. Use :func:`lines_in_bytes`."""

    def __init__(self, source: Bytes, index: LineIndex, *, written: bool) -> None:
        self._source = source
        self._index = index
        self._written = written
        self._ends: dict[int, I64] = {}

    def bytes_of(self, lines: Iterable[int]) -> Region:
        """The bytes of lines, which count from 1; of those that the file does not have none."""
        spans = [span for line in set(lines) if (span := self._span(line)) is not None]
        ends = np.array(spans, np.uint64).reshape(-1, 2)
        return Region.of_runs(ends[:, 0], ends[:, 1])

    def lines_of(self, region: Region) -> list[int]:
        """The lines that have some of these bytes, from 1, in order.

        Raises:
            TooMuchError: there are more than a question may have.
        """
        lines: dict[int, None] = {}
        for first, last in region:
            current_budget().check()
            if first >= self._index.size:
                continue
            low = self._line_at(first)
            high = min(self._line_at(min(last, self._index.size - 1)), self._index.lines)
            if high - low + len(lines) > LINES_MAX:
                raise TooMuchError(
                    f"the bytes are of more than {LINES_MAX:,} lines", "ask for fewer bytes"
                )
            for line in range(low, high + 1):
                span = self._span(line) if line in (low, high) else (first, last)
                if span is not None and span[0] <= last and span[1] >= first:
                    lines[line] = None
        return sorted(lines)

    def _span(self, line: int) -> tuple[int, int] | None:
        """The first and the last byte of a line; None: there is no such line."""
        current_budget().check()
        if not 1 <= line <= self._index.lines:
            return None
        first = self._nth_end(line - 1) + 1 if line > 1 else 0
        if line == 1 and self._index.bom and not self._written:
            first = len(BOM)
        if line > int(self._index.line_ends[-1]):
            # The last line has no end.
            return (first, self._index.size - 1) if first < self._index.size else None
        end = self._nth_end(line)
        if self._written:
            return first, end
        last = end - 1
        if last >= first and self._source.read(last, 1)[:1] == bytes([RETURN]):
            last -= 1
        return (first, last) if last >= first else (first, end)

    def _nth_end(self, number: int) -> int:
        """The byte of an end, from 1."""
        counts = self._index.line_ends
        stride = int(stride_of(counts, np.array([number]))[0])
        return stride * STRIDE + int(self._ends_of(stride)[number - 1 - int(counts[stride])])

    def _line_at(self, byte: int) -> int:
        """The line whose text or end a byte is of."""
        stride = byte // STRIDE
        before = int(np.searchsorted(self._ends_of(stride), byte - stride * STRIDE))
        return int(self._index.line_ends[stride]) + before + 1

    def _ends_of(self, stride: int) -> I64:
        if stride not in self._ends:
            if len(self._ends) >= STRIDES_KEPT:
                self._ends.clear()
            ends = ends_in(self._source.read(stride * STRIDE, STRIDE), -1, rows=False)
            counts = self._index.line_ends
            if len(ends) != int(counts[stride + 1]) - int(counts[stride]):
                raise RowsError(f"{self._source.path} is being written")
            self._ends[stride] = ends
        return self._ends[stride]


@contextmanager
def lines_in_bytes(reader: RowReader, path: str, *, written: bool) -> Iterator[LineBytes]:
    """The lines of a file, which is read once where it has no index yet.

    Args:
        reader: reads the file.
        path: canonical.
        written: whether the lines are those that were written; else those that were read.

    Raises:
        RowsError: the file is gone, can't be read, is too large, compressed, or has lines that end otherwise, or it changed meanwhile.
    """
    state = reader.state(path)
    if state is None:
        raise RowsError(f"{path}: no such file")
    if is_compressed(path):
        raise RowsError(f"{path} is compressed: lines of what is in it are not bytes of it")
    if state.size > BYTES_MAX:
        raise RowsError(
            f"{path} has {state.size:,} bytes: which of them its lines are is found for up to {BYTES_MAX:,}"
        )
    index = reader.index(path)
    if index.lone_returns:
        raise RowsError(
            f"{path} holds carriage returns that end rows but no lines: which bytes its rows are is not known"
        )
    with closing(reader.opened(path)) as source:
        yield LineBytes(source, index, written=written)
    if reader.state(path) != state:
        raise RowsError(f"{path} is being written")
