"""The statements of a loading transaction. Rows are parameters, sorted by id.

Two writers meet at the same nodes. Whatever a statement changes later is locked first, in one order
for all (``SET n.app = n.app`` locks and changes nothing): tasks, then blocks, each in order of id.
So they wait for each other instead of each holding what the other needs; where they do all the
same, Neo4j ends one of them with a transient error and it is tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import LiteralString

NEW_OFFSET: Final[LiteralString] = """
MERGE (o:KafkaOffset {id: $id})
ON CREATE SET o.next = $first, o.group = $group, o.topic = $topic, o.partition = $partition
SET o.group = $group
"""

LOCK_OFFSET: Final[LiteralString] = """
MATCH (o:KafkaOffset {id: $id})
SET o.group = $group
"""

MOVE_OFFSET: Final[LiteralString] = """
MATCH (o:KafkaOffset {id: $id})
WHERE o.next = $first
SET o.next = $next
RETURN o.next
"""

APPLICATIONS: Final[LiteralString] = """
UNWIND $rows AS row
MERGE (a:Application {id: row.id})
ON CREATE SET a.app = row.app, a.name = '', a.started_at = 0.0, a.status = 'running',
    a.seen_at = coalesce($now, timestamp() / 1000.0)
"""

APPLICATION_PROPERTIES: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (a:Application {id: row.id})
SET a.seen_at = CASE
    WHEN a.started_at <> row.props.started_at THEN coalesce($now, timestamp() / 1000.0)
    ELSE a.seen_at END
SET a += row.props
"""
# A beginning that comes again is no sign of life.

NODES: Final[LiteralString] = """
UNWIND $rows AS row
MERGE (n:LineageNode {id: row.id})
ON CREATE SET n.app = row.app, n.node = row.node
"""

REGISTERED: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (n:LineageNode {id: row.id})
SET n += row.props
"""

SENDS_TO: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (a:LineageNode {id: row.src})
MATCH (b:LineageNode {id: row.dest})
MERGE (a)-[:SENDS_TO]->(b)
"""

MESSAGES: Final[LiteralString] = """
UNWIND $rows AS row
MERGE (m:Message {id: row.id})
ON CREATE SET m += row.props
"""

FILE_VERSIONS: Final[LiteralString] = """
UNWIND $rows AS row
MERGE (f:FileVersion {id: row.id})
ON CREATE SET f += row
SET f.number = CASE WHEN row.number < f.number THEN row.number ELSE f.number END
"""

HEARTBEATS: Final[LiteralString] = """
UNWIND $rows AS row
MERGE (m:Message {id: row.id})
SET m.app = row.props.app
WITH m, row, coalesce(m.beat, 0) AS beat
WHERE m.at IS NULL OR beat < row.props.beat OR beat = row.props.beat AND m.at < row.props.at
MATCH (a:Application {id: row.of})
SET m += row.props, a.seen_at = coalesce($now, timestamp() / 1000.0)
"""
# The time at which the store receives it: the clock of the sender may be wrong.

TASKS: Final[LiteralString] = """
UNWIND $rows AS row
MERGE (t:Task {id: row.id})
ON CREATE SET t.node = row.node, t.partition = row.partition, t.attempts = [], t.digests = []
SET t.app = row.app
"""

COMMITS: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (t:Task {id: row.id})
SET t.attempts = t.attempts + [one IN row.attempts WHERE NOT one IN t.attempts],
    t.digests = t.digests + [one IN row.digests WHERE NOT one IN t.digests]
"""

BLOCKS: Final[LiteralString] = """
UNWIND $rows AS row
MERGE (b:FlowBlock {id: row.id})
ON CREATE SET b.stub = true
SET b.app = row.app
"""

FILLED: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (b:FlowBlock {id: row.id})
WHERE b.stub
MATCH (n:LineageNode {id: row.node})
SET b += row.props
REMOVE b.stub
CREATE (b)-[:OF]->(n)
FOREACH (part IN row.sections |
    CREATE (:FlowSection {app: row.app, space: part[0], low: part[1], high: part[2], block: row.id})
)
"""

VISIBLE: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (b:FlowBlock {id: row.id})
SET b.visible = true
"""

UNMATCHED: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (b:FlowBlock {id: row.id})
SET b.unmatched = CASE WHEN b.unmatched <= row.positions THEN b.unmatched ELSE row.positions END
"""

EDGES_INTO: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (c:FlowBlock {id: row.id})
WITH c, row, COLLECT { MATCH (c)<-[:FLOW]-(known) RETURN known.id } AS known
UNWIND row.edges AS edge
WITH c, edge WHERE NOT edge.id IN known
MATCH (p:FlowBlock {id: edge.id})
CREATE (p)-[:FLOW {pairs: edge.pairs, data: edge.data}]->(c)
"""

EDGES_FROM: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (p:FlowBlock {id: row.id})
WITH p, row, COLLECT { MATCH (p)-[:FLOW]->(known) RETURN known.id } AS known
UNWIND row.edges AS edge
WITH p, edge WHERE NOT edge.id IN known
MATCH (c:FlowBlock {id: edge.id})
CREATE (p)-[:FLOW {pairs: edge.pairs, data: edge.data}]->(c)
"""

UNCOMMITTED: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (b:FlowBlock {id: row.id})
WHERE b.visible AND b.merges
MATCH (t:Task {id: b.task})
WHERE NOT b.attempt IN t.attempts
SET t.unsure = true
RETURN DISTINCT t.id
"""
# The commit is under way, or lost. The task is locked: one that stores the commit now sees these blocks, or is seen.

RECOMPUTED: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (t:Task {id: row.id})
WHERE size(t.attempts) > 1 OR t.unsure
MATCH (b:FlowBlock)
USING INDEX b:FlowBlock(task)
WHERE b.task = t.id AND b.merges AND (b.visible OR b.attempt IN t.attempts)
WITH t, collect(b) AS blocks
WITH t, blocks, [b IN blocks WHERE NOT b.attempt IN t.attempts | b.attempt] AS unknown,
    t.digests = $named AS named
FOREACH (one IN CASE WHEN unknown = [] THEN [t] ELSE [] END | REMOVE one.unsure)
WITH t, blocks, named, NOT named AND any(one IN unknown WHERE
    t.attempts <> [] OR one <> unknown[0]) AS unsure
UNWIND blocks AS b
WITH b, CASE
    WHEN NOT named AND size(t.attempts) > 1
        AND (size(t.digests) > 1 OR b.in_space =~ '.*#[0-9]+[.][0-9]+') THEN $reason
    WHEN unsure THEN $unsure
END AS reason
WHERE (b.exact AND reason IS NOT NULL) OR (b.reason = $unsure AND coalesce(reason, '') <> $unsure)
SET b.exact = reason IS NULL, b.reason = reason
"""

SEALS: Final[LiteralString] = """
UNWIND $rows AS row
MERGE (s:FlowSpace {id: row.id})
SET s.app = row.app
WITH s, row WHERE coalesce(s.size, 0) <= row.size
SET s.space = row.space, s.size = row.size, s.seal = row.seal
"""

EPOCHS: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (a:Application {id: row.id})
WHERE NOT row.epoch IN coalesce(a.epochs, [])
SET a.epochs = coalesce(a.epochs, []) + row.epoch
"""
# Once an epoch: most transactions lock no application.
