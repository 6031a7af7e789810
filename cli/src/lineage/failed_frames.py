"""``lineage sift --fails-with`` of DataFrames: the smallest set of input rows on which an action that failed still fails so."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from lineage.found_rows import FoundRows
from lineage.frame_traces import spark_session
from lineage.options import EXIT_INCOMPLETE, print_json
from lineage.refusing_servers import refuse_server
from lineage.terminal import echo
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.trace.allowed import check_files_allowed
from lineage_dataframes.trace.failing import FailingPlan, IsSought
from lineage_dataframes.trace.source_rows import places_and_texts
from lineage_query.finding import NotFoundError, find_application
from lineage_query.minimising import StoppedError, stop_after
from lineage_query.rows.reader import RowReader, reading_by
from lineage_store.paths import canonical
from lineage_store.recipes import failed_recipes
from lineage_store.rerun_plan import RaisedError
from lineage_store.url import index_folder, open_store

if TYPE_CHECKING:
    from lineage_core.recipe.document import Output, Recipe
    from lineage_store.port import GraphStore


@dataclass(frozen=True)
class FailedAction:
    """An action that failed, with its recipe."""

    app: str
    node: str
    recipe: Recipe

    @property
    def text(self) -> str:
        """What failed, where and of what, in one line."""
        failure = self.recipe.output.failure
        where = f" at {self.recipe.site}" if self.recipe.site else ""
        return f"{self.recipe.output.action}{where}: {failure.text if failure else ''}"

    def is_named(self, error: str) -> bool:
        """Whether it failed of this error, as far as the recipe says."""
        failure = self.recipe.output.failure
        if failure is None:
            return False
        raised = RaisedError(failure.type, failure.message)
        return error == failure.condition or raised.is_named(error)


def sift_failed_action(
    url: str,
    place: str,
    error: str,
    app: str,
    *,
    runs_max: int | None,
    timeout_s: float | None,
    as_json: bool,
) -> None:
    """Search the rows of the sources of an action that failed, and print the smallest set on which it fails so.

    ``place``: the application, the action's node, or where it would have written; empty: of the latest application. Ends with `EXIT_INCOMPLETE` where
    the search was stopped before the set was one-minimal.

    Raises:
        LineageError: no action failed so, or its plan can't be computed anew.
    """
    refuse_server(url, "rows are sifted")
    began, stop = time.monotonic(), stop_after(runs_max, timeout_s)
    with open_store(url) as store:
        action = find_failed_action(store, place, error, app)
        reader = RowReader(index_folder(url)).of_application(action.app)
        check_files_allowed(action.recipe, reader)
        with spark_session() as spark, reading_by(reader):
            try:
                found = FailingPlan(spark, action.recipe, sought(error)).search(stop)
            except StoppedError as reason:
                raise TraceError(f"the search ended in its first run, after {reason}") from None
            rows = list(dict(places_and_texts(spark, action.recipe, found.rows).values()).items())
    answer = FoundRows(found.found, rows, found.searched, time.monotonic() - began)
    if as_json:
        print_json(_to_json(action, found.error, answer))
    else:
        _show(action, found.error, answer)
    if not found.found.one_minimal:
        raise typer.Exit(EXIT_INCOMPLETE)


def sought(error: str) -> IsSought:
    """Says what an error of Spark's is, in one line, where it, or one that it came from, is called ``error``."""
    from lineage_emitter.failures import raised_errors

    def line_of(problem: Exception) -> str:
        named = next((e for e in raised_errors(problem) if e.is_named(error)), None)
        if named is None:
            return ""
        short = RaisedError(named.type.rpartition(".")[2], named.message)
        return short.line.split("\n", 1)[0]

    return line_of


def find_failed_action(store: GraphStore, place: str, error: str, app: str) -> FailedAction:
    """The action that a place names among those that failed; of several, the one that failed of the error.

    Raises:
        TraceError: there is none, or more than one.
        NotFoundError: there is no such application.
    """
    name, wanted = app, place
    if place and not app:
        try:
            name, wanted = find_application(store, place), ""
        except NotFoundError:
            name = ""
    found = find_application(store, name or None)
    failed = [
        FailedAction(found, node, recipe)
        for node, recipe in failed_recipes(store.graph(found)).items()
    ]
    named = [action for action in failed if not wanted or _is_called(action, wanted)]
    chosen = [action for action in named if action.is_named(error)] or named
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        listed = "\n".join(f"  {action.node}: {action.text}" for action in chosen[:20])
        raise TraceError(f"{len(chosen)} actions of {found} failed: name one by its node\n{listed}")
    if failed:
        listed = "\n".join(f"  {action.node}: {action.text}" for action in failed[:20])
        raise TraceError(f"no action of {found} that failed is called {wanted}:\n{listed}")
    raise TraceError(
        f"no action on DataFrames of {found} left a recipe when it failed; a program of RDDs is named by --program 'job.py ...'"
    )


def _is_called(action: FailedAction, name: str) -> bool:
    output: Output = action.recipe.output
    if name in (action.node, output.table):
        return True
    return output.path is not None and canonical(output.path) == canonical(name)


def _to_json(action: FailedAction, error: str, answer: FoundRows) -> Mapping[str, Any]:
    return {
        "app": action.app,
        "node": action.node,
        **answer.to_json(),
        "outcome": [error],
        "searched": "all rows",
        "failing": [],
    }


def _show(action: FailedAction, error: str, answer: FoundRows) -> None:
    echo(f"{action.recipe.output.action} at {action.recipe.site} failed", bold=True)
    which = "its sources hold"
    if answer.rows or not answer.found.one_minimal:
        answer.show(which, [error])
    else:
        answer.show_with(f"it fails without any of the {answer.of_all(which)}", [error])
