"""By which key an application's files are found again: the path that a file had when it was noted, links followed.

A key says where to look, and no more: whether an application knows a file is decided by its messages. What has no key
(:data:`UNRESOLVED`) is looked at each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

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

UNRESOLVED = 0
"""The key of files that this process could not look for: a folder of another machine, or one that is gone."""
FILE_MESSAGES = (*SPLITS, *FILES)
"""Types of the messages that name files."""


def paths_in(message: Message) -> Iterator[str]:
    """The files that a message names, as the job wrote them."""
    if isinstance(message, Splits | RecordSplits):
        yield from dict.fromkeys(split.path for split in message.splits)
    elif isinstance(message, SinkFiles | RecordFiles):
        yield from dict.fromkeys(file.path for file in message.files)


def keys_in(message: Message, spellings: Spellings) -> set[int]:
    """Keys of the files that a message names, as signed 64-bit integers.

    Args:
        message: of any type; most name no file.
        spellings: whose links were followed just now.
    """
    return {key for path in paths_in(message) for key in _keys_of(path, spellings)}


def keys_to_look_up(path: str, spellings: Spellings) -> list[int]:
    """All keys under which an application may be found that knows a file.

    Args:
        path: the file, as somebody typed it.
        spellings: whose links were followed just now.

    Raises:
        RowsError: it can't be the name of a file.
    """
    return [UNRESOLVED, *sorted({_hash(spellings.of(path)), _hash(_lexical(path))} - {UNRESOLVED})]


def _keys_of(path: str, spellings: Spellings) -> Iterable[int]:
    scheme, rest = split_scheme(path)
    if scheme == "file" and (rest[:1] != "/" or not os.path.isdir(os.path.dirname(rest))):
        return (UNRESOLVED,)
    try:
        return {_hash(spellings.of(path)), _hash(_lexical(path))}
    except RowsError:
        return (UNRESOLVED,)


def _lexical(path: str) -> str:
    """A path as it is written: absolute where it can be, and no link followed."""
    scheme, rest = split_scheme(path)
    return os.path.abspath(os.path.expanduser(rest)) if scheme == "file" else rest


def _hash(path: str) -> int:
    return xxh3_64_intdigest(path.encode(errors="surrogatepass")) - BIAS or 1
