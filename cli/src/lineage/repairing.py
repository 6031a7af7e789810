"""``lineage replay --quarantined`` of DataFrames: outputs again, with the rows repaired that a job set aside."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from lineage.frame_traces import spark_session
from lineage.options import print_json
from lineage.refusing_servers import refuse_server
from lineage.replaying import check_new_folder, copy_rows, paths_of_recipe
from lineage.terminal import echo
from lineage_core.contract.verdict import QUARANTINE
from lineage_core.environment.private_files import ensure_private_folder
from lineage_core.environment.user_functions import load_function
from lineage_core.recipe.document import Recipe
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.errors import NotComputedError
from lineage_dataframes.sandbox.starting import written_folder
from lineage_dataframes.trace.allowed import check_files_allowed
from lineage_dataframes.trace.repairing import set_aside_sources, write_repaired
from lineage_query.finding import find_application
from lineage_query.rows.reader import RowReader, reading_by
from lineage_query.showing import rows_text
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe
from lineage_store.url import index_folder, open_store


@dataclass(frozen=True)
class _Output:
    """What a job wrote: its node, the folder that it is written to anew, and its recipe."""

    node: str
    folder: Path
    recipe: Recipe


def repair_frames(url: str, repair: str, to: str, app: str, *, as_json: bool) -> None:
    """Write the outputs of a job's DataFrames as they are with the rows repaired that it set aside, as Python functions failed on them.

    ``repair``: ``FILE.py:function``, which gets each row of a source that one of them was made from as a dictionary, and gives the one to be read in its
    place; None: none. ``to``: a new or empty folder, in which each output has a folder.

    Raises:
        LineageError: nothing was set aside, or an output can't be computed anew.
        OSError: the folder can't be written.
    """
    refuse_server(url, "rows are repaired")
    function, _ = load_function(repair, "--with")
    with open_store(url) as store:
        found = find_application(store, app or "latest")
        reader = RowReader(index_folder(url)).of_application(found)
        folder = Path(to).absolute()
        recipes = _recipes(store, found)
        if not recipes.set_aside:
            raise TraceError(
                f"{found} set no rows of DataFrames aside; a program of RDDs runs again by --program"
            )
        for recipe in (*recipes.set_aside, *recipes.outputs.values()):
            check_new_folder(folder, paths_of_recipe(recipe))
            check_files_allowed(recipe, reader)
        repaired: list[int] = []
        with spark_session() as spark, reading_by(reader):
            # Where it is confined, it writes to one folder alone.
            parent = os.path.realpath(written_folder() or tempfile.gettempdir())
            set_aside = set_aside_sources(spark, recipes.set_aside)
            outputs = [
                output for output in recipes.named(folder) if set_aside.reaches(output.recipe)
            ]
            if not outputs:
                raise TraceError(
                    f"{found} wrote nothing of DataFrames that reads the rows which it set aside"
                )
            for output in outputs:
                with tempfile.TemporaryDirectory(prefix="lineage-repair-", dir=parent) as scratch:
                    written = Path(scratch, "rows")
                    with _failures_named():
                        repaired.append(
                            write_repaired(spark, output.recipe, set_aside, function, written)
                        )
                    ensure_private_folder(folder)
                    copy_rows(written, output.folder)
    if as_json:
        print_json(
            {
                "app": found,
                "outputs": [
                    {"node": output.node, "to": str(output.folder), "repaired": count}
                    for output, count in zip(outputs, repaired, strict=True)
                ],
                "reasons": list(set_aside.reasons),
            }
        )
        return
    for output, count in zip(outputs, repaired, strict=True):
        rows = f"{rows_text(count)} of its sources"
        action = output.recipe.output.action
        echo(f"{action} computed over all rows, with {rows} repaired", fg=typer.colors.CYAN)
        echo(f"written to {output.folder}")
    for reason in set_aside.reasons:
        echo(f"repaired may be more rows than failed: {reason}", fg=typer.colors.YELLOW)


@contextmanager
def _failures_named() -> Iterator[None]:
    """Say on what a Python function of the job fails, if it still does: the rows are those of who repairs them.

    Raises:
        TraceError: one does.
    """
    try:
        yield
    except NotComputedError as problem:
        lines = str(problem.__cause__).strip().splitlines()
        raise TraceError(f"{problem} {lines[-1]}" if len(lines) > 1 else str(problem)) from problem


@dataclass(frozen=True)
class _Recipes:
    """Recipes of what an application wrote, by node, and of what it set aside."""

    outputs: Mapping[str, Recipe]
    set_aside: Sequence[Recipe]

    def named(self, folder: Path) -> Iterator[_Output]:
        """The outputs, each with a folder of its own."""
        names = set[str]()
        for number, recipe in self.outputs.items():
            name = Path(recipe.output.path or recipe.output.table or number).name
            # A name that is none would be the folder itself, or lead out of it.
            name = number if name in {"", ".", ".."} else name
            name = f"{name}-{number}" if name in names else name
            names.add(name)
            yield _Output(number, folder / name, recipe)


def _recipes(store: GraphStore, app: str) -> _Recipes:
    graph = store.graph(app)
    outputs: dict[str, Recipe] = {}
    set_aside: list[Recipe] = []
    for node in graph.nodes():
        recipe = read_recipe(graph, node.node) if node.kind == "frame" else None
        if recipe is None:
            continue
        if node.op == QUARANTINE:
            set_aside.append(recipe)
        elif recipe.output.kind != "driver":
            outputs[node.node] = recipe
    return _Recipes(outputs, set_aside)
