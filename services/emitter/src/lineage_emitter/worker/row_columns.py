"""Rows on their way from Python to the JVM, as columns of Arrow: with the values that the JVM makes of them.

Rows are in PySpark's internal form (``StructType.toInternal``): days, microseconds, tuples. What Spark makes of a
value of another class than its column's (NULL, a text) is not known: such rows are not stored.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import types as T

from lineage_emitter.errors import RowsNotStoredError

Array: TypeAlias = "pa.Array[Any]"
_Leaf = tuple[frozenset[type], pa.DataType, pa.DataType]
"""Classes of its values, what they are in Arrow, and what that stands for."""


def _leaf(kind: pa.DataType, *classes: type, meaning: pa.DataType | None = None) -> _Leaf:
    return frozenset((*classes, type(None))), kind, meaning or kind


_LEAVES: dict[type[T.DataType], _Leaf] = {
    T.ByteType: _leaf(pa.int8(), int),
    T.ShortType: _leaf(pa.int16(), int),
    T.IntegerType: _leaf(pa.int32(), int),
    T.LongType: _leaf(pa.int64(), int),
    T.FloatType: _leaf(pa.float32(), float),
    T.DoubleType: _leaf(pa.float64(), float),
    T.BooleanType: _leaf(pa.bool_(), bool),
    T.StringType: _leaf(pa.string(), str),
    T.BinaryType: _leaf(pa.binary(), bytes, bytearray),
    T.DateType: _leaf(pa.int32(), int, meaning=pa.date32()),
    T.TimestampType: _leaf(pa.int64(), int, meaning=pa.timestamp("us", "UTC")),
    T.TimestampNTZType: _leaf(pa.int64(), int, meaning=pa.timestamp("us")),
}


def check_storable(struct: T.StructType) -> None:
    """Check that rows of a type can be stored.

    Raises:
        RowsNotStoredError: they can't.
    """
    if not struct.fields:
        raise RowsNotStoredError("they have no columns")
    _check(struct)


def _check(kind: T.DataType) -> None:
    match kind:
        case T.StructType():
            if len({name.lower() for name in kind.names}) < len(kind.fields):
                raise RowsNotStoredError("columns of theirs share a name")
            for field in kind.fields:
                _check(field.dataType)
        case T.ArrayType():
            _check(kind.elementType)
        case T.MapType():
            _check(kind.keyType)
            _check(kind.valueType)
        case T.DecimalType():
            pass
        case _ if type(kind) not in _LEAVES or kind.simpleString() not in _parameterless_types():
            raise RowsNotStoredError(f"values of type {kind.simpleString()} are not kept")


def _parameterless_types() -> set[str]:
    """Types without parameters: a text may have an order of its own, say."""
    return {kind().simpleString() for kind in _LEAVES}


def table_of(rows: Sequence[tuple[Any, ...]], struct: T.StructType) -> pa.Table:
    """Rows as a table.

    Raises:
        RowsNotStoredError: a value is of another class than its column's.
        pa.ArrowException, UnicodeError, OverflowError: a value does not fit.
    """
    columns = _fields(rows, struct)
    return pa.Table.from_arrays(columns, names=struct.names)


def _fields(rows: Sequence[tuple[Any, ...]], struct: T.StructType) -> list[Array]:
    _check_classes(rows, tuple)
    if set(map(len, rows)) - {len(struct.fields)}:
        raise RowsNotStoredError(f"a row has not {len(struct.fields)} values")
    columns = zip(*rows, strict=True) if rows else ((),) * len(struct.fields)
    return [_column(c, f.dataType) for c, f in zip(columns, struct.fields, strict=True)]


def _column(values: Sequence[Any], kind: T.DataType) -> Array:
    match kind:
        case T.StructType():
            empty = (None,) * len(kind.fields)
            filled = [empty if value is None else value for value in values]
            missing = pa.array([value is None for value in values], pa.bool_())
            children = _fields(filled, kind)
            return pa.StructArray.from_arrays(children, kind.names, mask=missing)
        case T.ArrayType():
            _check_classes(values, list, type(None))
            items = list(chain.from_iterable(value for value in values if value is not None))
            array = _column(items, kind.elementType)
            listed: Array = pa.ListArray.from_arrays(_offsets(values), array)
            return listed
        case T.MapType():
            _check_classes(values, dict, type(None))
            present = [value for value in values if value is not None]
            keys = _column(list(chain.from_iterable(present)), kind.keyType)
            items = list(chain.from_iterable(value.values() for value in present))
            mapped: Array = pa.MapArray.from_arrays(
                _offsets(values), keys, _column(items, kind.valueType)
            )
            return mapped
        case T.DecimalType():
            _check_classes(values, decimal.Decimal, type(None))
            return pa.array(values, pa.decimal128(kind.precision, kind.scale))
        case _:
            classes, stored, meaning = _LEAVES[type(kind)]
            _check_classes(values, *classes)
            array = pa.array(values, stored)
            return array if meaning == stored else array.cast(meaning)


def _offsets(values: Sequence[Any]) -> Any:
    """Where each list or map begins among the items of all; NULL where there is none."""
    begins = list(accumulate((0 if value is None else len(value) for value in values), initial=0))
    marked = [at if value is not None else None for at, value in zip(begins, values, strict=False)]
    return pa.array([*marked, begins[-1]], pa.int32())


def _check_classes(values: Iterable[Any], *classes: type) -> None:
    others = set(map(type, values)).difference(classes)
    if others:
        names = ", ".join(sorted(kind.__name__ for kind in others))
        raise RowsNotStoredError(f"a column holds values of class {names}")
