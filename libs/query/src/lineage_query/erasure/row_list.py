"""The rows of outputs that a plan names, one a line, for whoever deletes them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from lineage_query.rows.places import LocationError, parse_location

COLUMNS = ("path", "row", "unit", "place", "kind", "exact", "there", "app", "output")


def rows_of(plan: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of outputs of a plan as JSON, those that are in no file left out.

    ``row``: lines count from 1, records from 0 (``unit``); where a row is named by its key, it stands in ``place`` alone.
    """
    for row in plan["rows"]:
        if row["place"] is None or row["kept"]:
            continue
        path, number, unit = row["path"], None, ""
        try:
            at = parse_location(row["place"])
            path, number, unit = at.path, at.number, at.unit
        except LocationError:
            pass
        named = {"path": path, "row": number, "unit": unit, "output": row["label"]}
        yield {column: named[column] if column in named else row[column] for column in COLUMNS}


def list_of(plan: Mapping[str, Any], *, as_csv: bool) -> str:
    """The list as CSV with a header, or as lines of JSON."""
    if not as_csv:
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows_of(plan))
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows_of(plan))
    return stream.getvalue()
