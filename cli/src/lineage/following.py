"""``lineage follow``: the rows that streaming queries make of a row, batch by batch, until nothing more can come."""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from lineage.background_process import StartedSpark
from lineage.requested_outputs import refuse_server
from lineage.spools import spool_of
from lineage.terminal import echo
from lineage_core.contract.message import Recipe, Stream
from lineage_core.errors import LineageError
from lineage_core.recipe.document import Recipe as Document
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.trace.following import FollowedRows, RowTracing
from lineage_query.following import Done, Ending, Event, Follow, Gap, Late, Made, Read
from lineage_query.message_feed import Lost, MessageFeed
from lineage_query.rows.places import Location, parse_location
from lineage_query.rows.reader import RowReader
from lineage_store.port import GraphStore
from lineage_store.url import index_folder, open_store

POLL_S = 0.1
ID_CHARS = 8
"""Of a query's id, for people."""
WARM_S = 0.5
WARM_RUNS_MAX = 10
WARM_BYTES_MAX = 1 << 20


def follow_rows(url: str, place: str, wait_s: float, *, as_json: bool) -> bool:
    """Print what becomes of rows until nothing more can come of them, or Ctrl-C. Returns whether all is known.

    Args:
        url: the store.
        place: a row of a file, or a file.
        wait_s: for how long a query is waited for that may read the file, or that is started again.
        as_json: a line for each event.

    Raises:
        LocationError: the place is none.
        TraceError: no such query runs or ran, or Spark does not start.
    """
    refuse_server(url, "rows are followed")
    location = parse_location(place)
    printer = _Printer(place, as_json=as_json)
    with tempfile.TemporaryDirectory() as folder:
        spark = StartedSpark(Path(folder))
        spark.load()
        feed = MessageFeed(spool_of(url), lambda: _opened(url))
        try:
            reader = RowReader(index_folder(url))
            follow = Follow(location.path, RowTracing(spark.session, reader, location))
            _Following(follow, feed, printer, _WarmUp(spark, reader), wait_s).run()
        except KeyboardInterrupt:
            printer.note("stopped; the queries go on")
        finally:
            feed.close()
            spark.stop()
    return printer.is_complete


def _opened(url: str) -> GraphStore | None:
    try:
        return open_store(url)
    except LineageError:
        return None


class _Printer:
    """Prints for people, or a line of JSON for each event. ``is_complete``: no gap was named."""

    def __init__(self, place: str, *, as_json: bool) -> None:
        self._place = place
        self._as_json = as_json
        self.is_complete = True

    def event(self, event: Event[FollowedRows]) -> None:
        """What a query did."""
        self.is_complete &= not isinstance(event, Gap)
        if self._as_json:
            for document in _documents(event):
                echo(json.dumps(document, ensure_ascii=False))
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

    def waiting(self, reasons: dict[str, str]) -> None:
        """Why more may come."""
        if self._as_json:
            return
        for query, reason in reasons.items():
            self.note(f"waiting for query {query[:ID_CHARS]}: {reason}")

    def end(self, open_reasons: dict[str, str]) -> None:
        """The last line."""
        if self._as_json:
            document = {"event": "end", "done": not open_reasons, "open": open_reasons}
            echo(json.dumps(document | {"complete": self.is_complete}, ensure_ascii=False))
            return
        for query, reason in open_reasons.items():
            self.note(
                f"query {query[:ID_CHARS]} does not run, and more may come when it is started again: {reason}"
            )
        if not open_reasons:
            self.note(f"nothing more comes of {self._place}")

    def note(self, text: str) -> None:
        """What is no row."""
        if self._as_json:
            echo(json.dumps({"event": "note", "text": text}, ensure_ascii=False))
        else:
            echo(f"lineage: {text}", err=True)


def _text(event: Event[FollowedRows]) -> str:
    match event:
        case Read(batch):
            return f"lineage: batch {batch.number} of query {batch.query[:ID_CHARS]} has read it"
        case Late(batch, count):
            windows = "1 window was" if count == 1 else f"{count} windows were"
            return f"lineage: late in batch {batch.number} of query {batch.query[:ID_CHARS]}: {windows} given before"
        case Gap(query, reason):
            return f"lineage: query {query[:ID_CHARS]}: {reason}"
        case Done(query, reason):
            return f"lineage: query {query[:ID_CHARS]} is done with it: {reason}"
    raise AssertionError(event)


