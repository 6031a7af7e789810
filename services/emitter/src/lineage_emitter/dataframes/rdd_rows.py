"""What is kept of the RDDs that DataFrames are made of, as sources of recipes.

An action reads the rows of such an RDD anew, or takes what an earlier one has left (a cache, a shuffle). Which run's
rows it saw is not asked: all runs of a partition that were read to their end must have given the same rows by the same
flows (a digest tells), else a recipe can't say them. Then one file a partition stands for every run. A run that was
cut short tells nothing, so a plan that may read its rows in part (:mod:`lineage_emitter.dataframes.partial_reads`) is not traced.
"""

from __future__ import annotations

import contextlib
import os
import threading
from itertools import islice
from typing import TYPE_CHECKING, Any

from lineage_core.environment.private_files import folder_named
from lineage_core.recipe.document import File, Source
from lineage_emitter.errors import RowsNotStoredError
from lineage_emitter.worker.row_files import FIRST_ROWS, RowFile, RowStorage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark import SparkContext
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from lineage_emitter.session.nodes import Node
    from lineage_emitter.session.session import Session

Fact = dict[str, Any]
"""What is reported about a file of rows: see `RowFile.end_fact`."""
_ROWS_BY_RDD = "_lineage_kept_rows"
_local = threading.local()

ROWS_NOT_STORED = "its rows are an RDD's, which are not kept"
"""Of a DataFrame."""
NOT_READ = "rows of an RDD that may not all have been read"
DIFFERED = "rows of an RDD that gave others, or in another order, when it was computed again"


class UnknownRowsError(ValueError):
    """Which rows an RDD gave is not known; the message says why."""


class StoredRows:
    """The rows that one DataFrame was made of: what their runs have kept. Thread-safe.

    ``node``: the sink that hands them over, if there is one. ``storage``: where its tasks put the files.
    """

    what = "rows of an RDD"

    def __init__(self, node: Node | None, name: str, storage: RowStorage, partitions: int) -> None:
        self.node = node
        self.name = name
        self.storage = storage
        self._partitions = partitions
        self._lock = threading.Lock()
        self._first: dict[int, Fact] = {}
        """By partition what its first run has kept."""
        self._unknown = ""
        """Why they are not known, and never will be."""
        self._is_named = False

    @property
    def path(self) -> str:
        """The folder as recipes name it."""
        return f"file:{self.storage.folder}"

    def record_run(self, partition: int, end_fact: Fact) -> None:
        """A task has read a partition; ``end_fact``: what its end marker says of the rows."""
        with self._lock:
            if "reason" in end_fact:
                self._unknown = (
                    self._unknown or f"{self.what} that are not kept: {end_fact['reason']}"
                )
                return
            first = self._first.setdefault(partition, end_fact)
            if first is end_fact:
                return
            if first["digest"] != end_fact["digest"]:
                self._unknown = DIFFERED
        _remove(end_fact["path"])

    def source(self) -> Source:
        """All rows, as files.

        Raises:
            UnknownRowsError: some are not known.
        """
        with self._lock:
            if self._unknown:
                raise UnknownRowsError(self._unknown)
            if len(self._first) < self._partitions:
                raise UnknownRowsError(NOT_READ)
            facts = [self._first[partition] for partition in sorted(self._first)]
            self._is_named = True
        with_files = [fact for fact in facts if fact["path"]]
        for fact in with_files:
            if not os.path.exists(fact["path"]):
                where = f"where this machine can't see them ({fact['path']})"
                raise UnknownRowsError(f"{self.what} that are kept {where}")
        files = [
            File(f"file:{fact['path']}", fact["size"], fact["mtime"], fact["rows"])
            for fact in with_files
        ]
        return Source(
            format="parquet",
            paths=(self.path,),
            schema=self.storage.struct.json(),
            # As it is written: days and microseconds of the calendar that Spark has.
            options={"datetimeRebaseMode": "CORRECTED"},
            files=tuple(sorted(files, key=lambda file: file.path)),
        )

    def close(self) -> None:
        """Remove files that no recipe names: those of attempts that failed, too."""
        with self._lock:
            named_paths = (
                {fact["path"] for fact in self._first.values()} if self._is_named else set()
            )
        folder = self.storage.folder
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if path not in named_paths:
                    _remove(path)
            if not named_paths - {""}:
                os.rmdir(folder)


class StoredList(StoredRows):
    """Rows that a program itself has made a DataFrame of: the same whenever they are read."""

    what = "rows of a list"

    def __init__(self, name: str, storage: RowStorage, end_fact: Fact) -> None:
        super().__init__(None, name, storage, 1)
        self.record_run(0, end_fact)


def row_storage_of(session: Session, name: str, struct: StructType, partitions: int) -> RowStorage:
    """How rows of a type are kept; ``name``: of their folder.

    Raises:
        RowsNotStoredError: they are not.
    """
    folder = row_folder_of(session)
    # Arrow is loaded when rows are kept, not when a program begins.
    from lineage_emitter.worker.row_columns import check_storable

    check_storable(struct)
    bytes_max = (session.settings.rows_mb << 20) // max(partitions, 1)
    return RowStorage(str(folder / name), struct, bytes_max)


def row_folder_of(session: Session) -> Path:
    """The folder for what is kept of a session's rows.

    Raises:
        RowsNotStoredError: nothing is.
    """
    settings = session.settings
    folder = settings.row_folder()
    if not settings.rows_mb:
        raise RowsNotStoredError("settings say so (rows_mb)")
    if settings.redact:
        raise RowsNotStoredError("records are redacted")
    if folder is None:
        raise RowsNotStoredError("with kafka, name a folder for them (rows_folder)")
    return folder_named(folder, session.app)


def store_list(session: Session, frame: DataFrame, rows: Iterable[Any]) -> None:
    """Keep rows that the program has made a frame of (in Spark's own form, as `row_columns` takes them).

    Raises:
        RowsNotStoredError: they are not kept.
    """
    number = _number(frame)
    name = f"list-{number}"
    storage = row_storage_of(session, name, frame.schema, 1)
    file = RowFile("rows.parquet", storage)
    rows, buffer_rows = iter(rows), FIRST_ROWS
    while not file.failure and (buffered := list(islice(rows, buffer_rows))):
        buffer_rows = file.write(buffered)
    file.end()
    stored = StoredList(name, storage, file.end_fact())
    session.stored_rows.add(stored)
    _rows_by_rdd(frame.sparkSession.sparkContext)[number] = stored


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def set_current_rows(rows: StoredRows | None) -> None:
    """A frame is about to be made of ``rows``, in this thread; None: it is not known yet of which."""
    _local.current_rows = rows


def attach_current_rows(frame: DataFrame) -> None:
    """The frame is made: its recipes find what is kept by the number of its RDD."""
    rows: StoredRows | None = getattr(_local, "current_rows", None)
    if rows is not None:
        set_current_rows(None)
        _rows_by_rdd(frame.sparkSession.sparkContext)[_number(frame)] = rows


def _number(frame: DataFrame) -> int:
    """The number of the RDD that a frame was just made of."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    return int(plan.rdd().id())


def stored_rows_of(sc: SparkContext, rdd: int) -> StoredRows | None:
    """What is kept for a frame that was made of an RDD of that number."""
    return _rows_by_rdd(sc).get(rdd)


def _rows_by_rdd(sc: SparkContext) -> dict[int, StoredRows]:
    rows_by_rdd: dict[int, StoredRows] = sc.__dict__.setdefault(_ROWS_BY_RDD, {})
    return rows_by_rdd
