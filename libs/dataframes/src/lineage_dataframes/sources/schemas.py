"""Schemas that are text of somebody else, of recipes and of tables' logs, as PySpark's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType, UserDefinedType

from lineage_core.recipe.document import Source
from lineage_dataframes.errors import RefusedError

NO_COLUMNS = '{"type":"struct","fields":[]}'
"""No columns."""
DEFAULT_METADATA = "EXISTS_DEFAULT"
"""In a field's metadata, the value of rows whose file does not have the column: SQL, which Spark computes."""
ABOUT_FILES = frozenset({"_metadata", "_file", "_pos"})
"""Columns by which readers of files, Delta Lake and Iceberg tell the file and the place of a row."""
_CONSTANT = re.compile(
    r"(?i:(?:(?:date|timestamp(?:_ntz|_ltz)?|x) ?)?'(?:[^'\\$]|\\[^$])*'|[-+]?[0-9.]+(?:e[-+]?[0-9]+)?[a-z]{0,2}|null|true|false)"
)
_WITHOUT_CLASSES: ContextVar[bool] = ContextVar("lineage_without_classes", default=False)
_stock_from_json = UserDefinedType.fromJson


def check_schema(frame: DataFrame) -> None:
    """See that the schema that a table has in its own log is one that :func:`parse_schema_json` takes, and of no class.

    PySpark imports the modules that a schema names wherever it shows a frame's columns, and so does each frame that is made of
    this one: here it is told not to.

    Raises:
        RefusedError: it is not.
    """
    with _without_imports():
        parse_schema_json(frame.schema.json())


def check_names(source: Source, frame: DataFrame) -> None:
    """See that no column of files is called as what Spark's readers say of a row's file: it would stand in its place.

    Raises:
        RefusedError: one is.
    """
    for name in frame.columns:
        if name.lower() in ABOUT_FILES:
            raise RefusedError(
                f"{source.name} has a column {name!r}: rows have no names where a column is called so"
            )


@contextmanager
def _without_imports() -> Iterator[None]:
    token = _WITHOUT_CLASSES.set(True)
    try:
        yield
    finally:
        _WITHOUT_CLASSES.reset(token)


def _from_json(_: type[UserDefinedType], json: dict[str, Any]) -> UserDefinedType:
    if _WITHOUT_CLASSES.get():
        raise RefusedError(
            f"a table has a column of a class, {str(json.get('pyClass'))[:200]!r}, which traces don't import"
        )
    return _stock_from_json(json)


# A program's own types are as they were: just a trace that looks at a table's schema refuses them.
UserDefinedType.fromJson = classmethod(_from_json)  # type: ignore[assignment, method-assign]


def parse_schema_json(text: str, more_text: str = "") -> StructType:
    """The columns of a schema in Spark's JSON form, and those of ``more_text`` where there are any.

    A column of a type that a class makes of another (a user-defined one) has that other type, as its values are kept:
    PySpark would import the module that the text names, and run code that stands in it (Spark 3.5).

    Raises:
        RefusedError: a text is no schema.
    """
    try:
        fields = [
            field
            for schema_json in (text, more_text or NO_COLUMNS)
            for field in json.loads(schema_json)["fields"]
        ]
        schema: StructType = StructType.fromJson(
            _without_classes({"type": "struct", "fields": fields})
        )
    except RefusedError:
        raise
    except Exception as problem:
        # PySpark raises what it comes upon.
        raise RefusedError(f"a source's schema can't be read: {problem}") from problem
    return schema


def _without_classes(raw: Any) -> Any:
    """A type in Spark's JSON form without classes: of each kind just what belongs to it."""
    if isinstance(raw, str):
        return raw
    match raw["type"]:
        case "struct":
            return {"type": "struct", "fields": [_plain_field(field) for field in raw["fields"]]}
        case "array":
            return {**raw, "elementType": _without_classes(raw["elementType"])}
        case "map":
            kinds = {name: _without_classes(raw[name]) for name in ("keyType", "valueType")}
            return {**raw, **kinds}
        case "udt":
            return _without_classes(raw["sqlType"])
        case kind:
            raise RefusedError(f"a source's schema has a type of another kind: {kind!r}")


def _plain_field(raw: Any) -> Any:
    default = raw.get("metadata", {}).get(DEFAULT_METADATA)
    if default is not None and not _CONSTANT.fullmatch(default):
        raise RefusedError(f"a column of a source has a default that is no constant: {default!r}")
    return {**raw, "type": _without_classes(raw["type"])}
