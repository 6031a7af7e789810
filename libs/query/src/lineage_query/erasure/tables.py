"""Deletes rows of a plan from tables of Delta Lake: by position, in one commit a table, or not at all.

The files that hold the rows are written again without them. Older versions of the table keep the rows until it is vacuumed.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lineage_core.environment.extras import needed
from lineage_query.erasure.journal import Journal, Step
from lineage_query.erasure.keeping import StorePlace
from lineage_query.erasure.row_list import rows_of
from lineage_query.erasure.steps import ErasureError
from lineage_store.lake.arrow import live_files
from lineage_store.lake.table import sync_files

MARK = "lineage.erasure"
"""The key in a commit's metadata whose value is the digest of the plan."""
PART = "tables"
FEATURES = frozenset({"timestampNtz", "appendOnly", "invariants"})
"""That change nothing for who leaves rows out."""
FEATURELESS = 2
"""The last version of writers whose tables have just these."""
HISTORY_MAX = 10_000
PARTITION_TYPES = (str, int)
"""Of values of partitions whose text in the log is known."""


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """Rows that were deleted from a table. ``already``: by an earlier run."""

    table: str
    rows: int
    already: bool


def delete_from_tables(approved: Mapping[str, Any], place: StorePlace) -> list[DeletedRows]:
    """Delete the rows of a plan that carry the subject's from tables of Delta Lake; raises before anything is changed.

    Args:
        approved: the plan, as JSON.
        place: of the store.

    Raises:
        ErasureError: a row can't be named exactly, or a table uses what is not written here; its path is in the message.
        JournalError: another process does this.
    """
    digest = approved["digest"]
    with Journal(place.journals, digest, PART) as journal:
        if journal.steps is None:
            steps = _steps(approved)
            for step in steps:
                _Table(step["table"]).check(step["files"])
            journal.begin(steps)
        deleted = []
        for number, step in enumerate(journal.steps or ()):
            is_done = number in journal.results
            if not is_done:
                journal.done(number, {"rows": _Table(step["table"]).delete(step["files"], digest)})
            deleted.append(DeletedRows(step["table"], journal.results[number]["rows"], is_done))
        if not journal.is_ended:
            journal.end()
        return deleted


def untouched_tables(approved: Mapping[str, Any]) -> dict[str, int]:
    """Tables of Iceberg that have rows of a plan which carry the subject's, and how many: nothing is deleted from them here."""
    tables: dict[str, int] = {}
    for row in rows_of(approved):
        if row["path"] is None or row["kind"] == "mixed" or not row["there"]:
            continue
        for parent in Path(row["path"]).absolute().parents:
            if any((parent / "metadata").glob("*.metadata.json")):
                tables[str(parent)] = tables.get(str(parent), 0) + 1
                break
    return tables


def _steps(approved: Mapping[str, Any]) -> list[Step]:
    tables: dict[str, dict[str, set[int]]] = {}
    for row in rows_of(approved):
        root = None if row["path"] is None else _table_of(row["path"])
        if root is None or row["kind"] == "mixed" or not row["there"]:
            continue
        if row["kind"] != "carries" or not row["exact"] or row["row"] is None:
            raise ErasureError(
                f"{root}: whether {row['place']} is the subject's is not known, so nothing is deleted from tables"
            )
        tables.setdefault(str(root), {}).setdefault(_within(root, row["path"]), set()).add(
            row["row"]
        )
    return [
        {
            "kind": "table",
            "table": root,
            "files": {path: sorted(rows) for path, rows in sorted(files.items())},
        }
        for root, files in sorted(tables.items())
    ]


def _table_of(path: str) -> Path | None:
    parents = Path(path).absolute().parents
    return next((parent for parent in parents if (parent / "_delta_log").is_dir()), None)


def _within(root: Path, path: str) -> str:
    return Path(path).absolute().relative_to(root).as_posix()


