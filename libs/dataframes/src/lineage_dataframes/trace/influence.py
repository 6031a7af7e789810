"""What an output row would be without each of the rows that it was made from.

For a row that is one group of a plan's last aggregate, in closed form: the values that the group combined are read once, each with the rows of sources that it
was made from (`leaving_out`). For other rows the plan runs again without each row in turn, as a replay does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import numpy as np

from lineage_core.recipe.plan import Aggregate, Call, Column, Expression, Project, Sort
from lineage_core.recipe.plan import Literal as Constant
from lineage_core.tracing.budget import current_budget
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.spark import literals
from lineage_dataframes.trace.held_rows import SourceRows
from lineage_dataframes.trace.leaving_out import Without, aggregate_of
from lineage_dataframes.trace.replay import (
    COMBINED_MAX,
    Replayer,
    values_of_rows,
    without,
)

Witness: TypeAlias = tuple[str, int]
"""A row of a source: its file and ordinal."""

EXTREMES_AND_SUMS = frozenset({"count", "sum", "avg", "min", "max"})


@dataclass(frozen=True)
class Influence:
    """What the row would be without ``witness``; None: it would not be there. ``sure``: by column, whether Spark gives just this value."""

    witness: Witness
    values: tuple[Any, ...] | None
    sure: tuple[bool, ...]


@dataclass(frozen=True)
class Influences:
    """The influence of witnesses on a row, the first of ``witnesses``. ``uncertain``: why values may come out otherwise.

    ``why``: why there is no closed form; empty: it is one.
    """

    columns: tuple[str, ...]
    before: tuple[Any, ...]
    rows: tuple[Influence, ...]
    witnesses: int
    how: Literal["closed form", "re-execution"]
    why: str
    uncertain: tuple[str, ...]


class _NoClosedFormError(Exception):
    """The row is not one of groups whose aggregates have a closed form."""


def influences(replayer: Replayer, runs_max: int) -> Influences:
    """The influence of each witness of the requested row.

    Args:
        replayer: of one row.
        runs_max: where there is no closed form, so many witnesses are left out, one after the other.

    Raises:
        RefusedError: several rows are requested, or the plan can't be computed without a row.
        ChangedSourceError: a source was written meanwhile.
        BudgetError: it takes more than the query may.
    """
    witnesses = _witnesses(replayer)
    try:
        return _closed(replayer, witnesses, COMBINED_MAX)
    except _NoClosedFormError as reason:
        why = str(reason)
    rows = tuple(_by_running(replayer, witnesses[:runs_max]))
    before = replayer.requested[0].values
    uncertain = replayer.uncertain
    return Influences(
        replayer.columns, before, rows, len(witnesses), "re-execution", why, uncertain
    )


def influences_in_closed_form(replayer: Replayer, combined_max: int = COMBINED_MAX) -> Influences:
    """The influence of each witness of the requested row, without running the plan again.

    Args:
        replayer: of one row.
        combined_max: rows of its group whose values are read.

    Raises:
        RefusedError: several rows are requested, there are more witnesses, or no closed form.
        ChangedSourceError: a source was written meanwhile.
        BudgetError: it takes more than the query may.
    """
    witnesses = _witnesses(replayer)
    if len(witnesses) > combined_max:
        raise RefusedError(f"the row is made from more than {combined_max:,} rows")
    try:
        return _closed(replayer, witnesses, combined_max)
    except _NoClosedFormError as reason:
        raise RefusedError(f"the influence of rows has no closed form here: {reason}") from reason


def _witnesses(replayer: Replayer) -> list[Witness]:
    if len(replayer.requested) != 1:
        raise RefusedError(
            f"the influence on one row is computed, and these are {len(replayer.requested):,}"
        )
    return sorted(
        {
            (path, at)
            for (_, path), ordinals in replayer.witnesses.items()
            for at in ordinals.tolist()
        }
    )


# -- in closed form --------------------------------------------------------------------------------


def _closed(replayer: Replayer, witnesses: Sequence[Witness], combined_max: int) -> Influences:
    rows = tuple(_in_closed_form(replayer, witnesses, combined_max))
    before = replayer.requested[0].values
    return Influences(replayer.columns, before, rows, len(witnesses), "closed form", "", ())


def _in_closed_form(
    replayer: Replayer, witnesses: Sequence[Witness], combined_max: int
) -> Iterator[Influence]:
    if replayer.reasons:
        raise _NoClosedFormError(replayer.reasons[0])
    number, aggregate = _last_aggregate(replayer)
    columns = [_combined(replayer, number, column.id) for column in replayer.recipe.columns]
    calls = {n: column for n, column in enumerate(columns) if isinstance(column, Call)}
    try:
        terms = [_term(call) for call in calls.values()]
        combined = replayer.combined(number, terms, combined_max)
    except RefusedError as refused:
        raise _NoClosedFormError(str(refused)) from refused
    rows_of = _rows_of_witnesses(combined.made_from)
    if rows_of.keys() != set(witnesses):
        # Else a witness that is not found would seem to change nothing.
        raise _NoClosedFormError("the values of the group are not those of the row's witnesses")
    functions = {}
    for (n, call), column in zip(calls.items(), combined.terms, strict=True):
        (values,) = zip(*values_of_rows(column), strict=True) if column.num_rows else ((),)
        kind = column.schema.field(0).type
        function = aggregate_of(call.fn, values, kind, replayer.recipe.columns[n].type)
        if function is None:
            raise _NoClosedFormError(f"{call.fn} of {kind} has no closed form")
        functions[n] = function
    _check_before(replayer, {n: function(()) for n, function in functions.items()})
    before = replayer.requested[0].values
    for witness in witnesses:
        current_budget().check()
        rows = rows_of[witness]
        if aggregate.keys and len(rows) == len(combined.made_from):
            yield Influence(witness, None, (True,) * len(before))
            continue
        found = {n: function(rows) for n, function in functions.items()}
        yield Influence(
            witness,
            tuple(found[n].value if n in found else value for n, value in enumerate(before)),
            tuple(found[n].sure if n in found else True for n in range(len(before))),
        )


def _last_aggregate(replayer: Replayer) -> tuple[int, Aggregate]:
    plan = replayer.recipe.plan
    number = len(plan) - 1
    while isinstance(node := plan[number], Project | Sort):
        number = node.input
    if not isinstance(node, Aggregate):
        raise _NoClosedFormError("the row is not a group as the last aggregate gives it")
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
            raise _NoClosedFormError("a column is computed from aggregates")
        number, column = node.input, expression.id
    assert isinstance(node, Aggregate)
    if expression in node.keys or isinstance(expression, Constant):
        return expression
    if (
        not isinstance(expression, Call)
        or expression.fn not in EXTREMES_AND_SUMS
        or expression.distinct
    ):
        raise _NoClosedFormError("a column is no plain sum, count, average, minimum or maximum")
    if expression.fn != "count" and len(expression.args) != 1:
        raise _NoClosedFormError(f"{expression.fn} has several arguments")
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
        raise _NoClosedFormError("the values of the group do not give the job's row")


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


# -- by running the plan again ---------------------------------------------------------------------


def _by_running(replayer: Replayer, witnesses: Sequence[Witness]) -> Iterator[Influence]:
    identity = replayer.requested[0].identity
    sources = sorted({source for source, _ in replayer.witnesses})
    if replayer.reasons:
        for witness in witnesses:
            yield _one_run(replayer, witness, identity, sources, others=True)
        return
    with replayer.holding_witnesses():
        for witness in witnesses:
            yield _one_run(replayer, witness, identity, sources, others=False)


def _one_run(
    replayer: Replayer,
    witness: Witness,
    identity: tuple[Any, ...],
    sources: Sequence[int],
    *,
    others: bool,
) -> Influence:
    current_budget().check()
    path, ordinal = witness
    left_out: SourceRows = {(source, path): np.array([ordinal], np.uint64) for source in sources}
    rows = left_out if others else without(replayer.witnesses, left_out)[0]
    found = [row for row in replayer.outcome(rows, others=others) if row.identity == identity]
    if len(found) > 1:
        raise RefusedError("several rows are made from the same rows: which one stays is not known")
    sure = (True,) * len(replayer.columns)
    return Influence(witness, found[0].values if found else None, sure)
