"""Rows as programs give them, and conditions that rows of an output are these.

What has names (a ``Row``, a dictionary, a row of pandas, a named tuple) is taken by its names, and may have some of the
columns; a tuple or list is taken by position, and has all of them.
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
"""What stands for a row: see above. Rows of pandas are taken, too."""

FORMS = "a row is a Row, a dictionary, a row of pandas, a tuple or a list"


@dataclass(frozen=True)
class Placed:
    """The values of a row by the places of their columns.

    ``loose``: NaN may stand for NULL, as it does in pandas. ``whole``: the row has all columns.
    """

    values: Mapping[int, Any]
    loose: bool
    whole: bool


def placed(row: Any, names: Sequence[str], of: str = "the output") -> Placed:
    """The values of a row of columns that are called ``names``; ``of``: what has them, for errors.

    Raises:
        RowError: it names other columns, or one of several of a name; it has no names and not as many values.
    """
    found = _named(row)
    if found is None:
        if isinstance(row, str | bytes) or not isinstance(row, Sequence | np.ndarray):
            raise RowError(f"{type(row).__name__} is no row: {FORMS}")
        values = list(row)
        if len(values) != len(names):
            raise RowError(f"{of} has {len(names)} columns, not {len(values)}")
        return Placed(dict(enumerate(values)), isinstance(row, np.ndarray), whole=True)
    given, values, loose = found
    if given == list(names):
        # Also where several columns have one name.
        return Placed(dict(enumerate(values)), loose, whole=True)
    if not given:
        raise RowError(f"the row has no columns; there are {', '.join(names)}")
    by_place: dict[int, Any] = {}
    for name, value in zip(given, values, strict=True):
        place = column_index(names, name)
        if place in by_place:
            raise RowError(f"the row has column {names[place]!r} twice")
        by_place[place] = value
    return Placed(by_place, loose, whole=len(by_place) == len(names))


def _named(row: Any) -> tuple[list[Any], list[Any], bool] | None:
    """The names and values of a row that has names, and whether it is `Placed.loose`."""
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
class Matching:
    """The conditions that a row has some values; ``left``: the columns whose values can't be compared."""

    session: SparkSession
    loose: bool
    terms: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def add(self, column: NamedColumn, value: Any) -> None:
        """A column has a value; of a struct, its fields.

        Raises:
            RowError: it is no value of the column.
        """
        if column.kind.startswith("struct<`"):
            self._add_struct(column, value)
        elif not literals.comparable(column.kind):
            self.left.append(column.name)
        else:
            self.terms.append(self._same(column, value))

    def _add_struct(self, column: NamedColumn, value: Any) -> None:
        if value is None:
            self.terms.append(f"{column.text} IS NULL")
            return
        self.terms.append(f"{column.text} IS NOT NULL")
        fields = struct_fields(column.kind)
        inner = placed(value, [name for name, _ in fields], column.name)
        for place, held in inner.values.items():
            name, kind = fields[place]
            text = f"{column.text}.{literals.quoted_name(name)}"
            self.add(NamedColumn(f"{column.name}.{name}", text, kind), held)

    def _same(self, column: NamedColumn, value: Any) -> str:
        if isinstance(value, str) and not column.kind.startswith("string"):
            value = parse_value(self.session, str(value), column)
        found = to_column_value(value, column.kind, column.name)
        if isinstance(found, WallClock) and column.kind == "timestamp":
            # Where clocks are put back, the same time comes twice. Spark takes a comparison with a time without zone
            # for one with the earlier of the two.
            whole, dot, micros = found.isoformat(" ").partition(".")
            shown = f"{whole}{dot}{micros.rstrip('0')}"
            return f"CAST({column.text} AS STRING) <=> {literals.string_constant(shown)}"
        if isinstance(found, float) and column.kind in INTEGER_BITS:
            return f"CAST({column.text} AS DOUBLE) <=> {literals.constant(found, 'double')}"
        same = literals.value_condition(column.text, found, column.kind)
        if self.loose and isinstance(found, float) and math.isnan(found):
            return literals.any_of([same, f"{column.text} IS NULL"])
        return same


@dataclass
class Asked:
    """Rows that are asked for, each with the conditions that a row of the output is it.

    ``missing``: those that the output does not have, as text. ``reasons``: why rows that were found may be others.
    """

    rows: Sequence[Placed]
    matching: list[Matching] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def _many(self) -> Counter[str]:
        """How many of the rows have a condition: they differ in nothing that can be compared."""
        return Counter(literals.all_of(one.terms) for one in self.matching)

    @property
    def condition(self) -> str:
        """That a row is one of them."""
        return literals.any_of(list(self._many))

    @property
    def marks(self) -> list[str]:
        """Columns that say which of several conditions a row fulfils."""
        many = self._many
        return [f"{one} AS m{n}" for n, one in enumerate(many)] if len(many) > 1 else []

    def count(self, table: pa.Table, what: str) -> None:
        """See which rows of the output have been found, with `marks`; ``what`` they are, for people."""
        many = self._many
        found = [table.num_rows]
        if len(many) > 1:
            found = [pc.sum(table[f"m{n}"]).as_py() or 0 for n in range(len(many))]
        there = dict(zip(many, found, strict=True))
        for row, matching in zip(self.rows, self.matching, strict=True):
            one = literals.all_of(matching.terms)
            left = f" (not compared: {', '.join(matching.left)})" if matching.left else ""
            if not there[one]:
                self.missing.append(", ".join(f"{value!r}" for value in row.values.values()))
            elif there[one] > many[one]:
                self.reasons.append(f"{there[one]} {what} have these values{left}")
            elif left and not row.whole:
                # Whole rows are taken for rows of the output.
                self.reasons.append(f"the row may be another than the one that is meant{left}")
