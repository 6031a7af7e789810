"""The record-level view in Neo4j: the published schema, for people with Neo4j Browser or Bloom.

``(:LineageNodeEntity)-[:sendsTo]->(:LineageNodeEntity)`` is the coarse graph,
``(:LineageFlow)-[:flow]->(:LineageFlow)`` one node for each flow of one item from one item. The view is
made of what the store holds and may be removed again; nothing else reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lineage_store.neo4j.connection import Connection
from lineage_store.parts import in_parts
from lineage_store.record_flow import RecordFlow, RecordFlows

if TYPE_CHECKING:
    from typing_extensions import LiteralString

ROWS_AT_ONCE = 5_000
"""Nodes or relationships of one transaction."""

_HAS_ANY: Final[LiteralString] = """
MATCH (f:LineageFlow)
USING INDEX f:LineageFlow(applicationId, flowId)
WHERE f.applicationId = $app AND f.flowId IS NOT NULL
RETURN f.flowId LIMIT 1
"""

_NODES: Final[LiteralString] = """
UNWIND $rows AS row
MERGE (n:LineageNodeEntity {applicationId: $app, nodeId: row.nodeId})
SET n.name = row.name, n.description = row.description
"""

_SENDS_TO: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (a:LineageNodeEntity {applicationId: $app, nodeId: row.src})
MATCH (b:LineageNodeEntity {applicationId: $app, nodeId: row.dest})
MERGE (a)-[:sendsTo]->(b)
"""

_FLOWS: Final[LiteralString] = """
UNWIND $rows AS row
MERGE (f:LineageFlow {applicationId: $app, flowId: row.flowId})
SET f.nodeId = row.nodeId, f.hashIn = row.hashIn, f.hashOut = row.hashOut, f.val = row.val,
    f.name = row.name, f.description = row.description
"""

_FOLLOWING: Final[LiteralString] = """
UNWIND $hashes AS hash
MATCH (one:LineageFlow)
USING INDEX one:LineageFlow(applicationId, hashOut)
WHERE one.applicationId = $app AND one.hashOut = hash
MATCH (next:LineageFlow)
USING INDEX next:LineageFlow(applicationId, hashIn)
WHERE next.applicationId = $app AND next.hashIn = hash
CALL (one, next) { MERGE (one)-[:flow]->(next) } IN TRANSACTIONS OF $at_once ROWS
"""

REMOVE: Final[tuple[LiteralString, ...]] = (
    "MATCH (f:LineageFlow) USING INDEX f:LineageFlow(applicationId, flowId) "
    "WHERE f.applicationId = $app AND f.flowId IS NOT NULL "
    "MATCH (f)-[r:flow]->() CALL (r) { DELETE r } IN TRANSACTIONS OF $rows ROWS",
    "MATCH (f:LineageFlow) USING INDEX f:LineageFlow(applicationId, flowId) "
    "WHERE f.applicationId = $app AND f.flowId IS NOT NULL "
    "CALL (f) { DETACH DELETE f } IN TRANSACTIONS OF $rows ROWS",
    "MATCH (n:LineageNodeEntity) USING INDEX n:LineageNodeEntity(applicationId, nodeId) "
    "WHERE n.applicationId = $app AND n.nodeId IS NOT NULL "
    "CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF $rows ROWS",
)
"""Statements that remove a view, some at a time; also a part of deleting an application."""

_COUNT: Final[LiteralString] = """
MATCH (f:LineageFlow)
USING INDEX f:LineageFlow(applicationId, flowId)
WHERE f.applicationId = $app AND f.flowId IS NOT NULL
RETURN count(f)
"""

_TEXTS: Final[LiteralString] = """
MATCH (f:LineageFlow)
USING INDEX f:LineageFlow(applicationId, flowId)
WHERE f.applicationId = $app AND f.flowId > $after
RETURN f.flowId, f.val ORDER BY f.flowId LIMIT $limit
"""


@dataclass(frozen=True, slots=True)
class Progress:
    """``done`` of ``total`` flows and links are stored."""

    done: int
    total: int


Report = Callable[[Progress], None]


