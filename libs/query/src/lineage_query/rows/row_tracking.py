"""Row ids of a table of Delta Lake that tracks its rows.

The log gives each file a range of ids, one a row. A commit that puts a row into another file writes its id beside it, and the version
that changed it last, in columns that the table's properties name; where they are NULL or missing, the log's count.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#row-tracking
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import unquote

from lineage_store.paths import RowsError

NUMBERS_END = 1 << 62
"""Ids, versions and numbers of rows are below this: two of them together are a 64-bit integer."""
_ENABLED = "delta.enableRowTracking"
_COLUMNS = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
_PRESERVED = "delta.rowTracking.preserved"


class IdColumns(NamedTuple):
    """Names of the columns, in files, of the ids of rows and of the versions that changed them last."""

    row: str
    version: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What a table's properties say. ``columns``: None where they name none."""

    is_enabled: bool
    columns: IdColumns | None

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> Settings:
        """Those of an action ``metaData``."""
        properties = metadata.get("configuration") or {}
        names = [str(properties[name]) for name in _COLUMNS if name in properties]
        columns = IdColumns(*names) if len(names) == len(_COLUMNS) else None
        return cls(str(properties.get(_ENABLED, "")).lower() == "true", columns)


@dataclass(frozen=True, slots=True)
class FileIds:
    """What the log says of the rows of a file: row k has the id ``base + k`` and was changed last by ``version``, where the file says nothing else.

    ``rows``: how many there are, deleted ones too; None: not known. ``size``, ``mtime``: of the file, in bytes and seconds.
    """

    base: int
    version: int
    rows: int | None
    size: int
    mtime: float

    @classmethod
    def of(cls, add: Mapping[str, Any]) -> FileIds | None:
        """Those of an action ``add``; None: its rows have no ids."""
        rows = json.loads(add["stats"]).get("numRecords") if add.get("stats") else None
        numbers: list[Any] = [
            add.get(name)
            for name in ("baseRowId", "defaultRowCommitVersion", "size", "modificationTime")
        ]
        base, version, size, modified = numbers
        if not all(map(is_number, numbers)) or not (rows is None or is_number(rows)):
            return None
        return cls(base, version, rows, size, modified / 1000)


def is_number(value: object) -> TypeGuard[int]:
    """Whether a log's value can be an id, a version, or a number of rows."""
    # A job may have written the log. Another kind of number may be too large for what counts with it.
    return type(value) is int and 0 <= value < NUMBERS_END


def ids_of_files(adds: Iterable[Mapping[str, Any]]) -> dict[str, FileIds]:
    """What a commit says of the rows of the files that it adds, by path."""
    return {unquote(add["path"]): ids for add in adds if (ids := FileIds.of(add)) is not None}


def preserves_ids(commit_info: Mapping[str, Any]) -> bool:
    """Whether a commit says that all rows that it put into other files kept their ids."""
    return str((commit_info.get("tags") or {}).get(_PRESERVED, "")).lower() == "true"


class RowPlace(NamedTuple):
    """A row of a file of the table, from 0."""

    file: str
    ordinal: int


class HeldIds(NamedTuple):
    """Whether some row of a file has one of some ids, or none at all; and one of some versions, or none at all."""

    has_id: bool
    lacks_id: bool
    has_version: bool
    lacks_version: bool


class RowTracking:
    """The ids of the rows of a table's files, those included that are no more in it."""

    def __init__(self) -> None:
        self.is_enabled = False
        self._columns: dict[IdColumns, None] = {}
        self._files: dict[str, FileIds] = {}
        self._ambiguous: set[str] = set()
        """Files to which the log gives several ranges."""
        self._elsewhere: set[str] = set()
        """Files that got theirs in another log, which counts versions by itself, or in a part of this one that is gone."""
        self._by_base: list[tuple[int, str]] | None = None
        self._problem = ""

    def apply(self, version: int, settings: Settings | None, files: Mapping[str, FileIds]) -> None:
        """Take the next version into account. ``settings``: the new ones of the table; None: as before."""
        if settings is not None:
            self.is_enabled = settings.is_enabled
            if settings.columns is not None:
                self._columns[settings.columns] = None
        for path, ids in files.items():
            if path not in self._files and ids.version != version:
                self._elsewhere.add(path)
            known = self._files.setdefault(path, ids)
            # The log repeats those of a file with its deletions.
            if (known.base, known.version, known.size) != (ids.base, ids.version, ids.size):
                self._ambiguous.add(path)
        self._by_base = None

    def columns(self) -> IdColumns:
        """The columns of files that have the ids of rows.

        Raises:
            RowsError: the log does not say it for certain.
        """
        if len(self._columns) != 1:
            raise RowsError("its log does not name one column of row ids")
        return next(iter(self._columns))

    def of_file(self, file: str) -> FileIds:
        """What the log says of the rows of a file.

        Raises:
            RowsError: nothing, or different things.
        """
        if file not in self._files or file in self._ambiguous or file in self._elsewhere:
            raise RowsError("its log gives the rows of the file no ids")
        return self._files[file]

    def place_of(self, row_id: int) -> RowPlace | None:
        """The file in which a row was first, and where; None: the log lists none.

        Raises:
            RowsError: the log gives ids more than once.
        """
        by_base = self._sorted()
        at = bisect_right(by_base, row_id, key=lambda entry: entry[0]) - 1
        if at < 0:
            return None
        base, file = by_base[at]
        rows = self._files[file].rows
        if rows is not None and row_id >= base + rows:
            return None
        return RowPlace(file, row_id - base)

    def _sorted(self) -> list[tuple[int, str]]:
        if self._by_base is None:
            self._by_base = sorted((ids.base, file) for file, ids in self._files.items())
            self._problem = (
                "its log gives the rows of a file several ids" if self._ambiguous else ""
            )
            for (base, file), (following, _) in pairwise(self._by_base):
                rows = self._files[file].rows
                if following < base + (1 if rows is None else rows):
                    self._problem = "its log gives several rows the same id"
        if self._problem:
            raise RowsError(self._problem)
        return self._by_base
