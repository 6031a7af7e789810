"""Which rows stand in files as they were written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from lineage_dataframes.sources.lossy_formats import stands_as_it_is
from lineage_dataframes.sources.unknown_value import UNKNOWN

AT = datetime(2026, 11, 29, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "value", "written", "options", "expected"),
    [
        ("bigint", 3, "json", {}, True),
        ("string", " a ", "parquet", {}, True),
        ("string", None, "json", {}, True),
        # Of what is not known nothing is looked for.
        ("double", UNKNOWN, "json", {}, True),
        # CSV trims texts, and has none for NULL.
        ("string", " a ", "csv", {}, False),
        ("bigint", 3, "csv", {}, False),
        ("bigint", 3, None, {}, False),
        # What was no text stands otherwise.
        ("string", "a\ufffd", "json", {}, False),
        ("double", 0.1, "json", {}, False),
        ("timestamp", AT, "json", {}, True),
        ("timestamp", AT, "json", {"timestampFormat": "yyyy"}, False),
        # JSON has milliseconds.
        ("timestamp", AT.replace(microsecond=1), "json", {}, False),
        ("timestamp", AT.replace(year=1890), "json", {}, False),
        ("timestamp", "2026-11-29 12:00:00", "json", {}, False),
    ],
)
def test_a_row_stands_as_it_is(
    kind: str, value: Any, written: str | None, options: Mapping[str, str], expected: bool
) -> None:
    assert stands_as_it_is(["int", kind], [1, value], written, options) == expected
