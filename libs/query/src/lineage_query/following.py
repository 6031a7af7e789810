"""Following rows of a file through streaming queries: what their batches made of them, and when nothing more can come.

What is known comes as messages, in the order in which an application sent them: what a query reads, the recipe of a batch, that the
batch is committed, the end. No message is waited for here, nothing is read, and no clock is looked at.

Nothing more can come of a query that keeps nothing once each of its streams that may hold the file has read it, and the batch is committed; of
windows of time once the watermark has passed the last window of the rows. Where that is not known, it is not before the query ends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

from lineage_core.contract.message import End, Message, Recipe, Stream
from lineage_core.errors import LineageError
from lineage_core.recipe.document import Recipe as Document
from lineage_core.recipe.document import StreamBatch
from lineage_store.paths import RowsError, canonical

PENDING_MAX = 64
"""Recipes that wait for the commit of their batch; a batch has one, or as many as its function has actions."""
MISSING_MAX = 10
GLOB = frozenset("*?[{\\")
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
Rows_co = TypeVar("Rows_co", covariant=True)
Rows = TypeVar("Rows")


class Tracing(Protocol[Rows_co]):
    """Computes what a batch made of the followed rows."""

    def rows(self, recipe: Document) -> Rows_co:
        """The rows that a batch made of them.

        Raises:
            LineageError: that can't be traced.
        """

    def ends(self, windows: Document, batch: Document) -> Sequence[int]:
        """The ends of the windows of the followed rows, in microseconds since 1970.

        ``windows``: the recipe for it. ``batch``: of the batch that has read the file.

        Raises:
            LineageError: that is not known.
        """


class Ending(Enum):
    """How far a query is."""

    OPEN = "open"
    DONE = "done"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Read:
    """A batch is committed that has read the file."""

    batch: StreamBatch


@dataclass(frozen=True, slots=True)
class Made(Generic[Rows]):
    """The rows that a batch made of the followed ones. ``committed``: the batch is; else it is run again when the query is."""

    batch: StreamBatch
    rows: Rows
    committed: bool


@dataclass(frozen=True, slots=True)
class Late:
    """Rows were dropped as late: windows that end by the watermark of the batch before theirs. ``count``: of such windows."""

    batch: StreamBatch
    count: int


@dataclass(frozen=True, slots=True)
class Gap:
    """What is not known of a query."""

    query: str
    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more can come of a query. ``reason``: why."""

    query: str
    reason: str


Event = Read | Made[Rows] | Late | Gap | Done


@dataclass
class _Query:
    """``seen``: the first batches that have read the file. ``ends``: of the rows' windows; None: not known."""

    id: str
    facts: Stream | None = None
    run: str = ""
    app: str = ""
    ending: Ending = Ending.OPEN
    end_reason: str = ""
    first: int | None = None
    last: int = -1
    missing: list[int] = field(default_factory=list)
    recorded: set[int] = field(default_factory=set)
    """Batches behind the last that are recorded and not committed."""
    pending: list[tuple[str, Document]] = field(default_factory=list)
    """Recipes of batches that have read the file, with the runs that made them."""
    seen: set[int] = field(default_factory=set)
    told: int = -1
    """The last batch whose rows were traced."""
    read_in: StreamBatch | None = None
    windows: str | None = None
    ends: tuple[int, ...] | None = None
    watermark: int | None = None
    reasons: set[str] = field(default_factory=set)


