"""What ``lineage run`` does when its job has ended: summaries of the applications, and the session for queries."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

from lineage.access import StoredAccess
from lineage.background.client import StartOutcome, begin
from lineage.background.sessions import idle_s
from lineage.linking import fill_lake, link_folders
from lineage.options import store_option
from lineage.terminal import echo
from lineage.verdicts import answers_words
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.trace_result import Direction
from lineage_query.trace_query import TraceQuery
from lineage_query.verdicts import verdict_of
from lineage_store.lake.address import is_lake
from lineage_store.port import GraphStore
from lineage_store.recipes import failed_recipes
from lineage_store.run_notes import RunNotes
from lineage_store.url import has_store, is_embedded, open_store, spool_of, store_path

CRASH = "crash"
"""The operator of sinks that hold what a task was working on when it failed."""
ROWS_SHOWN = 3
CHECKED_S = 2.0
"""Seconds for the check at the end of a run whether its outputs' rows can be traced; `lineage verify` has no limit."""


def store_what_is_left(url: str, notes: RunNotes) -> None:
    """Link the blocks that a killed job left in the spool, and move what is linked beside a lake into it.

    Raises:
        LineageError, OSError: it can't be stored; it stays where it is.
    """
    link_folders(url, [f for app, f in notes.apps.items() if app not in notes.kafka])
    if is_lake(url):
        # The job is over, however it ended.
        fill_lake(url, spool_of(url), over=set(notes.apps))


def begin_session(url: str, notes: RunNotes, *, quiet: bool) -> None:
    """Start the session in the background, if the run recorded any DataFrames."""
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


def summarise(url: str, notes: RunNotes, *, as_json: bool) -> None:
    """Print what became of the applications of a run."""
    summaries: list[dict[str, Any]] = []
    linked = [app for app in notes.apps if app not in notes.kafka]
    if linked and has_store(url):
        with open_store(url) as store:
            names = {record.app: record.name for record in store.applications()}
            for app in linked:
                if app in names:
                    access = StoredAccess(store, url)
                    verdict = access.answerable(app, verdict_of(store, app), CHECKED_S).to_json()
                    found = {
                        "died_on": culprits(store, url, app),
                        "failed": failed(store, url, app),
                    }
                    summaries.append({"app": app, "name": names[app]} | found | verdict)
    summaries += [_sent(app, kafka, notes.apps[app]) for app, kafka in notes.kafka.items()]
    if as_json:
        echo(json.dumps({"applications": summaries}, ensure_ascii=False), err=True)
        return
    for summary in summaries:
        echo(_summary(summary, store_option(url)), err=True)
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
    answer = StoredAccess(store, url).trace(question)
    rows = [item for group in answer.groups for item in group.items]
    shown = [
        f"{item.location or item.address}: {item.text}" if item.text else item.address
        for item in rows[:ROWS_SHOWN]
    ]
    count = sum(group.count for group in answer.groups)
    more = count - len(shown)
    command = f"lineage back {places[0]} --app {app}{store_option(url)}"
    return [*shown, f"{more:,} more: {command}"] if more else shown


def failed(store: GraphStore, url: str, app: str) -> list[dict[str, str]]:
    """Actions on DataFrames that failed, with the commands that find the rows they failed on."""
    actions: list[dict[str, str]] = []
    for node, recipe in islice(failed_recipes(store.graph(app)).items(), ROWS_SHOWN):
        output = recipe.output
        if output.failure is not None:
            command = f"lineage sift {node} --app {app} --fails-with {output.failure.type}"
            command += store_option(url)
            actions.append({"node": node, "action": output.action, "command": command})
    return actions


def _sent(app: str, kafka: str, folder: Path) -> dict[str, Any]:
    """A summary of an application that sent to Kafka: its lineage is linked elsewhere."""
    waiting = [path for path in folder.rglob("*") if path.is_file()]
    return {"app": app, "kafka": kafka, "spool": str(folder.parent), "waiting_files": len(waiting)}


def _summary(summary: dict[str, Any], store: str) -> str:
    """What people read. ``store``: what commands end with."""
    if "kafka" in summary:
        app, kafka, spool = summary["app"], summary["kafka"], summary["spool"]
        if summary["waiting_files"]:
            return (
                f"lineage: {app}: lineage waits in {spool}, Kafka at {kafka} did not take it; "
                f"next: lineage send --spool {spool}"
            )
        return f"lineage: {app}: sent to Kafka at {kafka}; next: lineage verify --wait {app}{store}"
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
    lines = [f"lineage: {app}: {state}, {flow_counts}; next: {following}{store}"]
    lines += [f"lineage:   {reason}" for reason in summary["reasons"][:3]]
    lines += [f"lineage:   can't be traced: {refusal.text}" for refusal in verdict.refusals[:3]]
    for done, by_node in (("set aside", verdict.set_aside), ("repaired", verdict.repaired)):
        records = sum(by_node.values())
        if records:
            count = "1 record was" if records == 1 else f"{records:,} records were"
            lines.append(
                f"lineage:   {count} {done}, as functions failed on them: lineage quarantine {app}{store}"
            )
    lines += [f"lineage:   a task died while working on {row}" for row in summary["died_on"]]
    lines += [
        f"lineage:   the rows on which {action['action']} failed: {action['command']}"
        for action in summary["failed"]
    ]
    return "\n".join(lines)
