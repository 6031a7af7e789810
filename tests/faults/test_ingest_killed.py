"""Ingest is killed at any point and called again: the store ends up the same."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lineage_core.contract.block import BlockId
from lineage_store.sqlite import ingest as ingest_module
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from tests.support.spool_builder import APP, Spool, block, contents, word_count

pytestmark = pytest.mark.faults

KILLED = 137


def eventful(folder: Path) -> Spool:
    """A word count with all that can happen: claims, cut rows, a second attempt, torn files."""
    spool = Spool(folder)
    end = None
    word_count(spool)
    *lines, end = spool.driver.read_text().splitlines(keepends=True)
    spool.driver.write_text("".join(lines))
    rows = [([at], at) for at in range(6)]
    for attempt in (31, 32):
        again = block(BlockId("4", 0, attempt, 0), "1#0", [("4@0", [([attempt], 5)])])
        spool.task("4", 0, attempt, [again], digest=str(attempt))
    cached = block(BlockId("7", 0, 40, 0), "4@0", [("7#0.40", [([5], at) for at in range(6)])])
    path = spool.file("7", 0, 40, [cached, cached])
    path.write_bytes(path.read_bytes()[:-3])
    taken = [block(BlockId("8", 0, 41, seq), "7#0.40", [("8#0", rows)]) for seq in range(2)]
    spool.task("8", 0, 41, taken, rows=6, keep=4)
    torn = spool.task("8", 1, 42, [block(BlockId("8", 1, 42, 0), "1#1", [("8#1", rows)])])
    torn.write_bytes(torn.read_bytes()[:-3])
    with spool.driver.open("a") as stream:
        stream.write(end)
    return spool


def in_a_child(job: Callable[[], None]) -> int:
    """Run in a forked process that ends at once, with no clean-up; its exit code."""
    child = os.fork()
    if child == 0:
        try:
            job()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Doom:
    """Kills the process at the n-th statement or deletion of a file."""

    def __init__(self, after: int) -> None:
        self.left = after

    def step(self, *_: object) -> None:
        self.left -= 1
        if self.left < 0:
            os._exit(KILLED)

    def ingest(self, path: Path, folder: Path) -> None:
        with SqliteStore(path) as store:
            store._db.set_trace_callback(self.step)
            unlink = Path.unlink

            def doomed(target: Path, missing_ok: bool = False) -> None:
                self.step()
                unlink(target, missing_ok)
                self.step()

            Path.unlink = doomed  # type: ignore[method-assign, assignment]
            ingest(store, folder)


@pytest.mark.parametrize("batch_bytes", [1, 8 * 2**20])
def test_killed_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_bytes: int) -> None:
    monkeypatch.setattr(ingest_module, "BATCH_BYTES", batch_bytes)
    spool = eventful(tmp_path / "spool")
    made = tmp_path / "made"
    shutil.copytree(spool.folder, made)
    with SqliteStore(tmp_path / "expected.db") as store:
        ingest(store, spool.folder)
        expected = contents(store)
    chance = random.Random(batch_bytes)
    deaths = 0
    for trial in range(8):
        path, folder = tmp_path / f"{trial}.db", tmp_path / f"{trial}" / APP
        shutil.copytree(made, folder)
        while True:
            doom = Doom(chance.choice((30, 150, 600)) + chance.randrange(150))
            code = in_a_child(partial(doom.ingest, path, folder))
            assert code in (0, KILLED)
            deaths += code == KILLED
            if code == 0:
                break
        with SqliteStore(path) as store:
            ingest(store, folder)
            assert contents(store) == expected
        left = [file.name for file in folder.rglob("*") if file.is_file()]
        assert sorted(left) == ["8-1-42.lmf", "driver.jsonl"]
    assert deaths > 8


SCRIPT = """
import sys
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
print("up", flush=True)
with SqliteStore(sys.argv[1]) as store:
    ingest(store, sys.argv[2])
"""


def test_kill_minus_nine_while_another_process_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = eventful(tmp_path / "spool")
    for attempt in range(100, 130):
        rows = [([at, at + 5000], at * 7919 % 2**40) for at in range(4000)]
        made = block(BlockId("4", attempt, attempt, 0), "1#0", [("4@0", rows)])
        spool.task("4", attempt, attempt, [made])
    shutil.copytree(spool.folder, tmp_path / "made")
    with SqliteStore(tmp_path / "expected.db") as store:
        ingest(store, spool.folder)
        expected = contents(store)
    path, folder = tmp_path / "lineage.db", tmp_path / "again" / APP
    shutil.copytree(tmp_path / "made", folder)
    chance = random.Random(9)
    killed = 0
    for _ in range(4):
        command = [sys.executable, "-c", SCRIPT, str(path), str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance.uniform(0.02, 0.15))
            with SqliteStore(path) as reader:
                reader.applications()
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
    assert killed
    with SqliteStore(path) as store:
        ingest(store, folder)
        assert contents(store) == expected
