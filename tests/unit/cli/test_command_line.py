"""Commands start quickly: a process makes the command that it runs, and loads what that needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import typer

from lineage.command_line import THREADS, load_numpy
from lineage.main import app

pytestmark = pytest.mark.unit


def run(*words: str) -> subprocess.CompletedProcess[str]:
    code = "from lineage.main import app; app()"
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )


def made(monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[list[str | None], int]:
    """Which commands, and how many groups of others, a process with these words makes."""
    seen: list[typer.Typer] = []
    monkeypatch.setattr(sys, "argv", ["lineage", *words])

    def call(self: typer.Typer) -> None:
        seen.append(self)

    monkeypatch.setattr(typer.Typer, "__call__", call)
    app()
    return [command.name for command in seen[0].registered_commands], len(seen[0].registered_groups)


def test_the_command_that_is_run_is_made_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(app.registered_commands)
    assert made(monkeypatch, "back", "out:1") == (["back"], 0)
    assert len(app.registered_commands) == before


@pytest.mark.parametrize(
    "words", [(), ("--help",), ("--store", "back", "apps"), ("backk",), ("ui",), ("stack", "up")]
)
def test_all_are_made_where_the_first_word_is_no_command(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    commands, groups = made(monkeypatch, *words)
    assert {"back", "forward", "run"} <= set(commands)
    assert groups


def test_words_mean_what_they_meant() -> None:
    assert "Show which input rows made a row" in run("back", "--help").stdout
    assert "Show which input rows made a row" in run("--store", "x", "back", "--help").stdout
    wrong = run("back", "--nothing")
    assert wrong.returncode == 2
    assert "Usage: lineage back" in wrong.stderr.replace("-c back", "lineage back")
    assert "No such command" in run("backk").stderr


def test_numpy_is_loaded_without_threads_and_the_environment_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(THREADS, raising=False)
    given: list[str | None] = []
    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    monkeypatch.setattr(
        "lineage.command_line.import_module", lambda name: given.append(os.environ.get(THREADS))
    )
    load_numpy()
    monkeypatch.setenv(THREADS, "4")
    load_numpy()
    assert (given, os.environ[THREADS]) == (["1"], "4")
    monkeypatch.delenv(THREADS)
    load_numpy()
    assert THREADS not in os.environ


def test_traces_of_records_load_nothing_of_dataframes() -> None:
    code = """
import json, sys
import lineage.tracing, lineage.access
print(json.dumps(sorted(name for name in sys.modules if name.startswith(("lineage", "pyspark", "pandas")))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "lineage_query.engine" in loaded
    assert not loaded & {
        *("lineage_core.recipe.document", "lineage_core.recipe.plan", "lineage_query.levels"),
        *("lineage_query.all_jobs", "lineage_query.jobs", "pyspark", "pandas"),
    }


def test_a_job_starts_before_what_its_end_needs_is_loaded() -> None:
    code = """
import sys
import lineage.running
print("lineage.run_summaries" in sys.modules, "numpy" in sys.modules, "pydantic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False False\n"
