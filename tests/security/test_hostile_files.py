"""Files that a job leaves where a server reads: they neither lead elsewhere nor hold it up, and schemas of recipes run no code."""

from __future__ import annotations

import io
import json
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_core.recipe.document import File, Output, Recipe, Source
from lineage_core.recipe.plan import Attribute, Range
from lineage_core.tracing.budget import Budget, TimeUpError, use_budget
from lineage_dataframes.errors import ChangedSourceError, RefusedError, RowError
from lineage_dataframes.sources import text_records
from lineage_dataframes.sources.file_changes import check_local
from lineage_dataframes.sources.jdbc import key_columns
from lineage_dataframes.sources.schemas import parse_schema_json
from lineage_dataframes.sources.splits import settings_for
from lineage_dataframes.sources.views import view_of
from lineage_dataframes.spark import connected
from lineage_dataframes.trace import rows
from lineage_dataframes.trace.allowed import check_files_allowed
from lineage_dataframes.trace.rows import output_of
from lineage_query.rows import parquet_rows
from lineage_query.rows.parquet_rows import texts_of
from lineage_query.rows.reader import ForbiddenRowsError, RootedReader, RowReader, reading_by
from lineage_query.rows.valued_rows import Files, positions_with
from lineage_store.paths import Bytes, RowsError, canonical
from lineage_store.spool.reader import Damage, record_batches_of
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore

pytestmark = pytest.mark.security
FIRST = np.array([0], np.uint64)
Reading = Callable[[RootedReader, str], object]
READINGS: dict[str, Reading] = {
    "rows": lambda reader, path: reader.rows(path, FIRST),
    "lines": lambda reader, path: reader.lines(path, FIRST + np.uint64(1), FIRST + np.uint64(1)),
    "checksum": lambda reader, path: reader.checksum(path),
    "sums": lambda reader, path: reader.sums(path, 0, 1),
    "records": lambda reader, path: reader.records(path, FIRST),
}


def field(kind: object, **metadata: str) -> dict[str, object]:
    return {"name": "a", "type": kind, "nullable": True, "metadata": metadata}


def schema(*fields: object) -> str:
    return json.dumps({"type": "struct", "fields": fields})


