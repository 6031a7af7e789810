"""What is in a lake, row by row."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from lineage_store.lake.store import LakeStore


def rows_stored(lake: LakeStore) -> Counter[str]:
    """How many rows of each kind the files of the newest version hold, equal ones counted each."""
    counts: Counter[str] = Counter()
    for files in lake.table.snapshot(newest=True).files.values():
        for file in files:
            with lake.table.files.open_input_file(file.path) as stream:
                counts.update(map(str, pq.read_table(stream, columns=["kind"])["kind"].to_pylist()))
    return counts


@dataclass(frozen=True)
class LakeUnderTest:
    """A lake in a folder, as servers of tests say where they are."""

    folder: Path

    @property
    def settings(self) -> dict[str, str]:
        """The environment of programs that use it."""
        return {"LINEAGE_STORE": f"lake:{self.folder}"}

    def clear(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.folder, ignore_errors=True)
