"""Loading into Neo4j within one transaction: collected in memory, sent in few statements.

Everything may be repeated, come in any order and from several writers at once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import neo4j

from lineage_core.codec.edge_message import Links, StoredBlock
from lineage_core.contract.block import BlockId
from lineage_core.contract.message import (
    Begin,
    Commit,
    End,
    Heartbeat,
    Link,
    Message,
    Recipe,
    Register,
    dump_message,
)
from lineage_core.contract.sealing import Seal
from lineage_core.linking.linker import TaskId
from lineage_store.folding import packed_body
from lineage_store.neo4j import statements
from lineage_store.neo4j.keys import app_key, key, message_key, task_key
from lineage_store.neo4j.rows import (
    ROWS_AT_ONCE,
    Row,
    block_properties,
    file_version_rows,
    node_properties,
    nodes_described,
    parts,
)
from lineage_store.offsets import offset_key
from lineage_store.recomputing import NAMED, RECOMPUTED, UNCOMMITTED, attempt_digest
from lineage_store.recorded_files import FILE_MESSAGES
from lineage_store.signed import BIAS, INTEGER_MAX

if TYPE_CHECKING:
    from typing_extensions import LiteralString


class Neo4jWriter:
    """What one open transaction stores; nothing is sent before :meth:`flush`, but for offsets.

    Not for several threads. An object serves one transaction: when that is tried again, make
    another.
    """

    def __init__(
        self,
        transaction: neo4j.ManagedTransaction | neo4j.Transaction,
        now: float | None = None,
    ) -> None:
        """``now``: unix seconds at which messages are heard; None: by the server's clock."""
        self._transaction = transaction
        self._now = now
        self._apps: dict[str, Row] = {}
        self._app_properties: dict[str, Row] = {}
        self._nodes: dict[str, Row] = {}
        self._registered: dict[str, Row] = {}
        self._sends_to: dict[tuple[str, str], Row] = {}
        self._messages: dict[str, Row] = {}
        self._file_versions: dict[str, Row] = {}
        self._heartbeats: dict[str, Row] = {}
        self._tasks: dict[str, Row] = {}
        self._commits: dict[str, Row] = {}
        self._blocks: dict[str, Row] = {}
        self._filled: dict[str, Row] = {}
        self._visible: dict[str, Row] = {}
        self._unmatched: dict[str, Row] = {}
        self._edges: dict[tuple[str, str], Row] = {}
        self._seals: dict[str, Row] = {}
        self._epochs: dict[tuple[str, str], Row] = {}
        # Messages keep the order in which they are stored; no two writers share a counter.
        self._number = time.time_ns()

    # -- what is to be stored ----------------------------------------------------------------

    def offsets(
        self, group: str, topic: str, partition: int, first: int, next: int, *, new: bool = False
    ) -> bool:
        """Move a Kafka offset from ``first`` to ``next``; to be called before anything else.

        Until the transaction ends no other can move it. False: it does not stand at ``first``: another
        writer has stored these records, or the database was emptied or restored; the caller must give
        the transaction up. ``new``: an offset that was never stored stands anywhere.
        """
        values = {
            "id": offset_key(group, topic, partition),
            "group": group,
            "topic": topic,
            "partition": partition,
            "first": first,
            "next": next,
        }
        lock = statements.NEW_OFFSET if new else statements.LOCK_OFFSET
        self._transaction.run(lock, values).consume()
        # Read by a statement of its own: one that had to wait for the lock may have read before.
        return self._transaction.run(statements.MOVE_OFFSET, values).single() is not None

    def application(self, app: str) -> None:
        """Have an application, with nothing in it."""
        if app not in self._apps:
            self._apps[app] = {"id": app_key(app), "app": app}

    def message(self, message: Message) -> None:
        """Store a message, and what follows from it."""
        app = message.app
        self.application(app)
        match message:
            case Begin():
                self._set_app_properties(
                    app, {"name": message.name, "started_at": message.started_at}
                )
            case End():
                self._set_app_properties(
                    app, {"ended_at": message.ended_at, "status": message.status}
                )
            case Register():
                row = self._node(app, message.node)
                self._registered[row["id"]] = {"id": row["id"], "props": node_properties(message)}
            case Link():
                ends = self._node(app, message.src)["id"], self._node(app, message.dest)["id"]
                self._sends_to[ends] = {"src": ends[0], "dest": ends[1]}
            case Commit():
                self._commit(message)
            case _:
                pass
        self._collect_message(message)

    def block(self, block: StoredBlock) -> None:
        """Store a block; it is invisible until :class:`Links` named it, before or after this."""
        block_key = self._block(block.app, block.block_id)
        task = self._task(block.app, block.task)
        node = self._node(block.app, block.block_id.node)
        if block_key not in self._filled:
            self._filled[block_key] = {
                "id": block_key,
                "app": block.app,
                "node": node["id"],
                "props": block_properties(block, task),
                "sections": [
                    [space, low - BIAS, high - BIAS] for space, low, high in block.sections
                ],
            }

    def links(self, links: Links) -> None:
        """Store what linking found; blocks that are not here yet get a place to arrive at."""
        for block_id in links.visible:
            block_key = self._block(links.app, block_id)
            self._visible[block_key] = {"id": block_key}
        for block_id, positions in links.unmatched:
            block_key = self._block(links.app, block_id)
            collected = self._unmatched.get(block_key, {"positions": INTEGER_MAX})
            fewest = min(positions, collected["positions"])
            self._unmatched[block_key] = {"id": block_key, "positions": fewest}
        for edge in links.edges:
            ends = self._block(links.app, edge.producer), self._block(links.app, edge.consumer)
            if ends not in self._edges:
                self._edges[ends] = {
                    "producer": ends[0],
                    "consumer": ends[1],
                    "pairs": min(edge.pairs, INTEGER_MAX),
                    "data": edge.data,
                }

        for seal in links.seals:
            self._seal(links.app, seal)
        if links.epoch:
            self.application(links.app)
            row = {"id": app_key(links.app), "epoch": links.epoch}
            self._epochs[links.app, links.epoch] = row

    def take_many_files(self) -> list[Row]:
        """The collected versions of files, if they are more than one statement stores: this does not store them any more."""
        if len(self._file_versions) <= ROWS_AT_ONCE:
            return []
        rows = [self._file_versions[row_id] for row_id in sorted(self._file_versions)]
        self._file_versions.clear()
        return rows

    # -- storing it --------------------------------------------------------------------------

    def flush(self) -> None:
        """Send all that was collected; further rows may follow, and another flush."""
        self._send(statements.APPLICATIONS, self._apps, now=self._now)
        self._send(statements.APPLICATION_PROPERTIES, self._app_properties, now=self._now)
        self._send(statements.HEARTBEATS, self._heartbeats, now=self._now)
        self._send(statements.EPOCHS, self._epochs)
        self._send(statements.TASKS, self._tasks)
        self._send(statements.COMMITS, self._commits)
        self._send(statements.BLOCKS, self._blocks)
        self._send(statements.NODES, self._nodes)
        self._send(statements.REGISTERED, self._registered)
        self._send(statements.SENDS_TO, self._sends_to)
        self._send(statements.FILE_VERSIONS, self._file_versions)
        self._send(statements.MESSAGES, self._messages)
        self._send(statements.FILLED, self._filled)
        self._send(statements.VISIBLE, self._visible)
        self._send(statements.UNMATCHED, self._unmatched)
        self._send_edges()
        self._send(statements.SEALS, self._seals)
        # Last, for commits and for blocks: the later of the two finds the other.
        tasks = {**self._tasks, **self._uncommitted()}
        self._send(
            statements.RECOMPUTED, tasks, reason=RECOMPUTED, unsure=UNCOMMITTED, named=[NAMED]
        )
        for rows in vars(self).values():
            if isinstance(rows, dict):
                rows.clear()

    def _send(self, statement: LiteralString, rows: Mapping[Any, Row], **values: Any) -> None:
        for part in parts(rows[row_key] for row_key in sorted(rows)):
            self._transaction.run(statement, rows=part, **values).consume()

    def _uncommitted(self) -> Mapping[str, Row]:
        """Tasks of visible blocks, among those collected, whose commit is not stored."""
        block_rows = self._visible | self._filled
        tasks: dict[str, Row] = {}
        for part in parts({"id": block_key} for block_key in sorted(block_rows)):
            for (task,) in self._transaction.run(statements.UNCOMMITTED, rows=part):
                tasks[task] = {"id": task}
        return tasks

    def _send_edges(self) -> None:
        """Create missing edges: their ends are locked, so no other transaction creates them.

        Existing edges are read once for each block of the side that has fewer.
        """
        for part in parts(self._edges[ends] for ends in sorted(self._edges)):
            producers = {edge["producer"] for edge in part}
            consumers = {edge["consumer"] for edge in part}
            into = len(consumers) <= len(producers)
            near_end, far_end = ("consumer", "producer") if into else ("producer", "consumer")
            groups: dict[str, Row] = {}
            for edge in part:
                group = groups.setdefault(edge[near_end], {"id": edge[near_end], "edges": []})
                columns = {"pairs": edge["pairs"], "data": edge["data"]}
                group["edges"].append({"id": edge[far_end]} | columns)
            statement = statements.EDGES_INTO if into else statements.EDGES_FROM
            self._transaction.run(statement, rows=list(groups.values())).consume()

    # -- collecting --------------------------------------------------------------------------

    def _set_app_properties(self, app: str, properties: Row) -> None:
        row = self._app_properties.setdefault(app, {"id": app_key(app), "props": {}})
        row["props"] |= properties

    def _node(self, app: str, node: str) -> Row:
        self.application(app)
        node_key = key(app, node)
        return self._nodes.setdefault(node_key, {"id": node_key, "app": app, "node": node})

    def _task(self, app: str, task: TaskId) -> str:
        self.application(app)
        row_key = task_key(app, task)
        row = {"id": row_key, "app": app, "node": task.node, "partition": task.partition}
        self._tasks.setdefault(row_key, row)
        return row_key

    def _block(self, app: str, block_id: BlockId) -> str:
        self.application(app)
        block_key = key(app, block_id)
        self._blocks.setdefault(block_key, {"id": block_key, "app": app})
        return block_key

    def _seal(self, app: str, seal: Seal) -> None:
        space_key = key(app, seal.space)
        collected = self._seals.get(space_key)
        if collected is None or collected["size"] <= seal.size:
            row = {"space": seal.space, "size": seal.size, "seal": seal.to_text()}
            self._seals[space_key] = {"id": space_key, "app": app} | row

    def _commit(self, commit: Commit) -> None:
        task = TaskId(commit.node, commit.partition, commit.attempt)
        row_key = self._task(commit.app, task)
        row = self._commits.setdefault(row_key, {"id": row_key, "attempts": [], "digests": []})
        for column, value in (("attempts", commit.attempt), ("digests", attempt_digest(commit))):
            if value not in row[column]:
                row[column].append(value)

    def _collect_message(self, message: Message) -> None:
        self._number += 1
        body = dump_message(message)
        properties: Row = {"app": message.app, "type": message.type, "number": self._number}
        if message.type in FILE_MESSAGES:
            rows = file_version_rows(message, self._number)
            self._file_versions |= {row["id"]: row for row in rows}
        if isinstance(message, Recipe):
            properties |= {"packed": packed_body(body), "recipe_of": message.node}
        else:
            properties["body"] = body
        if isinstance(message, Heartbeat):
            # Only the latest is of use; a notebook that is open for a week would leave thousands.
            row_key = key(message.app, "heartbeat")
            collected = self._heartbeats.get(row_key)
            properties |= {"beat": message.beat, "at": message.at}
            if collected is None or _beat(collected["props"]) < _beat(properties):
                row = {"id": row_key, "of": app_key(message.app), "props": properties}
                self._heartbeats[row_key] = row
            return
        row_key = message_key(message.app, body)
        nodes = nodes_described(message)
        if nodes:
            properties["about"] = nodes
        self._messages.setdefault(row_key, {"id": row_key, "props": properties})


def _beat(heartbeat: Row) -> tuple[int, float]:
    return heartbeat["beat"], heartbeat["at"]
