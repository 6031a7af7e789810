"""Rows of an RDD that a DataFrame is made of, stored for traces: a Parquet file for each run of a partition.

Without them nobody could ask what became of a row in the DataFrame: its lineage is a query, and the rows are nowhere
else. A run's file is whole or is not there: it takes its name before the run's end marker is sent, so a file of a run
that failed, or was not read to its end, is named by no marker.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_core.contract.address import SpaceKind, parse_space, row_file_name
from lineage_core.environment.private_files import ensure_private_folder, private_opener
from lineage_emitter.errors import RowsNotStoredError
from lineage_emitter.failures import in_words
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.operators import Collect, Records

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyspark.sql.types import StructType

    from lineage_core.contract.block import FlowBlock
    from lineage_emitter.worker.detail import Detail

FIRST_ROWS = 256
"""Rows of the first group; later ones have as many as make `GROUP_BYTES`."""
ROWS_MAX = 16_384
GROUP_BYTES = 4 << 20
UNFINISHED = ".part"
"""Ends the name of a file that is being written."""


@dataclass(frozen=True, slots=True)
class RowStorage:
    """Where rows are stored, and their type. ``bytes_max``: of a partition's file."""

    folder: str
    struct: StructType
    bytes_max: int


class StoreRows(Collect):
    """Sink of rows that a DataFrame reads, each run with a space of its own; the rows are stored."""

    def __init__(self, detail: Detail, storage: RowStorage) -> None:
        super().__init__(detail, each_run=True)
        self.storage = storage

    def select_records(self, records: Records) -> Records:
        """All of them."""
        segment = segments.current_segment()
        run = RunRows(segment.space(self.detail.node), self.storage)
        segment.stored_rows = run
        return run.store(records)


class RunRows:
    """The rows of one run of a partition, and a digest of them and of all flows that led to them."""

    def __init__(self, space: str, storage: RowStorage) -> None:
        self._space = parse_space(space)
        self._file = RowFile(row_file_name(space), storage)
        self._digest = hashlib.blake2b(digest_size=16)

    def store(self, records: Iterable[Any]) -> Iterator[Any]:
        """Pass the records on, and write them to the file. A failure to write never reaches the job."""
        file = self._file
        buffered: list[Any] = []
        buffer_rows = FIRST_ROWS
        try:
            for record in records:
                buffered.append(record)
                if len(buffered) >= buffer_rows:
                    buffer_rows = file.write(buffered)
                yield record
        except BaseException:
            file.drop()
            raise
        file.write(buffered)
        self._digest.update(file.end())

    def add_block(self, block: FlowBlock) -> None:
        """A block of flows leaves the run. Two runs gave the same rows if they say the same."""
        sections = [
            (self._run_independent_name(section.space), section.row_first, section.row_stop)
            for section in block.out
        ]
        header = (
            block.block_id.node,
            block.relation,
            self._run_independent_name(block.in_space),
            sections,
        )
        self._digest.update(repr((header, block.exact)).encode())
        ends = (block.in_first, block.in_last, block.out_first, block.out_last)
        for column in (block.in_ptr, *ends):
            if column is not None:
                self._digest.update(len(column).to_bytes(8, "big"))
                self._digest.update(column.tobytes())

    def end_fact(self) -> dict[str, Any]:
        """What the end marker says of it."""
        return self._file.end_fact() | {"digest": self._digest.hexdigest()}

    def _run_independent_name(self, space: str) -> str:
        """A space's name in every run: those that this run makes are numbered by it."""
        own, name = self._space, parse_space(space)
        numbered = name.kind is SpaceKind.PARTITION and name.partition == own.partition
        if numbered and name.incarnation == own.incarnation:
            return f"{name.name}#{name.partition}."
        return space


class RowFile:
    """A file of rows, which has its name once it is whole. Nothing that goes wrong is raised."""

    def __init__(self, name: str, storage: RowStorage) -> None:
        self._storage = storage
        self._path = os.path.join(storage.folder, name)
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._is_complete = False
        self.failure = ""
        """Why rows are not stored; empty if they are."""

    def write(self, buffered: list[Any]) -> int:
        """Write the rows that are held, and hold them no more; how many are to be held the next time."""
        try:
            return ROWS_MAX if self.failure or not buffered else self._write_group(buffered)
        except Exception as problem:
            self._give_up(problem)
            return ROWS_MAX
        finally:
            buffered.clear()

    def end(self) -> bytes:
        """All rows are written; a digest of them."""
        digest = b""
        try:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
                digest = _digest_of(self._unfinished)
                os.rename(self._unfinished, self._path)
            self._is_complete = True
        except Exception as problem:
            self._give_up(problem)
        return digest

    def end_fact(self) -> dict[str, Any]:
        """Where the file is (no rows: none) and what it is like, or the ``reason`` why there is none."""
        if self.failure or not self._is_complete:
            return {"reason": self.failure or "they were not read to their end"}
        if not self._rows:
            return {"path": "", "rows": 0, "size": 0, "mtime": 0}
        state = os.stat(self._path)
        mtime = state.st_mtime_ns // 1_000_000
        return {"path": self._path, "rows": self._rows, "size": state.st_size, "mtime": mtime}

    def drop(self) -> None:
        """Remove what is written."""
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        with contextlib.suppress(Exception):
            writer.close()
        with contextlib.suppress(OSError):
            os.unlink(self._unfinished)

    def _write_group(self, buffered: list[Any]) -> int:
        import pyarrow.parquet as pq

        from lineage_emitter.worker.row_columns import table_of

        table = table_of(buffered, self._storage.struct)
        if self._writer is None:
            ensure_private_folder(Path(self._storage.folder))
            # Arrow opens what is there and leaves its mode as it is.
            os.close(private_opener(self._unfinished, os.O_CREAT | os.O_TRUNC | os.O_WRONLY))
            self._writer = pq.ParquetWriter(self._unfinished, table.schema, compression="zstd")
        self._writer.write_table(table)
        self._rows += len(buffered)
        if os.path.getsize(self._unfinished) > self._storage.bytes_max:
            raise RowsNotStoredError("there are more of them than the setting rows_mb lets keep")
        row_bytes = table.nbytes // len(buffered) + 1
        return max(1, min(ROWS_MAX, GROUP_BYTES // row_bytes))

    def _give_up(self, problem: Exception) -> None:
        self.failure = in_words(problem)
        self.drop()

    @property
    def _unfinished(self) -> str:
        return self._path + UNFINISHED


def _digest_of(path: str) -> bytes:
    digest = hashlib.blake2b()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 18):
            digest.update(chunk)
    return digest.digest()
