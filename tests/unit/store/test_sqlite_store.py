"""The SQLite store shares its file well; what all stores do is tested in integration/test_stores.py."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lineage_core.codec.packing import pack_edge, unpack_edge
from lineage_core.contract.address import POSITION_MAX
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import Begin, Recipe, SinkFile, SinkFiles, Split, Splits
from lineage_core.errors import RecordBatchError
from lineage_store import recorded_files
from lineage_store.errors import StoreError
from lineage_store.paths import Spellings
from lineage_store.recorded_files import FileQuery, FileVersion
from lineage_store.sqlite import schema
from lineage_store.sqlite.connection import connect
from lineage_store.sqlite.file_rows import NOT_INDEXED
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.recorded_files import SqliteFileRows
from lineage_store.sqlite.store import SqliteStore
from tests.support.spool_builder import (
    APP,
    RECOMPUTED_EXACT,
    Spool,
    contents,
    word_count,
    write_recomputed,
)

pytestmark = pytest.mark.unit


def begin(app: str, started_at: float = 1.0) -> Begin:
    return Begin(app=app, name=f"name of {app}", started_at=started_at)


def wide_block(app: str, seq: int) -> FlowBlock:
    """About 300 KB however well it is packed."""
    random = np.random.default_rng(seq)
    ins = np.unique(random.integers(0, 2**63, 40_000, np.uint64))
    return FlowBlock(
        BlockId("9", 0, 1, seq),
        Relation.ROWS,
        "1#0",
        (Section("9#0", 0, len(ins)),),
        ins,
        np.arange(len(ins), dtype=np.uint64),
        np.arange(len(ins) + 1),
        app=app,
    )


@pytest.mark.parametrize("top", [0, 255, 256, 65_536, 2**32 - 1])
def test_edges_come_back_in_any_width(top: int) -> None:
    consumer = np.array([0, 0, 1, top], np.uint32)
    producer = np.array([top, 3 % (top + 1), 0, 1 % (top + 1)], np.uint32)
    edge = EdgeBatch(BlockId("1", 0, 0, 0), BlockId("2", 0, 0, 0), 4, producer, consumer)
    packed = pack_edge(edge)
    assert packed is not None
    found = unpack_edge(4, packed)
    assert [column.tolist() for column in found] == [producer.tolist(), consumer.tolist()]
    assert all(column.dtype == np.uint32 for column in found)


@pytest.mark.parametrize("damage", [b"", b"\x01", b"\x02\x01\x01abc", b"\x01\x03\x01abc"])
def test_damaged_edges_are_refused(damage: bytes) -> None:
    with pytest.raises(RecordBatchError):
        unpack_edge(4, damage)


def test_deleting_gives_the_space_back_and_leaves_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "lineage.db"
    with SqliteStore(path) as store:
        word_count(Spool(tmp_path / "spool"))
        ingest(store, tmp_path / "spool" / APP)
        expected = contents(store)
    before = path.stat().st_size
    with SqliteStore(path) as store:
        store.write("big", [begin("big")], [wide_block("big", seq) for seq in range(8)])
        store.delete("big")
        store.delete("never there")
        assert [record.app for record in store.applications()] == [APP]
        assert contents(store) == expected
    assert path.stat().st_size <= before + 4096
    with SqliteStore(path) as store:
        store.delete(APP)
        tables = store._db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for (table,) in tables:
            rows = store._db.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert rows == (int(table == "application_number"),)


def test_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "deep" / "lineage.db") as store:
        store.write("big", [begin("big")], [wide_block("big", 0)])
        with SqliteStore(store.path) as reader:
            assert reader.applications()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["lineage.db"]


def read_until_full(path: Path, sender: Any) -> None:
    """Reads over and over; whatever it sees is whole."""
    sizes = set()
    with SqliteStore(path) as store:
        while True:
            blocks = store.graph("big").blocks_into("9#0", 0, POSITION_MAX)
            assert len(store.graph("big").load([ref.block_id for ref in blocks])) == len(blocks)
            sizes.add(len(blocks))
            if len(blocks) == 20:
                sender.send(sorted(sizes))
                return


def write_ten(path: Path, app: str, offset: int) -> None:
    with SqliteStore(path) as store:
        for seq in range(offset, offset + 10):
            store.write(app, blocks=[wide_block(app, seq)])


def test_processes_read_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "lineage.db"
    with SqliteStore(path) as store:
        store.write("big", [begin("big")])
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    reader = spawn.Process(target=read_until_full, args=(path, sender))
    writers = [spawn.Process(target=write_ten, args=(path, "big", 10 * at)) for at in range(2)]
    for process in (reader, *writers):
        process.start()
    for process in (*writers, reader):
        process.join(60)
        assert process.exitcode == 0
    assert receiver.recv()[-1] == 20
    receiver.close()
    sender.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lineage.db"]


def test_an_older_file_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lineage.db"
    with SqliteStore(path) as store:
        store.write(APP, [begin(APP)])
    step = ("ALTER TABLE application ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue'",)
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, step))
    with SqliteStore(path) as store:
        assert store.applications()[0].app == APP
        assert store._db.execute("SELECT colour FROM application").fetchone() == ("blue",)
        assert schema.version_of(store._db) == len(schema.STEPS)


def _open_new(path: Path) -> str:
    try:
        connect(path).close()
    except StoreError as error:
        return str(error)
    return ""


def test_several_processes_open_a_new_file_at_the_same_moment(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as processes:
        for number in range(100):
            path = tmp_path / f"{number}.db"
            assert processes.map(_open_new, [path] * 4, chunksize=1) == [""] * 4


def test_a_file_from_before_recipes_takes_them(tmp_path: Path) -> None:
    path = tmp_path / "lineage.db"
    connection = sqlite3.connect(path)
    for statement in schema.STEPS[0]:
        connection.execute(statement)
    connection.execute("PRAGMA user_version = 1")
    connection.execute("INSERT INTO application (app) VALUES (?)", (APP,))
    connection.commit()
    connection.close()
    recipe = Recipe(app=APP, node="7", recipe='{"version":1}')
    with SqliteStore(path) as store:
        assert store.graph(APP).recipe("7") is None
        store.write(APP, [recipe])
        assert store.messages(APP) == [recipe]
        assert store.graph(APP).recipe("7") == recipe.recipe


def test_what_was_recomputed_before_attempts_were_named_becomes_a_superset(tmp_path: Path) -> None:
    path = tmp_path / "lineage.db"
    with SqliteStore(path) as store:
        write_recomputed(store)
        store._db.execute("UPDATE block SET exact = 1, reason = ''")
        store._db.execute("ALTER TABLE space DROP COLUMN seal")
        without_keys(store)
        store._db.execute("PRAGMA user_version = 2")
    with SqliteStore(path) as store:
        assert {
            ref.block_id.node: ref.exact for ref in store.graph(APP).blocks()
        } == RECOMPUTED_EXACT


def without_keys(store: SqliteStore) -> None:
    """A store as version 4 left it."""
    without_versions(store)
    store._db.execute("DROP TABLE file_use")
    store._db.execute("DROP TABLE noted_folder")
    store._db.execute("DROP INDEX message_without_keys")
    store._db.execute("ALTER TABLE message DROP COLUMN keyed")
    store._db.execute("PRAGMA user_version = 4")


def without_bases(store: SqliteStore) -> None:
    """A store as version 6 left it."""
    store._db.execute("DROP TABLE message_base")
    store._db.execute("ALTER TABLE message DROP COLUMN base")
    store._db.execute("PRAGMA user_version = 6")


def without_versions(store: SqliteStore) -> None:
    """A store as version 5 left it."""
    without_bases(store)
    store._db.execute("DROP TRIGGER file_version_delete")
    store._db.execute("DROP TABLE file_version")
    store._db.execute("DROP TABLE recorded_folder")
    store._db.execute("DROP TABLE application_number")
    store._db.execute("DROP INDEX message_not_indexed")
    store._db.execute(
        "CREATE INDEX message_without_keys ON message (app) WHERE keyed IS NULL "
        "AND type IN ('splits', 'record_splits', 'sink_files', 'record_files')"
    )
    store._db.execute("UPDATE message SET keyed = 1 WHERE keyed = 2")
    store._db.execute("PRAGMA user_version = 5")


def applications_of(store: SqliteStore, path: object) -> list[str]:
    """The applications that recorded a file."""
    return [file.app for file in store.recorded_files(FileQuery(str(path), Spellings())).items]


@pytest.mark.parametrize("older", [without_keys, without_versions])
def test_files_of_older_stores_become_rows(
    tmp_path: Path, older: Callable[[SqliteStore], None]
) -> None:
    path, source = tmp_path / "lineage.db", tmp_path / "in.txt"
    source.write_text("a\n")
    split = Split(partition=0, path=f"file:{source}", start=0, length=2, file_size=2, mtime=1.0)
    with SqliteStore(path) as store:
        store.write("other", [Begin(app="other", name="job", started_at=1.0)])
        store.write(APP, [Splits(app=APP, node="0", splits=(split,))])
        older(store)
    with SqliteStore(path) as store:
        assert applications_of(store, source) == [APP]
        assert applications_of(store, "/none") == []
        assert store._db.execute("SELECT count(*) FROM message WHERE keyed < 2").fetchone() == (0,)


@pytest.mark.parametrize("keyed", [None, 1])
def test_what_an_older_program_writes_is_read_each_time(tmp_path: Path, keyed: int | None) -> None:
    source = tmp_path / "in.txt"
    split = Split(partition=0, path=str(source), start=0, length=2, file_size=2, mtime=1.0)
    with SqliteStore(tmp_path / "lineage.db") as store:
        store.write(APP, [Splits(app=APP, node="0", splits=(split,))])
        # A program of version 5 writes the first of these, an older one neither.
        store._db.execute("DELETE FROM file_version")
        assert applications_of(store, source) == []
        store._db.execute("UPDATE message SET keyed = ?", (keyed,))
        assert applications_of(store, source) == [APP]
        assert applications_of(store, "/none") == []
        plan = store._db.execute(
            f"EXPLAIN QUERY PLAN SELECT app FROM message WHERE {NOT_INDEXED}"
        ).fetchall()
        assert "message_not_indexed" in plan[0][3]


def test_an_older_program_deletes_an_application_with_its_files(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    split = Split(partition=0, path=str(source), start=0, length=2, file_size=2, mtime=1.0)
    with SqliteStore(tmp_path / "lineage.db") as store:
        store.write(APP, [Splits(app=APP, node="0", splits=(split,))])
        # Its number may be that of another application later.
        store._db.execute("DELETE FROM application")
        store._db.execute("DELETE FROM message")
        store._db.execute("DELETE FROM noted_folder WHERE id NOT IN (SELECT folder FROM file_use)")
        store.write("next", [Begin(app="next", name="job", started_at=1.0)])
        assert applications_of(store, source) == []
        store.write("next", [Splits(app="next", node="0", splits=(split,))])
        assert applications_of(store, source) == ["next"]


def test_an_application_of_very_many_versions_ends_no_query_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_files, "ROWS_AT_FIRST", 2)
    monkeypatch.setattr(recorded_files, "ROWS_MAX", 10)
    path = str(tmp_path / "in.txt")

    def files(app: str, number: int) -> SinkFiles:
        versions = (
            SinkFile(partition=0, path=path, size=2, mtime=float(at)) for at in range(number)
        )
        return SinkFiles(app=app, node="1", path=str(tmp_path), files=tuple(versions))

    with SqliteStore(tmp_path / "lineage.db") as store:
        for app, number in (("much", 11), ("two", 2), ("one", 1)):
            store.write(app, [files(app, number)])
        found = store.recorded_files(FileQuery(path, Spellings()))
        assert sorted(file.app for file in found.items) == ["one", "two", "two"]
        assert found.unread == ("much",)
        state = FileVersion(2, 1.0)
        found = store.recorded_files(FileQuery(path, Spellings(), state=state))
        assert sorted(file.app for file in found.items) == ["much", "two"]
        assert found.unread == ()


def test_rows_that_come_after_they_were_counted_leave_none_out_unsaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_files, "ROWS_AT_FIRST", 1)
    monkeypatch.setattr(recorded_files, "ROWS_MAX", 3)
    versions = tuple(SinkFile(partition=0, path="/a/b", size=2, mtime=float(at)) for at in range(4))
    with SqliteStore(tmp_path / "lineage.db") as store:
        store.write(APP, [SinkFiles(app=APP, node="1", path="/a", files=versions)])
        monkeypatch.setattr(SqliteFileRows, "count", lambda _: {APP: (3, 30)})
        found = store.recorded_files(FileQuery("/a/b", Spellings()))
    assert (list(found.items), found.unread) == ([], (APP,))


def test_rows_of_files_are_bounded_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each application can have the memory of a hundred long paths, and no more."""
    monkeypatch.setattr(recorded_files, "ROWS_AT_FIRST", 10)
    monkeypatch.setattr(recorded_files, "BYTES_MAX", 1 << 20)

    def files(app: str, paths: list[str], checksum: str = "") -> SinkFiles:
        written = (
            SinkFile(partition=0, path=path, size=2, mtime=1e306, checksum=checksum)
            for path in paths
        )
        return SinkFiles(app=app, node="1", path="/", files=tuple(written))

    path = "/data/part-0"
    wide = chr(0x1F600) * 8_000
    folders = [f"/{number}{wide}" for number in range(40)]
    with SqliteStore(tmp_path / "lineage.db") as store:
        store.write("long", [files("long", [f"{folder}/part-0" for folder in folders])])
        store.write("honest", [files("honest", [path], "x" * 60_000)])
        # No file system has such a path, and its rows would cost more than they are worth.
        store.write("absurd", [files("absurd", [f"/{'d/' * 5_000}part-0"])])
        found = store.recorded_files(FileQuery(path, Spellings()))
        assert found.unread == ("long",)
        ((app, version),) = [(file.app, file.version) for file in found.items]
        assert (app, len(version.checksum)) == ("honest", 40)
        assert str(version) == "2 bytes of inf ms since 1970"
        assert store._db.execute("SELECT count(*) FROM file_version").fetchone() == (41,)


