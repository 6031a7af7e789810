"""How rows that Spark does not number itself are read: each file as one split, or large text files as several.

Within a split a row's running number gives its position. Where a file has several, the records that begin before each are
counted in its bytes, as Hadoop's ``LineRecordReader`` shares them out: a line that begins at the very first byte of a
split (but of the first one) belongs to the split before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from lineage_core.recipe.document import Source
from lineage_core.recipe.names import DELTA, HIVE_TEXT
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.sources.text_records import TextFile, header_count, text_file
from lineage_dataframes.spark import literals
from lineage_store.paths import RowsError

NUMBERED_FORMATS = {"orc", "csv", "json", "text", HIVE_TEXT}
"""Formats whose rows are numbered by their running number in a split."""

SPLIT_SETTING = "spark.sql.files.maxPartitionBytes"

SPLIT_BYTES_OF_ONE_FILE = 1 << 40
"""Bytes of a split that every file is smaller than."""

SPLIT_BYTES = 32 << 20
"""Text files of more bytes are read by several cores."""

SPLITS_MAX = 500
"""Splits of one file."""

PARTITIONS_MAX = (1 << 31) - 1

SPLIT_FILES_MAX = 16
"""More files than these keep all cores busy without being split."""


def settings_for(sources: Sequence[Source]) -> Mapping[str, str]:
    """Spark's settings by which each split is alone in its partition, and files are split that may be."""
    if not any(source.format in NUMBERED_FORMATS | {DELTA} for source in sources):
        return {}
    return _split_settings(_split_bytes(sources))


def _split_settings(size: int) -> Mapping[str, str]:
    # A file is as large as a split to open: no other one fits beside it.
    sizes = dict.fromkeys((SPLIT_SETTING, "spark.sql.files.openCostInBytes"), str(size))
    # Where there are more partitions than at most, Spark puts several splits into each.
    bounds = {"minPartitionNum": "1", "maxPartitionNum": str(PARTITIONS_MAX)}
    return {**sizes, **{f"spark.sql.files.{name}": number for name, number in bounds.items()}}


def _split_bytes(sources: Sequence[Source]) -> int:
    # A plan's sources share Spark's settings: where one's files must be whole, all are.
    numbered = [source for source in sources if source.format in NUMBERED_FORMATS | {DELTA}]
    largest = max((file.size for source in numbered for file in source.files), default=0)
    size = max(SPLIT_BYTES, -(-largest // SPLITS_MAX))
    if largest <= size:
        return SPLIT_BYTES_OF_ONE_FILE
    for source in numbered:
        large = [file.path for file in source.files if file.size > size]
        if len(large) > SPLIT_FILES_MAX:
            return SPLIT_BYTES_OF_ONE_FILE
        if any(_rows_before_splits(source, path, size) is None for path in large):
            return SPLIT_BYTES_OF_ONE_FILE
    return size


def rows_before(source: Source, size: int) -> dict[str, tuple[int, ...]]:
    """Of files that are read in splits of ``size`` bytes: how many rows begin before each split, by path.

    Raises:
        RefusedError: the rows can't be counted.
    """
    counts = {}
    for file in source.files:
        if file.size > size:
            rows_before_splits = _rows_before_splits(source, file.path, size)
            if rows_before_splits is None:
                raise RefusedError(f"{file.path} is read in splits, whose rows can't be numbered")
            counts[file.path] = rows_before_splits
    return counts


def _rows_before_splits(source: Source, path: str, size: int) -> tuple[int, ...] | None:
    """How many rows of a file begin before each of its splits; None where it must be read whole."""
    file = text_file(source, path) if source.format in NUMBERED_FORMATS else None
    if file is None:
        return None
    try:
        status = os.stat(file.path)
        state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return _count_rows_before(file, header_count(source), size, state)
    except (OSError, RowsError, RefusedError, ValueError):
        # What is read meanwhile, Spark says.
        return None


@lru_cache(maxsize=64)
def _count_rows_before(
    file: TextFile, header: int, size: int, state: tuple[int, ...]
) -> tuple[int, ...] | None:
    """``state``: of the file, as long as it is what it is its records are these."""
    splits = -(-state[1] // size)
    records = np.zeros(splits, np.int64)
    for block in file.records():
        if block.marked():
            # What a reader makes of it hangs on whether it is the first one of its split.
            return None
        # The mark at the beginning of a file makes no difference: its first record is of the first split anyway.
        places = np.maximum(block.offset + block.starts - 1, 0) // size
        records += np.bincount(places, minlength=splits)
    if records[0] < header:
        # Spark looks for the header in the first split alone.
        return None
    records[0] -= header
    return tuple(np.concatenate([np.zeros(1, np.int64), np.cumsum(records)[:-1]]).tolist())


def ordinal_term(number: str, source: Source, size: int, path: str) -> str:
    """The term for a row's ordinal in its file.

    Args:
        number: the term for its running number in its split.
        source: whose row it is.
        size: of splits, bytes.
        path: the term for its file's path.

    Raises:
        RefusedError: its files are split, and rows before a split can't be counted.
    """
    before = {
        name: _rows_before_term(rows, size) for name, rows in rows_before(source, size).items()
    }
    if len(source.files) == 1:
        return " + ".join([number, *before.values()])
    whens = " ".join(
        f"WHEN {literals.string_constant(name)} THEN {rows}" for name, rows in before.items()
    )
    return f"{number} + CASE {path} {whens} ELSE 0L END" if whens else number


def _rows_before_term(rows: Iterable[int], size: int) -> str:
    # Of the hidden column with the same Spark would make an object for each row. Where it does not know, it says -1: there
    # is no element 0, and the query fails.
    place = f"CAST((input_file_block_start() + {size}) DIV {size} AS INT)"
    return f"element_at(array({', '.join(f'{row_count}L' for row_count in rows)}), {place})"


UNSPLIT_FILES = _split_settings(SPLIT_BYTES_OF_ONE_FILE)
"""Settings by which each file is one split."""
