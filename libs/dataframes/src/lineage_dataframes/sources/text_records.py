r"""Records of text files of this machine, found in their bytes as Spark's readers find them.

A query would have to number all rows of a file on one core to find the line of a row, or its text. Here one
pass over the bytes does: rows end at ``\n``, ``\r\n`` or ``\r``, as Hadoop's ``LineRecordReader`` has it, a byte order mark
at the beginning is none of them, and readers of CSV and JSON skip rows of nothing but white space, and comments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from lineage_core.recipe.document import Source
from lineage_core.recipe.names import TEXT_FORMATS
from lineage_core.tracing.budget import current_budget
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.sources.file_changes import local_path
from lineage_query.rows.line_index import NEWLINE, RETURN, ends_in
from lineage_query.rows.reader import opened

BLOCK_BYTES = 8 << 20
LINE_BYTES_MAX = 64 << 20
"""Longer lines are not looked at: their file may be a hole of any size."""
BOM = b"\xef\xbb\xbf"
BLANK_BYTES = {"csv": bytes(range(0x21)), "json": b" \t\r\n"}
"""By format, what a line is made of that is no record; of other formats each line is one."""
ARRAY_START = b"["
BEFORE_ARRAY = bytes(range(0x21)) + BOM
NO_LINES = "a line of it is an array of JSON, whose rows have no lines of their own"
UNCOMPRESSED_SUFFIXES = {"", ".csv", ".json", ".jsonl", ".log", ".text", ".tsv", ".txt"}
"""Ends of names for which Hadoop has no codec."""
ASCII_NEWLINE_ENCODINGS = {"", "utf-8", "utf8", "us-ascii", "iso-8859-1", "windows-1252"}
"""Encodings whose line ends are those of ASCII."""


class MarkedError(Exception):
    """A record begins with a byte order mark."""


@dataclass(frozen=True)
class RecordBlock:
    """Some records of a file that follow each other.

    ``rows``: which rows of the file they are, from 0; ``starts`` and ``end_warnings``: where they stand in ``content``, without
    their ends; int64[n] each. ``offset``: where ``content`` begins in the file.
    """

    content: bytes
    offset: int
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    end_warnings: NDArray[np.int64]

    def marked(self) -> bool:
        """Whether one begins with a byte order mark, that at the beginning of the file left out."""
        nonempty_starts = self.starts[self.end_warnings > self.starts]
        candidates = nonempty_starts[
            np.frombuffer(self.content, np.uint8)[nonempty_starts] == BOM[0]
        ]
        return any(self.content.startswith(BOM, start) for start in candidates.tolist())


@dataclass(frozen=True)
class TextFile:
    """A text file. ``format``: a key of `BLANK_BYTES`, or another; ``comment``: the byte that comments begin with, -1 for none."""

    path: Path
    format: str
    comment: int = -1

    def records(self) -> Iterator[RecordBlock]:
        """All records, in order.

        Raises:
            OSError, RowsError: the file can't be read, or not any more.
            RefusedError: a line may be several rows.
        """
        before = 0
        for content, offset, starts, end_warnings in self._rows():
            rows = np.arange(before, before + len(starts), dtype=np.int64)
            before += len(starts)
            is_record = self._are_records(content, starts, end_warnings)
            yield RecordBlock(
                content, offset, rows[is_record], starts[is_record], end_warnings[is_record]
            )

    def rows_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which rows of the file records are; ``numbers``: their numbers from 0, ascending."""
        rows = [records.rows[places] for records, places in self._requested_rows(numbers)]
        return np.concatenate([np.zeros(0, np.int64), *rows])

    def record_at(self, row: int) -> int | None:
        """The number of the record that a row of the file is; None where it is none."""
        before = 0
        for records in self.records():
            at = int(np.searchsorted(records.rows, row))
            if at < len(records.rows):
                return before + at if records.rows[at] == row else None
            before += at
        return None

    def copy(self, numbers: NDArray[np.int64], to: IO[bytes]) -> int:
        """Write records, each with an end, as a file of its own; how many. ``numbers``: their numbers, ascending.

        Raises:
            MarkedError: one begins with a byte order mark: what a reader makes of it hangs on where it stands.
        """
        written = 0
        for records, places in self._requested_rows(numbers):
            spans = zip(
                records.starts[places].tolist(), records.end_warnings[places].tolist(), strict=True
            )
            for start, stop in spans:
                piece = records.content[start:stop]
                if piece.startswith(BOM):
                    raise MarkedError
                to.write(piece + b"\n")
                written += 1
        return written

    def _requested_rows(
        self, numbers: NDArray[np.int64]
    ) -> Iterator[tuple[RecordBlock, NDArray[np.int64]]]:
        """The records that are wanted: those that hold some, and the places of these among them."""
        before = read_count = 0
        for records in self.records():
            if read_count == len(numbers):
                return
            after = before + len(records.rows)
            upto = int(np.searchsorted(numbers, after))
            if upto > read_count:
                yield records, numbers[read_count:upto] - before
            before, read_count = after, upto

    def _rows(self) -> Iterator[tuple[bytes, int, NDArray[np.int64], NDArray[np.int64]]]:
        """Some bytes at a time, where they begin in the file, and where the rows in them start and stop."""
        offset, rest = 0, b""
        with opened(str(self.path)) as stream:
            while block := _read_block(stream):
                current_budget().check()
                if len(rest) > LINE_BYTES_MAX:
                    raise RefusedError(
                        f"{self.path} has a line of more than {LINE_BYTES_MAX >> 20} MiB"
                    )
                content = rest + block
                ends = ends_in(content, -1, rows=True)
                if not len(ends):
                    rest = content
                    continue
                starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
                end_warnings = ends - _return_lengths(content, starts, ends)
                if not offset and content.startswith(BOM):
                    starts[0] = len(BOM)
                yield content, offset, starts, end_warnings
                offset, rest = offset + int(ends[-1]) + 1, content[int(ends[-1]) + 1 :]
        if rest and (offset or rest != BOM):
            start = 0 if offset or not rest.startswith(BOM) else len(BOM)
            yield rest, offset, np.array([start], np.int64), np.array([len(rest)], np.int64)

    def _are_records(
        self,
        content: bytes,
        starts: NDArray[np.int64],
        end_warnings: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        is_record = np.ones(len(starts), np.bool_)
        blanks = BLANK_BYTES.get(self.format)
        if blanks is None:
            return is_record
        is_nonempty = end_warnings > starts
        first_bytes = np.zeros(len(starts), np.uint8)
        first_bytes[is_nonempty] = np.frombuffer(content, np.uint8)[starts[is_nonempty]]
        # What begins with another sign is more than white space.
        for row in np.flatnonzero(first_bytes <= ord(" ")).tolist():
            is_record[row] = bool(content[starts[row] : end_warnings[row]].strip(blanks))
        if self.comment >= 0:
            is_record &= ~(is_nonempty & (first_bytes == self.comment))
        if self.format == "json":
            for row in np.flatnonzero(
                (first_bytes <= ord(" "))
                | (first_bytes == ARRAY_START[0])
                | (first_bytes == BOM[0])
            ).tolist():
                if (
                    content[starts[row] : end_warnings[row]]
                    .lstrip(BEFORE_ARRAY)
                    .startswith(ARRAY_START)
                ):
                    raise RefusedError(f"{self.path}: {NO_LINES}")
        return is_record


def _read_block(stream: IO[bytes]) -> bytes:
    r"""The next bytes; of ``\r\n`` both or none."""
    block = stream.read(BLOCK_BYTES)
    while block.endswith(b"\r") and (following := stream.read(1)):
        block += following
    return block


def _return_lengths(
    content: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    r"""1 for rows that end by ``\r\n``, 0 for others."""
    codes = np.frombuffer(content, np.uint8)
    # A row that is empty has nothing before its end.
    before = codes[np.maximum(ends - 1, starts)]
    ends_in_return: NDArray[np.bool_] = (
        (ends > starts) & (codes[ends] == NEWLINE) & (before == RETURN)
    )
    return ends_in_return.astype(np.int64)


def has_lines(source: Source) -> bool:
    """Whether each row of the source's files is one line."""
    options = {key.lower(): value for key, value in source.options.items()}
    return (
        source.format in TEXT_FORMATS
        and options.get("multiline", "false").lower() != "true"
        and options.get("wholetext", "false").lower() != "true"
        and options.get("linesep", "\n") == "\n"
        # Comments between rows of JSON may be lines of their own.
        and not (
            source.format == "json" and options.get("allowcomments", "false").lower() == "true"
        )
        and options.get("encoding", options.get("charset", "")).lower() in ASCII_NEWLINE_ENCODINGS
    )


def header_count(source: Source) -> int:
    """How many records at the beginning of each file are no rows."""
    header = source.options.get("header", "false").lower() == "true"
    return int(source.format == "csv" and header)


def text_file(source: Source, path: str) -> TextFile | None:
    """A file each row of which is a line, where its bytes can be examined here; else None."""
    if not has_lines(source):
        return None
    local = local_path(path)
    options = {key.lower(): value for key, value in source.options.items()}
    comment = options.get("comment", "") if source.format == "csv" else ""
    if local is None or local.suffix not in UNCOMPRESSED_SUFFIXES or "linesep" in options:
        return None
    if not (len(comment) <= 1 and comment.isascii()) or not os.access(local, os.R_OK):
        return None
    return TextFile(local, source.format, ord(comment) if comment else -1)
