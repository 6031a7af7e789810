"""Records of text files that are found in their bytes are those that Spark's readers find."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import File, Output, Recipe, Source
from lineage_dataframes.errors import RefusedError, RowError
from lineage_dataframes.sources import splits, text_records
from lineage_dataframes.sources.locations import (
    _records,
    line_numbers,
    line_numbers_of_file,
    ordinal_at_line,
)
from lineage_dataframes.sources.text_records import BOM, has_lines, header_count, text_file
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, view_of
from lineage_dataframes.trace import rows
from lineage_dataframes.trace.rows import rows_at, texts_at
from lineage_dataframes.trace.session import session_with_settings

pytestmark = pytest.mark.integration

PIECES = (
    b"\n", b"\r\n", b"\r", b" ", b"\t", b"\x1f", b"#", b"a,1", b"b", b",", b'"', b"\xef\xbb\xbf", b"\xff",
    "\u00e4\u2028\u3000".encode(), b'{"a": "x"}', b"\x00", b"\\",
)  # fmt: skip
FILES = 40
SPLIT_SOURCES = 40


def written(folder: Path, name: str, content: bytes) -> File:
    file = folder / name
    file.write_bytes(content)
    status = file.stat()
    return File(f"file:{file}", status.st_size, status.st_mtime_ns // 1_000_000)


def source_of(kind: str, files: list[File], **options: str) -> Source:
    fields = {"csv": ("a", "b", "bad"), "json": ("a", "bad"), "text": ("value",)}[kind]
    schema = ", ".join(
        f'{{"name": "{one}", "type": "string", "nullable": true, "metadata": {{}}}}'
        for one in fields
    )
    options = {} if kind == "text" else {"columnNameOfCorruptRecord": "bad", **options}
    paths = tuple(file.path for file in files)
    text = f'{{"type": "struct", "fields": [{schema}]}}'
    return Source(kind, paths, text, options=options, files=tuple(files))


def recipe_of(spark: SparkSession, source: Source) -> Recipe:
    return Recipe(spark.version, {}, (source,), (), Output())


@pytest.mark.long
def test_they_are_those_of_sparks_readers(
    spark_context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = SparkSession(spark_context)
    drawn = random.Random(7)
    # Edges between the blocks that are read fall everywhere.
    monkeypatch.setattr(text_records, "BLOCK_BYTES", 7)
    contents = [
        b"",
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf\n",
        b"\xef\xbb\xbfa\n \nb",
        b"\r",
        b"a\r\r\n\nb\r",
    ]
    for _ in range(FILES - len(contents)):
        contents.append(b"".join(drawn.choices(PIECES, k=drawn.randrange(25))))
    files = [written(tmp_path, f"{n}.txt", one) for n, one in enumerate(contents)]
    texts = 0
    for number, file in enumerate(files):
        kind, options = (
            ("csv", {"comment": "#", "header": "true"}),
            ("csv", {"header": "false"}),
            ("json", {"mode": "PERMISSIVE"}),
            ("text", {}),
        )[number % 4]
        source = source_of(kind, [file], **options)
        whole = read_whole(spark, source)
        if kind != "text":
            check_lines(spark, source, len(whole))
        some = np.arange(len(whole), dtype=np.uint64)[:: drawn.choice([1, 2, 3])]
        some = some[drawn.randrange(2) :]
        if len(some):
            read = texts_at(spark, recipe_of(spark, source), source, file.path, some)
            assert read == [whole[one] for one in some.tolist()], contents[number]
            texts += len(read)
    assert texts > 30
    gone = source_of("text", files[:1])
    with pytest.raises(RowError, match="has no row"):
        texts_at(spark, recipe_of(spark, gone), gone, gone.paths[0], np.array([99], np.uint64))


def read_whole(spark: SparkSession, source: Source) -> list[str]:
    """What all rows of a source of one file say, as Spark reads and numbers them."""
    view = view_of(spark.newSession(), source)
    columns = [one for one in view.columns if one not in {FILE_COLUMN, ROW_COLUMN}]
    found = (
        view.select(ROW_COLUMN, F.to_json(F.struct(*columns)).alias("text")).coalesce(1).collect()
    )
    texts = {row[ROW_COLUMN]: row.text for row in found}
    return [texts[ordinal] for ordinal in range(len(texts))]


def check_lines(spark: SparkSession, source: Source, many: int) -> None:
    """See that lines are those of the rows that Spark finds in a file."""
    path = source.files[0].path
    _, records = _records(spark, source, path)
    lines = sorted(row.line + 1 for row in records.collect())[header_count(source) :]
    assert line_numbers(spark, source, path, np.arange(many, dtype=np.uint64)).tolist() == lines
    every = line_numbers_of_file(spark, source, path)
    assert every is not None
    assert every.tolist() == lines
    assert [ordinal_at_line(spark, source, path, line) for line in lines] == list(range(many))
    for line in set(range(1, 30)) - set(lines):
        with pytest.raises(RowError, match="is no row"):
            ordinal_at_line(spark, source, path, line)


@pytest.fixture
def few_partitions(spark_context: SparkContext) -> Iterator[None]:
    """Sessions of a program whose settings bound the partitions of a scan."""
    settings = spark_context._jsc.sc().conf()
    settings.set("spark.sql.files.maxPartitionNum", "2")
    yield
    settings.remove("spark.sql.files.maxPartitionNum")


@pytest.mark.long
@pytest.mark.usefixtures("few_partitions")
def test_rows_of_files_that_are_read_in_splits_have_the_ordinals_of_whole_ones(
    spark_context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = SparkSession(spark_context)
    assert spark.newSession().conf.get("spark.sql.files.maxPartitionNum") == "2"
    drawn = random.Random(11)
    monkeypatch.setattr(text_records, "BLOCK_BYTES", 31)
    monkeypatch.setattr(splits, "SPLITS_MAX", 10_000)
    several = 0
    for number in range(SPLIT_SOURCES):
        kind, options = (
            ("csv", {"comment": "#", "header": "true"}),
            ("csv", {"header": "false"}),
            ("json", {"mode": "PERMISSIVE"}),
            ("text", {}),
        )[number % 4]
        files = []
        for name in ("a b.txt", "c.txt")[: drawn.choice([1, 2])]:
            # Signs of several bytes, ends of lines of both kinds, blank lines and comments lie across the edges of splits.
            pieces = PIECES if number % 7 == 0 else [one for one in PIECES if one != BOM]
            content = b"".join(drawn.choices(pieces, k=drawn.randrange(60)))
            content = BOM + content if number % 5 == 0 else content
            content = b" #a\n\t#b\n" + content if number % 8 == 0 else content
            files.append(written(tmp_path, f"{number}{name}", content))
        source = source_of(kind, files, **options)
        monkeypatch.setattr(splits, "SPLIT_BYTES", drawn.choice([1, 2, 3, 5, 8, 13, 40]))
        session = session_with_settings(spark, recipe_of(spark, source), [source])
        view = view_of(session, source)
        columns = [one for one in view.columns if one not in {FILE_COLUMN, ROW_COLUMN}]
        rows = view.select(FILE_COLUMN, ROW_COLUMN, F.to_json(F.struct(*columns)).alias("text"))
        several += rows.rdd.getNumPartitions() > len(files)
        found = sorted((row[FILE_COLUMN], row[ROW_COLUMN], row.text) for row in rows.collect())
        whole = [
            (file.path, ordinal, text)
            for file in files
            for ordinal, text in enumerate(read_whole(spark, replace(source, files=(file,))))
        ]
        assert found == sorted(whole), (kind, [Path(file.path[5:]).read_bytes() for file in files])
    assert several > SPLIT_SOURCES // 4


def test_a_comment_begins_its_line(spark_context: SparkContext, tmp_path: Path) -> None:
    """Blanks before it make it a record, and a header where it is the first."""
    spark = SparkSession(spark_context)
    content = b"\n #about\n#plain\n\t#more\nid,name\n1,a\n #2,b\n#none\n3,c\n"
    said = [""] + [line.partition(",")[0] for line in content.decode().splitlines()]
    for name, held in (("a.csv", content), ("a.csv.gz", gzip.compress(content))):
        for header, lines in (("true", [4, 5, 6, 7, 9]), ("false", [2, 4, 5, 6, 7, 9])):
            file = written(tmp_path, name, held)
            source = source_of("csv", [file], comment="#", header=header)
            every = np.arange(len(lines), dtype=np.uint64)
            assert line_numbers(spark, source, file.path, every).tolist() == lines
            texts = texts_at(spark, recipe_of(spark, source), source, file.path, every)
            assert [json.loads(text)["a"] for text in texts] == [said[line] for line in lines]


def test_files_whose_rows_can_not_be_counted_here_are_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "SPLIT_BYTES", 8)
    large, small = b"aaaa,b\n" * 9, b"a,b\n"
    text = source_of("csv", [written(tmp_path, "a.csv", large)])
    assert splits.settings_for([text])["spark.sql.files.maxPartitionBytes"] == "8"
    assert splits.rows_before(text, 8)[text.files[0].path][:3] == (0, 2, 3)
    for other, split in (
        # Others of its plan are read under the same settings.
        (source_of("csv", [written(tmp_path, "b.csv.gz", gzip.compress(small))]), False),
        (replace(source_of("csv", [written(tmp_path, "c.csv", small)]), format="orc"), True),
        (replace(source_of("csv", [written(tmp_path, "d.csv", large)]), format="orc"), False),
        (replace(source_of("csv", [written(tmp_path, "e.csv", large)]), format="parquet"), True),
        (source_of("json", [written(tmp_path, "f.json", b'{"a": 1}\n[{"a": 2}]\n')]), False),
        (source_of("csv", [written(tmp_path, "g.csv", b"\n" * 9 + large)], header="true"), False),
        (source_of("csv", [written(tmp_path, "h.csv", large + b"\xef\xbb\xbfa,b\n")]), False),
        (source_of("csv", [written(tmp_path, "i.csv", b"\xef\xbb\xbf" + large)]), True),
        (source_of("csv", [written(tmp_path, f"{n}.csv", large) for n in range(17)]), False),
    ):
        found = splits.settings_for([text, other])["spark.sql.files.maxPartitionBytes"]
        assert (found == "8") == split, other
    with pytest.raises(RefusedError, match="can't be numbered"):
        splits.rows_before(replace(text, format="orc"), 8)
    assert splits.settings_for([replace(text, format="parquet")]) == {}


def test_what_bytes_alone_do_not_say_is_left_to_spark(
    spark_context: SparkContext, tmp_path: Path
) -> None:
    spark = SparkSession(spark_context)
    plain = source_of("csv", [written(tmp_path, "a.csv", b"a,b\n")])
    path = plain.files[0].path
    for other in (
        source_of("csv", [written(tmp_path, "a.csv.gz", b"")]),
        replace(plain, options={"multiLine": "true"}),
        replace(plain, options={"encoding": "utf-16"}),
        replace(plain, options={"lineSep": "\n"}),
        replace(plain, options={"comment": "\u00e4"}),
        replace(plain, files=(replace(plain.files[0], path="s3a://there/a.csv"),)),
    ):
        assert text_file(other, other.files[0].path) is None
    assert text_file(plain, path) is not None
    ordinals = np.zeros(1, np.uint64)
    for other in (
        replace(plain, partitions='{"type": "struct", "fields": []}'),
        replace(plain, options={"basePath": f"file:{tmp_path.parent}"}),
    ):
        with rows.extracted_rows(spark, other, path, ordinals) as found:
            assert found == (other, path, ordinals)
    below = replace(plain, options={"basePath": f"file:{tmp_path}"})
    with rows.extracted_rows(spark, below, path, ordinals) as (held, place, _):
        assert (held.options, held.files[0].path) == ({}, place)
    assert rows_at(spark, recipe_of(spark, plain), plain, {path: ordinals}).count() == 1


def test_lines_of_json_that_are_several_rows_are_refused(
    spark_context: SparkContext, tmp_path: Path
) -> None:
    spark = SparkSession(spark_context)
    content = b'{"a": 1}\n \xef\xbb\xbf[{"a": 2}, {"a": 3}]\n{"a": 4}\n'
    for name, held in (("a.json", content), ("a.json.gz", gzip.compress(content))):
        source = source_of("json", [written(tmp_path, name, held)])
        path = source.files[0].path
        with pytest.raises(RefusedError, match="array of JSON"):
            line_numbers(spark, source, path, np.zeros(1, np.uint64))
        with pytest.raises(RefusedError, match="array of JSON"):
            line_numbers_of_file(spark, source, path)
        with pytest.raises(RefusedError, match="array of JSON"):
            ordinal_at_line(spark, source, path, 3)
    # Comments may be lines that are no rows.
    plain = source_of("json", [written(tmp_path, "a.json", b"")])
    assert not has_lines(replace(plain, options={"allowComments": "true"}))
