"""``lineage arrays``: questions about cells of arrays whose recordings are in a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lineage.array_options import (
    AllJobsOption,
    AppOption,
    CellsArgument,
    ChoicesOption,
    LimitOption,
    PngOption,
)
from lineage.command_line import load_arrays
from lineage.options import (
    JsonOption,
    StoreOption,
    TimeoutOption,
    chosen_store,
    in_time,
    reported,
    warning_if_partial,
)
from lineage.servers import SERVER_SCHEMES
from lineage_core.errors import LineageError

if TYPE_CHECKING:
    from lineage.served import ServedAccess
    from lineage_arrays.operators.costs import Costs
    from lineage_arrays.saved.tracing import StoredTrace
    from lineage_store.port import GraphStore

app = typer.Typer(
    name="arrays",
    help="Cells of NumPy arrays: which made a cell, and which it went into. Programs keep their recordings by store_recording.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
@reported
def list_arrays(
    context: typer.Context,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="The latest so many applications are searched.")
    ] = 200,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """List the applications that recorded arrays, the latest first, and the named arrays of each."""
    with _opened(chosen_store(context, store)) as opened:
        from lineage.array_answers import listed_of_server, listed_of_store
        from lineage.array_tables import show_arrays
        from lineage.served import ServedAccess

        listed, left_out = (
            listed_of_server(opened, limit)
            if isinstance(opened, ServedAccess)
            else listed_of_store(opened, limit)
        )
        show_arrays(listed, left_out=left_out, as_json=as_json)


@app.command("back")
@reported
def back(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    cells: CellsArgument,
    name: AppOption = "",
    all_jobs: AllJobsOption = False,
    choices: ChoicesOption = False,
    limit: LimitOption = None,
    png: PngOption = None,
    timeout_s: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Find the cells that cells of an array were made from.

    The array is one that a program saved (np.save), or named by Recording.output.
    """
    question = _Question("backward", cells, name, "", all_jobs, choices)
    _answer(context, store, question, timeout_s, limit=limit, as_json=as_json, png=png)


