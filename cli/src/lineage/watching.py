"""``lineage watch``: records of a running job that fulfil a condition, break one or are slow, and the rows that they were made from."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from lineage.refusing_servers import refuse_server
from lineage.terminal import echo
from lineage.watch_printing import Printer
from lineage_core.errors import LineageError
from lineage_query.record_tracing import RecordTracer
from lineage_query.rows.reader import RowReader
from lineage_query.watching.loop import POLL_S, Find, WatchLoop
from lineage_query.watching.requests import find_job
from lineage_query.watching.sources import find_sources
from lineage_store.url import index_folder, open_store, spool_of
from lineage_store.watch_folder import WatchRequest, watchable_nodes


def watch_records(url: str, request: WatchRequest, app: str, *, as_json: bool) -> bool:
    """Print records as they pass, until the job ends, as many as the limit were printed and their sources are known, or Ctrl-C.

    Returns:
        Of a condition that all must fulfil: whether some were tested, none broke it, and no task said that it can't see or report some.
        Else True.

    Raises:
        TraceError: no such job runs, or it can't be watched, or has no such operator.
        OSError: the job's folder can't be written.
    """
    refuse_server(url, "records are watched")
    job = find_job(spool_of(url), app)
    printer = Printer(as_json=as_json)
    loop = WatchLoop(job, request, lambda: _sources(url, job.app))
    if loop.is_waited_for:
        echo(
            f"lineage: {job.app} has no operator {request.node} yet: it is watched when it is made",
            err=True,
        )
    try:
        _run(loop, printer)
    finally:
        loop.close()
    loop.check_operator()
    if request.must:
        printer.violations(loop)
    if request.latency:
        printer.times(loop)
    return not request.must or loop.is_kept


def list_operators(url: str, app: str, *, as_json: bool) -> None:
    """Print the operators of a running job that can be watched, those that the program has made so far.

    Raises:
        TraceError: no such job runs, or it can't be watched.
        OSError: the job's folder can't be read.
    """
    refuse_server(url, "records are watched")
    job = find_job(spool_of(url), app)
    for facts in watchable_nodes(job.folder):
        echo(json.dumps(asdict(facts), ensure_ascii=False) if as_json else facts.label)


def _run(loop: WatchLoop, printer: Printer) -> None:
    try:
        while True:
            for event in loop.step():
                printer.event(event)
            if loop.is_over:
                return
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        printer.event("stopped; the job goes on")
        for event in loop.rest():
            printer.event(event)


@contextmanager
def _sources(url: str, app: str) -> Iterator[Find]:
    """What finds sources in the store as it is now."""
    try:
        store = open_store(url)
    except LineageError:
        yield lambda _: None
        return
    with store:
        tracer = RecordTracer(store, RowReader(index_folder(url)))
        yield lambda candidates: find_sources(tracer, app, candidates)
