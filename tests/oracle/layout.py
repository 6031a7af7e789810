"""Where Spark puts the rows of a source: lines of a text, splits of a file, slices of a list.

Written from Hadoop's ``FileInputFormat``/``LineRecordReader`` and PySpark's ``parallelize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from tests.oracle.model import RECORD_BYTES

T = TypeVar("T")
SPLIT_SLOP = 1.1
BATCH_ROWS_MAX = 1024


def lines_of(content: bytes) -> list[tuple[int, str]]:
    """(offset of the first byte, text) of each line, without its end (LF or CR LF)."""
    found: list[tuple[int, str]] = []
    start = 0
    while start < len(content):
        end = content.find(b"\n", start)
        end = len(content) if end < 0 else end
        found.append((start, content[start:end].removesuffix(b"\r").decode("utf-8")))
        start = end + 1
    return found


def splits_of(size: int, partitions: int) -> list[tuple[int, int]]:
    """(start, end) of the splits of one file alone; an empty file has none."""
    split = max(1, size // max(partitions, 1))
    found: list[tuple[int, int]] = []
    start = 0
    while (size - start) / split > SPLIT_SLOP:
        found.append((start, start + split))
        start += split
    if start < size:
        found.append((start, size))
    return found


def text_partitions(content: bytes, partitions: int) -> list[list[tuple[int, str]]]:
    """(row, text) by partition. A line is read by the split in which the byte before it lies."""
    splits = splits_of(len(content), partitions)
    found: list[list[tuple[int, str]]] = [[] for _ in splits]
    for row, (offset, text) in enumerate(lines_of(content)):
        here = next(
            i
            for i, (start, end) in enumerate(splits)
            if start < offset <= end or offset == start == 0
        )
        found[here].append((row, text))
    return found


def file_partitions(name: str, content: bytes, partitions: int) -> list[list[tuple[int, str]]]:
    """(row, text) by partition of one file alone; a compressed one can't be split."""
    if name.endswith(".gz"):
        return [[(row, text) for row, (_, text) in enumerate(lines_of(content))]]
    return text_partitions(content, partitions)


def records_of(content: bytes) -> list[bytes]:
    """Records of ``RECORD_BYTES``, in order; a file of them below Hadoop's block is one partition."""
    return [content[at : at + RECORD_BYTES] for at in range(0, len(content), RECORD_BYTES)]


def list_partitions(rows: Sequence[T], partitions: int) -> list[list[tuple[int, T]]]:
    """(row, value) by partition: PySpark pickles batches, the JVM deals batches out evenly."""
    batch = max(1, min(len(rows) // partitions, BATCH_ROWS_MAX))
    numbered = list(enumerate(rows))
    batches = [numbered[i : i + batch] for i in range(0, len(numbered), batch)]
    bounds = [i * len(batches) // partitions for i in range(partitions + 1)]
    return [
        [row for part in batches[first:stop] for row in part] for first, stop in pairwise(bounds)
    ]
