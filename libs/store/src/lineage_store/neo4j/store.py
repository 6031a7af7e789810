"""The graph store in Neo4j."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import neo4j

from lineage_core.codec.edge_message import Links, packed_edge, stored_block
from lineage_core.codec.packing import pack_for_store
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import Message
from lineage_core.contract.sealing import Seal
from lineage_core.contract.times import JsonTime
from lineage_core.contract.verdict import ABANDONED_AFTER_S, StoreCounts
from lineage_core.linking.linker import TaskId
from lineage_store.neo4j.connection import RETRY_S, Address, Connection
from lineage_store.neo4j.counting import HALF, count_store
from lineage_store.neo4j.erasing import erase_blocks, remove_recipes
from lineage_store.neo4j.graph import Neo4jGraph
from lineage_store.neo4j.keys import app_key, prefix
from lineage_store.neo4j.presence import ApplicationReads
from lineage_store.neo4j.published_runs import PublishedRuns
from lineage_store.neo4j.record_view import REMOVE, RecordView
from lineage_store.neo4j.recorded_files import Neo4jFileRows, store_files
from lineage_store.neo4j.rows import parts
from lineage_store.neo4j.schema import migrate
from lineage_store.neo4j.server_statistics import ServerStatistics, read_server_statistics
from lineage_store.neo4j.writing import Neo4jWriter
from lineage_store.offsets import offset_key
from lineage_store.port import ApplicationRecord, Rewrite
from lineage_store.recipes import BEGIN_CHARS, names_in
from lineage_store.recorded_files import FileQuery, FileRows, RecordedFiles, find_files

if TYPE_CHECKING:
    from typing_extensions import LiteralString

DELETED_AT_ONCE = 5_000
"""Nodes or relationships of one transaction when an application is deleted."""

T = TypeVar("T")

_APPLICATIONS: Final[LiteralString] = """
MATCH (a:Application)
CALL (a) {
    MATCH (b:FlowBlock)
    USING INDEX b:FlowBlock(id)
    WHERE b.id STARTS WITH a.id + '|' AND b.visible AND b.stub IS NULL
    RETURN sum(b.rows) AS flows, sum(b.associations / $half) AS high,
        sum(b.associations % $half) AS low
}
CALL (a) {
    MATCH (m:Message)
    USING INDEX m:Message(app, recipe_of)
    WHERE m.app = a.app AND m.recipe_of IS NOT NULL
    RETURN count(DISTINCT m.recipe_of) AS recipes
}
RETURN a.app, a.name, a.started_at, a.ended_at, a.status,
    coalesce($now, timestamp() / 1000.0) - a.seen_at, flows, high, low, recipes
