"""The data files of a snapshot of Apache Iceberg, with the ids that the table gives to their rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from lineage_core.recipe.document import File
from lineage_core.recipe.row_ids import ROW_IDS, FileRowIds, row_ids_text

_LINE = re.compile(r"(\d+) (\d+) (-|\d+) (\d+) (-|\d+) (.+)")


class DataFiles(NamedTuple):
    """Files in the order of their paths. ``options``: what a source or output of them says of their rows, if they have ids."""

    files: tuple[File, ...] = ()
    options: Mapping[str, str] = {}

    @classmethod
    def of(cls, text: str) -> DataFiles:
        """Those that ``IcebergTables.java`` names."""
        named: list[tuple[File, FileRowIds | None]] = []
        for size, time, first, rows, sequence, path in _LINE.findall(text):
            has_ids = "-" not in (first, sequence)
            ids = FileRowIds(int(first), int(rows), int(sequence)) if has_ids else None
            named.append((File(path, int(size), int(time)), ids))
        named.sort(key=lambda one: one[0].path)
        all_ids = [ids for _, ids in named]
        options = {ROW_IDS: row_ids_text(all_ids)} if any(all_ids) else {}
        return cls(tuple(file for file, _ in named), options)
