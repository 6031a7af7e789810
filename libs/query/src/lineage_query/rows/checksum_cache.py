"""Caches checksums of blocks of rows of current files, by the state of the file of which they were computed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import tempfile
import threading
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lineage_core.contract.row_sums import BLOCK_ROWS
from lineage_core.environment.private_files import ensure_private_folder
from lineage_store.paths import FileState

CACHED_MAX = 1 << 12
"""Maximum number of splits whose checksums are cached in memory: about 10 kB each, for 128 MB of text."""
SAVED_MAX = 512
"""Maximum number of splits of one file whose checksums are cached between processes."""
SAVED_BYTES_MAX = 64 << 20
"""Maximum size of the cached checksums of one file: those of a billion rows. Larger ones are recomputed each time."""
SAVE_BYTES_MIN = 1 << 20
"""Minimum size of a file with cached checksums: recomputing those of smaller files is faster than the cache."""
_WHOLE_FILE = "whole"
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>](?:i8|U[1-9]\d{0,4}))', 'fortran_order': False, 'shape': \((\d{1,12}),\), \} *\n",
    re.DOTALL,
)
"""The header that numpy writes for a one-dimensional array of integers or texts. numpy's own reader evaluates the header
as a literal, and allocates as much memory as it declares."""


class ChecksumCache:
    """Checksums in memory, and in a folder for later processes. May be shared by threads."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._cached: OrderedDict[tuple[str, str], tuple[FileState, Any]] = OrderedDict()

    def rows(
        self, path: str, state: FileState, first: int, rows: int
    ) -> Sequence[str | None] | None:
        """The checksums of rows of a file in exactly that state; None if they are not cached."""
        saved = self._find(path, state, f"{first}.{rows}")
        return None if saved is None else [checksum or None for checksum in saved.tolist()]

    def store_rows(
        self, path: str, state: FileState, first: int, rows: int, sums: Sequence[str | None]
    ) -> None:
        """Store checksums of rows."""
        self._store(
            path, state, f"{first}.{rows}", np.array([checksum or "" for checksum in sums], np.str_)
        )

    def blocks(self, path: str, state: FileState, first: int, rows: int) -> dict[int, str | None]:
        """The checksums of blocks of rows of a file in exactly that state, which are cached in memory only.

        The caller adds those that it computes.
        """
        name = f"blocks {first}.{rows}"
        with self._lock:
            entry = self._cached.get((path, name))
        sums: dict[int, str | None] = entry[1] if entry is not None and entry[0] == state else {}
        self._remember(path, state, name, sums)
        return sums

    def file_checksum(self, path: str, state: FileState) -> str | None:
        """The checksum of a whole file in exactly that state; None if it is not cached."""
        saved = self._find(path, state, _WHOLE_FILE)
        return None if saved is None else str(saved[0])

    def store_file_checksum(self, path: str, state: FileState, checksum: str) -> None:
        """Store the checksum of a whole file."""
        self._store(path, state, _WHOLE_FILE, np.array([checksum]))

    def _find(self, path: str, state: FileState, name: str) -> Any:
        with self._lock:
            entry = self._cached.get((path, name))
        if entry is not None and entry[0] == state:
            return entry[1]
        saved = self._saved(path, state)
        # Load all of them: the next split of the file needs no access to the folder.
        for other, column in saved.items():
            if other != name:
                self._remember(path, state, other, column)
        if name in saved:
            self._remember(path, state, name, saved[name])
        return saved.get(name)

    def _store(self, path: str, state: FileState, name: str, column: Any) -> None:
        self._remember(path, state, name, column)
        if self._folder is None or state.change_token is None or state.size < SAVE_BYTES_MIN:
            return
        saved = list({**self._saved(path, state), name: column}.items())[-SAVED_MAX:]
        # If the checksums can't be stored, they are computed again: not an error.
        with contextlib.suppress(OSError):
            save_columns(self._file(path), {**dict(saved), "of": np.array(_named(path, state))})

    def _remember(self, path: str, state: FileState, name: str, column: Any) -> None:
        with self._lock:
            self._cached[path, name] = state, column
            self._cached.move_to_end((path, name))
            if len(self._cached) > CACHED_MAX:
                self._cached.popitem(last=False)

    def _saved(self, path: str, state: FileState) -> dict[str, Any]:
        """The stored arrays of a file in this state, by name; processes share them."""
        if self._folder is None or state.change_token is None:
            return {}
        saved = saved_columns(self._file(path), SAVED_BYTES_MAX)
        owner = saved.pop("of", None)
        if owner is None or owner.tolist() != _named(path, state):
            return {}
        return {name: column for name, column in saved.items() if _are_sums(name, column)}

    def _file(self, path: str) -> Path:
        assert self._folder is not None
        return self._folder / (hashlib.sha256(path.encode()).hexdigest()[:32] + ".sums.npz")


def _named(path: str, state: FileState) -> list[str]:
    return [path, str(state.size), str(state.change_token)]


def _are_sums(name: str, column: Any) -> bool:
    """Whether a column holds checksums, as many as its name states."""
    if column.dtype.kind != "U":
        return False
    if name == _WHOLE_FILE:
        return len(column) == 1
    first, _, rows = name.partition(".")
    return first.isdecimal() and rows.isdecimal() and len(column) == -(-int(rows) // BLOCK_ROWS)


def saved_columns(file: Path, bytes_max: int) -> dict[str, Any]:
    """The arrays, all of one dimension, of a file that :func:`save_columns` wrote; none where it is no such file.

    ``bytes_max``: of all arrays. Larger ones are not unpacked, whatever size the file declares.
    """
    columns: dict[str, Any] = {}
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.namelist():
                with archive.open(member) as opened:
                    content = opened.read(bytes_max + 1)
                bytes_max -= len(content)
                if bytes_max < 0:
                    return {}
                columns[member.removesuffix(".npy")] = _column(content)
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return {}
    return columns


def _column(content: bytes) -> Any:
    """An array of one dimension, whose length is that of its bytes.

    Raises:
        ValueError: it is none.
    """
    header = _HEADER.match(content)
    if header is None:
        raise ValueError("an array of another form")
    dtype, length, raw = np.dtype(header[1].decode()), int(header[2]), content[header.end() :]
    if length * dtype.itemsize != len(raw):
        raise ValueError("an array of another length")
    if dtype.kind == "U" and (np.frombuffer(raw, dtype.str[0] + "u4") > sys.maxunicode).any():
        raise ValueError("what is no text")
    return np.frombuffer(raw, dtype) if raw else np.empty(0, dtype)


def save_columns(file: Path, columns: Mapping[str, Any]) -> None:
    """Write arrays to a file atomically.

    Raises:
        OSError: they can't be written.
    """
    ensure_private_folder(file.parent, ours=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as opened:
            np.savez_compressed(opened, **columns)
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise
