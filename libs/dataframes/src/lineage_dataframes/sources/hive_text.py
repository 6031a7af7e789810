"""Text tables of Hive, read as Hive's ``LazySimpleSerDe`` (2.3) reads them, without Hive.

Each line is a row. What a cell means is decided by its exact form: a form whose value is sure is read, one
that is sure to be NULL is NULL, and any other (white space around a number, ``1d``, ``2021-02-30``) is an
error, which refuses the trace. Columns of types whose values are not sure at all are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lineage_core.recipe.document import Source
from lineage_core.recipe.names import HIVE_TEXT
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.sources.schemas import parse_schema_json
from lineage_dataframes.spark.pyspark_parts import SINCE_4

LINE_COLUMN = "__lineage_line"

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""What Hive's reader gives for NULL in a partition column of texts."""

_INTEGERS = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_FLOATING = rf"{_NUMBER}(?:[eE][+-]?[0-9]+)?|[+-]?(?:NaN|Infinity)"
_LIKE_FLOATING = (
    r"[\x00-\x20]*[+-]?(?:NaN|Infinity|0[xX].*|"
    r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)[\x00-\x20]*"
)
_EXACT_DECIMAL = rf"(?=.{{1,38}}\z){_NUMBER}"
_LIKE_DECIMAL = r"[\x00-\x20]*[+-]?\.?[0-9].*"
_DATE = r"(?!1[0-4]|15[0-7]|158[0-2])[1-9][0-9]{3}-[0-9]{1,2}-[0-9]{1,2}"
"""Days of the Gregorian calendar alone: Hive's are of the Julian one before."""
_LIKE_DATE = r"[\x00-\x20]*[^-]{4}-[^-]{1,2}-[^-]{1,2}[\x00-\x20]*"


def check_fields(source: Source, fields: Iterable[str]) -> None:
    """See that the columns that are read are of types whose values are sure.

    Raises:
        RefusedError: one is not.
    """
    if source.format != HIVE_TEXT:
        return
    unsure = {
        field["name"].lower(): _type_name(field)
        for field in json.loads(source.schema)["fields"]
        if not _is_readable(field)
    }
    for name in fields:
        if name.lower() in unsure:
            kind = unsure[name.lower()]
            raise RefusedError(
                f"{source.table or source.name} is text that Hive reads: what its column {name} ({kind}) "
                "holds is known to Hive's own reader alone"
            )


def split_partition_columns(
    columns: StructType, path: str, file: str
) -> tuple[StructType, StructType]:
    """The columns within a file below a table's folder, and those that its folders' names hold."""
    steps = file.removeprefix(path).strip("/").split("/")[:-1]
    folder_columns = {step.partition("=")[0].lower() for step in steps}
    groups = [
        [column for column in columns if (column.name.lower() in folder_columns) == by]
        for by in (False, True)
    ]
    return StructType(groups[0]), StructType(groups[1])


def read_hive_rows(spark: SparkSession, source: Source, paths: list[str]) -> DataFrame:
    """The rows of the table's files, with the hidden column ``_metadata``.

    Raises:
        RefusedError: this Spark lacks what is needed to read them.
    """
    if not SINCE_4:
        raise RefusedError("text tables of Hive are not traced in Spark 3.5")
    fields = [StructField(LINE_COLUMN, StringType())]
    reader = spark.read.format("text")
    if source.partitions:
        fields += parse_schema_json(source.partitions).fields
        reader = reader.option("basePath", source.paths[0])
    # Bytes that are no UTF-8 would be split as others.
    lines = reader.schema(StructType(fields)).load(paths)
    cells = _cells(F.validate_utf8(F.col(LINE_COLUMN)), source)
    columns = [
        _cell_value(F.get(cells, F.lit(place)), field["type"], source).alias(field["name"])
        for place, field in enumerate(json.loads(source.schema)["fields"])
        if _is_readable(field)
    ]
    return lines.select(*columns, *map(_partition_column, fields[1:]), "_metadata")


def _type_name(field: Mapping[str, Any]) -> str:
    """A field's type: char and varchar are texts to Spark, with a mark."""
    kind = field["type"]
    marked = field.get("metadata", {}).get("__CHAR_VARCHAR_TYPE_STRING")
    return str(marked or (kind if isinstance(kind, str) else kind["type"]))


def _is_readable(field: Mapping[str, Any]) -> bool:
    kind = _type_name(field)
    readable = {*_INTEGERS, "float", "double", "boolean", "string", "date"}
    return kind in readable or _DECIMAL.fullmatch(kind) is not None


def _partition_column(field: StructField) -> Column:
    column = F.col(f"`{field.name.replace('`', '``')}`")
    if not isinstance(field.dataType, StringType):
        return column
    return F.coalesce(column, F.lit(DEFAULT_PARTITION)).alias(field.name)


def _cells(line: Column, source: Source) -> Column:
    """A line's cells as they stand there, escapes and all."""
    sep, escape = re.escape(source.options["sep"]), source.options.get("escape", "")
    if not escape:
        return F.split(line, sep, -1)
    mark = re.escape(escape)
    plain = rf"[^{sep}{mark}]*+"
    cell = rf"(?s){sep}({plain}(?:{mark}.{plain})*+(?:{mark}\z)?+)"
    marked = F.concat(F.lit(source.options["sep"]), line)
    return F.regexp_extract_all(marked, F.lit(cell), F.lit(1))


def _cell_value(cell: Column, kind: str, source: Source) -> Column:
    """What a cell is; NULL where it is the table's word for that, or where there is none."""
    if kind == "string":
        value = _unescaped(cell, source.options.get("escape", ""))
    elif kind in _INTEGERS:
        integer = F.regexp_extract(cell, r"\A([+-]?[0-9]+)", 1)
        # ".5" has no digit before the point.
        digits = F.when(integer == "", "0").otherwise(integer)
        value = F.when(_matches(cell, _NUMBER), digits.try_cast(_INTEGERS[kind]))
    elif kind == "boolean":
        value = F.when(_matches(cell, "(?i:true)"), True).when(_matches(cell, "(?i:false)"), False)
    elif kind == "date":
        day = cell.try_cast("date")
        value = _checked_value(
            cell, (_matches(cell, _DATE) & day.isNotNull(), day), _LIKE_DATE, kind
        )
    elif kind in {"float", "double"}:
        number = (_matches(cell, _FLOATING), cell.try_cast(kind))
        value = _checked_value(cell, number, _LIKE_FLOATING, kind)
    else:
        number = (_matches(cell, _EXACT_DECIMAL), cell.try_cast(kind))
        value = _checked_value(cell, number, _LIKE_DECIMAL, kind)
    return F.when(cell != F.lit(source.options["nullValue"]), value)


def _checked_value(
    cell: Column, recognised_form: tuple[Column, Column], like: str, kind: str
) -> Column:
    """A value where its form is ``known_form``, NULL where it is not ``like`` one; elsewhere an error."""
    message = F.concat(
        F.lit("whether Hive reads a "), F.lit(kind), F.lit(" in a cell is not sure: ")
    )
    unsure = F.raise_error(F.concat(message, cell)).cast(kind)
    return F.when(*recognised_form).when(_matches(cell, like), unsure)


def _matches(cell: Column, form: str) -> Column:
    return cell.rlike(rf"(?s)\A(?:{form})\z")


def _unescaped(cell: Column, escape: str) -> Column:
    if not escape:
        return cell
    mark = re.escape(escape)
    parts = F.regexp_extract_all(cell, F.lit(rf"(?s)({mark}.|[^{mark}]++|{mark}\z)"), F.lit(1))

    def plain(part: Column) -> Column:
        escaped = part.startswith(escape) & (F.length(part) > 1)
        return (
            F.when(part == f"{escape}n", "\n")
            .when(part == f"{escape}r", "\r")
            .when(escaped, F.substring(part, 2, 1))
            .otherwise(part)
        )

    return F.array_join(F.transform(parts, plain), "")
