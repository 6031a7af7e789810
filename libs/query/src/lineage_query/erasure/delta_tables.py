"""Deletes rows of a plan from tables of Delta Lake: by position, in one commit a table, or not at all.

The files that hold the rows are written again without them. Older versions of the table keep the rows until it is vacuumed.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lineage_core.environment.extras import needed
from lineage_query.erasure.steps import ErasureError
from lineage_query.erasure.table_rows import MARK, TableRows
from lineage_store.lake.arrow import live_files
from lineage_store.lake.table import sync_files

FEATURES = frozenset({"timestampNtz", "appendOnly", "invariants"})
"""That change nothing for who leaves rows out."""
FEATURELESS = 2
"""The last version of writers whose tables have just these."""
HISTORY_MAX = 10_000
PARTITION_TYPES = (str, int)
"""Of values of partitions whose text in the log is known."""


class DeltaDeleter:
    """Deletes rows from tables of Delta Lake. Implements `TableDeleter`."""

    def check(self, rows: TableRows, digest: str) -> None:
        table = _Table(rows.table)
        if not table.has(digest):
            table.check(rows.files)

    def delete(self, rows: TableRows, digest: str) -> Sequence[str]:
        _Table(rows.table).delete(rows.files, digest)
        # Signs of a path are no part of the command.
        quoted = rows.table.replace("`", "``")
        return [
            f"{rows.table}: its older versions keep the rows, in {len(rows.files):,} files: VACUUM delta.`{quoted}` deletes those that are "
            "older than the table keeps (delta.deletedFileRetentionDuration)"
        ]


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

    def has(self, digest: str) -> bool:
        """Whether the rows of a plan were deleted by an earlier try."""
        return any(entry.get(MARK) == digest for entry in self._table.history(HISTORY_MAX))

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

    def delete(self, files: Mapping[str, Sequence[int]], digest: str) -> None:
        """Delete rows by their positions in files, in one commit. What an earlier try committed is not done twice.

        Raises:
            ErasureError: somebody else changed the table; nothing was deleted.
        """
        if self.has(digest):
            return
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
