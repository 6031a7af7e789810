"""Names for the rows of a frame that become records of an RDD.

Another run may deal rows out to other partitions and in another order, so a row is named by its values: by a
64-bit hash of them. Equal rows share a name. The hash is one more column of the frame, and stands in the frame's
recipe as any other column: a trace computes it anew.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lineage_core.recipe.document import Output
from lineage_core.recipe.names import ROW_NAME, TO_RDD
from lineage_emitter.dataframes.plans import recipe_of

_HASHED = (
    T.BooleanType,
    T.IntegralType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.StringType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DayTimeIntervalType,
    T.YearMonthIntervalType,
)
"""Types of columns whose values are hashed as they are."""


def named_rows(frame: DataFrame) -> DataFrame:
    """The frame with the name of each row (`ROW_NAME`) as its last column.

    Rows that differ only in columns that names are not made of share one.

    Raises:
        ValueError, RefusedError: its rows can't be traced, or be distinguished.
    """
    if ROW_NAME in frame.schema.json():
        raise ValueError(f"it has a field called {ROW_NAME}, as capture calls the names of rows")
    places = naming_columns(frame)
    if not places:
        raise ValueError("no column of its rows is sure to have the same value in another run")
    fields = frame.schema.fields
    # By place: names of columns may repeat, or hold signs.
    numbered = frame.toDF(*(f"c{position}" for position in range(len(fields))))
    terms = []
    for position in places:
        terms.append(F.col(f"c{position}"))
        if fields[position].nullable:
            # The hash passes over NULLs: (1, NULL) and (NULL, 1) would share one.
            terms.append(F.col(f"c{position}").isNull())
    named = numbered.select("*", F.xxhash64(*terms).alias(ROW_NAME))
    return named.toDF(*frame.columns, ROW_NAME)


def naming_columns(frame: DataFrame) -> list[int]:
    """Places of the columns that names are made of: all that Spark hashes and that every run gives the same.

    Raises:
        ValueError, RefusedError: the frame's rows can't be traced.
    """
    from lineage_dataframes.rewrite.deterministic import deterministic_columns

    recipe = recipe_of(frame, Output(action=TO_RDD))
    kinds = [field.dataType for field in frame.schema.fields]
    deterministic = deterministic_columns(frame.sparkSession, recipe)
    return [position for position in deterministic if _is_hashed(kinds[position])]


def _is_hashed(kind: T.DataType) -> bool:
    if isinstance(kind, T.ArrayType):
        return _is_hashed(kind.elementType)
    if isinstance(kind, T.StructType):
        return all(_is_hashed(field.dataType) for field in kind.fields)
    return isinstance(kind, _HASHED)
