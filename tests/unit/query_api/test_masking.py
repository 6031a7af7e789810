"""Which columns the values of a row are in, where some are masked."""

from __future__ import annotations

import json

import pytest

from lineage_core.recipe.document import Source
from lineage_query_api.masking import MASK, _is_header, _tells_columns, masked_row

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
        # Logs of tables call columns otherwise than files do, and Hive's ORC is read by numbers.
        ("delta", {}, "frame-source", False),
        ("iceberg", {}, "frame-source", False),
        ("orc", {}, "frame-source", False),
        # An application may say that it wrote what another wrote, with columns of its own.
        ("csv", {"header": "true"}, "frame", False),
        ("", {}, "frame", False),
        ("json", {}, "frame", True),
        ("json", {"columnNameOfCorruptRecord": "x"}, "frame", False),
        ("parquet", {}, "frame", True),
        ("parquet", {}, "sink", False),
    ],
)
def test_values_are_told_apart_only_where_files_name_them(
    form: str, options: dict[str, str], kind: str, tells: bool
) -> None:
    source = Source(form, (), SCHEMA, options=options)
    assert _tells_columns([source], ["salary"], kind) is tells


def of_columns(*names: str, **options: str) -> Source:
    fields = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in names]
    return Source("csv", (), json.dumps({"type": "struct", "fields": fields}), options=options)


@pytest.mark.parametrize(
    ("line", "names", "options", "is_header"),
    [
        ("name,salary", ("name", "Salary"), {}, True),
        ('"name","salary"', ("name", "salary"), {}, True),
        ('name,"addr, city",salary', ("name", "addr, city", "salary"), {}, True),
        # Three cells, in the columns of which a program would name four.
        ('name,"addr, city",salary', ("name", '"addr', ' city"', "salary"), {}, False),
        ('name;"a;b";salary', ("name", '"a', 'b"', "salary"), {"sep": ";"}, False),
        ('name||"a||b"||salary', ("name", '"a', 'b"', "salary"), {"sep": "||"}, False),
        ('a, "b",salary', ("a", ' "b"', "salary"), {"ignoreLeadingWhiteSpace": "true"}, False),
        # Readers of CSV differ about these.
        (r'name,"a\",b",salary', ("name", 'a",b', "salary"), {}, False),
        ('name,"a"",b",salary', ("name", 'a",b', "salary"), {}, False),
        ('name,"a"b,salary', ("name", "ab", "salary"), {}, False),
    ],
)
def test_headers_are_read_as_spark_does_or_count_as_others(
    line: str, names: tuple[str, ...], options: dict[str, str], is_header: bool
) -> None:
    assert _is_header(line, of_columns(*names, **options)) is is_header


@pytest.mark.parametrize("nested", ['{"salary": 5}', " [5, 6]", {"salary": 5}, [5]])
def test_nested_values_that_a_program_calls_texts_are_masked(nested: object) -> None:
    row = masked_row(json.dumps({"who": "ann", "pay": nested}), ["salary"])
    assert row is not None
    assert json.loads(row) == {"who": "ann", "pay": MASK, "salary": MASK}
