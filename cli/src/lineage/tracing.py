"""``lineage back`` and ``lineage forward``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

import typer

from lineage.options import opened, print_json, store_to_name, with_store
from lineage.terminal import echo
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group, Item
from lineage_query.trace_query import TraceQuery

TABLE_ITEMS = 20
"""Items listed for each node when people read."""
START_ITEMS = 5


def question_of(  # noqa: PLR0913 - an argument is an option
    direction: str,
    places: Sequence[str],
    app: str,
    limit: int | None,
    *,
    step: bool,
    to: str,
    as_json: bool,
    as_now: bool,
    where: str = "",
    all_jobs: bool = False,
    way: bool = False,
    by: str = "row",
) -> TraceQuery:
    """The query that the options of a command describe."""
    return TraceQuery(
        direction=Direction(direction),
        places=tuple(places),
        app=app or None,
        until=to or None,
        steps=1 if step else None,
        limit=limit if limit is not None or as_json else TABLE_ITEMS,
        as_now=as_now,
        where=where,
        all_jobs=all_jobs,
        way=way,
        by=by,
    )


def ask(url: str, question: TraceQuery, *, as_json: bool, pairs: bool = False) -> None:
    """Trace and print. ``pairs``: also which rows were joined with each other."""
    with opened(url) as access:
        answer = access.ask(question)
    if as_json:
        print_json(answer.to_json())
    else:
        _show(answer, store_to_name(url))
        if pairs:
            _show_pairs(answer)


def _show(answer: Answer, store: str) -> None:
    for warning in answer.warnings:
        echo(f"lineage: {with_store(warning)}", err=True)
    # A row that two nodes read is two items.
    shown = [item_line(item) for group in answer.start for item in group.items[:START_ITEMS]]
    for line in dict.fromkeys(shown):
        echo(line, bold=True)
    towards = "from" if answer.direction is Direction.BACKWARD else "into"
    if not answer.groups:
        among = " by those that could be queried" if answer.not_queried else ""
        echo(f"{towards} nothing: no item was found{among}")
    elif answer.by != "row":
        _show_containers(answer, towards)
    else:
        for group in answer.groups:
            show_group(group, answer.direction, with_app=len(answer.apps) > 1, store=store)
    if not answer.exact:
        echo("")
        echo("not exact:", fg=typer.colors.YELLOW)
        for reason in answer.reasons:
            echo(f"  {with_store(reason)}")


def show_group(
    group: Group,
    direction: Direction,
    *,
    with_app: bool,
    limit: int | None = None,
    store: str = "",
) -> None:
    """Print the items of a node.

    Args:
        group: the node and its items.
        direction: of the trace.
        with_app: also the application of the node.
        limit: the first of the items that are listed.
        store: named by commands; empty: by none.
    """
    towards = "from" if direction is Direction.BACKWARD else "into"
    items = group.items[:limit]
    echo("")
    echo(
        f"{towards} {group.heading(group.app if with_app else '')}",
        fg=typer.colors.CYAN,
    )
    for item in items:
        echo(item_line(item))
    unlisted = group.count - len(items)
    if unlisted:
        echo(f"... and {unlisted:,} more (--limit N lists more)", dim=True)
    for job in group.next_jobs:
        echo(job.line(direction, store))


def _show_pairs(answer: Answer) -> None:
    echo("")
    if answer.pairs is None:
        echo("rows that were joined with each other: not known for such a trace")
        return
    lines = answer.pairs.lines()
    echo(f"rows that were joined with each other: {len(lines):,}", fg=typer.colors.CYAN)
    for line in lines:
        echo(line)
    for reason in answer.pairs.unknown:
        echo(f"there may be others: {reason}")


def _show_containers(answer: Answer, towards: str) -> None:
    echo("")
    echo(f"{towards} {answer.containers_heading()}", fg=typer.colors.CYAN)
    for line in answer.container_lines():
        echo(line)
    unlisted = answer.containers_total - len(answer.containers)
    if unlisted:
        echo(f"... and {unlisted:,} more (--limit N lists more)", dim=True)


def item_line(item: Item) -> str:
    """As grep -n prints it, cut to the width of a terminal."""
    text = item.location or item.address
    if item.shown is not None:
        text = f"{text}: {item.shown}"
    text = "\\n".join(text.splitlines()) if "\n" in text or "\r" in text else text
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        text = text if len(text) <= width else f"{text[: width - 1]}…"
    return text