class Follow(Generic[Rows]):
    """One file's rows that are followed.

    Args:
        path: of the file.
        tracing: computes rows.
    """

    def __init__(self, path: str, tracing: Tracing[Rows]) -> None:
        self.path = canonical(path)
        self._spellings = (self.path, os.path.abspath(os.path.expanduser(path)))
        """The file may be a link into another folder than that of the stream."""
        self._tracing = tracing
        self._queries: dict[str, _Query] = {}

    # -- what is known ---------------------------------------------------------------------

    def endings(self) -> dict[str, Ending]:
        """How far each query is that has read the file, or may read it."""
        return {query.id: query.ending for query in self._concerned()}

    def open_reasons(self) -> dict[str, str]:
        """By query of which more may come: why."""
        return {
            query.id: self._open_reason(query)
            for query in self._concerned()
            if query.ending is not Ending.DONE
        }

    def _concerned(self) -> Iterator[_Query]:
        for query in self._queries.values():
            if query.facts is None or query.seen or self._may_read(query):
                yield query

    def _may_read(self, query: _Query) -> bool:
        return bool(self._streams_of(query)) or self._reads_beside(query)

    def _streams_of(self, query: _Query) -> int:
        """How many streams of a query may hold the file."""
        reads = () if query.facts is None else query.facts.reads
        return sum(bool(folder) and self._may_hold(folder) for folder in reads)

    def _reads_beside(self, query: _Query) -> bool:
        """Whether each batch may read the file, too, beside its streams."""
        beside = () if query.facts is None else query.facts.beside
        return any(not folder or self._may_hold(folder) for folder in beside)

    def _may_hold(self, folder: str) -> bool:
        return any(may_hold(folder, path) for path in self._spellings)

    # -- messages ---------------------------------------------------------------------------

    def take(self, message: Message) -> Iterator[Event[Rows]]:
        """Take the next message of an application."""
        if isinstance(message, Stream):
            yield from self._stream(message)
        elif isinstance(message, Recipe):
            yield from self._recipe(message)
        elif isinstance(message, End):
            yield from self.end_application(message.app, "its application ended")

    def end_application(self, app: str, reason: str) -> Iterator[Event[Rows]]:
        """An application ended, or is taken for lost: what it ran is over."""
        for query in [query for query in self._queries.values() if query.app == app]:
            yield from self._end(query, query.last, reason)

    def _stream(self, message: Stream) -> Iterator[Event[Rows]]:
        query = self._queries.setdefault(message.query, _Query(message.query))
        if message.run != query.run:
            yield from self._begin(query, message)
        if query.ending is Ending.OVER and message.state not in {"over", "lost"}:
            # It was taken for lost.
            query.ending, query.end_reason = Ending.OPEN, ""
        query.windows = message.windows or query.windows
        if message.state == "begun":
            query.facts = message
            if query.ending is Ending.DONE and self._reads_beside(query):
                # Another program than before.
                query.ending = Ending.OPEN
        elif message.state == "batch":
            yield from self._commit(query, message)
        elif message.state in {"over", "lost"}:
            yield from self._end(query, message.number, message.reason or "the query ended")

    def _begin(
        self, query: _Query, message: Stream | Recipe, run: str = ""
    ) -> Iterator[Event[Rows]]:
        """Another run of a query: the one before is over, though nothing said so."""
        if query.run:
            yield from self._end(query, query.last, "its application ended")
        query.run = message.run if isinstance(message, Stream) else run
        query.app, query.windows, query.facts = message.app, None, None

    def _recipe(self, message: Recipe) -> Iterator[Event[Rows]]:
        found = batch_of(message.recipe, self.path)
        if found is None:
            return
        batch, has_read = found
        query = self._queries.setdefault(batch.query, _Query(batch.query))
        if batch.run != query.run:
            yield from self._begin(query, message, batch.run)
        if query.ending is Ending.OVER:
            query.ending, query.end_reason = Ending.OPEN, ""
        query.recorded.add(batch.number)
        if not has_read:
            return
        try:
            recipe = Document.from_json(message.recipe)
        except LineageError as problem:
            yield from self._gap(query, f"batch {batch.number}: {problem}")
            return
        if len(query.seen) < PENDING_MAX:
            query.seen.add(batch.number)
        if len(query.pending) >= PENDING_MAX:
            yield from self._gap(query, f"batch {batch.number} has more than {PENDING_MAX} recipes")
            return
        query.pending.append((batch.run, recipe))

    # -- batches ----------------------------------------------------------------------------

    def _commit(self, query: _Query, message: Stream) -> Iterator[Event[Rows]]:
        number = message.number
        if query.first is None:
            query.first = number
        skipped = range(query.last + 1, number) if query.last >= 0 else ()
        absent = [
            *skipped,
            *(() if number in query.recorded or self._has_function(query) else (number,)),
        ]
        query.missing += absent[: MISSING_MAX - len(query.missing)]
        if absent and query.read_in is not None and self._keeps(query) != "nothing":
            yield from self._gap(
                query, f"batch {absent[0]} is not recorded: rows of it may be missing"
            )
        query.recorded = {later for later in query.recorded if later > number}
        before, query.watermark = query.watermark, message.watermark
        query.last = max(query.last, number)
        due = [
            recipe for _, recipe in query.pending if recipe.batch and recipe.batch.number <= number
        ]
        query.pending = [
            entry for entry in query.pending if entry[1].batch and entry[1].batch.number > number
        ]
        for recipe in due:
            yield from self._made(query, recipe, before)
        yield from self._check_done(query)

    def _made(self, query: _Query, recipe: Document, before: int | None) -> Iterator[Event[Rows]]:
        assert recipe.batch is not None
        is_windowed = self._keeps(query) == "windows"
        if recipe.batch.number <= query.told and not self._has_function(query):
            # It was run again: the sink has left alone what it had.
            return
        if query.read_in is None or not is_windowed:
            query.read_in = query.read_in or recipe.batch
            yield Read(recipe.batch)
            if is_windowed:
                yield from self._look_at_windows(query, recipe, before)
        if is_windowed and query.ends is not None and None not in {before, query.watermark}:
            assert before is not None
            assert query.watermark is not None
            if not any(before * 1000 < end <= query.watermark * 1000 for end in query.ends):
                return
        yield from self._rows(query, recipe, committed=True)

    def _look_at_windows(
        self, query: _Query, recipe: Document, before: int | None
    ) -> Iterator[Event[Rows]]:
        assert recipe.batch is not None
        if not query.windows:
            return
        try:
            query.ends = tuple(
                sorted(self._tracing.ends(Document.from_json(query.windows), recipe))
            )
        except LineageError as problem:
            yield from self._gap(query, f"the windows of its rows are not known: {problem}")
            return
        counts = query.facts is not None and query.facts.late_by_before and before is not None
        late = sum(end <= (before or 0) * 1000 for end in query.ends) if counts else 0
        if late:
            yield Late(recipe.batch, late)

    def _rows(self, query: _Query, recipe: Document, *, committed: bool) -> Iterator[Event[Rows]]:
        assert recipe.batch is not None
        try:
            rows = self._tracing.rows(recipe)
        except LineageError as problem:
            yield from self._gap(query, f"batch {recipe.batch.number} can't be traced: {problem}")
            return
        query.told = max(query.told, recipe.batch.number)
        yield Made(recipe.batch, rows, committed)

    @staticmethod
    def _has_function(query: _Query) -> bool:
        return query.facts is not None and query.facts.function

    def _keeps(self, query: _Query) -> str:
        return "more" if query.facts is None else query.facts.keeps

    def _gap(self, query: _Query, reason: str) -> Iterator[Event[Rows]]:
        """Each reason once, and not too many."""
        if reason not in query.reasons and len(query.reasons) < PENDING_MAX:
            query.reasons.add(reason)
            yield Gap(query.id, reason)

    # -- the end ----------------------------------------------------------------------------

    def _check_done(self, query: _Query) -> Iterator[Event[Rows]]:
        reason = self._done_reason(query)
        if reason and query.ending is Ending.OPEN:
            query.ending = Ending.DONE
            yield Done(query.id, reason)

    def _done_reason(self, query: _Query) -> str:
        """Why nothing more can come of a query; empty: something can."""
        if query.facts is None or query.read_in is None or self._reads_beside(query):
            return ""
        read = f"batch {query.read_in.number} has read it and is committed"
        # A plan may read a stream several times, so one batch counts once: two streams may have read it in two.
        count = len(query.seen) if query.facts.keeps == "nothing" else 1
        if count < self._streams_of(query):
            return ""
        if query.facts.keeps == "nothing":
            return read
        if query.facts.keeps != "windows" or query.ends is None or query.watermark is None:
            return ""
        if query.read_in.run != query.run:
            return ""
        if not query.ends:
            return f"{read}, and none of its rows is in a window"
        if query.ends[-1] > query.watermark * 1000:
            return ""
        return f"{read}, and the watermark has passed the last window of its rows"

    def _end(self, query: _Query, number: int, reason: str) -> Iterator[Event[Rows]]:
        """A run is over. ``number``: the last batch that is committed."""
        for _, recipe in query.pending:
            assert recipe.batch is not None
            if recipe.batch.number <= query.told and not self._has_function(query):
                continue
            # Others are recorded when they are committed.
            is_committed = recipe.batch.number <= number or not self._has_function(query)
            if is_committed:
                yield Read(recipe.batch)
                query.read_in = query.read_in or recipe.batch
            yield from self._rows(query, recipe, committed=is_committed)
        query.pending.clear()
        query.recorded.clear()
        yield from self._check_done(query)
        if query.ending is Ending.OPEN:
            query.ending = Ending.OVER
            query.end_reason = reason

    def _open_reason(self, query: _Query) -> str:
        if query.facts is None:
            return (
                f"what it reads is not known{f': {query.end_reason}' if query.end_reason else ''}"
            )
        if query.read_in is None:
            # The plan of a batch in which no window is due reads nothing.
            reason = "no recorded batch that gave rows has read it"
            if query.first:
                reason += f"; batches before {query.first} are not recorded"
            if query.missing:
                reason += f"; nor batches {', '.join(map(str, query.missing))}"
            if query.facts.function:
                reason += "; of batches whose function recorded nothing it is not known"
        elif self._reads_beside(query):
            reason = "each batch may read it beside its streams"
        elif query.facts.keeps == "windows":
            reason = "a window of its rows may be given later"
            if query.ends is None:
                reason += ", and when is not known"
        elif query.facts.keeps == "more":
            reason = "what it keeps of its rows is not known"
        else:
            reason = "another stream of the query may read it, too"
        return f"{reason} ({query.end_reason})" if query.end_reason else reason


