"""Which columns of a DataFrame hold values of some columns of its sources, or what was computed from these, by its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import (
    Aggregate,
    Column,
    Expand,
    Expression,
    Node,
    OpaqueNode,
    Project,
    PythonRows,
    Scan,
    Subquery,
    Union,
    expressions_of,
    input_nodes_of,
    subexpressions_of,
)
from lineage_core.tracing.budget import current_budget

IsChosen = Callable[[int, str], bool]
"""Whether a column of a source, by the source's number and the column's name, is one of those."""


def copied_columns(recipe: Recipe, is_chosen: IsChosen) -> tuple[str, ...]:
    """Names of the plan's columns whose values may come from chosen columns. Which rows there are may depend on any column.

    Raises:
        BudgetError: the query has no time left.
    """
    chosen: list[frozenset[int]] = []
    for node in recipe.plan:
        current_budget().check()
        chosen.append(_chosen_of(node, recipe.plan, chosen, is_chosen))
    return tuple(column.name for column in recipe.columns if column.id in chosen[-1])


def _chosen_of(
    node: Node, plan: Sequence[Node], chosen: Sequence[frozenset[int]], is_chosen: IsChosen
) -> frozenset[int]:
    """Ids of the columns of a node that may hold such values. ``chosen``: of the nodes before it."""
    inputs = input_nodes_of(node)
    read = frozenset[int]().union(*(chosen[number] for number in inputs))

    def holds(expression: Expression) -> bool:
        return any(
            (isinstance(part, Column) and part.id in read)
            or (isinstance(part, Subquery) and bool(chosen[part.node]))
            for part in subexpressions_of(expression)
        )

    match node:
        case Scan():
            flags = [is_chosen(node.source, name) for name in node.fields]
        case Project() | Aggregate():
            flags = [holds(expression) for expression in node.expressions]
        case Expand():
            flags = [any(map(holds, position)) for position in zip(*node.projections, strict=True)]
        case Union():
            columns = [[column.id in chosen[n] for column in plan[n].columns] for n in inputs]
            flags = [any(position) for position in zip(*columns, strict=True)]
        case PythonRows() | OpaqueNode():
            flags = [bool(read)] * len(node.columns)
        case _:
            passed = {column.id for number in inputs for column in plan[number].columns}
            # What a node makes itself may come from all that it reads.
            may_hold = bool(read) or any(map(holds, expressions_of(node)))
            flags = [
                column.id in read or (may_hold and column.id not in passed)
                for column in node.columns
            ]
    return frozenset(column.id for column, flag in zip(node.columns, flags, strict=True) if flag)
