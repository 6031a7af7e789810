"""`lineage archive` is killed at any point: all applications are answered all the while, and it goes on where it was."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lineage_store.dump import dump_application
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store
from tests.support.job_runs import CLI
from tests.support.lake_writer import write_application

pytestmark = pytest.mark.faults

APPS = 24


@pytest.mark.parametrize("kills", [3, pytest.param(60, marks=pytest.mark.long)])
def test_nothing_is_lost_or_twice_while_it_is_archived(tmp_path: Path, kills: int) -> None:
    draw = random.Random(kills)
    url = f"sqlite:///{tmp_path}/hot.db,lake:{tmp_path}/lake"
    LakeStore(LakeAddress(f"{tmp_path}/lake")).close()
    with SqliteStore(tmp_path / "hot.db") as hot:
        for part in range(APPS):
            write_application(hot, f"app-{part:02}", part)
        # None of them says that it ended, so it is called abandoned, by the hour when it was stored.
        with hot.transaction() as connection:
            connection.execute("UPDATE application SET seen_at = 1.0")
        wanted = {app: list(dump_application(hot, app)) for app in hot.application_ids()}
    moved = set[int]()
    for _ in range(kills):
        archiving = subprocess.Popen(
            [*CLI, "archive", "--older-than", "1h"],
            env={**os.environ, "LINEAGE_STORE": url},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert archiving.stdout is not None
        archiving.stdout.readline()
        time.sleep(draw.random() * 0.2)
        archiving.kill()
        archiving.wait()
        archiving.stdout.close()
        with open_store(url) as store:
            assert list(store.application_ids()) == sorted(wanted, reverse=True)
            assert [record.app for record in store.applications()] == sorted(wanted, reverse=True)
            for app, lines in wanted.items():
                assert list(dump_application(store, app)) == lines
        with SqliteStore(tmp_path / "hot.db") as hot:
            moved.add(APPS - len(hot.application_ids()))
    assert any(count > 0 for count in moved)
    subprocess.run(
        [*CLI, "archive", "--older-than", "1h"],
        env={**os.environ, "LINEAGE_STORE": url},
        check=True,
        stdout=sys.stderr,
    )
    with (
        SqliteStore(tmp_path / "hot.db") as hot,
        LakeStore(LakeAddress(f"{tmp_path}/lake")) as lake,
    ):
        assert hot.application_ids() == []
        assert {app: list(dump_application(lake, app)) for app in wanted} == wanted
