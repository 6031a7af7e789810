"""Errors of a task say what it was working on, and those of other tasks of the worker say nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pyspark import TaskContext

from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.segment import Numbering
from lineage_emitter.worker.task_config import TaskConfig

pytestmark = pytest.mark.unit

ATTEMPT = 7


@pytest.fixture
def runs_task(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have the worker run an attempt at a task, as Spark tells."""

    def run(attempt: int) -> None:
        context = SimpleNamespace(taskAttemptId=lambda: attempt, stageId=lambda: 0)
        monkeypatch.setattr(TaskContext, "get", lambda: context)

    return run


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """PySpark's worker."""
    module = ModuleType("pyspark.worker")
    monkeypatch.setitem(sys.modules, "pyspark.worker", module)
    monkeypatch.setattr(segments, "_current", None)
    return module


def works_on(folder: Path, position: int) -> None:
    """A segment begins, whose record at work is an item of the source 0."""
    markers: Any = SimpleNamespace(add=lambda _: None)
    config = TaskConfig("app", str(folder), markers, 8 << 20, False)
    segment = segments.begin_segment(config, "1", 3)
    segment.numbering = Numbering.of_space("0#3")
    segment.numbering.cell[0] = position


def test_an_error_names_what_the_very_attempt_works_on(
    tmp_path: Path, worker: ModuleType, runs_task: Callable[[int], None]
) -> None:
    written: list[list[str]] = []

    def written_out(problem: BaseException, _: Any) -> None:
        written.append(list(getattr(problem, "__notes__", [])))

    vars(worker)["handle_worker_exception"] = written_out
    runs_task(ATTEMPT)
    works_on(tmp_path, 17)
    worker.handle_worker_exception(ValueError("the program's"), None)
    # The next task of the worker is not captured: the segment is still the one before.
    runs_task(ATTEMPT + 1)
    worker.handle_worker_exception(ValueError("another's"), None)
    assert written == [["lineage: while working on 0#3#17"], []]


def test_a_worker_that_writes_errors_by_itself_names_it_too(
    tmp_path: Path, worker: ModuleType, runs_task: Callable[[int], None]
) -> None:
    vars(worker)["read_udfs"] = None
    runs_task(ATTEMPT)
    works_on(tmp_path, 5)
    try:
        raise ValueError("the program's")
    except ValueError:
        assert "lineage: while working on 0#3#5" in worker.traceback.format_exc()
    runs_task(ATTEMPT + 1)
    try:
        raise ValueError("another's")
    except ValueError:
        assert "lineage" not in worker.traceback.format_exc()
