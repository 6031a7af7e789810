"""``lineage triples back`` and ``forward``: traces of provenance triples, here or by Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from lineage.spark_options import Engine
from lineage.terminal import echo

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_store.triples.tracing import TripleTrace

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The data set.")]
ItemsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="ITEM...", help="The items; after -- where one begins with a dash."),
]
ItemsOption = Annotated[
    Path | None,
    typer.Option(
        "--items",
        metavar="FILE",
        help="Trace the items of the column `item` of a Parquet or CSV file, all by one question.",
    ),
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
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="embedded (here), or spark: the Spark of LINEAGE_SPARK_MASTER, or one that is started here, writes the triples to --to.",
    ),
]
ToOption = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="FOLDER",
        help="With --engine spark: a new folder, or a URL that Spark knows, for the triples as files of Parquet.",
    ),
]
DriverOption = Annotated[
    int | None,
    typer.Option(
        "--driver-triples",
        min=0,
        metavar="N",
        help="With --engine spark: so many triples are searched on the driver, more by joins (default: 10,000,000).",
    ),
]
TRIPLES_LISTED = 20


@dataclass(frozen=True, slots=True)
class _Question:
    """What is traced, and how."""

    store: str
    name: str
    asked: pa.Array[Any]
    method: str
    is_back: bool
    timeout_s: float | None

    @property
    def way(self) -> str:
        return "from" if self.is_back else "into"


@reported
def back(  # noqa: PLR0913, PLR0917 - the options of a command
    context: typer.Context,
    name: NameArgument,
    items: ItemsArgument = None,
    items_file: ItemsOption = None,
    method: MethodOption = "auto",
    engine: EngineOption = Engine.EMBEDDED,
    to: ToOption = "",
    driver_triples: DriverOption = None,
    limit: LimitOption = None,
    timeout_s: TimeoutOption = None,
    output: OutputOption = "",
    file_format: FormatOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Find all items that some items were derived from, with the triples between them."""
    asked = _asked(items, items_file, method, engine)
    url = chosen_store(context, store)
    question = _Question(url, name, asked, method, is_back=True, timeout_s=timeout_s)
    if _is_spark(engine, to, driver_triples, limit, output or file_format):
        _write_table(question, to, driver_triples, as_json=as_json)
    else:
        _answer(question, limit, output, file_format, as_json=as_json)


@reported
def forward(  # noqa: PLR0913, PLR0917 - the options of a command
    context: typer.Context,
    name: NameArgument,
    items: ItemsArgument = None,
    items_file: ItemsOption = None,
    method: MethodOption = "auto",
    engine: EngineOption = Engine.EMBEDDED,
    to: ToOption = "",
    driver_triples: DriverOption = None,
    limit: LimitOption = None,
    timeout_s: TimeoutOption = None,
    output: OutputOption = "",
    file_format: FormatOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Find all items that were derived from some items, with the triples between them."""
    asked = _asked(items, items_file, method, engine)
    url = chosen_store(context, store)
    question = _Question(url, name, asked, method, is_back=False, timeout_s=timeout_s)
    if _is_spark(engine, to, driver_triples, limit, output or file_format):
        _write_table(question, to, driver_triples, as_json=as_json)
    else:
        _answer(question, limit, output, file_format, as_json=as_json)


def _asked(
    items: list[str] | None, items_file: Path | None, method: str, engine: str
) -> pa.Array[Any]:
    """The items of a question, of the command line or of a file."""
    from lineage_store.triples.finding import asked_texts
    from lineage_store.triples.sources import read_items
    from lineage_store.triples.tracing import MOST_ASKED, Method

    for word, known in ((method, Method), (engine, Engine)):
        if word not in set(known):
            raise typer.BadParameter(f"{word!r} is none of " + ", ".join(known))
    if bool(items) == bool(items_file):
        raise typer.BadParameter("name items, or a file of them by --items")
    if items_file is not None:
        return read_items(items_file, MOST_ASKED)
    return asked_texts(items or [])


def _is_spark(
    engine: str, to: str, driver_triples: int | None, limit: int | None, written: str
) -> bool:
    """Whether Spark traces; options of the other engine are refused."""
    is_spark = engine == Engine.SPARK
    if is_spark and not to:
        raise typer.BadParameter("--engine spark writes a table: name its folder by --to")
    if is_spark and (limit is not None or written):
        raise typer.BadParameter("--limit, --output and --format are not of --engine spark")
    if not is_spark and (to or driver_triples is not None):
        raise typer.BadParameter("--to and --driver-triples take --engine spark")
    return is_spark


def _answer(
    question: _Question, limit: int | None, output: str, file_format: str, *, as_json: bool
) -> None:
    from lineage_store.triples.data_sets import TripleStore
    from lineage_store.triples.tracing import Method, trace_items

    with in_time(question.timeout_s):
        traced = trace_items(
            TripleStore(question.store),
            question.name,
            question.asked,
            is_back=question.is_back,
            method=Method(question.method),
        )
    if output or file_format:
        _export(traced, question.name, output or "-", file_format, as_json=as_json)
    else:
        _show_trace(traced, limit, question.way, as_json=as_json)


def _write_table(
    question: _Question, to: str, driver_triples: int | None, *, as_json: bool
) -> None:
    """Have Spark trace, and write the triples."""
    from lineage.frame_traces import spark_session
    from lineage_dataframes.triples.tracing import DRIVER_TRIPLES, trace_to_table
    from lineage_store.triples.data_sets import TripleStore
    from lineage_store.triples.tracing import Method

    folder = to if "://" in to else str(Path(to).absolute())
    with in_time(question.timeout_s):
        triples = TripleStore(question.store)
        # What is refused is refused before Spark starts.
        triples.indexed_files(question.name)
        with spark_session(confined=False) as spark:
            written = trace_to_table(
                spark,
                triples,
                question.name,
                question.asked,
                folder,
                is_back=question.is_back,
                method=Method(question.method),
                driver_triples=DRIVER_TRIPLES if driver_triples is None else driver_triples,
            )
    if as_json:
        print_json({"folder": to, **asdict(written)})
        return
    how = f"{written.steps:,} steps of Spark" if written.steps else "searched on the driver"
    echo(
        f"{question.way} {written.items:,} items, by {written.triples:,} triples, written to {to} "
        f"({written.method}: {written.read:,} triples read, {how}{_because(written.reason)})"
    )


def _because(reason: str) -> str:
    return f"; {reason}" if reason else ""


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


def _show_trace(found: TripleTrace, limit: int | None, way: str, *, as_json: bool) -> None:
    if as_json:
        listed = asdict(found)
        if len(found.asked) == 1:
            listed["item"] = listed.pop("asked")[0]
        names = ("src", "dst", "op")
        listed["triples"] = [
            dict(zip(names, triple, strict=True)) for triple in found.triples[:limit]
        ]
        print_json(listed | {"count": len(found.triples)})
        return
    echo(
        f"{way} {len(found.items):,} items, by {len(found.triples):,} triples "
        f"({found.method}: {found.read.triples:,} triples read{_because(found.reason)})"
    )
    shown = TRIPLES_LISTED if limit is None else limit
    for src, dst, op in found.triples[:shown]:
        echo(f"{src} -> {dst}: {op}")
    if len(found.triples) > shown:
        echo(f"... and {len(found.triples) - shown:,} more: --limit, or --json")
