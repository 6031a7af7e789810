"""What files of a format give back of the values that were written into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lineage_dataframes.sources.unknown_value import UNKNOWN
from lineage_dataframes.spark import literals

TRIMMED_CHARACTERS = "".join(map(chr, range(ord(" ") + 1)))
"""What CSV's writer takes from both ends of a text."""
LOSSY_TEXT_FORMATS = frozenset({"csv", "text"})
"""Formats that give an empty text and NULL back as one; CSV trims texts, too."""
TEXT_TYPES = ("string", "char", "varchar")

FAITHFUL_FORMATS = frozenset({"parquet", "orc", "json"})
"""Formats that give back the values of `PLAIN_TYPES` as they were written."""
PLAIN_TYPES = frozenset({"boolean", "tinyint", "smallint", "int", "bigint", "string"})
TIME_FORMAT = "timestampformat"
"""An option of writers (in small letters) by which times may lose a part."""
FIRST_WHOLE_OFFSET_YEAR = 1980
"""Since then, offsets of zones are of whole minutes everywhere, as texts of times have them."""


def loses_values(kind: str, written: str | None) -> bool:
    """Whether several values of a type are one in files of a format; ``written``: None for values in no file."""
    return written in LOSSY_TEXT_FORMATS and kind.startswith(TEXT_TYPES)


def text_as_written(term: str, written: str | None) -> str:
    """A text, a term of SQL, as files of a format that `loses_values` some give it back, but for NULL, which is empty here."""
    text = f"coalesce({term}, '')"
    return (
        f"trim(BOTH {literals.string_constant(TRIMMED_CHARACTERS)} FROM {text})"
        if written == "csv"
        else text
    )


def stands_as_it_is(
    kinds: Sequence[str], row: Sequence[Any], written: str | None, options: Mapping[str, str]
) -> bool:
    """Whether a row, if it was written, certainly stands in files with just these values.

    Args:
        kinds: the columns' types.
        row: their values; those that are not known aside.
        written: the format of the files.
        options: of the writer.
    """
    if written not in FAITHFUL_FORMATS:
        return False
    has_time_format = TIME_FORMAT in map(str.lower, options)
    return all(
        value is UNKNOWN or _is_kept(kind, value, has_time_format)
        for kind, value in zip(kinds, row, strict=True)
    )


def _is_kept(kind: str, value: Any, has_time_format: bool) -> bool:
    if value is None or kind in PLAIN_TYPES:
        # What is no text of UTF-8 stands otherwise in JSON.
        return not isinstance(value, str) or "\ufffd" not in value
    if kind != "timestamp" or not isinstance(value, datetime) or has_time_format:
        return False
    return value.microsecond % 1000 == 0 and FIRST_WHOLE_OFFSET_YEAR < value.year <= 9999
