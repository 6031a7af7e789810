"""``lineage quarantine``: records that a job set aside because a function failed on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import typer

from lineage.options import opened, print_json
from lineage.refusing_servers import refuse_server
from lineage.terminal import echo
from lineage_core.recipe.names import SET_ASIDE_CALL
from lineage_core.tracing.trace_result import Direction
from lineage_query.finding import find_application
from lineage_query.record_tracing import RecordTracer
from lineage_query.rows.reader import RowReader
from lineage_query.set_aside import SetAsideRecord, SetAsideRecords, set_aside_records
from lineage_query.set_aside_calls import FailedCall, set_aside_nodes
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import NoSuchRowError
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
        left = limit - len(found.records)
        # One more: whether there is.
        snapshot = tracer.opened(found.app)
        nodes = set_aside_nodes(snapshot, snapshot.nodes)
        calls = list(islice((call for one in nodes for call in one.calls()), left + 1))
        are_more = any(one.has_more_calls for one in nodes)
    if calls:
        rows = rows_of_calls(url, found.app, calls[:left])
        found = replace(
            found,
            records=found.records + rows,
            is_cut=found.is_cut or len(calls) > left or are_more,
        )
    if as_json:
        print_json(found.to_json())
    else:
        _show(found)


def rows_of_calls(url: str, app: str, calls: Sequence[FailedCall]) -> tuple[SetAsideRecord, ...]:
    """The rows of sources of the records of DataFrames on which calls failed, each of several nodes once.

    Raises:
        LineageError: a source is not what it was, or no Spark is available here.
    """
    records: dict[tuple[Any, ...], SetAsideRecord] = {}
    with opened(url) as access:
        for call in calls:
            query = TraceQuery(
                Direction.BACKWARD, (call.node,), app=app, where=call.condition, limit=ROWS_SHOWN
            )
            try:
                answer = access.ask(query)
            except NoSuchRowError:
                # Another action of the same function met it.
                continue
            address = f"{call.node}#{SET_ASIDE_CALL}={call.number}"
            record = SetAsideRecord(address, call.what, answer.groups, answer.exact, answer.reasons)
            sources = tuple((group.node, group.count, group.items) for group in answer.groups)
            records.setdefault((call.what, sources), record)
    return tuple(records.values())


def _show(found: SetAsideRecords) -> None:
    if not found.operators and not found.repaired:
        echo(f"{found.app} set no records aside")
    for done, operators in (("set aside", found.operators), ("repaired", found.repaired)):
        for what, count in operators:
            records = "1 record" if count == 1 else f"{count:,} records"
            echo(f"{records} {done} by {what}", fg=typer.colors.CYAN)
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
        echo("there may be more: --limit N; of one function the first 1,000 calls are listed")
    if not found.complete:
        echo(
            "the lineage of the job is not complete: records may be missing", fg=typer.colors.YELLOW
        )
