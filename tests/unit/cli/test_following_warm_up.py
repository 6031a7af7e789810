"""What is recorded is read on while a trace warms Spark up: no row waits for it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lineage import following

pytestmark = pytest.mark.unit


class _WarmUp:
    """Takes until it is let go, and fails then, as where Spark is stopped."""

    is_due = True

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()
        self.runs = 0

    def run(self) -> None:
        self.runs += 1
        self.begun.set()
        self.let_go.wait(60)
        raise RuntimeError("Spark was stopped")


class _Loop:
    """Goes on for some steps once Spark is being warmed up."""

    def __init__(self, warm_up: _WarmUp) -> None:
        self._warm_up = warm_up
        self.steps_beside = 0

    @property
    def is_over(self) -> bool:
        return self.steps_beside >= 3

    def step(self) -> list[Any]:
        self.steps_beside += self._warm_up.begun.is_set()
        return []


class _Printer:
    def end(self, loop: _Loop) -> None:
        """The last line."""


def test_rows_are_told_while_spark_is_warmed_up() -> None:
    warm_up: Any = _WarmUp()
    loop: Any = _Loop(warm_up)
    printer: Any = _Printer()
    following._run(loop, printer, warm_up)
    assert (loop.steps_beside, warm_up.runs) == (3, 1)
    warm_up.let_go.set()
