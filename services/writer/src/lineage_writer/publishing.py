"""Tells OpenLineage of applications once their verdict is final; storing never waits for it.

The writer does it, and not the query API: it is there in every deployment, it may write, and what an
application lacks comes through it. Which application was told of is kept in the store, after the
backend has taken both events: whatever is killed when, every application is told of at least once,
and the same application is the same run however often.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from lineage_core.errors import LineageError
from lineage_openlineage.errors import OpenLineageUnavailableError
from lineage_openlineage.publishing import tell
from lineage_openlineage.settings import OpenLineageSettings
from lineage_store.errors import StoreError
from lineage_store.port import GraphStore
from lineage_writer.metrics import Metrics

EVERY_S = 2.0
"""Between two looks for applications that have ended."""
LONGEST_S = 120.0
"""Between two tries: of one application, and of a backend that is away."""


class PublishedRuns(Protocol):
    """See :class:`lineage_store.neo4j.published_runs.PublishedRuns`."""

    def unpublished(self) -> list[str]: ...
    def claim(self, app: str, now: float) -> bool: ...
    def release(self, app: str) -> None: ...
    def record_published(self, app: str, status: str) -> None: ...


class PublishingStore(GraphStore, Protocol):
    """A store that remembers which applications were told of."""

    def published_runs(self) -> PublishedRuns:
        """What it remembers."""


@dataclass(slots=True)
class _Try:
    """When something is tried again, and how long to wait after that."""

    at: float = 0.0
    pause_s: float = EVERY_S

    def postpone(self, now: float) -> None:
        self.at = now + self.pause_s
        self.pause_s = min(2 * self.pause_s, LONGEST_S)


class Publisher:
    """Looks for applications to tell of, in a thread of its own. ``clock`` gives unix seconds."""

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
        self._tries: dict[str, _Try] = {}
        self._backend = _Try()
        self._stopping = threading.Event()
        # A backend that hangs keeps no process from ending: who was not told of is told of later.
        self._thread = threading.Thread(target=self._run, name="openlineage", daemon=True)
        self._log = structlog.get_logger()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, limit_s: float) -> None:
        """End after what is under way, or after a while."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(limit_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.publish_ended()
            except Exception:
                # Whatever it is, the next application may fare better; storing goes on anyway.
                self._log.exception("openlineage_look_failed")
                self._metrics.openlineage_runs.labels("failed").inc()
                self._backend.postpone(self._clock())
            self._stopping.wait(EVERY_S)
        if self._store is not None:
            self._store.close()

    def publish_ended(self) -> None:
        """Tell of what can be told of now; what fails is tried again by a later look."""
        if self._clock() < self._backend.at:
            return
        try:
            if self._store is None:
                self._store = self._open_store()
            waiting = self._store.published_runs().unpublished()
            self._metrics.openlineage_waiting.set(len(waiting))
            self._tries = {app: self._tries.get(app, _Try()) for app in waiting}
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
            status = tell(store, app, self._settings)
        except (LineageError, OSError, KeyError) as error:
            if isinstance(error, StoreError):
                raise
            self._metrics.openlineage_runs.labels("failed").inc()
            self._log.warning("openlineage_failed", app=app, reason=str(error))
            runs.release(app)
            if isinstance(error, OpenLineageUnavailableError):
                # It would not take the next one either.
                self._backend.postpone(self._clock())
            return
        self._backend = _Try()
        if status is None:
            runs.release(app)
            return
        runs.record_published(app, status)
        self._metrics.openlineage_runs.labels("told").inc()
        self._log.info("openlineage_told", app=app, status=status)
