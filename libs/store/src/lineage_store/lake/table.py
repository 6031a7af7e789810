"""The lake's table: which files make it up, and commits that add and remove some of them at once."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import fs

from lineage_core.environment.extras import needed
from lineage_core.environment.private_files import ensure_private_folder
from lineage_core.tracing.budget import current_budget
from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.lake.address import LakeAddress, log_folder
from lineage_store.lake.columns import APP, SCHEMA

if TYPE_CHECKING:
    from deltalake import DeltaTable

VERSION: Final = 1
NAME: Final = "lineage"
DESCRIPTION: Final = "lineage store, version "
RETRY_S: Final = 60.0
"""How long a commit is tried again that conflicts with those of others."""
PAUSE_S: Final = 0.02
PAUSE_MAX_S: Final = 1.0
FRESH_S: Final = 1.0
"""On object storage it is looked for commits of others this often; in a folder of this machine at each question."""
CHECKPOINT_COMMITS: Final = 50


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of the table. ``size`` in bytes; ``key``: of the application that its rows are of."""

    path: str
    size: int
    key: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of one version, by the key of their application."""

    version: int
    files: Mapping[str, tuple[LakeFile, ...]] = field(default_factory=dict)


def sync_files(*paths: Path) -> None:
    """Wait until files and folders of this machine are on its disk."""
    for path in paths:
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def is_lake_there(address: LakeAddress) -> bool:
    """Whether there is a table.

    Raises:
        StoreError: the storage does not tell.
    """
    delta = needed("deltalake", "a lake", error=StoreError)
    try:
        return bool(delta.DeltaTable.is_deltatable(address.location))
    except OSError as error:
        raise StoreUnavailableError(f"can't read the lake {address.location}: {error}") from error


class ReplacedError(Exception):
    """Files that a commit would remove are not there any more: somebody else replaced or removed them."""


class LakeTable:
    """One table of Delta Lake; may be shared by threads, and by any number of processes that open their own.

    ``commits``: how many this object has made.

    Raises:
        StoreError: there is no table and ``create`` is false, it is none of ours, or the storage can't be used.
        MissingExtraError: the table format's package is not installed.
    """

    def __init__(self, address: LakeAddress, *, create: bool) -> None:
        self.address = address
        self._delta = needed("deltalake", "a lake", error=StoreError)
        self._actions = needed("deltalake.transaction", "a lake", error=StoreError)
        self._errors = needed("deltalake.exceptions", "a lake", error=StoreError)
        self._lock = threading.RLock()
        self._table: DeltaTable = self._open(create)
        self.files: fs.FileSystem = self._file_system()
        self._refreshed_at = time.monotonic()
        self._log_folder = log_folder(self.address)
        self._snapshot = self._read()
        self.commits = 0

    def _open(self, create: bool) -> DeltaTable:
        location = self.address.location
        try:
            if not self._delta.DeltaTable.is_deltatable(location):
                if not create:
                    raise StoreError(
                        f"there is no lake at {location}; make one with `lineage --store {self.address} run JOB`"
                    )
                self._create(location)
            table: DeltaTable = self._delta.DeltaTable(location)
            description = table.metadata().description or ""
        except (OSError, self._errors.DeltaError) as error:
            raise StoreError(f"can't open the lake {location}: {error}") from error
        version = description.removeprefix(DESCRIPTION)
        if version == description or not version.isdecimal():
            raise StoreError(f"{location} is a table, but not a lineage store")
        if int(version) > VERSION:
            raise StoreError(
                f"{location} is of version {version}, this program knows {VERSION}: "
                "update the program, or choose another store"
            )
        return table

    def _create(self, location: str) -> None:
        if self.address.is_local:
            folder = Path(location)
            # Others may make the table at this moment.
            is_taken = folder.is_dir() and any(folder.iterdir())
            if is_taken and not (folder / "_delta_log").is_dir():
                raise StoreError(f"{location} is a folder with other files; give an empty one")
            ensure_private_folder(folder)
        self._delta.DeltaTable.create(
            location,
            schema=self._delta.Schema.from_arrow(SCHEMA),
            mode="ignore",
            partition_by=[APP],
            name=NAME,
            description=f"{DESCRIPTION}{VERSION}",
            configuration={"delta.checkpointInterval": str(CHECKPOINT_COMMITS)},
        )

    def _file_system(self) -> fs.FileSystem:
        if self.address.is_local:
            return fs.SubTreeFileSystem(self.address.location, fs.LocalFileSystem())
        handler = needed("deltalake.fs", "a lake", error=StoreError).DeltaStorageHandler
        return fs.PyFileSystem(handler(self.address.location))

    def snapshot(self, *, newest: bool = False) -> Snapshot:
        """The latest version; on object storage one that is up to a second old, unless ``newest``.

        Raises:
            StoreError: the storage can't be read.
            BudgetError: the query has no time left.
        """
        current_budget().check()
        with self._lock:
            self._check_folder()
            now = time.monotonic()
            if not newest and now - self._refreshed_at < FRESH_S and not self._has_next_version():
                return self._snapshot
            try:
                self._table.update_incremental()
                if self._table.version() != self._snapshot.version:
                    self._snapshot = self._read()
            except (OSError, self._errors.DeltaError) as error:
                raise StoreUnavailableError(
                    f"can't read the lake {self.address.location}: {error}"
                ) from error
            self._refreshed_at = now
            return self._snapshot

    def _check_folder(self) -> None:
        """Notice a folder of this machine that was removed or replaced, or whose disk was: its log would seem unchanged."""
        folder = log_folder(self.address)
        if folder == self._log_folder:
            return
        if folder is None:
            raise StoreUnavailableError(
                f"the lake {self.address.location} is not there any more: is its disk mounted?"
            )
        self._table = self._open(create=False)
        self._snapshot = self._read()
        self._log_folder = folder

    def _has_next_version(self) -> bool:
        """Whether a folder of this machine has the commit after the one that was read last."""
        if not self.address.is_local:
            return False
        log = f"{self.address.location}/_delta_log"
        return os.path.exists(f"{log}/{self._snapshot.version + 1:020}.json")

    def _read(self) -> Snapshot:
        added = pa.table(self._table.get_add_actions(flatten=True))
        by_key: dict[str, list[LakeFile]] = {}
        columns = (added[name].to_pylist() for name in ("path", "size_bytes", f"partition.{APP}"))
        for path, size, key in zip(*columns, strict=True):
            by_key.setdefault(key, []).append(LakeFile(path, size, key))
        files = {
            key: tuple(sorted(some, key=lambda file: file.path)) for key, some in by_key.items()
        }
        return Snapshot(self._table.version(), files)

    def commit(self, added: Sequence[LakeFile], removed: Iterable[LakeFile] = ()) -> None:
        """Add files that are written, and remove others, in one commit; visible at once and durable.

        A commit that conflicts with that of another process is tried again.

        Raises:
            ReplacedError: some of ``removed`` are not there any more; nothing was changed.
            StoreUnavailableError: others commit all the time, or the storage refuses.
        """
        gone = list(removed)
        deadline = time.monotonic() + RETRY_S
        pause = PAUSE_S
        with self._lock:
            while True:
                live = {
                    file for files in self.snapshot(newest=True).files.values() for file in files
                }
                if added and live.issuperset(added):
                    break  # The last attempt was committed, though its answer was lost.
                if not live.issuperset(gone):
                    raise ReplacedError
                try:
                    # What is rewritten is no new data to those who follow the table's changes.
                    changes = not (added and gone)
                    before = self._snapshot.version
                    self._table.create_write_transaction(
                        [
                            *(self._add(file, changes) for file in added),
                            *(self._remove(file, changes) for file in gone),
                        ],
                        "append",
                        self._table.schema(),
                        partition_by=[APP],
                    )
                    self._sync(before)
                    break
                except (OSError, self._errors.DeltaError) as error:
                    if time.monotonic() > deadline:
                        raise StoreUnavailableError(
                            f"can't write the lake {self.address.location}: {error}"
                        ) from error
                time.sleep(pause * random.random())
                pause = min(2 * pause, PAUSE_MAX_S)
            self.commits += 1
            self.snapshot(newest=True)

    def _sync(self, before: int) -> None:
        """Have the commits since a version on the disk: what they replace is deleted elsewhere, and a power may fail."""
        last = self.snapshot(newest=True).version
        if self.address.is_local:
            log = Path(self.address.location) / "_delta_log"
            sync_files(
                *(log / f"{version:020}.json" for version in range(before + 1, last + 1)), log
            )

    def _add(self, file: LakeFile, changes: bool) -> Any:
        return self._actions.AddAction(
            path=file.path,
            size=file.size,
            partition_values={APP: file.key},
            modification_time=int(time.time() * 1000),
            data_change=changes,
            stats=json.dumps({}),
        )

    def _remove(self, file: LakeFile, changes: bool) -> Any:
        return self._actions.RemoveAction(
            path=file.path,
            data_change=changes,
            deletion_timestamp=int(time.time() * 1000),
            size=file.size,
            partition_values={APP: file.key},
        )

    def erase(self, files: Iterable[LakeFile]) -> None:
        """Delete files that no version holds from now on; those that are gone already are none."""
        for file in files:
            try:
                self.files.delete_file(file.path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StoreUnavailableError(
                    f"can't delete {file.path} of the lake: {error}"
                ) from error

    def vacuum(self, older_than_h: int) -> list[str]:
        """Delete files that no version holds, and those of unfinished commits, once they are so many hours old; their paths.

        Raises:
            StoreUnavailableError: the storage refuses.
        """
        with self._lock:
            self.snapshot(newest=True)
            try:
                deleted = self._table.vacuum(
                    retention_hours=older_than_h,
                    dry_run=False,
                    enforce_retention_duration=False,
                    full=True,
                )
                self._table.update_incremental()
                self._table.create_checkpoint()
                self._table.cleanup_metadata()
            except (OSError, self._errors.DeltaError) as error:
                raise StoreUnavailableError(f"can't clean up the lake: {error}") from error
            return list(deleted)
