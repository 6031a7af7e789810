"""Logs that the tasks of Hadoop Streaming leave beside their output (:mod:`lineage_emitter.sdk.mapreduce_task` writes them)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lineage_core.codec import arrow_text as arrow
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.sdk.mapreduce_task import GIVEN, LINE, LINES, NO_LINE

if TYPE_CHECKING:
    from lineage_core.contract.block import I64

RECORDS_READ = 1 << 17
"""Records of a log that are in memory at a time, and those of what its task wrote at once."""
BYTES_READ = 1 << 22
"""Of a log that are read at once; more where a task wrote more at once."""
END_BYTES = 1 << 16
"""Of a log that are read at once to find its last line, which names each attempt that a reducer was given records of."""

_LINE_END = ord("\n")


class Records(NamedTuple):
    """What a mapper wrote, in order.

    ``made_from``: int64[n], of each record lines of its split (see :func:`lines_of`), 0 where it was made from none. ``key``: int64[n],
    of each record the place of its key in ``keys``, which have line ends; none where the records are the job's output.
    """

    made_from: I64
    key: I64
    keys: list[bytes]


def lines_of(made_from: I64) -> tuple[I64, I64]:
    """The first and the last line of each record's lines: n > 0: the line n - 1; n < 0: perhaps all lines up to -n - 1."""
    last = np.abs(made_from) - 1
    return np.where(made_from > 0, last, 0), last


class _Frames(NamedTuple):
    """What a mapper wrote at once, several times: what the records were made from, the lines of their headers, and the line behind."""

    made_from: list[I64]
    headers: list[int]
    stop: int


class TaskLog:
    """What a task left: what went in and came out, and how it ended.

    Raises:
        OSError, ValueError, KeyError: it is no log.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.partition = path, partition_of(path)
        end = json.loads(_last_line(path))
        self.rows: int = end["rows"]
        self.attempt = f"{self.partition}.{end['attempt']}"
        self.split: dict[str, Any] | None = end["split"]
        self.is_changed: bool = end["is_changed"]
        self.is_of_output: bool = end["is_of_output"]
        self.is_superset: bool = end["is_superset"]
        """Whether a record of a mapper may be made from fewer lines than the log says."""
        self.is_sorted: bool = end["is_sorted"]
        """Whether the records of each key stood together where a reducer was given them."""
        self.given: dict[str, int] = end["given"]
        """How many records a reducer was given of each attempt at a map task."""

    def records(self) -> Iterator[Records]:
        """What a mapper wrote, some at a time.

        Raises:
            CaptureFailedError: the log is not what a task writes.
        """
        data = b""
        with self.path.open("rb") as log:
            while more := log.read(BYTES_READ + len(data)):
                data += more
                ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _LINE_END)
                bounds, line = np.append(0, ends + 1), 0
                while (frames := self._frames(data, bounds, line)).headers:
                    yield self._records(data, bounds[line : frames.stop + 1], frames)
                    line = frames.stop
                data = data[bounds[line] :]
        if not data.startswith(b"{"):
            raise CaptureFailedError(f"{self.path.name} has fewer keys than records")

    def _frames(self, data: bytes, bounds: I64, line: int) -> _Frames:
        """What stands whole behind a line. ``bounds``: where each line begins, and the last one ends."""
        made_from, headers, start, count = list[Any](), list[int](), line, 0
        while count < RECORDS_READ and line + 1 < len(bounds):
            of_records = _made_from(data[bounds[line] : bounds[line + 1]])
            stop = line + 1 + (0 if self.is_of_output else len(of_records))
            if stop >= len(bounds):
                break
            made_from.append(of_records)
            headers.append(line - start)
            line, count = stop, count + len(of_records)
        return _Frames(made_from, headers, line)

    def _records(self, data: bytes, bounds: I64, frames: _Frames) -> Records:
        made_from = np.concatenate(frames.made_from)
        if self.is_of_output:
            return Records(made_from, np.zeros(0, np.int64), [])
        codes, lines = arrow.encode_bytes(data, bounds)
        return Records(made_from, np.delete(codes, frames.headers), lines)


class ReducerKeys:
    """The keys of a reducer by numbers, in the order in which it was given them, and those of the rows that it wrote.

    Raises:
        CaptureFailedError: the log is not what a task writes.
    """

    def __init__(self, log: TaskLog) -> None:
        self.codes: dict[bytes, int] = {}
        given, rows, times, before = list[int](), list[bytes](), list[int](), list[int]()
        with log.path.open("rb") as lines:
            for line in lines:
                if line.startswith(b"{"):
                    break
                kind, count, key = line.split(b"\t", 2)
                if kind == GIVEN:
                    code = self.codes.setdefault(key, len(given))
                    if code == len(given):
                        given.append(0)
                    given[code] += int(count)
                else:
                    rows.append(key)
                    times.append(int(count))
                    before.append(len(given))
        self.given: I64 = np.array(given, np.int64)
        """How many records it was given of each key."""
        self.rows: I64 = np.repeat(
            np.array([self.codes.get(key, -1) for key in rows], np.int64), times
        )
        """Of each row the key that it begins with, -1 where the reducer was given none of that name."""
        self.before: I64 = np.repeat(np.array(before, np.int64), times)
        """How many keys it had been given before each row."""
        if len(self.rows) != log.rows:
            raise CaptureFailedError(
                f"{log.path.name} counts {len(self.rows)} lines, not {log.rows}"
            )


def _made_from(header: bytes) -> I64:
    kind, number, text = header.split(b"\t")
    counts, line = np.array(list(map(int, text.split(b","))), np.int64), int(number)
    if kind == LINE:
        return np.repeat(np.arange(line + 1, line + 1 + len(counts)), counts)
    if kind not in (LINES, NO_LINE):
        raise CaptureFailedError(f"a log says of records: {header[:80]!r}")
    return np.repeat(np.array([-line - 1 if kind == LINES else 0]), counts)


def _last_line(path: Path) -> bytes:
    size, length, end = path.stat().st_size, END_BYTES, b""
    with path.open("rb") as log:
        while b"\n" not in end and len(end) < size:
            log.seek(max(0, size - length))
            end, length = log.read(), 2 * length
    return end.rpartition(b"\n")[2]


def partition_of(path: Path) -> int:
    """The partition in the name of a file: ``part-00003``."""
    return int(re.findall("[0-9]+", path.name)[0])
