"""The end of the program: what closes at it, and how the program ended.

Imported first of all, so that what the program itself registers by ``atexit`` runs before and is
captured. Then its threads have ended: pools take no more work, and no thread can be started.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lineage_core.contract.message import EndStatus

Close = Callable[["EndStatus"], None]

_open: dict[Close, int] = {}
"""What is still to be closed, and in which process it was opened: a fork of it closes nothing."""
_exit_codes: list[int] = []


def close_at_end(close: Close) -> None:
    """Call ``close`` with the status of the program when it ends; not in processes forked from it."""
    _open[close] = os.getpid()


def cancel_close(close: Close) -> None:
    """Cancel the call of :func:`close_at_end`."""
    _open.pop(close, None)


def set_exit_code(code: int) -> None:
    """Set the exit code of the program; its runner knows it."""
    _exit_codes.append(code)


def status_of(problem: BaseException | None) -> EndStatus:
    """The status of a program that ends with an exception under way, or with none."""
    if problem is None or isinstance(problem, GeneratorExit):
        return "ok"
    if isinstance(problem, SystemExit):
        return "failed" if problem.code else "ok"
    return "failed"


def status_at_end() -> EndStatus:
    """The status of a program that has ended: it failed by an uncaught exception, or by its exit code.

    The argument of ``sys.exit`` is known where :func:`set_exit_code` was called.
    """
    if _exit_codes:
        return "failed" if _exit_codes[-1] else "ok"
    # A prompt keeps the latest exception there, too, and goes on.
    return "ok" if hasattr(sys, "ps1") else status_of(getattr(sys, "last_value", None))


def _close_all() -> None:
    status = status_at_end()
    for close, process in list(_open.items()):
        if process == os.getpid():
            close(status)


atexit.register(_close_all)