def source(path: Path, kind: str = "csv", columns: str = schema(field("string"))) -> Source:
    known = path.stat()
    noted = File(f"file:{path}", known.st_size, known.st_mtime_ns // 1_000_000)
    return Source(kind, (f"file:{path}",), columns, files=(noted,))


class Swapping(RootedReader):
    """Once it was seen that a file may be read, a job puts a link in the place of the file, or of its folder."""

    def __init__(self, root: Path, swapped: Path, secret: Path) -> None:
        super().__init__([str(root)])
        self.swapped, self.secret = swapped, secret

    def _check(self, *given: str) -> None:  # type: ignore[override]
        super()._check(*given)
        if not self.swapped.is_symlink():
            self.swapped.rename(self.swapped.with_name("away"))
            self.swapped.symlink_to(self.secret)


@pytest.mark.parametrize("way", READINGS)
@pytest.mark.parametrize("folder", [False, True])
def test_a_link_that_is_put_there_after_the_check_leads_nowhere(
    tmp_path: Path, way: str, folder: bool
) -> None:
    name = "in.parquet" if way == "records" else "in.txt"
    root, secrets = tmp_path / "root", tmp_path / "secrets"
    for place, text in ((root / "in", "mine"), (secrets, "that of somebody else")):
        place.mkdir(parents=True)
        if way == "records":
            pq.write_table(pa.table({"a": [text]}), place / name)
        else:
            (place / name).write_text(text)
    file = root / "in" / name
    reader = Swapping(root, *((file.parent, secrets) if folder else (file, secrets / name)))
    with pytest.raises(RowsError):
        READINGS[way](reader, str(file))
    assert reader.swapped.is_symlink()


def records(one: Source) -> object:
    file = text_records.text_file(one, one.files[0].path)
    return list(file.records()) if file else None


def values(one: Source) -> object:
    plan = (Range((Attribute(1, "a", "string"),), 0, 3, 1),)
    return rows.parquet_values(Recipe("4.1.4", {}, (), plan, Output("files")), one, one.files[0], 0)


@pytest.mark.parametrize(("kind", "read"), [("csv", records), ("parquet", values)])
@pytest.mark.parametrize("apart", [False, True])
def test_a_trace_opens_no_link_that_is_put_there_after_the_check(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    read: Callable[[Source], object],
    apart: bool,
) -> None:
    monkeypatch.setattr(connected, "inheritable_thread_target", lambda _: lambda function: function)
    root, secrets = tmp_path / "root", tmp_path / "secrets"
    for place, text in ((root, "mine"), (secrets, "that of somebody else")):
        place.mkdir()
        pq.write_table(pa.table({"a": [text]}), place / "in")
    one = source(root / "in", kind)
    assert read(one)
    reader = Swapping(root, root / "in", secrets / "in")
    with reading_by(reader), ThreadPoolExecutor(1) as pool, suppress(RowsError):
        away = pool.submit(connected.in_thread(MagicMock(), read), one) if apart else None
        assert (away.result() if away else read(one)) is None
    assert reader.swapped.is_symlink()


@pytest.mark.parametrize("way", READINGS)
def test_a_pipe_makes_nobody_wait(tmp_path: Path, way: str) -> None:
    path = tmp_path / ("in.parquet" if way == "records" else "in.txt")
    os.mkfifo(path)
    with pytest.raises(RowsError, match="no file"):
        READINGS[way](RootedReader([str(tmp_path)]), str(path))


def test_a_pipe_in_a_spool_makes_nobody_wait(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    os.mkfifo(app / "driver.jsonl")
    with (
        SqliteStore(tmp_path / "lineage.db") as store,
        pytest.raises(OSError, match="it is no file"),
    ):
        ingest(store, app)
    (damage,) = record_batches_of(app / "driver.jsonl")
    assert isinstance(damage, Damage)
    assert "can't be read" in damage.reason


@pytest.mark.parametrize("kind", ["parquet", "orc", "csv"])
def test_values_are_not_looked_for_in_a_pipe(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "in"
    os.mkfifo(path)
    files = Files(kind, "", [("a", "string")], {}, source(path).files, {})
    assert positions_with(files, [("a", "x")], RootedReader([str(tmp_path)])) is None


def test_spark_is_given_no_folder_and_no_pipe_for_a_file(tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    (folder / "link.csv").symlink_to("/etc/passwd")
    os.mkfifo(pipe)
    for path in (folder, pipe):
        with pytest.raises(ChangedSourceError, match="is no file"):
            check_local(source(path))


def test_values_of_a_dictionary_are_not_written_out_for_each_row(tmp_path: Path) -> None:
    path, rows = tmp_path / "in.parquet", 300_000
    codes = pa.array([0] * rows, pa.int8())
    held = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 4_096]))
    with pq.ParquetWriter(path, pa.schema([("a", held.type)]), store_schema=False) as writer:
        writer.write_table(pa.table({"a": held}), row_group_size=rows)
    assert path.stat().st_size < 1 << 20
    usual = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counted)
    try:
        with path.open("rb") as file:
            (text,) = texts_of(file, np.array([rows - 1], np.uint64))
        files = Files("parquet", "", [("a", "string")], {}, source(path).files, {})
        found = positions_with(files, [("a", "x" * 4_096)], RootedReader([str(tmp_path)]))
    finally:
        pa.set_memory_pool(usual)
    assert text is not None
    assert json.loads(text) == {"a": "x" * 4_096}
    assert found is not None
    assert len(found[0]) == rows
    assert (counted.max_memory() or 0) < 64 << 20


