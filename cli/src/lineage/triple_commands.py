"""``lineage triples``: provenance triples of others, kept in a lake and traced."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lineage.options import (
    JsonOption,
    StoreOption,
    TimeoutOption,
    chosen_store,
    in_time,
    print_json,
    reported,
)
from lineage.terminal import echo

if TYPE_CHECKING:
    from lineage_store.triples.tracing import TripleTrace

app = typer.Typer(
    name="triples",
    help="Provenance triples from anywhere (dst was derived from src by op), in a lake: import, index and trace them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The data set.")]
ItemArgument = Annotated[
    str, typer.Argument(metavar="ITEM", help="The item; after -- where it begins with a dash.")
]
MethodOption = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="METHOD",
        help="rq (step by step), ccprov (the component is read), csprov (the connected sets that it depends on are read), "
        "or auto. All give the same answer.",
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", min=0, help="Triples listed (default: 20; with --json all)."),
]
SetItemsOption = Annotated[
    int | None,
    typer.Option(
        "--set-items",
        min=1,
        help="Components of more items are split into connected sets, if the nodes of their items are known (default: 10,000).",
    ),
]
OutputOption = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the trace to a file, - for stdout, in --format.",
    ),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="csv, arrow or parquet (triples); prov, graphml or mermaid (items with what is between them); default: by the file's ending, or csv.",
    ),
]
TRIPLES_LISTED = 20


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
            help="Make all of the index again, in memory (some 200 bytes a triple), though nothing waits.",
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


@app.command("back")
@reported
def back(  # noqa: PLR0913, PLR0917 - the options of a command
    context: typer.Context,
    name: NameArgument,
    item: ItemArgument,
    method: MethodOption = "auto",
    limit: LimitOption = None,
    timeout_s: TimeoutOption = None,
    output: OutputOption = "",
    file_format: FormatOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Find all items that an item was derived from, with the triples between them."""
    traced = _traced(context, name, item, method, timeout_s, store, is_back=True)
    if output or file_format:
        _export(traced, name, output or "-", file_format, as_json=as_json)
    else:
        _show_trace(traced, limit, is_back=True, as_json=as_json)


@app.command("forward")
@reported
def forward(  # noqa: PLR0913, PLR0917 - the options of a command
    context: typer.Context,
    name: NameArgument,
    item: ItemArgument,
    method: MethodOption = "auto",
    limit: LimitOption = None,
    timeout_s: TimeoutOption = None,
    output: OutputOption = "",
    file_format: FormatOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Find all items that were derived from an item, with the triples between them."""
    traced = _traced(context, name, item, method, timeout_s, store, is_back=False)
    if output or file_format:
        _export(traced, name, output or "-", file_format, as_json=as_json)
    else:
        _show_trace(traced, limit, is_back=False, as_json=as_json)


def _traced(
    context: typer.Context,
    name: str,
    item: str,
    method: str,
    timeout_s: float | None,
    store: str,
    *,
    is_back: bool,
) -> TripleTrace:
    from lineage_store.triples.data_sets import TripleStore
    from lineage_store.triples.tracing import Method, trace

    if method not in set(Method):
        raise typer.BadParameter("it is one of " + ", ".join(Method))
    with in_time(timeout_s):
        triples = TripleStore(chosen_store(context, store))
        return trace(triples, name, item, is_back=is_back, method=Method(method))


def _export(found: TripleTrace, name: str, output: str, file_format: str, *, as_json: bool) -> None:
    from lineage.exporting import STDOUT, chosen_format, output_stream
    from lineage_query.exports import ExportError
    from lineage_query.exports.triples import export_triples

    if as_json and output == STDOUT:
        raise ExportError("--json reports on a written file: name it by -o FILE")
    chosen = chosen_format(file_format, output)
    with output_stream(output) as stream:
        export_triples(found, name, chosen.name, stream)
    if as_json:
        counts = {"found": len(found.items), "count": len(found.triples)}
        print_json({"file": output, "format": chosen.name, **counts})


def _show_trace(found: TripleTrace, limit: int | None, *, is_back: bool, as_json: bool) -> None:
    if as_json:
        listed = asdict(found)
        names = ("src", "dst", "op")
        listed["triples"] = [
            dict(zip(names, triple, strict=True)) for triple in found.triples[:limit]
        ]
        print_json(listed | {"count": len(found.triples)})
        return
    way = "from" if is_back else "into"
    echo(
        f"{way} {len(found.items):,} items, by {len(found.triples):,} triples "
        f"({found.method}: {found.read.triples:,} triples read)"
    )
    shown = TRIPLES_LISTED if limit is None else limit
    for src, dst, op in found.triples[:shown]:
        echo(f"{src} -> {dst}: {op}")
    if len(found.triples) > shown:
        echo(f"... and {len(found.triples) - shown:,} more: --limit, or --json")


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
        indexed = "yes" if one.is_indexed else "no"
        table.add_row(
            one.name, f"{one.sources:,}", f"{one.rows:,}", f"{one.stored_bytes:,}", indexed
        )
    console().print(table)


@app.command("rm")
@reported
def remove(context: typer.Context, name: NameArgument, store: StoreOption = "") -> None:
    """Remove a data set of triples, with its files."""
    from lineage_store.triples.data_sets import TripleStore

    TripleStore(chosen_store(context, store)).remove(name)
    echo(f"removed {name}")
