"""Ids of rows that a table of Apache Iceberg gives to the rows of its data files (format version 3), as a recipe records them.

An option of the source or output holds them, an entry for each of its files in their order: readers of before leave it alone.
https://iceberg.apache.org/spec/#row-lineage
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lineage_core.errors import RecipeError
from lineage_core.recipe.document import File

ROW_IDS = "row_ids"
"""The option."""
_ENTRY = re.compile(r"([0-9]{1,19})\+([0-9]{1,19})@([0-9]{1,19})")
_NONE = "-"


@dataclass(frozen=True, slots=True)
class FileRowIds:
    """Row k of a file has the id ``first + k`` and was changed last by the commit ``sequence``, where the file says nothing else.

    ``rows``: how many rows there are, deleted ones too. ``sequence``: the data sequence number.
    """

    first: int
    rows: int
    sequence: int


def row_ids_text(ids: Sequence[FileRowIds | None]) -> str:
    """The option's value for files in their order; None: the rows of a file have no ids."""
    return ",".join(
        _NONE if one is None else f"{one.first}+{one.rows}@{one.sequence}" for one in ids
    )


def row_ids_of(options: Mapping[str, str], files: Sequence[File]) -> dict[str, FileRowIds]:
    """What a source or output says of the rows of its files, by path.

    Raises:
        RecipeError: it is of other files, or can't be read.
    """
    text = options.get(ROW_IDS)
    if text is None:
        return {}
    entries = text.split(",")
    if len(entries) != len(files):
        raise RecipeError("ids of rows are of other files", where=ROW_IDS)
    ids: dict[str, FileRowIds] = {}
    for file, entry in zip(files, entries, strict=True):
        match = _ENTRY.fullmatch(entry)
        if match is not None:
            first, rows, sequence = map(int, match.groups())
            ids[file.path] = FileRowIds(first, rows, sequence)
        elif entry != _NONE:
            raise RecipeError("ids of rows can't be read", where=ROW_IDS)
    return ids
