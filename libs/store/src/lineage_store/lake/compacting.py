"""Small files of a lake become large ones, and files that no version holds are deleted, while others read and write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lineage_core.tracing.budget import current_budget
from lineage_store.errors import DamagedError
from lineage_store.lake.columns import SAME, USED, Kind
from lineage_store.lake.file_writing import write_file
from lineage_store.lake.files import Files, LakeReader
from lineage_store.lake.store import LakeStore
from lineage_store.lake.table import LakeFile, ReplacedError

TARGET_BYTES: Final = 32 << 20
"""Files are merged up to this size: so much is in memory, unpacked."""
KEPT_H: Final = 168
"""Hours for which files that were replaced are kept: readers that began before may use them."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was done: so many files became so many, and so many old ones were deleted. ``bytes_saved`` by the merging alone."""

    merged: int
    written: int
    deleted: int
    bytes_saved: int


def compact(store: LakeStore, kept_h: int = KEPT_H) -> Compacted:
    """Merge the small files of each application, and delete those that were replaced so many hours ago.

    Files that no version ever had are deleted when they are a week old, whatever ``kept_h`` is: their writer may commit them until then.

    May run at any time and several times at once. An application that somebody else changes in this moment is left as it is.

    Raises:
        StoreError: the lake can't be read or written.
    """
    merged = written = saved = 0
    for key in list(store.table.snapshot(newest=True).files):
        for group in _small(store.table.snapshot().files.get(key, ())):
            current_budget().check()
            new = _merge(store, key, group)
            if new is not None:
                merged += len(group)
                written += 1
                saved += sum(file.size for file in group) - new.size
    return Compacted(merged, written, len(store.table.vacuum(kept_h)), saved)


def _small(files: Files) -> Iterator[list[LakeFile]]:
    """Files that are merged into one."""
    group: list[LakeFile] = []
    held = 0
    for file in files:
        if file.size > TARGET_BYTES // 2:
            continue
        if held + file.size > TARGET_BYTES:
            if len(group) > 1:
                yield group
            group, held = [], 0
        group.append(file)
        held += file.size
    if len(group) > 1:
        yield group


def _merge(store: LakeStore, key: str, group: Iterable[LakeFile]) -> LakeFile | None:
    """The file that has the rows of some others, which are in no version from now on; None: somebody else was quicker, or one is damaged."""
    files = tuple(group)
    try:
        tables = {kind: _rows(store.reader, files, kind) for kind in Kind}
    except (FileNotFoundError, DamagedError):
        # What is left of a damaged application stays as it is: a copy of the file may be put back.
        return None
    new = write_file(store.table, key, tables)
    if new is None:
        return None
    try:
        store.table.commit([new], files)
    except ReplacedError:
        store.table.erase([new])
        return None
    return new


def _rows(reader: LakeReader, files: Files, kind: Kind) -> pa.Table:
    """Rows of one kind, of equal ones that with the smallest number, and of these the earliest, as readers do."""
    rows = reader.read(files, kind, USED[kind])
    if not rows.num_rows:
        return rows
    deciding = [name for name in ("number", "recorded_at") if name in rows.schema.names]
    if deciding:
        rows = rows.sort_by([(name, "ascending") for name in deciding])
    names = list(SAME[kind])
    at = rows.select(names).append_column("at", pa.array(range(rows.num_rows), pa.int64()))
    first = at.group_by(names, use_threads=False).aggregate([("at", "min")])["at_min"]
    return rows.take(first)
