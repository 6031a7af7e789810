"""Whether an output row depends on its own witnesses alone, whatever other rows of the sources are left out.

A row of a node is identified by what it was made from: the row of a scan, the pair of a join, the key of a group. A plan is
*local* where presence and values of each identified row, when the sources lose some rows, follow from those of its witnesses
that are left. Then the plan over what is left of the witnesses gives, for the requested identities, just what the
plan over what is left of the whole sources gives.

It holds by induction over the plan:

- Rows that pass one by one (project, filter, generate, inner joins) keep their identity, and depend on the row below.
- A group depends on the rows that have its key. These are among the witnesses if no row of another key, and none that a
  filter left out, can come to have the key when rows are lost: the rows below only vanish (*shrinking*), and their
  keys are *fixed*, as those of scans are and values of aggregates are not. A semi join depends on its matches likewise.
- Anti and outer joins have rows by the absence of others, limits and windows by the place among others: not local.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import (
    Aggregate,
    Call,
    Column,
    Expand,
    Expression,
    Filter,
    Generate,
    Join,
    Limit,
    Literal,
    Node,
    OpaqueExpression,
    Project,
    PythonCall,
    Range,
    Scan,
    Sort,
    Subquery,
    Union,
    Values,
    Window,
    children_of,
    expressions_of,
    input_nodes_of,
    subexpressions_of,
)
from lineage_dataframes.rewrite.function_names import AGGREGATES


@dataclass(frozen=True)
class _Rows:
    """What is known of a node's rows when sources lose some of theirs. ``fixed``: columns whose values never change."""

    fixed: frozenset[int]
    shrinking: bool = True


def nonlocal_reasons(recipe: Recipe) -> tuple[str, ...]:
    """Why output rows of a recipe may depend on other rows than their witnesses; none: its plan is local."""
    reasons: list[str] = []
    rows: list[_Rows] = []
    for node in recipe.plan:
        rows.append(_rows_of(recipe, node, rows, reasons))
    return tuple(dict.fromkeys(reasons))


LIMIT = "a limit lets rows pass by their place among others"
WINDOW = "a window function reads other rows"
ABSENCE = "{} join has rows because others are absent"
GROUPS = "groups, or matches, are chosen by values that other rows change"
SUBQUERY = "a subquery's value is compared"


def _rows_of(recipe: Recipe, node: Node, rows: list[_Rows], reasons: list[str]) -> _Rows:
    inputs = [rows[n] for n in input_nodes_of(node)]
    everything = frozenset(column.id for column in node.columns)
    shrinking = all(below.shrinking for below in inputs)
    fixed = frozenset[int]().union(*(below.fixed for below in inputs))
    if any(isinstance(part, Subquery) for part in _parts(node)):
        reasons.append(SUBQUERY)
    match node:
        case Scan() | Values() | Range():
            return _Rows(everything)
        case Project():
            own = zip(node.columns, node.expressions, strict=True)
            return _Rows(
                frozenset(column.id for column, term in own if _is_fixed(term, fixed)),
                shrinking,
            )
        case Filter():
            return _Rows(fixed, shrinking and _is_fixed(node.condition, fixed))
        case Sort():
            return inputs[0]
        case Join():
            return _joined(node, inputs, fixed, reasons)
        case Union():
            return _Rows(_united(node, recipe.plan, rows), shrinking)
        case Expand():
            terms = zip(node.columns, zip(*node.projections, strict=True), strict=True)
            return _Rows(
                frozenset(
                    column.id for column, row in terms if all(_is_fixed(one, fixed) for one in row)
                ),
                shrinking,
            )
        case Generate():
            is_fixed = _is_fixed(node.function, fixed)
            made = frozenset(column.id for column in node.made)
            return _Rows(
                (fixed - made) | (made if is_fixed else frozenset()),
                shrinking and is_fixed,
            )
        case Aggregate():
            if not (shrinking and all(_is_fixed(key, fixed) for key in node.keys)):
                reasons.append(GROUPS)
            own = zip(node.columns, node.expressions, strict=True)
            return _Rows(
                frozenset(column.id for column, term in own if _is_of_keys(term, node.keys))
            )
        case Limit():
            reasons.append(LIMIT)
            return _Rows(frozenset(), shrinking=False)
        case Window():
            reasons.append(WINDOW)
        case _:
            reasons.append(f"{type(node).__name__} depends on other rows")
    return _Rows(frozenset(), shrinking=False)


def _joined(node: Join, inputs: list[_Rows], fixed: frozenset[int], reasons: list[str]) -> _Rows:
    is_fixed = node.condition is None or _is_fixed(node.condition, fixed)
    shrinking = all(below.shrinking for below in inputs) and is_fixed
    if node.how == "inner":
        return _Rows(fixed, shrinking)
    if node.how == "semi":
        if not (inputs[1].shrinking and is_fixed):
            reasons.append(GROUPS)
        return _Rows(inputs[0].fixed, shrinking)
    what = {"anti": "an anti", "exists": "an existence", "full": "a full outer"}
    reasons.append(ABSENCE.format(what.get(node.how, f"a {node.how} outer")))
    return _Rows(frozenset(), shrinking=False)


def _united(node: Union, plan: Sequence[Node], rows: Sequence[_Rows]) -> frozenset[int]:
    """The columns of a union that are fixed in all of its inputs."""
    fixed = {column.id for column in node.columns}
    for n in node.inputs:
        pairs = zip(node.columns, plan[n].columns, strict=True)
        fixed -= {column.id for column, below in pairs if below.id not in rows[n].fixed}
    return frozenset(fixed)


def _parts(node: Node) -> Iterable[Expression]:
    for expression in expressions_of(node):
        yield from subexpressions_of(expression)


def _is_fixed(term: Expression, fixed: frozenset[int]) -> bool:
    """Whether a term has the same value as long as its row is there."""
    return all(
        part.id in fixed
        if isinstance(part, Column)
        else not isinstance(part, Subquery | OpaqueExpression)
        for part in subexpressions_of(term)
    )


def _is_of_keys(term: Expression, keys: tuple[Expression, ...]) -> bool:
    """Whether a column of groups is made of their keys alone."""
    if term in keys or isinstance(term, Literal):
        return True
    if not isinstance(term, Call | PythonCall) or (
        isinstance(term, Call) and term.fn in AGGREGATES
    ):
        return False
    children = children_of(term)
    return bool(children) and all(_is_of_keys(child, keys) for child in children)
