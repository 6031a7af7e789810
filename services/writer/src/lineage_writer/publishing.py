"""Publishes OpenLineage events of applications once their verdict is final; storing never waits for it.

The writer does it, and not the query API: every deployment has it, it may write, and the missing parts of an
application arrive through it. The store records which applications are published, after the backend has
accepted both events: whatever process is killed, every application is published at least once, and
repeated events of an application belong to the same run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from lineage_core.errors import LineageError
from lineage_core.tracing.budget import MIB, Budget, MessageRoom, use_budget
from lineage_openlineage.errors import OpenLineageUnavailableError
from lineage_openlineage.publishing import publish_events
from lineage_openlineage.settings import OpenLineageSettings
from lineage_store.errors import StoreError
from lineage_store.port import GraphStore
from lineage_writer.metrics import Metrics

EVERY_S = 2.0
"""Between two searches for applications that have ended."""
LONGEST_S = 120.0
"""Maximum time between two attempts, for one application and for a backend that does not answer."""
FACTS_S = 30.0
"""Maximum time for the events of one application."""
MESSAGE_BYTES_MAX = 32 * MIB
"""Maximum size of the messages that are read for them at once; in memory they are some twenty times as much."""


class PublishedRuns(Protocol):
    """See :class:`lineage_store.neo4j.published_runs.PublishedRuns`."""

    def unpublished(self) -> list[str]: ...
    def claim(self, app: str, now: float) -> bool: ...
    def release(self, app: str) -> None: ...
    def record_published(self, app: str, status: str) -> None: ...


class PublishingStore(GraphStore, Protocol):
    """A store that records which applications were published."""

    def published_runs(self) -> PublishedRuns:
        """The applications that were published."""


@dataclass(slots=True)
class _Retry:
    """When something is tried again, and how long to wait after that."""

    at: float = 0.0
    pause_s: float = EVERY_S

    def postpone(self, now: float) -> None:
        self.at = now + self.pause_s
        self.pause_s = min(2 * self.pause_s, LONGEST_S)


class Publisher:
    """Searches for applications to publish, in a thread of its own. ``clock`` gives unix seconds."""

    def __init__(
        self,
        settings: OpenLineageSettings,
        open_store: Callable[[], PublishingStore],
        metrics: Metrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._open_store = open_store
        self._metrics = metrics
        self._clock = clock
        self._store: PublishingStore | None = None
        self._tries: dict[str, _Retry] = {}
        self._backend = _Retry()
        self._stopping = threading.Event()
        # A backend that hangs prevents no process from ending: what is not published is published later.
        self._thread = threading.Thread(target=self._run, name="openlineage", daemon=True)
        self._log = structlog.get_logger()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, limit_s: float) -> None:
        """End after the current attempt, or after ``limit_s``."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(limit_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.publish_ended()
            except Exception:
                # The next application may succeed; storing continues in any case.
                self._log.exception("openlineage_look_failed")
                self._metrics.openlineage_runs.labels("failed").inc()
                self._backend.postpone(self._clock())
            self._stopping.wait(EVERY_S)
        if self._store is not None:
            self._store.close()

    def publish_ended(self) -> None:
        """Publish all applications that are due; those that fail are retried by a later search."""
        if self._clock() < self._backend.at:
            return
        try:
            if self._store is None:
                self._store = self._open_store()
            waiting = self._store.published_runs().unpublished()
            self._metrics.openlineage_waiting.set(len(waiting))
            self._tries = {app: self._tries.get(app, _Retry()) for app in waiting}
            for app in waiting:
                if self._stopping.is_set() or self._clock() < self._backend.at:
                    return
                if self._clock() >= self._tries[app].at:
                    self._publish(self._store, app)
        except StoreError as error:
            self._log.warning("openlineage_store_failed", reason=str(error))
            self._backend.postpone(self._clock())

    def _publish(self, store: PublishingStore, app: str) -> None:
        runs = store.published_runs()
        self._tries[app].postpone(self._clock())
        if not runs.claim(app, self._clock()):
            return
        try:
            # An application may have sent any number of messages.
            budget = Budget(seconds=FACTS_S, messages=MessageRoom(MESSAGE_BYTES_MAX))
            with use_budget(budget):
                status = publish_events(store, app, self._settings)
        except (LineageError, OSError, KeyError) as error:
            if isinstance(error, StoreError):
                raise
            self._metrics.openlineage_runs.labels("failed").inc()
            self._log.warning("openlineage_failed", app=app, reason=str(error))
            runs.release(app)
            if isinstance(error, OpenLineageUnavailableError):
                # It would not accept the next application either.
                self._backend.postpone(self._clock())
            return
        self._backend = _Retry()
        if status is None:
            runs.release(app)
            return
        runs.record_published(app, status)
        self._metrics.openlineage_runs.labels("told").inc()
        self._log.info("openlineage_told", app=app, status=status)
