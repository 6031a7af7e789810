"""Files that killed imports and indexes left: no version holds them, and none will."""

from __future__ import annotations

import time
from typing import Final

from pyarrow import fs

from lineage_store.errors import StoreUnavailableError
from lineage_store.lake.file_names import is_of_lake
from lineage_store.lake.storage_errors import reason_of
from lineage_store.lake.table import UNFINISHED_H, LakeTable

KEPT_S: Final = UNFINISHED_H * 3600.0
"""Files of this age in no version are deleted: a commit of files nearly as old is refused by the table."""


def remove_leftovers(table: LakeTable) -> int:
    """Delete files that no version holds and no commit can refer to any more; how many.

    Raises:
        StoreUnavailableError: the storage can't be read or written.
    """
    before = time.time() - KEPT_S
    try:
        listed = table.files.get_file_info(fs.FileSelector("", recursive=True))
    except OSError as error:
        raise StoreUnavailableError(
            f"can't list {table.address.location}: {reason_of(error)}"
        ) from error
    old = {
        info.path
        for info in listed
        if is_of_lake(info.path) and info.mtime_ns is not None and info.mtime_ns < before * 1e9
    }
    if not old:
        return 0
    gone = table.dead(old)
    table.erase(gone)
    return len(gone)
