"""Rows of which some columns are masked."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

from lineage_core.recipe.document import Source
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group, Item
from lineage_query.rows.places import LocationError, parse_location
from lineage_query_api.column_names import (
    BY_NAME,
    CORRUPT,
    has_names,
    has_plain_cells,
)
from lineage_query_api.visibility import (
    CORRUPT_NAME,
    DatasetVisibility,
    VisibleApplication,
    is_named,
)

Header = Callable[[str], str | None]
"""The first line of a file; None if it is unknown."""

MASK = "***"
"""The replacement of every masked value, also of NULL."""
_TAB = {"\\t": "\t"}
_TRIMS = {"ignoreleadingwhitespace", "ignoretrailingwhitespace"}


def masked_row(text: str | None, masked: Sequence[str], *, listed: bool = True) -> str | None:
    """A row without the values of some columns: by name in a JSON object, all values in other formats.

    Args:
        text: the row; None: there is none, or it is not shown.
        masked: names of columns.
        listed: each of them is named, whether the row has it or not: NULLs are not in the text of a row.
    """
    if text is None or not masked:
        return text
    try:
        row = json.loads(
            text,
            object_pairs_hook=_Pairs,
            parse_float=_Number,
            parse_int=_Number,
            parse_constant=_Number,
        )
    except (ValueError, RecursionError):
        return MASK
    if not isinstance(row, _Pairs):
        return MASK
    hidden = (*masked, CORRUPT_NAME)
    members = [
        # Mask a nested column as a whole.
        (name, MASK if _is_nested(value) or (not listed and is_named(name, hidden)) else value)
        for name, value in row
        if not (listed and is_named(name, hidden))
    ]
    if listed:
        # In sorted order after the other columns: the original positions would reveal which are NULL.
        members += [(column, MASK) for column in masked]
    return "{" + ",".join(f"{_json(name)}:{_json(value)}" for name, value in members) + "}"


def _is_nested(value: object) -> bool:
    """Whether a value has columns of its own: a program may say that it is a text."""
    return isinstance(value, list) or (isinstance(value, str) and value.lstrip()[:1] in {"{", "["})


def masked_answer(answer: Answer, visible_app: VisibleApplication, header: Header) -> Answer:
    """An answer for rows of DataFrames with the masked columns removed."""
    back = answer.direction is Direction.BACKWARD
    once = cache(header)

    def masked(group: Group, *, is_result: bool) -> Group:
        return masked_group(group, visible_app, once, is_result=is_result and back)

    return replace(
        answer,
        start=tuple(masked(group, is_result=False) for group in answer.start),
        groups=tuple(masked(group, is_result=True) for group in answer.groups),
    )


def masked_group(
    group: Group, visible_app: VisibleApplication, header: Header, *, is_result: bool
) -> Group:
    """Rows of one node with the masked columns removed. ``is_result``: rows of sources, which may be named by what read them."""
    kind = visible_app.kinds.get(group.node, "")
    shown = visible_app.of_node(group.node)
    unread = is_result and kind != "frame-source"
    if unread:
        shown = DatasetVisibility(masked=visible_app.masked) & DatasetVisibility(
            rows=all(node.rows for node in visible_app.nodes.values())
        )
    if not shown.rows:
        return group.without_texts()
    sources = visible_app.sources.get(group.node, ())
    masks_all = bool(shown.masked) and not _tells_columns(sources, shown.masked, kind)
    headed = [
        source
        for source in sources
        if shown.masked and source.format == "csv" and kind == "frame-source"
    ]

    copies = visible_app.copies.get(group.node, ())

    def text(item: Item) -> str | None:
        row = item.text
        if row is None:
            return None
        # How a row of a file was read is not known but by its source.
        of_unknown = unread and bool(shown.masked) and item.location is not None
        if masks_all or of_unknown or not _has_header_of(item, headed, header):
            return MASK
        # The program may have copied a masked column here under the same name: mask it too.
        others = [column for column in visible_app.masked if column not in shown.masked]
        row = masked_row(masked_row(row, shown.masked), others, listed=False)
        # It lies in no file whose own rules would count: an application may say that it computed anything.
        return masked_row(row, copies) if item.location is None else row

    items = tuple(replace(item, text=text(item)) for item in group.items)
    return replace(group, items=items)


def _tells_columns(sources: Sequence[Source], masked: Iterable[str], kind: str) -> bool:
    """Whether rows of a dataset have the columns that it has, by their names."""
    if kind == "frame":
        # An application may say that it wrote what another wrote: its names for columns count for nothing.
        return bool(sources) and all(has_names(source) for source in sources)
    return (
        kind == "frame-source"
        and bool(sources)
        and all(_tells_columns_of_source(source, masked) for source in sources)
    )


def _tells_columns_of_source(source: Source, masked: Iterable[str]) -> bool:
    options = {name.lower(): value for name, value in source.options.items()}
    if CORRUPT in options or not has_plain_cells(source):
        return False
    if source.format in BY_NAME:
        return True
    # A program may name the columns of a text file differently from its header line.
    has_header = source.format == "csv" and options.get("header", "").lower() == "true"
    names = [name for name, _ in source.columns()]
    return has_header and all(any(is_named(name, [column]) for name in names) for column in masked)


def _has_header_of(item: Item, sources: Sequence[Source], header: Header) -> bool:
    """Whether a CSV row has the column names of its own file: Spark uses the header of one file for all."""
    if not sources:
        return True
    line = None
    with suppress(LocationError):
        line = header(parse_location(item.location or "").path)
    return line is not None and all(_is_header(line, source) for source in sources)


def _is_header(line: str, source: Source) -> bool:
    options = {name.lower(): value for name, value in source.options.items()}
    separator = options.get("sep", options.get("delimiter", ","))
    if '"' in line and not options.keys().isdisjoint(_TRIMS):
        # Quotes behind spaces are read otherwise.
        return False
    names = [name.lower() for name, _ in replace(source, partitions="").columns()]
    return [cell.lower() for cell in _cells(line, _TAB.get(separator, separator))] == names


def _cells(line: str, separator: str) -> list[str]:
    """The cells of a line of CSV; none where it is not certain that Spark reads the same ones."""
    if '"' not in line:
        return line.split(separator)
    if len(separator) != 1 or "\\" in line or '""' in line:
        return []
    try:
        (cells,) = csv.reader([line], delimiter=separator, strict=True)
    except (ValueError, csv.Error):
        return []
    return cells


def _json(value: object) -> str:
    return str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)


class _Number(str):
    """A number of JSON as it is written."""


class _Pairs(list[tuple[str, object]]):
    """An object of JSON, with all of its keys."""
