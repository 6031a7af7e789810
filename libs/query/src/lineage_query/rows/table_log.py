"""Logs of versioned tables, which lie in the tables' folders. A job may have written them: they are read as untrusted files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_query.rows.reader import ForbiddenRowsError, RowReader
from lineage_store.paths import RowsError, canonical, plain_path, split_scheme

COMMITS_MAX = 2_000
"""Maximum number of commits to read, the latest ones: takes a few seconds."""
BYTES_MAX = 64 << 20
"""Maximum size of a log file: a commit with a larger one is unknown."""
LOG_BYTES_MAX = 256 << 20
"""Maximum size of all log files that one query reads."""


@dataclass(frozen=True, slots=True)
class TableLog:
    """The log of a table: its folder, its kind (`DELTA` or `ICEBERG`), and how its files are read."""

    folder: Path
    kind: str
    files: LogReader


@contextmanager
def opened_log(reader: RowReader, table_path: str) -> Iterator[TableLog]:
    """The log of the table in a folder of this machine.

    Raises:
        RowsError: it can't be read, also where the body finds that it is no log.
    """
    if split_scheme(canonical(table_path))[0] not in {"", "file"}:
        raise RowsError("it is not on this machine")
    if not reader.may_read(canonical(table_path)):
        raise ForbiddenRowsError("its files may not be read here")
    folder = Path(plain_path(canonical(table_path)))
    try:
        kind = kind_at(folder)
        if kind is None:
            raise RowsError("it has no log")
        yield TableLog(folder, kind, LogReader(reader))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise RowsError(f"its log can't be read: {problem}") from problem


def kind_at(folder: Path) -> str | None:
    """The kind of table in a folder; None if there is none.

    Raises:
        RowsError: it is of two kinds.
    """
    has_log = (folder / "_delta_log").is_dir()
    if any((folder / "metadata").glob("*.metadata.json")):
        if has_log:
            raise RowsError("it has logs of two kinds")
        return ICEBERG
    return DELTA if has_log else None


@dataclass(slots=True)
class LogReader:
    """Reads log files, which are untrusted (a job may have written them): only regular files, and limited in size."""

    reader: RowReader
    bytes_left: int = field(default_factory=lambda: LOG_BYTES_MAX)

    def text(self, path: Path) -> str | None:
        """The content of a file; None if it is too large.

        Raises:
            RowsError: it is no file that may be read here.
        """
        if not self.reader.may_read(canonical(str(path))):
            raise ForbiddenRowsError(f"{path.name} may not be read here")
        with open(path, "rb", opener=_no_link) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise RowsError(f"{path.name} is no file of its own")
            if status.st_size > BYTES_MAX:
                return None
            data = stream.read(status.st_size)
        self.bytes_left -= len(data)
        if self.bytes_left < 0:
            raise RowsError("its log is too large")
        return data.decode("utf-8")


def _no_link(path: str, flags: int) -> int:
    # Opening a pipe or device must not block.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