def _documents(event: Event[FollowedRows]) -> list[dict[str, Any]]:
    """An event in the JSON shape that tools rely on: a row, or a batch, each."""
    kind = type(event).__name__.lower()
    if isinstance(event, Gap | Done):
        return [{"event": kind, **asdict(event)}]
    batch = {"query": event.batch.query, "run": event.batch.run, "batch": event.batch.number}
    if not isinstance(event, Made):
        return [
            {"event": kind, **batch} | ({"count": event.count} if isinstance(event, Late) else {})
        ]
    made = event.rows
    facts = {"exact": not made.reasons, "reasons": list(made.reasons), "committed": event.committed}
    documents = [{"event": "row", **batch, **asdict(row), **facts} for row in made.rows]
    return [*documents, {"event": "made", **batch, "rows": made.count, **facts}]


class _WarmUp:
    """Traces a small file of the latest batch, whichever it is, and forgets the rows, while there is nothing else to do.

    The first traces of a Spark that has just started take some ten times as long as those after them.
    """

    def __init__(self, spark: StartedSpark, reader: RowReader) -> None:
        self._spark = spark
        self._reader = reader
        self._recorded: Recipe | None = None
        self._committed: Recipe | None = None
        self._runs_left = WARM_RUNS_MAX

    def take(self, message: object) -> None:
        """Take the next message of an application: the latest batch that is committed is traced."""
        if isinstance(message, Recipe):
            self._recorded = message
        elif isinstance(message, Stream) and message.state == "batch":
            self._committed = self._recorded

    def run(self) -> None:
        """Trace once more, unless that is quick by now."""
        if self._committed is None or not self._runs_left:
            return
        self._runs_left -= 1
        started = time.monotonic()
        # What can't be traced is of no concern here.
        with suppress(LineageError):
            recipe = Document.from_json(self._committed.recipe)
            files = (file for source in recipe.sources for file in source.files)
            path = next((file.path for file in files if file.size <= WARM_BYTES_MAX), None)
            if recipe.batch is None or path is None:
                self._committed = None
                return
            RowTracing(self._spark.session, self._reader, Location(path, None)).rows(recipe)
            if time.monotonic() - started < WARM_S:
                self._runs_left = 0


class _Following:
    """One ``lineage follow``."""

    def __init__(
        self,
        follow: Follow[FollowedRows],
        feed: MessageFeed,
        printer: _Printer,
        warm_up: _WarmUp,
        wait_s: float,
    ) -> None:
        self._follow = follow
        self._feed = feed
        self._printer = printer
        self._warm_up = warm_up
        self._wait_s = wait_s
        self._named: dict[str, str] = {}

    def run(self) -> None:
        """Until nothing more can come, or no query that may give more has run for a while.

        Raises:
            TraceError: no query may read the file.
        """
        idle_since = time.monotonic()
        while True:
            self._take()
            endings = self._follow.endings().values()
            if endings and all(ending is Ending.DONE for ending in endings):
                break
            now = time.monotonic()
            if Ending.OPEN in endings:
                idle_since = now
            if now - idle_since >= self._wait_s:
                break
            self._name_waiting()
            self._warm_up.run()
            time.sleep(POLL_S)
        if not endings:
            raise TraceError(
                f"no streaming query that may read {self._follow.path} was recorded within {self._wait_s:g} s: "
                "run its program by `lineage run`, or give --wait more"
            )
        self._printer.end(self._follow.open_reasons())

    def _take(self) -> None:
        for item in self._feed.read():
            self._warm_up.take(item)
            events = (
                self._follow.end_application(item.app, item.reason)
                if isinstance(item, Lost)
                else self._follow.take(item)
            )
            for event in events:
                self._printer.event(event)
        while self._feed.notes:
            self._printer.note(self._feed.notes.pop(0))

    def _name_waiting(self) -> None:
        """Why more may come, where that has changed."""
        reasons = self._follow.open_reasons()
        self._printer.waiting(
            {query: reason for query, reason in reasons.items() if self._named.get(query) != reason}
        )
        self._named = reasons
