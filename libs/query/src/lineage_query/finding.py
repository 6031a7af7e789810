"""Finds the applications that wrote or read a file, and those that used its current version."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from lineage_core.contract.message import (
    Message,
    RecordFiles,
    RecordSplits,
    SinkFiles,
    Splits,
    Unknown,
)
from lineage_core.tracing.budget import TooManyMessagesError, current_budget
from lineage_query.rows.file_status import (
    CurrentState,
    FileStatus,
    by_state,
    current_state,
    has_changed,
    time_text,
    worst,
)
from lineage_query.rows.locations import Locations
from lineage_query.rows.reader import RowReader
from lineage_store.errors import StoreError
from lineage_store.materialised import stands_for, whose_rows
from lineage_store.paths import MTIME_TOLERANCE_S, Spellings
from lineage_store.port import GraphStore
from lineage_store.records import FILES, SPLITS

APPLICATIONS_CHECKED_MAX = 20
"""Of the latest applications, beyond the one that answers."""
NAMED_PARTS_MAX = 3
UNREAD_REASON = "it sent more messages than a query may hold"
"""The reason why the messages of an application are not read."""


class NotFoundError(StoreError):
    """No such application, or none that used the file."""


class FileVersion(NamedTuple):
    """A file as a node read or wrote it; ``checksum`` is empty where none was taken."""

    size: int
    mtime: float
    checksum: str = ""

    def has_state_of(self, other: FileVersion) -> bool:
        """Whether size and time are the same."""
        return self.size == other.size and abs(self.mtime - other.mtime) <= MTIME_TOLERANCE_S

    def is_same(self, other: FileVersion) -> bool:
        """Whether both are the same version, as far as the recorded states show."""
        same_content = not (self.checksum and other.checksum) or self.checksum == other.checksum
        return same_content and self.has_state_of(other)

    def __str__(self) -> str:
        return f"{self.size:,} bytes of {time_text(int(self.mtime * 1000))}"


FileVersions: TypeAlias = Mapping[tuple[str, bool], Collection[FileVersion]]
"""The versions of a file that nodes recorded, by node id and whether the node wrote it."""


@dataclass(frozen=True, slots=True)
class FileUse:
    """An application's node that read (``wrote`` False) or wrote a file.

    ``file_status``: the current file compared with the version that the application wrote or read. ``then``: size and
    modification time that the node recorded. ``undecided``: only the modification time differs, and no checksum shows
    whether the content does.
    """

    app: str
    node: str
    wrote: bool
    file_status: FileStatus
    then: frozenset[FileVersion] = frozenset()
    undecided: bool = False

    @property
    def changed(self) -> bool:
        """Whether the file has changed since the application wrote or read it."""
        return has_changed(self.file_status)

    @property
    def gone(self) -> bool:
        """Whether the file no longer exists."""
        return self.file_status == "gone"

    def is_of(self, versions: Collection[FileVersion]) -> bool:
        """Whether the node recorded the file in one of these states."""
        return any(then.has_state_of(version) for then in self.then for version in versions)

    def has_size_of(self, versions: Collection[FileVersion]) -> bool:
        """Whether the recorded size of the file is that of one of these states."""
        return not {then.size for then in self.then}.isdisjoint(
            version.size for version in versions
        )


def find_application(store: GraphStore, name: str | None) -> str:
    """The application that an id, an unambiguous prefix of one, or ``latest`` (None) names.

    Raises:
        NotFoundError: there is none, or more than one.
    """
    ids = store.application_ids()
    if name is not None and name in ids:
        return name
    # An application that holds the materialised lineage of another one is named by its full id only.
    application_ids = [app for app in ids if whose_rows(app, ids) is None]
    if not application_ids:
        raise NotFoundError("the store holds no application; `lineage run JOB` captures one")
    if name in (None, "latest"):
        return application_ids[0]
    assert name is not None
    matching = [app for app in application_ids if app.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise NotFoundError(f"{name!r} matches {', '.join(matching[:5])}: give more characters")
    raise NotFoundError(f"there is no application {name!r}; `lineage apps` lists them")


def find_uses(
    store: GraphStore,
    reader: RowReader,
    path: str,
    *,
    wrote: bool,
    app: str | None = None,
    spellings: Spellings | None = None,
) -> list[FileUse]:
    """The nodes by which one application used a file.

    The order of preference: applications that used the current version of the file, the latest first, then those for
    which it has changed since; within each, those that wrote it (``wrote``: backward traces) or read it (forward traces)
    before others. ``app`` restricts the search to one application. Applications that hold the materialised lineage of
    others are represented by these. ``spellings``: the links already resolved for this query.

    Raises:
        NotFoundError: no application read or wrote the file.
        TooManyMessagesError: an application that may have used the file sent more messages than a query may hold.
    """
    spellings = spellings or Spellings()
    best: list[FileUse] = []
    unread: dict[str, TooManyMessagesError] = {}
    rank = (2, 2)
    current = current_state(reader, spellings.of(path))
    for uses in _uses_by_application(store, reader, path, app, current, spellings, unread):
        for changed, other in ((False, False), (False, True), (True, False), (True, True)):
            matching = [u for u in uses if u.changed == changed and (u.wrote != wrote) == other]
            if matching and (changed, other) < rank:
                best, rank = matching, (changed, other)
        if rank == (False, False):
            break
    # An application that used the current version is an answer, whatever the unread applications did.
    if unread and rank != (False, False):
        raise next(iter(unread.values()))
    if not best:
        raise NotFoundError(
            _no_use_text(path, current, app) + _possible_writers_text(store, current, app)
        )
    if best[-1].changed or best[-1].file_status == "unknown":
        # The application may have used several versions of the file: only the last one counts.
        best = [use for use in best if use.is_of(best[-1].then)]
    return best


@dataclass(frozen=True, slots=True)
class Readers:
    """The applications that read one version of a file.

    ``apps``: the applications, the latest first. ``unsure``: those of which some node read a version that may be the
    same (only its time differs, and there is no checksum), or that read this version and later another one.
    ``unread``: applications that may have read it, but sent more messages than a query may hold.
    """

    apps: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def find_readers(store: GraphStore, reader: RowReader, path: str) -> Readers:
    """All applications that read the current version of a file; if none did, the version that its latest reader read.

    Applications that hold the materialised lineage of others are left out.
    """
    spellings = Spellings()
    current = current_state(reader, spellings.of(path))
    unread: dict[str, TooManyMessagesError] = {}
    uses = [
        use
        for application_uses in _uses_by_application(
            store, reader, path, None, current, spellings, unread
        )
        for use in application_uses
        if not use.wrote
    ]
    unchanged_uses = [use for use in uses if not use.changed]
    if unchanged_uses and current != "unseen":
        undecided = _app_ids(use for use in uses if use.undecided)
        return Readers(_app_ids(unchanged_uses), undecided, tuple(unread))
    if not uses:
        return Readers(unread=tuple(unread))
    # Of each application, the version that it used last counts.
    last = {use.app: use.then for use in uses}
    version = last[uses[0].app]
    apps = _app_ids(use for use in uses if use.is_of(version) and use.is_of(last[use.app]))
    same_size_uses = (use for use in uses if use.has_size_of(version))
    unsure = _app_ids(
        use for use in same_size_uses if use.app not in apps or not use.is_of(version)
    )
    return Readers(apps, unsure, tuple(unread))


def _uses_by_application(
    store: GraphStore,
    reader: RowReader,
    path: str,
    app: str | None,
    state: CurrentState,
    spellings: Spellings,
    unread: dict[str, TooManyMessagesError],
) -> Iterator[list[FileUse]]:
    """How applications used a file, the latest first; ``app`` restricts the search to one application.

    Applications that sent more messages than a query may hold are added to ``unread``, and the search continues.

    If the store's index leads to no application that used the file, all other applications are searched: a folder may have
    been moved since, and replaced by a link.
    """
    canonical_path = spellings.of(path)
    if app is not None:
        if app in store.application_ids():
            yield _uses(store, reader, app, canonical_path, state, spellings)
        return

    def uses_of(candidate: str) -> list[FileUse]:
        try:
            return _uses(store, reader, candidate, canonical_path, state, spellings)
        except TooManyMessagesError as error:
            # Any application can claim that it used any file, so its messages must not end queries about other applications.
            unread[candidate] = error
            return []

    has_uses = False
    keyed = store.applications_knowing(path, spellings)
    for candidate in keyed:
        if not _is_materialised(store, candidate):
            uses = uses_of(candidate)
            has_uses = has_uses or bool(uses)
            yield uses
    if not has_uses:
        ids = store.application_ids()
        for candidate in ids:
            if candidate not in keyed and whose_rows(candidate, ids) is None:
                yield uses_of(candidate)


def _is_materialised(store: GraphStore, app: str) -> bool:
    """Whether an application holds the materialised lineage of another application of the store."""
    return stands_for(app) is not None and whose_rows(app, store.application_ids()) is not None


def _app_ids(uses: Iterable[FileUse]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(use.app for use in uses))


def other_readers(store: GraphStore, reader: RowReader, path: str, app: str) -> Readers:
    """As :func:`find_readers`, without ``app`` and the application whose materialised lineage it holds."""
    own = {app, whose_rows(app, store.application_ids()) or app}
    readers = find_readers(store, reader, path)
    return Readers(
        *(
            tuple(reader_app for reader_app in apps if reader_app not in own)
            for apps in (readers.apps, readers.unsure, readers.unread)
        )
    )


def recorded_files(
    store: GraphStore, app: str, spellings: Spellings, only: str | None = None
) -> dict[str, FileVersions]:
    """The files that an application read or wrote, by canonical path; ``only`` restricts the result to one path.

    Raises:
        BudgetError: the query exceeds its budget.
    """
    versions_by_file: dict[str, dict[tuple[str, bool], set[FileVersion]]] = {}
    for message in store.messages(app, *SPLITS, *FILES):
        current_budget().check()
        for node, path, version, wrote in file_versions(message):
            canonical_path = spellings.of(path)
            if only is None or canonical_path == only:
                versions_by_file.setdefault(canonical_path, {}).setdefault(
                    (node, wrote), set()
                ).add(version)
    return dict(versions_by_file)


def file_versions(message: Message) -> Iterator[tuple[str, str, FileVersion, bool]]:
    """The versions of files that a message names: node, path as recorded, version, and whether the node wrote the file."""
    if isinstance(message, Splits | RecordSplits):
        for split in message.splits:
            version = FileVersion(split.file_size, split.mtime, split.checksum)
            yield message.node, split.path, version, False
    elif isinstance(message, SinkFiles | RecordFiles):
        for file in message.files:
            yield message.node, file.path, FileVersion(file.size, file.mtime, file.checksum), True


def _uses(
    store: GraphStore,
    reader: RowReader,
    app: str,
    path: str,
    state: CurrentState,
    spellings: Spellings,
) -> list[FileUse]:
    recorded = recorded_files(store, app, spellings, only=path).get(path, {})

    def use(node: str, versions: Collection[FileVersion], *, wrote: bool) -> FileUse:
        statuses = {
            "unknown" if state == "unseen" else by_state(state, version.size, version.mtime)
            for version in versions
        }
        if None in statuses:
            # Only the modification time differs: the application's checksums may decide.
            locations = Locations(store.graph(app), reader)
            file_status = locations.file_status(node, path)
            undecided = file_status == "changed" and locations.is_undecided(node, path)
            return FileUse(app, node, wrote, file_status, frozenset(versions), undecided)
        file_status = worst(status for status in statuses if status is not None)
        return FileUse(app, node, wrote, file_status, frozenset(versions))

    return [use(node, version, wrote=wrote) for (node, wrote), version in recorded.items()]


def _possible_writers_text(store: GraphStore, state: CurrentState, app: str | None) -> str:
    """The text that names applications that may have written the file in a part without lineage."""
    candidates: list[str] = []
    for record in store.applications()[:APPLICATIONS_CHECKED_MAX]:
        if state is None or state == "unseen" or (app is not None and record.app != app):
            continue
        if state.mtime is not None and state.mtime + MTIME_TOLERANCE_S < record.started_at:
            continue
        parts = {m.what for m in store.messages(record.app, "unknown") if isinstance(m, Unknown)}
        if parts:
            named = ", ".join(sorted(parts)[:NAMED_PARTS_MAX]) + (
                ", ..." * (len(parts) > NAMED_PARTS_MAX)
            )
            candidates.append(f"{record.app} ({record.name}: {named})")
    if not candidates:
        return ""
    return f"; it may have been written by a part without lineage of {', '.join(candidates[:NAMED_PARTS_MAX])}"


def _no_use_text(path: str, state: CurrentState, app: str | None) -> str:
    who = "no application" if app is None else f"application {app}"
    verb = "did not read or write" if app is not None else "read or wrote"
    if state is None:
        return f"{path}: no such file, and {who} {verb} it"
    return f"{path}: {who} {verb} this file; `lineage apps` lists the applications of the store"
