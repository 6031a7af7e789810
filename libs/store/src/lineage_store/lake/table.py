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
from lineage_core.recipe.names import DELTA_LOG
from lineage_core.tracing.budget import current_budget
from lineage_store.errors import OffsetMovedError, StoreError, StoreUnavailableError
from lineage_store.lake.address import LakeAddress, log_folder
from lineage_store.lake.arrow import live_files
from lineage_store.lake.columns import APP, SCHEMA
from lineage_store.lake.file_names import is_of_lake, key_in
from lineage_store.lake.storage_errors import reason_of
from lineage_store.offsets import OffsetMove

if TYPE_CHECKING:
    from deltalake import DeltaTable

VERSION: Final = 2
"""Since 2 a lake may hold blocks that are not visible yet."""
NAME: Final = "lineage"
DESCRIPTION: Final = "lineage store, version "
RETRY_S: Final = 60.0
"""How long a commit is tried again that conflicts with those of others."""
PAUSE_S: Final = 0.02
PAUSE_MAX_S: Final = 1.0
FRESH_S: Final = 1.0
"""On object storage it is looked for commits of others this often; in a folder of this machine at each question."""
SAME_S: Final = 10.0
"""On object storage it is looked this often whether another copy was put in place of the lake; also at each commit, where there are new ones, and where a file is missing."""
CHECKPOINT_COMMITS: Final = 50
UNFINISHED_H: Final = 168
"""Hours after which a file is deleted that no version ever had: whoever wrote it was killed, or may not commit it any more."""
COMMIT_H: Final = 144
"""Hours from the writing of a file to its commit, at most. The rest is for clocks that differ, and for the commit itself."""


@dataclass(frozen=True, slots=True)
class TableForm:
    """What a table of a lake holds.

    ``description``: what its own begins with, before the version. ``command``: makes one, behind `lineage --store STORE`.
    """

    name: str
    description: str
    version: int
    schema: pa.Schema
    command: str

    def of_version(self) -> str:
        """The description of a table of this version."""
        return f"{self.description}{self.version}"


LINEAGE: Final = TableForm(NAME, DESCRIPTION, VERSION, SCHEMA, "run JOB")


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of the table.

    ``size`` in bytes; ``key``: of the application that its rows are of. ``added_at``: when it was added to the table, in unix
    seconds; 0: it is in no version that was read.
    """

    path: str
    size: int
    key: str
    added_at: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of one version, by the key of their application."""

    version: int
    files: Mapping[str, tuple[LakeFile, ...]] = field(default_factory=dict)


def _log_entry(version: int) -> str:
    """The path of the entry that a version has in the log."""
    return f"{DELTA_LOG}/{version:020}.json"


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
        raise StoreUnavailableError(
            f"can't read the lake {address.location}: {reason_of(error)}"
        ) from error


class ReplacedError(Exception):
    """Files that a commit would remove are not there any more: somebody else replaced or removed them."""


class LateError(StoreUnavailableError):
    """Files that a commit would add were written too long ago, or are deleted: what they hold must be written again."""


