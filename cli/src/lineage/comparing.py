"""``lineage diff``."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from lineage.options import opened, print_json, with_store
from lineage.terminal import echo
from lineage.tracing import START_ITEMS, TABLE_ITEMS, item_line
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Group
from lineage_query.comparing import Difference
from lineage_query.run_difference import RunDifference, SourceDifference
from lineage_query.showing import rows_text
from lineage_query.trace_query import TraceQuery


def diff(
    url: str,
    direction: Direction,
    places: tuple[str, str],
    app: str,
    limit: int | None,
    *,
    as_json: bool,
) -> None:
    """Compare the traces of two places, and print what each has that the other has not."""
    limit = limit if limit is not None or as_json else TABLE_ITEMS
    left, right = (
        TraceQuery(direction, (place,), app=app or None, limit=limit) for place in places
    )
    with opened(url) as access:
        difference = access.compare(left, right)
    if as_json:
        print_json(difference.to_json())
    else:
        _show_difference(difference, places)


def diff_runs(
    url: str,
    direction: Direction,
    places: tuple[str, str],
    runs: tuple[str, str],
    limit: int | None,
    *,
    as_json: bool,
) -> None:
    """Compare the traces of a place in two runs, and print what each has that the other has not."""
    query = TraceQuery(direction, (), limit=limit if limit is not None or as_json else TABLE_ITEMS)
    with opened(url) as access:
        difference = access.compare_runs(query, places, runs)
    if as_json:
        print_json(difference.to_json())
    else:
        _show_run_difference(difference)


def _show_difference(difference: Difference, places: tuple[str, str]) -> None:
    print_warnings(difference.warnings)
    for side in (difference.left, difference.right):
        for line in dict.fromkeys(
            item_line(item) for group in side.start for item in group.items[:START_ITEMS]
        ):
            echo(line, bold=True)
    if not difference.groups:
        echo("both come to nothing")
    for node_difference in difference.groups:
        for place, group in zip(
            places, (node_difference.only_left, node_difference.only_right), strict=True
        ):
            _show_rows(f"only {place}", group)
        echo("")
        subject = node_difference.only_left.path or node_difference.only_left.what or "node"
        echo(
            f"both: {node_difference.both:,} of {subject} ({node_difference.only_left.label})",
            fg=typer.colors.CYAN,
        )
    print_reasons(difference.exact, difference.reasons)


def _show_run_difference(difference: RunDifference) -> None:
    print_warnings(difference.warnings)
    for app, side in zip(difference.apps, (difference.left, difference.right), strict=True):
        places = ", ".join(side.requested_places)
        rows = rows_text(side.count)
        echo(f"{app}: {places}, {rows}", bold=True)
    if not difference.groups:
        echo("both come to nothing")
    for source in difference.groups:
        for app, only, undecided in zip(
            difference.apps,
            (source.only_left, source.only_right),
            (source.undecided_left, source.undecided_right),
            strict=True,
        ):
            _show_rows(f"only {app}", only)
            _show_rows(f"{app}, whether the other run has them is not known", undecided)
        echo("")
        echo(f"both: {_both_text(source)}", fg=typer.colors.CYAN)
    print_reasons(difference.exact, difference.reasons)


def _both_text(source: SourceDifference) -> str:
    subject = source.only_left.path or source.only_left.what or "node"
    other = source.only_right.path or source.only_right.what or "node"
    subject = subject if other == subject else f"{subject} and {other}"
    ways = [
        f"{count:,} by {way}"
        for count, way in (
            (source.same_places, "their places in the same version"),
            (source.same_texts, "their texts"),
        )
        if count
    ]
    of = f" of {subject} ({source.only_left.label})"
    return (" and ".join(ways) or "0") + of


def _show_rows(heading: str, group: Group) -> None:
    if not group.count:
        return
    echo("")
    echo(f"{heading}: {_rows(group)}", fg=typer.colors.CYAN)
    for item in group.items:
        echo(item_line(item))
    unlisted = group.count - len(group.items)
    if unlisted:
        echo(f"... and {unlisted:,} more (--limit N lists more)", dim=True)


def _rows(group: Group) -> str:
    of = f" of {group.path}" if group.path else f" of {group.what or 'node'}"
    return f"{rows_text(group.count)}{of} ({group.label})"


def print_warnings(warnings: Sequence[str]) -> None:
    """Print the warnings of an answer."""
    for warning in warnings:
        echo(f"lineage: {with_store(warning)}", err=True)


def print_reasons(exact: bool, reasons: Sequence[str]) -> None:
    """Print why an answer is not exact."""
    if not exact:
        echo("")
        echo("not exact:", fg=typer.colors.YELLOW)
        for reason in reasons:
            echo(f"  {reason}")
