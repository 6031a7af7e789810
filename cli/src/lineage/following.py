"""``lineage follow``: the rows that streaming queries make of a row, batch by batch, until nothing more can come."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import typer

from lineage.background_process import StartedSpark
from lineage.refusing_servers import refuse_server
from lineage.terminal import echo
from lineage_core.contract.stream_progress import ID_CHARS
from lineage_core.errors import LineageError
from lineage_dataframes.trace.followed_rows import target_of
from lineage_dataframes.trace.following import FollowedRows, RowTracing, documents_of
from lineage_dataframes.trace.warm_up import WarmUp
from lineage_query.follow_events import Done, Event, Gap, Late, Made, Read, late_text
from lineage_query.followed import parse_followed
from lineage_query.following import Follow
from lineage_query.following_loop import POLL_S, FollowLoop, Note, Waiting
from lineage_query.message_feed import MessageFeed
from lineage_query.rows.reader import RowReader
from lineage_store.lake.address import is_lake
from lineage_store.port import GraphStore
from lineage_store.url import index_folder, is_embedded, open_store, spool_of


def follow_rows(url: str, place: str, wait_s: float, *, where: str = "", as_json: bool) -> bool:
    """Print what becomes of rows until nothing more can come of them, or Ctrl-C. Returns whether all is known.

    Args:
        url: the store.
        place: a row of a file, a file, or a record of a topic; with a condition, a source.
        where: a condition on the columns of a source, whose rows that fulfil it are followed; empty: none.
        wait_s: for how long a query is waited for that may read it, or that is started again.
        as_json: a line for each event.

    Raises:
        LocationError: the place is none.
        ConditionError: the condition is not understood.
        LineageError: there is no such topic.
        TraceError: no such query runs or ran, or Spark does not start.
    """
    refuse_server(url, "rows are followed")
    named, loop = parse_followed(place, where), None
    printer, reader = _Printer(place, as_json=as_json), RowReader(index_folder(url))
    with tempfile.TemporaryDirectory() as folder:
        spark = StartedSpark(Path(folder))
        spark.load()
        spool = spool_of(url) if is_embedded(url) or is_lake(url) else None
        feed = MessageFeed(spool, lambda: _opened(url), is_shared=not is_embedded(url))
        try:
            target = target_of(named, lambda work: work(spark.session()))
            warm_up = WarmUp(
                lambda place: RowTracing(spark.session, reader, place), target.place, Path(folder)
            )
            follow = Follow(target.followed, RowTracing(spark.session, reader, target.place))
            loop = FollowLoop(follow, feed, wait_s, warm_up.take, target.look)
            _run(loop, printer, warm_up)
        except KeyboardInterrupt:
            printer.note("stopped; the queries go on")
        finally:
            feed.close()
            # What still warms it up then has no Spark any more, which is no news.
            logging.getLogger("py4j").setLevel(logging.CRITICAL)
            spark.stop()
    return loop is not None and loop.is_complete


def _opened(url: str) -> GraphStore | None:
    try:
        return open_store(url)
    except LineageError:
        return None


def _run(loop: FollowLoop[FollowedRows], printer: _Printer, warm_up: WarmUp) -> None:
    warming = Thread()
    while True:
        for event in loop.step():
            if isinstance(event, Waiting):
                printer.waiting(event)
            elif isinstance(event, Note):
                printer.note(event.text)
            else:
                printer.event(event)
        if loop.is_over:
            break
        if warm_up.is_due and not warming.is_alive():
            # It takes many seconds at first, for which no row is to wait.
            warming = Thread(target=_warm, args=(warm_up,), name="lineage-warm-up", daemon=True)
            warming.start()
        time.sleep(POLL_S)
    printer.end(loop)


def _warm(warm_up: WarmUp) -> None:
    # Its Spark may be stopped meanwhile.
    with suppress(Exception):
        warm_up.run()


class _Printer:
    """Prints for people, or a line of JSON for each event."""

    def __init__(self, place: str, *, as_json: bool) -> None:
        self._place = place
        self._as_json = as_json

    def event(self, event: Event[FollowedRows]) -> None:
        """What a query did."""
        if self._as_json:
            for document in documents_of(event):
                _echo_json(document)
        elif isinstance(event, Made):
            self._rows(event)
        else:
            style: dict[str, Any] = {"fg": typer.colors.YELLOW} if isinstance(event, Gap) else {}
            echo(_text(event), err=True, nl=True, **style)

    def _rows(self, event: Made[FollowedRows]) -> None:
        made = event.rows
        for row in made.rows:
            echo(f"{row.place or 'a row'}: {row.text}" if row.text else f"{row.place}")
        if made.count > len(made.rows):
            echo(f"... and {made.count - len(made.rows):,} more rows")
        if made.rows and not event.committed:
            echo(
                "lineage: their batch was not committed: it is run again when its query is",
                err=True,
            )
        for reason in made.reasons:
            echo(f"lineage: not exact: {reason}", err=True, fg=typer.colors.YELLOW)

    def waiting(self, event: Waiting) -> None:
        """Why more may come."""
        if not self._as_json:
            self.note(f"waiting for query {event.query[:ID_CHARS]}: {event.reason}")

    def end(self, loop: FollowLoop[FollowedRows]) -> None:
        """The last line."""
        if self._as_json:
            _echo_json(loop.end())
            return
        open_reasons = loop.open_reasons()
        for query, reason in open_reasons.items():
            self.note(
                f"query {query[:ID_CHARS]} does not run, and more may come when it is started again: {reason}"
            )
        if not open_reasons:
            self.note(f"nothing more comes of {self._place}")

    def note(self, text: str) -> None:
        """What is no row."""
        if self._as_json:
            for document in documents_of(Note(text)):
                _echo_json(document)
        else:
            echo(f"lineage: {text}", err=True)


def _echo_json(document: dict[str, Any]) -> None:
    echo(json.dumps(document, ensure_ascii=False))


def _text(event: Event[FollowedRows]) -> str:
    match event:
        case Read(batch):
            return f"lineage: batch {batch.number} of query {batch.query[:ID_CHARS]} has read it"
        case Late():
            return f"lineage: {late_text(event)}"
        case Gap(query, reason):
            return f"lineage: query {query[:ID_CHARS]}: {reason}"
        case Done(query, reason):
            return f"lineage: query {query[:ID_CHARS]} is done with it: {reason}"
    raise AssertionError(event)
