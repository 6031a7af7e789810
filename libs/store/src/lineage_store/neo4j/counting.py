"""The counts of the Neo4j store for the completeness verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lineage_core.contract.verdict import StoreCounts
from lineage_store.inexact_reasons import REASON_CHARS_MAX, REASONS_MAX, read_reasons
from lineage_store.neo4j.connection import Reads
from lineage_store.neo4j.keys import SEPARATOR, app_key, prefix
from lineage_store.rooting import is_root

if TYPE_CHECKING:
    from typing_extensions import LiteralString

HALF = 1 << 32
"""Sums of counts are taken in two halves: 64 bits are not enough for them."""

_VISIBLE: Final[LiteralString] = """
MATCH (b:FlowBlock)
USING INDEX b:FlowBlock(id)
WHERE b.id STARTS WITH $prefix AND b.visible AND b.stub IS NULL
"""

_TASKS: Final[LiteralString] = (
    _VISIBLE
    + """
WITH b.task AS task, b.attempt AS attempt, count(*) AS blocks, sum(b.rows) AS flows
MATCH (t:Task {id: task})
WITH t.id AS id, attempt IN t.attempts AS committed, blocks, flows
RETURN committed, sum(blocks), sum(flows), CASE WHEN committed THEN NULL ELSE id END
"""
)

_STORED: Final[LiteralString] = """
MATCH (b:FlowBlock)
USING INDEX b:FlowBlock(id)
WHERE b.id STARTS WITH $prefix
WITH b.stub IS NOT NULL AS stub
RETURN stub, count(*)
"""

_LISTED_REASONS: Final[LiteralString] = (
    _VISIBLE
    + """
AND NOT b.exact
WITH DISTINCT b.node AS node, left(coalesce(b.reason, ''), $chars) AS reason
ORDER BY node, reason
WITH node, collect(reason) AS reasons
WITH node, size(reasons) AS number, reasons[..$most] AS listed
"""
)
_REASONS: Final[LiteralString] = (
    _LISTED_REASONS + "UNWIND listed AS reason RETURN node, reason, number"
)
_REASON_CHARS: Final[LiteralString] = (
    _LISTED_REASONS + "UNWIND listed AS reason RETURN coalesce(sum(size(node) + size(reason)), 0)"
)

_UNMATCHED: Final[LiteralString] = (
    _VISIBLE
    + """
AND b.unmatched > 0
WITH b.in_space AS space, count(*) AS blocks, sum(b.unmatched / $half) AS high,
    sum(b.unmatched % $half) AS low
RETURN space, blocks, high, low, EXISTS {
    MATCH (s:FlowSection)
    WHERE s.app = $app AND s.space = space AND s.low IS NOT NULL
    MATCH (p:FlowBlock {id: s.block})
    WHERE p.visible
}
"""
)

_SILENT: Final[LiteralString] = """
MATCH (a:Application {id: $id})
RETURN coalesce($now, timestamp() / 1000.0) - a.seen_at
"""

_RECIPES: Final[LiteralString] = """
MATCH (m:Message)
USING INDEX m:Message(app, recipe_of)
WHERE m.app = $app AND m.recipe_of IS NOT NULL
RETURN DISTINCT m.recipe_of
"""

_SOURCES: Final[LiteralString] = """
MATCH (n:LineageNode)
USING INDEX n:LineageNode(id)
WHERE n.id STARTS WITH $prefix AND n.kind = 'source'
RETURN n.node
"""


def count_store(connection: Reads, app: str, now: float | None = None) -> StoreCounts:
    """The counts of one application. ``now``: unix seconds; None: by the server's clock."""
    begin = prefix(app)
    tasks = connection.read(_TASKS, prefix=begin)
    claimed = [row for row in tasks if not row[0]]
    bounds = {"chars": REASON_CHARS_MAX, "most": REASONS_MAX}
    inexact = read_reasons(
        lambda: int(connection.read(_REASON_CHARS, prefix=begin, **bounds)[0][0]),
        lambda: connection.read(_REASONS, prefix=begin, **bounds),
    )
    unlinked = _unlinked(connection, app)
    stored: dict[bool, int] = dict(map(tuple, connection.read(_STORED, prefix=begin)))
    return StoreCounts(
        received=sum(row[1] for row in tasks),
        unlinked=sum(blocks for blocks, _ in unlinked),
        unmatched=sum(positions for _, positions in unlinked),
        flows=sum(row[2] for row in tasks),
        claimed=frozenset(_task(row[3]) for row in claimed),
        claimed_blocks=sum(row[1] for row in claimed),
        inexact=inexact,
        written=stored.get(False, 0),
        stubs=stored.get(True, 0),
        recipes=frozenset(node for (node,) in connection.read(_RECIPES, app=app)),
        silent_s=silent_s(connection, app, now),
    )


def silent_s(connection: Reads, app: str, now: float | None = None) -> float:
    """Seconds since the store took the last sign of life of an application. ``now``: as in :func:`count_store`."""
    ((seconds,),) = connection.read(_SILENT, id=app_key(app), now=now)
    return float(seconds)


def _unlinked(connection: Reads, app: str) -> list[tuple[int, int]]:
    """(blocks, unmatched positions) by input space, of spaces that are no roots."""
    rows = connection.read(_UNMATCHED, prefix=prefix(app), app=app, half=HALF)
    sources: set[str] = set()
    if rows:
        sources = {node for (node,) in connection.read(_SOURCES, prefix=prefix(app))}
    return [
        (blocks, high * HALF + low)
        for space, blocks, high, low, produced in rows
        if not is_root(space, produced, sources)
    ]


def _task(task_key: str) -> tuple[str, int]:
    node, _, partition = task_key.partition(SEPARATOR)[2].rpartition("#")
    return node, int(partition)
