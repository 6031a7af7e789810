"""Rows as programs give them, and conditions that rows of an output are these.

What has names (a ``Row``, a dictionary, a row of pandas, a named tuple) is matched by its names, and may have some of the
columns; a tuple or list is matched by position, and has all of them.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from lineage_dataframes.errors import RowError
from lineage_dataframes.rewrite.group_keys import struct_fields
from lineage_dataframes.rewrite.python_values import INTEGER_BITS, WallClock, to_column_value
from lineage_dataframes.rewrite.values import NamedColumn, column_index, parse_value
from lineage_dataframes.spark import literals

GivenRow = Sequence[Any] | Mapping[str, Any]
"""What stands for a row: see above. Rows of pandas are accepted, too."""

ROW_FORMS = "a row is a Row, a dictionary, a row of pandas, a tuple or a list"


@dataclass(frozen=True)
class RowValues:
    """The values of a row by the places of their columns.

    ``nan_is_null``: NaN may stand for NULL, as it does in pandas. ``has_all_columns``: of the output.
    """

    values: Mapping[int, Any]
    nan_is_null: bool
    has_all_columns: bool


def row_values(row: Any, names: Sequence[str], owner: str = "the output") -> RowValues:
    """The values of a row of columns that are called ``names``; ``owner``: what has them, for errors.

    Raises:
        RowError: it names other columns, or one of several of a name; it has no names and not as many values.
    """
    names_and_values = _names_and_values(row)
    if names_and_values is None:
        if isinstance(row, str | bytes) or not isinstance(row, Sequence | np.ndarray):
            raise RowError(f"{type(row).__name__} is no row: {ROW_FORMS}")
        values = list(row)
        if len(values) != len(names):
            raise RowError(f"{owner} has {len(names)} columns, not {len(values)}")
        return RowValues(dict(enumerate(values)), isinstance(row, np.ndarray), has_all_columns=True)
    requested_names, values, loose = names_and_values
    if requested_names == list(names):
        # Also where several columns have one name.
        return RowValues(dict(enumerate(values)), loose, has_all_columns=True)
    if not requested_names:
        raise RowError(f"the row has no columns; there are {', '.join(names)}")
    values_by_column: dict[int, Any] = {}
    for name, value in zip(requested_names, values, strict=True):
        column_number = column_index(names, name)
        if column_number in values_by_column:
            raise RowError(f"the row has column {names[column_number]!r} twice")
        values_by_column[column_number] = value
    return RowValues(values_by_column, loose, has_all_columns=len(values_by_column) == len(names))


def _names_and_values(row: Any) -> tuple[list[Any], list[Any], bool] | None:
    """The names and values of a row that has names, and whether it is `RowValues.nan_is_null`."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(row, pandas.Series):
        return list(row.index), [row.iloc[place] for place in range(len(row))], True
    if isinstance(row, Mapping):
        return list(row.keys()), list(row.values()), True
    if isinstance(row, tuple):
        if hasattr(row, "__fields__"):
            return list(row.__fields__), list(row), False
        if hasattr(row, "_fields"):
            return list(row._fields), list(row), True
    return None


@dataclass
class RowConditions:
    """The conditions that a row has some values; ``not_compared``: the columns whose values can't be compared."""

    session: SparkSession
    nan_is_null: bool
    terms: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)

    def add(self, column: NamedColumn, value: Any) -> None:
        """A column has a value; of a struct, its fields.

        Raises:
            RowError: it is no value of the column.
        """
        if column.kind.startswith("struct<`"):
            self._add_struct(column, value)
        elif not literals.comparable(column.kind):
            self.not_compared.append(column.name)
        else:
            self.terms.append(self._value_condition(column, value))

    def _add_struct(self, column: NamedColumn, value: Any) -> None:
        if value is None:
            self.terms.append(f"{column.text} IS NULL")
            return
        self.terms.append(f"{column.text} IS NOT NULL")
        fields = struct_fields(column.kind)
        inner = row_values(value, [name for name, _ in fields], column.name)
        for place, field_value in inner.values.items():
            name, kind = fields[place]
            text = f"{column.text}.{literals.quoted_name(name)}"
            self.add(NamedColumn(f"{column.name}.{name}", text, kind), field_value)

    def _value_condition(self, column: NamedColumn, value: Any) -> str:
        if isinstance(value, str) and not column.kind.startswith("string"):
            value = parse_value(self.session, str(value), column)
        typed_value = to_column_value(value, column.kind, column.name)
        if isinstance(typed_value, WallClock) and column.kind == "timestamp":
            # Where clocks are put back, the same time comes twice. Spark takes a comparison with a time without zone
            # for one with the earlier of the two.
            seconds, dot, micros = typed_value.isoformat(" ").partition(".")
            shown = f"{seconds}{dot}{micros.rstrip('0')}"
            return f"CAST({column.text} AS STRING) <=> {literals.string_constant(shown)}"
        if isinstance(typed_value, float) and column.kind in INTEGER_BITS:
            return f"CAST({column.text} AS DOUBLE) <=> {literals.constant(typed_value, 'double')}"
        is_equal = literals.value_condition(column.text, typed_value, column.kind)
        if self.nan_is_null and isinstance(typed_value, float) and math.isnan(typed_value):
            return literals.any_of([is_equal, f"{column.text} IS NULL"])
        return is_equal


@dataclass
class RequestedRows:
    """Requested rows, each with the conditions that a row of the output is that row.

    ``missing``: those that the output does not have, as text. ``reasons``: why rows that were found may be others.
    """

    rows: Sequence[RowValues]
    conditions: list[RowConditions] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def _count_by_condition(self) -> Counter[str]:
        """How many of the rows have a condition: they differ in nothing that can be compared."""
        return Counter(literals.all_of(row_conditions.terms) for row_conditions in self.conditions)

    @property
    def condition(self) -> str:
        """That a row is one of them."""
        return literals.any_of(list(self._count_by_condition))

    @property
    def marks(self) -> list[str]:
        """Columns that say which of several conditions a row fulfils."""
        many = self._count_by_condition
        return [f"{condition} AS m{n}" for n, condition in enumerate(many)] if len(many) > 1 else []

    def check_counts(self, table: pa.Table, subject: str) -> None:
        """See which rows of the output have been found, with `marks`; ``subject`` they are, for people."""
        requested_counts = self._count_by_condition
        counts = [table.num_rows]
        if len(requested_counts) > 1:
            counts = [pc.sum(table[f"m{n}"]).as_py() or 0 for n in range(len(requested_counts))]
        counts_by_condition = dict(zip(requested_counts, counts, strict=True))
        for row, conditions in zip(self.rows, self.conditions, strict=True):
            condition = literals.all_of(conditions.terms)
            remark = (
                f" (not compared: {', '.join(conditions.not_compared)})"
                if conditions.not_compared
                else ""
            )
            if not counts_by_condition[condition]:
                self.missing.append(", ".join(f"{value!r}" for value in row.values.values()))
            elif counts_by_condition[condition] > requested_counts[condition]:
                self.reasons.append(
                    f"{counts_by_condition[condition]} {subject} have these values{remark}"
                )
            elif remark and not row.has_all_columns:
                # Whole rows are taken for rows of the output.
                self.reasons.append(f"the row may be another than the one that is meant{remark}")
