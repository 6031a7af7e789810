"""Which files of DataFrames hold the names of their columns, so that a value is known by its column however it is read."""

from __future__ import annotations

from lineage_core.recipe.document import Source

CORRUPT = "columnnameofcorruptrecord"
"""Option of readers: the name of the column with the full text of corrupt records."""
BY_NAME = frozenset({"parquet", "json"})
"""Formats whose values are read by the names that their files have for them.

Logs of Delta Lake and Iceberg, which anybody may write over files of others, call columns otherwise than files do, and Spark reads ORC of
Hive by the columns' numbers.
"""
CELLS_STAY = frozenset({
    "header", "sep", "delimiter", "inferschema", "enforceschema", "mode", "path", "nullvalue", "emptyvalue", "nanvalue", "positiveinf",
    "negativeinf", "dateformat", "timestampformat", "timestampntzformat", "locale", "samplingratio", "preferdate", "multiline",
    "ignoreleadingwhitespace", "ignoretrailingwhitespace", "primitivesasstring", "prefersdecimal", "dropfieldifallnull",
})  # fmt: skip
"""Options of CSV and JSON under which a value is in the column that its header or key names."""


def has_names(source: Source) -> bool:
    """Whether each value of a file is below the name that the file has for it, however it is read."""
    return (
        source.format in BY_NAME
        and CORRUPT not in map(str.lower, source.options)
        and has_plain_cells(source)
    )


def has_plain_cells(source: Source) -> bool:
    """Whether no option moves a value of CSV or JSON into another column."""
    return source.format not in {"csv", "json"} or not {name.lower() for name in source.options} - (
        CELLS_STAY if source.format == "json" else CELLS_STAY - {"multiline"}
    )
