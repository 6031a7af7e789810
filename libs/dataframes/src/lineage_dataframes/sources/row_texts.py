"""Rows that stand in no file, as JSON text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lineage_core.recipe.plan import Literal, Node, Range, Values
from lineage_dataframes.sources.unknown_value import as_json

JSON_TYPES = {"boolean", "tinyint", "smallint", "int", "bigint"}
"""Types whose constants read as JSON's."""

TEXT_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of ``to_json`` for the text of a row. Spark's own formats leave out what is shorter than a millisecond, so that
different rows would look the same."""


def text_of_row(columns: Sequence[str], row: Sequence[Any]) -> str:
    """A row of columns."""
    return json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, default=as_json)


def json_of_row(columns: Sequence[str], row: Sequence[Any] | None) -> Any:
    """The values of that text by column, as JSON has them; None for no row."""
    return None if row is None else json.loads(text_of_row(columns, row))


def text_of_plan_row(node: Node, ordinal: int) -> str | None:
    """A row that stands in a plan; None where the plan does not say it."""
    names = [column.name for column in node.columns]
    if isinstance(node, Range):
        return text_of_row(names, [node.start + ordinal * node.step])
    if not isinstance(node, Values):
        return None
    return text_of_row(names, [_literal_value(literal) for literal in node.rows[ordinal]])


def _literal_value(literal: Literal) -> Any:
    if literal.value is not None and literal.type in JSON_TYPES:
        return json.loads(literal.value)
    return literal.value
