"""``lineage run`` and ``lineage mapreduce``: the job in a process of its own, capture switched on, then a summary."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

from lineage.access import StoredAccess
from lineage.background.client import StartOutcome, begin
from lineage.background.sessions import idle_s
from lineage.linking import link_folders
from lineage.terminal import echo
from lineage.verdicts import answers_words
from lineage_core.contract.verdict import Verdict
from lineage_core.environment.extras import require
from lineage_core.environment.module_programs import module_command
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query.trace_query import TraceQuery
from lineage_query.verdicts import verdict_of
from lineage_store.port import GraphStore
from lineage_store.run_notes import NOTES_VARIABLE, RunNotes, read_notes
from lineage_store.url import is_embedded, open_store, store_path

CRASH = "crash"
"""The operator of sinks that hold what a task was working on when it failed."""
ROWS_SHOWN = 3
CHECKED_S = 2.0
"""Seconds for the check at the end of a run whether its outputs' rows can be traced; `lineage verify` has no limit."""
FORWARDED = (signal.SIGTERM, signal.SIGHUP)
"""Sent by a supervisor to this process alone, and forwarded to the job."""
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""Sent by a terminal to the job as well; this process ignores them and waits for the job."""


def run_job(
    url: str,
    job: str,
    arguments: Sequence[str],
    *,
    materialised: Sequence[str] = (),
    session: bool = False,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run a job under capture; returns its exit code, 128 + n if signal n ended it.

    ``materialised``: outputs of DataFrames (see :mod:`lineage.materialising`). ``session``: start a background session
    for queries about rows of DataFrames, where the job has recorded any.

    Raises:
        MissingExtraError: PySpark is not installed.
        StoreError: the store is none, or none that capture writes to by itself.
    """
    require("pyspark", "lineage run")
    words = ("lineage_emitter.autorun", job, *arguments)
    code, notes = _run(url, words, quiet=quiet, as_json=as_json)
    try:
        if materialised and code == 0:
            from lineage.materialising import show_materialised

            for app in notes.apps:
                show_materialised(url, app, materialised, to_stderr=True)
        if session and code == 0:
            _begin_session(url, notes, quiet=quiet or as_json)
    except (LineageError, OSError) as error:
        echo(f"lineage: {error}", err=True)
    return code


