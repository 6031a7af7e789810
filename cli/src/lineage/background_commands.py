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
"""Seconds within which a session ends after SIGTERM."""

app = typer.Typer(
    name="session",
    help="Sessions in the background, which keep a Spark session for queries about rows of DataFrames.",
    no_args_is_help=True,
)


@app.command("start")
@reported
def start(context: typer.Context, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """Start the session that the first query would start, and warm it up until then."""
    from lineage.background.client import StartOutcome, begin

    outcome = begin(chosen_store(context, store))
    if as_json:
        print_json({"started": outcome is StartOutcome.STARTED})
        return
    why = (
        "; see LINEAGE_SESSION_S and `lineage session --help`"
        if outcome is StartOutcome.NONE
        else ""
    )
    echo(f"{outcome.value}{why}")


@app.command("status")
@reported
def status(as_json: JsonOption = False) -> None:
    """List the sessions of yours that run."""
    from lineage.background.sessions import log_of, running

    sessions = running()
    if as_json:
        print_json(
            {
                "sessions": [
                    {**asdict(session), "log": str(log_of(session.name))} for session in sessions
                ]
            }
        )
        return
    if not sessions:
        echo("no session runs")
    for session in sessions:
        echo(
            f"{session.store}: process {session.pid}, since {session.began}, ends {session.idle_s:g} s after the last query; "
            f"its log is {log_of(session.name)}"
        )


@app.command("stop")
@reported
def stop(
    as_json: JsonOption = False,
    wait_s: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="How long to wait for their end.")
    ] = ENDS_S,
) -> None:
    """End all your sessions; a running query gets no answer from its session."""
    from lineage.background.sessions import running
    from lineage_core.tracing.trace_result import TraceError

    sessions = running()
    for session in sessions:
        # The session holds the lock on its file, so no other process has taken its pid.
        os.kill(session.pid, signal.SIGTERM)
    due = time.monotonic() + wait_s
    names = {session.name for session in sessions}
    while names & {session.name for session in running()}:
        if time.monotonic() > due:
            process_ids = ", ".join(str(session.pid) for session in running())
            raise TraceError(f"sessions have not ended within {wait_s:g} s: process {process_ids}")
        time.sleep(0.05)
    if as_json:
        print_json({"stopped": [session.pid for session in sessions]})
        return
    echo(f"ended {len(sessions)} session{'' if len(sessions) == 1 else 's'}")
