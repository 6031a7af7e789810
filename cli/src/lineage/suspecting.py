"""``lineage suspects``."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from lineage.comparing import print_reasons, print_warnings
from lineage.options import opened, print_json
from lineage.terminal import echo
from lineage.tracing import item_line
from lineage_core.tracing.trace_result import TraceError
from lineage_query.suspects.answer import Rank, SuspectKey, SuspectRow, Suspects, SuspectTask
from lineage_query.suspects.query import SuspectsQuery
from lineage_query.suspects.spectrum import FORMULAS, Formula


def formula_of(text: str) -> Formula:
    """The formula that ``--formula`` names.

    Raises:
        TraceError: there is none of this name.
    """
    for formula in FORMULAS:
        if formula == text:
            return formula
    raise TraceError(f"--formula is one of {', '.join(FORMULAS)}, and not {text!r:.40}")


def suspects(url: str, query: SuspectsQuery, *, as_json: bool) -> None:
    """Rank suspects, and print the first."""
    if query.app is not None and any(sign in query.app for sign in ":#/"):
        raise TraceError(f"{query.app:.200} is no application: rows are named by --bad and --good")
    with opened(url) as access:
        ranked = access.suspects(query)
    if as_json:
        print_json(ranked.to_json())
    else:
        _show(ranked, with_tasks=query.with_tasks)


def _show(ranked: Suspects, *, with_tasks: bool) -> None:
    print_warnings(ranked.warnings)
    outputs, good = len(ranked.requested_places), len(ranked.good_places)
    if outputs:
        if not ranked.items:
            told = (
                "no input of the bad outputs is suspect"
                if ranked.total
                else "the outputs have no inputs"
            )
            echo(told)
        else:
            echo(f"rows ({ranked.suspected:,} of {ranked.total:,} suspect)", fg=typer.colors.CYAN)
        for suspect in ranked.items:
            echo(_row_line(suspect, outputs, good))
        _more(ranked.suspected - len(ranked.items))
    if with_tasks:
        if outputs:
            echo("")
        _show_tasks(ranked, outputs, good)
    if with_tasks and not outputs:
        _show_keys(ranked)
    print_reasons(ranked.exact, ranked.reasons)


def _row_line(suspect: SuspectRow, outputs: int, good: int) -> str:
    counts = f"{suspect.outputs}/{outputs}" + (
        f" bad, {suspect.good_outputs}/{good} good" if good else ""
    )
    return f"{_rank(suspect.place)}  {counts}  {item_line(suspect.item)} ({suspect.label})"


def _rank(place: Rank) -> str:
    """The rank, with how many share it and the score."""
    tied = f" ({place.tied:,} tied)" if place.tied > 1 else ""
    score = "unbounded" if place.score is None else f"{place.score:.2f}"
    return f"{place.rank}.{tied}  {score}"


def _show_tasks(ranked: Suspects, outputs: int, good: int) -> None:
    heading = "tasks on the way" if outputs else "tasks that stand out"
    echo(
        f"{heading} ({ranked.tasks_total:,})" if ranked.tasks else f"no {heading}",
        fg=typer.colors.CYAN,
    )
    for task in ranked.tasks:
        for line in _task_lines(task, outputs, good):
            echo(line)
    _more(ranked.tasks_total - len(ranked.tasks))


def _task_lines(task: SuspectTask, outputs: int, good: int) -> Iterator[str]:
    yield f"{_rank(task.place)}  task {task.partition} of {task.label} (from {task.operators})"
    for reason in task.reasons(outputs, good):
        yield f"    {reason}"


def _show_keys(ranked: Suspects) -> None:
    echo("")
    heading = "keys that stand out"
    echo(
        f"{heading} ({ranked.keys_total:,})" if ranked.keys else f"no {heading}",
        fg=typer.colors.CYAN,
    )
    for key in ranked.keys:
        for line in _key_lines(key):
            echo(line)
    _more(ranked.keys_total - len(ranked.keys))


def _key_lines(key: SuspectKey) -> Iterator[str]:
    yield f"{key.address}: {key.deviation.reason}"
    for item in key.rows:
        yield f"    {item_line(item)}"
    if key.rows_total > len(key.rows):
        yield f"    ... and {key.rows_total - len(key.rows):,} more rows"


def _more(unlisted: int) -> None:
    if unlisted > 0:
        echo(f"... and {unlisted:,} more (--limit N lists more)", dim=True)
