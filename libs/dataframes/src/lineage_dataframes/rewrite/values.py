"""Conditions that columns have values which somebody typed."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from lineage_dataframes.errors import RefusedError, RowError
from lineage_dataframes.spark import literals

ColumnValues = Sequence[tuple[str, str | None]]
"""Columns by name and the text of their values; None is NULL."""


@dataclass(frozen=True)
class NamedColumn:
    """A column: what people call it, its text in a query, its type."""

    name: str
    text: str
    kind: str


def select_columns(
    columns: Sequence[NamedColumn], values: ColumnValues
) -> list[tuple[NamedColumn, str | None]]:
    """The columns that are meant, each with its value.

    Raises:
        RowError: there is no such column, or several.
    """
    names = [column.name for column in columns]
    return [(columns[column_index(names, name)], value) for name, value in values]


def values_condition(session: SparkSession, terms: Sequence[tuple[NamedColumn, str | None]]) -> str:
    """The condition that columns have these values; doubles match up to `literals.RELATIVE_TOLERANCE`.

    Raises:
        RowError: a text is no value of its column's type.
        RefusedError: values of such a type can't be compared.
    """
    return literals.all_of([_value_condition(session, column, value) for column, value in terms])


def column_index(names: Sequence[str], name: Any) -> int:
    """The place of the column that a name means; where none is called just that, whatever its case.

    Raises:
        RowError: there is no such column, or several.
    """
    indexes = [index for index, column_name in enumerate(names) if column_name == name]
    if not indexes and isinstance(name, str):
        indexes = [
            index for index, column_name in enumerate(names) if column_name.lower() == name.lower()
        ]
    if not indexes:
        raise RowError(f"there is no column {name!r}; there are {', '.join(names)}")
    if len(indexes) > 1:
        raise RowError(f"several columns are called {name!r}")
    return indexes[0]


def _value_condition(session: SparkSession, column: NamedColumn, value: str | None) -> str:
    if not literals.comparable(column.kind):
        raise RefusedError(f"values of {column.name} ({column.kind}) can't be compared")
    if value is None:
        return f"{column.text} IS NULL"
    return literals.value_condition(column.text, parse_value(session, value, column), column.kind)


def parse_value(session: SparkSession, text: str, column: NamedColumn) -> Any:
    """The value of a column that a text says.

    Raises:
        RowError: it says none.
    """
    if column.kind.startswith("string"):
        return text
    query = f"SELECT try_cast({literals.string_constant(text)} AS {column.kind}) AS value"
    value = session.sql(query).collect()[0].value
    rounded = isinstance(value, decimal.Decimal) and value != decimal.Decimal(text.strip())
    if value is None or rounded:
        raise RowError(f"{text!r} is no value of {column.name}, which is {column.kind}")
    return value
