"""Conditions that rows have keys which an earlier query gave."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import SparkSession

from lineage_core.recipe.plan import Expression
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import from_arrow

LITERAL_KEYS_MAX = 40
"""Up to this many keys stand in the query as constants, which Spark pushes down to the files."""

VALUES_MAX = 200
"""Up to this many values of a column do."""

INTEGER_SUFFIXES = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}
"""What ends a constant of these types."""


def arrow_types(keys: pa.Table) -> list[str]:
    """The Spark types of a table's columns, as DDL text."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(keys.schema, prefer_timestamp_ntz=True)
    return [field.dataType.simpleString() for field in schema]


def distinct(keys: pa.Table) -> pa.Table:
    """Each row of a table once.

    Raises:
        RefusedError: values of a column can't be compared.
    """
    if not keys.num_columns:
        return keys
    try:
        return keys.group_by(keys.column_names, use_threads=False).aggregate([])
    except pa.ArrowNotImplementedError as problem:
        raise RefusedError(f"values of some keys can't be compared: {problem}") from problem


def has_key(
    session: SparkSession,
    view: str,
    terms: Sequence[str],
    keys: pa.Table,
    *,
    last_operator: Literal["<=>", "<=", ">="] = "<=>",
) -> str:
    """The condition that ``terms`` equal a row of ``keys``, of which there are as many columns.

    NULLs equal, and doubles up to `literals.RELATIVE_TOLERANCE`. ``last_operator``: how the last term compares. ``view``: the name of
    the view that holds many keys.
    """
    kinds = arrow_types(keys)
    places = range(len(terms))
    if keys.num_rows <= LITERAL_KEYS_MAX:
        return literals.any_of(
            [
                literals.all_of(
                    [
                        f"{terms[n]} {last_operator} {literals.constant(value, kinds[n])}"
                        if last_operator != "<=>" and n == places[-1]
                        else literals.value_condition(terms[n], value, kinds[n])
                        for n, value in enumerate(row.values())
                    ]
                )
                for row in keys.to_pylist()
            ]
        )
    matches = [
        f"{terms[n]} {last_operator} k.k{n}"
        if last_operator != "<=>" and n == places[-1]
        else equal_terms(terms[n], f"k.k{n}", kinds[n])
        for n in places
    ]
    equal_indexes = places if last_operator == "<=>" else places[:-1]
    values = [is_among(terms[n], keys.column(n), kinds[n]) for n in equal_indexes]
    if last_operator == "<=>" and all(values) and _is_full_product(keys):
        return literals.all_of(values)
    exists = _exists_in_view(session, view, keys, " AND ".join(matches))
    return literals.all_of([*(condition for condition in values if condition), exists])


def _is_full_product(keys: pa.Table) -> bool:
    """Whether every value of a column is there with every one of each other's."""
    return distinct(keys).num_rows == math.prod(
        len(key_column.unique()) for key_column in keys.columns
    )


def is_among(term: str, values: pa.ChunkedArray[Any], kind: str) -> str:
    """The condition that ``term`` has one of the values, which Spark pushes down further than a row's; none where they are many."""
    if kind in literals.FLOATING_TYPES or not literals.comparable(kind) or "collate" in kind:
        return ""
    unique = values.unique()
    if len(unique) > VALUES_MAX:
        return ""
    try:
        constants = [_constant(value, kind) for value in unique.drop_null().to_pylist()]
    except (RefusedError, ValueError, OverflowError):
        # Python has no such date, or a constant no form.
        return ""
    conditions = [f"{term} IN ({', '.join(constants)})"] if constants else []
    return literals.any_of([*conditions, f"{term} IS NULL"] if unique.null_count else conditions)


def _constant(value: Any, kind: str) -> str:
    """A value's text, short where there is a form for its type."""
    if kind in INTEGER_SUFFIXES and value >= 0:
        return f"{value}{INTEGER_SUFFIXES[kind]}"
    return literals.string_constant(value) if kind == "string" else literals.constant(value, kind)


def matches_key(
    session: SparkSession,
    view: str,
    builder: Builder,
    condition: Expression,
    columns: Sequence[int],
    keys: pa.Table,
    names: Mapping[int, str],
) -> str:
    """A join's condition where the values of ``columns`` are a row of ``keys``.

    ``names``: how other columns are called, where not as usual.
    """
    kinds = arrow_types(keys)
    is_literal = keys.num_rows <= LITERAL_KEYS_MAX
    values = [row.values() for row in keys.to_pylist()] if is_literal else []
    has_zeros_or_nan = any(literals.stored_otherwise(value) for row in values for value in row)
    if is_literal and not has_zeros_or_nan:
        rows = [
            {
                column: literals.constant(value, kind)
                for column, value, kind in zip(columns, row, kinds, strict=True)
            }
            for row in values
        ]
        return literals.any_of([builder.writer({**names, **row}).of(condition) for row in rows])
    key_terms = {column: f"k.k{n}" for n, column in enumerate(columns)}
    return _exists_in_view(
        session, view, keys, builder.writer({**names, **key_terms}).of(condition)
    )


def key_view(session: SparkSession, view: str, keys: pa.Table) -> None:
    """Make a view of keys, with the columns ``k0``, ``k1`` ..."""
    numbered = keys.rename_columns([f"k{n}" for n in range(keys.num_columns)])
    from_arrow(session, numbered).createOrReplaceTempView(view)


def _exists_in_view(session: SparkSession, view: str, keys: pa.Table, condition: str) -> str:
    key_view(session, view, keys)
    return f"EXISTS (SELECT 1 FROM {view} AS k WHERE {condition})"


def equal_terms(first_term: str, second_term: str, kind: str) -> str:
    """The condition that two terms of a type are the same value; NULLs equal, doubles up to `literals.RELATIVE_TOLERANCE`."""
    if kind not in literals.FLOATING_TYPES:
        return f"{first_term} <=> {second_term}"
    is_near = f"abs({first_term} - {second_term}) <= {literals.RELATIVE_TOLERANCE!r} * greatest(abs({first_term}), abs({second_term}))"
    return f"({first_term} <=> {second_term} OR {is_near})"
