"""Files that killed imports and indexes left: no version holds them, and none will."""

from __future__ import annotations

import time
from typing import Final

from pyarrow import fs

from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.lake.columns import APP
from lineage_store.lake.table import COMMIT_H, UNFINISHED_H, LakeFile, LakeTable

KEPT_S: Final = UNFINISHED_H * 3600.0
"""Files of this age in no version are deleted."""
WRITTEN_S: Final = COMMIT_H * 3600.0
"""How long after its first file a commit may be made; the rest is for clocks that differ."""


def check_age(started: float) -> None:
    """Refuse a commit of files that somebody may delete as left.

    Args:
        started: when the first was begun, by the clock that never goes back.

    Raises:
        StoreError: that is too long ago.
    """
    if time.monotonic() - started > WRITTEN_S:
        raise StoreError("the import or index took longer than six days; give it in parts")


def remove_leftovers(table: LakeTable) -> int:
    """Delete files that no version holds and no commit can refer to any more; how many.

    Raises:
        StoreUnavailableError: the storage can't be read or written.
    """
    before = time.time() - KEPT_S
    try:
        listed = table.files.get_file_info(fs.FileSelector("", recursive=True))
    except OSError as error:
        raise StoreUnavailableError(f"can't list {table.address.location}: {error}") from error
    old = {
        info.path
        for info in listed
        if info.path.startswith(f"{APP}=")
        and info.path.endswith(".parquet")
        and info.mtime_ns is not None
        and info.mtime_ns < before * 1e9
    }
    if not old:
        return 0
    # Read after the list: whatever was committed of it is in this version.
    held = {file.path for files in table.snapshot(newest=True).files.values() for file in files}
    gone = old - held
    table.erase(LakeFile(path, 0, "") for path in gone)
    return len(gone)