def test_recipes_are_compressed_and_damage_is_told(tmp_path: Path) -> None:
    text = '{"version":1,"plan":[' + ",".join(['{"node":"project"}'] * 1_000) + "]}"
    with SqliteStore(tmp_path / "lineage.db") as store:
        store.write(APP, [Recipe(app=APP, node="7", recipe=text)])
        (body,) = store._db.execute("SELECT body FROM message").fetchone()
        assert len(body) < len(text) / 50
        assert store.graph(APP).recipe("7") == text
        store._db.execute("UPDATE message SET body = ?", (body[:-9],))
        with pytest.raises(StoreError, match="can't be read"):
            store.graph(APP).recipe("7")
        store.delete(APP)
        assert store._db.execute("SELECT count(*) FROM recipe").fetchone() == (0,)


def test_a_step_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lineage.db"
    SqliteStore(path).close()
    step = ("CREATE TABLE half (a)", "not SQL at all")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", (*schema.STEPS, step))
        with pytest.raises(StoreError, match="can't be used"):
            SqliteStore(path)
    with SqliteStore(path) as store:
        assert schema.version_of(store._db) == len(schema.STEPS)
        tables = store._db.execute("SELECT name FROM sqlite_schema").fetchall()
        assert ("half",) not in tables


def test_files_that_are_no_lineage_store_are_refused(tmp_path: Path) -> None:
    newer, other, noise = (tmp_path / name for name in ("newer.db", "other.db", "noise.db"))
    SqliteStore(newer).close()
    for path, statement in ((newer, "PRAGMA user_version = 99"), (other, "CREATE TABLE mine (a)")):
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.close()
    noise.write_bytes(b"no database " * 1000)
    before = other.read_bytes()
    with pytest.raises(StoreError, match=r"version 99.*update the program"):
        SqliteStore(newer)
    with pytest.raises(StoreError, match="not a lineage store"):
        SqliteStore(other)
    assert other.read_bytes() == before
    with pytest.raises(StoreError, match=r"noise\.db"):
        SqliteStore(noise)
    with pytest.raises(StoreError, match="can't open"):
        SqliteStore(noise / "below" / "a.db")
