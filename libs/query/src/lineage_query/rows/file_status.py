"""How a file stands to what a job read or wrote of it: the one place that compares them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Literal, TypeAlias

from lineage_query.rows.reader import ForbiddenRowsError, RowReader
from lineage_store.paths import FileState, RowsError

FileStatus: TypeAlias = Literal["same", "touched", "changed", "gone", "unknown"]
"""A file now. ``same``: size and time are those of then. ``touched``: the time is another, and checksums say that
the content is what was read. ``changed``: the content is another, or the time is and no checksum can tell.
``gone``: there is none. ``unknown``: nobody here can tell."""
Binding: TypeAlias = Literal["checksum", "state", "now"]
"""What binds the text of a row to what the job saw. ``checksum``: that of the rows around it is what it was.
``state``: no checksum was taken; size and time of the file are what they were. ``now``: nothing: the text is what
stands at that place now, maybe of another row."""
CurrentState: TypeAlias = FileState | Literal["unseen"] | None
"""What this process sees of a file."""
_ORDER: tuple[FileStatus, ...] = ("same", "touched", "unknown", "changed", "gone")


def by_state(state: FileState | None, size: int, mtime: float) -> FileStatus | None:
    """How a file stands by its state alone; None where just its time is another: checksums may tell."""
    if state is None:
        return "gone"
    if state.is_still(size, mtime):
        return "same"
    return None if state.size == size else "changed"


def current_state(reader: RowReader, path: str) -> CurrentState:
    """A file as it is now; unseen where this process may not look at it, or can't."""
    try:
        return reader.state(path)
    except (ForbiddenRowsError, RowsError):
        return "unseen"


def has_changed(file_status: FileStatus) -> bool:
    """Whether a file is not any more what it was."""
    return file_status in {"changed", "gone"}


def worst(file_statuses: Iterable[FileStatus]) -> FileStatus:
    """What is to be said of several files together."""
    return max(file_statuses, key=_ORDER.index, default="same")


def time_text(mtime: int) -> str:
    """A time in milliseconds since 1970 for people; as it is where no calendar has it."""
    try:
        return datetime.datetime.fromtimestamp(mtime / 1000, datetime.UTC).isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return f"{mtime} ms since 1970"
