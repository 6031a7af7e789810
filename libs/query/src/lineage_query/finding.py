"""Finds the applications that wrote or read a file, and those that used its current version."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from lineage_core.contract.message import (
    Unknown,
)
from lineage_core.tracing.budget import TooManyMessagesError, TooMuchError, current_budget
from lineage_query.rows.file_status import (
    CurrentState,
    FileStatus,
    by_state,
    current_state,
    has_changed,
    worst,
)
from lineage_query.rows.locations import Locations
from lineage_query.rows.reader import RowReader
from lineage_store.errors import UNREAD, DamagedError, StoreError, way_out
from lineage_store.materialised import stands_for, whose_rows
from lineage_store.paths import MTIME_TOLERANCE_S, FileState, Spellings
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, FileVersion, RecordedFile

APPLICATIONS_CHECKED_MAX = 20
"""Of the latest applications, beyond the one that answers."""
NAMED_PARTS_MAX = 3
UNREAD_REASON = "it recorded more than a query may hold, or is damaged (`lineage apps`)"
"""The reason why what an application recorded is not read."""


class NotFoundError(StoreError):
    """No such application, or none that used the file."""


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
        if not self.then.isdisjoint(versions):
            return True
        for then in self.then:
            current_budget().check()
            if any(then.has_state_of(version) for version in versions):
                return True
        return False

    def has_size_of(self, versions: Collection[FileVersion]) -> bool:
        """Whether the recorded size of the file is that of one of these states."""
        return not {then.size for then in self.then}.isdisjoint(
            version.size for version in versions
        )


def find_application(store: GraphStore, name: str | None) -> str:
    """The application that an id, an unambiguous prefix of one, or ``latest`` (None) names.

    Raises:
        NotFoundError: there is none, or more than one, or which one is the latest is not known.
    """
    ids = store.application_ids()
    if name is not None and name in ids:
        return name
    # An application that holds the materialised lineage of another one is named by its full id only.
    application_ids = [app for app in ids if whose_rows(app, ids) is None]
    if not application_ids:
        raise NotFoundError("the store holds no application; `lineage run JOB` captures one")
    if name in (None, "latest"):
        return _latest(store, application_ids[0])
    assert name is not None
    matching = [app for app in application_ids if app.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise NotFoundError(f"{name!r} matches {', '.join(matching[:5])}: give more characters")
    raise NotFoundError(f"there is no application {name!r}; `lineage apps` lists them")


def _latest(store: GraphStore, first: str) -> str:
    """The application that is ``first`` in the order of times.

    Raises:
        NotFoundError: it is damaged: it is known by when its files were written, and began at any time before.
    """
    try:
        store.messages(first, "begin")
    except (KeyError, TooManyMessagesError):
        # It was deleted meanwhile, or is larger than a query may hold: whoever reads it says so.
        pass
    except DamagedError as error:
        raise NotFoundError(
            f"which application is the latest is not known, as {first} is damaged, and when it began is lost: name one "
            f"(`lineage apps` lists them), or {way_out(first)}"
        ) from error
    return first


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
        TooMuchError: an application that may have used the file recorded more than a query may hold, or is damaged, and none is
            known to have used the very file that is there now.
    """
    spellings = spellings or Spellings()
    best: list[FileUse] = []
    rank = (2, 2)
    search = _Search(store, reader, path, spellings, app)
    for uses in search.uses(current_first=True):
        for changed, other in ((False, False), (False, True), (True, False), (True, True)):
            matching = [u for u in uses if u.changed == changed and (u.wrote != wrote) == other]
            if matching and (changed, other) < rank:
                best, rank = matching, (changed, other)
        if rank == (False, False):
            break
    # An application that used the very file that is there now is an answer, whatever the unread applications did. One of which
    # only the content is the same, or that can't be compared, is not: an unread one may have written the file after it.
    if search.unread and not (
        rank == (False, False) and all(use.file_status == "same" for use in best)
    ):
        raise TooMuchError(
            f"whether {next(iter(search.unread))} read or wrote {path} is not known: {UNREAD_REASON}",
            "name the application that the file is of"
            if app is None
            else f"`lineage verify {app}` says what is missing",
        )
    if not best:
        raise NotFoundError(
            _no_use_text(path, search.current, app)
            + _possible_writers_text(store, search.current, app)
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
    ``unread``: applications that may have read it, but recorded more than a query may hold, or are damaged.
    """

    apps: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def find_readers(store: GraphStore, reader: RowReader, path: str) -> Readers:
    """All applications that read the current version of a file; if none did, the version that its latest reader read.

    Applications that hold the materialised lineage of others are left out.
    """
    search = _Search(store, reader, path, Spellings())
    uses = [
        use
        for application_uses in search.uses(current_first=False)
        for use in application_uses
        if not use.wrote
    ]
    unread = tuple(search.unread)
    unchanged_uses = [use for use in uses if not use.changed]
    if unchanged_uses and search.current != "unseen":
        undecided = _app_ids(use for use in uses if use.undecided)
        return Readers(_app_ids(unchanged_uses), undecided, unread)
    if not uses:
        return Readers(unread=unread)
    # Of each application, the version that it used last counts.
    last = {use.app: use.then for use in uses}
    version = last[uses[0].app]
    apps = _app_ids(use for use in uses if use.is_of(version) and use.is_of(last[use.app]))
    same_size_uses = (use for use in uses if use.has_size_of(version))
    unsure = _app_ids(
        use for use in same_size_uses if use.app not in apps or not use.is_of(version)
    )
    return Readers(apps, unsure, unread)


class _Search:
    """Finds how applications used a file, one application after the other.

    ``unread``: applications that may have used it, but recorded more than a query may hold, or are damaged.
    """

    def __init__(
        self,
        store: GraphStore,
        reader: RowReader,
        path: str,
        spellings: Spellings,
        app: str | None = None,
    ) -> None:
        self.current = current_state(reader, spellings.of(path))
        self.unread: dict[str, None] = {}
        self._store = store
        self._reader = reader
        self._path = spellings.of(path)
        self._query = FileQuery(path, spellings, app=app)

    def uses(self, *, current_first: bool) -> Iterator[list[FileUse]]:
        """The uses of each application, the latest first; ``current_first``: those of the current version before others.

        If no application used the file, it is looked for by links: it may have been moved since, with a link left in its place.
        """
        searched = set[str]()
        has_uses = False
        for query in self._queries(current_first=current_first):
            if query.by_links and has_uses:
                return
            for app, files in self._read(query).items():
                if app in searched or _is_materialised(self._store, app, self._query.app):
                    continue
                searched.add(app)
                # Whatever other versions it used counts, too.
                all_files = (
                    files
                    if query.state is None
                    else self._read(replace(self._query, app=app)).get(app, [])
                )
                uses = self._uses_of(app, all_files)
                has_uses = has_uses or bool(uses)
                yield uses

    def _queries(self, *, current_first: bool) -> Iterator[FileQuery]:
        state = self.current
        if (
            current_first
            and self._query.app is None
            and isinstance(state, FileState)
            and state.mtime is not None
        ):
            yield replace(self._query, state=FileVersion(state.size, state.mtime))
        yield self._query
        yield replace(self._query, by_links=True)

    def _read(self, query: FileQuery) -> dict[str, list[RecordedFile]]:
        recorded = self._store.recorded_files(query)
        self.unread |= dict.fromkeys(recorded.unread)
        files: dict[str, list[RecordedFile]] = {}
        for file in recorded.items:
            files.setdefault(file.app, []).append(file)
        return files

    def _uses_of(self, app: str, files: Iterable[RecordedFile]) -> list[FileUse]:
        try:
            return _uses(self._store, self._reader, app, self._path, self.current, files)
        except UNREAD:
            # Any application can claim that it used any file, so its messages must not end queries about other applications.
            if self._query.app is not None:
                raise
            self.unread[app] = None
            return []


def _is_materialised(store: GraphStore, app: str, queried_app: str | None) -> bool:
    """Whether an application holds the materialised lineage of another application of the store, and is not itself queried."""
    if app == queried_app:
        return False
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


def _uses(
    store: GraphStore,
    reader: RowReader,
    app: str,
    path: str,
    state: CurrentState,
    files: Iterable[RecordedFile],
) -> list[FileUse]:
    """How an application used a file; ``files``: all versions of it that the application recorded."""
    recorded: dict[tuple[str, bool], set[FileVersion]] = {}
    for file in files:
        recorded.setdefault((file.node, file.wrote), set()).add(file.version)

    def use(node: str, versions: Collection[FileVersion], *, wrote: bool) -> FileUse:
        statuses = {
            "unknown"
            if state == "unseen" or version.is_unknown
            else by_state(state, version.size, version.mtime)
            for version in versions
        }
        if None in statuses:
            # Only the modification time differs: the application's checksums may decide.
            locations = Locations(store.graph(app), reader.of_application(app))
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
        is_later = state.mtime is not None and state.mtime + MTIME_TOLERANCE_S < record.started_at
        # A damaged one may have begun long before the time that is known of it.
        if is_later and not record.damage:
            continue
        if record.damage:
            parts = {"its lineage is damaged"}
        else:
            messages = store.messages(record.app, "unknown")
            parts = {message.what for message in messages if isinstance(message, Unknown)}
        if parts:
            named = ", ".join(sorted(parts)[:NAMED_PARTS_MAX]) + (
                ", ..." * (len(parts) > NAMED_PARTS_MAX)
            )
            candidates.append(f"{record.app} ({': '.join(filter(None, (record.name, named)))})")
    if not candidates:
        return ""
    return f"; it may have been written by a part without lineage of {', '.join(candidates[:NAMED_PARTS_MAX])}"


def _no_use_text(path: str, state: CurrentState, app: str | None) -> str:
    who = "no application" if app is None else f"application {app}"
    verb = "did not read or write" if app is not None else "read or wrote"
    if state is None:
        return f"{path}: no such file, and {who} {verb} it"
    return f"{path}: {who} {verb} this file; `lineage apps` lists the applications of the store"