def test_rows_that_are_read_some_at_a_time_are_those_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_rows, "BATCH_ROWS_MAX", 3)
    monkeypatch.setattr(parquet_rows, "TEXT_ROWS", 2)
    rows = [
        {
            "a": None if n % 4 else f"v{n % 3}",
            "b": {"c": [f"x{n}"] * (n % 3)},
            "d": b"%d" % n,
            "e": n,
        }
        for n in range(25)
    ]
    path = tmp_path / "in.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=10)
    asked = [0, 2, 3, 9, 10, 17, 24, 25]
    with path.open("rb") as file:
        found = texts_of(file, np.array(asked, np.uint64))
    assert found == [parquet_rows._text(rows[n]) for n in asked[:-1]] + [None]
    for value in (None, "v0", "v1"):
        files = Files("parquet", "", [("a", "string")], {}, source(path).files, {})
        there = positions_with(files, [("a", value)], RootedReader([str(tmp_path)]))
        wanted = [n for n, row in enumerate(rows) if row["a"] == value]
        assert {at: one.tolist() for at, one in (there or {}).items()} == {0: wanted}


def _parquet_of(footer: int) -> bytes:
    return footer.to_bytes(4, "little") + b"PAR1"


def _orc_of(footer: int) -> bytes:
    # Fields of a PostScript: length of the footer, no compression, and ORC's mark.
    said = b"\x08" + bytes(footer >> shift & 127 | 128 for shift in (0, 7, 14, 21)) + b"\x00"
    said += b"\x10\x00\x22\x02\x00\x0c\x82\xf4\x03\x03ORC"
    return said + bytes([len(said)])


@pytest.mark.parametrize(("kind", "tail"), [("parquet", _parquet_of), ("orc", _orc_of)])
def test_what_a_file_says_of_itself_is_not_read_where_it_is_huge(
    tmp_path: Path, kind: str, tail: Callable[[int], bytes]
) -> None:
    # A hole, which takes no disk, and ends as if all of it were the footer.
    path, size = tmp_path / f"in.{kind}", 200 << 20
    with path.open("wb") as file:
        file.write(b"PAR1" if kind == "parquet" else b"ORC")
        file.truncate(size)
        file.seek(0, os.SEEK_END)
        file.write(tail(size - 200))
    read: list[int] = []

    class Counted(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            read.append(1 << 62 if size is None or size < 0 else size)
            return super().read(size)

    class Reader(RootedReader):
        def opened(self, path: str, *, packed: bool = False) -> Bytes:
            found = super().opened(path, packed=packed)
            found._file = Counted(path)
            return found

    reader = Reader([str(tmp_path)])
    files = Files(kind, "", [("a", "string")], {}, source(path).files, {})
    assert positions_with(files, [("a", "x")], reader) is None
    if kind == "parquet":
        with pytest.raises(RowsError, match="its footer has more than 8 MiB"):
            reader.records(str(path), FIRST)
    assert read
    assert max(read) <= 1 << 20


@pytest.mark.parametrize(
    "path",
    ["http://{at}/a.txt", "ftp://{at}/a.txt", "local:/../../../../../../etc/passwd", "dir:/etc/passwd", "github://a/b", "generic:/etc/passwd", "gist://a/b"],
)  # fmt: skip
def test_no_address_but_one_of_a_store_of_files_is_asked(path: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        named = canonical(path.format(at=f"127.0.0.1:{server.getsockname()[1]}"))
        reader = RowReader()
        for ask in (reader.state, reader.files_below, reader.opened):
            with pytest.raises(RowsError, match="are not read here"):
                ask(named)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_reading_parquet_ends_with_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": ["x"]}), path)
    with path.open("rb") as file, use_budget(Budget(seconds=-1)), pytest.raises(TimeUpError):
        texts_of(file, FIRST)


def test_a_hole_of_any_size_is_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_records, "LINE_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(text_records, "BLOCK_BYTES", 1 << 16)
    path = tmp_path / "in.csv"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    file_of = text_records.text_file(source(path), f"file:{path}")
    assert file_of is not None
    with pytest.raises(RefusedError, match="a line of more than 1 MiB"):
        list(file_of.records())
    # Spark is told to read it whole.
    assert settings_for((source(path),))["spark.sql.files.maxPartitionBytes"] == str(1 << 40)


def test_looking_for_records_ends_with_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a\n")
    file_of = text_records.text_file(source(path), f"file:{path}")
    assert file_of is not None
    with use_budget(Budget(seconds=-1)), pytest.raises(TimeUpError):
        list(file_of.records())


def written(tmp_path: Path, **said: Any) -> Recipe:
    """A job's own file, which its recipe says to be the output."""
    path = tmp_path / "root" / "out"
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    output = Output("files", action="save", files=source(path).files, **said)
    return Recipe("4.1.4", {}, (), (Range((Attribute(1, "a", "bigint"),), 0, 3, 1),), output)


def test_a_database_is_not_asked_for_rows_of_an_output(tmp_path: Path) -> None:
    asked = {"url": "jdbc:derby:x", "dbtable": "(SELECT secret FROM t) s", "key": "[]"}
    with pytest.raises(RowError, match="no file of these rows"):
        output_of(MagicMock(), written(tmp_path, format="jdbc", options=asked))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_the_log_of_an_output_is_below_the_roots(tmp_path: Path, kind: str) -> None:
    reader = RootedReader([str(tmp_path / "root")])
    inside, outside = f"file:{tmp_path / 'root' / 't'}", f"file:{tmp_path / 't'}"
    check_files_allowed(
        written(tmp_path, format=kind, path=inside, options={"metadata": inside}), reader
    )
    for path, metadata in ((outside, inside), (inside, outside)):
        recipe = written(tmp_path, format=kind, path=path, options={"metadata": metadata})
        with pytest.raises(ForbiddenRowsError):
            check_files_allowed(recipe, reader)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "hive-text", "jdbc"])
