"""Rows that a window numbers, where its order does not tell them apart.

Spark may have numbered such rows either way round. They are *tied*: their numbers lie between the rank of the
first of them and that of the last.
"""

from __future__ import annotations

from collections.abc import Sequence

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import (
    Call,
    Column,
    Expression,
    Filter,
    Literal,
    Over,
    Window,
    input_nodes_of,
)
from lineage_dataframes.rewrite.built import NamedQuery
from lineage_dataframes.rewrite.expressions import SqlWriter, conjuncts
from lineage_dataframes.rewrite.windows import window_functions
from lineage_dataframes.spark.literals import comparable

TIED_ROWS = "a window numbers rows that its order does not tell apart"

TOO_MANY_TIED_ROWS = "a window numbers very many rows that its order does not tell apart"

TIED_MAX = 1_000
"""So many numbers a row may have had, at most."""


def unequal_ties_query(text: SqlWriter, below: NamedQuery, node: Window) -> str:
    """Rows that are tied and not equal, as a statement: which of equal ones has which number makes no other rows."""
    over = window_functions(node)[0]
    keys = ", ".join(text.of(one) for one in (*over.partition, *(key.of for key in over.order)))
    several = "n > 1"
    counted = "count(1) AS n"
    if not below.unknown and all(_can_count_distinct(one.type) for one in below.columns):
        counted += f", count(DISTINCT struct({', '.join(below.names)})) AS kinds"
        several += " AND kinds > 1"
    grouped = f"SELECT {counted} FROM {below.name}{f' GROUP BY {keys}' if keys else ''}"
    return f"SELECT n FROM ({grouped}) AS q WHERE {several}"


def _can_count_distinct(kind: str) -> bool:
    # Texts that a collation takes for equal may differ.
    if any(one in kind for one in ("map<", "variant", "collate", "interval")):
        return False
    return comparable(kind) or kind.startswith(("array", "struct"))


def peer_count(text: SqlWriter, node: Window) -> str:
    """How many rows are equal to a row in the window's order, itself among them."""
    return f"count(1) OVER ({_window_spec(text, node)} RANGE BETWEEN CURRENT ROW AND CURRENT ROW)"


def row_number_indexes(node: Window) -> tuple[list[int], list[int]]:
    """Places of the node's own columns: those that are row numbers, and the others."""
    places = range(len(node.expressions))
    numbers = [n for n in places if _is_row_number(node.expressions[n])]
    return numbers, [n for n in places if n not in numbers]


def _is_row_number(one: Expression) -> bool:
    return isinstance(one, Over) and isinstance(one.of, Call) and one.of.fn == "row_number"


def greatest_number(recipe: Recipe, place: int, columns: Sequence[int]) -> int | None:
    """The greatest number that a filter right above the window lets through; None where there is none."""
    readers = [node for node in recipe.plan if place in input_nodes_of(node)]
    if len(readers) != 1 or not isinstance(readers[0], Filter):
        return None
    found = [_upper_bound(one, columns) for one in conjuncts(readers[0].condition)]
    return min((one for one in found if one is not None), default=None)


def _upper_bound(condition: Expression, columns: Sequence[int]) -> int | None:
    match condition:
        case Call(fn="=" | "<=" | "<", args=(Column(id=id_), Literal(value=str(value)))) if (
            id_ in columns and value.isdecimal()
        ):
            return int(value)
        case _:
            return None


def candidate_number_queries(
    text: SqlWriter,
    node: Window,
    of: str,
    listed: Sequence[str],
    names: Sequence[str],
    most: int | None,
) -> tuple[str, str]:
    """Each row once with each number that it may have had, as a query; and one for rows that may have had too many.

    ``listed``: what is selected of ``of`` besides; ``names``: the columns that are numbers. ``most``: no greater ones matter.
    """
    first, last = f"rank() OVER ({_window_spec(text, node)})", f"{peer_count(text, node)} - 1"
    last = f"{first} + {last}" if most is None else f"least({first} + {last}, {most})"
    ends = [f"CAST({first} AS INT) AS lineage_from", f"CAST({last} AS INT) AS lineage_to"]
    ranked = f"(SELECT {', '.join([*listed, *ends])} FROM {of}) AS w"
    if most is not None:
        ranked += f" WHERE lineage_from <= {most}"
    kept = [one.rpartition(" AS ")[2] for one in listed]
    number = "explode(sequence(lineage_from, lineage_to)) AS lineage_number"
    numbers = [f"lineage_number AS {name}" for name in names]
    exploded = f"(SELECT {', '.join([*kept, number])} FROM {ranked}) AS n"
    many = f"SELECT lineage_to - lineage_from AS n FROM {ranked}"
    return (
        f"SELECT {', '.join([*kept, *numbers])} FROM {exploded}",
        f"SELECT n FROM ({many}) AS q WHERE n >= {TIED_MAX}",
    )


def _window_spec(text: SqlWriter, node: Window) -> str:
    over = window_functions(node)[0]
    partition = ", ".join(text.of(one) for one in over.partition)
    order = ", ".join(text.sort_key(key) for key in over.order)
    parts = [f"PARTITION BY {partition}"] if partition else []
    return " ".join([*parts, *([f"ORDER BY {order}"] if order else [])])
