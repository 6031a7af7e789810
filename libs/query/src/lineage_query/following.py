"""Following rows of a file, or a record of a topic, through streaming queries: what their batches made of it, and when nothing more can come.

What is known comes as messages, in the order in which an application sent them: what a query reads, the recipe of a batch, that the
batch is committed, the end. No message is waited for here, nothing is read, and no clock is looked at.

Nothing more can come of a query that keeps nothing once each of its streams that may read it has done so, and the batch is committed; of
windows of time once the watermark has passed the last window of the rows. Where that is not known, it is not before the query ends. Of rows
that fulfil a condition more may come as long as a query runs: each batch that reads their source is traced, and nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic

from lineage_core.contract.message import End, Message, Recipe, Stream
from lineage_core.errors import LineageError
from lineage_core.recipe.document import Recipe as Document
from lineage_query.follow_events import (
    Done,
    Ending,
    Event,
    Gap,
    Late,
    Made,
    Read,
    Rows,
    Tracing,
)
from lineage_query.followed import Followed, Reading, batch_of
from lineage_query.followed_query import FollowedQuery

PENDING_MAX = 64
"""Recipes that wait for the commit of their batch; a batch has one, or as many as its function has actions."""


class Follow(Generic[Rows]):
    """Rows that are followed.

    Args:
        followed: which they are.
        tracing: computes what is made of them.
    """

    def __init__(self, followed: Followed, tracing: Tracing[Rows]) -> None:
        self.followed = followed
        self._tracing = tracing
        self._queries: dict[str, FollowedQuery] = {}

    # -- what is known ---------------------------------------------------------------------

    def endings(self) -> dict[str, Ending]:
        """How far each query is that has read what is followed, or may."""
        return {query.id: query.ending for query in self._concerned()}

    def open_reasons(self) -> dict[str, str]:
        """By query of which more may come: why."""
        return {
            query.id: query.open_reason()
            for query in self._concerned()
            if query.ending is not Ending.DONE
        }

    def _concerned(self) -> Iterator[FollowedQuery]:
        return (query for query in self._queries.values() if query.is_concerned)

    def _query(self, name: str) -> FollowedQuery:
        return self._queries.setdefault(name, FollowedQuery(name, self.followed))

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
        query = self._query(message.query)
        if message.run != query.run:
            yield from self._begin(query, message)
        if query.ending is Ending.OVER and message.state not in {"over", "lost"}:
            # It was taken for lost.
            query.ending, query.end_reason = Ending.OPEN, ""
        query.windows = message.windows or query.windows
        if message.state == "begun":
            query.take_facts(message)
            is_unread = query.read_in is None
            may_read = is_unread or query.keeps == "nothing"
            if query.ending is Ending.DONE and (
                query.reads_beside or (may_read and not query.done_reason())
            ):
                # Another program than before.
                query.ending = Ending.OPEN
            if is_unread:
                yield from self._check_done(query)
        elif message.state == "batch":
            yield from self._commit(query, message)
        elif message.state in {"over", "lost"}:
            yield from self._end(query, message.number, message.reason or "the query ended")

    def _begin(
        self, query: FollowedQuery, message: Stream | Recipe, run: str = ""
    ) -> Iterator[Event[Rows]]:
        """Another run of a query: the one before is over, though nothing said so."""
        if query.run:
            yield from self._end(query, query.last, "its application ended")
        query.run = message.run if isinstance(message, Stream) else run
        query.app, query.windows, query.facts = message.app, None, None

    def _recipe(self, message: Recipe) -> Iterator[Event[Rows]]:
        found = batch_of(message.recipe, self.followed)
        if found is None:
            return
        batch, reading = found
        query = self._query(batch.query)
        if batch.run != query.run:
            yield from self._begin(query, message, batch.run)
        if query.ending is Ending.OVER:
            query.ending, query.end_reason = Ending.OPEN, ""
        query.recorded.add(batch.number)
        if reading is Reading.PASSED and query.passed is None and not query.seen:
            query.passed = batch.number
        if reading is Reading.UNSURE:
            yield from self._gap(
                query,
                f"batch {batch.number} has read this place, when another topic had the name or the query began with another",
            )
        if reading is not Reading.READ:
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

    def _commit(self, query: FollowedQuery, message: Stream) -> Iterator[Event[Rows]]:
        absent = query.commit(message.number)
        is_state_read = query.read_in is not None and query.keeps != "nothing"
        if absent and (is_state_read or self.followed.goes_on):
            yield from self._gap(
                query, f"batch {absent[0]} is not recorded: rows of it may be missing"
            )
        # That of the first batch is 0, by which what is older is late.
        before = query.watermark if message.number else 0
        query.watermark = message.watermark
        for recipe in query.due(message.number):
            yield from self._made(query, recipe, before)
        if before != message.watermark:
            query.still_since = None
        elif query.still_since is None:
            query.still_since = message.number
        if query.is_passed:
            yield from self._gap(
                query,
                f"batch {query.passed} reads what comes behind it: the query began behind it, or a batch that is not recorded has read it and rows of it are missing",
            )
        yield from self._check_done(query)

    def _made(
        self, query: FollowedQuery, recipe: Document, before: int | None
    ) -> Iterator[Event[Rows]]:
        assert recipe.batch is not None
        is_windowed = query.keeps == "windows"
        if recipe.batch.number <= query.told and not query.has_function:
            # It was run again: the sink has left alone what it had.
            return
        if self.followed.goes_on:
            # Which batches have read such rows, their rows tell.
            query.read_in = query.read_in or recipe.batch
            yield from self._rows(query, recipe, committed=True)
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
        self, query: FollowedQuery, recipe: Document, before: int | None
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
        # An earlier batch, which does not name them, may have read them: by an earlier watermark fewer are late.
        unknown = query.unknown_late(before)
        by = query.watermark if unknown else before
        late = sum(by is None or end <= by * 1000 for end in query.ends)
        if late and unknown:
            yield from self._gap(query, f"its rows may be too late for a window: {unknown}")
        elif late:
            number = recipe.batch.number
            first = number if query.still_since is None else min(query.still_since, number)
            yield Late(recipe.batch, late, first)

    def _rows(
        self, query: FollowedQuery, recipe: Document, *, committed: bool
    ) -> Iterator[Event[Rows]]:
        assert recipe.batch is not None
        try:
            rows = self._tracing.rows(recipe)
        except LineageError as problem:
            yield from self._gap(query, f"batch {recipe.batch.number} can't be traced: {problem}")
            return
        query.told = max(query.told, recipe.batch.number)
        yield Made(recipe.batch, rows, committed)

    def _gap(self, query: FollowedQuery, reason: str) -> Iterator[Event[Rows]]:
        """Each reason once, and not too many."""
        if reason not in query.reasons and len(query.reasons) < PENDING_MAX:
            query.reasons.add(reason)
            yield Gap(query.id, reason)

    # -- the end ----------------------------------------------------------------------------

    def _check_done(self, query: FollowedQuery) -> Iterator[Event[Rows]]:
        reason = query.done_reason()
        if reason and query.ending is Ending.OPEN:
            query.ending = Ending.DONE
            yield Done(query.id, reason)

    def _end(self, query: FollowedQuery, number: int, reason: str) -> Iterator[Event[Rows]]:
        """A run is over. ``number``: the last batch that is committed."""
        for _, recipe in query.pending:
            assert recipe.batch is not None
            if recipe.batch.number <= query.told and not query.has_function:
                continue
            # Others are recorded when they are committed.
            is_committed = recipe.batch.number <= number or not query.has_function
            if is_committed:
                if not self.followed.goes_on:
                    yield Read(recipe.batch)
                query.read_in = query.read_in or recipe.batch
            yield from self._rows(query, recipe, committed=is_committed)
        query.pending.clear()
        query.recorded.clear()
        yield from self._check_done(query)
        if query.ending is Ending.OPEN:
            query.ending = Ending.OVER
            query.end_reason = reason
