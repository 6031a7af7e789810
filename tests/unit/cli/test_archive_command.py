"""`lineage archive` and `lineage expire` where the spool has more of an application than the store."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lineage.main import app as program
from lineage_core.contract.message import Heartbeat, dump_message
from lineage_core.contract.verdict import ABANDONED_AFTER_S
from lineage_store.dump import dump_application
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store
from tests.support.spool_builder import verdict_of
from tests.support.stored_lineage import spool_run, store_run

pytestmark = pytest.mark.unit
APP = "app-1"


@pytest.fixture
def hot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An embedded store with a spool of one application beside it, of which nothing is linked."""
    for name in ("LINEAGE_STORE", "LINEAGE_SPOOL", "LINEAGE_ROWS_FOLDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    spool_run(tmp_path / "hot" / "spool", tmp_path)
    return f"sqlite:///{tmp_path}/hot/lineage.db"


def lineage(url: str, *arguments: str) -> Any:
    return CliRunner().invoke(program, arguments, env={"LINEAGE_STORE": url})


def link_when_it_was_silent(path: Path, lines: Iterable[str]) -> None:
    """Link the beginning of the spool, as of a driver that was not heard of since."""
    driver = path / "spool" / APP / "driver.jsonl"
    whole = driver.read_text()
    driver.write_text("".join(lines))
    with SqliteStore(path / "lineage.db", clock=lambda: time.time() - 2 * ABANDONED_AFTER_S) as store:  # fmt: skip
        ingest(store, path / "spool" / APP)
    with SqliteStore(path / "lineage.db") as store:
        assert [one.status for one in store.applications()] == ["abandoned"]
    driver.write_text(whole)


def lines_of(path: Path) -> list[str]:
    return (path / "spool" / APP / "driver.jsonl").read_text().splitlines(keepends=True)


def test_what_is_in_the_spool_is_archived_and_rows_that_were_kept_stay(
    hot: str, tmp_path: Path
) -> None:
    path, lake = tmp_path / "hot", f"lake:{tmp_path}/lake"
    link_when_it_was_silent(path, lines_of(path)[:3])
    rows = path / "rows" / APP / "3" / "3-0-1.parquet"
    rows.parent.mkdir(parents=True)
    rows.write_bytes(b"rows")
    done = lineage(hot, "archive", "--older-than", "1h", "--to", lake)
    assert (done.exit_code, done.stderr) == (0, "")
    store_run(f"sqlite:///{tmp_path}/expected.db", tmp_path)
    with open_store(lake) as cold, SqliteStore(tmp_path / "expected.db") as expected:
        assert list(dump_application(cold, APP)) == list(dump_application(expected, APP))
    assert not (path / "spool" / APP).exists()
    assert rows.exists()
    assert lineage(f"{hot},{lake}", "rm", APP).exit_code == 0
    assert not rows.parent.parent.exists()


@pytest.mark.parametrize("command", ["archive", "expire"])
def test_an_application_that_lives_as_its_spool_says_is_kept(
    hot: str, tmp_path: Path, command: str
) -> None:
    path = tmp_path / "hot"
    *lines, _ = lines_of(path)
    link_when_it_was_silent(path, lines[:3])
    beat = dump_message(Heartbeat(app=APP, at=time.time(), beat=1))
    (path / "spool" / APP / "driver.jsonl").write_text("".join([*lines, beat, "\n"]))
    place = ("--to", f"lake:{tmp_path}/lake") if command == "archive" else ()
    assert lineage(hot, command, "--older-than", "1h", *place).exit_code == 0
    assert (path / "spool" / APP / "driver.jsonl").exists()
    with SqliteStore(path / "lineage.db") as store:
        assert [(one.app, one.status) for one in store.applications()] == [(APP, "running")]


def test_an_application_whose_blocks_can_not_be_read_keeps_them(hot: str, tmp_path: Path) -> None:
    path, lake = tmp_path / "hot", f"lake:{tmp_path}/lake"
    damaged = max((path / "spool" / APP / "blocks").iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-9] + bytes(9))
    for _ in range(2):
        said = lineage(hot, "archive", APP, "--to", lake)
        assert (said.exit_code, "its spool holds what can't be linked" in said.stdout) == (0, True)
    assert damaged.exists()
    for url in (hot, lake, f"{hot},{lake}"):
        with open_store(url) as store:
            assert store.application_ids() == [APP]
            assert not verdict_of(store, APP).complete
