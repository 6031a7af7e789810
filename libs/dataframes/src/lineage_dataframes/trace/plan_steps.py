"""The steps of output rows of a recipe: what each operator of its plan gives on the rows that they were made from, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from lineage_core.recipe.plan import (
    NODES,
    Aggregate,
    Attribute,
    Column,
    Expression,
    Filter,
    Generate,
    Join,
    Node,
    Project,
    PythonRows,
    Scan,
    Sort,
    Window,
    expressions_of,
    input_nodes_of,
)
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.expressions import SqlWriter, subqueries_in
from lineage_dataframes.trace.replay import OperatorRows, Replayer
from lineage_store.paths import plain_path

DESCRIBED_CHARACTERS = 200
"""Of a step's condition, keys or expressions, at most."""

_NAMES = {kind: name for name, kind in NODES.items()}
Placed: TypeAlias = tuple[str, int]
"""A row of a source: its file and ordinal there."""


@dataclass(frozen=True)
class PlanStep:
    """What one operator gave.

    ``name``: of the kind of the operator. ``about``: its condition, keys or expressions, as text for people. ``inputs``: the numbers of the
    steps whose rows it got, those of scalar subqueries among them. ``rows``: the first ones of ``count``, by ``columns``; of a source ``places``
    says where each stands. ``refused``: why its rows can't be computed; there are none then.
    """

    number: int
    name: str
    about: str
    inputs: tuple[int, ...]
    columns: tuple[str, ...]
    count: int
    rows: tuple[tuple[Any, ...], ...]
    places: tuple[Placed, ...] = ()
    refused: str = ""

    def fits(self, named: str) -> bool:
        """Whether it is named so: by its number or operator."""
        return named in {str(self.number), self.name}


def steps_of(
    replayer: Replayer, limit: int, is_last: Callable[[PlanStep], bool] = lambda _: False
) -> tuple[PlanStep, ...]:
    """The steps of the requested rows, sources first.

    Args:
        replayer: of these rows.
        limit: the most rows that a step lists.
        is_last: whether those after a step are left out; they are not computed then.

    Raises:
        RefusedError: on their witnesses alone the plan does not give these rows.
    """
    outcome = replayer.replay({})
    if not outcome.reproduced:
        reasons = "; ".join((*outcome.reasons, *outcome.uncertain)) or "nothing says why"
        raise RefusedError(
            f"on the rows that it is made from, the output does not come out as it was: {reasons}"
        )
    steps = []
    plan = replayer.recipe.plan
    with replayer.reading_witnesses():
        for number, node in enumerate(plan, 1):
            refused = ""
            try:
                found = replayer.rows_of_operator(number - 1, limit)
            except RefusedError as problem:
                found, refused = OperatorRows(0, ()), str(problem)
            step = PlanStep(
                number,
                _NAMES[type(node)],
                _about(replayer, node),
                tuple(1 + n for n in sorted({*input_nodes_of(node), *_subqueries_of(node)})),
                tuple(column.name for column in node.columns),
                found.count,
                found.rows,
                found.places,
                refused,
            )
            steps.append(_requested(replayer, step, limit) if number == len(plan) else step)
            if is_last(steps[-1]):
                break
    return tuple(steps)


def _requested(replayer: Replayer, step: PlanStep, limit: int) -> PlanStep:
    """The last step: of what is made from the same rows the requested ones alone."""
    rows = tuple(row.values for row in replayer.requested)
    return replace(
        step,
        columns=replayer.columns,
        count=len(rows),
        rows=rows[:limit],
        places=(),
        refused="",
    )


def _subqueries_of(node: Node) -> set[int]:
    return {n for expression in expressions_of(node) for n in subqueries_in(expression)}


def _about(replayer: Replayer, node: Node) -> str:
    """What an operator does, by the program's names of columns."""
    plan = replayer.recipe.plan
    inputs = [column for n in input_nodes_of(node) for column in plan[n].columns]
    names = {column.id: column.name for column in inputs}
    writer = SqlWriter(lambda n: f"(step {n + 1})", names)

    def texts(expressions: Sequence[Expression]) -> str:
        return ", ".join(_text(writer.of, expression) for expression in expressions)

    match node:
        case Scan():
            about = plain_path(replayer.recipe.sources[node.source].name or "")
        case Filter():
            about = texts((node.condition,))
        case Join():
            condition = "" if node.condition is None else f" on {texts((node.condition,))}"
            about = f"{node.how}{condition}"
        case Aggregate():
            about = f"by {texts(node.keys)}" if node.keys else "of all rows"
        case Sort():
            about = f"by {texts([key.of for key in node.order])}"
        case Project() | Window():
            made = node.columns[-len(node.expressions) :] if node.expressions else ()
            about = _made(made, node.expressions, writer)
        case Generate():
            about = texts((node.function,))
        case PythonRows():
            about = node.name
        case _:
            about = ""
    return (
        about if len(about) <= DESCRIBED_CHARACTERS else f"{about[: DESCRIBED_CHARACTERS - 3]}..."
    )


def _made(
    columns: Sequence[Attribute], expressions: Sequence[Expression], writer: SqlWriter
) -> str:
    """Expressions with the columns that they make, without those that are passed on."""
    pairs = zip(columns, expressions, strict=True)
    return ", ".join(
        f"{_text(writer.of, expression)} as {column.name}"
        for column, expression in pairs
        if not isinstance(expression, Column)
    )


def _text(write: Callable[[Expression], str], expression: Expression) -> str:
    try:
        return write(expression)
    except RefusedError:
        return "(what the recipe can't say)"
