"""Modules are heard when they are loaded, until the watch ends."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lineage_emitter.module_watch import call_on_load

pytestmark = pytest.mark.unit
NAME = "heard_by_nobody_else"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / f"{NAME}.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield NAME
    sys.modules.pop(NAME, None)


@pytest.mark.parametrize("ends", [False, True])
def test_a_watch_hears_of_a_module_until_it_ends(module: str, ends: bool) -> None:
    heard: list[int] = []
    finders = list(sys.meta_path)
    end = call_on_load(module, lambda loaded: heard.append(loaded.VALUE))
    if ends:
        end()
        assert sys.meta_path == finders
    importlib.import_module(module)
    assert heard == ([] if ends else [1])
    end()
    end()
    assert sys.meta_path == finders


def test_a_module_that_is_loaded_is_heard_at_once(module: str) -> None:
    importlib.import_module(module)
    heard: list[int] = []
    call_on_load(module, lambda loaded: heard.append(loaded.VALUE))()
    assert heard == [1]