class _Table:
    def __init__(self, root: str) -> None:
        delta = needed("deltalake", "deleting from tables", error=ErasureError)
        self._actions = needed("deltalake.transaction", "deleting from tables", error=ErasureError)
        self._errors = needed("deltalake.exceptions", "deleting from tables", error=ErasureError)
        self._root = Path(root)
        try:
            self._table = delta.DeltaTable(root)
            self._live = {row["path"]: row for row in live_files(self._table).to_pylist()}
        except (OSError, self._errors.DeltaError) as error:
            raise ErasureError(f"{root} can't be read: {error}") from error

    def check(self, files: Mapping[str, Sequence[int]]) -> None:
        """See that the rows can be deleted.

        Raises:
            ErasureError: they can't.
        """
        for problem in self._problems(files):
            raise ErasureError(f"{self._root}: {problem}; nothing is deleted from tables")

    def _problems(self, files: Mapping[str, Sequence[int]]) -> Iterator[str]:
        protocol = self._table.protocol()
        features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        is_plain = protocol.min_reader_version <= 1 and protocol.min_writer_version <= FEATURELESS
        if not is_plain and (not features or features - FEATURES):
            yield "it uses features of Delta Lake that are not written here (deletion vectors, constraints or others)"
        if self._table.metadata().configuration.get("delta.appendOnly") == "true":
            yield "rows can only be added to it (delta.appendOnly)"
        for path, rows in files.items():
            if path not in self._live:
                yield f"{path} is not in its current version: the rows may be in another file by now"
                continue
            if quote(path, safe="/=") != path:
                yield f"{path!r:.200} has signs in its name that are not written here"
            values = self._partition(path).values()
            if any(value is not None and type(value) not in PARTITION_TYPES for value in values):
                yield f"{path} is of a partition whose values are not written here"
            yield from self._of_file(path, rows)

    def _of_file(self, path: str, rows: Sequence[int]) -> Iterator[str]:
        try:
            with pq.ParquetFile(self._root / path) as file:
                columns = [file.schema.column(at) for at in range(len(file.schema))]
                if any(column.physical_type == "INT96" for column in columns):
                    yield f"{path} has times in an old form that is not written here (INT96)"
                if rows[-1] >= file.metadata.num_rows:
                    yield f"{path} has no row {rows[-1]}"
        except (OSError, pa.ArrowException) as error:
            yield f"{path} can't be read: {error}"

    def _partition(self, path: str) -> dict[str, Any]:
        names = self._table.metadata().partition_columns
        return {name: self._live[path][f"partition.{name}"] for name in names}

    def delete(self, files: Mapping[str, Sequence[int]], digest: str) -> int:
        """Delete rows by their positions in files, in one commit; how many. What an earlier try committed is not done twice.

        Raises:
            ErasureError: somebody else changed the table; nothing was deleted.
        """
        count = sum(map(len, files.values()))
        if any(entry.get(MARK) == digest for entry in self._table.history(HISTORY_MAX)):
            return count
        self.check(files)
        actions, written = [], list[Path]()
        for path, rows in files.items():
            new = self._without(path, rows)
            if new is not None:
                written.append(self._root / new[0])
                actions.append(self._add(path, *new))
            actions.append(self._remove(path))
        sync_files(*written, self._root)
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                partition_by=self._table.metadata().partition_columns,
                # Whatever anybody else commits meanwhile ends this.
                commit_properties=self._actions.CommitProperties(
                    custom_metadata={MARK: digest}, max_commit_retries=0
                ),
            )
        except (OSError, self._errors.DeltaError) as error:
            for path_written in written:
                path_written.unlink(missing_ok=True)
            raise ErasureError(f"{self._root}: nothing was deleted from it: {error}") from error
        return count

    def _without(self, path: str, rows: Sequence[int]) -> tuple[str, int] | None:
        """The file without some rows, written anew: its path, and how many rows it has; None where it has none."""
        table = pq.ParquetFile(self._root / path).read()
        is_kept = np.ones(table.num_rows, np.bool_)
        is_kept[list(rows)] = False
        kept = table.filter(pa.array(is_kept))
        if not kept.num_rows:
            return None
        name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        pq.write_table(kept, self._root / name, compression="snappy")
        if not pq.ParquetFile(self._root / name).read().equals(kept):
            (self._root / name).unlink()
            raise ErasureError(f"{self._root}: {path} can't be written as it is without the rows")
        return name, kept.num_rows

    def _add(self, replaced: str, path: str, rows: int) -> Any:
        return self._actions.AddAction(
            path=path,
            size=os.stat(self._root / path).st_size,
            partition_values=self._texts(replaced),
            modification_time=int(time.time() * 1000),
            data_change=True,
            stats=json.dumps({"numRecords": rows}),
        )

    def _remove(self, path: str) -> Any:
        return self._actions.RemoveAction(
            path=path,
            data_change=True,
            deletion_timestamp=int(time.time() * 1000),
            size=self._live[path]["size_bytes"],
            partition_values=self._texts(path),
        )

    def _texts(self, path: str) -> dict[str, str | None]:
        values = self._partition(path)
        return {name: None if value is None else str(value) for name, value in values.items()}
