"""The thread that links while a program runs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lineage_emitter.linking import BackgroundLinker
from lineage_emitter.settings import read_settings

pytestmark = pytest.mark.unit


def test_it_is_closed_while_another_thread_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[str] = []
    monkeypatch.setattr(
        BackgroundLinker, "_pass", lambda *_: passes.append(threading.current_thread().name)
    )
    settings = read_settings(store=f"sqlite:///{tmp_path / 'lineage.db'}")
    linker = BackgroundLinker(settings, tmp_path / "app")
    made, may_start = threading.Event(), threading.Event()

    class Slow(threading.Thread):
        def start(self) -> None:
            made.set()
            assert may_start.wait(60)
            super().start()

    monkeypatch.setattr(threading, "Thread", Slow)
    waking = threading.Timer(0, linker.wake)
    waking.start()
    assert made.wait(60)
    releasing = threading.Timer(0.05, may_start.set)
    releasing.start()
    linker.close()
    waking.join()
    assert passes[-1] == threading.current_thread().name
