"""``lineage run`` and ``lineage mapreduce``: a job with capture switched on, then a summary.

A program of ``lineage run`` has its process for itself. Hadoop is another process anyway, so what captures its jobs runs in this one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

from lineage.command_line import load_numpy
from lineage.terminal import echo
from lineage_core.environment.extras import require
from lineage_core.environment.module_programs import module_command
from lineage_core.errors import LineageError
from lineage_store.lake.address import is_lake
from lineage_store.run_notes import NOTES_VARIABLE, RunNotes, read_notes
from lineage_store.url import absolute_store, captured_into, is_embedded

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
            from lineage.run_summaries import begin_session

            begin_session(url, notes, quiet=quiet or as_json)
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
    load_numpy()
    from lineage_emitter.errors import UnsupportedOperatorError
    from lineage_emitter.sdk.mapreduce_adapter import run_job

    def run(words: Sequence[str]) -> int:
        with _started(words) as child:
            return child.wait()

    with _notes_of(url) as (own, notes_file):
        before = dict(os.environ)
        os.environ.update(own)
        try:
            code = run_job(command, run, each_line=each_line, named_keys=named_keys)
        except UnsupportedOperatorError as refusal:
            echo(f"lineage: {refusal}", err=True)
            code = 1
        finally:
            os.environ.clear()
            os.environ.update(before)
        notes = read_notes(notes_file)
    return _summed_up(url, code, notes, quiet=quiet, as_json=as_json)


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
    with _notes_of(url) as (own, notes_file):
        with _started(command, env={**environment, **own}, stdout=output) as child:
            try:
                # What is needed at the end: the job does not wait until it is loaded.
                load_numpy()
                import lineage.run_summaries  # noqa: F401

                code = child.wait()
            except BaseException:
                # A command that is out of time waits no longer for its program.
                child.terminate()
                raise
        return code, read_notes(notes_file)


def _run(url: str, words: Sequence[str], *, quiet: bool, as_json: bool) -> tuple[int, RunNotes]:
    """Run a module of the emitter and sum up what it captured; its exit code, and notes of its applications."""
    code, notes = run_module(url, words, os.environ)
    return _summed_up(url, code, notes, quiet=quiet, as_json=as_json), notes


@contextmanager
def _notes_of(url: str) -> Iterator[tuple[dict[str, str], Path]]:
    """Variables of the environment of what is captured, and the file that it writes notes to."""
    with tempfile.TemporaryDirectory(prefix="lineage-run-") as folder:
        notes_file = Path(folder) / "notes.jsonl"
        yield {"LINEAGE_STORE": _absolute(url), NOTES_VARIABLE: str(notes_file)}, notes_file


def _summed_up(url: str, code: int, notes: RunNotes, *, quiet: bool, as_json: bool) -> int:
    from lineage.run_summaries import store_what_is_left, summarise

    try:
        store_what_is_left(url, notes)
        if not quiet:
            summarise(url, notes, as_json=as_json)
    except (LineageError, OSError) as error:
        echo(f"lineage: {error}", err=True)
    return code if code >= 0 else 128 - code


def _absolute(url: str) -> str:
    """The store as the job is to know it, whose working directory may become another."""
    if os.environ.get("LINEAGE_DISPATCHER") == "kafka" and not is_embedded(url):
        return absolute_store(url)
    # Of other stores it names those that capture writes to.
    return absolute_store(url) if is_lake(url) else captured_into(url)


@contextmanager
def _started(words: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program, and pass signals on to it, so that it ends as it would on its own; also those that come while it starts.

    Args:
        words: the program and its arguments.
        how: as `subprocess.Popen` takes it.
    """
    started: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        if started is None:
            early.append(number)
        else:
            started.send_signal(number)

    def wait(number: int, _: FrameType | None) -> None:
        pass

    before: dict[signal.Signals, Any] = {}
    for number in FORWARDED:
        before[number] = signal.signal(number, forward)
    for number in FROM_TERMINAL:
        before[number] = signal.signal(number, wait)
    try:
        with subprocess.Popen(words, **how) as started:
            for sent in early:
                started.send_signal(sent)
            yield started
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
