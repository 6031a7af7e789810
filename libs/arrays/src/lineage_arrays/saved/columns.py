"""Columns of numbers and bytes behind a document that refers to them by number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from lineage_arrays.cells import I64
from lineage_arrays.errors import RecordingError
from lineage_core.codec.number_columns import pack_numbers, unpack_numbers
from lineage_core.errors import BlockError

NUMBERS_MAX = 1 << 27
"""Numbers of a column at most (1 GiB): a column of equal steps takes no bytes, however long it is."""


class ColumnWriter:
    """Takes columns, and numbers them from 0."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def numbers(self, column: I64) -> list[int]:
        """Add whole numbers, negative ones too: the number of the column, and its length.

        Raises:
            RecordingError: it is too long.
        """
        if len(column) > NUMBERS_MAX:
            raise RecordingError(
                f"a column of {len(column):,} positions; at most {NUMBERS_MAX:,} are stored: record the parts of so large an array apart"
            )
        self.parts.append(pack_numbers(np.ascontiguousarray(column, np.int64).view(np.uint64)))
        return [len(self.parts) - 1, len(column)]

    def octets(self, content: bytes) -> int:
        """Add bytes: the number of the column."""
        self.parts.append(content)
        return len(self.parts) - 1

    def texts(self, contents: Iterable[bytes]) -> list[object]:
        """Add several byte strings, of any lengths."""
        pieces = list(contents)
        lengths = np.array([len(piece) for piece in pieces], np.int64)
        return [self.numbers(lengths), self.octets(b"".join(pieces))]


class ColumnReader:
    """Reads columns when they are asked for.

    Raises (each method):
        RecordingError: there is no such column, or it holds something else.
    """

    def __init__(self, content: memoryview, sizes: Sequence[int]) -> None:
        ends = np.cumsum([0, *sizes]).tolist()
        if ends[-1] != len(content):
            raise RecordingError("a recording's columns have another length than its head says")
        self._parts = [content[begin:end] for begin, end in pairwise(ends)]

    def numbers(self, where: object) -> I64:
        at, length = self._place(where)
        if length > NUMBERS_MAX:
            raise RecordingError(
                f"a column of {length:,} numbers; at most {NUMBERS_MAX:,} are read"
            )
        try:
            column, rest = unpack_numbers(self._parts[at], length, f"column {at}")
        except BlockError as error:
            raise RecordingError(f"a recording's {error}") from error
        if rest:
            raise RecordingError(f"column {at} of a recording has bytes behind its numbers")
        return column.view(np.int64)

    def octets(self, at: object) -> bytes:
        if type(at) is not int or not 0 <= at < len(self._parts):
            raise RecordingError(f"a recording has no column {at!r}")
        return bytes(self._parts[at])

    def texts(self, where: object) -> list[bytes]:
        if not isinstance(where, list) or len(where) != 2:
            raise RecordingError("a recording names no column of texts where one must be")
        lengths, content = self.numbers(where[0]), self.octets(where[1])
        if (lengths < 0).any() or int(lengths.sum()) != len(content):
            raise RecordingError("texts of a recording have another length than they say")
        ends = np.cumsum(lengths).tolist()
        return [content[begin:end] for begin, end in pairwise([0, *ends])]

    def _place(self, where: object) -> tuple[int, int]:
        match where:
            case [int(at), int(length)] if 0 <= at < len(self._parts) and length >= 0:
                return at, length
        raise RecordingError(f"a recording has no column {where!r}")
