"""Zero code: ``python -m lineage_emitter.autorun job.py ARGS`` runs a PySpark program as it is.

The program gets its own ``__main__``, ``sys.argv`` and ``sys.path[0]``, its own SparkContext or
SparkSession, its exit code and its standard streams. Sources of every SparkContext are captured;
what is not captured (other sources, DataFrames) is named in the verdict.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from pyspark import SparkConf, SparkContext

from lineage_emitter import context, scope
from lineage_emitter.dataframes import notice_dataframes
from lineage_emitter.errors import LineageError
from lineage_emitter.rdd import LineageRDD
from lineage_emitter.session import Session, session_of

DAEMON = "spark.python.daemon.module"
OTHER_SOURCES = ("wholeTextFiles", "binaryFiles", "binaryRecords", "sequenceFile", "pickleFile",
                 "newAPIHadoopFile", "newAPIHadoopRDD", "hadoopFile", "hadoopRDD", "range",
                 "emptyRDD", "runJob")  # fmt: skip


def install() -> None:
    """Capture every SparkContext of this process from now on."""
    os.environ.setdefault("LINEAGE_UNSUPPORTED", "continue")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _wrap_init()
    _wrap("textFile", _user_calls(context.text_file))
    _wrap("parallelize", _user_calls(context.parallelize))
    _wrap("union", _union)
    for name in OTHER_SOURCES:
        if hasattr(SparkContext, name):
            _wrap(name, _noticed(name))
    notice_dataframes(_active_session)


def _wrap(name: str, make: Callable[..., Any]) -> None:
    stock = getattr(SparkContext, name)

    @functools.wraps(stock)
    def method(self: SparkContext, *arguments: Any, **named: Any) -> Any:
        return make(stock, self, *arguments, **named)

    setattr(SparkContext, name, method)


def _wrap_init() -> None:
    stock = SparkContext._do_init
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def initialise(*arguments: Any, **named: Any) -> None:
        bound = signature.bind(*arguments, **named)
        _preload(bound.arguments)
        stock(*bound.args, **bound.kwargs)
        _session(bound.arguments["self"])

    SparkContext._do_init = initialise  # type: ignore[method-assign]


def _preload(arguments: dict[str, Any]) -> None:
    """Load capture's libraries before workers are forked, where workers are this machine's."""
    if arguments.get("jsc") is not None:
        return
    conf = arguments.get("conf")
    if conf is None:
        conf = arguments["conf"] = SparkConf()
    where = arguments.get("master") or conf.get("spark.master", "") or ""
    if where.startswith("local") and not conf.contains(DAEMON):
        conf.set(DAEMON, "lineage_emitter.daemon")


def _session(sc: SparkContext) -> Session | None:
    """The context's session; None when capture is off or can't begin (which is said)."""
    try:
        return session_of(sc)
    except LineageError as problem:
        print(f"lineage: not captured: {problem}", file=sys.stderr)
        if os.environ.get("LINEAGE_ON_ERROR") == "fail":
            raise
        return None


def _active_session() -> Session | None:
    sc = SparkContext._active_spark_context
    return _session(sc) if sc is not None else None


def _plain_call() -> bool:
    return scope.is_suspended() or bool(scope.called_from_pyspark(3))


def _user_calls(capture: Callable[..., Any]) -> Callable[..., Any]:
    def source(stock: Callable[..., Any], sc: SparkContext, *arguments: Any, **named: Any) -> Any:
        session = None if _plain_call() else _session(sc)
        if session is None:
            return stock(sc, *arguments, **named)
        names = {"minPartitions": "min_partitions", "numSlices": "num_slices"}
        return capture(session, *arguments, **{names.get(k, k): v for k, v in named.items()})

    return source


def _union(stock: Callable[..., Any], sc: SparkContext, rdds: Any) -> Any:
    session = None if _plain_call() else _session(sc)
    if session is None or not any(isinstance(rdd, LineageRDD) for rdd in rdds):
        return stock(sc, rdds)
    return context.union(session, rdds)


def _noticed(name: str) -> Callable[..., Any]:
    def method(stock: Callable[..., Any], sc: SparkContext, *arguments: Any, **named: Any) -> Any:
        if not _plain_call():
            session = _session(sc)
            if session is not None:
                session.unknown(f"SparkContext.{name}", "this version does not capture it")
        with scope.suspended():
            return stock(sc, *arguments, **named)

    return method


def run(path: str, arguments: list[str]) -> int:
    """Run the program as ``python path arguments`` would; returns its exit code."""
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    main = types.ModuleType("__main__")
    main.__dict__.update(
        __file__=path, __builtins__=__builtins__, __cached__=None, __spec__=None, __package__=None
    )
    sys.modules["__main__"] = main
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
    except OSError as problem:
        print(f"lineage: can't open {path!r}: {problem.strerror}", file=sys.stderr)
        return 2
    except SyntaxError:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1
    status = "failed"
    try:
        exec(code, main.__dict__)  # noqa: S102  running the user's program is the purpose
        status = "ok"
        return 0
    except SystemExit as leaving:
        status = "ok" if leaving.code in (None, 0) else "failed"
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)
        return 1
    except BaseException as problem:
        trace = problem.__traceback__
        sys.excepthook(type(problem), problem, trace.tb_next if trace is not None else None)
        return 130 if isinstance(problem, KeyboardInterrupt) else 1
    finally:
        sys.stdout.flush()
        _close_sessions(status)


def _close_sessions(status: str) -> None:
    from lineage_emitter.session import open_sessions

    for session in open_sessions():
        session.close(status)


def main() -> None:
    """Entry point of ``python -m lineage_emitter.autorun``."""
    if len(sys.argv) < 2:
        print("usage: python -m lineage_emitter.autorun job.py [ARGS...]", file=sys.stderr)
        sys.exit(2)
    path, *arguments = sys.argv[1:]
    install()
    sys.exit(run(path, arguments))


if __name__ == "__main__":
    main()
