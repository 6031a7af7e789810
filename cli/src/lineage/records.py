"""``lineage records``: the record-level view in Neo4j, for Neo4j Browser and Bloom."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from lineage.options import JsonOption, StoreOption, chosen_store, opened, print_json, reported
from lineage.terminal import echo

app = typer.Typer(
    name="records",
    help="One node for each record-level flow in Neo4j, for Neo4j Browser and Bloom.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AppArgument = Annotated[
    str, typer.Argument(metavar="APP", help="An application's id, the beginning of it, or latest.")
]


@app.command("create")
@reported
def create(
    context: typer.Context,
    name: AppArgument,
    places: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="Just what a trace from here goes along; may be repeated (default: all flows).",
        ),
    ] = None,
    direction: Annotated[
        str, typer.Option("--direction", metavar="back|forward", help="Of the trace.")
    ] = "back",
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Most flows (default: 100,000).")
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts/--no-texts", help="With what rows look like.")
    ] = True,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Write flows of an application as (:LineageFlow)-[:flow]->(:LineageFlow) into its Neo4j.

    May be repeated, also after it was interrupted: the same flows are not there twice.
    """
    from lineage.exporting import direction_of
    from lineage_query.record_flows import FLOWS_MAX
    from lineage_query.record_views import ViewSelection

    selection = ViewSelection(
        tuple(places or ()), direction_of(direction), FLOWS_MAX if limit is None else limit, texts
    )
    with opened(chosen_store(context, store)) as access, _bar() as show:
        summary = access.create_view(name, selection, show)
    for warning in summary.warnings:
        echo(f"lineage: {warning}", err=True)
    if as_json:
        print_json(summary.to_json())
    else:
        quoted = summary.example.replace("\\", "\\\\").replace("'", "\\'")
        echo(
            f"{summary.app}: {summary.flows:,} flows of {summary.nodes:,} nodes; for example\n"
            f"  MATCH (end:LineageFlow) WHERE end.applicationId = '{summary.app}' "
            f"AND end.hashOut = '{quoted}'\n"
            "  MATCH path = (end)<-[*0..]-(flow) RETURN path"
        )


@app.command("remove")
@reported
def remove(
    context: typer.Context,
    name: AppArgument,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Remove an application's record-level view; its lineage stays."""
    with opened(chosen_store(context, store)) as access:
        app_id, flows = access.remove_view(name)
    if as_json:
        print_json({"app": app_id, "removed": flows})
    else:
        echo(f"{app_id}: removed {flows:,} flows")


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, total=total, completed=done)

        yield show
