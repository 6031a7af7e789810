"""Lines of a text source, read and numbered in one loop.

PySpark's ``UTF8Deserializer`` spends three calls on each line; the same in one loop pays for the
numbering of the lines.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.serializers import SpecialLengths, UTF8Deserializer

from lineage_core.contract.row_sums import RowSums

if TYPE_CHECKING:
    from lineage_emitter.worker.segment import Numbering

_LENGTH = struct.Struct("!i")


class LineDeserializer(UTF8Deserializer):
    """Reads what ``UTF8Deserializer`` reads."""

    def load_stream(self, stream: Any) -> Lines:
        """The lines, not read before they are requested."""
        return Lines(stream, self.use_unicode)


class Lines:
    """An iterator of lines (str, or bytes without ``use_unicode``; None for a null)."""

    def __init__(self, stream: Any, use_unicode: bool) -> None:
        self._stream = stream
        self._use_unicode = use_unicode
        self._records: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        if self._records is None:
            self._records = self._read([0])
        return self._records

    def __next__(self) -> Any:
        return next(iter(self))

    def numbered(self, numbering: Numbering) -> Iterator[Any]:
        """The lines; before each, the numbering's cell is set to its ordinal."""
        return self._read(numbering.cell, numbering)

    def _read(self, cell: list[int], numbering: Numbering | None = None) -> Iterator[Any]:
        read, unpack, use_unicode = self._stream.read, _LENGTH.unpack, self._use_unicode
        sums = RowSums()
        if numbering is not None:
            numbering.sums = sums
        while True:
            hold = sums.pending.append
            for ordinal in range(sums.rows, sums.rows + sums.pending_max):
                if len(head := read(4)) != 4:
                    break
                (length,) = unpack(head)
                if length >= 0:
                    line = read(length)
                    hold(line)
                elif length == SpecialLengths.NULL:
                    line = None
                    sums.add_null()
                else:
                    break
                cell[0] = ordinal
                yield line.decode("utf-8") if use_unicode and line is not None else line
            else:
                sums.add_pending()
                continue
            break
        if numbering is not None:
            numbering.rows, numbering.exhausted = sums.rows, True
