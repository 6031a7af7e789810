"""``lineage session``."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import asdict
from typing import Annotated

import typer

from lineage.options import JsonOption, StoreOption, chosen_store, print_json, reported
from lineage.terminal import echo

ENDS_S = 90.0
"""Seconds within which a session ends that is told to."""

app = typer.Typer(
    name="session",
    help="Sessions in the background, which keep a Spark for questions about rows of DataFrames.",
    no_args_is_help=True,
)


@app.command("start")
@reported
def start(context: typer.Context, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """Start the session that the first question would start, and warm it up until then."""
    from lineage.background.asking import Begun, begin

    begun = begin(chosen_store(context, store))
    if as_json:
        print_json({"started": begun is Begun.STARTED})
        return
    why = "; see LINEAGE_SESSION_S and `lineage session --help`" if begun is Begun.NONE else ""
    echo(f"{begun.value}{why}")


@app.command("status")
@reported
def status(as_json: JsonOption = False) -> None:
    """List the sessions of yours that run."""
    from lineage.background.sessions import log_of, running

    found = running()
    if as_json:
        print_json({"sessions": [{**asdict(one), "log": str(log_of(one.name))} for one in found]})
        return
    if not found:
        echo("no session runs")
    for one in found:
        echo(
            f"{one.store}: process {one.pid}, since {one.began}, ends {one.idle_s:g} s after the last question; "
            f"its log is {log_of(one.name)}"
        )


@app.command("stop")
@reported
def stop(
    as_json: JsonOption = False,
    wait_s: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="How long to wait for their end.")
    ] = ENDS_S,
) -> None:
    """End all sessions of yours; a question that one is at gets no answer from it."""
    from lineage.background.sessions import running
    from lineage_core.tracing.trace_result import TraceError

    found = running()
    for one in found:
        # It holds the lock on its file, so the number is no other process's by now.
        os.kill(one.pid, signal.SIGTERM)
    due = time.monotonic() + wait_s
    names = {one.name for one in found}
    while names & {one.name for one in running()}:
        if time.monotonic() > due:
            left = ", ".join(str(one.pid) for one in running())
            raise TraceError(f"sessions have not ended within {wait_s:g} s: process {left}")
        time.sleep(0.05)
    if as_json:
        print_json({"stopped": [one.pid for one in found]})
        return
    echo(f"ended {len(found)} session{'' if len(found) == 1 else 's'}")
