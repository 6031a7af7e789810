"""Outputs whose rows say by their own values which group each was made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import (
    Aggregate,
    Attribute,
    Call,
    Column,
    Expression,
    Filter,
    Limit,
    Literal,
    Node,
    Project,
    Sort,
    Window,
    expressions_of,
    subexpressions_of,
)
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.rewrite.choices import keeps_some_rows
from lineage_dataframes.rewrite.expressions import INFIX, SqlWriter, columns_in, subqueries_in
from lineage_dataframes.rewrite.group_keys import cannot_recompute
from lineage_dataframes.rewrite.named_query import Leaf
from lineage_dataframes.rewrite.windows import is_running, window_functions
from lineage_dataframes.spark.literals import FLOATING_TYPES, comparable

LOSSLESS_FORMATS = {"parquet", "orc"}
"""Formats whose files give back the very values that were written."""

ROW_FUNCTIONS = INFIX | {
    "abs", "case", "cast", "coalesce", "concat", "day", "dayofmonth", "is not null", "is null", "lower", "ltrim", "month", "not",
    "quarter", "rtrim", "substr", "substring", "trim", "trunc", "upper", "year",
}  # fmt: skip
"""Functions of one row's values that always give the same; aggregates are none."""


@dataclass(frozen=True)
class Grouping:
    """``leaf``: names a group by its key. ``places``: of the output's columns that hold the key.

    ``terms``: where these hold but values made of the key, the same of a row that the group was made from.
    """

    leaf: Leaf
    places: tuple[int, ...]
    terms: tuple[str, ...] = ()


def grouping_of(recipe: Recipe) -> Grouping | None:
    """How an output's rows name the groups of the last aggregate, so that none need be computed anew.

    None unless the aggregate's keys are columns of the output, with nothing between them but rows that are
    chosen, ordered and renamed, can be computed anew, and the aggregate reads all rows of a group. Then no two output rows are of one group. So with the partitions of a window, unless
    its rows name but a part of them (`is_running`).
    """
    grouping_node = _last_grouping_node(recipe)
    if grouping_node is None:
        return None
    node_number, projects = grouping_node
    node = recipe.plan[node_number]
    keys: tuple[Expression, ...]
    if isinstance(node, Aggregate):
        if keeps_some_rows(node):
            return None
        keys, column_values = node.keys, _expressions_by_column(node)
    elif isinstance(node, Window) and window_functions(node) and not is_running(node):
        below = recipe.plan[node.input].columns
        keys, column_values = (
            window_functions(node)[0].partition,
            {column.id: Column(column.id) for column in below},
        )
    else:
        return None
    for project in projects:
        column_values = {
            id_: column_values[expression.id]
            for id_, expression in _expressions_by_column(project).items()
            if isinstance(expression, Column) and expression.id in column_values
        }
    places: list[int] = []
    for key in keys:
        indexes = [
            n for n, column in enumerate(recipe.columns) if column_values.get(column.id) == key
        ]
        if not indexes or not comparable(recipe.columns[indexes[0]].type):
            return None
        places.append(indexes[0])
    if _has_unknown_key(recipe, node.input, keys):
        return None
    return Grouping(_group_leaf(node_number, len(places)), tuple(places))


def derived_grouping_of(
    recipe: Recipe, writer: Callable[[dict[int, str]], SqlWriter]
) -> Grouping | None:
    """How an output's rows name groups of the last aggregate by columns that are made of nothing but its keys, row by row.

    None where there is none, or more than in `grouping_of` stands between. Several groups may have the same
    values. ``writer``: writes expressions, given the texts of columns.
    """
    grouping_node = _last_grouping_node(recipe)
    if grouping_node is None:
        return None
    node_number, projects = grouping_node
    node = recipe.plan[node_number]
    if (
        not isinstance(node, Aggregate)
        or keeps_some_rows(node)
        or _has_unknown_key(recipe, node.input, node.keys)
    ):
        return None
    # What no aggregate is in is made of keys.
    column_texts = {
        id_: writer({}).of(expression)
        for id_, expression in _expressions_by_column(node).items()
        if _is_any_row_aggregate(expression) and columns_in(expression)
    }
    for project in projects:
        column_texts = {
            id_: writer(column_texts).of(expression)
            for id_, expression in _expressions_by_column(project).items()
            if _is_any_row_aggregate(expression)
            and set() < columns_in(expression) <= column_texts.keys()
        }
    indexes_by_term = {
        column_texts[column.id]: n
        for n, column in reversed(list(enumerate(recipe.columns)))
        if column.id in column_texts and _is_comparable_exactly(column)
    }
    if not indexes_by_term:
        return None
    return Grouping(
        _group_leaf(node_number, len(indexes_by_term)),
        tuple(indexes_by_term.values()),
        tuple(indexes_by_term),
    )


def _last_grouping_node(recipe: Recipe) -> tuple[int, list[Project]] | None:
    """The last node that no row passes one by one, and what computes columns above it, upwards.

    None where rows name subqueries besides.
    """
    node_number, projects = len(recipe.plan) - 1, list[Project]()
    while isinstance(node := recipe.plan[node_number], Sort | Limit | Filter | Project):
        if _reads_subqueries(node):
            return None
        if isinstance(node, Project):
            projects.insert(0, node)
        node_number = node.input
    return None if _reads_subqueries(node) else (node_number, projects)


def _has_unknown_key(recipe: Recipe, below: int, keys: Sequence[Expression]) -> bool:
    """Whether a key can't be computed anew."""
    try:
        built = Builder(recipe).rows(below)
    except RefusedError:
        return True
    return any(cannot_recompute(key, built) for key in keys)


def _reads_subqueries(node: Node) -> bool:
    return any(subqueries_in(expression) for expression in expressions_of(node))


def _expressions_by_column(node: Project | Aggregate) -> dict[int, Expression]:
    return {
        column.id: expression
        for column, expression in zip(node.columns, node.expressions, strict=True)
    }


def _is_any_row_aggregate(expression: Expression) -> bool:
    return all(
        isinstance(part, Column | Literal) or (isinstance(part, Call) and part.fn in ROW_FUNCTIONS)
        for part in subexpressions_of(expression)
    )


def _is_comparable_exactly(column: Attribute) -> bool:
    return (
        comparable(column.type)
        and column.type not in FLOATING_TYPES
        and "collate" not in column.type
    )


def _group_leaf(node_number: int, keys: int) -> Leaf:
    return Leaf(node_number, (f"b{node_number}", *(f"b{node_number}_{n}" for n in range(keys))))
