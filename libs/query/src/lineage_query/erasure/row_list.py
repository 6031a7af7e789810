"""The rows of outputs that a plan names, one a line, for whoever deletes them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from lineage_query.erasure.reached import CELLS, topic_record
from lineage_query.rows.places import LocationError, parse_location, parse_valued

COLUMNS = ("path", "row", "unit", "place", "kind", "exact", "there", "app", "output")


def rows_of(plan: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of outputs of a plan as JSON, those that are in no output left out.

    ``row``: lines count from 1, records from 0 (``unit``), those of a topic by their offset; where a row is named by its values, it stands
    in ``place`` alone. Of a row of an output at a place that is not known there is ``path`` alone: the output's.
    """
    for row in plan["rows"]:
        if row["kept"] or not _is_in_output(row):
            continue
        path, number, unit = _standing(row)
        named = {"path": path, "row": number, "unit": unit, "output": row["label"]}
        yield {column: named[column] if column in named else row[column] for column in COLUMNS}


def _is_in_output(row: Mapping[str, Any]) -> bool:
    if row["place"] is not None:
        return True
    return row["path"] is not None and row["what"] != CELLS and row["status"] != "gone"


def _standing(row: Mapping[str, Any]) -> tuple[str | None, int | None, str]:
    """The file, topic or output of a row, its number, and what that counts."""
    place = row["place"]
    if place is None:
        return row["path"], None, ""
    if (record := topic_record(place)) is not None:
        return *record, "offset"
    try:
        at = parse_location(place)
    except LocationError:
        return row["path"], None, ""
    if at.number is None and parse_valued(place) is not None:
        return row["path"], None, ""
    return at.path, at.number, at.unit


def list_of(plan: Mapping[str, Any], *, as_csv: bool) -> str:
    """The list as CSV with a header, or as lines of JSON."""
    if not as_csv:
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows_of(plan))
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows_of(plan))
    return stream.getvalue()
