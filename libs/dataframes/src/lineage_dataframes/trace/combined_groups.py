"""An output row that is one group of a plan's last aggregate, without some of the rows that the group combined, in closed form.

The values that the group combined are read once, each with the rows of sources that it was made from. The aggregates are then computed without some of
them (`leaving_out`), and the plan does not run again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from lineage_core.recipe.plan import Aggregate, Call, Column, Expression, Project, Sort
from lineage_core.recipe.plan import Literal as Constant
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.spark import literals
from lineage_dataframes.trace.leaving_out import Aggregate as WithoutRows
from lineage_dataframes.trace.leaving_out import Without, aggregate_of
from lineage_dataframes.trace.replay import Replayer, values_of_rows

Witness: TypeAlias = tuple[str, int]
"""A row of a source: its file and ordinal."""

EXTREMES_AND_SUMS = frozenset({"count", "sum", "avg", "min", "max"})


class NoClosedFormError(Exception):
    """The row is not one of groups whose aggregates have a closed form."""


@dataclass(frozen=True)
class CombinedGroup:
    """A group. ``before``: the output row; ``functions``: its aggregates, by column; ``size``: how many rows it combined, by numbers from 0.

    ``rows_of``: which of these each witness is in. ``has_keys``: without any row there is no group.
    """

    before: tuple[Any, ...]
    functions: Mapping[int, WithoutRows]
    size: int
    rows_of: Mapping[Witness, Sequence[int]]
    has_keys: bool

    def without(self, rows: Sequence[int]) -> tuple[tuple[Any, ...] | None, tuple[bool, ...]]:
        """The output row without some of the rows that the group combined (None: there is none), and by column whether Spark gives just this value.

        ``rows``: their numbers, each once.
        """
        if self.has_keys and len(rows) == self.size:
            return None, (True,) * len(self.before)
        found = {n: function(rows) for n, function in self.functions.items()}
        return (
            tuple(found[n].value if n in found else value for n, value in enumerate(self.before)),
            tuple(found[n].sure if n in found else True for n in range(len(self.before))),
        )


def combined_group(
    replayer: Replayer, witnesses: Sequence[Witness], combined_max: int
) -> CombinedGroup:
    """The group that the one requested row is.

    Args:
        replayer: of the row.
        witnesses: what the row was made from, each once.
        combined_max: how many rows the group may have combined.

    Raises:
        NoClosedFormError: the row is no such group.
        ChangedSourceError: a source was written meanwhile.
    """
    if replayer.reasons:
        raise NoClosedFormError(replayer.reasons[0])
    number, aggregate = _last_aggregate(replayer)
    columns = [_combined(replayer, number, column.id) for column in replayer.recipe.columns]
    calls = {n: column for n, column in enumerate(columns) if isinstance(column, Call)}
    try:
        terms = [_term(call) for call in calls.values()]
        combined = replayer.combined(number, terms, combined_max)
    except RefusedError as refused:
        raise NoClosedFormError(str(refused)) from refused
    rows_of = _rows_of_witnesses(combined.made_from)
    if rows_of.keys() != set(witnesses):
        # Else a witness that is not found would seem to change nothing.
        raise NoClosedFormError("the values of the group are not those of the row's witnesses")
    functions = {}
    for (n, call), column in zip(calls.items(), combined.terms, strict=True):
        (values,) = zip(*values_of_rows(column), strict=True) if column.num_rows else ((),)
        kind = column.schema.field(0).type
        function = aggregate_of(call.fn, values, kind, replayer.recipe.columns[n].type)
        if function is None:
            raise NoClosedFormError(f"{call.fn} of {kind} has no closed form")
        functions[n] = function
    _check_before(replayer, {n: function(()) for n, function in functions.items()})
    before = replayer.requested[0].values
    return CombinedGroup(before, functions, len(combined.made_from), rows_of, bool(aggregate.keys))


def _last_aggregate(replayer: Replayer) -> tuple[int, Aggregate]:
    plan = replayer.recipe.plan
    number = len(plan) - 1
    while isinstance(node := plan[number], Project | Sort):
        number = node.input
    if not isinstance(node, Aggregate):
        raise NoClosedFormError("the row is not a group as the last aggregate gives it")
    return number, node


def _combined(replayer: Replayer, aggregate: int, column: int) -> Expression:
    """What a column of the output is in the aggregate: a key, a constant or a call."""
    plan = replayer.recipe.plan
    number = len(plan) - 1
    while True:
        node = plan[number]
        if isinstance(node, Sort):
            number = node.input
            continue
        assert isinstance(node, Project | Aggregate)
        expression = next(
            term
            for own, term in zip(node.columns, node.expressions, strict=True)
            if own.id == column
        )
        if number == aggregate:
            break
        if isinstance(expression, Constant):
            return expression
        if not isinstance(expression, Column) or not isinstance(node, Project):
            raise NoClosedFormError("a column is computed from aggregates")
        number, column = node.input, expression.id
    assert isinstance(node, Aggregate)
    if expression in node.keys or isinstance(expression, Constant):
        return expression
    if (
        not isinstance(expression, Call)
        or expression.fn not in EXTREMES_AND_SUMS
        or expression.distinct
    ):
        raise NoClosedFormError("a column is no plain sum, count, average, minimum or maximum")
    if expression.fn != "count" and len(expression.args) != 1:
        raise NoClosedFormError(f"{expression.fn} has several arguments")
    return expression


def _term(call: Call) -> Expression:
    """What an aggregate combines of a row, NULL where it does not count: of a count, 1."""
    term = call.args[0] if call.args else Constant("1", "int")
    if call.fn == "count":
        known = tuple(Call("is not null", (argument,)) for argument in call.args)
        term = Constant("1", "int")
        for condition in known:
            term = Call("case", (condition, term))
    return term if call.where is None else Call("case", (call.where, term))


def _rows_of_witnesses(made_from: Sequence[Sequence[Witness]]) -> Mapping[Witness, Sequence[int]]:
    rows: defaultdict[Witness, list[int]] = defaultdict(list)
    for number, witnesses in enumerate(made_from):
        for witness in set(witnesses):
            rows[witness].append(number)
    return rows


def _check_before(replayer: Replayer, found: Mapping[int, Without]) -> None:
    """See that the group's values give the job's row, before any of them is left out.

    What gives another value, whatever the cause, is no ground for others.
    """
    before = replayer.requested[0].values
    if not all(_is_same(value, before[n]) for n, value in found.items()):
        raise NoClosedFormError("the values of the group do not give the job's row")


def _is_same(found: Without, value: Any) -> bool:
    """Whether a value is that of the job; where it is not sure, up to the last digits."""
    if isinstance(found.value, float) and isinstance(value, float):
        if math.isnan(found.value) or math.isnan(value):
            return math.isnan(found.value) and math.isnan(value)
        if not found.sure:
            return math.isclose(found.value, value, rel_tol=literals.RELATIVE_TOLERANCE)
    if not found.sure and isinstance(found.value, Decimal) and isinstance(value, Decimal):
        return math.isclose(found.value, value, rel_tol=literals.RELATIVE_TOLERANCE)
    return bool(found.value == value)
