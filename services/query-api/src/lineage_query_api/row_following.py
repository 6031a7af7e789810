"""Rows that callers follow through streaming queries while these run, as server-sent events."""

from __future__ import annotations

import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import nullcontext
from http import HTTPStatus
from importlib.util import find_spec
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, TypeVar

from lineage_core.recipe.document import Recipe
from lineage_core.tracing.budget import current_budget
from lineage_query.followed import Named, parse_followed
from lineage_query.following import Follow
from lineage_query.following_loop import FollowLoop
from lineage_query.message_feed import MessageFeed
from lineage_query_api.errors import ProblemError, SparkStartingError, busy_error
from lineage_query_api.event_streams import MARGIN_S, EventStream
from lineage_query_api.lineages import Lineages
from lineage_store.lake.address import is_lake
from lineage_store.url import is_embedded, spool_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_dataframes.trace.followed_rows import Place
    from lineage_dataframes.trace.following import FollowedRows, RowTracing
    from lineage_dataframes.trace.warm_up import WarmUp

Result = TypeVar("Result")
FOLLOWED_MAX = 8
"""Rows that are followed at once on a server."""


class RowsFollowed:
    """The rows that are followed on a server."""

    def __init__(self) -> None:
        self._places = BoundedSemaphore(FOLLOWED_MAX)

    def follow(
        self, lineages: Lineages, place: str, wait_s: float, request_id: str, where: str = ""
    ) -> AsyncIterator[bytes]:
        """Events of the rows of a place, as they happen.

        Args:
            lineages: those of all applications.
            place: a row of a file, a file, or a record of a topic; with a condition, a source.
            wait_s: for how long a query is waited for that may read it, or that is started again.
            request_id: for a problem.
            where: a condition on the columns of a source, whose rows that fulfil it are followed; empty: none.

        Raises:
            LineageError, ProblemError: rows can't be followed here, such ones are none, or too many are followed.
        """
        named = parse_followed(place, where)
        missing = lineages.recipe_traces.missing()
        if missing or find_spec("lineage_dataframes") is None:
            raise ProblemError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"rows are followed by Spark, which this server has not: {missing or 'lineage_dataframes is missing'}",
                hint="use `lineage follow` where the store and Spark are",
            )
        if not self._places.acquire(blocking=False):
            raise busy_error("rows that are followed")
        following = _Following(lineages, named, wait_s, request_id)
        weakref.finalize(following, self._places.release).atexit = False
        return following.events()


class _Tracing:
    """Computes rows on the server's Spark. Implements `lineage_query.follow_events.Tracing`."""

    def __init__(self, lineages: Lineages, place: Place, until: float) -> None:
        self._lineages = lineages
        self._place = place
        self._until = until

    def rows(self, recipe: Recipe) -> FollowedRows:
        """As `lineage_dataframes.trace.following.RowTracing`."""
        return self._run(lambda tracing: tracing.rows(recipe))

    def ends(self, windows: Recipe, batch: Recipe) -> Sequence[int]:
        """As `lineage_dataframes.trace.following.RowTracing`."""
        return self._run(lambda tracing: tracing.ends(windows, batch))

    def _run(self, compute: Callable[[RowTracing], Result]) -> Result:
        return run_patiently(
            self._lineages, lambda session: compute(self._on(session)), self._until
        )

    def _on(self, session: SparkSession) -> RowTracing:
        from lineage_dataframes.rewrite.functions import NO_CODE
        from lineage_dataframes.trace.following import RowTracing

        reader = self._lineages.recipe_traces.reader
        return RowTracing(lambda: session, reader, self._place, NO_CODE)


def run_patiently(
    lineages: Lineages, work: Callable[[SparkSession], Result], until: float
) -> Result:
    """The result of work on the server's Spark, which may take long to start: no row is missed for that.

    Args:
        lineages: whose Spark it is.
        work: runs on its session.
        until: for how long it may start, by `time.monotonic`.

    Returns:
        What the work gives.

    Raises:
        LineageError: it can't be done, or Spark has not started by then.
    """
    while True:
        try:
            return lineages.recipe_traces.run(work)
        except SparkStartingError:
            if time.monotonic() >= until:
                raise


class _Following(EventStream):
    """One following."""

    def __init__(self, lineages: Lineages, named: Named, wait_s: float, request_id: str) -> None:
        super().__init__(lineages, request_id)
        self._lineages = lineages
        self._named = named
        self._wait_s = wait_s
        url = lineages.settings.store
        spool = spool_of(url) if is_embedded(url) or is_lake(url) else None
        self._feed = MessageFeed(
            spool, lambda: nullcontext(lineages.store), is_shared=not is_embedded(url)
        )
        self._warm_up: WarmUp | None = None
        self._loop: FollowLoop[FollowedRows] | None = None

    @property
    def _is_over(self) -> bool:
        return self._loop is not None and self._loop.is_over

    def _begin(self) -> FollowLoop[FollowedRows]:
        """Look up what is followed, which may need Spark."""
        from lineage_dataframes.trace.followed_rows import target_of
        from lineage_dataframes.trace.warm_up import WarmUp

        lineages = self._lineages
        until = self._until
        target = target_of(self._named, lambda work: run_patiently(lineages, work, until))
        self._warm_up = WarmUp(lambda place: _Tracing(lineages, place, until), target.place)
        follow = Follow(target.followed, _Tracing(lineages, target.place, until))
        return FollowLoop(follow, self._feed, self._wait_s, self._warm_up.take, target.look)

    def _step(self) -> Iterator[dict[str, Any]]:
        from lineage_dataframes.trace.following import documents_of

        self._loop = self._loop or self._begin()
        for event in self._loop.step():
            self._extend_time()
            yield from documents_of(event)
        if not self._loop.is_over and self._warm_up is not None:
            self._warm_up.run()
        self._extend_time()

    def _end(self) -> Iterator[dict[str, Any]]:
        end = {} if self._loop is None else self._loop.end()
        yield end | {"time_up": not self._is_over}

    def _close(self) -> None:
        self._feed.close()

    def _extend_time(self) -> None:
        """A trace by Spark has a limit of its own; the stream goes on."""
        current_budget().extend(max(self._until - time.monotonic(), 0) + MARGIN_S)
