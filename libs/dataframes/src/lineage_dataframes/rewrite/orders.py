"""Whether an order tells rows apart, in every run.

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
    found: set[int] = set()
    for node in recipe.plan:
        for column, expressions in _computed_columns(recipe, node):
            may_be = of_any_type or types[column.id] in FLOATING_TYPES
            if may_be and any(
                _depends_on_row_order(one, recipe, types, found) for one in expressions
            ):
                found.add(column.id)
    return frozenset(found)


def texts_of_sums(recipe: Recipe) -> frozenset[int]:
    """Columns of the output, no numbers, in which digits of sums of doubles stand: the last of these each run decides."""
    columns = {one.id for one in recipe.columns}
    every = nondeterministic_columns(recipe, of_any_type=True) & columns
    return every - nondeterministic_columns(recipe)


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
            inputs = [recipe.plan[one].columns for one in node.inputs]
            each = [[Column(one.id) for one in some] for some in zip(*inputs, strict=True)]
            return list(zip(node.columns, each, strict=True))
        case _:
            return []


def _depends_on_row_order(
    expression: Expression, recipe: Recipe, types: dict[int, str], found: set[int]
) -> bool:
    for one in subexpressions_of(expression):
        if isinstance(one, Column) and one.id in found:
            return True
        if isinstance(one, Subquery) and recipe.plan[one.node].columns[0].id in found:
            return True
        if isinstance(one, Call) and one.fn in ORDER_DEPENDENT and _adds_doubles(one, types):
            return True
    return False


def _adds_doubles(call: Call, types: dict[int, str]) -> bool:
    """Whether an aggregate may add fractions in floating point."""
    return any(
        (isinstance(one, Column) and types.get(one.id) in FLOATING_TYPES)
        or (isinstance(one, Literal) and one.type in FLOATING_TYPES)
        or (isinstance(one, Call) and one.fn == "/")
        for one in subexpressions_of(call)
    )


def tied_neighbours_query(
    text: SqlWriter,
    of: str,
    partition: Sequence[Expression],
    order: Sequence[SortKey],
    unsteady: frozenset[int],
    *,
    cut: int | None = None,
    equal_too: bool = True,
) -> str:
    """Rows of ``of`` that may change places with the row before them, as a statement.

    ``cut``: just the first row after so many. ``equal_too``: those that are equal in the whole order; else just
    those that are nearly equal in an unsteady key.
    """
    held = list(order)
    at = next((n for n, key in enumerate(held) if columns_in(key.of) & unsteady), len(held))
    by = ", ".join(text.sort_key(key) for key in held)
    over = f"OVER ({_partition_clause(text, partition)}ORDER BY {by})"
    terms = [text.of(key.of) for key in held[: at + 1]]
    listed = [f"{term} AS k{n}, lag({term}) {over} AS l{n}" for n, term in enumerate(terms)]
    rows = f"SELECT {', '.join([*listed, f'row_number() {over} AS r'])} FROM {of}"
    ties = [f"k{n} <=> l{n}" for n in range(at)]
    if at < len(held):
        near = f"abs(k{at} - l{at}) <= {RELATIVE_TOLERANCE!r} * greatest(abs(k{at}), abs(l{at}))"
        ties.append(f"(k{at} <=> l{at} OR {near})" if equal_too else f"({near} AND k{at} <> l{at})")
    place = "r > 1" if cut is None else f"r = {cut + 1}"
    return f"SELECT r FROM ({rows}) AS q WHERE {' AND '.join([place, *ties])}"


def is_nondeterministic(order: Iterable[SortKey], unsteady: frozenset[int]) -> bool:
    """Whether a key of the order is made from sums of doubles."""
    return any(columns_in(key.of) & unsteady for key in order)


def _partition_clause(text: SqlWriter, partition: Sequence[Expression]) -> str:
    return f"PARTITION BY {', '.join(text.of(one) for one in partition)} " if partition else ""
