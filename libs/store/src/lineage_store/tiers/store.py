"""Two stores queried as one: a database that is written, and the lake that its applications are archived to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import EdgeBatch, FlowGraph
from lineage_core.contract.message import Message
from lineage_core.contract.sealing import Seal
from lineage_core.contract.times import JsonTime
from lineage_core.contract.verdict import StoreCounts
from lineage_core.linking.linker import TaskId
from lineage_store.errors import DamagedError, StoreError
from lineage_store.moving import names_of
from lineage_store.port import (
    ApplicationRecord,
    CheckingStore,
    ErasableStore,
    Rewrite,
    ViewingStore,
)
from lineage_store.recorded_files import (
    FileQuery,
    FileRows,
    RecordedFiles,
    StoredFile,
    find_files,
)
from lineage_store.tiers.address import TierAddresses
from lineage_store.tiers.following import FollowedGraph, Follower

if TYPE_CHECKING:
    from typing_extensions import Self

    from lineage_store.lake.store import LakeStore

KNOWN_MAX = 1_000
"""Number of applications in both stores of which it is remembered which store has all."""


class Tier(ErasableStore, Protocol):
    """What is queried of each of the two."""

    def starts(self) -> Mapping[str, JsonTime]:
        """When each application began."""

    def file_rows(self, query: FileQuery) -> FileRows:
        """Rows of files, as :meth:`recorded_files` looks them up."""


class HotTier(Tier, Protocol):
    """The database, which applications leave."""

    def presence(self, app: str) -> Hashable:
        """A value that changes when an application begins to be deleted, and another for another of the same id; None: it is not there."""


class DividedError(StoreError):
    """Each of the two stores has lineage of an application that the other has not, or may have."""


@dataclass(frozen=True, slots=True)
class Place:
    """The store that has all of an application, and the revision there."""

    tier: Tier
    revision: Hashable
    is_hot: bool


class TieredStore:
    """Implements :class:`lineage_store.port.ErasableStore` over both. May be shared by threads.

    The database is read first, and the lake after it, in its newest version: what is moved in between is in the lake by
    then. An application that both have, as it is being archived or that was interrupted, is read where all of it is. The
    lake is asked whatever the question is; where it can't be read, there is no answer.
    """

    def __init__(
        self, hot: HotTier, open_cold: Callable[[], LakeStore], addresses: TierAddresses
    ) -> None:
        self.hot = hot
        self.addresses = addresses
        self._open_cold = open_cold
        self._cold: LakeStore | None = None
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Hashable, Place]] = {}

    def cold(self) -> LakeStore:
        """The lake as it is now: whatever left the database before this call is in it.

        Raises:
            StoreError: it is not there, or can't be read.
        """
        with self._lock:
            if self._cold is None:
                self._cold = self._open_cold()
        self._cold.catch_up()
        return self._cold

    def place(self, app: str) -> Place:
        """Where all of an application is.

        Raises:
            KeyError: there is no such application.
            DividedError: neither store has all of it.
            StoreError: a store can't be read.
        """
        in_hot = self.hot.revisions([app]).get(app)
        cold = self.cold()
        in_cold = cold.revisions([app]).get(app)
        if in_hot is None and in_cold is None:
            raise KeyError(f"there is no application {app} in {self.addresses}")
        if in_cold is None:
            return Place(self.hot, in_hot, is_hot=True)
        if in_hot is None:
            return Place(cold, in_cold, is_hot=False)
        return self._of_both(app, cold, in_hot, in_cold)

    def _of_both(self, app: str, cold: LakeStore, in_hot: Hashable, in_cold: Hashable) -> Place:
        known = self._known.get(app)
        if known is not None and known[0] == (in_hot, in_cold):
            return known[1]
        lake = Place(cold, in_cold, is_hot=False)
        try:
            hot_names = names_of(self.hot, app)
        except KeyError:
            return lake
        try:
            cold_names = names_of(cold, app)
        except DamagedError as error:
            # Removed by the address of both, it would be removed in the database, too.
            raise DividedError(
                f"{app} is in {self.addresses.hot} and, damaged, in {self.addresses.cold} ({error.damage}): which has all of it is not "
                f"known; put the file back, or remove the damaged one (`lineage --store {self.addresses.cold} rm {app}`)"
            ) from error
        if cold_names.has_all_of(hot_names):
            place = lake
        elif hot_names.has_all_of(cold_names):
            # It was written to after it was copied, and is not deleted in the database before it is copied again.
            place = Place(self.hot, in_hot, is_hot=True)
        else:
            raise DividedError(
                f"{app} is in {self.addresses.hot} and in {self.addresses.cold}, and each has lineage of it that the other has not, "
                "as of two runs with one id: remove one of them (`lineage --store STORE rm APP`, with the one store)"
            )
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[app] = ((in_hot, in_cold), place)
        return place

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
        try:
            tier = self.place(app).tier
        except KeyError:
            tier = self.hot
        tier.write(app, messages, blocks, edges, tasks=tasks, unmatched=unmatched, seals=seals)

    def applications(self) -> Sequence[ApplicationRecord]:
        records = {record.app: record for record in self.hot.applications()}
        for record in self.cold().applications():
            if record.app not in records or not self._is_read_hot(record.app):
                records[record.app] = record
        return sorted(
            records.values(), key=lambda record: (record.started_at, record.app), reverse=True
        )

    def _is_read_hot(self, app: str) -> bool:
        """Of an application that both have. One that is divided, or damaged in the lake, is listed, and refused when it is read."""
        try:
            return self.place(app).is_hot
        except (KeyError, DividedError):
            return True

    def application_ids(self) -> Sequence[str]:
        starts = self.starts()
        return sorted(starts, key=lambda app: (starts[app], app), reverse=True)

    def starts(self) -> Mapping[str, JsonTime]:
        """When each application began."""
        starts = dict(self.hot.starts())
        return {**self.cold().starts(), **starts}

    def revision(self, app: str) -> Hashable:
        place = self.place(app)
        return place.is_hot, place.revision

    def revisions(self, apps: Collection[str]) -> Mapping[str, Hashable]:
        in_hot = dict(self.hot.revisions(apps))
        in_cold = self.cold().revisions(apps)
        revisions: dict[str, Hashable] = {}
        for app in dict.fromkeys(apps):
            if app in in_hot and app in in_cold:
                is_hot = self._is_read_hot(app)
            elif app in in_hot or app in in_cold:
                is_hot = app in in_hot
            else:
                continue
            revisions[app] = (is_hot, (in_hot if is_hot else in_cold)[app])
        return revisions

    def recorded_files(self, query: FileQuery) -> RecordedFiles:
        return find_files(query, self.file_rows(query))

    def file_rows(self, query: FileQuery) -> FileRows:
        """Rows of files in both."""
        return _TieredFileRows(self, query)

    def names(self) -> Mapping[str, frozenset[str]]:
        names = dict(self.hot.names())
        for app, more in self.cold().names().items():
            names[app] = names.get(app, frozenset()) | more
        return names

    def messages(self, app: str, *kinds: str) -> Sequence[Message]:
        return self._follow(app).read(lambda tier: tier.messages(app, *kinds))

    def graph(self, app: str) -> FlowGraph:
        return FollowedGraph(self, app)

    def counts(self, app: str) -> StoreCounts:
        return self._follow(app).read(lambda tier: tier.counts(app))

    def _follow(self, app: str) -> Follower[Tier]:
        return Follower(self, app, lambda tier: tier)

    def check_files(self, app: str) -> None:
        def check(tier: Tier) -> None:
            if isinstance(tier, CheckingStore):
                tier.check_files(app)

        self._follow(app).read(check)

    def delete(self, app: str) -> None:
        # The lake first: where it can't be written, nothing is deleted. And last: it may have been archived meanwhile.
        self.cold().delete(app)
        self.hot.delete(app)
        self.cold().delete(app)

    def erase(self, app: str, rewrite: Rewrite, messages: Iterable[Message]) -> int:
        all_messages = list(messages)

        def erase_in(tier: Tier) -> list[int]:
            return [tier.erase(app, rewrite, all_messages)] if tier.revisions([app]) else []

        in_cold = erase_in(self.cold())
        in_hot = erase_in(self.hot)
        # It may have been archived meanwhile.
        replaced = [*in_hot, *(in_cold or erase_in(self.cold()))]
        if not replaced:
            raise KeyError(f"there is no application {app} in {self.addresses}")
        return max(replaced)

    def view_texts(self, app: str) -> Iterator[str]:
        # An application leaves the database with its view.
        return self.hot.view_texts(app) if isinstance(self.hot, ViewingStore) else iter(())

    def remove_view(self, app: str) -> int:
        return self.hot.remove_view(app) if isinstance(self.hot, ViewingStore) else 0

    def close(self) -> None:
        self.hot.close()
        if self._cold is not None:
            self._cold.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _TieredFileRows:
    """Implements :class:`lineage_store.recorded_files.FileRows`. Rows of an application that both have come twice, and count once."""

    def __init__(self, store: TieredStore, query: FileQuery) -> None:
        self._store = store
        self._query = query
        self._hot = store.hot.file_rows(query)
        self._not_indexed: list[StoredFile] = []
        self._cold_rows: list[FileRows] = []

    def _cold(self) -> FileRows:
        rows = self._store.cold().file_rows(self._query)
        self._cold_rows.append(rows)
        return rows

    def read(self, apps: Collection[str] | None, limit: int) -> Iterable[StoredFile]:
        hot = list(self._hot.read(apps, limit))
        # All of the database before the lake: there they are indexed, too.
        self._not_indexed = [
            stored
            for stored in self._hot.not_indexed()
            if self._query.finds(stored.app, stored.row)
        ]
        return chain(hot, self._cold().read(apps, limit))

    def count(self) -> Mapping[str, tuple[int, int]]:
        counts = dict(self._hot.count())
        for app, (rows, characters) in self._cold().count().items():
            known_rows, known_characters = counts.get(app, (0, 0))
            counts[app] = (known_rows + rows, known_characters + characters)
        return counts

    def not_indexed(self) -> Iterator[StoredFile]:
        yield from chain(self._not_indexed, self._cold().not_indexed())

    def unread(self) -> Collection[str]:
        return dict.fromkeys(app for rows in (self._hot, *self._cold_rows) for app in rows.unread())
