"""Windows of sessions: rows of a key whose windows of time overlap or touch are of one session, as Spark merges them."""

from __future__ import annotations

from lineage_core.recipe.plan import Sessions
from lineage_dataframes.rewrite.expressions import SqlWriter
from lineage_dataframes.rewrite.named_query import NamedQuery

_LATEST = "lineage_latest"
_NUMBER = "lineage_session"


def sessions_query(writer: SqlWriter, below: NamedQuery, node: Sessions) -> str:
    """The rows of ``below``, each with the window of its session in the place of its own.

    Sorted by their starts, a row begins a session where it starts behind all ends before it. Rows that start at one time are
    of one session, in whatever order they stand: so sessions are numbered by the starts up to a row's own, not by its place.
    """
    own = f"c{node.window}"
    start, end = f"{own}.`start`", f"{own}.`end`"
    keys = ", ".join(writer.of(key) for key in node.keys)
    by_key = f"PARTITION BY {keys}" if keys else ""
    until_now = "UNBOUNDED PRECEDING AND CURRENT ROW"
    latest = (
        f"SELECT *, max({end}) OVER ({by_key} ORDER BY {start} "
        f"ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS {_LATEST} FROM {below.name}"
    )
    is_first = f"CASE WHEN {start} <= {_LATEST} THEN 0 ELSE 1 END"
    numbered = (
        f"SELECT *, sum({is_first}) OVER ({by_key} ORDER BY {start} RANGE BETWEEN {until_now}) AS {_NUMBER} "
        f"FROM ({latest}) AS l"
    )
    session = f"PARTITION BY {', '.join([*([keys] if keys else []), _NUMBER])}"
    whole = (
        f"named_struct('start', min({start}) OVER ({session}), 'end', max({end}) OVER ({session}))"
    )
    columns = [f"{whole} AS {own}" if name == own else name for name in below.names]
    return f"SELECT {', '.join([*columns, *below.ids])} FROM ({numbered}) AS n"
