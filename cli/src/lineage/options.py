"""Options that several commands share, and how errors reach a person or a tool."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

from lineage.command_line import load_numpy
from lineage.terminal import echo
from lineage_core.environment.shown_address import shown_address
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import Budget, TimeUpError, current_budget, use_budget

if TYPE_CHECKING:
    from lineage.access import Access

P = ParamSpec("P")

DEFAULT_STORE = "sqlite:///.lineage/lineage.db"
EXIT_INCOMPLETE = 1
EXIT_ERROR = 2
EXIT_TIME_UP = 124
"""As that of ``timeout`` of coreutils."""
GRACE_S = 2.0
"""Seconds after its timeout in which a command may still end by its own check of the budget; then it is interrupted."""

_WORD = r"""(?:'[^']*'|"[^"]*"|[\w@%+=:,./-])+"""
_COMMAND = re.compile(rf"lineage (?:back|forward) {_WORD} --app {_WORD}(?<![,.:])", re.ASCII)
"""A command in a text, as :func:`shlex.join` writes it."""
_OPENED: ContextVar[str] = ContextVar("lineage_opened_store", default="")

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="LINEAGE_STORE",
        metavar="URL",
        help=f"Where the lineage is, or a server: http(s)://... (default: {DEFAULT_STORE}).",
        show_default=False,
        show_envvar=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for tools.")]

TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.001,
        metavar="SECONDS",
        help=f"Give up after so long, with exit code {EXIT_TIME_UP} (default: never).",
        show_default=False,
    ),
]


def chosen_store(context: typer.Context, store: str) -> str:
    """The store named after the command, before it, or by default."""
    chosen: str = context.obj.get("store", "") if context.obj else ""
    source = context.get_parameter_source("store")
    if source is not None and source.name == "COMMANDLINE":
        return store
    # Before the command: typed there, or else of the environment, as it would be after it.
    return chosen or store or DEFAULT_STORE


def store_to_name(url: str) -> str:
    """The store that a further command must name to come to the same one; empty: none. A password is not repeated."""
    if url == (os.environ.get("LINEAGE_STORE") or DEFAULT_STORE):
        return ""
    return shown_address(url)


def store_option(url: str) -> str:
    """What a command that is printed ends with, to come to the same store; empty where that is the default."""
    store = store_to_name(url)
    return f" --store {shlex.quote(store)}" if store else ""


def with_store(text: str) -> str:
    """A warning or an error whose commands name the store that this command has opened."""
    url = _OPENED.get()
    option = store_option(url) if url else ""
    return _COMMAND.sub(lambda command: command[0] + option, text) if option else text


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Turn expected errors into one line on stderr (with --json also an object) and exit code 2."""

    @functools.wraps(command)
    def wrapped(*arguments: P.args, **options: P.kwargs) -> None:
        before = _OPENED.set("")
        try:
            command(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader has closed the pipe (| head): write nothing more.
            sys.stdout = None
            raise typer.Exit(0) from None
        except Exception as problem:
            error = _named(problem)
            if not _is_expected(error):
                raise
            if options.get("as_json"):
                kind = getattr(error, "kind", type(error).__name__)
                print_json({"error": {"type": kind, "message": str(error)}})
            echo(f"lineage: {with_store(str(error))}", err=True)
            late = isinstance(error, TimeUpError)
            raise typer.Exit(EXIT_TIME_UP if late else EXIT_ERROR) from None
        finally:
            _OPENED.reset(before)

    return wrapped


@contextmanager
def in_time(seconds: float | None) -> Iterator[None]:
    """Run the body within a budget of seconds; None: without a limit.

    Raises:
        TimeUpError: it takes longer. Calls that check no budget, as a query of Spark or a server, are interrupted.
    """
    if seconds is None:
        yield
        return
    hint = "allow more (--timeout), or narrow it: fewer rows, one step (--step), or a node nearer by (--to)"
    with use_budget(Budget(seconds=seconds, hint=hint)) as budget, _interrupted(budget, seconds):
        try:
            yield
        except Exception as error:
            if not budget.is_over:
                raise
            # Libraries turn the interruption into errors of their own.
            raise budget.time_up_error() from error
        if budget.gone.done():
            # The code went on after the interruption, so its result may be partial.
            raise budget.time_up_error()


@contextmanager
def warning_if_partial() -> Iterator[None]:
    """Warn about partial output, for example in a pipe, where the time is up while the body writes it."""
    try:
        yield
    except Exception:
        if current_budget().is_over:
            echo("lineage: what was written before the time was up is not whole", err=True)
        raise


@contextmanager
def _interrupted(budget: Budget, seconds: float) -> Iterator[None]:
    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        budget.abandon()
        raise budget.time_up_error()

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds + GRACE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _named(problem: Exception) -> Exception:
    """A problem; where a package is missing, with the extra that brings it."""
    if not isinstance(problem, ModuleNotFoundError) or isinstance(problem, LineageError):
        return problem
    from lineage_core.environment.extras import missing

    return missing(problem) or problem


def _is_expected(error: Exception) -> bool:
    """Whether an error is expected, and reported in one line. Any other is a bug and shows its traceback."""
    return isinstance(error, (LineageError, OSError)) or type(error).__module__ == "sqlite3"


def print_json(value: Any) -> None:
    """One JSON value on stdout: indented for a terminal, one line for a pipe."""
    indent = 2 if sys.stdout.isatty() else None
    echo(json.dumps(value, ensure_ascii=False, indent=indent))


def opened(url: str) -> Access:
    """What answers for ``--store``.

    Raises:
        StoreError: there is none.
    """
    load_numpy()
    from lineage.access import open_access

    _OPENED.set(url)
    return open_access(url)
