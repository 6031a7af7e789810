"""A view of the stored lineage of a running program."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from lineage_core.contract.address import named_space, parse_space
from lineage_core.contract.region import Region
from lineage_core.errors import AddressError
from lineage_emitter.program.numbering import OPERATOR
from lineage_emitter.program.waiting import running_verdict, store_url, wait_until_linked
from lineage_query.answers import Composer
from lineage_query.names import looks_like_address
from lineage_query.rows.places import LocationError, parse_location
from lineage_query.rows.reader import RowReader
from lineage_query.snapshot import ApplicationCache, ApplicationSnapshot
from lineage_store.paths import canonical
from lineage_store.url import index_folder, open_store

if TYPE_CHECKING:
    from lineage_emitter.session.session import Session
    from lineage_store.port import GraphStore

Items: TypeAlias = Mapping[str, Region]
"""Items by space."""


@contextmanager
def open_view(session: Session, timeout_s: float) -> Iterator[LineageView]:
    """Look at the lineage of all that a program has captured so far.

    Raises:
        TracingError, NotLinkedError, StoreError, OSError: see :func:`wait_until_linked`.
    """
    wait_until_linked(session, timeout_s)
    url = store_url(session)
    with open_store(url) as store:
        yield LineageView(store, ApplicationCache(store, _reader(url)).open(session.app))


@functools.cache
def _reader(url: str) -> RowReader:
    """The reader caches the indexes of the files that it has read."""
    return RowReader(index_folder(url))


class LineageView:
    """The graph of one application as stored now."""

    def __init__(self, store: GraphStore, snapshot: ApplicationSnapshot) -> None:
        self._store = store
        self._snapshot = snapshot
        self.graph = snapshot.graph
        self.links = self.graph.links()
        self.nodes = {record.node: record for record in snapshot.nodes}
        self.names = snapshot.names
        self.tracer = snapshot.tracer
        self.topology = self.tracer.topology
        self.locations = snapshot.locations
        self._above: defaultdict[str, list[str]] = defaultdict(list)
        self._below: defaultdict[str, list[str]] = defaultdict(list)
        for link in self.links:
            self._above[link.dest].append(link.src)
            self._below[link.src].append(link.dest)

    def composer(self) -> Composer:
        """What shows items with their files' lines."""
        return self._snapshot.composer()

    def gaps(self) -> tuple[str, ...]:
        """Why lineage of the program is missing; nothing where it is all there."""
        app = self._snapshot.app
        messages = self._store.messages(app)
        has_frames = any(node.kind == "frame" for node in self.nodes.values())
        if not has_frames and not any(message.type in ("job", "unknown") for message in messages):
            # No action yet: nothing is missing.
            return ()
        return running_verdict(app, messages, self._store.counts(app)).reasons

    # -- nodes -------------------------------------------------------------------------------

    def parents(self, node: str) -> list[str]:
        """The nodes that a node reads from."""
        return self._above[node]

    def children(self, node: str) -> list[str]:
        """The nodes that read from a node."""
        return self._below[node]

    def is_numbering(self, node: str) -> bool:
        """Whether ``getLineage`` made the node."""
        record = self.nodes.get(node)
        return record is not None and record.op == OPERATOR

    def rdd_node(self, node: str) -> str:
        """The node of the RDD whose records a node of ``getLineage`` holds; others are their own."""
        while self.is_numbering(node):
            node = self._above[node][0]
        return node

    def has_items(self, node: str) -> bool:
        """Whether items of a node are recorded: nodes inside a segment have none."""
        record = self.nodes.get(node)
        has_own_items = record is not None and record.kind in ("source", "sink", "shuffle")
        return has_own_items or bool(self.graph.spaces_of(node))

    def text(self, node: str) -> str:
        """What a node is called, does, and where the program made it."""
        node = self.rdd_node(node)
        record = self.nodes.get(node)
        if record is None:
            return node
        label = self.names.label(node)
        name = record.name or record.op
        parts = [] if label == name else [name]
        parts += [f"at {record.call_site}"] if record.call_site else []
        parts += [f"({record.description})"] if record.description else []
        return f"{label}: {' '.join(parts)}" if parts else label

    def called(self, name: str) -> set[str]:
        """Nodes that an id, an alias, a label or the name of an operator means.

        Raises:
            AddressError: there is none; the message lists those that go by a name of their own.
        """
        try:
            return {self.names.node(name)}
        except AddressError:
            nodes = {n.node for n in self.nodes.values() if name in (n.name, n.op)}
            if not nodes:
                raise
            return nodes

    # -- rows --------------------------------------------------------------------------------

    def resolve(self, location_text: str) -> dict[str, Region]:
        """The items that a place in a file or an address names.

        Of a file that the program wrote and read they are those that it wrote.

        Raises:
            LocationError: there is no such row.
            AddressError: there is no such address.
            RowsError: rows must be counted in a file that can't be read.
        """
        if looks_like_address(location_text):
            named = self.names.find(location_text, self.graph)
            for space, region in named.items():
                self.locations.check(space, region, self.names.space(space))
            return named
        parsed = parse_location(location_text)
        location = replace(parsed, path=canonical(parsed.path))
        for kind in ("sink", "source"):
            items: dict[str, Region] = {}
            for node in (record.node for record in self.nodes.values() if record.kind == kind):
                if self.locations.unit(node, location.path) == location.unit:
                    items |= self.locations.items_at(node, location)
            if items:
                return items
        raise LocationError(f"{location_text}: this program has read or written no such row")


def by_node(items: Items) -> dict[str, dict[str, Region]]:
    """Items by node and space."""
    items_by_node: dict[str, dict[str, Region]] = {}
    for space, region in items.items():
        if region:
            items_by_node.setdefault(parse_space(space).name, {})[space] = region
    return items_by_node


def by_split(spaces: Items) -> dict[int, Region]:
    """Items of one source or sink by partition."""
    return {parse_space(space).partition: region for space, region in spaces.items()}


def merge_items(parts: Iterable[Items]) -> dict[str, Region]:
    """Items that are in any of the parts."""
    regions_by_space: dict[str, list[Region]] = {}
    for part in parts:
        for space, region in part.items():
            regions_by_space.setdefault(space, []).append(region)
    return {space: Region.union(regions) for space, regions in regions_by_space.items()}


def named_records(items: Items) -> dict[str, Region]:
    """Of some items, by node, the names of rows of DataFrames."""
    names_by_node = {node: spaces.get(named_space(node)) for node, spaces in by_node(items).items()}
    return {node: names for node, names in names_by_node.items() if names is not None}


def continues_warning(view: LineageView, items: Items) -> dict[str, None]:
    """The warning for items that are names of rows."""
    return {
        f"{view.text(node)}: these are rows of a DataFrame, by a hash; frame_rows() gives what they were made from": None
        for node in named_records(items)
    }
