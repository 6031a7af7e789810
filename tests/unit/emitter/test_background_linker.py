"""The thread that links while a program runs."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lineage_emitter.dispatch.linking import BackgroundLinker
from lineage_emitter.settings import read_settings
from lineage_query.verdicts import verdict_of
from lineage_store.url import open_store

pytestmark = pytest.mark.unit


def linker_in(tmp_path: Path) -> BackgroundLinker:
    settings = read_settings(store=f"sqlite:///{tmp_path / 'lineage.db'}")
    return BackgroundLinker(settings, tmp_path / "app")


def test_it_links_when_woken_and_at_last_where_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[str] = []
    linked = threading.Event()

    def note_pass(*_: object) -> None:
        passes.append(threading.current_thread().name)
        linked.set()

    monkeypatch.setattr(BackgroundLinker, "_pass", note_pass)
    linker = linker_in(tmp_path)
    linker.wake()
    assert linked.wait(60)
    linker.close()
    linker.wake()
    assert passes == ["lineage-linker", threading.current_thread().name]


PROGRAM = """
import atexit, sys
from pathlib import Path
from lineage_emitter import LineageApi

api = LineageApi("job", app="app", store="sqlite:///" + sys.argv[1])
api.register("read", "a", kind="source")
api.register("write", "b", kind="sink")
atexit.register(api.close)
with api.task("write"):
    api.capture("f1", "read#0#6", "write#0#1", value="ann,12")
"""


def test_what_is_left_is_linked_when_the_interpreter_ends(tmp_path: Path) -> None:
    store = tmp_path / "lineage.db"
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(store)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    with open_store(f"sqlite:///{store}") as opened:
        verdict = verdict_of(opened, "app")
    assert verdict.complete, verdict.reasons
