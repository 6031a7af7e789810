"""A program run again and again in one Spark: ``python -m lineage_emitter.repeating FOLDER job.py ARGS``.

Reads from standard input, a line each, folders with a plan (`lineage_store.rerun_plan`), runs the program by it, and writes its exit
code to standard output. ``FOLDER`` takes what the program prints.

Each run is a fork of this process, so modules of the program begin anew. The JVM belongs to the process that forks: the first run starts
it as the program has it set, later ones connect to it and take the SparkContext that is there, if it is set as they set theirs.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext, java_gateway

from lineage_core.environment.private_files import private_opener
from lineage_emitter import autorun, rerunning  # noqa: F401 - loaded before the fork
from lineage_emitter.failures import raised_errors
from lineage_emitter.pyspark_parts import frame_class, load_early
from lineage_store.rerun_plan import OUTPUT_LOG, PLAN_FILE, RerunPlan, report_errors
from lineage_store.run_notes import NOTES_VARIABLE, PLAN_VARIABLE

NOTES_FILE = "notes.jsonl"


class _KeptSpark:
    """The JVM and its SparkContext, which outlive the run that started them.

    The JVM ends when its standard input does, whose other end this process holds.
    """

    def __init__(self, folder: Path) -> None:
        self._gateway, self._context = folder / "gateway.json", folder / "context.json"
        self._stdin, self._held_end = os.pipe()

    def keep(self) -> None:
        """Have the program of this process use it."""
        context_module: Any = sys.modules[SparkContext.__module__]
        context_module.launch_gateway = self._launching(context_module.launch_gateway)
        context: Any = SparkContext
        context._initialize_context = self._initialising(context._initialize_context)
        stock = context.stop

        @functools.wraps(stock)
        def stop(sc: Any) -> None:
            sc._jsc = None
            stock(sc)

        context.stop = stop

    def _launching(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        module: Any = java_gateway
        popen = module.Popen

        def begin(command: Any, **named: Any) -> Any:
            return popen(command, **{**named, "stdin": self._stdin})

        @functools.wraps(stock)
        def launch(*arguments: Any, **named: Any) -> Any:
            if self._gateway.exists():
                port, secret = json.loads(self._gateway.read_text(encoding="utf-8"))
                os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
                return stock(*arguments, **named)
            module.Popen = begin
            gateway = stock(*arguments, **named)
            own = gateway.gateway_parameters
            _write(self._gateway, [own.port, own.auth_token])
            return gateway

        return launch

    def _initialising(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def initialise(sc: SparkContext, jconf: Any) -> Any:
            settings = sorted(map(list, SparkConf(_jconf=jconf).getAll()))
            jvm: Any = sc._jvm
            if self._context.exists():
                kept = jvm.org.apache.spark.SparkContext.getOrCreate(jconf)
                if json.loads(self._context.read_text(encoding="utf-8")) == settings:
                    _forget_last_run(jvm, kept)
                    return jvm.JavaSparkContext(kept)
                kept.stop()
            # What functions leave in a worker would reach the next run.
            jconf.set("spark.python.worker.reuse", "false")
            context = stock(sc, jconf)
            _write(self._context, settings)
            return context

        return initialise


def _write(path: Path, document: Any) -> None:
    with open(path, "w", encoding="utf-8", opener=private_opener) as file:
        json.dump(document, file)


def _forget_last_run(jvm: Any, context: Any) -> None:
    """Drop what the last run left: jobs, cached rows, and its session with its views and settings."""
    context.cancelAllJobs()
    sessions = jvm.org.apache.spark.sql.SparkSession
    default = sessions.getDefaultSession()
    if default.isDefined():
        default.get().catalog().clearCache()
    for rdd in list(jvm.JavaSparkContext(context).getPersistentRDDs().values()):
        rdd.unpersist(False)
    sessions.clearDefaultSession()
    sessions.clearActiveSession()


def _run(folder: Path, log: Path, path: str, arguments: list[str], spark: _KeptSpark) -> int:
    """Run the program by the plan in a folder, in this process, which is a fork for it alone."""
    with open(os.devnull, "rb") as nothing, open(log, "ab") as output:
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ |= {
        PLAN_VARIABLE: str(folder / PLAN_FILE),
        NOTES_VARIABLE: str(folder / NOTES_FILE),
        "LINEAGE_SPOOL": str(folder / "spool"),
        "LINEAGE_STORE": f"sqlite:///{folder / 'lineage.db'}",
        # Lineage of most runs is not read: it stays in the spool.
        "LINEAGE_LINK": "false",
    }
    report = RerunPlan.read(folder / PLAN_FILE).report
    autorun.install()
    spark.keep()
    return autorun.run(
        path, arguments, lambda problem: report_errors(report, raised_errors(problem))
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Entry point of ``python -m lineage_emitter.repeating``."""
    own, path, *arguments = sys.argv[1:]
    spark, log = _KeptSpark(Path(own)), Path(own, OUTPUT_LOG)
    autorun.load_libraries(path)
    load_early()
    frame_class()
    # What is loaded now stays: collections in the forks neither visit nor copy it.
    gc.collect()
    gc.freeze()
    for line in iter(sys.stdin.readline, ""):
        child = os.fork()
        if not child:
            sys.exit(_run(Path(line.rstrip("\n")), log, path, arguments, spark))
        _, status = os.waitpid(child, 0)
        _say(str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    # By its own name: it tells stack frames of this module from those of the program's __main__.
    from lineage_emitter.repeating import main as repeat

    repeat()
