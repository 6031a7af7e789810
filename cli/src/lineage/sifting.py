"""``lineage sift``: the smallest set of input rows that still gives an output row which fails a test."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import typer

from lineage.found_rows import FoundRows
from lineage.frame_traces import spark_session
from lineage.options import EXIT_INCOMPLETE, print_json
from lineage.refusing_servers import refuse_server
from lineage.terminal import echo
from lineage_core.environment.module_programs import programs_have_safe_path
from lineage_core.environment.user_functions import load_function
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.sources.row_texts import json_of_row, text_of_row
from lineage_dataframes.trace.replay import RequestedOutput
from lineage_dataframes.trace.requested_recipes import requested_recipe
from lineage_dataframes.trace.sifting import (
    FailingRow,
    RowTest,
    Sifted,
    failing_rows,
    sift_failing,
    sift_requested,
)
from lineage_dataframes.trace.source_rows import places_and_texts
from lineage_query.minimising import stop_after
from lineage_query.row_tests import FAILING_MAX, TestOf, failing_by
from lineage_query.rows.places import parse_location, parse_valued
from lineage_query.rows.reader import RowReader, reading_by
from lineage_store.paths import plain_path
from lineage_store.url import index_folder, open_store


def sift_rows(
    url: str,
    place: str,
    test: str,
    app: str,
    where: str,
    *,
    runs_max: int | None,
    timeout_s: float | None,
    as_json: bool,
) -> None:
    """Sift the witnesses of a row, or of the first row of an output that fails, and print what is left.

    ``test``: ``FILE.py:function``. Ends with `EXIT_INCOMPLETE` where the search was stopped before the set was one-minimal.

    Raises:
        LineageError: no row fails, or it can't be replayed.
    """
    refuse_server(url, "rows are sifted")
    began, stop = time.monotonic(), stop_after(runs_max, timeout_s)
    is_output = parse_valued(place) is None and parse_location(place).number is None and not where
    with importable_beside(test), open_store(url) as store:
        fails: RowTest = test_of(test)
        reader = RowReader(index_folder(url))
        all_rows = where or ("true" if is_output else "")
        requested = requested_recipe(store, reader, [place], app or None, all_rows)
        recipe = requested.recipe
        with spark_session() as spark, reading_by(reader):
            failing: list[FailingRow] = []
            if is_output:
                failing = list(islice(failing_rows(spark, recipe, fails), FAILING_MAX))
                if not failing:
                    raise TraceError(f"no row of {place} fails {test}")
                outputs = [RequestedOutput(places=((row.file, row.ordinal),)) for row in failing]
                values = [row.values for row in failing]
                number, found = sift_failing(
                    spark, recipe, values, outputs, fails, stop, are_stored=True
                )
                failing.insert(0, failing.pop(number))
            else:
                found = sift_requested(spark, recipe, requested.output(spark), fails, stop)
            # Each row once, of however many sources it is.
            shown = {
                row: found.sharing[at]
                for at, row in places_and_texts(spark, recipe, found.rows).items()
            }
    for warning in requested.warnings:
        echo(f"lineage: {warning}", err=True)
    seconds = time.monotonic() - began
    answer = FoundRows(
        found.found,
        list(shown),
        found.witnesses,
        seconds,
        found.pushed_down,
        found.traced,
        list(shown.values()) if found.traced > 1 else (),
    )
    if as_json:
        print_json(_to_json(found, answer, failing))
    else:
        _show(found, answer, failing)
    if not found.found.one_minimal:
        raise typer.Exit(EXIT_INCOMPLETE)


@contextmanager
def importable_beside(test: str) -> Iterator[None]:
    """The modules in the folder of ``FILE.py:function`` can be imported meanwhile, as Python has it for the program that it runs."""
    path = sys.path
    if not programs_have_safe_path():
        folder = Path(test.rpartition(":")[0]).resolve().parent
        sys.path = [str(folder), *path]
    try:
        yield
    finally:
        sys.path = path


def test_of(text: str) -> TestOf[Any]:
    """The test that ``FILE.py:function`` names, as `lineage_query.row_tests.failing_by` has it.

    The function gets a row: of a DataFrame as a dictionary, of an RDD as its text.

    Raises:
        FunctionError: there is no such function.
    """
    function, _ = load_function(text, "--test")
    return failing_by(function, text)


def _to_json(found: Sifted, answer: FoundRows, failing: Sequence[FailingRow]) -> dict[str, Any]:
    return {
        **answer.to_json(),
        "outcome": [json_of_row(list(row), list(row.values())) for row in found.outcome],
        "failing": [f"{plain_path(row.file.path)}#{row.ordinal}" for row in failing],
    }


def _show(found: Sifted, answer: FoundRows, failing: Sequence[FailingRow]) -> None:
    if failing:
        echo(f"{plain_path(failing[0].file.path)}#{failing[0].ordinal} fails", bold=True)
    outcome = (text_of_row(list(row), list(row.values())) for row in found.outcome)
    answer.show("it is made from", outcome)
    show_others_failing(len(failing))


def show_others_failing(count: int) -> None:
    """Say that more rows fail than the one that was sifted; ``count``: of all that were looked for."""
    if count > 1:
        more = f"{count - 1:,}" + (" or more" if count == FAILING_MAX else "")
        echo(f"{more} other rows fail, too: name one to sift it", dim=True)