@app.command("forward")
@reported
def forward(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    cells: CellsArgument,
    to: Annotated[
        str, typer.Option("--to", metavar="ARRAY", help="To the array of this name alone.")
    ] = "",
    name: AppOption = "",
    all_jobs: AllJobsOption = False,
    choices: ChoicesOption = False,
    limit: LimitOption = None,
    png: PngOption = None,
    timeout_s: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Find the cells of saved and named arrays that cells of an array went into.

    The array is one that a program read (Recording.load), or named by Recording.source.
    """
    question = _Question("forward", cells, name, to, all_jobs, choices)
    _answer(context, store, question, timeout_s, limit=limit, as_json=as_json, png=png)


@dataclass(frozen=True)
class _Question:
    """A question about cells, as it was typed."""

    direction: Literal["backward", "forward"]
    cells: str
    app: str
    to: str
    all_jobs: bool
    choices: bool


def _answer(
    context: typer.Context,
    store: str,
    question: _Question,
    timeout_s: float | None,
    *,
    limit: int | None,
    as_json: bool,
    png: Path | None,
) -> None:
    url = chosen_store(context, store)
    with in_time(timeout_s), _opened(url) as opened:
        from lineage.array_answers import CELLS_LISTED, ends_at_rows, shown_trace, trace_of_server
        from lineage.array_pictures import (
            check_target,
            save_picture,
            sources_of_server,
            sources_of_store,
        )
        from lineage.array_tables import show_trace
        from lineage.served import ServedAccess
        from lineage_core.tracing.trace_result import Direction

        if png is not None:
            check_target(png)
        if isinstance(opened, ServedAccess):
            asked = {key: value for key, value in asdict(question).items() if value}
            listed = CELLS_LISTED if limit is None and not as_json else limit
            shown = trace_of_server(opened, asked, listed if png is None else None)
            sources = [] if png is None else sources_of_server(shown, question.cells, opened)
        else:
            trace = _traced(opened, question)
            beyond = None
            if question.all_jobs and not question.to and ends_at_rows(trace):
                from lineage.array_following import follow_cells

                way, app_id = question.direction, _whole_id(opened, question.app)
                beyond = follow_cells(
                    opened, url, way, question.cells, app_id, choices=question.choices
                )
            shown = shown_trace(trace, Direction(question.direction), beyond)
            sources = [] if png is None else sources_of_store(trace)
        picture = None if png is None else save_picture(png, sources)
        with warning_if_partial():
            show_trace(shown, limit=limit, as_json=as_json, picture=picture)


def _traced(store: GraphStore, question: _Question) -> StoredTrace:
    from lineage_arrays.saved import parse_address, trace_back, trace_forward

    address, app_id = parse_address(question.cells), _whole_id(store, question.app)
    all_jobs, choices, to_rows = question.all_jobs, question.choices, not question.to
    if question.direction == "backward":
        return trace_back(
            store, address, app=app_id, all_jobs=all_jobs, choices=choices, to_rows=to_rows
        )
    to = question.to or None
    return trace_forward(
        store, address, to=to, app=app_id, all_jobs=all_jobs, choices=choices, to_rows=to_rows
    )


@app.command("plan")
@reported
def plan(  # noqa: PLR0913, PLR0917 - an argument is an option
    context: typer.Context,
    costs: Annotated[
        Path | None,
        typer.Argument(
            metavar="[COSTS.json]",
            help="Measured costs: write_costs of lineage_arrays.operators.costs. Without it those of a stored recording.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            "--app",
            metavar="APP",
            help="The recording of this application, instead of the latest one that was stored with costs.",
        ),
    ] = "",
    max_disk_bytes: Annotated[
        int | None,
        typer.Option(
            "--max-disk", min=0, metavar="BYTES", help="Disk that lineage may take (default: any)."
        ),
    ] = None,
    max_run_s: Annotated[
        float | None,
        typer.Option(
            "--max-runtime",
            min=0,
            metavar="SECONDS",
            help="Run time that lineage may add (default: any).",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="PLAN.json",
            help="Write the plan to this file. Programs that run with LINEAGE_ARRAYS_PLAN=PLAN.json keep lineage by it.",
            show_default=False,
        ),
    ] = None,
    timeout_s: TimeoutOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Choose how the lineage of operators is kept, and say why: what each alternative would cost, and what larger limits would buy."""
    if costs is not None and name:
        raise LineageError("give a file of costs, or --app, not both")
    load_arrays()
    with in_time(timeout_s):
        from lineage.array_plans import save_plan, show_plan
        from lineage_arrays.operators.costs import read_costs
        from lineage_arrays.operators.optimiser import Limits
        from lineage_arrays.operators.planning import explain

        if costs is not None:
            app_id, known = None, read_costs(costs)
        else:
            with _opened(chosen_store(context, store)) as opened:
                app_id, known = _stored_costs(opened, name)
        explained = explain(known, Limits(max_disk_bytes, max_run_s))
        show_plan(explained, app=app_id, as_json=as_json)
        if save is not None:
            save_plan(explained, save)


def _stored_costs(store: GraphStore | ServedAccess, name: str) -> tuple[str, Costs]:
    """The costs that were stored with a recording; without a name with the latest one that has some.

    Raises:
        LineageError: there are none, or they are behind a server.
    """
    from lineage.served import ServedAccess

    if isinstance(store, ServedAccess):
        raise LineageError(
            "costs of strategies are not served: give the store itself by --store (sqlite:///PATH, lake:PATH or neo4j://HOST:PORT)"
        )
    from lineage_arrays.saved.reading import latest_measured, read_recording

    app_id = _whole_id(store, name)
    recording = latest_measured(store) if app_id is None else read_recording(store, app_id)
    return recording.app, recording.costs()


@contextmanager
def _opened(url: str) -> Iterator[GraphStore | ServedAccess]:
    """The store, or the server, that ``--store`` names.

    Raises:
        StoreError: there is none.
        LineageError: NumPy is too old for arrays.
    """
    load_arrays()
    from lineage.served import ServedAccess
    from lineage_store.url import open_store

    with ServedAccess(url) if url.startswith(SERVER_SCHEMES) else open_store(url) as opened:
        yield opened


def _whole_id(store: GraphStore, name: str) -> str | None:
    from lineage_query.finding import find_application

    return find_application(store, name) if name else None
