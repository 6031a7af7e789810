"""``lineage quarantine``: records that a job set aside because a function failed on them."""

from __future__ import annotations

import typer

from lineage.options import print_json
from lineage.refusing_servers import refuse_server
from lineage.terminal import echo
from lineage_query.finding import find_application
from lineage_query.record_tracing import RecordTracer
from lineage_query.rows.reader import RowReader
from lineage_query.set_aside import SetAsideRecords, set_aside_records
from lineage_store.url import index_folder, open_store

ROWS_SHOWN = 10
"""Rows of each source, of one record."""


def list_set_aside(url: str, app: str, limit: int, *, as_json: bool) -> None:
    """Print the first records that an application set aside, with the rows that they were made from.

    Raises:
        LineageError: there is no such application, or its lineage can't be read.
    """
    refuse_server(url, "records that were set aside are listed")
    with open_store(url) as store:
        tracer = RecordTracer(store, RowReader(index_folder(url)))
        found = set_aside_records(tracer, find_application(store, app), limit, ROWS_SHOWN)
    if as_json:
        print_json(found.to_json())
    else:
        _show(found)


def _show(found: SetAsideRecords) -> None:
    if not found.operators:
        echo(f"{found.app} set no records aside")
    for what, count in found.operators:
        records = "1 record" if count == 1 else f"{count:,} records"
        echo(f"{records} set aside by {what}", fg=typer.colors.CYAN)
    for record in found.records:
        echo("")
        echo(f"{record.address}: {record.what}", bold=True)
        for group in record.sources:
            shown = group.shown(group.heading(), ROWS_SHOWN)
            for place, text in shown.rows:
                echo(f"  {place}" if text is None else f"  {place}: {text}")
            if shown.hidden:
                echo(f"  ... and {shown.hidden:,} more")
        if not record.exact:
            echo(f"  not exact: {'; '.join(record.reasons)}", fg=typer.colors.YELLOW)
    if found.is_cut:
        echo("")
        echo("there may be more: --limit N")
    if not found.complete:
        echo(
            "the lineage of the job is not complete: records may be missing", fg=typer.colors.YELLOW
        )
