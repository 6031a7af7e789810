"""``lineage back`` and ``forward`` with ``--engine spark``: traces of captured applications in a lake, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lineage.frame_traces import spark_session
from lineage.options import print_json
from lineage.spark_options import SparkTraceOptions
from lineage.terminal import echo
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_dataframes.lakes.answering import (
    VERDICT,
    TableOptions,
    WrittenTrace,
    check_numbered,
    write_trace,
)
from lineage_dataframes.lakes.questions import MOST_PAIRS
from lineage_query.planning import Plan, plan_of
from lineage_query.range_links import RangeFollower
from lineage_query.record_starts import ROWS_MAX, ListedRows, check_listed
from lineage_query.record_tracing import RecordTracer
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.lake.store import LakeStore
from lineage_store.tiers.store import TieredStore
from lineage_store.triples.sources import read_items
from lineage_store.url import index_folder, open_store

if TYPE_CHECKING:
    from lineage_store.port import ErasableStore

NAMED_MAX = 3


def trace_by_spark(
    url: str,
    direction: str,
    places: Sequence[str],
    app: str,
    to: str,
    options: SparkTraceOptions,
    *,
    all_jobs: bool,
    as_json: bool,
) -> None:
    """Trace, write the table, and print the verdict.

    Raises:
        BadParameter: no folder is named.
        StoreError: the application is in no lake.
        LineageError: as `write_trace`.
    """
    if not to:
        raise typer.BadParameter("--engine spark writes a table: name its folder by --to")
    folder = to if "://" in to else str(Path(to).absolute())
    rows = _listed(options.items)
    query = TraceQuery(Direction(direction), tuple(places), app=app or None)
    with _opened(url) as store:
        # What is refused is refused before Spark starts.
        reader = RowReader(index_folder(url))
        plan = Plan(())
        if all_jobs:
            query, plan = _of_one_application(store, reader, query, rows)
        start = RecordTracer(store, reader).start(query, rows)
        lake_of = partial(_lake_of, store, url)
        lake_of(start.opened.app)
        check_numbered(start)
        follower = None
        if all_jobs:
            refusal = partial(_refusal, store, url)
            follower = RangeFollower(store, reader, query.direction, refusal)
            follower.refused.update(dict.fromkeys(plan.not_queried))
        with spark_session(confined=False) as spark:
            written = write_trace(
                spark,
                lake_of,
                start,
                folder,
                TableOptions(
                    query.direction is Direction.BACKWARD,
                    options.together,
                    options.most_rows or MOST_PAIRS,
                    follower,
                ),
            )
    if as_json:
        print_json({"folder": to, **asdict(written)})
    else:
        _show(written, to)


def _listed(items: Path | None) -> list[str]:
    """The rows that a file lists."""
    if items is None:
        return []
    rows = [str(item) for item in read_items(items, ROWS_MAX).to_pylist()]
    check_listed(rows)
    return rows


@contextmanager
def _opened(url: str) -> Iterator[ErasableStore]:
    if url.startswith(("http://", "https://")):
        raise StoreError(
            "--engine spark reads a lake by itself, and no server: name the lake by --store"
        )
    with open_store(url) as store:
        yield store


def _lake_of(store: ErasableStore, url: str, app: str) -> LakeStore:
    """The lake that all of an application is in.

    Raises:
        StoreError: it is in none.
    """
    if isinstance(store, TieredStore):
        place = store.place(app)
        if isinstance(place.tier, LakeStore):
            return place.tier
    elif isinstance(store, LakeStore):
        return store
    raise StoreError(
        f"--engine spark traces applications in a lake, and {app} is in {url}: "
        f"`lineage archive {app}` moves it into one"
    )


def _of_one_application(
    store: ErasableStore, reader: RowReader, query: TraceQuery, rows: Sequence[str]
) -> tuple[TraceQuery, Plan]:
    """The query for the one application that used what it and a list of rows name, and the plan.

    Raises:
        TraceError: several did. Of each the others would be left out.
    """
    listed = ListedRows.of(rows).places
    plan = plan_of(store, reader, replace(query, places=(*query.places, *listed)))
    apps = [part.query.app or "" for part in plan.parts]
    if len(apps) > 1:
        raise TraceError(
            f"{len(apps):,} applications used these rows, {', '.join(apps[:NAMED_MAX])} among them: --engine spark traces them from one, "
            "which --app names"
        )
    return replace(query, app=apps[0] or query.app), plan


def _refusal(store: ErasableStore, url: str, app: str) -> str:
    """Why an application can't be traced by Spark; empty: it can.

    Raises:
        StoreUnavailableError: a store does not answer.
    """
    try:
        _lake_of(store, url, app)
    except StoreUnavailableError:
        raise
    except StoreError as error:
        return str(error)
    return ""


def _show(written: WrittenTrace, to: str) -> None:
    for warning in written.warnings:
        echo(f"lineage: {warning}", err=True)
    way = "from" if written.direction == "backward" else "into"
    others = len(written.applications) - 1
    through = f" through {others:,} other applications" if others else ""
    echo(
        f"{way} {written.items:,} items of {written.application}{through}: {written.rows:,} rows, written to {to}"
    )
    exact = "exact" if written.exact else "not exact: a superset, or something is missing"
    complete = "complete" if written.complete else "incomplete"
    echo(f"{exact}; the lineage is {complete} ({VERDICT} beside the table says the same)")
    for reason in written.reasons:
        echo(f"  {reason}")
