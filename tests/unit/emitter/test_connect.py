from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from lineage_emitter import connect

pytestmark = pytest.mark.unit


class Told:
    """Stands for the session of a SparkContext."""

    def __init__(self) -> None:
        self.unknowns: list[tuple[str, str]] = []
        self.nodes = self

    def unknown(self, what: str, reason: str, parents: Any) -> None:
        self.unknowns.append((what, reason))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that looks like PySpark's, which needs packages that are not here."""
    source = "class SparkSession:\n    def __init__(self, url):\n        self.url = url\n"
    (tmp_path / "remote_sessions.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(connect, "MODULE", "remote_sessions")
    monkeypatch.setattr(connect, "_used", False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delitem(sys.modules, "remote_sessions", raising=False)
    return "remote_sessions"


@pytest.mark.parametrize("loaded_before", [False, True])
def test_a_session_makes_the_verdict_say_so(module: str, *, loaded_before: bool) -> None:
    if loaded_before:
        importlib.import_module(module)
    told = Told()
    connect.watch_connect(lambda: told)
    found = importlib.import_module(module)
    assert told.unknowns == []
    assert found.SparkSession("sc://elsewhere").url == "sc://elsewhere"
    assert told.unknowns == [(connect.CONNECT, connect.REASON)]


def test_the_sessions_of_contexts_that_begin_later_are_told(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    monkeypatch.setenv("LINEAGE_RUN_NOTES", str(notes))
    connect.watch_connect(lambda: None)
    told = Told()
    connect.record_connect_use(told)  # type: ignore[arg-type]
    assert told.unknowns == []
    importlib.import_module(module).SparkSession("sc://elsewhere")
    assert connect.REASON in notes.read_text()
    connect.record_connect_use(told)  # type: ignore[arg-type]
    assert told.unknowns == [(connect.CONNECT, connect.REASON)]
