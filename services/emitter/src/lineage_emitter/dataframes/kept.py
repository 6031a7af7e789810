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

    from pyspark import SparkContext
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from lineage_emitter.session.nodes import Node
    from lineage_emitter.session.session import Session

Fact = dict[str, Any]
"""What is said of a file of rows: see `RowFile.end_fact`."""
_KEPT = "_lineage_kept_rows"
_local = threading.local()

NOT_KEPT = "its rows are an RDD's, which are not kept"
"""Of a DataFrame."""
NOT_READ = "rows of an RDD that may not all have been read"
DIFFERED = "rows of an RDD that gave others, or in another order, when it was computed again"


class UnknownRowsError(ValueError):
    """Which rows an RDD gave is not known; the message says why."""


class KeptRows:
    """The rows that one DataFrame was made of: what their runs have kept. Thread-safe.

    ``node``: the sink that hands them over, if there is one. ``keeping``: where its tasks put the files.
    """

    what = "rows of an RDD"

    def __init__(self, node: Node | None, name: str, keeping: RowStorage, partitions: int) -> None:
        self.node = node
        self.name = name
        self.keeping = keeping
        self._partitions = partitions
        self._lock = threading.Lock()
        self._first: dict[int, Fact] = {}
        """By partition what its first run has kept."""
        self._unknown = ""
        """Why they are not known, and never will be."""
        self._is_asked_for = False

    @property
    def path(self) -> str:
        """The folder as recipes name it."""
        return f"file:{self.keeping.folder}"

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
            self._is_asked_for = True
        there = [one for one in facts if one["path"]]
        for one in there:
            if not os.path.exists(one["path"]):
                where = f"where this machine can't see them ({one['path']})"
                raise UnknownRowsError(f"{self.what} that are kept {where}")
        files = [
            File(f"file:{one['path']}", one["size"], one["mtime"], one["rows"]) for one in there
        ]
        return Source(
            format="parquet",
            paths=(self.path,),
            schema=self.keeping.struct.json(),
            # As it is written: days and microseconds of the calendar that Spark has.
            options={"datetimeRebaseMode": "CORRECTED"},
            files=tuple(sorted(files, key=lambda file: file.path)),
        )

    def close(self) -> None:
        """Remove files that no recipe names: those of attempts that failed, too."""
        with self._lock:
            told = {one["path"] for one in self._first.values()} if self._is_asked_for else set()
        folder = self.keeping.folder
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if path not in told:
                    _remove(path)
            if not told - {""}:
                os.rmdir(folder)


class KeptList(KeptRows):
    """Rows that a program itself has made a DataFrame of: the same whenever they are read."""

    what = "rows of a list"

    def __init__(self, name: str, keeping: RowStorage, end_fact: Fact) -> None:
        super().__init__(None, name, keeping, 1)
        self.record_run(0, end_fact)


def keeping_of(session: Session, name: str, struct: StructType, partitions: int) -> RowStorage:
    """How rows of a type are kept; ``name``: of their folder.

    Raises:
        RowsNotStoredError: they are not.
    """
    settings = session.settings
    folder = settings.kept_folder()
    if not settings.rows_mb:
        raise RowsNotStoredError("settings say so (rows_mb)")
    if settings.redact:
        raise RowsNotStoredError("records are redacted")
    if folder is None:
        raise RowsNotStoredError("with kafka, name a folder for them (rows_folder)")
    # Arrow is loaded when rows are kept, not when a program begins.
    from lineage_emitter.worker.row_columns import check_storable

    check_storable(struct)
    bytes_max = (settings.rows_mb << 20) // max(partitions, 1)
    return RowStorage(str(folder_named(folder, session.app) / name), struct, bytes_max)


def keep_list(session: Session, frame: DataFrame, rows: Iterable[Any]) -> None:
    """Keep rows that the program has made a frame of (in Spark's own form, as `row_columns` takes them).

    Raises:
        RowsNotStoredError: they are not kept.
    """
    number = _number(frame)
    name = f"list-{number}"
    keeping = keeping_of(session, name, frame.schema, 1)
    file = RowFile("rows.parquet", keeping)
    rows, wanted = iter(rows), FIRST_ROWS
    while not file.failure and (held := list(islice(rows, wanted))):
        wanted = file.write(held)
    file.end()
    kept = KeptList(name, keeping, file.end_fact())
    session.kept.keep(kept)
    _known(frame.sparkSession.sparkContext)[number] = kept


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def begin(rows: KeptRows | None) -> None:
    """A frame is about to be made of ``rows``, in this thread; None: it is not known yet of which."""
    _local.begun = rows


def remember(frame: DataFrame) -> None:
    """The frame is made: its recipes find what is kept by the number of its RDD."""
    rows: KeptRows | None = getattr(_local, "begun", None)
    if rows is not None:
        begin(None)
        _known(frame.sparkSession.sparkContext)[_number(frame)] = rows


def _number(frame: DataFrame) -> int:
    """The number of the RDD that a frame was just made of."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    return int(plan.rdd().id())


def kept_of(sc: SparkContext, rdd: int) -> KeptRows | None:
    """What is kept for a frame that was made of an RDD of that number."""
    return _known(sc).get(rdd)


def _known(sc: SparkContext) -> dict[int, KeptRows]:
    known: dict[int, KeptRows] = sc.__dict__.setdefault(_KEPT, {})
    return known
