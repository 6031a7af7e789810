"""Aggregates that keep values of one row of a group: ``first``, ``last``, ``any_value``, and so ``dropDuplicates``.

Which row that is, no plan fixes. All such functions of one aggregate take their values from the same row, for Spark
gives and merges the rows of a group to all of them in one order. So where an aggregate has nothing else, an output row *is* a row of
its group, and its values may identify it.
"""

from __future__ import annotations

import dataclasses

from lineage_core.recipe.plan import (
    Aggregate,
    Call,
    Column,
    Expression,
    OpaqueExpression,
    children_of,
)
from lineage_dataframes.rewrite.expressions import columns_in
from lineage_dataframes.rewrite.function_names import AGGREGATES

FIRST_AND_LAST = ("first", "last")
"""How recipes name the value of the first or last row, NULL or not."""

ROW_CHOICES = {*FIRST_AND_LAST, "First", "Last"}
"""And those that pass over NULLs or are filtered (of old recipes, it isn't known): columns may be of several rows."""

ANY_ROW_OF_GROUP = "one row of a group was kept, and which one its values don't tell"


def row_expressions(node: Aggregate) -> tuple[Expression, ...] | None:
    """The node's expressions as they are computed from the row that was kept; None where it does more than keep one."""
    names = {choice.name for choice in _row_choices(node)}
    if len(names) != 1 or not names <= set(FIRST_AND_LAST) or reads_all_rows(node):
        return None
    if not all(map(_hides_no_keys, node.expressions)):
        return None
    return tuple(_value_in_row(expression) for expression in node.expressions)


def keeps_some_rows(node: Aggregate) -> bool:
    """Whether the node's values are of one or some rows of a group, not of all."""
    return bool(_row_choices(node)) and not reads_all_rows(node)


def reads_all_rows(node: Aggregate) -> bool:
    """Whether a function of the node combines all rows of a group."""
    keys = frozenset(id_ for key in node.keys for id_ in columns_in(key))
    return any(_combines_rows(expression, keys) for expression in node.expressions)


def _row_choices(node: Aggregate) -> list[OpaqueExpression]:
    choices, pending = [], list(node.expressions)
    while pending:
        expression = pending.pop()
        if _is_choice(expression):
            assert isinstance(expression, OpaqueExpression)
            choices.append(expression)
        else:
            pending.extend(children_of(expression))
    return choices


def _is_choice(expression: Expression) -> bool:
    return isinstance(expression, OpaqueExpression) and expression.name in ROW_CHOICES


def _combines_rows(expression: Expression, keys: frozenset[int]) -> bool:
    """Whether an expression holds an aggregate function that is none of `ROW_CHOICES`: it reads what is no key."""
    if _is_choice(expression):
        return False
    if isinstance(expression, Call) and expression.fn in AGGREGATES:
        return True
    if isinstance(expression, Column):
        return expression.id not in keys
    return any(_combines_rows(part, keys) for part in children_of(expression))


def _hides_no_keys(expression: Expression) -> bool:
    """Whether no function that a recipe can't say reads a key: it may be an aggregate, too."""
    if _is_choice(expression):
        return True
    if isinstance(expression, OpaqueExpression) and any(map(_reads_keys, expression.args)):
        return False
    return all(map(_hides_no_keys, children_of(expression)))


def _reads_keys(expression: Expression) -> bool:
    if _is_choice(expression):
        return False
    return isinstance(expression, Column) or any(map(_reads_keys, children_of(expression)))


def _value_in_row(expression: Expression) -> Expression:
    if _is_choice(expression):
        assert isinstance(expression, OpaqueExpression)
        return expression.args[0]
    if isinstance(expression, Call | OpaqueExpression):
        return dataclasses.replace(expression, args=tuple(map(_value_in_row, expression.args)))
    return expression