def run_mapreduce(
    url: str,
    command: Sequence[str],
    *,
    each_line: bool,
    named_keys: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run a command of Hadoop Streaming under capture; returns its exit code, 128 + n if signal n ended it.

    Raises:
        StoreError: the store is none, or none that capture writes to by itself.
    """
    words = ["lineage_emitter.sdk.mapreduce_adapter"]
    words += ["--each-line"] * each_line + ["--named-keys"] * named_keys
    return _run(url, [*words, *command], quiet=quiet, as_json=as_json)[0]


def run_module(
    url: str,
    words: Sequence[str],
    environment: Mapping[str, str],
    output: IO[str] | None = None,
) -> tuple[int, RunNotes]:
    """Run a module of the emitter; its exit code, negative for a signal, and notes of the applications that it captured.

    ``output``: gets what it prints; None: the output of this process.
    """
    # A program run by its path imports nothing from the working directory, either.
    command = module_command(*words)
    with tempfile.TemporaryDirectory(prefix="lineage-run-") as folder:
        notes_file = Path(folder) / "notes.jsonl"
        own = {"LINEAGE_STORE": _absolute(url), NOTES_VARIABLE: str(notes_file)}
        with (
            subprocess.Popen(command, env={**environment, **own}, stdout=output) as child,
            _signals_to(child),
        ):
            try:
                code = child.wait()
            except BaseException:
                # A command that is out of time waits no longer for its program.
                child.terminate()
                raise
        return code, read_notes(notes_file)


def _run(url: str, words: Sequence[str], *, quiet: bool, as_json: bool) -> tuple[int, RunNotes]:
    """Run a module of the emitter and sum up what it captured; its exit code, and notes of its applications."""
    code, notes = run_module(url, words, os.environ)
    try:
        # Link the blocks that a killed job left in the spool.
        link_folders(url, [f for app, f in notes.apps.items() if app not in notes.kafka])
        if not quiet:
            _summarise(url, notes, as_json=as_json)
    except (LineageError, OSError) as error:
        echo(f"lineage: {error}", err=True)
    return code if code >= 0 else 128 - code, notes


def _begin_session(url: str, notes: RunNotes, *, quiet: bool) -> None:
    if not is_embedded(url) or not store_path(url).exists():
        return
    with open_store(url) as store:
        app_ids = set(store.application_ids())
        has_recipes = any(
            verdict_of(store, app).recipes_received for app in app_ids & notes.apps.keys()
        )
    if has_recipes and begin(url) is StartOutcome.STARTED and not quiet:
        hint = f"it ends after {idle_s():g} s without one; --no-session: none"
        echo(f"lineage: a background session waits for queries; {hint}", err=True)


def _absolute(url: str) -> str:
    """The store as the job is to know it, whose working directory may become another."""
    if os.environ.get("LINEAGE_DISPATCHER") == "kafka" and not is_embedded(url):
        return url
    return f"sqlite:///{store_path(url)}"


@contextmanager
def _signals_to(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass signals on to the child, so that it ends as it would on its own."""

    def forward(number: int, _: FrameType | None) -> None:
        child.send_signal(number)

    def wait(number: int, _: FrameType | None) -> None:
        pass

    before: dict[signal.Signals, Any] = {}
    for number in FORWARDED:
        before[number] = signal.signal(number, forward)
    for number in FROM_TERMINAL:
        before[number] = signal.signal(number, wait)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _summarise(url: str, notes: RunNotes, *, as_json: bool) -> None:
    summaries: list[dict[str, Any]] = []
    linked = [app for app in notes.apps if app not in notes.kafka]
    if linked and store_path(url).exists():
        with open_store(url) as store:
            names = {record.app: record.name for record in store.applications()}
            for app in linked:
                if app in names:
                    access = StoredAccess(store, url)
                    verdict = access.answerable(app, verdict_of(store, app), CHECKED_S).to_json()
                    died_on = culprits(store, url, app)
                    summaries.append({"app": app, "name": names[app], "died_on": died_on} | verdict)
    summaries += [_sent(app, kafka, notes.apps[app]) for app, kafka in notes.kafka.items()]
    if as_json:
        echo(json.dumps({"applications": summaries}, ensure_ascii=False), err=True)
        return
    for summary in summaries:
        echo(_summary(summary), err=True)
    for app in notes.apps.keys() - {summary["app"] for summary in summaries}:
        echo(f"lineage: {app}: nothing of it is in {url}", err=True)
    for reason in notes.uncaptured or (() if notes.apps else ("no SparkContext was started",)):
        echo(f"lineage: nothing was captured: {reason}", err=True)


def culprits(store: GraphStore, url: str, app: str) -> list[str]:
    """Rows that tasks were working on when a function of the job failed, as people read them."""
    places = [
        f"{node.node}#0#0" for node in store.graph(app).nodes() if node.op == CRASH and node.blocks
    ]
    if not places:
        return []
    question = TraceQuery(Direction.BACKWARD, tuple(places), app=app, limit=ROWS_SHOWN)
    answer = StoredAccess(store, url).ask(question)
    rows = [item for group in answer.groups for item in group.items]
    shown = [
        f"{item.location or item.address}: {item.text}" if item.text else item.address
        for item in rows[:ROWS_SHOWN]
    ]
    count = sum(group.count for group in answer.groups)
    more = count - len(shown)
    return [*shown, f"{more:,} more: lineage back {places[0]}"] if more else shown


def _sent(app: str, kafka: str, folder: Path) -> dict[str, Any]:
    """A summary of an application that sent to Kafka: its lineage is linked elsewhere."""
    waiting = [path for path in folder.rglob("*") if path.is_file()]
    return {"app": app, "kafka": kafka, "spool": str(folder.parent), "waiting_files": len(waiting)}


def _summary(summary: dict[str, Any]) -> str:
    if "kafka" in summary:
        app, kafka, spool = summary["app"], summary["kafka"], summary["spool"]
        if summary["waiting_files"]:
            return (
                f"lineage: {app}: lineage waits in {spool}, Kafka at {kafka} did not take it; "
                f"next: lineage send --spool {spool}"
            )
        return f"lineage: {app}: sent to Kafka at {kafka}; next: lineage verify --wait {app}"
    app, flows, blocks = summary["app"], summary["flows"], summary["blocks"]["received"]
    verdict = Verdict.from_json(summary)
    if not verdict.complete or not verdict.answerable:
        following = f"lineage verify {app}"
    else:
        following = "lineage back OUTPUT_FILE:LINE" if blocks else f"lineage graph {app}"
    received = "complete" if verdict.complete else "incomplete"
    state = f"{received}, {answers_words(verdict)}"
    flow_counts = f"{flows:,} flows in {blocks:,} blocks"
    recipes = summary["recipes"]["received"]
    if recipes:
        recipe_count = "1 recipe" if recipes == 1 else f"{recipes:,} recipes"
        flow_counts = f"{flow_counts}, {recipe_count}" if blocks else recipe_count
    lines = [f"lineage: {app}: {state}, {flow_counts}; next: {following}"]
    lines += [f"lineage:   {reason}" for reason in summary["reasons"][:3]]
    lines += [f"lineage:   can't be traced: {refusal.text}" for refusal in verdict.refusals[:3]]
    lines += [f"lineage:   a task died while working on {row}" for row in summary["died_on"]]
    return "\n".join(lines)
