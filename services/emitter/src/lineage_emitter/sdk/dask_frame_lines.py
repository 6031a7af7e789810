"""Files of text that Dask's DataFrames are read from: which line of its file each row is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fsspec.core import open_files
from fsspec.utils import infer_compression, read_block

from lineage_core.contract.message import Split
from lineage_emitter.sdk.dask_files import (
    LINES_AS_BYTES,
    block_splits,
    local_files,
    recorded_blocks,
)
from lineage_emitter.sdk.files import is_compressed
from lineage_emitter.sdk.line_files import split_of

csv: Any = import_module("dask.dataframe.io.csv")
ROWS = "-rows"
"""Ends the node of rows that are no lines, beside the node of the others."""


@dataclass(frozen=True, slots=True)
class RowNumbers:
    """Names rows by their places in their partition."""

    node: str

    def __call__(self, rows: int, partition: int) -> list[str]:
        """Addresses of the rows of a partition; runs in its task."""
        return [f"{self.node}#{partition}#{row}" for row in range(rows)]


@dataclass(frozen=True, slots=True)
class LineNumbers:
    """Names rows by the lines of their block, and where these are not known by their places, of another node.

    Args:
        node: of the source.
        blocks: path, first byte and length of the block that each partition reads.
        head: how many lines of a file come before its first row.
        skips_empty: whether empty lines are no rows.
    """

    node: str
    blocks: tuple[tuple[str, int, int], ...]
    head: int
    skips_empty: bool

    def __call__(self, rows: int, partition: int) -> list[str]:
        """Addresses of the rows of a partition; runs in its task."""
        path, start, length = self.blocks[partition]
        with open(path, "rb") as file:
            content = read_block(file, start, length, b"\n")
        lines = lines_of_rows(content, rows, 0 if start else self.head, self.skips_empty)
        if lines is None:
            return RowNumbers(self.node + ROWS)(rows, partition)
        return [f"{self.node}#{partition}#{line}" for line in lines]


def lines_of_rows(content: bytes, rows: int, head: int, skips_empty: bool) -> Sequence[int] | None:
    """The line of each row that pandas made of a text.

    A line is at most one row, and rows are in the order of lines. So if there are as many lines as rows, each is one.

    Args:
        content: the text.
        rows: how many rows were made of it.
        head: how many lines came before them.
        skips_empty: whether empty lines are no rows, and none of the head.

    Returns:
        Numbers of lines, from 0; None: rows may be other things than lines, as where a value holds a line end.
    """
    if content.count(b"\r") != content.count(b"\r\n"):
        return None
    lines = content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
    if lines == rows + head:
        return range(head, lines)
    if not skips_empty:
        return None
    kept = [number for number, line in enumerate(content.splitlines()) if line]
    return kept[head:] if len(kept) == rows + head else None


@dataclass(frozen=True, slots=True)
class TextRead:
    """What a DataFrame is read from. ``name``: of the function that reads; ``path``: for people; ``splits``: none where rows are no lines."""

    name: str
    path: str
    splits: tuple[Split, ...] = ()
    head: int = 0
    skips_empty: bool = False

    def numbers(self, node: str) -> RowNumbers | LineNumbers:
        """What names its rows, in tasks."""
        if not self.splits:
            return RowNumbers(node)
        blocks = tuple(
            (split.path.removeprefix("file:"), split.start, split.length) for split in self.splits
        )
        return LineNumbers(node, blocks, self.head, self.skips_empty)


def read_text(make: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, TextRead]:
    """A DataFrame that a function of Dask reads from files of text, and where its rows lie in them."""
    blocks: list[list[Any]] = []
    with recorded_blocks(csv, blocks):
        made = make(*args, **options)
    call = inspect.signature(make).bind(*args, **options)
    call.apply_defaults()
    given = call.arguments
    paths = given["urlpath"] if isinstance(given["urlpath"], list | tuple) else [given["urlpath"]]
    read = TextRead(make.__name__, ", ".join(map(str, paths)))
    head = _head(given["kwargs"])
    if head is None or given["lineterminator"] is not None or given["storage_options"]:
        return made, read
    files = local_files(open_files(given["urlpath"], mode="rb", compression=None))
    if given["compression"] not in (None, "infer") or any(map(_is_packed, files)):
        return made, read
    splits = tuple(split_of(n, *part) for n, part in enumerate(block_splits(files, blocks)))
    if len(splits) != made.npartitions:
        return made, read
    skips_empty = given["kwargs"].get("skip_blank_lines", True) is True
    is_head_alone = not given["kwargs"].get("skiprows")
    return made, TextRead(read.name, read.path, splits, head, skips_empty and is_head_alone)


def _is_packed(path: str) -> bool:
    return is_compressed(path) or infer_compression(path) is not None


def _head(options: Mapping[str, Any]) -> int | None:
    """How many lines of a file come before its rows; None: not known."""
    if str(options.get("encoding") or "utf-8").lower() not in LINES_AS_BYTES:
        return None
    skipped = options.get("skiprows") or 0
    header = options.get("header", "infer")
    if header == "infer":
        header = 0 if options.get("names") is None else None
    known = isinstance(skipped, int) and (header is None or isinstance(header, int))
    return skipped + (0 if header is None else header + 1) if known else None
