"""Files of text whose lines are the items of a source or of a sink."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

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
    splits = []
    for partition, path in files.items():
        state = version(path)
        splits.append(
            Split(
                partition=partition,
                path=f"file:{os.path.realpath(path)}",
                start=0,
                length=state["file_size"],
                **state,
            )
        )
    return Splits(app=app, node=node, splits=tuple(splits))


def files_written(app: str, node: str, files: Mapping[int, str]) -> SinkFiles:
    """That the items of each partition are the lines of a file, as it is now.

    Raises:
        OSError: there is no such file.
        CaptureFailedError: it is compressed.
    """
    _check_plain(files)
    paths = {partition: os.path.realpath(path) for partition, path in files.items()}
    written = []
    for partition, path in paths.items():
        state, lines = version(path), lines_of(path)
        rows = None if lines < 0 else lines
        written.append(
            SinkFile(
                partition=partition,
                path=f"file:{path}",
                size=state["file_size"],
                mtime=state["mtime"],
                rows=rows,
            )
        )
    folder = os.path.commonpath([os.path.dirname(path) for path in paths.values()])
    return SinkFiles(app=app, node=node, path=f"file:{folder}", files=tuple(written))


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
