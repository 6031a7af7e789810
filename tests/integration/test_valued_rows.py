"""Rows that have given values, found in files without Spark: the very rows that Spark finds, or nobody's guess."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from lineage_core.recipe.document import Output, Recipe, Source
from lineage_dataframes.errors import FramesError
from lineage_dataframes.rewrite.values import NamedColumn, select_columns, values_condition
from lineage_dataframes.sources.locations import line_numbers
from lineage_dataframes.sources.text_records import has_lines
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, view_of
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import to_arrow
from lineage_dataframes.trace.session import session_with_settings
from lineage_emitter.dataframes.plans import recipe_of
from lineage_query.rows.parquet_rows import values_from
from lineage_query.rows.reader import ForbiddenRowsError, RootedReader, RowReader
from lineage_query.rows.typed_values import UnsureError, array_of
from lineage_query.rows.valued_rows import Files, positions_with

pytestmark = pytest.mark.integration

SCHEMA = """
    s string, b boolean, y tinyint, h smallint, i int, l bigint, f float, d double, n decimal(9,2), m decimal(20,0),
    day date, at timestamp, local timestamp_ntz, bytes binary, deep struct<a int>
"""
UTC = datetime.UTC
ODD = [
    ("a", True, 1, 2, 3, 4, 1.1, 2.5, decimal.Decimal("1.50"), decimal.Decimal(7), "2024-02-29", "2024-02-29 12:00:00"),
    ("A", False, -1, -2, -3, -4, -0.0, 0.0, decimal.Decimal("-1.50"), decimal.Decimal(-7), "1999-12-31", "2024-03-31 02:30:00"),
    ("b c", True, 127, 32767, 2147483647, 9223372036854775807, 1e30, 1e300, decimal.Decimal("9999999.99"),
     decimal.Decimal("99999999999999999999"), "0001-01-01", "2024-10-27 02:30:00"),
    ("é'$x", None, 0, 0, 0, 0, 0.1, 0.1, decimal.Decimal("0.10"), decimal.Decimal(0), "9999-12-31", "1969-12-31 23:59:59.5"),
    (None, None, None, None, None, None, None, None, None, None, None, None),
    ("nul", False, 5, 5, 5, 5, float("nan"), float("nan"), decimal.Decimal("5.00"), decimal.Decimal(5), "1582-10-15", "2024-01-01 00:00:00.123456"),
    ("7", True, 5, 5, 5, 5, float("inf"), 0.1 + 1e-12, decimal.Decimal("5.00"), decimal.Decimal(5), "2024-02-29", "2024-01-01 00:00:00"),
    ("7", True, 5, 5, 5, 6, 16777217.0, -0.0, decimal.Decimal("5.00"), decimal.Decimal(5), "2024-02-29", "1900-01-01 00:00:00"),
]  # fmt: skip
UNSURE = {"at", "local", "bytes", "deep"}
EMPTY, TRIMMED, QUOTED = "", " a ", 'q"u,o'
ASKED: dict[str, list[str | None]] = {
    "s": ["a", "A", "b c", "é'$x", "nul", "7", "07", "", " a ", "none", None],
    "b": ["true", "false", "TRUE", "1", None],
    "y": ["1", "-1", "127", "128", "0", "00", "+5", None],
    "h": ["2", "-2", "32767", "0", "5", None],
    "i": ["3", "-3", "2147483647", "2147483648", "5", " 5", "5.0", None],
    "l": ["4", "9223372036854775807", "5", "-4", None],
    "f": ["1.1", "0", "-0.0", "1E+30", "1e30", "0.1", "NaN", "Infinity", "16777217", None],
    "d": ["2.5", "0", "0.1", "1E300", "-0.0", "NaN", "2.50", None],
    "n": ["1.5", "1.50", "-1.5", "5", "9999999.99", "0.1", "1.501", None],
    "m": ["7", "-7", "99999999999999999999", "5", "0", None],
    "day": ["2024-02-29", "1999-12-31", "0001-01-01", "9999-12-31", "2024-2-29", "2024-02-30", None],
    "at": ["2024-02-29 12:00:00", "2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-01-01 00:00:00.123456",
           "2024-01-01", "2024-01-01T00:00:00", "1900-01-01 00:00:00", "2024-01-01 00:00:00Z", None],
    "local": ["2024-02-29 12:00:00", None],
    "bytes": ["a", None],
    "deep": ["1", None],
}  # fmt: skip


@pytest.fixture
def zone(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield
    spark.conf.set("spark.sql.session.timeZone", before or "UTC")


def frame_of(spark: SparkSession, *more: str) -> DataFrame:
    rows = [
        (
            *one[:10],
            None if one[10] is None else datetime.date.fromisoformat(str(one[10])),
            one[11],
            one[11],
            None if one[0] is None else str(one[0]).encode(),
            None if one[4] is None else (one[4],),
        )
        for one in ODD
    ]
    text = SCHEMA.replace("at timestamp,", "at string,").replace("timestamp_ntz", "string")
    made = spark.createDataFrame([*rows, *((text_, *rows[0][1:]) for text_ in more)], text)
    return made.selectExpr(
        *[
            one if one not in {"at", "local"} else f"CAST({one} AS {kind}) AS {one}"
            for one, kind in columns()
        ]
    ).coalesce(1)


def columns() -> list[tuple[str, str]]:
    named = [
        one.strip().split(" ")[:2]
        for one in SCHEMA.replace("(9,2)", "").replace("(20,0)", "").split(",")
    ]
    return [(name, kind) for name, kind in named]


def by_spark(
    spark: SparkSession, recipe: Recipe, source: Source, wanted: list[tuple[str, str | None]]
) -> list[dict[int, list[int]] | None]:
    """The positions of rows that have each value, by the condition that queries have; None where they refuse."""
    session = session_with_settings(spark, recipe, [source])
    view = view_of(session, source)
    named = [
        NamedColumn(one.name, literals.quoted_name(one.name), one.dataType.simpleString())
        for one in view.schema
        if one.name not in {FILE_COLUMN, ROW_COLUMN}
    ]
    terms: list[str] = []
    for one in wanted:
        try:
            terms.append(values_condition(session, select_columns(named, [one])))
        except FramesError:
            terms.append("CAST(NULL AS BOOLEAN)")
    rows = view.selectExpr(
        FILE_COLUMN, ROW_COLUMN, *[f"{term} AS t{n}" for n, term in enumerate(terms)]
    ).collect()
    paths = [file.path for file in source.files]
    place = {(path, row): row for path, row, *_ in rows}
    if has_lines(source):
        for path in {path for path, _ in place}:
            ordinals = np.array(sorted(row for of, row in place if of == path), np.uint64)
            lines = line_numbers(spark, source, path, ordinals) - np.uint64(1)
            place |= {
                (path, row): line
                for row, line in zip(ordinals.tolist(), lines.tolist(), strict=True)
            }
    found: list[dict[int, list[int]] | None] = []
    for n, term in enumerate(terms):
        of_term: dict[int, list[int]] = {}
        for row in sorted(rows, key=lambda one: (one[0], one[1])):
            if row[f"t{n}"]:
                of_term.setdefault(paths.index(row[0]), []).append(place[row[0], row[1]])
        found.append(None if term.startswith("CAST(NULL") else of_term)
    return found


def looked_up(recipe: Recipe, source: Source, name: str, text: str | None) -> Any:
    found = positions_with(Files.of_source(source, recipe.settings), [(name, text)], RowReader())
    return found if found is None else {at: rows.tolist() for at, rows in found.items()}


def compared(
    spark: SparkSession, read: DataFrame, asked: Mapping[str, list[str | None]]
) -> dict[str, int]:
    """How many values of each column are told without Spark: all of them as by Spark."""
    recipe = recipe_of(read, Output(kind="driver", action="DataFrame.collect"))
    (source,) = recipe.sources
    told = dict.fromkeys(asked, 0)
    wanted = [(name, text) for name, texts in asked.items() for text in texts]
    found = [looked_up(recipe, source, *one) for one in wanted]
    if all(one is None for one in found):
        return told
    for one, here, there in zip(
        wanted, found, by_spark(spark, recipe, source, wanted), strict=True
    ):
        if here is not None:
            told[one[0]] += 1
            assert here == (there or {}), (source.format, source.options, one)
    return told


PLAIN = ["s", "b", "y", "h", "i", "l", "f", "d", "n", "m", "day"]


@pytest.mark.long
def test_columns_of_binary_formats(spark: SparkSession, tmp_path: Path, zone: None) -> None:
    frame = frame_of(spark, EMPTY, TRIMMED, QUOTED, "two\nlines")
    for form in ("parquet", "orc"):
        path = str(tmp_path / form)
        frame.write.format(form).save(path)
        told = compared(spark, spark.read.format(form).load(path), ASKED)
        assert all(told[name] >= 3 for name in PLAIN[:8]), told
        if form == "parquet":
            assert min(told["n"], told["m"], told["day"], told["at"]) >= 2, told
        assert (told["bytes"], told["deep"], told["local"]) == (0, 0, 0)
    micros = str(tmp_path / "micros")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    frame.select("at").write.parquet(micros)
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    assert compared(spark, spark.read.parquet(micros), {"at": ASKED["at"]})["at"] >= 2
    # Other types than those of the file: Spark converts, or fails.
    other = spark.read.schema("i bigint, s string").parquet(str(tmp_path / "parquet"))
    assert compared(spark, other, {"i": ["5", None]}) == {"i": 0}


def test_columns_of_lines(spark: SparkSession, tmp_path: Path, zone: None) -> None:
    plain = frame_of(spark).drop("bytes", "deep", "at", "local")
    asked = {name: ASKED[name] for name in PLAIN}
    kinds = "s string, b boolean, y tinyint, h smallint, i int, l bigint, f float, d double, n decimal(9,2), m decimal(20,0), day date"
    for number, options in enumerate([{}, {"header": "true"}, {"sep": "\t", "header": "true"}]):
        path = str(tmp_path / f"csv-{number}")
        # A row of nothing but tabs is a blank line to some readers.
        rows = plain.where("s is not null") if "sep" in options else plain
        rows.write.options(**options).csv(path)
        told = compared(spark, spark.read.schema(kinds).options(**options).csv(path), asked)
        assert min(told[name] for name in ("s", "b", "i", "l", "d")) >= 2, told
    path = str(tmp_path / "json")
    plain.where("not isnan(d) or d is null").where("f is null or f < 1e31").write.json(path)
    told = compared(spark, spark.read.schema(kinds).json(path), asked)
    assert min(told[name] for name in ("s", "b", "i", "l", "d", "n", "day")) >= 2, told
    path = str(tmp_path / "text")
    plain.select("s").where("s is not null").write.text(path)
    assert compared(spark, spark.read.text(path), {"value": ASKED["s"]})["value"] >= 5


@pytest.mark.long
def test_texts_that_readers_may_take_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    contents = {
        "quoted": 'a,1\n"b, c",2\n',
        "escaped": "a\\,1\nb,2\n",
        "returns": "a,1\r\nb,2\r\n",
        "lone": "a,1\rb,2\n",
        "short": "a\nb,2\n",
        "long": "a,1,2\nb,2\n",
        "blank": "\na,1\n\n  \nb,2",
        "bom": "\ufeffa,1\nb,2\n",
        "odd": "a,01\nb,+2\nc,2\n",
        "spaces": " a,1\na , 2\na,2\n",
        "none": "a,x\nb,2\n",
        "nul": "a\0,1\nb,2\n",
        "empty": "",
        "nulls": ",1\na,\n,\n",
    }
    asked: dict[str, list[str | None]] = {"s": ["a", "b", " a", None], "n": ["1", "2", None]}
    known: set[str] = set()
    for name, content in contents.items():
        path = tmp_path / f"{name}.csv"
        path.write_bytes(content.encode())
        for options in (
            {},
            {"header": "true"},
            {"nullValue": "a"},
            {"mode": "DROPMALFORMED"},
            {"comment": "a"},
        ):
            read = spark.read.schema("s string, n int").options(**options).csv(str(path))
            told = compared(spark, read, asked)
            assert not any(told.values()) or not options.keys() & {"mode", "comment"}, (
                name,
                options,
            )
            known |= {name} if any(told.values()) else set()
    assert known == {"spaces", "nulls", "odd", "none", "empty", "short", "long"}
    latin = tmp_path / "latin.csv"
    latin.write_bytes("é,1\n".encode("latin-1"))
    assert compared(spark, spark.read.schema("s string, n int").csv(str(latin)), asked) == {
        "s": 0,
        "n": 0,
    }
    lines = [
        '{"s":"a","n":1}', '{"s":"a","s":"b"}', '{"S":"a"}', '{"s":1}', '{"n":"1"}', '{"n":1.0}', '{"s":null}', "{}",
        "[1]", "{broken", '{"n":NaN}', '{"n":1,"x":{"s":"a"}}', '{"n":9999999999}', '{"s":"\\u0061"}', "", '{"s":"a"} x',
    ]  # fmt: skip
    for number, line in enumerate(lines):
        path = tmp_path / f"{number}.json"
        path.write_text(f'{line}\n{{"s":"a","n":2}}\n')
        compared(spark, spark.read.schema("s string, n int").json(str(path)), asked)


def test_columns_that_are_names_of_folders(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("a", "x", 1), ("b", "x/y=z", 2), ("c", None, 1), ("d", "", 2), ("a", "07", 1)]
    frame = spark.createDataFrame(rows, "v string, p string, q int").coalesce(1)
    asked: dict[str, list[str | None]] = {
        "v": ["a", "b", None],
        "p": ["x", "x/y=z", "07", "7", "", None],
        "q": ["1", "2", "01", None],
    }
    for form in ("parquet", "json", "csv"):
        path = str(tmp_path / form)
        frame.write.partitionBy("p", "q").format(form).save(path)
        read = spark.read.schema("v string, p string, q int").format(form).load(path)
        told = compared(spark, read, asked)
        assert (told["v"] >= 2, told["q"] >= 2) == (True, True), (form, told)
        # One folder of it, whose columns stand above.
        below = next((tmp_path / form).glob("p=x/q=1"))
        compared(
            spark,
            spark.read.option("basePath", path)
            .format(form)
            .schema("v string, p string, q int")
            .load(str(below)),
            asked,
        )


def test_what_may_not_be_read_is_not_looked_into(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text('{"s":"a"}\n')
    recipe = recipe_of(spark.read.schema("s string").json(str(path)))
    files = Files.of_source(recipe.sources[0], recipe.settings)
    with pytest.raises(ForbiddenRowsError):
        positions_with(files, [("s", "a")], RootedReader([str(tmp_path / "other")]))
    for changed in (
        replace(files, options={"encoding": "UTF-16"}),
        replace(files, format="xml"),
        replace(files, files=[replace(files.files[0], path="s3://bucket/in.json")]),
        replace(files, columns=[("s", "string"), ("S", "string")]),
    ):
        assert positions_with(changed, [("s", "a")], RowReader()) is None


def test_values_of_rows_are_those_that_spark_gives_or_left_to_it(
    spark: SparkSession, zone: None, tmp_path: Path
) -> None:
    frame = frame_of(spark, EMPTY, TRIMMED)
    frame.write.parquet(str(tmp_path / "out"))
    (file,) = (tmp_path / "out").glob("*.parquet")
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    rows = spark.read.parquet(str(file)).collect()
    sure = 0
    for name, kind in kinds.items():
        for number, row in enumerate(rows):
            with file.open("rb") as stream:
                try:
                    ((value,),) = values_from(stream, number, 1, [(name, kind)])
                except UnsureError:
                    continue
            sure += 1
            assert (type(value), repr(value)) == (type(row[name]), repr(row[name])), (name, number)
    assert sure > 9 * len(rows)
    plain = [(name, kind) for name, kind in kinds.items() if name not in UNSURE]
    with file.open("rb") as stream:
        assert values_from(stream, 0, 1, plain) == [tuple(rows[0][name] for name, _ in plain)]
        numbers = [(row["i"],) for row in rows]
        assert values_from(stream, 0, 1_000, [("i", "int")]) == numbers
        assert values_from(stream, 1, 1, [("i", "int")]) == numbers[1:2]
        assert values_from(stream, 99, 1, [("i", "int")]) == []
    for columns_ in ([("gone", "int")], [("i", "bigint")]):
        with file.open("rb") as stream, pytest.raises(UnsureError):
            values_from(stream, 0, 1, columns_)


def test_values_in_arrow_are_those_that_spark_makes_of_them_or_left_to_it(
    spark: SparkSession, zone: None
) -> None:
    frame = frame_of(spark, EMPTY, TRIMMED)
    rows, sure = frame.collect(), 0
    for field in frame.schema:
        kind = field.dataType.simpleString()
        found, held = list[Any](), list[Any]()
        for row in rows:
            with suppress(UnsureError):
                found.append(array_of([row[field.name]], kind)[0])
                held.append((row[field.name],))
        if held:
            made = to_arrow(spark.createDataFrame(held, f"v {kind}").coalesce(1))["v"]
            assert found[0].type == made.type
            assert [repr(one) for one in found] == [repr(one) for one in made], field.name
            sure += len(held)
    assert sure > 9 * len(rows)
    others: list[tuple[Any, str]] = [
        *((1, "double"), (True, "int"), (1 << 40, "int"), ("1", "int"), ("a", "char(2)")),
        (datetime.datetime(2024, 1, 1, tzinfo=UTC), "date"),
        *((decimal.Decimal("1.555"), "decimal(9,2)"), ("\ud800", "string")),
    ]
    for value, kind in others:
        with pytest.raises(UnsureError):
            array_of([value], kind)