def may_hold(folder: str, path: str) -> bool:
    """Whether a stream of files of a folder, which may be a pattern, may hold a file (canonical). Too often rather than too rarely."""
    cut = next((at for at, letter in enumerate(folder) if letter in GLOB), len(folder))
    is_pattern = cut < len(folder)
    plain = folder[:cut].rpartition("/")[0] if is_pattern else folder
    try:
        root = canonical(plain or "/").rstrip("/")
    except RowsError:
        return True
    return path == root or path.startswith(f"{root}/")


def batch_of(text: str, path: str) -> tuple[StreamBatch, bool] | None:
    """The batch that a recipe is of, and whether it has read a file (canonical); None: it is of none, or can't be read."""
    if '"batch":{' not in text:
        return None
    try:
        document = json.loads(text)
        batch = document.get("batch")
        found = StreamBatch(str(batch["query"]), str(batch["run"]), int(batch["number"]))
    except _UNREADABLE:
        return None
    return found, _reads_file(document, path)


def _reads_file(document: dict[str, Any], path: str) -> bool:
    try:
        return any(
            _canonical(str(file["path"])) == path
            for source in document.get("sources", ())
            for file in source.get("files", ())
        )
    except _UNREADABLE:
        return False


@lru_cache(maxsize=4_096)
def _canonical(path: str) -> str:
    try:
        return canonical(path)
    except RowsError:
        return path
