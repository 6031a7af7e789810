"""Which columns the values of a row are in, where some are masked."""

from __future__ import annotations

import json

import pytest

from lineage_core.recipe.document import Source
from lineage_query_api.masking import _tells_columns

pytestmark = pytest.mark.unit

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": "string", "nullable": True, "metadata": {}}
            for name in ("name", "Salary")
        ],
    }
)


@pytest.mark.parametrize(
    ("form", "options", "kind", "tells"),
    [
        ("csv", {"header": "true"}, "frame-source", True),
        ("csv", {"header": "true", "sep": ";"}, "frame-source", True),
        # These move a value into another column than that of its header.
        ("csv", {"header": "true", "lineSep": ","}, "frame-source", False),
        ("csv", {"header": "true", "quote": "x"}, "frame-source", False),
        ("csv", {"header": "true", "comment": "n"}, "frame-source", False),
        ("csv", {"header": "true", "multiLine": "true"}, "frame-source", False),
        ("json", {"multiLine": "true"}, "frame-source", True),
        ("json", {"lineSep": ","}, "frame-source", False),
        ("parquet", {"mergeSchema": "true"}, "frame-source", True),
        # An application may say that it wrote what another wrote, with columns of its own.
        ("csv", {"header": "true"}, "frame", False),
        ("", {}, "frame", False),
        ("json", {}, "frame", True),
        ("parquet", {}, "frame", True),
        ("parquet", {}, "sink", False),
    ],
)
def test_values_are_told_apart_only_where_files_name_them(
    form: str, options: dict[str, str], kind: str, tells: bool
) -> None:
    source = Source(form, (), SCHEMA, options=options)
    assert _tells_columns([source], ["salary"], kind) is tells
