"""Crash culprits: which items a task was working on when the program's own function failed.

In the worker a line is added to the error (``lineage: while working on 0#3#17``), which travels with
it to the driver as any text of an error does. The driver reads it there and makes it an item of a
``crash`` sink, so that a trace leads on to the rows of the sources.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

PositionRun = tuple[str, int, int]
"""Positions of a space: first, last."""
ItemsAtWork = Callable[[int], Sequence[PositionRun]]
"""What a worker is working on, of the attempt at a task that Spark says is running."""
CULPRIT_RUNS_MAX = 1_000
WRITES_NOTES = sys.version_info >= (3, 11)
"""Whether Python writes an error's notes out with it."""
_PREFIX = "lineage: while working on "
_LINE = re.compile(re.escape(_PREFIX) + r"([^\n]*)")
_RUN = re.compile(r"(\S+)#(\d+)(?:-(\d+))?")


def report_culprits(at_work: ItemsAtWork) -> None:
    """From now on errors that end a task of this worker name the items it was working on."""
    for name in ("pyspark.worker", "__main__"):
        worker = sys.modules.get(name)
        stock = getattr(worker, "handle_worker_exception", None)
        if stock is not None and not hasattr(stock, "lineage_stock"):
            worker.handle_worker_exception = _handler(stock, at_work)  # type: ignore[union-attr]
            if not WRITES_NOTES:
                sys.modules[stock.__module__].traceback = _Traceback(at_work)  # type: ignore[attr-defined]
        elif stock is None and hasattr(worker, "read_udfs"):
            # Spark 3.5 writes the error by itself.
            worker.traceback = _Traceback(at_work)  # type: ignore[union-attr]


class _Traceback:
    """Stands for the module where PySpark writes errors: adds the items at work to one before it is written."""

    def __init__(self, at_work: ItemsAtWork) -> None:
        self._at_work = at_work

    def __getattr__(self, name: str) -> Any:
        stock = getattr(traceback, name)
        problem = sys.exc_info()[1]
        if problem is None or not name.startswith("format_exc"):
            return stock
        with suppress(Exception):
            _add_culprits(problem, self._at_work)
        return stock if WRITES_NOTES else _with_notes(stock, problem)


def _with_notes(stock: Callable[..., Any], problem: BaseException) -> Callable[..., Any]:
    """A function that writes an error out, as a text or its lines, with the error's notes below."""

    def written(*arguments: Any, **named: Any) -> Any:
        text = stock(*arguments, **named)
        notes = [f"{note}\n" for note in getattr(problem, "__notes__", ())]
        return text + "".join(notes) if isinstance(text, str) else [*text, *notes]

    return written


def _handler(stock: Callable[..., None], at_work: ItemsAtWork) -> Callable[..., None]:
    def handle(problem: BaseException, *arguments: Any, **named: Any) -> None:
        with suppress(Exception):
            _add_culprits(problem, at_work)
        stock(problem, *arguments, **named)

    handle.lineage_stock = stock  # type: ignore[attr-defined]
    return handle


def _add_culprits(problem: BaseException, at_work: ItemsAtWork) -> None:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None or not isinstance(problem, Exception):
        return
    runs = at_work(context.taskAttemptId())
    note, notes = _PREFIX + as_text(runs), getattr(problem, "__notes__", [])
    if runs and note not in notes:
        # What `add_note` does since Python 3.11.
        problem.__notes__ = [*notes, note]


def as_text(runs: Sequence[PositionRun]) -> str:
    """``0#3#17 5@2#4-9``."""
    return " ".join(
        f"{space}#{first}" if first == last else f"{space}#{first}-{last}"
        for space, first, last in runs[:CULPRIT_RUNS_MAX]
    )


def culprits_in(problem: BaseException) -> list[list[PositionRun]]:
    """The items that tasks were working on, as an error of Spark names them; empty where it names none."""
    try:
        text = str(problem)
    except Exception:
        # The stack trace comes from the JVM, which may be what failed.
        return []
    lines = dict.fromkeys(match[1] for match in _LINE.finditer(text))
    runs = [
        [(run[1], int(run[2]), int(run[3] or run[2])) for run in _RUN.finditer(line)]
        for line in lines
    ]
    return [line_runs for line_runs in runs if line_runs]