class LakeTable:
    """One table of Delta Lake; may be shared by threads, and by any number of processes that open their own.

    ``commits``: how many this object has made. ``openings``: how often it was opened again, as another copy was put in its place: what was
    read before and since does not belong together. ``retry_s``: how long a commit is tried that does not succeed.

    Raises:
        StoreError: there is no table and ``create`` is false, it is none of ours, or the storage can't be used.
        MissingExtraError: the table format's package is not installed.
    """

    def __init__(
        self,
        address: LakeAddress,
        *,
        create: bool,
        retry_s: float = RETRY_S,
        form: TableForm = LINEAGE,
    ) -> None:
        self.address = address
        self._retry_s = retry_s
        self._form = form
        self._delta = needed("deltalake", "a lake", error=StoreError)
        self._actions = needed("deltalake.transaction", "a lake", error=StoreError)
        self._errors = needed("deltalake.exceptions", "a lake", error=StoreError)
        self._lock = threading.RLock()
        self._table: DeltaTable = self._open(create)
        self.files: fs.FileSystem = self._file_system()
        self._refreshed_at = self._checked_at = time.monotonic()
        self._log_folder = log_folder(self.address)
        self._known = self._known_entry(self._table)
        self._snapshot = self._read(self._table)
        self.commits = 0
        self.openings = 0

    def _open(self, create: bool) -> DeltaTable:
        location = self.address.location
        try:
            if not self._delta.DeltaTable.is_deltatable(location):
                if not create:
                    raise StoreError(
                        f"there is no lake at {location}; make one with `lineage --store {self.address} {self._form.command}`"
                    )
                self._create(location)
            table: DeltaTable = self._delta.DeltaTable(location)
            version = self._version_of(table)
        except (OSError, self._errors.DeltaError) as error:
            raise StoreError(f"can't open the lake {location}: {reason_of(error)}") from error
        if version > self._form.version:
            raise StoreError(
                f"{location} is of version {version}, this program knows {self._form.version}: "
                "update the program, or choose another store"
            )
        return table

    def _version_of(self, table: DeltaTable) -> int:
        description = table.metadata().description or ""
        version = description.removeprefix(self._form.description)
        if version == description or not version.isdecimal():
            raise StoreError(
                f"{self.address.location} is a table, but not a {self._form.name} store"
            )
        return int(version)

    def upgrade(self) -> None:
        """Have this version's number in the description, so that programs of earlier versions refuse the lake.

        Raises:
            StoreError: the lake can't be written, or is of a newer version.
        """
        deadline = time.monotonic() + self._retry_s
        with self._lock:
            while True:
                self._refresh()
                try:
                    if self._version_of(self._table) >= self._form.version:
                        return
                    self._table.alter.set_table_description(self._form.of_version())
                except (OSError, self._errors.DeltaError) as error:
                    # Others may do the same at this moment.
                    if time.monotonic() > deadline:
                        raise self._not_written(error) from error
                time.sleep(PAUSE_S)

    def _create(self, location: str) -> None:
        names = self._names_in_folder()
        # Others may make the table at this moment.
        if names and DELTA_LOG not in names:
            raise StoreError(f"{location} is a folder with other files; give an empty one")
        if self.address.is_local:
            ensure_private_folder(Path(location))
        self._delta.DeltaTable.create(
            location,
            schema=self._delta.Schema.from_arrow(self._form.schema),
            mode="ignore",
            partition_by=[APP],
            name=self._form.name,
            description=self._form.of_version(),
            configuration={"delta.checkpointInterval": str(CHECKPOINT_COMMITS)},
        )

    def _names_in_folder(self) -> set[str]:
        """What lies in the folder of the lake."""
        try:
            files = self._file_system()
        except self._errors.TableNotFoundError:
            # A folder of this machine by its URL.
            return set()
        found = files.get_file_info(fs.FileSelector("", allow_not_found=True))
        # Some object storages keep an empty object for a folder.
        return {info.base_name for info in found} - {""}

    def _file_system(self) -> fs.FileSystem:
        if self.address.is_local:
            return fs.SubTreeFileSystem(self.address.location, fs.LocalFileSystem())
        handler = needed("deltalake.fs", "a lake", error=StoreError).DeltaStorageHandler
        return fs.PyFileSystem(handler(self.address.location))

    def snapshot(self, *, newest: bool = False, surely: bool = False) -> Snapshot:
        """The latest version; on object storage one that is up to a second old, unless ``newest``.

        Where another copy was put in place of the lake, it may be one of before for `SAME_S`, unless ``surely``: as before anybody says of a
        file that it is missing, or deletes it.

        Raises:
            StoreError: the storage can't be read.
            BudgetError: the query has no time left.
        """
        current_budget().check()
        with self._lock:
            is_fresh = time.monotonic() - self._refreshed_at < FRESH_S
            if newest or surely or not is_fresh or self._has_next_version():
                self._refresh(surely=surely)
            else:
                self._check_folder()
            if self._table.version() != self._snapshot.version:
                try:
                    self._snapshot = self._read(self._table)
                except (OSError, self._errors.DeltaError) as error:
                    raise self._not_read(error) from error
            return self._snapshot

    def commit_written(self, version: int) -> tuple[int, int | None]:
        """The size of the entry that a version has in the log, and when it was written, in unix nanoseconds: another table has another one.

        Raises:
            StoreError: the storage can't be read.
        """
        try:
            info = self.files.get_file_info(_log_entry(version))
        except OSError as error:
            raise self._not_read(error) from error
        return info.size or 0, info.mtime_ns

    def newest_version(self) -> int:
        """The number of the newest version.

        Raises:
            StoreError: the storage can't be read.
        """
        with self._lock:
            self._refresh()
            return int(self._table.version())

    def offset(self, key: str) -> int | None:
        """Where an offset of Kafka stands in the newest version; None if it never moved.

        Raises:
            StoreError: the storage can't be read.
        """
        with self._lock:
            self._refresh()
            return self._stored_offset(key)

    def _stored_offset(self, key: str) -> int | None:
        try:
            return self._table.transaction_version(key)
        except (OSError, self._errors.DeltaError) as error:
            raise self._not_read(error) from error

    def _refresh(self, *, surely: bool = False) -> None:
        """Read the commits of others; a table that another one was put in place of is opened again, with ``surely`` whatever was read of it lately."""
        now = time.monotonic()
        self._check_folder()
        error: Exception | None = None
        try:
            self._table.update_incremental()
        except (OSError, self._errors.DeltaError) as raised:
            error = raised
        has_grown = self._known[0] != self._table.version()
        if surely or error or has_grown or now - self._checked_at > SAME_S:
            if self._is_replaced():
                self._open_again()
            elif error:
                raise self._not_read(error) from error
            elif has_grown:
                self._known = self._known_entry(self._table)
            self._checked_at = now
        self._refreshed_at = now

    def _known_entry(self, table: DeltaTable) -> tuple[int, tuple[int, int | None]]:
        """The version that was read last, and its entry in the log."""
        version = table.version()
        return version, self.commit_written(version)

    def _is_replaced(self) -> bool:
        """Whether the log has another entry of the version that was read last, or none: the lake is an older copy, which may have grown since.

        What was read before of later versions would be mixed with what it has in their place. Of a log that was cleaned up while nothing
        was read the entry is missing, too.
        """
        version, entry = self._known
        return self.commit_written(version) != entry

    def _open_again(self) -> None:
        if not is_lake_there(self.address):
            raise StoreUnavailableError(f"the lake {self.address.location} is not there any more")
        table = self._open(create=False)
        try:
            known, snapshot = self._known_entry(table), self._read(table)
        except (OSError, self._errors.DeltaError) as error:
            raise self._not_read(error) from error
        # Not before all of it was read: else the next question would be answered of what was there before.
        self._table, self._known, self._snapshot = table, known, snapshot
        self.openings += 1

    def _not_read(self, error: Exception) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"can't read the lake {self.address.location}: {reason_of(error)}"
        )

    def _not_written(self, error: Exception) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"can't write the lake {self.address.location}: {reason_of(error)}"
        )

    def _check_folder(self) -> None:
        """Notice a folder of this machine that was removed or replaced, also by the files of an older copy, or whose disk was: its log would seem unchanged."""
        if not self.address.is_local:
            return
        folder = log_folder(self.address)
        if folder is None:
            raise StoreUnavailableError(
                f"the lake {self.address.location} is not there any more: is its disk mounted?"
            )
        if folder != self._log_folder or self._is_replaced():
            self._open_again()
            self._log_folder = folder

    def _has_next_version(self) -> bool:
        """Whether a folder of this machine has the commit after the one that was read last."""
        if not self.address.is_local:
            return False
        entry = _log_entry(self._table.version() + 1)
        return os.path.exists(f"{self.address.location}/{entry}")

    def _read(self, table: DeltaTable) -> Snapshot:
        added = live_files(table)
        by_key: dict[str, list[LakeFile]] = {}
        names = ("path", "size_bytes", f"partition.{APP}", "modification_time")
        columns = (added[name].to_pylist() for name in names)
        for path, size, key, added_ms in zip(*columns, strict=True):
            by_key.setdefault(key, []).append(LakeFile(path, size, key, added_ms / 1000))
        files = {
            key: tuple(sorted(some, key=lambda file: file.path)) for key, some in by_key.items()
        }
        return Snapshot(table.version(), files)

    def commit(
        self,
        added: Sequence[LakeFile],
        removed: Iterable[LakeFile] = (),
        move: OffsetMove | None = None,
    ) -> None:
        """Add files that are written, remove others, and move an offset of Kafka, in one commit; visible at once and durable.

        A commit that conflicts with that of another process is tried again.

        Raises:
            LateError: some of ``added`` are deleted, or may be from now on; nothing was changed.
            ReplacedError: some of ``removed`` are not there any more; nothing was changed.
            OffsetMovedError: the offset is not where it would be moved from; nothing was changed.
            StoreUnavailableError: others commit all the time, or the storage refuses.
        """
        gone = list(removed)
        deadline = time.monotonic() + self._retry_s
        pause = PAUSE_S
        is_tried = False
        with self._lock:
            while True:
                self._refresh(surely=True)
                # The last attempt may have been committed, though its answer was lost.
                if is_tried and self._has_committed(added, gone, move):
                    break
                self._check_commit(gone, move)
                # Before each attempt: between them, or before the first, this process may have stood still for days.
                self._check_written(added)
                is_tried = True
                try:
                    self._try_commit(added, gone, move)
                    break
                except (OSError, self._errors.DeltaError) as error:
                    if time.monotonic() > deadline:
                        raise self._not_written(error) from error
                time.sleep(pause * random.random())
                pause = min(2 * pause, PAUSE_MAX_S)
            self.commits += 1

    def holds(self, files: Iterable[LakeFile]) -> bool:
        """Whether the newest version has some files.

        Raises:
            StoreError: the storage can't be read.
        """
        by_key = self.snapshot(surely=True).files
        return all(file in by_key.get(file.key, ()) for file in files)

    def has_any_of(self, files: Iterable[LakeFile]) -> bool:
        """Whether the newest version has one of some files that go into a version together: then they were committed, though others may be merged since.

        Raises:
            StoreError: the storage can't be read.
        """
        by_key = self.snapshot(surely=True).files
        return any(file in by_key.get(file.key, ()) for file in files)

    def _has_committed(
        self, added: Sequence[LakeFile], gone: Sequence[LakeFile], move: OffsetMove | None
    ) -> bool:
        if added:
            return self.has_any_of(added)
        # Without files it makes no difference who moved the offset, or removed what was to go.
        if move is None:
            return not self.has_any_of(gone)
        return move.first != move.next and self._stored_offset(move.key) == move.next

    def _check_commit(self, gone: Sequence[LakeFile], move: OffsetMove | None) -> None:
        if gone and not self.holds(gone):
            raise ReplacedError
        if move is not None and (offset := self._stored_offset(move.key)) != move.first:
            raise OffsetMovedError(f"the offset {move.key} is {offset}, not {move.first}")

    def _check_written(self, added: Sequence[LakeFile]) -> None:
        """Refuse files that :meth:`vacuum` deleted, or may delete before they are in a version."""
        try:
            found = self.files.get_file_info([file.path for file in added])
        except OSError as error:
            raise self._not_read(error) from error
        oldest = time.time() - COMMIT_H * 3600
        for info in found:
            if info.type is fs.FileType.NotFound:
                raise LateError(
                    f"{info.path} of the lake {self.address.location} was deleted before it was committed; write it again"
                )
            if info.mtime_ns is not None and info.mtime_ns < oldest * 1e9:
                raise LateError(
                    f"{info.path} of the lake {self.address.location} was written more than {COMMIT_H} hours before "
                    "its commit, or clocks do not agree; write it again"
                )

    def _try_commit(
        self, added: Sequence[LakeFile], gone: Sequence[LakeFile], move: OffsetMove | None
    ) -> None:
        before = self._table.version()
        # What is rewritten is no new data to those who follow the table's changes.
        changes = not (added and gone)
        moves = [] if move is None else [self._actions.Transaction(move.key, move.next)]
        # The table refuses a commit if the same offset was moved since the version that was checked.
        self._table.create_write_transaction(
            [
                *(self._add(file, changes) for file in added),
                *(self._remove(file, changes) for file in gone),
            ],
            "append",
            self._table.schema(),
            partition_by=[APP],
            commit_properties=self._actions.CommitProperties(app_transactions=moves),
        )
        self._refresh()
        if self.address.is_local:
            # Have it on the disk: what it replaces is deleted elsewhere, and a power may fail.
            folder = Path(self.address.location)
            versions = range(before + 1, self._table.version() + 1)
            sync_files(*(folder / _log_entry(version) for version in versions), folder / DELTA_LOG)

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
                    f"can't delete {file.path} of the lake: {reason_of(error)}"
                ) from error

    def vacuum(self, older_than_h: int) -> list[str]:
        """Delete files that were removed from the table so many hours ago, and those that no version ever had after a week; their paths.

        Raises:
            StoreUnavailableError: the storage refuses.
        """
        with self._lock:
            self._refresh(surely=True)
            removed = self._vacuumed(older_than_h, deletes=True)
            unfinished = self.dead(self._vacuumed(max(older_than_h, UNFINISHED_H), full=True))
            self.erase(unfinished)
            self._refresh()
            try:
                self._table.create_checkpoint()
                self._table.cleanup_metadata()
            except (OSError, self._errors.DeltaError) as error:
                raise StoreUnavailableError(
                    f"can't clean up the lake: {reason_of(error)}"
                ) from error
        return [*removed, *(file.path for file in unfinished)]

    def removed_files(self, key: str, *, unfinished: bool = False) -> list[LakeFile]:
        """Files of an application that no version has any more; with ``unfinished`` also week old ones that none ever had.

        Their sizes are not known.

        Raises:
            StoreUnavailableError: the storage refuses.
        """
        with self._lock:
            self._refresh(surely=True)
            listed = self._vacuumed(0)
            if unfinished:
                listed += self._vacuumed(UNFINISHED_H, full=True)
            return [file for file in self.dead(listed) if file.key == key]

    def dead(self, paths: Iterable[str]) -> list[LakeFile]:
        """Files of the lake, among those of a listing, that the newest version does not hold; their sizes are not known.

        It is read now, after the listing: what was committed meanwhile is in it.

        Raises:
            StoreError: the storage can't be read.
        """
        by_key = self.snapshot(surely=True).files
        live = {file.path for files in by_key.values() for file in files}
        dead = {path for path in paths if is_of_lake(path)} - live
        return [LakeFile(path, 0, key_in(path)) for path in sorted(dead)]

    def _vacuumed(
        self, older_than_h: int, *, full: bool = False, deletes: bool = False
    ) -> list[str]:
        """Paths of files that were removed from the table so many hours ago.

        With ``full`` also of those that no entry of the log has, if they were written as long ago.
        """
        try:
            return list(
                self._table.vacuum(
                    retention_hours=older_than_h,
                    dry_run=not deletes,
                    enforce_retention_duration=False,
                    full=full,
                )
            )
        except (OSError, self._errors.DeltaError) as error:
            raise StoreUnavailableError(f"can't clean up the lake: {reason_of(error)}") from error
