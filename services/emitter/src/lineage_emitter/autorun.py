"""Zero code: ``python -m lineage_emitter.autorun job.py ARGS`` runs a PySpark program as it is.

The program gets its own ``__main__``, ``sys.argv`` and ``sys.path[0]``, its own SparkContext or
SparkSession, its exit code and its standard streams. Sources of every SparkContext are captured,
DataFrame work is recorded by recipes; what is not captured (Java libraries, say) is named in the verdict.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext

from lineage_core.environment.module_programs import has_safe_path, programs_have_safe_path
from lineage_emitter import connect, context_methods
from lineage_emitter.errors import SettingsError
from lineage_emitter.session import program_end
from lineage_emitter.session.executors import are_local, is_our_python
from lineage_store.run_notes import PLAN_VARIABLE, note_uncaptured

if TYPE_CHECKING:
    from lineage_emitter.session.session import Session

DAEMON = "spark.python.daemon.module"
PROGRAM_READ_MAX = 1 << 20
"""Bytes of a program that are searched for the libraries that it uses."""

_set_wrongly: set[str] = set()


def install() -> None:
    """Capture every SparkContext of this process from now on."""
    os.environ.setdefault("LINEAGE_UNSUPPORTED", "continue")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _wrap_init()
    connect.watch_connect(_active_session)
    context_methods.install(_session)
    plan = os.environ.get(PLAN_VARIABLE)
    if plan:
        from lineage_emitter import rerunning
        from lineage_store.rerun_plan import RerunPlan

        rerunning.install(RerunPlan.read(Path(plan)))


def load_libraries(path: str) -> None:
    """Load capture, and what PySpark loads at its first work on a DataFrame, while the program waits for its JVM."""
    import lineage_emitter.driver.dataframe_hooks
    import lineage_emitter.driver.rdd_streams
    import lineage_emitter.driver.stream_hooks
    import lineage_emitter.session.session  # noqa: F401
    import lineage_store.sqlite.ingest  # noqa: F401
    from lineage_emitter.pyspark_parts import load_early

    with contextlib.suppress(Exception):
        if _may_use_dataframes(path):
            load_early()


def _may_use_dataframes(path: str) -> bool:
    """Whether the text of a program names PySpark's SQL. One that uses it by its modules alone loads it itself, as ever."""
    with open(path, "rb") as program:
        return b"pyspark.sql" in program.read(PROGRAM_READ_MAX)


def _wrap_init() -> None:
    stock = SparkContext._do_init
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def initialise(*arguments: Any, **named: Any) -> None:
        bound = signature.bind(*arguments, **named)
        _preload(bound.arguments)
        stock(*bound.args, **bound.kwargs)
        context_methods.notice_frames(_active_session, _session)
        session = _session(bound.arguments["self"])
        if session is not None:
            connect.record_connect_use(session)

    SparkContext._do_init = initialise  # type: ignore[method-assign]


def _preload(arguments: dict[str, Any]) -> None:
    """Load capture's libraries before workers are forked, where workers are this machine's."""
    if arguments.get("jsc") is not None:
        return
    conf = arguments.get("conf")
    if conf is None:
        conf = arguments["conf"] = SparkConf()
    where = arguments.get("master") or conf.get("spark.master", "") or ""
    python = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON", "")
    if are_local(where) and is_our_python(python) and not conf.contains(DAEMON):
        conf.set(DAEMON, "lineage_emitter.daemon")
        dispatcher = conf.get("spark.lineage.dispatcher")
        if dispatcher:
            conf.setExecutorEnv("LINEAGE_DISPATCHER", dispatcher)


def _session(sc: SparkContext) -> Session | None:
    """The context's session; None when capture is off, can't begin or is set wrongly (reported once)."""
    if sc.applicationId in _set_wrongly:
        return None
    from lineage_emitter.session.session import capture_session

    try:
        session = capture_session(sc)
    except SettingsError as problem:
        _set_wrongly.add(sc.applicationId)
        _say(f"lineage: not captured: {problem}")
        note_uncaptured(str(problem))
        if os.environ.get("LINEAGE_ON_ERROR") == "fail":
            raise
        return None
    if session is not None:
        session.is_fully_captured = True
    return session


def _active_session() -> Session | None:
    sc = SparkContext._active_spark_context
    return _session(sc) if sc is not None else None


def run(
    path: str, arguments: list[str], failed: Callable[[BaseException], Any] | None = None
) -> int:
    """Run the program as ``python path arguments`` would; returns its exit code. ``failed`` gets what ended it, if it failed."""
    full_path = os.path.abspath(path)
    sys.argv = [path, *arguments]
    folder = os.path.dirname(os.path.realpath(path))
    if not has_safe_path():
        sys.path[0] = folder
    elif not programs_have_safe_path():
        sys.path.insert(0, folder)
    main = types.ModuleType("__main__")
    main.__dict__.update(
        __file__=full_path,
        __builtins__=builtins,
        __cached__=None,
        __loader__=SourceFileLoader("__main__", full_path),
    )
    sys.modules["__main__"] = main
    code, problem = _execute(full_path, main.__dict__)
    if problem is not None and code and failed is not None:
        failed(problem)
    # Sessions close behind the program's threads and what it registered for its exit.
    program_end.set_exit_code(code)
    return code


def _execute(path: str, names: dict[str, Any]) -> tuple[int, BaseException | None]:
    """The exit code of a program, and what it raised at last."""
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as problem:
        _say(f"lineage: can't open {path!r}: {problem.strerror}")
        return 2, problem
    try:
        # dont_inherit: the program has its own __future__ statements, not ours.
        program = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as problem:
        return _report(problem, None), problem
    try:
        exec(program, names)
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0, leaving
        _say(leaving.code)
        return 1, leaving
    except BaseException as problem:
        trace = problem.__traceback__.tb_next if problem.__traceback__ else None
        return _report(problem, trace), problem
    return 0, None


def _report(problem: BaseException, trace: TracebackType | None) -> int:
    """As the interpreter does, from the program's first frame on."""
    sys.excepthook(type(problem), problem.with_traceback(trace), trace)
    return 130 if isinstance(problem, KeyboardInterrupt) else 1


def _say(text: object) -> None:
    sys.stderr.write(f"{text}\n")


def main() -> None:
    """Entry point of ``python -m lineage_emitter.autorun``."""
    if len(sys.argv) < 2:
        _say("usage: python -m lineage_emitter.autorun job.py [ARGS...]")
        sys.exit(2)
    try:
        from lineage_emitter import pyspark_parts  # noqa: F401
    except SettingsError as problem:
        _say(f"lineage: {problem}")
        sys.exit(2)
    path, *arguments = sys.argv[1:]
    install()
    loading = threading.Thread(
        target=load_libraries, args=(path,), name="lineage-load", daemon=True
    )
    loading.start()
    sys.exit(run(path, arguments))


if __name__ == "__main__":
    # By its own name: it tells stack frames of this module from those of the program's __main__.
    from lineage_emitter.autorun import main as run_program

    run_program()