class RecordView:
    """The view of one application in one database."""

    def __init__(self, connection: Connection, app: str) -> None:
        self._connection = connection
        self._app = app

    def create(self, flows: RecordFlows, report: Report | None = None) -> None:
        """Add flows to the view; existing ones stay, so an interrupted call can be repeated.

        ``report`` is called after each transaction; an exception of it ends the work there.

        Raises:
            StoreError: the store can't be written.
        """
        for progress in self.creating(flows):
            if report is not None:
                report(progress)

    def creating(self, flows: RecordFlows) -> Iterator[Progress]:
        """Do as :meth:`create`, transaction by transaction, as far as this is iterated.

        Raises:
            StoreError: the store can't be written.
        """
        has_earlier_flows = bool(self._connection.read(_HAS_ANY, app=self._app))
        total = len(flows.flows) + flows.links
        stored = 0
        for rows in in_parts(_node_rows(flows), ROWS_AT_ONCE):
            self._write(_NODES, rows)
        for rows in in_parts(_link_rows(flows), ROWS_AT_ONCE):
            self._write(_SENDS_TO, rows)
        node_texts = {node.node: (node.name or node.op, node.description) for node in flows.nodes}
        for flow_part in in_parts(flows.flows, ROWS_AT_ONCE):
            self._write(_FLOWS, [_flow_row(flow, node_texts) for flow in flow_part])
            stored += len(flow_part)
            yield Progress(stored, total)
        for hashes, links in _hashes(flows, with_ends=has_earlier_flows):
            self._connection.run(_FOLLOWING, app=self._app, hashes=hashes, at_once=ROWS_AT_ONCE)
            stored += links
            yield Progress(stored, total)

    def texts(self) -> Iterator[str]:
        """The texts of its flows, read some at a time.

        Raises:
            StoreError: the store can't be read.
        """
        after = ""
        while rows := self._connection.read(_TEXTS, app=self._app, after=after, limit=ROWS_AT_ONCE):
            yield from (text for _, text in rows if text is not None)
            after = str(rows[-1][0])

    def remove(self) -> int:
        """Remove the view, if there is one, and return how many flows it had.

        Raises:
            StoreError: the store can't be written.
        """
        ((count,),) = self._connection.read(_COUNT, app=self._app)
        for statement in REMOVE:
            self._connection.run(statement, app=self._app, rows=ROWS_AT_ONCE)
        return int(count)

    def _write(self, statement: LiteralString, rows: Sequence[Mapping[str, Any]]) -> None:
        self._connection.write(
            lambda transaction: transaction.run(statement, app=self._app, rows=list(rows)).consume()
        )


def _node_rows(flows: RecordFlows) -> Iterator[dict[str, Any]]:
    for node in flows.nodes:
        name = node.name or node.op
        yield {"nodeId": node.node, "name": name, "description": node.description}


def _link_rows(flows: RecordFlows) -> Iterator[dict[str, Any]]:
    for link in flows.node_links:
        yield {"src": link.src, "dest": link.dest}


def _flow_row(flow: RecordFlow, node_texts: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    name, description = node_texts.get(flow.node, ("", ""))
    return {
        "flowId": flow.flow_id,
        "nodeId": flow.node,
        "hashIn": flow.hash_in,
        "hashOut": flow.hash_out,
        "val": flow.val,
        "name": name,
        "description": description,
    }


def _hashes(flows: RecordFlows, *, with_ends: bool) -> Iterator[tuple[list[str], int]]:
    """Items where flows meet, some at a time, with how many links that makes.

    ``every``: also items at the ends, for flows that were there before may meet new ones there.
    """
    meeting = dict(flows.middles)
    if with_ends:
        for flow in flows.flows:
            meeting.setdefault(flow.hash_in, 0)
            meeting.setdefault(flow.hash_out, 0)
    part: list[str] = []
    links = 0
    for name, count in meeting.items():
        part.append(name)
        links += count
        if links >= ROWS_AT_ONCE or len(part) >= ROWS_AT_ONCE:
            yield part, links
            part, links = [], 0
    if part:
        yield part, links
