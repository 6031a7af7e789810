"""Folders of array files (Zarr) as one stream of bytes, for a process that opens no file."""

from __future__ import annotations

import io
import os
import stat
from contextlib import closing
from dataclasses import dataclass, field
from typing import IO, cast

from lineage_core.tracing.budget import current_budget
from lineage_query.rows.reader import RowReader
from lineage_store.paths import RowsError, canonical, split_scheme, walked

FILES_MAX = 10_000
"""Files of a folder whose values are read, at most: each is opened for a question."""


@dataclass(frozen=True)
class TreeFiles:
    """The files of a folder: their paths in it, and their sizes, in order of paths."""

    folder: str
    files: list[tuple[str, int]]

    @property
    def size(self) -> int:
        return sum(size for _, size in self.files)


def files_of(path: str) -> TreeFiles:
    """The files that lie in a folder now. What may be read is for the reader to say.

    Raises:
        RowsError: it is not on this machine, has a link or what is no file, too many files, or can't be read.
        BudgetError: the question takes too long.
    """
    if split_scheme(path)[0] != "file" or canonical(path) != path:
        raise RowsError(
            f"{path} is reached by a link, or lies in another store: read it where it is"
        )
    try:
        return TreeFiles(path, sorted(_files_in(path)))
    except OSError as error:
        raise RowsError(str(error)) from error


def _files_in(path: str) -> list[tuple[str, int]]:
    files: list[tuple[str, int]] = []
    for folder, folders, names in walked(path):
        for name in (*folders, *names):
            full = os.path.join(folder, name)
            status = os.lstat(full)
            if stat.S_ISREG(status.st_mode):
                files.append((os.path.relpath(full, path), status.st_size))
            elif not stat.S_ISDIR(status.st_mode):
                raise RowsError(
                    f"{full} is a link, or no file: a server follows none in a folder of an array"
                )
        if len(files) > FILES_MAX:
            raise RowsError(
                f"{path} has more than {FILES_MAX:,} files: read it where it is, or write larger chunks"
            )
    return files


@dataclass
class JoinedFiles(io.RawIOBase):
    """Files of a folder one behind the other. Each is opened by the reader when a part of it is read."""

    reader: RowReader
    tree: TreeFiles
    _at: int = field(init=False, default=0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = (
            offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.tree.size}[whence]
        )
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes; fewer than the files had when they were listed where one has fewer now.

        Raises:
            OSError: a file may not be read, is gone, or a link was put on the way to it.
        """
        left = self.tree.size - self._at if size < 0 else size
        parts = []
        begin = 0
        for name, length in self.tree.files:
            first, behind = max(self._at - begin, 0), min(self._at + left - begin, length)
            if first < behind:
                parts.append(self._part(name, first, behind))
            begin += length
        content = b"".join(parts)
        self._at += len(content)
        return content

    def _part(self, name: str, first: int, behind: int) -> bytes:
        current_budget().check()
        try:
            with closing(
                self.reader.opened(os.path.join(self.tree.folder, name), packed=True)
            ) as file:
                file.stream.seek(first)
                return file.stream.read(behind - first)
        except RowsError as error:
            raise OSError(str(error)) from error


def joined(reader: RowReader, tree: TreeFiles) -> IO[bytes]:
    """The files of a folder as one stream."""
    return cast("IO[bytes]", JoinedFiles(reader, tree))
