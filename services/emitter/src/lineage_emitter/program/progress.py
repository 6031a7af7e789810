"""A progress bar for work that takes long, on a terminal and in a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

SHOWN_AFTER_S = 1.0
"""Work that is over before shows nothing."""
Show: TypeAlias = Callable[[int, int], None]
"""Takes how much is done, of how much (0: not known yet)."""


@contextmanager
def progress_bar(doing: str, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Show]:
    """Give what shows how far the work ``doing`` is; nothing where nobody looks."""
    began = clock()
    with ExitStack() as stack:
        bar: Show | None = None

        def show(finished: int, total: int) -> None:
            nonlocal bar
            if bar is None and clock() - began >= SHOWN_AFTER_S:
                bar = _bar(stack, doing)
            if bar is not None:
                bar(finished, total)

        yield show


def _bar(stack: ExitStack, doing: str) -> Show:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        return lambda finished, total: None
    columns = (TextColumn(doing), BarColumn(), TimeRemainingColumn())
    bar = stack.enter_context(Progress(*columns, console=console, transient=True))
    task = bar.add_task("", total=None)
    return lambda finished, total: bar.update(task, completed=finished, total=total or None)
