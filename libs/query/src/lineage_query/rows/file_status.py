"""Compares a file with the version that a job read or wrote; no other module does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from lineage_query.rows.reader import ForbiddenRowsError, RowReader
from lineage_store.paths import FileState, RowsError

FileStatus: TypeAlias = Literal["same", "touched", "changed", "gone", "unknown"]
"""The status of a file. ``same``: size and modification time are as recorded. ``touched``: the time differs, and
checksums show that the content is the same. ``changed``: the content differs, or the time does and there is no checksum.
``gone``: the file does not exist. ``unknown``: the state of the file is not available here."""
Binding: TypeAlias = Literal["checksum", "state", "now"]
"""The evidence that a text is that of the row the job processed. ``checksum``: the checksum of the block of rows around
it matches. ``state``: there is no checksum; size and modification time of the file match. ``now``: none: the text is
the current one at that position, maybe of another row."""
CurrentState: TypeAlias = FileState | Literal["unseen"] | None
"""What this process sees of a file."""
_ORDER: tuple[FileStatus, ...] = ("same", "touched", "unknown", "changed", "gone")


def by_state(state: FileState | None, size: int, mtime: float) -> FileStatus | None:
    """The status of a file by its size and time; None if only its time differs: checksums may decide."""
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
    """Whether a file has changed."""
    return file_status in {"changed", "gone"}


def worst(file_statuses: Iterable[FileStatus]) -> FileStatus:
    """The combined status of several files."""
    return max(file_statuses, key=_ORDER.index, default="same")
