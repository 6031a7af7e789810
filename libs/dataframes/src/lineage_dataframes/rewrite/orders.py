"""Whether an order distinguishes rows, in every run.

A sum of doubles depends on the order of its rows, so its last digits differ from run to run. Two rows that are
nearly equal in such a key may stand either way round, whatever the keys after it say.

Neighbours in the order are all that must be compared: between two rows that may change places, every two
neighbours may.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import (
    Aggregate,
    Attribute,
    Call,
    Column,
    Expand,
    Expression,
    Literal,
    Node,
    Project,
    SortKey,
    Subquery,
    Union,
    Window,
    subexpressions_of,
)
from lineage_dataframes.rewrite.expressions import SqlWriter, columns_in
from lineage_dataframes.spark.literals import FLOATING_TYPES, RELATIVE_TOLERANCE

ORDER_DEPENDENT = {
    "sum", "avg", "try_sum", "try_avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop", "corr", "covar_samp", "covar_pop",
    "skewness", "kurtosis",
}  # fmt: skip


def nondeterministic_columns(recipe: Recipe, *, of_any_type: bool = False) -> frozenset[int]:
    """Columns of doubles that are made from sums of doubles, whose last digits each run decides.

    ``of_any_type``: and those of other types, such as texts in which the digits stand.
    """
    types = {column.id: column.type for node in recipe.plan for column in node.columns}
    column_ids: set[int] = set()
    for node in recipe.plan:
        for column, expressions in _computed_columns(recipe, node):
            may_be = of_any_type or types[column.id] in FLOATING_TYPES
            if may_be and any(
                _depends_on_row_order(expression, recipe, types, column_ids)
                for expression in expressions
            ):
                column_ids.add(column.id)
    return frozenset(column_ids)


def texts_of_sums(recipe: Recipe) -> frozenset[int]:
    """Columns of the output, no numbers, in which digits of sums of doubles stand: the last of these each run decides."""
    columns = {column.id for column in recipe.columns}
    of_all_types = nondeterministic_columns(recipe, of_any_type=True) & columns
    return of_all_types - nondeterministic_columns(recipe)


def _computed_columns(
    recipe: Recipe, node: Node
) -> Iterable[tuple[Attribute, Sequence[Expression]]]:
    """The columns that a node makes, each with the expressions that it is one of."""
    match node:
        case Project() | Aggregate():
            return [(c, [e]) for c, e in zip(node.columns, node.expressions, strict=True)]
        case Window():
            own = node.columns[len(node.columns) - len(node.expressions) :]
            return [(c, [e]) for c, e in zip(own, node.expressions, strict=True)]
        case Expand():
            return list(zip(node.columns, zip(*node.projections, strict=True), strict=True))
        case Union():
            inputs = [recipe.plan[input_node].columns for input_node in node.inputs]
            each = [
                [Column(column.id) for column in column_group]
                for column_group in zip(*inputs, strict=True)
            ]
            return list(zip(node.columns, each, strict=True))
        case _:
            return []


def _depends_on_row_order(
    expression: Expression, recipe: Recipe, types: dict[int, str], column_ids: set[int]
) -> bool:
    for part in subexpressions_of(expression):
        if isinstance(part, Column) and part.id in column_ids:
            return True
        if isinstance(part, Subquery) and recipe.plan[part.node].columns[0].id in column_ids:
            return True
        if isinstance(part, Call) and part.fn in ORDER_DEPENDENT and _adds_doubles(part, types):
            return True
    return False


def _adds_doubles(call: Call, types: dict[int, str]) -> bool:
    """Whether an aggregate may add fractions in floating point."""
    return any(
        (isinstance(part, Column) and types.get(part.id) in FLOATING_TYPES)
        or (isinstance(part, Literal) and part.type in FLOATING_TYPES)
        or (isinstance(part, Call) and part.fn == "/")
        for part in subexpressions_of(call)
    )


def tied_neighbours_query(
    writer: SqlWriter,
    relation: str,
    partition: Sequence[Expression],
    order: Sequence[SortKey],
    nondeterministic: frozenset[int],
    *,
    cut: int | None = None,
    equal_too: bool = True,
) -> str:
    """Rows of ``relation`` that may change places with the row before them, as a statement.

    ``cut``: just the first row after so many. ``equal_too``: those that are equal in the whole order; else just
    those that are nearly equal in a nondeterministic key.
    """
    keys = list(order)
    unsteady_index = next(
        (n for n, key in enumerate(keys) if columns_in(key.of) & nondeterministic), len(keys)
    )
    order_by = ", ".join(writer.sort_key(key) for key in keys)
    over = f"OVER ({_partition_clause(writer, partition)}ORDER BY {order_by})"
    terms = [writer.of(key.of) for key in keys[: unsteady_index + 1]]
    select_terms = [f"{term} AS k{n}, lag({term}) {over} AS l{n}" for n, term in enumerate(terms)]
    rows = f"SELECT {', '.join([*select_terms, f'row_number() {over} AS r'])} FROM {relation}"
    ties = [f"k{n} <=> l{n}" for n in range(unsteady_index)]
    if unsteady_index < len(keys):
        near = f"abs(k{unsteady_index} - l{unsteady_index}) <= {RELATIVE_TOLERANCE!r} * greatest(abs(k{unsteady_index}), abs(l{unsteady_index}))"
        ties.append(
            f"(k{unsteady_index} <=> l{unsteady_index} OR {near})"
            if equal_too
            else f"({near} AND k{unsteady_index} <> l{unsteady_index})"
        )
    place = "r > 1" if cut is None else f"r = {cut + 1}"
    return f"SELECT r FROM ({rows}) AS q WHERE {' AND '.join([place, *ties])}"


def is_nondeterministic(order: Iterable[SortKey], nondeterministic: frozenset[int]) -> bool:
    """Whether a key of the order is made from sums of doubles."""
    return any(columns_in(key.of) & nondeterministic for key in order)


def _partition_clause(writer: SqlWriter, partition: Sequence[Expression]) -> str:
    return f"PARTITION BY {', '.join(writer.of(term) for term in partition)} " if partition else ""
