"""Files that Dask's DataFrames write (CSV, Parquet): a task writes a partition and gives, with it, the rows of sources that its rows were made from."""

from __future__ import annotations

import inspect
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow.parquet as pq
from dask.dataframe.dask_expr._collection import new_collection
from dask.dataframe.dask_expr.io.parquet import ReadParquet, ReadParquetFSSpec, ToParquet
from dask.dataframe.io.csv import _write_csv
from dask.dataframe.io.parquet.core import ToParquetFunctionWrapper
from dask.dataframe.io.utils import _is_local_fs
from fsspec.core import OpenFile, open_files

from lineage_core.contract.message import RecordSplit
from lineage_emitter.sdk.dask_files import LINE_END_REASON, LINES_AS_BYTES, Written, is_plain
from lineage_emitter.sdk.line_files import lines_of
from lineage_emitter.sdk.mapreduce_task import version

ROWS_REASON = "a file that was written has another number of rows than its partition"
Refuse = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A file that a task wrote. ``header``: how many records of it, before those of the partition, were made from nothing."""

    path: str
    written: Written
    header: int = 0


@dataclass(frozen=True)
class CsvWrite:
    """Writes partitions as ``to_csv`` does. ``token``: another for each call, so that none is taken for another."""

    has_lines: ClassVar[bool] = True
    files: tuple[OpenFile, ...]
    options: Mapping[str, Any]
    header_first_only: bool
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def folder(self) -> str:
        """Where the files are."""
        return os.path.dirname(str(self.files[0].path))

    def __call__(self, rows: Any, partition: int) -> WrittenPart:
        """Write a partition; runs in its task."""
        file, options = self.files[partition], dict(self.options)
        if partition and self.header_first_only:
            options["header"] = False
        _write_csv(rows, file, **options)
        header = int(options.get("header", True) is not False)
        lines = len(rows) + header
        state = version(file.path)
        is_divided = (file.encoding or "utf-8").lower() in LINES_AS_BYTES
        problem = "" if is_divided and lines_of(file.path) == lines else LINE_END_REASON
        return WrittenPart(file.path, Written(lines, state, problem), header)


@dataclass(frozen=True)
class ParquetWrite:
    """Writes partitions as ``to_parquet`` does; ``token`` as of :class:`CsvWrite`."""

    has_lines: ClassVar[bool] = False
    folder: str
    write: ToParquetFunctionWrapper
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __call__(self, rows: Any, partition: int) -> WrittenPart:
        """Write a partition; runs in its task."""
        number = partition + self.write.i_offset
        name_of = self.write.name_function
        name = f"part.{number}.parquet" if name_of is None else name_of(number)
        path = os.path.join(self.folder, name)
        self.write(rows, (partition,))
        state = version(path)
        fits = pq.read_metadata(path).num_rows == len(rows)
        return WrittenPart(path, Written(len(rows), state, "" if fits else ROWS_REASON))


@dataclass(frozen=True, slots=True)
class FrameWrite:
    """A call that writes the rows of a DataFrame. ``name``: of the method; ``options``: of the computation; ``result``: what the call gives."""

    name: str
    frame: Any
    write: CsvWrite | ParquetWrite
    options: Mapping[str, Any]
    result: Any = None


def csv_write(original: Callable[..., Any], refuse: Refuse, *args: Any, **named: Any) -> FrameWrite:
    """What a call of ``to_csv`` writes, where lines of its files are rows."""
    call = inspect.signature(original).bind(*args, **named)
    call.apply_defaults()
    given = call.arguments
    options = dict(given.pop("kwargs", {}))
    if given["single_file"] or given["mode"] not in ("w", "wt") or not given["compute"]:
        refuse("DataFrame.to_csv later, into a single file, or behind what a file holds")
    if {"compression", "mode"} & options.keys():
        refuse("DataFrame.to_csv with options of pandas for files")
    files = open_files(
        given["filename"],
        mode=given["mode"],
        name_function=given["name_function"],
        num=given["df"].npartitions,
        compression=given["compression"],
        encoding=given["encoding"],
        newline="",
        **(given["storage_options"] or {}),
    )
    if not is_plain(files):
        refuse("DataFrame.to_csv compressed, or to other file systems")
    computing = dict(given["compute_kwargs"] or {})
    if given["scheduler"] is not None:
        computing.setdefault("scheduler", given["scheduler"])
    write = CsvWrite(tuple(files), options, bool(given["header_first_partition_only"]))
    return FrameWrite(
        "to_csv", given["df"], write, computing, [os.path.normpath(file.path) for file in files]
    )


def parquet_write(
    original: Callable[..., Any], refuse: Refuse, *args: Any, **named: Any
) -> FrameWrite:
    """What a call of ``to_parquet`` writes. The call itself prepares the folder, and the rows with their index."""
    call = inspect.signature(original).bind(*args, **named)
    call.apply_defaults()
    given = call.arguments
    if given["partition_on"] or given["write_metadata_file"] or not given["compute"]:
        refuse("DataFrame.to_parquet later, by partition_on, or with a file of metadata")
    if given["append"]:
        refuse("DataFrame.to_parquet that appends")
    given["compute"] = False
    prepared = original(*call.args, **call.kwargs).expr
    if not isinstance(prepared, ToParquet) or not _is_local_fs(prepared.fs):
        refuse("DataFrame.to_parquet to other file systems")
    names = ("engine", "path", "fs", "partition_on", "write_metadata_file", "offset")
    wrapper = ToParquetFunctionWrapper(
        *(prepared.operand(name) for name in (*names, "name_function", "write_kwargs"))
    )
    write = ParquetWrite(os.path.abspath(prepared.operand("path")), wrapper)
    return FrameWrite(
        "to_parquet", new_collection(prepared.frame), write, given["compute_kwargs"] or {}
    )


def record_splits(expression: ReadParquet) -> tuple[RecordSplit, ...]:
    """The file that each partition reads as a whole, row by row; none where partitions may hold other rows."""
    if not isinstance(expression, ReadParquetFSSpec):
        return ()
    if not _is_local_fs(expression._dataset_info["fs"]):
        return ()
    pieces: list[Any] = [
        part.get("piece") for part in expression._plan["parts"] if isinstance(part, dict)
    ]
    are_whole = all(piece is not None and piece[1] in (None, [None]) for piece in pieces)
    plain = expression.operand("filters") is None and expression.operand("_partitions") is None
    if not plain or not are_whole or len(pieces) != expression.npartitions:
        return ()
    if new_collection(expression).optimize(fuse=False).npartitions != len(pieces):
        return ()
    paths = [os.path.realpath(piece[0]) for piece in pieces]
    return tuple(
        RecordSplit(
            partition=n,
            path=f"file:{path}",
            start=0,
            length=os.stat(path).st_size,
            first=0,
            **version(path),
        )
        for n, path in enumerate(paths)
    )


def path_read(expression: Any) -> str:
    """What a DataFrame is read from, for people; empty: no files."""
    if isinstance(expression, ReadParquet):
        paths = expression.operand("path")
        return ", ".join(map(str, paths)) if isinstance(paths, list | tuple) else str(paths)
    return ""
