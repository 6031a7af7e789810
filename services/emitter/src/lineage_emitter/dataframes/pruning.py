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
    Sort,
    Subquery,
    Window,
    expressions_of,
    input_nodes_of,
    subexpressions_of,
)

PASSED_ON = Filter | Sort | Limit | Sample | Join | Window | Generate
"""Nodes that pass on columns of their inputs."""


def pruned(plan: Sequence[Node]) -> list[Node]:
    """The plan with fewer columns; the last node's, and those of subqueries, stay."""
    wanted = _wanted(plan)
    found: list[Node] = []
    for place, node in enumerate(plan):
        found.append(_with_columns(node, wanted[place], found))
    return found


def _wanted(plan: Sequence[Node]) -> list[set[int]]:
    """For each node the columns that nodes above read."""
    wanted: list[set[int]] = [set() for _ in plan]

    def whole(place: int) -> None:
        wanted[place] |= _ids(plan[place].columns)

    whole(len(plan) - 1)
    for place in reversed(range(len(plan))):
        node = plan[place]
        read = [one for each in expressions_of(node) for one in subexpressions_of(each)]
        columns = {one.id for one in read if isinstance(one, Column)}
        for one in read:
            if isinstance(one, Subquery):
                whole(one.node)
        for below in input_nodes_of(node):
            if isinstance(node, PASSED_ON):
                wanted[below] |= (columns | wanted[place]) & _ids(plan[below].columns)
            elif expressions_of(node):
                wanted[below] |= columns
            else:
                whole(below)
    return wanted


def _with_columns(node: Node, wanted: set[int], before: Sequence[Node]) -> Node:
    if isinstance(node, Scan):
        kept = [n for n, one in enumerate(node.columns) if one.id in wanted]
        columns = tuple(node.columns[n] for n in kept)
        return replace(node, columns=columns, fields=tuple(node.fields[n] for n in kept))
    if isinstance(node, PASSED_ON):
        there = {one for below in input_nodes_of(node) for one in _ids(before[below].columns)}
        passed = there | _made(node)
        return replace(node, columns=tuple(one for one in node.columns if one.id in passed))
    return node


def _made(node: Node) -> set[int]:
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
    return {one.id for one in columns}
