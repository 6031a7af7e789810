"""By which keys the applications are found that know a file: by its name, and then by its folder as it is reached now.

A key says where to look, and no more: whether an application knows a file is decided by its messages. So keys may lead to
applications that don't, and must lead to all that do. Links are followed when the question is put, as they are then: a folder
may have been moved meanwhile, with a link left in its place. One case is not seen: a single file that was moved, with a link of
another name left in its place.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from xxhash import xxh3_64_intdigest

from lineage_core.contract.message import (
    Message,
    RecordFiles,
    RecordSplits,
    SinkFiles,
    Splits,
)
from lineage_store.paths import RowsError, Spellings, split_scheme
from lineage_store.records import FILES, SPLITS
from lineage_store.signed import BIAS

FILE_MESSAGES = (*SPLITS, *FILES)
"""Types of the messages that name files."""
ANY_FOLDER = ""
"""Of a file whose folder does not tell where it is: it was named by a link, or by a path without a folder."""


class FileKey(NamedTuple):
    """``name``: hash of a file's name, a signed 64-bit integer. ``folder``: as the job wrote it, or `ANY_FOLDER`."""

    name: int
    folder: str


def keys_in(message: Message) -> set[FileKey]:
    """Keys of the files that a message names; most messages name none."""
    return {key for path in _paths_in(message) for key in _keys_of(path)}


def names_of(path: str, spellings: Spellings) -> dict[str, int]:
    """The names under which applications may have noted a file, with their hashes.

    Args:
        path: the file, as somebody typed it.
        spellings: whose links are followed now.

    Raises:
        RowsError: it can't be the name of a file.
    """
    return {name: _hash(name) for name in (_name(path), _name(spellings.of(path)))}


def may_match(folder: str, path: str, spellings: Spellings) -> bool:
    """Whether a file of that name in a noted folder may be the one of that path."""
    if folder == ANY_FOLDER:
        return True
    try:
        canonical_path = spellings.of(path)
        return any(
            spellings.of(f"{folder}/{name}") == canonical_path for name in names_of(path, spellings)
        )
    except RowsError:
        return True


def applications_by_folders(
    rows: Iterable[Sequence[Any]], path: str, spellings: Spellings
) -> list[str]:
    """Applications that may know a file, the latest first.

    Args:
        rows: of files of its names: application, when it began, and the noted folder.
        path: the file, as somebody typed it.
        spellings: whose links are followed now.
    """
    folders: dict[tuple[float, str], set[str]] = {}
    for app, started_at, folder in rows:
        folders.setdefault((started_at, app), set()).add(folder)
    return [
        app
        for (started_at, app), app_folders in sorted(folders.items(), reverse=True)
        if any(may_match(folder, path, spellings) for folder in app_folders)
    ]


def _paths_in(message: Message) -> Iterator[str]:
    if isinstance(message, Splits | RecordSplits):
        yield from dict.fromkeys(split.path for split in message.splits)
    elif isinstance(message, SinkFiles | RecordFiles):
        yield from dict.fromkeys(file.path for file in message.files)


def _keys_of(path: str) -> Iterable[FileKey]:
    folder, _, name = path.rpartition("/")
    if name in {"", ".", ".."}:
        # Its own name stands elsewhere.
        folder = ANY_FOLDER
    for spelled in {name, unquote(name)}:
        yield FileKey(_hash(spelled), folder)
    scheme, rest = split_scheme(path)
    if scheme == "file" and os.path.islink(rest):
        yield FileKey(_hash(_name(os.path.realpath(rest))), ANY_FOLDER)


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _hash(name: str) -> int:
    return xxh3_64_intdigest(name.encode(errors="surrogatepass")) - BIAS
