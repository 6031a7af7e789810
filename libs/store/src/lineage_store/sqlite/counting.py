"""The counts of the SQLite store for the completeness verdict."""

from __future__ import annotations

from lineage_core.contract.verdict import StoreCounts
from lineage_store.inexact_reasons import REASON_CHARS_MAX, REASONS_MAX, read_reasons
from lineage_store.rooting import is_root
from lineage_store.sqlite.connection import Query

_LISTED_REASONS = (
    "FROM (SELECT node, reason, "
    "row_number() OVER (PARTITION BY node ORDER BY reason) AS at, count(*) OVER (PARTITION BY node) AS number "
    "FROM (SELECT DISTINCT node, substr(reason, 1, ?) AS reason FROM block WHERE app = ? AND NOT exact)) "
    "WHERE at <= ?"
)
_REASONS = f"SELECT node, reason, number {_LISTED_REASONS} ORDER BY node, at"
_REASON_BYTES = (
    f"SELECT total(length(CAST(node AS BLOB)) + length(CAST(reason AS BLOB))) {_LISTED_REASONS}"
)


def count_store(query: Query, app_id: int, now: float) -> StoreCounts:
    """The counts of one application. ``now``: by the clock that ``seen_at`` is of."""
    tasks = query("SELECT node, partition, committed, received FROM task WHERE app = ?", app_id)
    claimed = [(node, partition) for node, partition, committed, _ in tasks if not committed]
    unlinked = _unlinked(query, app_id)
    inexact = read_reasons(
        lambda: int(query(_REASON_BYTES, REASON_CHARS_MAX, app_id, REASONS_MAX)[0][0]),
        lambda: query(_REASONS, REASON_CHARS_MAX, app_id, REASONS_MAX),
    )
    flows = query("SELECT total(count) FROM block WHERE app = ?", app_id)
    problems = query("SELECT place, reason FROM problem WHERE app = ? ORDER BY place", app_id)
    recipes = query("SELECT node FROM recipe WHERE app = ?", app_id)
    return StoreCounts(
        received=sum(received for *_, received in tasks),
        unlinked=sum(blocks for blocks, _ in unlinked),
        unmatched=sum(positions for _, positions in unlinked),
        flows=int(flows[0][0]),
        claimed=frozenset(claimed),
        claimed_blocks=sum(received for *_, committed, received in tasks if not committed),
        inexact=inexact,
        problems=dict(problems),
        recipes=frozenset(node for (node,) in recipes),
        silent_s=silent_s(query, app_id, now),
    )


def silent_s(query: Query, app_id: int, now: float) -> float:
    """Seconds since the store took the last sign of life of an application. ``now``: by the clock that ``seen_at`` is of."""
    return float(now - query("SELECT seen_at FROM application WHERE id = ?", app_id)[0][0])


def _unlinked(query: Query, app_id: int) -> list[tuple[int, int]]:
    """(blocks, unmatched positions) by input space, of spaces that are no roots."""
    rows = query(
        # A sum of 64-bit integers may overflow, and a float is no count: it is taken in two halves.
        "SELECT space.text, count(*), sum(block.unmatched >> 32), "
        "sum(block.unmatched & 4294967295), "
        "EXISTS (SELECT 1 FROM section WHERE section.space = space.id) "
        "FROM block JOIN space ON space.id = block.in_space "
        "WHERE block.app = ? AND block.unmatched GROUP BY space.id",
        app_id,
    )
    sources = set()
    if rows:
        registered = query(
            "SELECT json_extract(body, '$.node') FROM message WHERE app = ? "
            "AND type = 'register' AND CASE WHEN base IS NULL THEN json_extract(body, '$.kind') END = 'source'",
            app_id,
        )
        sources = {node for (node,) in registered}
    return [
        (blocks, (high << 32) + low)
        for text, blocks, high, low, produced in rows
        if not is_root(text, bool(produced), sources)
    ]
