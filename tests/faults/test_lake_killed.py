"""Writers of a lake are killed at any point: what they said is durable is there, whole, and nothing else in part."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lineage_store.lake.address import LakeAddress
from lineage_store.lake.compacting import compact
from lineage_store.lake.store import LakeStore
from lineage_store.lake.table import UNFINISHED_H
from lineage_store.moving import contents_of
from lineage_store.sqlite.store import SqliteStore
from tests.support.lake_writer import write_application

pytestmark = pytest.mark.faults

PARTS = 10_000


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.long)])
def test_a_killed_writer_leaves_whole_applications(tmp_path: Path, kills: int) -> None:
    draw = random.Random(kills)
    address = LakeAddress(str(tmp_path / "lake"))
    durable: set[int] = set()
    torn = 0
    for round_number in range(kills):
        first = round_number * PARTS
        durable |= _killed(address, first, draw.randrange(1, 12), draw.random() * 0.05)
        with LakeStore(address) as lake, SqliteStore(tmp_path / f"{round_number}.db") as oracle:
            stored = {int(app) for app in lake.application_ids()}
            assert durable <= stored
            # At most one was written, and not said any more.
            assert len(stored - durable) <= round_number + 1
            for part in sorted(part for part in stored if part >= first):
                write_application(oracle, str(part), part)
                assert contents_of(lake, str(part)) == contents_of(oracle, str(part))
            live = {file.path for files in lake.table.snapshot().files.values() for file in files}
            on_disk = {
                str(path.relative_to(address.location))
                for path in Path(address.location).glob("app=*/*.parquet")
            }
            assert live <= on_disk
            torn = len(on_disk - live)
    with LakeStore(address) as lake:
        # What was not committed is deleted when it is old enough, and no earlier: a writer may be at it.
        assert compact(lake, kept_h=1).deleted == 0
        for path in Path(address.location).glob("app=*/*.parquet"):
            _make_old(path)
        assert compact(lake, kept_h=1).deleted == torn
        assert {int(app) for app in lake.application_ids()} >= durable


def _killed(address: LakeAddress, first: int, parts: int, seconds: float) -> set[int]:
    """Kill a writer some moments after it has said that so many parts are durable; all of those that it said."""
    words = ["tests.support.lake_writer", address.location, "*", str(first), str(PARTS)]
    writer = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert writer.stdout is not None
    said: list[str] = []
    while len(said) <= parts:
        said.append(writer.stdout.readline().strip())
    time.sleep(seconds)
    writer.kill()
    said += writer.stdout.read().splitlines()
    writer.wait()
    writer.stdout.close()
    return {int(line) for line in said[1:]}


def _make_old(path: Path) -> None:
    old = time.time() - UNFINISHED_H * 3600 - 60
    os.utime(path, (old, old))
