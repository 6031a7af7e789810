"""Rows that a window numbers, where its order does not distinguish them.

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
from lineage_dataframes.rewrite.expressions import SqlWriter, conjuncts
from lineage_dataframes.rewrite.named_query import NamedQuery
from lineage_dataframes.rewrite.windows import window_functions
from lineage_dataframes.spark.literals import comparable

TIED_ROWS = "a window numbers rows that its order does not tell apart"

TOO_MANY_TIED_ROWS = "a window numbers very many rows that its order does not tell apart"

TIED_MAX = 1_000
"""So many numbers a row may have had, at most."""


def unequal_ties_query(writer: SqlWriter, below: NamedQuery, node: Window) -> str:
    """Rows that are tied and not equal, as a statement: which of equal ones has which number makes no other rows."""
    window_function = window_functions(node)[0]
    keys = ", ".join(
        writer.of(term)
        for term in (*window_function.partition, *(key.of for key in window_function.order))
    )
    condition = "n > 1"
    count_terms = "count(1) AS n"
    if not below.unknown and all(_can_count_distinct(column.type) for column in below.columns):
        count_terms += f", count(DISTINCT struct({', '.join(below.names)})) AS kinds"
        condition += " AND kinds > 1"
    groups_query = f"SELECT {count_terms} FROM {below.name}{f' GROUP BY {keys}' if keys else ''}"
    return f"SELECT n FROM ({groups_query}) AS q WHERE {condition}"


def _can_count_distinct(kind: str) -> bool:
    # Texts that a collation takes for equal may differ.
    if any(prefix in kind for prefix in ("map<", "variant", "collate", "interval")):
        return False
    return comparable(kind) or kind.startswith(("array", "struct"))


def peer_count(writer: SqlWriter, node: Window) -> str:
    """How many rows are equal to a row in the window's order, itself among them."""
    return f"count(1) OVER ({_window_spec(writer, node)} RANGE BETWEEN CURRENT ROW AND CURRENT ROW)"


def row_number_indexes(node: Window) -> tuple[list[int], list[int]]:
    """Places of the node's own columns: those that are row numbers, and the others."""
    places = range(len(node.expressions))
    numbers = [n for n in places if _is_row_number(node.expressions[n])]
    return numbers, [n for n in places if n not in numbers]


def _is_row_number(expression: Expression) -> bool:
    return (
        isinstance(expression, Over)
        and isinstance(expression.of, Call)
        and expression.of.fn == "row_number"
    )


def greatest_number(recipe: Recipe, node_number: int, columns: Sequence[int]) -> int | None:
    """The greatest number that a filter right above the window lets through; None where there is none."""
    readers = [node for node in recipe.plan if node_number in input_nodes_of(node)]
    if len(readers) != 1 or not isinstance(readers[0], Filter):
        return None
    bounds = [_upper_bound(term, columns) for term in conjuncts(readers[0].condition)]
    return min((bound for bound in bounds if bound is not None), default=None)


def _upper_bound(condition: Expression, columns: Sequence[int]) -> int | None:
    match condition:
        case Call(fn="=" | "<=" | "<", args=(Column(id=id_), Literal(value=str(value)))) if (
            id_ in columns and value.isdecimal()
        ):
            return int(value)
        case _:
            return None


def candidate_number_queries(
    writer: SqlWriter,
    node: Window,
    relation: str,
    select_terms: Sequence[str],
    names: Sequence[str],
    greatest: int | None,
) -> tuple[str, str]:
    """Each row once with each number that it may have had, as a query; and one for rows that may have had too many.

    ``select_terms``: what is selected of ``relation`` besides; ``names``: the columns that are numbers. ``greatest``: no greater ones matter.
    """
    first_number, last_number = (
        f"rank() OVER ({_window_spec(writer, node)})",
        f"{peer_count(writer, node)} - 1",
    )
    last_number = (
        f"{first_number} + {last_number}"
        if greatest is None
        else f"least({first_number} + {last_number}, {greatest})"
    )
    ends = [
        f"CAST({first_number} AS INT) AS lineage_from",
        f"CAST({last_number} AS INT) AS lineage_to",
    ]
    ranked = f"(SELECT {', '.join([*select_terms, *ends])} FROM {relation}) AS w"
    if greatest is not None:
        ranked += f" WHERE lineage_from <= {greatest}"
    passed_names = [term.rpartition(" AS ")[2] for term in select_terms]
    number = "explode(sequence(lineage_from, lineage_to)) AS lineage_number"
    numbers = [f"lineage_number AS {name}" for name in names]
    exploded = f"(SELECT {', '.join([*passed_names, number])} FROM {ranked}) AS n"
    span_query = f"SELECT lineage_to - lineage_from AS n FROM {ranked}"
    return (
        f"SELECT {', '.join([*passed_names, *numbers])} FROM {exploded}",
        f"SELECT n FROM ({span_query}) AS q WHERE n >= {TIED_MAX}",
    )


def _window_spec(writer: SqlWriter, node: Window) -> str:
    window_function = window_functions(node)[0]
    partition = ", ".join(writer.of(term) for term in window_function.partition)
    order = ", ".join(writer.sort_key(key) for key in window_function.order)
    parts = [f"PARTITION BY {partition}"] if partition else []
    return " ".join([*parts, *([f"ORDER BY {order}"] if order else [])])
