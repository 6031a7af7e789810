"""The plan of a recipe: nodes and expressions as plain data, closed sets of both.

Columns are named by small integers that are unique in a recipe's plan; a node's ``columns`` are its
output, in order, with Spark SQL types as DDL text (``bigint``, ``decimal(7,2)``). Nodes are in a list,
inputs before their users, and refer to each other by their index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal as OneOf

JoinKind = OneOf["inner", "left", "right", "full", "semi", "anti", "exists"]
"""``exists``: every left row once, with one more column: whether the right side has a match."""


@dataclass(frozen=True)
class Attribute:
    """A column that a node puts out: its number, the program's name for it, its type."""

    id: int
    name: str
    type: str


# Expressions


@dataclass(frozen=True)
class Column:
    """A column of the node's inputs."""

    id: int


@dataclass(frozen=True)
class Literal:
    """A constant: its text in Spark's internal form (days, microseconds), or None for NULL."""

    value: str | None
    type: str


@dataclass(frozen=True)
class Call:
    """A function or operator by its Spark SQL name.

    ``type``: the target of a cast. ``distinct`` and ``where`` belong to aggregate functions,
    ``ignore_nulls`` to window functions.
    """

    fn: str
    args: tuple[Expression, ...]
    type: str | None = None
    distinct: bool = False
    where: Expression | None = None
    ignore_nulls: bool = False


@dataclass(frozen=True)
class SortKey:
    of: Expression
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True)
class WindowFrame:
    """A window's frame. Bounds count from the current row (negative: before); None is unbounded."""

    unit: OneOf["rows", "range"]
    lower: Expression | None
    upper: Expression | None


@dataclass(frozen=True)
class Over:
    """A window function over its window."""

    of: Call | OpaqueExpression
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    frame: WindowFrame | None


@dataclass(frozen=True)
class Subquery:
    """The single value of the uncorrelated plan that ends at ``node``; NULL when that has no row."""

    node: int


@dataclass(frozen=True)
class OpaqueExpression:
    """An expression that a recipe can't express, computed from ``args``. A trace can't recompute it."""

    name: str
    why: str
    args: tuple[Expression, ...]
    type: str


@dataclass(frozen=True)
class PythonCall:
    """A Python function whose code the recipe carries: ``code`` is its place in the recipe's functions."""

    name: str
    code: int
    args: tuple[Expression, ...]
    type: str


Expression = Column | Literal | Call | Over | Subquery | OpaqueExpression | PythonCall


# Nodes


@dataclass(frozen=True)
class Scan:
    """A source's rows. ``fields``: the source's own column names, beside ``columns``."""

    columns: tuple[Attribute, ...]
    source: int
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Values:
    """Rows that stand in the plan itself; a row's place in ``rows`` is its ordinal."""

    columns: tuple[Attribute, ...]
    rows: tuple[tuple[Literal, ...], ...]


@dataclass(frozen=True)
class Range:
    columns: tuple[Attribute, ...]
    start: int
    end: int
    step: int


@dataclass(frozen=True)
class Project:
    columns: tuple[Attribute, ...]
    input: int
    expressions: tuple[Expression, ...]


@dataclass(frozen=True)
class Filter:
    columns: tuple[Attribute, ...]
    input: int
    condition: Expression


@dataclass(frozen=True)
class Join:
    columns: tuple[Attribute, ...]
    left: int
    right: int
    how: JoinKind
    condition: Expression | None


@dataclass(frozen=True)
class Aggregate:
    """One row a group; without ``keys`` one row at all."""

    columns: tuple[Attribute, ...]
    input: int
    keys: tuple[Expression, ...]
    expressions: tuple[Expression, ...]


@dataclass(frozen=True)
class Sessions:
    """The input's rows, one for one, whose ``window`` is widened to that of its session.

    ``window``: the column that holds a row's own time, a struct of ``start`` and ``end``. Rows of equal ``keys`` are of one session where
    their windows overlap or touch, each with the next.
    """

    columns: tuple[Attribute, ...]
    input: int
    keys: tuple[Expression, ...]
    window: int


@dataclass(frozen=True)
class Window:
    """The input's columns, then one for each of ``expressions`` (window functions within expressions)."""

    columns: tuple[Attribute, ...]
    input: int
    expressions: tuple[Expression, ...]


@dataclass(frozen=True)
class Sort:
    columns: tuple[Attribute, ...]
    input: int
    order: tuple[SortKey, ...]


@dataclass(frozen=True)
class Limit:
    """``count`` rows (None: all) after the first ``offset``."""

    columns: tuple[Attribute, ...]
    input: int
    count: int | None
    offset: int = 0


@dataclass(frozen=True)
class Sample:
    """Rows drawn by chance; which ones can't be known from the recipe."""

    columns: tuple[Attribute, ...]
    input: int


