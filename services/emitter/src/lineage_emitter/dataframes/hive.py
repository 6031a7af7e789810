"""Tables that Hive's own reader reads: what of their form a trace must know to read them without Hive."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lineage_core.recipe.names import HIVE_TEXT
from lineage_emitter.dataframes.jvm import pairs_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
_FORM = ("Serde Library: ", "InputFormat: ", "Storage Properties: ")
_SEPARATED = {"field.delim", "serialization.format"}
_NESTED = {"colelction.delim", "collection.delim", "mapkey.delim", "line.delim"}
"""Properties of nested values, which aren't read, and of lines, which can't be others."""
_OF_READER = re.compile(r"(field|line|escape|serialization|skip|columns|timestamp|hive|lazy)\b.*")
"""Properties of a table that its reader may heed as if they were the storage's own."""
_OF_JOB = ("hive.lazysimple.extended_boolean_literal", "textinputformat.record.delimiter")
"""Settings by which lines or booleans are read otherwise."""


class UnreadableError(Exception):
    """Hive alone can read such a table; the message says why."""


def options(spark: SparkSession, metadata: Any) -> dict[str, str]:
    """How the lines of a table (Spark's object) are split.

    Raises:
        UnreadableError: they can't be split without Hive.
    """
    storage = metadata.storage()
    serde, reader = (str(field().getOrElse(None)) for field in (storage.serde, storage.inputFormat))
    if serde != _SERDE or reader != _INPUT:
        raise UnreadableError(f"a table that {serde} reads")
    set_of_job = spark._jsparkSession.sessionState().newHadoopConf()
    others = [name for name in _OF_JOB if set_of_job.get(name) is not None]
    others += filter(_OF_READER.fullmatch, pairs_of(metadata.properties()))
    properties = pairs_of(storage.properties())
    readable_properties = {*_SEPARATED, *_NESTED, "escape.delim", "serialization.null.format"}
    others += sorted(properties.keys() - readable_properties)
    if others:
        raise UnreadableError(f"a text table that is read with {others[0]}")
    csv_options = {
        "sep": _sign(properties.get("field.delim", properties.get("serialization.format", "1"))),
        "nullValue": properties.get("serialization.null.format", r"\N"),
    }
    if "escape.delim" in properties:
        csv_options["escape"] = _sign(properties["escape.delim"])
    return csv_options


def file_format(spark: SparkSession, metadata: Any) -> tuple[str, dict[str, str]]:
    """The format of a Hive table's files, and how they are read; ``hive`` where Hive alone can."""
    serde = str(metadata.storage().serde().getOrElse(None)).lower()
    for kind in ("parquet", "orc"):
        if kind in serde:
            return kind, {}
    try:
        return HIVE_TEXT, options(spark, metadata)
    except UnreadableError:
        return "hive", {}


def form(lines: Iterable[str]) -> tuple[str, ...]:
    """What Spark's text about a storage says of how it is read."""
    parts = [line.strip() for line in lines if line.strip().startswith(_FORM)]
    return tuple(sorted(sign for part in parts for sign in part.strip("[]").split(", ")))


def form_of(storage: Any) -> tuple[str, ...]:
    """The same of a storage (Spark's object)."""
    text = str(storage.toString()).removeprefix("Storage(").removesuffix(")")
    return form(re.split(rf", (?={'|'.join(_FORM)}|OutputFormat: )", text))


def _sign(text: str) -> str:
    """The sign that a property names, as Hive reads it: by its number, or as the first letter."""
    number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,3}", text) else ord(text[:1] or "\0")
    if not 0 < number < 128:
        raise UnreadableError(f"a text table whose cells are separated or escaped by {text!r}")
    return chr(number)
