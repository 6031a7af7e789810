"""A store as one caller may see it: other applications are not there."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import EdgeBatch, FlowGraph
from lineage_core.contract.message import Begin, Message
from lineage_core.contract.sealing import Seal
from lineage_core.contract.verdict import VERDICT_MESSAGE_TYPES, StoreCounts, Verdict
from lineage_core.linking.linker import TaskId
from lineage_query.rows.locations import Locations
from lineage_query.rows.reader import RowReader
from lineage_query.snapshot import ApplicationCache, ApplicationSnapshot
from lineage_query_api.grants import matches_any
from lineage_query_api.visibility import VisibleApplication
from lineage_store.errors import UnfitStoreError
from lineage_store.materialised import NAME_ENDING, stands_for
from lineage_store.port import ApplicationRecord, GraphStore
from lineage_store.recipes import derived_messages
from lineage_store.recorded_files import FileQuery, RecordedFiles

if TYPE_CHECKING:
    from typing_extensions import Self

NAMES_S = 5.0
"""Seconds for which names are taken for all there are: another one may be on its way, and hides the application."""


class ApplicationNames:
    """The program names of a store's applications. May be shared by threads."""

    def __init__(self, store: GraphStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._names_by_app: dict[str, frozenset[str]] = {}
        self._until = -math.inf

    def of(self, app: str) -> frozenset[str]:
        """All names in the begin messages of an application: usually one, none before the message arrives."""
        names = self._all().get(app)
        if names is None:
            # The message may have arrived since all were read.
            try:
                begins = self._store.messages(app, "begin")
            except KeyError:
                return frozenset()
            names = frozenset(message.name for message in begins if isinstance(message, Begin))
            if names:
                with self._lock:
                    self._names_by_app[app] = names
        return names

    def retain(self, ids: Iterable[str]) -> None:
        """Drop the names of all other applications: an id may later be another program's."""
        retained = set(ids)
        with self._lock:
            for app in self._names_by_app.keys() - retained:
                del self._names_by_app[app]

    def _all(self) -> Mapping[str, frozenset[str]]:
        now = self._clock()
        with self._lock:
            if now < self._until:
                return self._names_by_app
        names_by_app = dict(self._store.names())
        with self._lock:
            self._names_by_app, self._until = names_by_app, now + NAMES_S
            return self._names_by_app


class ReadOnlyStore:
    """A read-only store, which the code that opened it closes."""

    def write(
        self,
        app: str,
        messages: Iterable[Message] = (),
        blocks: Iterable[FlowBlock] = (),
        edges: Iterable[EdgeBatch] = (),
        *,
        tasks: Mapping[BlockId, TaskId] | None = None,
        unmatched: Mapping[BlockId, int] | None = None,
        seals: Iterable[Seal] = (),
    ) -> None:
        """Refuse it.

        Raises:
            UnfitStoreError: always.
        """
        raise UnfitStoreError("nothing is written through grants")

    def close(self) -> None:
        """Does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class VisibilityCheck(Protocol):
    """Decides which applications are fully visible."""

    def is_fully_visible(self, app: str) -> bool:
        """Whether no part of an application is hidden or masked."""

    def visible_application(self, app: str) -> VisibleApplication:
        """What of an application is visible; raises KeyError if it is missing."""

    def verdict_of(self, app: str, verdict: Verdict) -> Verdict:
        """The verdict of an application without the parts that reveal hidden data."""


class GrantedStore(ReadOnlyStore):
    """The applications of a store whose names fit some patterns.

    Materialised lineage (``APP.rows``) counts as that of the application whose rows it holds. ``visibility``: decides what is
    hidden; None: nothing is. ``fully_visible_only``: include only applications without hidden parts; others are listed
    with their verdicts, and no more. ``key``: identifies the visible content uniquely.
    """

    def __init__(
        self,
        store: GraphStore,
        names: ApplicationNames,
        patterns: frozenset[str],
        visibility: VisibilityCheck | None = None,
        *,
        fully_visible_only: bool = False,
    ) -> None:
        self._store = store
        self._names = names
        self._patterns = patterns
        self._visibility = visibility
        self._fully_visible_only = fully_visible_only
        self.key: Hashable = (patterns, visibility, fully_visible_only)

    def application_ids(self) -> Sequence[str]:
        """As :meth:`GraphStore.application_ids`, of those that are granted."""
        ids = self._store.application_ids()
        self._names.retain(ids)
        return [app for app in ids if self.shows(app)]

    def revision(self, app: str) -> Hashable:
        """As :meth:`GraphStore.revision`; raises KeyError for others."""
        self._check(app)
        return self._store.revision(app)

    def revisions(self, apps: Collection[str]) -> Mapping[str, Hashable]:
        """As :meth:`GraphStore.revisions`, of those that are granted."""
        return self._store.revisions([app for app in apps if self.shows(app)])

    def recorded_files(self, query: FileQuery) -> RecordedFiles:
        """As :meth:`GraphStore.recorded_files`, of those that are granted."""
        return self._store.recorded_files(query).only(self.shows)

    def applications(self) -> Sequence[ApplicationRecord]:
        """As :meth:`GraphStore.applications`, of those that are granted."""
        records = self._store.applications()
        granted = set(self.application_ids())
        return [record for record in records if record.app in granted]

    def names(self) -> Mapping[str, frozenset[str]]:
        """As :meth:`GraphStore.names`, of those that are granted."""
        return {app: self._names.of(app) for app in self.application_ids()}

    def messages(self, app: str, *kinds: str) -> Sequence[Message]:
        """As :meth:`GraphStore.messages`; raises KeyError for others."""
        self._check(app)
        if not kinds or not set(kinds) <= set(VERDICT_MESSAGE_TYPES):
            self._check_fully_visible(app)
        messages = self._store.messages(app, *kinds)
        return derived_messages(map(self._shown, messages), messages)

    def graph(self, app: str) -> FlowGraph:
        """As :meth:`GraphStore.graph`; raises KeyError for others, too."""
        self._check(app)
        self._check_fully_visible(app)
        return self._store.graph(app)

    def counts(self, app: str) -> StoreCounts:
        """As :meth:`GraphStore.counts`; raises KeyError for others, too."""
        self._check(app)
        return self._store.counts(app)

    def delete(self, app: str) -> None:
        """As :meth:`GraphStore.delete`, for granted applications only."""
        if self.shows(app):
            self._store.delete(app)

    def shows(self, app: str) -> bool:
        """Whether an application is granted, by its full id; a missing application has no name."""
        names = names_of(self._names, app)
        # Require a grant for all names: sending a second name for another user's application must not reveal it.
        if not names or not all(matches_any(name, self._patterns) for name in names):
            return False
        return not self._fully_visible_only or self.is_fully_visible(app)

    def is_fully_visible(self, app: str) -> bool:
        """Whether no part of an application is hidden."""
        return self._visibility is None or self._visibility.is_fully_visible(app)

    @property
    def visibility(self) -> VisibilityCheck | None:
        """Decides what is hidden; None: nothing is."""
        return self._visibility

    def verdict_of(self, app: str, verdict: Verdict) -> Verdict:
        """A verdict without the parts that reveal hidden datasets."""
        return verdict if self._visibility is None else self._visibility.verdict_of(app, verdict)

    def _check(self, app: str) -> None:
        if not self.shows(app):
            raise KeyError(app)

    def _check_fully_visible(self, app: str) -> None:
        if not self.is_fully_visible(app):
            raise KeyError(app)

    def _shown(self, message: Message) -> Message:
        if isinstance(message, Begin) and message.earlier:
            earlier = tuple(app for app in message.earlier if self.shows(app))
            return message.model_copy(update={"earlier": earlier})
        return message


class GrantedApplicationCache(ApplicationCache):
    """Opens the applications that are granted, by a cache that all callers share; ``reader``: reads their files."""

    def __init__(self, shared: ApplicationCache, store: GrantedStore, reader: RowReader) -> None:
        super().__init__(store, reader)
        self._shared = shared
        self._granted = store
        self._lock_read = threading.Lock()
        self._read: OrderedDict[str, tuple[ApplicationSnapshot, RowReader, ApplicationSnapshot]]
        self._read = OrderedDict()

    def open(self, app: str) -> ApplicationSnapshot:
        """As :meth:`ApplicationCache.open`; raises KeyError for others, too."""
        if not (self._granted.shows(app) and self._granted.is_fully_visible(app)):
            raise KeyError(app)
        opened, reader = self._shared.open(app), self.reader.of_application(app)
        if reader is self.reader:
            # It reads the same of all callers.
            return opened
        with self._lock_read:
            read = self._read.get(app)
            if read is None or read[0] is not opened or read[1] is not reader:
                snapshot = replace(opened, locations=Locations(opened.graph, reader))
                read = self._read[app] = opened, reader, snapshot
            self._read.move_to_end(app)
            while len(self._read) > self._shared.cached_max:
                self._read.popitem(last=False)
        return read[2]

    def forget(self, app: str) -> None:
        """As :meth:`ApplicationCache.forget`, for all callers."""
        self._shared.forget(app)


def names_of(names: ApplicationNames, app: str) -> frozenset[str]:
    """The names of an application for grants, and of the one whose rows it holds: all of them must be granted.

    Who may write lineage may give the id of an application that was deleted to another one, beside rows of the former.
    """
    base, own = stands_for(app), names.of(app)
    if base is None or not own:
        return own
    return frozenset(name.removesuffix(NAME_ENDING) for name in own) | names.of(base)
