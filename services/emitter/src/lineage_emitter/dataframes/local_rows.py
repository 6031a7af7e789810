"""Rows of which a program makes a DataFrame: recipes carry them where they are few.

To Spark they are an RDD like any other (``createDataFrame`` of a list deals them out), so they are kept when the
frame is made, by the number of its RDD.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import RDD

from lineage_core.recipe.plan import Literal
from lineage_emitter import scope
from lineage_emitter.dataframes import rdd_rows
from lineage_emitter.dataframes.array_frames import frame_of_array, is_array_of_rows
from lineage_emitter.open_sessions import open_session_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

ROWS_MAX = 1000
"""Rows of a local table that a recipe carries; more would make it large."""
STORED_ROWS_MAX = 100_000
"""Rows of all frames of a SparkContext that are kept: those of the oldest frames go first."""
_STORED = "_lineage_local_rows"
_CLASSES: dict[str, type] = {
    "tinyint": int, "smallint": int, "int": int, "bigint": int, "float": float, "double": float,
    "boolean": bool, "string": str, "date": datetime.date, "decimal": decimal.Decimal,
    "timestamp": datetime.datetime, "timestamp_ntz": datetime.datetime,
}  # fmt: skip
"""Of values by type. What Spark makes of others in such a column (NULL, a text) is not assumed."""

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""Of whole numbers: Spark cuts off what is larger where types are not checked."""

LocalRows = tuple[tuple[str, ...], tuple[tuple[Literal, ...], ...]]
"""The types of columns, and rows."""


def hooked_create_dataframe(stock: Any) -> Any:
    """``createDataFrame``, after its arguments are sorted out: it keeps rows that are not an RDD's.

    What is kept of an RDD's rows (`kept`) is remembered.
    """

    @functools.wraps(stock)
    def method(self: Any, data: Any, schema: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(data, RDD):
            rdd_rows.set_current_rows(None)
            frame = stock(self, data, schema, *arguments, **named)
            rdd_rows.attach_current_rows(frame)
            return frame
        session = open_session_of(self.sparkContext) if is_array_of_rows(data) else None
        if session is not None:
            with scope.suspended():
                return frame_of_array(session, self, data, schema)
        rows = data if isinstance(data, list) else list(data)
        frame = stock(self, rows, schema, *arguments, **named)
        # What can't be kept is an RDD's to recipes, and the verdict says so.
        with contextlib.suppress(Exception), scope.suspended():
            store_rows(frame, rows, schema)
        return frame

    return method


def store_rows(frame: DataFrame, data: Sequence[Any], schema: Any) -> None:
    """Keep the rows that ``frame`` was made of, as the program gave them: those that a recipe can't carry in a file.

    Raises:
        RowsNotStoredError: they are not kept.
    """
    from pyspark.sql.types import DataType, StructType, _create_converter

    struct = frame.schema
    bare = isinstance(schema, DataType) and not isinstance(schema, StructType)
    converter = _create_converter(struct)

    def internal(record: Any) -> Any:
        return struct.toInternal(converter((record,) if bare else record))

    if len(data) <= ROWS_MAX and _store_literals(frame, map(internal, data)):
        return
    session = open_session_of(frame.sparkSession.sparkContext)
    if session is not None:
        rdd_rows.store_list(session, frame, map(internal, data))


def _store_literals(frame: DataFrame, data: Iterable[Any]) -> bool:
    """Keep rows as constants; False where some have no form as such."""
    struct = frame.schema
    types = tuple(field.dataType.simpleString() for field in struct)
    rows: list[tuple[Literal, ...]] = []
    for internal_row in data:
        row = literals(struct.fromInternal(internal_row), types)
        if row is None:
            return False
        rows.append(row)
    plan: Any = frame._jdf.queryExecution().analyzed()
    stored = _stored_rows(frame.sparkSession.sparkContext)
    stored[int(plan.rdd().id())] = types, tuple(rows)
    while (
        len(stored) > 1
        and sum(len(rows_held) for _, rows_held in stored.values()) > STORED_ROWS_MAX
    ):
        stored.popitem(last=False)
    return True


def local_rows_of(sc: SparkContext, rdd: int) -> LocalRows | None:
    """The rows of a frame that was made of an RDD of that number; None where they are not kept."""
    return _stored_rows(sc).get(rdd)


def _stored_rows(sc: SparkContext) -> OrderedDict[int, LocalRows]:
    stored: OrderedDict[int, LocalRows] = sc.__dict__.setdefault(_STORED, OrderedDict())
    return stored


def literals(row: Sequence[Any], types: Sequence[str]) -> tuple[Literal, ...] | None:
    """A row as constants; None where a recipe has no form for one."""
    constants = tuple(literal(value, kind) for value, kind in zip(row, types, strict=True))
    return (
        tuple(constant for constant in constants if constant is not None)
        if None not in constants
        else None
    )


def literal(value: Any, kind: str) -> Literal | None:
    """A Python value from Spark as a constant; None where a recipe has no form for it."""
    if value is None:
        return Literal(None, kind)
    if type(value) is not _CLASSES.get(kind.partition("(")[0]):
        return None
    if isinstance(value, int) and value.bit_length() >= _BITS.get(kind, 2):
        return None
    if isinstance(value, bool):
        return Literal(str(value).lower(), kind)
    if isinstance(value, float):
        return Literal(repr(value), kind)
    if isinstance(value, datetime.datetime):
        return Literal(_time(value, kind), kind)
    return Literal(str(value), kind)


def _time(value: datetime.datetime, kind: str) -> str:
    if kind == "timestamp_ntz":
        return value.isoformat(" ")
    from pyspark.sql.types import TimestampType

    since = datetime.timedelta(microseconds=TimestampType().toInternal(value))
    return f"{(datetime.datetime(1970, 1, 1) + since).isoformat(' ')}Z"  # noqa: DTZ001 - UTC, as Z says
