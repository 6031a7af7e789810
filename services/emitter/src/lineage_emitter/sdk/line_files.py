"""Files of text whose lines are the items of a source or of a sink."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from lineage_core.contract.message import RecordSplit, SinkFile, SinkFiles, Split, Splits
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.sdk.files import is_compressed
from lineage_emitter.sdk.mapreduce_task import version

_READ_AT_ONCE = 1 << 20


def files_read(app: str, node: str, files: Mapping[int, str]) -> Splits:
    """That the items of each partition are the lines of a file, as it is now.

    Raises:
        OSError: there is no such file.
        CaptureFailedError: it is compressed.
    """
    _check_plain(files)
    splits = tuple(split_of(partition, path) for partition, path in files.items())
    return Splits(app=app, node=node, splits=splits)


def split_of(partition: int, path: str, start: int = 0, length: int | None = None) -> Split:
    """That a partition is a part of a file, as it is now. ``length``: of the part; None: all of it.

    Raises:
        OSError: there is no such file.
    """
    place, state = f"file:{os.path.realpath(path)}", version(path)
    length = state["file_size"] if length is None else length
    return Split(partition=partition, path=place, start=start, length=length, **state)


def files_written(app: str, node: str, files: Mapping[int, str]) -> SinkFiles:
    """That the items of each partition are the lines of a file, as it is now.

    Raises:
        OSError: there is no such file.
        CaptureFailedError: it is compressed.
    """
    _check_plain(files)
    written = []
    for partition, path in files.items():
        state, lines = version(path), lines_of(path)
        written.append(file_written(partition, path, state, None if lines < 0 else lines))
    folder = os.path.commonpath(
        [os.path.dirname(os.path.realpath(path)) for path in files.values()]
    )
    return SinkFiles(app=app, node=node, path=f"file:{folder}", files=tuple(written))


def file_written(partition: int, path: str, state: Mapping[str, Any], rows: int | None) -> SinkFile:
    """That a partition is a file.

    Args:
        partition: of a sink.
        path: of the file.
        state: of the file when its items were in it (:func:`lineage_emitter.sdk.mapreduce_task.version`).
        rows: how many items are in it; None where that is not known.
    """
    size, mtime = state["file_size"], state["mtime"]
    place = f"file:{os.path.realpath(path)}"
    return SinkFile(partition=partition, path=place, size=size, mtime=mtime, rows=rows)


def _check_plain(files: Mapping[int, str]) -> None:
    for path in filter(is_compressed, files.values()):
        raise CaptureFailedError(
            f"{path} is compressed: lines of what is in it are not lines of it"
        )


def changed(splits: Iterable[Split | RecordSplit]) -> list[str]:
    """Files that are not any more what they were when splits were made of them."""
    states = {split.path: (split.file_size, split.mtime) for split in splits}
    return [path for path, state in states.items() if _state(path) != state]


def _state(path: str) -> tuple[int, float] | None:
    try:
        state = version(path.removeprefix("file:"))
    except OSError:
        return None
    return state["file_size"], state["mtime"]


def lines_of(path: str) -> int:
    """How many lines a file has; -1: a CR may end others, or the last one has no end."""
    lines, last = 0, b"\n"
    with open(path, "rb") as file:
        while content := file.read(_READ_AT_ONCE):
            if b"\r" in content:
                return -1
            lines, last = lines + content.count(b"\n"), content[-1:]
    return lines if last == b"\n" else -1
