"""``lineage triples``: provenance triples of others, kept in a lake and traced."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lineage.options import JsonOption, StoreOption, chosen_store, print_json, reported
from lineage.terminal import echo
from lineage.triple_traces import NameArgument, back, forward

app = typer.Typer(
    name="triples",
    help="Provenance triples from anywhere (dst was derived from src by op), in a lake: import, index and trace them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SetItemsOption = Annotated[
    int | None,
    typer.Option(
        "--set-items",
        min=1,
        help="Components of more items are split into connected sets, if the nodes of their items are known (default: 10,000).",
    ),
]


@app.command("import")
@reported
def import_triples(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Parquet, or CSV with a header, with columns src, dst and op; PROV-JSON (.json); "
            "events of OpenLineage (.jsonl, .ndjson).",
        ),
    ],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The data set, new or not.")],
    nodes: Annotated[
        list[Path] | None,
        typer.Option(
            "--nodes",
            metavar="FILE",
            help="Parquet or CSV with columns item and node: the node of the workflow that each item belongs to. May be repeated.",
        ),
    ] = None,
    later: Annotated[
        bool, typer.Option("--later", help="Leave the index to `lineage triples index`.")
    ] = False,
    set_items: SetItemsOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Import triples of files into a data set, and index it. A file that it has is not imported again."""
    from lineage_store.triples.data_sets import TripleStore
    from lineage_store.triples.partitioning import SET_ITEMS

    triples = TripleStore(chosen_store(context, store), create=True)
    imported = triples.add(name, files, nodes or [])
    indexed = None if later else triples.index(name, set_items=set_items or SET_ITEMS)
    if as_json:
        print_json(
            {
                "imported": [asdict(one) for one in imported],
                "index": indexed.to_json() if indexed else None,
            }
        )
        return
    for one in imported:
        echo(
            f"{one.source}: {one.rows:,} rows" if one.is_new else f"{one.source}: is there already"
        )
    if indexed:
        _show_index(indexed.to_json())


@app.command("index")
@reported
def index(
    context: typer.Context,
    name: NameArgument,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole",
            help="Make all of the index again, in memory (of integers some 60 bytes a triple), though nothing waits.",
        ),
    ] = False,
    set_items: SetItemsOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Index the triples of a data set that wait. What is indexed stays, unless as much is added."""
    from lineage_store.triples.data_sets import TripleStore
    from lineage_store.triples.partitioning import SET_ITEMS

    indexed = TripleStore(chosen_store(context, store)).index(
        name, set_items=set_items or SET_ITEMS, is_whole=whole
    )
    if as_json:
        print_json(indexed.to_json() if indexed else None)
    elif indexed:
        _show_index(indexed.to_json())
    else:
        echo(f"nothing of {name} waits")


def _show_index(counts: dict[str, int]) -> None:
    echo("indexed: " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))


app.command("back")(back)
app.command("forward")(forward)


@app.command("list")
@reported
def list_data_sets(
    context: typer.Context, store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """List the data sets of triples."""
    from lineage.tables import console, table_of
    from lineage_store.triples.data_sets import TripleStore

    listed = TripleStore(chosen_store(context, store)).data_sets()
    if as_json:
        print_json([asdict(one) for one in listed])
        return
    table = table_of("name", "files", "rows", "bytes", "indexed")
    for one in listed:
        indexed = "damaged" if one.damaged else "yes" if one.is_indexed else "no"
        table.add_row(
            one.name, f"{one.sources:,}", f"{one.rows:,}", f"{one.stored_bytes:,}", indexed
        )
    console().print(table)
    for one in listed:
        if one.damaged:
            echo(f"lineage: {one.name} is damaged: {one.damaged}", err=True)


@app.command("rm")
@reported
def remove(context: typer.Context, name: NameArgument, store: StoreOption = "") -> None:
    """Remove a data set of triples, with its files."""
    from lineage_store.triples.data_sets import TripleStore

    TripleStore(chosen_store(context, store)).remove(name)
    echo(f"removed {name}")
