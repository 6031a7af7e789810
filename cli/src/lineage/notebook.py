"""The magics of notebooks: ``%load_ext lineage`` adds ``%%lineage`` and ``%lineage``."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote, urlsplit

from IPython.display import display as _untyped_display

from lineage.questions import trace
from lineage_core.errors import LineageError
from lineage_core.html_parts import block, mime_bundle, note
from lineage_core.terminal_text import plain

if TYPE_CHECKING:
    from lineage_emitter.context import LineageContext
    from lineage_query.answers import Answer

T = TypeVar("T")
display: Any = _untyped_display
PAGE_URL = "LINEAGE_PAGE_URL"
"""Where people look at lineage: `lineage ui`, or a server of the query API."""
NO_SESSION = (
    "there is no Spark session to capture: make one in a cell before this one, "
    "spark = SparkSession.builder.getOrCreate()"
)
CONNECT = "; RDDs, of whose records lineage is made, are not there at all"
DIRECTIONS: dict[str, Literal["backward", "forward"]] = {"back": "backward", "forward": "forward"}
USAGE = "%lineage, %lineage back PLACE..., %lineage forward PLACE..., %%lineage [SETTING=VALUE ...]"


class NotebookError(Exception):
    """What a magic can't do; a notebook shows the message alone."""

    def _render_traceback_(self) -> list[str]:
        # IPython in a terminal prints it as it is; a job may have chosen names and paths in it.
        return [plain(f"lineage: {self}", keep="\n\t")]


def add_magics(shell: Any) -> None:
    """Let a shell know ``%lineage`` and ``%%lineage``."""

    def lineage(line: str, cell: str | None = None) -> object:
        """Capture the jobs of a cell (%%lineage), or trace rows (%lineage back PLACE)."""
        try:
            if cell is None:
                return run_line(shell, line)
            run_cell(shell, line, cell)
            return None
        except LineageError as problem:
            raise NotebookError(str(problem)) from None

    shell.register_magic_function(lineage, "line_cell", "lineage")


def remove_magics(shell: Any) -> None:
    """Remove the magics from a shell."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("lineage", None)


def run_cell(shell: Any, line: str, cell: str) -> None:
    """Run a cell with capture, and show what it added.

    Raises:
        NotebookError: nothing can be captured; the cell does not run.
        Exception: the cell's own, which the notebook has shown already.
    """
    from lineage_emitter.program.cell import captured_nodes, cell_lineage

    context = _captured(shell, _settings(line))
    session = context.session
    if session is None:
        raise NotebookError(
            "capture is switched off, or could not begin (the log says why): run the cell without %%lineage"
        )
    url = _page(session.app)
    nodes_before, problem = _value_or_problem(lambda: captured_nodes(session))
    result = shell.run_cell(cell, store_history=False)
    added = None
    if nodes_before is not None and not session.closed:
        added, problem = _value_or_problem(lambda: cell_lineage(session, nodes_before, url))
    if session.closed:
        problem = f"capture of {session.app} has ended: lineage.verify({session.app!r}) says how"
    display(_Message(f"lineage: {problem}") if added is None else added)
    error = result.error_before_exec or result.error_in_exec
    if error is not None:
        _hide_once(error)
        raise error


def _value_or_problem(look: Callable[[], T]) -> tuple[T | None, str]:
    """The result of reading the lineage, or the reason why there is none: the cell runs in any case."""
    try:
        return look(), ""
    except (LineageError, OSError) as problem:
        return None, str(problem)


def run_line(shell: Any, line: str) -> object:
    """Answer a query of one line: from the lineage of the session, else from the store of the settings.

    Raises:
        NotebookError: the line is not a query.
    """
    words = _words(line)
    if not words:
        return _so_far(shell)
    if words[0] not in DIRECTIONS or len(words) == 1:
        raise NotebookError(f"usage: {USAGE}")
    return _traced(shell, DIRECTIONS[words[0]], words[1:])


def _so_far(shell: Any) -> object:
    from lineage_emitter.program.cell import cell_lineage

    session = _open_session(shell)
    if session is None:
        raise NotebookError("nothing is captured: begin a cell with %%lineage")
    return cell_lineage(session, (), _page(session.app))


def _traced(shell: Any, direction: Literal["backward", "forward"], places: list[str]) -> Answer:
    from lineage_emitter.program.waiting import LINKED_S, store_url, wait_until_linked

    session = _open_session(shell)
    shown = display(_Message(f"tracing {', '.join(places)} ..."), display_id=True)
    try:
        store = None
        if session is not None:
            session.frames.wait_until_recorded()
            wait_until_linked(session, LINKED_S)
            store = store_url(session)
        return trace(*places, direction=direction, store=store)
    finally:
        if shown is not None:
            shown.update(_Message(""))


class _Message:
    """A line that shows the progress."""

    def __init__(self, words: str) -> None:
        self._words = words

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return mime_bundle(block([note(self._words)] if self._words else []), self._words)


def _captured(shell: Any, settings: dict[str, str]) -> LineageContext:
    """The context that captures the notebook's session from now on, or has done so before."""
    from lineage_emitter.attaching import attach
    from lineage_emitter.errors import ConnectSessionError

    spark = _spark_of(shell)
    if spark is None:
        raise NotebookError(NO_SESSION)
    try:
        return attach(spark, **settings)
    except ConnectSessionError as problem:
        raise NotebookError(f"{problem}{CONNECT}") from None


def _spark_of(shell: Any) -> Any:
    """The notebook's session or context; None: there is none that runs."""
    from pyspark import SparkContext

    named = shell.user_ns.get("spark")
    if named is not None and type(named).__module__.startswith("pyspark.sql.connect."):
        return named
    running = SparkContext._active_spark_context
    if running is not None:
        is_of_it = getattr(named, "sparkContext", None) is running
        return named if is_of_it else running
    connect = sys.modules.get("pyspark.sql.connect.session")
    return None if connect is None else connect.SparkSession.getActiveSession()


def _open_session(shell: Any) -> Any:
    """What captures the notebook's session; None: nothing does."""
    from pyspark import SparkContext

    from lineage_emitter.open_sessions import open_session_of

    running = SparkContext._active_spark_context
    return None if running is None else open_session_of(running)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as problem:
        raise NotebookError(f"{problem}: {line}") from None


def _settings(line: str) -> dict[str, str]:
    """Settings of capture, as ``NAME=VALUE``."""
    settings = dict[str, str]()
    for word in _words(line):
        name, equals, value = word.partition("=")
        if not equals:
            raise NotebookError(f"{word!r} is no SETTING=VALUE; usage: {USAGE}")
        settings[name] = value
    return settings


def _page(app: str) -> str:
    """The URL of an application's page; empty where the page's address is not set."""
    setting = os.environ.get(PAGE_URL, "")
    if not setting:
        return ""
    parts = urlsplit(setting)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise NotebookError(f"{PAGE_URL} must be http(s)://HOST[:PORT], without a login in it")
    # The rest of the URL may hold a token, which must not stay in the notebook.
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/apps/{quote(app, safe='')}"


def _hide_once(error: BaseException) -> None:
    """Let the shell not show an error a second time, as it does before it ends the cell."""

    def render() -> list[str]:
        del error._render_traceback_  # type: ignore[attr-defined]
        return []

    with contextlib.suppress(AttributeError):
        error._render_traceback_ = render  # type: ignore[attr-defined]
