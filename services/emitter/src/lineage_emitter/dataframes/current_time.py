"""The current time in a plan, which is a constant of the plan that ran, and that is often not the frame's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lineage_core.recipe.plan import Attribute, Column, Expression, OpaqueExpression, Project
from lineage_emitter.dataframes.jvm import analysed_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIME_CALL = re.compile(
    r"\b(now|current_timestamp|current_date|current_time|curdate|localtimestamp|unix_timestamp)\("
)
"""Functions that are the time at which Spark optimised the query."""

OWN_PLAN = {"collect", "toPandas", "toArrow", "toLocalIterator", "rdd"}
"""Actions that run the very plan of their frame; others have Spark plan it anew."""

AS_IT_RAN = OWN_PLAN | {"tail", "foreach", "foreachPartition"}
"""Actions that run the very plan of their frame, or that of another which has it as it ran."""

_SEPARATOR = "\u0001"
_NUMBER = re.compile(r"#(\d+)L?\b")
_LAST_NUMBER = re.compile(r"#(\d+)L?$")


def current_time_columns(frame: DataFrame) -> frozenset[int]:
    """The frame's columns that were made from the current time, just above all else that it does.

    Raises:
        ValueError: the current time stands elsewhere, where it may decide which rows there are.
    """
    text = analysed_text(frame)
    if not TIME_CALL.search(text):
        return frozenset()
    lists: list[list[str]] = []
    plan: Any = frame._jdf.queryExecution().analyzed()
    while plan.getClass().getSimpleName() == "Project":
        lists.append(plan.projectList().mkString(_SEPARATOR).split(_SEPARATOR))
        plan = plan.child()
    time_columns: set[int] = set()
    for listed in reversed(lists):
        for expression in listed:
            output_number = _LAST_NUMBER.search(expression)
            read = {int(number) for number in _NUMBER.findall(expression)}
            if output_number and (TIME_CALL.search(expression) or read & time_columns):
                time_columns.add(int(output_number[1]))
    seen = sum(
        len(TIME_CALL.findall(expression_text)) for listed in lists for expression_text in listed
    )
    if seen != len(TIME_CALL.findall(text)):
        raise ValueError("the time at which it ran decides on rows, and is not known afterwards")
    return frozenset(time_columns)


def without(columns: tuple[Attribute, ...], unknown: frozenset[int], input_node: int) -> Project:
    """A projection of a node (number ``input_node`` of the plan) with these columns, in which some are unknown."""
    values: list[Expression] = [
        OpaqueExpression("current_timestamp", "the time at which it ran", (), column.type)
        if column.id in unknown
        else Column(column.id)
        for column in columns
    ]
    return Project(columns, input_node, tuple(values))
