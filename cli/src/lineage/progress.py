"""A progress bar on a terminal for work that goes through a spool."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Report(Protocol):
    """How far the work on one application is."""

    app: str
    bytes_done: int
    bytes_total: int


@contextmanager
def spool_progress(doing: str) -> Iterator[Callable[[Report], None] | None]:
    """What shows a report beside the word for what is done; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(doing + " {task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(report: Report) -> None:
            bar.update(
                task,
                description=report.app,
                total=report.bytes_total or None,
                completed=report.bytes_done,
            )

        yield show
