"""Files below a folder that Spark writes: as they were before a write, and what it added."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOCAL = "file:"
STATUS = re.compile(r"path=(.*?); isDirectory=false; length=(\d+);.*?modification_time=(\d+);")
"""A file's path, size and time in what Hadoop says of it."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file: ``size`` in bytes, ``mtime_ms`` in milliseconds since 1970."""

    size: int
    mtime_ms: int


FolderListing: TypeAlias = Mapping[str, FileFacts]
"""Data files by path, spelled as Hadoop does: ``file:/out/part-00000...``."""


class Folder:
    """A folder (there may be none yet) that a write goes to.

    ``path``: as Hadoop spells it.

    Raises:
        py4j.protocol.Py4JError: no file system knows such paths.
    """

    def __init__(self, sc: SparkContext, path: str) -> None:
        assert sc._jvm is not None
        named = sc._jvm.org.apache.hadoop.fs.Path(path)
        self.system = named.getFileSystem(sc._jsc.hadoopConfiguration())
        self._folder = self.system.makeQualified(named)
        self.path: str = self._folder.toString()

    def files(self) -> FolderListing:
        """Data files below it, in folders of partitions, too; none when it is not there.

        Raises:
            OSError, py4j.protocol.Py4JError: they can't be listed.
        """
        if self.path.startswith(f"{_LOCAL}/"):
            return dict(_local(self.path.removeprefix(_LOCAL)))
        return dict(_remote(self.system, self._folder))


def added_files(before: FolderListing, after: FolderListing) -> FolderListing:
    """What a write left: files that were not there before it, or not as they are now."""
    return {path: facts for path, facts in sorted(after.items()) if before.get(path) != facts}


def _local(folder: str) -> Iterator[tuple[str, FileFacts]]:
    if not os.path.isdir(folder):
        return
    todo = [folder]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                if not _is_data(entry.name):
                    continue
                if entry.is_dir():
                    todo.append(entry.path)
                else:
                    state = entry.stat()
                    mtime_ms = state.st_mtime_ns // 1_000_000
                    yield f"{_LOCAL}{entry.path}", FileFacts(state.st_size, mtime_ms)


def _remote(system: Any, folder: Any) -> Iterator[tuple[str, FileFacts]]:
    if not system.exists(folder):
        return
    root = folder.toString().rstrip("/")
    listed = system.listFiles(folder, True)
    while listed.hasNext():
        status = listed.next()
        path = status.getPath().toString()
        if all(map(_is_data, path.removeprefix(root).strip("/").split("/"))):
            yield path, FileFacts(status.getLen(), status.getModificationTime())


def _is_data(name: str) -> bool:
    """Whether Spark would read a file or folder of that name; ``_a=1`` is a partition's."""
    return not name.startswith(".") and (not name.startswith("_") or "=" in name)
