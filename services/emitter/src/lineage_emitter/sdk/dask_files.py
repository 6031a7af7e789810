"""Files of text that Dask's bags read and write: where the records of partitions lie in them."""

from __future__ import annotations

import inspect
import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from dask.bag.core import _to_textfiles_chunk
from fsspec.core import OpenFile, open_files
from fsspec.implementations.local import LocalFileSystem

from lineage_core.contract.message import SinkFile, Split
from lineage_emitter.sdk.files import is_compressed
from lineage_emitter.sdk.line_files import file_written, split_of
from lineage_emitter.sdk.mapreduce_task import version

text: Any = import_module("dask.bag.text")
LINES_AS_BYTES = ("utf-8", "utf8", "ascii", "latin-1")
"""Encodings in which the bytes of line ends are line ends."""
LINE_END_REASON = "a record that was written holds a line end: lines of the file are not records"
AGAIN_REASON = "the file was written again by another attempt at its task"


@dataclass(frozen=True, slots=True)
class Written:
    """What a task wrote: how many lines, and the state of the file behind it, or why lines are not records."""

    lines: int
    state: dict[str, Any]
    problem: str = ""


def read_with_splits(
    make: Callable[..., Any], *args: Any, **options: Any
) -> tuple[Any, tuple[Split, ...]]:
    """A bag of the lines of files, and the split of a file that each partition reads.

    There are no splits where partitions are no lines of local files, or lines may be divided otherwise than others divide them.
    """
    blocks: list[list[Any]] = []
    with recorded_blocks(text, blocks):
        made = make(*args, **options)
    given = inspect.signature(make).bind(*args, **options)
    given.apply_defaults()
    names = ("linedelimiter", "files_per_partition", "include_path", "storage_options")
    if any(given.arguments[name] for name in names):
        return made, ()
    if given.arguments["encoding"].lower() not in LINES_AS_BYTES:
        return made, ()
    files = local_files(open_files(given.arguments["urlpath"], mode="rb", compression=None))
    if given.arguments["compression"] not in (None, "infer") or any(map(is_compressed, files)):
        return made, ()
    if given.arguments["blocksize"] is None:
        splits = [(path, 0, os.stat(path).st_size) for path in files]
    else:
        splits = list(block_splits(files, blocks))
    if len(splits) != made.npartitions:
        return made, ()
    return made, tuple(split_of(n, *part) for n, part in enumerate(splits))


@contextmanager
def recorded_blocks(reader: Any, blocks: list[list[Any]]) -> Iterator[None]:
    """Keep the blocks that a module of Dask divides files into."""
    read_bytes = reader.read_bytes

    def recorded(*args: Any, **options: Any) -> Any:
        answer = read_bytes(*args, **options)
        blocks.extend(answer[1])
        return answer

    reader.read_bytes = recorded
    try:
        yield
    finally:
        reader.read_bytes = read_bytes


def block_splits(files: list[str], blocks: list[list[Any]]) -> Iterator[tuple[str, int, int]]:
    """Path, first byte and length of each block; none where others may divide a file otherwise.

    Args:
        files: that are read.
        blocks: of each file, as Dask's ``read_bytes`` gives them.
    """
    if len(files) != len(blocks):
        return
    for path, parts in zip(files, blocks, strict=True):
        if len(parts) > 1 and _holds_cr(path):
            return
        starts = [int(part.key.split("-")[2]) for part in parts]
        ends = [*starts[1:], os.stat(path).st_size]
        yield from ((path, start, end - start) for start, end in zip(starts, ends, strict=True))


def _holds_cr(path: str) -> bool:
    """Whether a file holds a CR, at which others may begin a block, and Dask does not."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"\r") >= 0


def local_files(files: Iterable[OpenFile]) -> list[str]:
    """Paths of files; none where some are of another file system."""
    files = list(files)
    if not all(isinstance(file.fs, LocalFileSystem) for file in files):
        return []
    return [os.path.realpath(file.path) for file in files]


def is_plain(files: Iterable[OpenFile]) -> bool:
    """Whether files are written where their lines can be found: on this machine, not compressed."""
    return all(isinstance(file.fs, LocalFileSystem) and file.compression is None for file in files)


def write_lines(values: list[Any], file: OpenFile, *, last_endline: bool) -> Written:
    """Write a partition as Dask does; runs in its task."""
    _to_textfiles_chunk(values, file, last_endline)
    lines = len(values)
    if last_endline and not values:
        lines = 1
    elif values and not values[-1] and not last_endline:
        lines -= 1  # an empty line without an end is none
    is_divided = (file.encoding or "utf-8").lower() in LINES_AS_BYTES
    is_divided = is_divided and not any(map(_holds_line_end, values))
    return Written(lines, version(file.path), "" if is_divided else LINE_END_REASON)


def _holds_line_end(value: str | bytes) -> bool:
    content = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return b"\n" in content or b"\r" in content


def sink_file(partition: int, written_path: str, written: Written) -> tuple[SinkFile, str]:
    """A file that was written, and why its lines, or its rows, can't be traced, if so."""
    state = version(written_path)
    problem = written.problem or (AGAIN_REASON if state != written.state else "")
    return file_written(partition, written_path, state, written.lines), problem
