"""Waiting for reports of streaming queries, so that a batch is recorded as soon as it is committed."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from lineage_emitter.dataframes.plan_text import compiled
from lineage_emitter.failures import in_words

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)
LISTENER_CLASS = "lineage.StreamListener"
LOOK_EVERY_S = 0.5
"""How often reports are looked at where there are none: tables beside a stream have no others. Spark keeps those of the last 100 batches."""
REST_S = 0.1
"""Time between two looks, however many reports there are: a look takes some milliseconds of the driver."""


class AwaitedReports:
    """Wakes whoever records batches. Thread-safe."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._listener: Any = None
        self._managers: list[Any] = []
        self._seen = 0
        self._woken_at = float("-inf")

    def listen(self, query: StreamingQuery) -> None:
        """Be woken by the queries of a query's session; where that can't be, they are looked at every now and then."""
        try:
            if self._listener is None:
                self._listener = compiled(LISTENER_CLASS)
            java_query: Any = query._jsq
            manager = java_query.sparkSession().streams()
            if not any(known.equals(manager) for known in self._managers):
                manager.addListener(self._listener)
                self._managers.append(manager)
        except Exception as problem:
            logger.debug("reports of streaming queries are not awaited: %s", in_words(problem))

    def wait(self) -> bool:
        """Until there is something to look at, or some time has passed. Returns whether it goes on."""
        rest_s = self._woken_at + REST_S - time.monotonic()
        if self._stop.wait(max(rest_s, 0.0)):
            return False
        try:
            if self._listener is not None:
                self._seen = int(self._listener.reportsBeyond(self._seen, int(LOOK_EVERY_S * 1000)))
            else:
                self._stop.wait(LOOK_EVERY_S)
        except Exception:
            # Spark ends, or has ended.
            self._stop.wait(LOOK_EVERY_S)
        self._woken_at = time.monotonic()
        return not self._stop.is_set()

    def close(self) -> None:
        """Have who waits go on, and listen no more."""
        self._stop.set()
        try:
            if self._listener is not None:
                self._listener.wake()
            for manager in self._managers:
                manager.removeListener(self._listener)
        except Exception as problem:
            logger.debug("Spark has ended before: %s", in_words(problem))
        self._managers.clear()
