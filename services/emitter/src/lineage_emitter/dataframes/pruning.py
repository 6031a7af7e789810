"""Leaves out of a plan the columns that nothing reads: Spark reads none of them, either.

In an optimised plan scans give all columns of a source, and filters and joins pass them on; Spark sees only
when it chooses how to run the plan that few are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lineage_core.recipe.plan import (
    Attribute,
    Column,
    Filter,
    Generate,
    Join,
    Limit,
    Node,
    Sample,
    Scan,
    Sessions,
    Sort,
    Subquery,
    Window,
    expressions_of,
    input_nodes_of,
    subexpressions_of,
)

PASSING_NODES = Filter | Sort | Limit | Sample | Join | Sessions | Window | Generate
"""Nodes that pass on columns of their inputs."""


def pruned(plan: Sequence[Node]) -> list[Node]:
    """The plan with fewer columns; the last node's, and those of subqueries, stay."""
    read_columns = _read_columns(plan)
    nodes: list[Node] = []
    for node_number, node in enumerate(plan):
        nodes.append(_with_columns(node, read_columns[node_number], nodes))
    return nodes


def _read_columns(plan: Sequence[Node]) -> list[set[int]]:
    """For each node the columns that nodes above read."""
    read_columns: list[set[int]] = [set() for _ in plan]

    def whole(node_number: int) -> None:
        read_columns[node_number] |= _ids(plan[node_number].columns)

    whole(len(plan) - 1)
    for node_number in reversed(range(len(plan))):
        node = plan[node_number]
        read = [
            expression for each in expressions_of(node) for expression in subexpressions_of(each)
        ]
        columns = {expression.id for expression in read if isinstance(expression, Column)}
        for expression in read:
            if isinstance(expression, Subquery):
                whole(expression.node)
        for below in input_nodes_of(node):
            if isinstance(node, PASSING_NODES):
                read_columns[below] |= (columns | read_columns[node_number]) & _ids(
                    plan[below].columns
                )
            elif expressions_of(node):
                read_columns[below] |= columns
            else:
                whole(below)
    return read_columns


def _with_columns(node: Node, read_columns: set[int], before: Sequence[Node]) -> Node:
    if isinstance(node, Scan):
        indexes = [n for n, column in enumerate(node.columns) if column.id in read_columns]
        columns = tuple(node.columns[n] for n in indexes)
        return replace(node, columns=columns, fields=tuple(node.fields[n] for n in indexes))
    if isinstance(node, PASSING_NODES):
        input_ids = {
            column for below in input_nodes_of(node) for column in _ids(before[below].columns)
        }
        passed = input_ids | _own_columns(node)
        return replace(
            node, columns=tuple(column for column in node.columns if column.id in passed)
        )
    return node


def _own_columns(node: Node) -> set[int]:
    """Columns of a node that are of none of its inputs."""
    match node:
        case Window():
            return _ids(node.columns[len(node.columns) - len(node.expressions) :])
        case Generate():
            return _ids(node.made)
        case Join(how="exists"):
            return {node.columns[-1].id}
        case _:
            return set()


def _ids(columns: Iterable[Attribute]) -> set[int]:
    return {column.id for column in columns}
