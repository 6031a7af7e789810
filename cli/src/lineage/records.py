"""``lineage records``: the record-level view in Neo4j, for Neo4j Browser and Bloom."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from lineage.options import (
    JsonOption,
    StoreOption,
    asker,
    chosen_store,
    print_json,
    reported,
    stored,
)

if TYPE_CHECKING:
    from lineage_store.neo4j.record_view import Progress
    from lineage_store.port import GraphStore
    from lineage_store.record_flows import RecordFlows

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
    from lineage_store.finding import find_application
    from lineage_store.neo4j.record_view import view_of
    from lineage_store.record_flows import FLOWS_MAX

    url = chosen_store(context, store)
    with stored(url) as lineage_store:
        found = find_application(lineage_store, name)
        view = view_of(lineage_store, found)
        flows = _flows(
            lineage_store,
            url,
            found,
            places or [],
            direction,
            FLOWS_MAX if limit is None else limit,
            texts=texts,
        )
        with _bar() as show:
            view.create(flows, show)
    if as_json:
        print_json(
            {
                "app": found,
                "nodes": len(flows.nodes),
                "flows": len(flows.flows),
                "links": flows.links,
            }
        )
    else:
        typer.echo(
            f"{found}: {len(flows.flows):,} flows of {len(flows.nodes):,} nodes; for example\n"
            f"  MATCH (end:LineageFlow) WHERE end.applicationId = '{found}' "
            f"AND end.hashOut = '{_example(flows)}'\n"
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
    from lineage_store.finding import find_application
    from lineage_store.neo4j.record_view import view_of

    with stored(chosen_store(context, store)) as lineage_store:
        found = find_application(lineage_store, name)
        flows = view_of(lineage_store, found).remove()
    if as_json:
        print_json({"app": found, "removed": flows})
    else:
        typer.echo(f"{found}: removed {flows:,} flows")


def _flows(
    store: GraphStore,
    url: str,
    app_id: str,
    places: list[str],
    direction: str,
    limit: int,
    *,
    texts: bool,
) -> RecordFlows:
    from lineage.exporting import direction_of
    from lineage_store.asking import Question
    from lineage_store.record_flows import flows_of_application, flows_of_trace

    way = direction_of(direction)
    asking = asker(store, url)
    if places:
        traced = asking.trace(Question(way, tuple(places), app=app_id))
        for warning in traced.warnings:
            typer.echo(f"lineage: {warning}", err=True)
        return flows_of_trace(traced, limit=limit, texts=texts)
    return flows_of_application(
        app_id, store.graph(app_id), asking.locations(app_id), limit=limit, texts=texts
    )


def _example(flows: RecordFlows) -> str:
    """The hashOut of a flow that nothing follows, if there is one."""
    ends = (flow.hash_out for flow in flows.flows if flow.hash_out not in flows.middles)
    return next(ends, "write#0#0").replace("\\", "\\\\").replace("'", "\\'")


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None] | None]:
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

        def show(progress: Progress) -> None:
            bar.update(task, total=progress.total, completed=progress.done)

        yield show
