"""``lineage run``: the job in a process of its own, capture switched on, then a summary."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer

from lineage.linking import link_all, spool_of
from lineage.verdicts import verdict_of
from lineage_core.errors import LineageError
from lineage_store.opening import open_store, store_path

FORWARDED = (signal.SIGTERM, signal.SIGHUP)
"""Sent to this process alone by whoever supervises it: the job is to get them."""
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""Sent by a terminal to the job as well: here they are only waited out."""


def run_job(url: str, job: str, arguments: Sequence[str], *, quiet: bool, as_json: bool) -> int:
    """Run a job under capture; returns its exit code, 128 + n if signal n ended it.

    Raises:
        StoreError: the store can't be one that capture writes to.
    """
    store = store_path(url)
    known = _applications(url)
    environment = dict(os.environ, LINEAGE_STORE=f"sqlite:///{store}")
    command = [sys.executable, "-m", "lineage_emitter.autorun", job, *arguments]
    with subprocess.Popen(command, env=environment) as child, _signals_to(child):
        code = child.wait()
    try:
        _link_the_rest(url)
        if not quiet:
            _summarise(url, known, as_json=as_json)
    except (LineageError, OSError) as error:
        typer.echo(f"lineage: {error}", err=True)
    return code if code >= 0 else 128 - code


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


def _applications(url: str) -> set[str]:
    if not store_path(url).exists():
        return set()
    with open_store(url) as store:
        return {record.app for record in store.applications()}


def _link_the_rest(url: str) -> None:
    """What a job that was killed left in the spool."""
    spool = spool_of(url)
    if spool.is_dir() and any(spool.iterdir()):
        link_all(url, spool)


def _summarise(url: str, known: set[str], *, as_json: bool) -> None:
    new: list[dict[str, Any]] = []
    if store_path(url).exists():
        with open_store(url) as store:
            for record in store.applications():
                if record.app not in known:
                    verdict = verdict_of(store, record.app)
                    new.append({"app": record.app, "name": record.name} | verdict.to_json())
    if as_json:
        typer.echo(json.dumps({"applications": new}, ensure_ascii=False), err=True)
        return
    if not new:
        typer.echo("lineage: nothing was captured: no SparkContext was started", err=True)
    for found in reversed(new):
        typer.echo(_summary(found), err=True)


def _summary(found: dict[str, Any]) -> str:
    app, flows, blocks = found["app"], found["flows"], found["blocks"]["received"]
    if found["complete"]:
        state, following = "complete", "lineage back OUTPUT_FILE:LINE"
    else:
        state, following = "incomplete", f"lineage verify {app}"
    lines = [f"lineage: {app}: {state}, {flows:,} flows in {blocks:,} blocks; next: {following}"]
    lines += [f"lineage:   {reason}" for reason in found["reasons"][:3]]
    return "\n".join(lines)