@dataclass(frozen=True)
class Union:
    """All rows of the inputs, whose columns correspond by place."""

    columns: tuple[Attribute, ...]
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Expand:
    """Each row once per projection (grouping sets, several distinct aggregates)."""

    columns: tuple[Attribute, ...]
    input: int
    projections: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True)
class Generate:
    """A row's values with each row that ``function`` makes of it; ``outer``: once with NULLs when none."""

    columns: tuple[Attribute, ...]
    input: int
    function: Expression
    made: tuple[Attribute, ...]
    outer: bool


@dataclass(frozen=True)
class PythonRows:
    """Rows that a Python function makes of many: of a partition's rows, or of those of a group.

    Only the function determines which of them an output row is made from, and how many rows it makes.
    ``keys``: the columns that name the groups of the one input; none: partitions, or groups of several inputs.
    """

    columns: tuple[Attribute, ...]
    inputs: tuple[int, ...]
    name: str
    why: str
    keys: tuple[int, ...] = ()


@dataclass(frozen=True)
class OpaqueNode:
    """A node that a recipe can't express. A trace can't cross it."""

    columns: tuple[Attribute, ...]
    name: str
    why: str
    inputs: tuple[int, ...]


Node = (
    Scan
    | Values
    | Range
    | Project
    | Filter
    | Join
    | Aggregate
    | Sessions
    | Window
    | Sort
    | Limit
    | Sample
    | Union
    | Expand
    | Generate
    | PythonRows
    | OpaqueNode
)

NODES: dict[str, type] = {
    "scan": Scan, "values": Values, "range": Range, "project": Project, "filter": Filter, "join": Join,
    "aggregate": Aggregate, "sessions": Sessions, "window": Window, "sort": Sort, "limit": Limit, "sample": Sample,
    "union": Union, "expand": Expand, "generate": Generate, "python rows": PythonRows, "opaque": OpaqueNode,
}  # fmt: skip
"""The names of nodes in a recipe's text."""

EXPRESSIONS: dict[str, type] = {
    "col": Column, "lit": Literal, "call": Call, "over": Over, "subquery": Subquery,
    "python": PythonCall, "opaque": OpaqueExpression,
}  # fmt: skip
"""The names of expressions in a recipe's text."""


def input_nodes_of(node: Node) -> tuple[int, ...]:
    """The nodes whose rows ``node`` reads, without those of scalar subqueries."""
    if isinstance(node, Scan | Values | Range):
        return ()
    if isinstance(node, Join):
        return (node.left, node.right)
    if isinstance(node, Union | PythonRows | OpaqueNode):
        return node.inputs
    return (node.input,)


def has_matching_columns(plan: Sequence[Node], node: Node) -> bool:
    """Whether ``node``, which comes after its inputs in ``plan``, has a number of columns that fits its values."""
    width = len(node.columns)
    match node:
        case Scan():
            return len(node.fields) == width
        case Values():
            return all(len(row) == width for row in node.rows)
        case Range():
            return width > 0 and node.step != 0
        case Project() | Aggregate():
            return len(node.expressions) == width
        case Window():
            return len(node.expressions) <= width
        case Expand():
            return bool(node.projections) and all(len(row) == width for row in node.projections)
        case Union():
            return bool(node.inputs) and all(len(plan[n].columns) == width for n in node.inputs)
        case Join():
            return width > 0 or node.how != "exists"
        case _:
            return True


def expressions_of(node: Node) -> tuple[Expression, ...]:
    """The expressions that ``node`` holds, in order."""
    match node:
        case Project() | Window():
            return node.expressions
        case Filter():
            return (node.condition,)
        case Join():
            return () if node.condition is None else (node.condition,)
        case Aggregate():
            return (*node.keys, *node.expressions)
        case Sessions():
            return (*node.keys, Column(node.window))
        case Sort():
            return tuple(key.of for key in node.order)
        case Expand():
            return tuple(expression for projection in node.projections for expression in projection)
        case Generate():
            return (node.function,)
        case _:
            return ()


def children_of(expression: Expression) -> tuple[Expression, ...]:
    """The expressions right below ``expression``."""
    match expression:
        case Call():
            return (
                expression.args
                if expression.where is None
                else (*expression.args, expression.where)
            )
        case Over():
            bounds = (
                () if expression.frame is None else (expression.frame.lower, expression.frame.upper)
            )
            return (
                expression.of, *expression.partition, *(key.of for key in expression.order),
                *(bound for bound in bounds if bound is not None),
            )  # fmt: skip
        case OpaqueExpression() | PythonCall():
            return expression.args
        case _:
            return ()


def subexpressions_of(expression: Expression) -> list[Expression]:
    """``expression`` and everything below it."""
    subexpressions, todo = [], [expression]
    while todo:
        current = todo.pop()
        subexpressions.append(current)
        todo.extend(children_of(current))
    return subexpressions