def test_a_source_that_does_not_say_how_it_is_read_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(RefusedError, match="does not say"):
        view_of(MagicMock(), Source(kind, (), schema(), options={"dbtable": "x"}))
    for key in ("", "3", "[1]", "[" * 100_000):
        with pytest.raises(RefusedError, match="does not say"):
            key_columns(Source("jdbc", (), schema(), options={"key": key}))


@pytest.mark.parametrize("nested", [False, True])
def test_a_schema_imports_no_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lineage_evil.py").write_text("")
    kind: object = {
        "type": "udt", "class": None, "pyClass": "lineage_evil.Type", "serializedClass": "gASVAAA=", "sqlType": "string",
    }  # fmt: skip
    if nested:
        kind = {"type": "array", "elementType": kind, "containsNull": True}
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": ["x"]}), path)
    spark = MagicMock()
    view_of(spark, source(path, "parquet", schema(field(kind))))
    assert "lineage_evil" not in sys.modules
    (read,) = spark.read.format.return_value.options.return_value.schema.call_args.args
    assert read.simpleString() == ("struct<a:array<string>>" if nested else "struct<a:string>")


@pytest.mark.parametrize(
    "text",
    ["current_user()", "java_method('a.B', 'c')", "'a' || version()", "'${env:HOME}'", "''''"],
)
def test_a_default_of_a_column_is_a_constant(text: str) -> None:
    with pytest.raises(RefusedError, match="no constant"):
        parse_schema_json(schema(field("string", EXISTS_DEFAULT=text)))


@pytest.mark.parametrize(
    "text", ["'a b'", "42", "-1.5e3", "7L", "NULL", "true", "DATE '2020-01-01'", r"'it\'s'"]
)
def test_a_constant_stays_the_default_of_a_column(text: str) -> None:
    (column,) = parse_schema_json(schema(field("string", EXISTS_DEFAULT=text)))
    assert column.metadata == {"EXISTS_DEFAULT": text}


@pytest.mark.parametrize(
    "text", ["null", "[]", "{}", '{"fields": 3}', schema(field({"type": "class"})), schema(3)]
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(RefusedError):
        parse_schema_json(text)


def test_dictionaries_of_numbers_are_read_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    numbers = pa.array([7, 9, None, 7]).dictionary_encode()
    pq.write_table(pa.table({"a": numbers}), path)
    with path.open("rb") as file:
        found = texts_of(file, np.array([1, 2, 3], np.uint64))
    assert found == ['{"a":9}', "{}", '{"a":7}']
