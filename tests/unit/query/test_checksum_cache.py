"""Checksums that are kept of files: found again without a look at the folder for each split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lineage_query.rows import checksum_cache
from lineage_query.rows.checksum_cache import SAVE_BYTES_MIN, ChecksumCache
from lineage_store.paths import FileState

pytestmark = pytest.mark.unit

STATE = FileState(SAVE_BYTES_MIN, 1.0, "1.2.3")
SPLITS = range(0, 50, 10)


def test_a_file_with_many_splits_is_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = ChecksumCache(tmp_path)
    for first in SPLITS:
        kept.store_rows("/a", STATE, first, 10, [f"{first}"])

    later, loads, load = ChecksumCache(tmp_path), list[Path](), checksum_cache.saved_columns

    def counted(file: Path, bytes_max: int) -> dict[str, Any]:
        loads.append(file)
        return load(file, bytes_max)

    monkeypatch.setattr(checksum_cache, "saved_columns", counted)
    assert [later.rows("/a", STATE, first, 10) for first in SPLITS] == [
        [f"{first}"] for first in SPLITS
    ]
    assert len(loads) == 1
    assert later.rows("/a", FileState(SAVE_BYTES_MIN, 1.0, "1.2.4"), 0, 10) is None