"""

_BEGINNINGS: Final[LiteralString] = """
UNWIND $apps AS app
MATCH (m:Message)
USING INDEX m:Message(app, type)
WHERE m.app = app AND m.type = 'begin'
RETURN m.app, left(m.body, $chars)
"""

_BLOCK_KEYS: Final[LiteralString] = """
UNWIND $ids AS id
MATCH (b:FlowBlock {id: id})
WHERE b.stub IS NULL
RETURN id
"""

_DELETE: Final[tuple[LiteralString, ...]] = (
    # First: it tells readers that from now on the application is not whole.
    "MATCH (a:Application {id: $id}) SET a.deleting = true",
    "MATCH (b:FlowBlock) USING INDEX b:FlowBlock(id) WHERE b.id STARTS WITH $prefix "
    "MATCH (b)-[f:FLOW]->() CALL (f) { DELETE f } IN TRANSACTIONS OF $rows ROWS",
    "MATCH (s:FlowSection) USING INDEX s:FlowSection(app, space, low) "
    "WHERE s.app = $app AND s.space IS NOT NULL AND s.low IS NOT NULL "
    "CALL (s) { DELETE s } IN TRANSACTIONS OF $rows ROWS",
    "MATCH (b:FlowBlock) USING INDEX b:FlowBlock(id) WHERE b.id STARTS WITH $prefix "
    "CALL (b) { DETACH DELETE b } IN TRANSACTIONS OF $rows ROWS",
    "MATCH (s:FlowSpace) USING INDEX s:FlowSpace(id) WHERE s.id STARTS WITH $prefix "
    "CALL (s) { DELETE s } IN TRANSACTIONS OF $rows ROWS",
    "MATCH (n:LineageNode) USING INDEX n:LineageNode(id) WHERE n.id STARTS WITH $prefix "
    "CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF $rows ROWS",
    "MATCH (t:Task) USING INDEX t:Task(id) WHERE t.id STARTS WITH $prefix "
    "CALL (t) { DETACH DELETE t } IN TRANSACTIONS OF $rows ROWS",
    "MATCH (m:Message) USING INDEX m:Message(id) WHERE m.id STARTS WITH $prefix "
    "CALL (m) { DETACH DELETE m } IN TRANSACTIONS OF $rows ROWS",
    "MATCH (f:FileVersion) USING INDEX f:FileVersion(id) WHERE f.id STARTS WITH $prefix "
    "CALL (f) { DELETE f } IN TRANSACTIONS OF $rows ROWS",
    *REMOVE,
    # Last: what was interrupted can be named and deleted again.
    "MATCH (a:Application {id: $id}) DETACH DELETE a",
)


_REVISIONS: Final[LiteralString] = """
UNWIND $apps AS wanted
MATCH (a:Application {id: wanted.id})
CALL (wanted) {
    MATCH (m:Message)
    USING INDEX m:Message(app, type)
    WHERE m.app = wanted.app AND m.type IS NOT NULL
    RETURN count(m) AS messages, max(m.number) AS latest
}
RETURN wanted.app, elementId(a), a.started_at, a.deleting, messages, latest
"""


class Neo4jStore:
    """Implements :class:`lineage_store.port.GraphStore` over one database of a Neo4j.

    May be shared by threads, and by any number of processes that open their own. ``clock`` gives
    unix seconds, or None: the server's clock is used. It only decides whether an application counts as
    abandoned: clocks of writers, readers and drivers are never compared with each other.
    """

    def __init__(
        self,
        address: Address,
        *,
        clock: Callable[[], float | None] = lambda: None,
        retry_s: float = RETRY_S,
    ) -> None:
        """Connect, and bring the database's schema up to date.

        ``retry_s``: how long transient errors are retried; 0 leaves that to the caller.

        Raises:
            StoreError: the server does not answer or refuses the credentials, or the store is of a newer
                version.
        """
        self.address = address
        self._clock = clock
        self._connection = Connection(address, retry_s=retry_s)
        try:
            migrate(self._connection)
        except BaseException:
            self._connection.close()
            raise

    def prepare(self) -> None:
        """Have constraints and indexes: a database that was replaced since this was opened has none.

        Raises:
            StoreError: the store is of a newer version, or can't be changed.
        """
        migrate(self._connection)

    def in_transaction(self, work: Callable[[Neo4jWriter], T]) -> T:
        """Run ``work`` in a transaction and store what it gave to the :class:`Neo4jWriter`.

        After a transient error (a deadlock, a server that restarts) ``work`` is called again with
        another ``Neo4jWriter``. An exception of its own gives the transaction up.

        Raises:
            StoreUnavailableError: the store does not answer or can't be written for now.
            StoreError: the store can't be written.
        """

        def transaction(managed: neo4j.ManagedTransaction) -> T:
            writer = Neo4jWriter(managed, self._clock())
            result = work(writer)
            # One message may name very many files, more than one transaction has memory for. Their rows may be stored before
            # it: no query finds them by then, or it finds what is true.
            for part in parts(writer.take_many_files()):
                self._connection.write(partial(store_files, part))
            writer.flush()
            return result

        return self._connection.write(transaction)

    def offset(self, group: str, topic: str, partition: int) -> int | None:
        """Where a Kafka offset stands (the next one to be stored); None if it never moved."""
        rows = self._connection.read(
            "MATCH (o:KafkaOffset {id: $id}) RETURN o.next", id=offset_key(group, topic, partition)
        )
        return int(rows[0][0]) if rows else None

    def server_statistics(self) -> ServerStatistics:
        """How the server is, in a few small questions."""
        return read_server_statistics(self._connection)

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
        all_messages = list(messages)
        blocks_to_store = []
        for block in blocks:
            block_id = block.block_id
            own_task = TaskId(block_id.node, block_id.partition, block_id.attempt)
            blocks_to_store.append(
                stored_block(app, (tasks or {}).get(block_id, own_task), pack_for_store(block))
            )
        links = Links(
            app,
            [new_block.block_id for new_block in blocks_to_store],
            list((unmatched or {}).items()),
            [packed_edge(edge) for edge in edges],
            list(seals),
        )
        ends = {end for edge in links.edges for end in (edge.producer, edge.consumer)}
        unknown = sorted(ends - {new_block.block_id for new_block in blocks_to_store})

        def work(writer: Neo4jWriter) -> None:
            writer.application(app)
            for message in all_messages:
                writer.message(message)
            for new_block in blocks_to_store:
                writer.block(new_block)
            writer.links(links)

        self._check_blocks_exist(app, unknown)
        self.in_transaction(work)

    def _check_blocks_exist(self, app: str, blocks: Sequence[BlockId]) -> None:
        if not blocks:
            return
        ids = {f"{prefix(app)}{block_id}": block_id for block_id in blocks}
        stored_keys = {row[0] for row in self._connection.read(_BLOCK_KEYS, ids=list(ids))}
        for block_key, block_id in ids.items():
            if block_key not in stored_keys:
                raise KeyError(f"edge of block {block_id}, which is not in the store")

    def applications(self) -> Sequence[ApplicationRecord]:
        records = []
        rows = self._connection.read(_APPLICATIONS, half=HALF, now=self._clock())
        for app, name, started_at, ended_at, status, silent_s, flows, high, low, recipes in rows:
            is_abandoned = status == "running" and silent_s > ABANDONED_AFTER_S
            records.append(
                ApplicationRecord(
                    app=app,
                    name=name,
                    started_at=started_at,
                    ended_at=ended_at,
                    status="abandoned" if is_abandoned else status,
                    flows=flows,
                    associations=high * HALF + low,
                    recipes=recipes,
                )
            )
        return sorted(records, key=lambda record: (record.started_at, record.app), reverse=True)

    def application_ids(self) -> Sequence[str]:
        starts = self.starts()
        return sorted(starts, key=lambda app: (starts[app], app), reverse=True)

    def presence(self, app: str) -> Hashable:
        """A value that changes when an application begins to be deleted; None: it is not there."""
        return ApplicationReads(self._connection, app).presence

    def starts(self) -> Mapping[str, JsonTime]:
        """When each application began."""
        rows = self._connection.read("MATCH (a:Application) RETURN a.app, a.started_at")
        return {row[0]: row[1] for row in rows}

    def revision(self, app: str) -> Hashable:
        revision = self.revisions([app]).get(app)
        if revision is None:
            raise KeyError(f"there is no application {app} in {self.address.uri}")
        return revision

    def revisions(self, apps: Collection[str]) -> Mapping[str, Hashable]:
        wanted = [{"app": app, "id": app_key(app)} for app in dict.fromkeys(apps)]
        rows = self._connection.read(_REVISIONS, apps=wanted)
        return {app: tuple(revision) for app, *revision in rows}

    def recorded_files(self, query: FileQuery) -> RecordedFiles:
        return find_files(query, self.file_rows(query))

    def file_rows(self, query: FileQuery) -> FileRows:
        """Rows of files, as :meth:`recorded_files` looks them up."""
        return Neo4jFileRows(self._connection, query)

    def names(self) -> Mapping[str, frozenset[str]]:
        rows = self._connection.read(
            _BEGINNINGS, apps=list(self.application_ids()), chars=BEGIN_CHARS
        )
        return names_in((app, body) for app, body in rows)

    def messages(self, app: str, *kinds: str) -> Sequence[Message]:
        return self.graph(app).messages(*kinds)

    def graph(self, app: str) -> Neo4jGraph:
        return Neo4jGraph(self._reads(app), app, self._clock)

    def _reads(self, app: str) -> ApplicationReads:
        reads = ApplicationReads(self._connection, app)
        if reads.presence is None:
            raise KeyError(f"there is no application {app} in {self.address.uri}")
        return reads

    def counts(self, app: str) -> StoreCounts:
        reads = self._reads(app)
        counts = count_store(reads, app, self._clock())
        unsealed = Neo4jGraph(reads, app, self._clock).unsealed()
        return replace(counts, unsealed=unsealed, deleting=reads.is_deleting)

    def record_view(self, app: str) -> RecordView:
        """The record-level view of an application, made or not.

        Raises:
            KeyError: there is no such application.
        """
        self.graph(app)
        return RecordView(self._connection, app)

    def view_texts(self, app: str) -> Iterator[str]:
        return RecordView(self._connection, app).texts()

    def remove_view(self, app: str) -> int:
        return RecordView(self._connection, app).remove()

    def published_runs(self) -> PublishedRuns:
        """The applications that were published to OpenLineage."""
        return PublishedRuns(self._connection, self._clock)

    def delete(self, app: str) -> None:
        for statement in _DELETE:
            self._connection.run(
                statement, app=app, id=app_key(app), prefix=prefix(app), rows=DELETED_AT_ONCE
            )

    def erase(self, app: str, rewrite: Rewrite, messages: Iterable[Message]) -> int:
        self.graph(app)
        all_messages = list(messages)
        replaced = erase_blocks(self._connection, app, rewrite)
        # A node never is without a recipe: the new one is there before the old one is removed.
        self.write(app, all_messages)
        remove_recipes(self._connection, app, all_messages)
        return replaced

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Neo4jStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
