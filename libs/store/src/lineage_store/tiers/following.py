"""Reads an application that may be moved from the database to the lake at any moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import (
    BlockRef,
    EdgeBatch,
    FlowGraph,
    LinkRecord,
    NodeRecord,
    PositionRange,
    SinkFileRecord,
    SplitRecord,
)
from lineage_core.contract.sealing import Seal

if TYPE_CHECKING:
    from lineage_store.tiers.store import Tier, TieredStore

T = TypeVar("T")
R = TypeVar("R")


class Follower(Generic[T]):
    """What is opened of an application, where it is now. May be shared by threads.

    Whatever was read of the database is thrown away where the application was moved meanwhile: part of it may have been
    deleted already. It is read again from the lake, which has all of it by then.
    """

    def __init__(self, store: TieredStore, app: str, opens: Callable[[Tier], T]) -> None:
        """Open it.

        Raises:
            KeyError: there is no such application.
            StoreError: a store can't be read.
        """
        self._store = store
        self._app = app
        self._opens = opens
        self._current: tuple[T, Hashable] = self._open()

    def _open(self) -> tuple[T, Hashable]:
        """What is opened, and its presence in the database; None where it is in the lake, which it does not leave."""
        while True:
            presence = self._store.hot.presence(self._app)
            place = self._store.place(self._app)
            if place.is_hot and presence is None:
                continue  # It was captured at this moment.
            try:
                return self._opens(place.tier), presence if place.is_hot else None
            except KeyError:
                # Unless it was moved at this moment.
                if not place.is_hot or self._store.hot.presence(self._app) == presence:
                    raise

    def read(self, work: Callable[[T], R]) -> R:
        """What ``work`` reads, all of it from a store that has the whole application.

        Raises:
            KeyError: the application was deleted.
            StoreError: a store can't be read.
        """
        while True:
            opened, presence = self._current
            try:
                result = work(opened)
            except Exception:
                if not self._has_moved(presence):
                    raise
            else:
                if not self._has_moved(presence):
                    return result
            self._current = self._open()

    def _has_moved(self, presence: Hashable) -> bool:
        """Whether what was read since is not to be used, as the application has begun to be deleted in the database."""
        return presence is not None and self._store.hot.presence(self._app) != presence


class FollowedGraph:
    """Implements :class:`lineage_core.contract.graph.FlowGraph` of an application, wherever it is."""

    def __init__(self, store: TieredStore, app: str) -> None:
        self._graph: Follower[FlowGraph] = Follower(store, app, lambda tier: tier.graph(app))

    def nodes(self) -> Sequence[NodeRecord]:
        return self._graph.read(lambda graph: graph.nodes())

    def links(self) -> Sequence[LinkRecord]:
        return self._graph.read(lambda graph: graph.links())

    def splits(self, node: str) -> Sequence[SplitRecord]:
        return self._graph.read(lambda graph: graph.splits(node))

    def sink_files(self, node: str) -> Sequence[SinkFileRecord]:
        return self._graph.read(lambda graph: graph.sink_files(node))

    def recipe(self, node: str) -> str | None:
        return self._graph.read(lambda graph: graph.recipe(node))

    def blocks_into(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        return self._graph.read(lambda graph: graph.blocks_into(space, first, last))

    def blocks_from(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        return self._graph.read(lambda graph: graph.blocks_from(space, first, last))

    def blocks_into_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        return self._graph.read(lambda graph: graph.blocks_into_each(ranges))

    def blocks_from_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        return self._graph.read(lambda graph: graph.blocks_from_each(ranges))

    def blocks(self) -> Iterator[BlockRef]:
        return iter(self._graph.read(lambda graph: list(graph.blocks())))

    def spaces_of(self, node: str) -> Sequence[str]:
        return self._graph.read(lambda graph: graph.spaces_of(node))

    def load(self, blocks: Iterable[BlockId]) -> dict[BlockId, FlowBlock]:
        ids = list(blocks)
        return self._graph.read(lambda graph: graph.load(ids))

    def edges_into(self, consumers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        ids = list(consumers)
        return self._graph.read(lambda graph: graph.edges_into(ids))

    def edges_from(self, producers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        ids = list(producers)
        return self._graph.read(lambda graph: graph.edges_from(ids))

    def seals(self) -> Sequence[Seal]:
        return self._graph.read(lambda graph: graph.seals())

    def sealed(self, spaces: Iterable[str]) -> Collection[str]:
        wanted = list(spaces)
        return self._graph.read(lambda graph: graph.sealed(wanted))
