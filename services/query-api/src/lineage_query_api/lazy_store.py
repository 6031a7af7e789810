"""A store that is opened as soon as it is there: the server answers before, with 503 where it needs the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, cast

import structlog

from lineage_store.errors import StoreUnavailableError
from lineage_store.port import GraphStore

RETRY_S = 1.0
"""Seconds between two attempts: requests in between get the error of the last one."""

log = structlog.get_logger(__name__)


class LazyStore:
    """A placeholder for a store that does not respond yet. May be shared by threads."""

    def __init__(
        self, open_store: Callable[[], GraphStore], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open = open_store
        self._clock = clock
        self._lock = threading.Lock()
        self._store: GraphStore | None = None
        self._problem = "the store has not been opened yet"
        self._next_try = clock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened(), name)

    def close(self) -> None:
        """Close the store, if it was opened."""
        with self._lock:
            if self._store is not None:
                self._store.close()

    def _opened(self) -> GraphStore:
        """The store.

        Raises:
            StoreUnavailableError: it does not respond yet.
            StoreError: it responds, but can't be used.
        """
        with self._lock:
            if self._store is None and self._clock() >= self._next_try:
                try:
                    self._store = self._open()
                    log.info("store_is_there")
                except StoreUnavailableError as error:
                    self._problem = str(error)
                    self._next_try = self._clock() + RETRY_S
            if self._store is None:
                raise StoreUnavailableError(self._problem)
            return self._store


def open_lazily(
    open_store: Callable[[], GraphStore], clock: Callable[[], float] = time.monotonic
) -> GraphStore:
    """The store; if it does not respond now, a placeholder that opens it later.

    Raises:
        StoreError: it can't be used, now or later.
    """
    try:
        return open_store()
    except StoreUnavailableError as error:
        log.warning("store_unavailable", reason=str(error))
        return cast(GraphStore, LazyStore(open_store, clock))
