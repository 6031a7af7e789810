"""What a trace takes from a recipe: settings and functions of its lists, and text that is what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lineage_core.recipe.document import File, Output, Recipe, Source
from lineage_core.recipe.plan import (
    Attribute,
    Call,
    Column,
    Expression,
    Literal,
    Project,
    Range,
    Scan,
)
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.expressions import SqlWriter
from lineage_dataframes.rewrite.function_names import AGGREGATES, ALLOWED_FUNCTIONS
from lineage_dataframes.spark.literals import string_constant
from lineage_dataframes.spark.settings import REPLAYED, STATEMENT_SETTINGS
from lineage_dataframes.trace.allowed import check_text
from lineage_emitter.dataframes import functions
from lineage_emitter.dataframes.plans import PYTHON_SETTINGS, SETTINGS

pytestmark = pytest.mark.unit

NO_COLUMNS = '{"type":"struct","fields":[]}'
COLUMN = Attribute(1, "a", "bigint")


def recipe(called: Call | None = None, settings: Mapping[str, str] | None = None) -> Recipe:
    plan = (Range((COLUMN,), 0, 3, 1), Project((COLUMN,), 0, (called or Column(1),)))
    return Recipe("4.1.4", settings or {}, (), plan)


def test_what_the_emitter_notes_is_on_the_lists() -> None:
    tables = (
        functions.OPERATORS, functions.FUNCTIONS, functions.HIGHER_ORDER, functions.LENIENT, functions.AGGREGATES,
        functions.COLLECTIONS, functions.WINDOW_FUNCTIONS, functions.GENERATORS,
    )  # fmt: skip
    assert {name for table in tables for name in table.values()} <= ALLOWED_FUNCTIONS
    assert {*SETTINGS, *PYTHON_SETTINGS} == set(REPLAYED)
    assert not set(REPLAYED) & set(STATEMENT_SETTINGS)
    sums = {name for name in functions.LENIENT.values() if name in {"try_sum", "try_avg"}}
    assert {*functions.AGGREGATES.values(), *functions.COLLECTIONS.values(), *sums} == AGGREGATES


@pytest.mark.parametrize(
    "name",
    [
        "spark.sql.variable.substitute", "SPARK.SQL.VARIABLE.SUBSTITUTE", "spark.sql.catalog.evil", "spark.jars",
        "spark.sql.parser.escapedStringLiterals", "spark.sql.ansi.doubleQuotedIdentifiers", "city", "spark.sql.new.setting",
    ],
)  # fmt: skip
def test_a_setting_that_is_not_on_the_list_is_refused_by_name(name: str) -> None:
    with pytest.raises(RefusedError, match=name):
        check_text(recipe(settings={name: "true"}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.ansi.enabled", "true; drop"),
        ("spark.sql.session.timeZone", "UTC' --"),
        ("spark.sql.session.timeZone", "${system:user.timezone}"),
        ("spark.sql.columnNameOfCorruptRecord", "${env:HOME}"),
        ("spark.sql.columnNameOfCorruptRecord", "a${spark.sql.warehouse.dir}"),
    ],
)
def test_a_value_of_another_kind_is_refused(name: str, value: str) -> None:
    with pytest.raises(RefusedError, match=name):
        check_text(recipe(settings={name: value}))


@pytest.mark.parametrize(
    "name",
    [
        "java_method",
        "reflect",
        "try_reflect",
        "REFLECT",
        "from_protobuf",
        "from_avro",
        "my_udf",
        "a b",
    ],
)
def test_a_function_that_is_not_on_the_list_is_refused_by_name(name: str) -> None:
    with pytest.raises(RefusedError, match=f"calls '{name}'"):
        check_text(recipe(Call(name, (Literal("java.lang.Runtime", "string"),))))


def test_an_option_that_reads_other_files_is_refused() -> None:
    for name in ("path", "PathGlobFilter", "fs.file.impl"):
        source = Source("csv", (), "", options={name: "x"})
        with pytest.raises(RefusedError, match=name):
            check_text(replace(recipe(), sources=(source,)))
        with pytest.raises(RefusedError, match=name):
            check_text(replace(recipe(), output=Output(options={name: "x"})))


def test_text_is_escaped() -> None:
    assert string_constant("${a} '\\ \0" + "12") == r"'\u0024{a} \'\\ \u000012'"
    field = Call("field", (Column(1), Literal("0", "int")), type="a`b")
    assert SqlWriter(lambda _: "").of(field) == "c1.`a``b`"


@pytest.mark.parametrize(
    "schema",
    [
        "", "none", "[]", "null", '{"type":"struct"}', '{"type":"struct","fields":[{"name":1}]}',
        '{"type":"struct","fields":[{"name":1,"type":"long","nullable":true}]}',
        '{"type":"struct","fields":[{"name":"a","type":"evil","nullable":true}]}', '{"fields":3}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_schema_that_is_none_is_refused(schema: str) -> None:
    source = Source("csv", (), schema)
    for one in (source, replace(source, schema=NO_COLUMNS, partitions=schema or "x")):
        read = Recipe("4.1.4", {}, (one,), (Scan((COLUMN,), 0, ("a",)),))
        with pytest.raises(RefusedError, match="a source"):
            check_text(read)


@pytest.mark.parametrize(
    "schema",
    [
        Column(1), Literal(None, "string"), Literal('{"type":"udt","class":"java.util.Date"}', "string"),
        Literal(' {"type":"struct","fields":[]}', "string"),
    ],
)  # fmt: skip
def test_a_type_of_json_is_a_type_and_names_no_class(schema: Expression) -> None:
    check_text(recipe(Call("from_json", (Column(1), Literal("int", "string")))))
    with pytest.raises(RefusedError, match="type"):
        check_text(recipe(Call("from_json", (Column(1), schema))))


@pytest.mark.parametrize("base", ["http://metadata/", "/elsewhere", "file:/d/t/k=1/x", "/d/t/k"])
def test_a_base_of_folders_that_are_columns_is_above_the_files(base: str) -> None:
    source = Source("csv", ("/d/t",), "", files=(File("/d/t/k=1/part-0.csv", 1, 1),))
    for above in ("/d/t", "file:/d/t/", "file:///d", "/"):
        check_text(replace(recipe(), sources=(replace(source, options={"basePath": above}),)))
    with pytest.raises(RefusedError, match="is not above"):
        check_text(replace(recipe(), sources=(replace(source, options={"BasePath": base}),)))


def test_a_source_of_files_without_a_name_is_nobodys() -> None:
    """Rules for datasets go by names."""
    source = Source("csv", (), "", files=(File("/d/part-0.csv", 1, 1),))
    for nameless in (source, replace(source, paths=("",))):
        with pytest.raises(RefusedError, match="has no name"):
            check_text(replace(recipe(), sources=(nameless,)))


@pytest.mark.parametrize("kind", ["timestamp_ltz(9)", "array<timestamp_ntz(7)>"])
def test_timestamps_of_nanoseconds_are_refused(kind: str) -> None:
    check_text(recipe(Call("hour", (Literal("2024-01-01 00:00:00", "timestamp_ntz"),))))
    with pytest.raises(RefusedError, match="nanoseconds"):
        check_text(recipe(Call("hour", (Literal("2024-01-01 00:00:00.000000001", kind),))))
