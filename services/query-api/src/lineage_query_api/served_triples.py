"""The triples beside the lake of a server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from lineage_query_api.errors import ProblemError
from lineage_store.errors import StoreUnavailableError, TriplesNotFoundError
from lineage_store.lake.address import is_lake
from lineage_store.tiers.address import read_tiers
from lineage_store.triples.data_sets import TripleStore


class ServedTriples:
    """Data sets of triples, opened by the first question, so that the next ones find footers read. May be shared by threads.

    Args:
        url: of the server's store.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._opened: _Opened | None = None

    @contextmanager
    def opened(self) -> Iterator[TripleStore]:
        """The data sets, for one question; opened anew for the next one where the storage did not answer.

        Raises:
            ProblemError: 404, there is no lake, or it has no triples.
            StoreError: the storage can't be read.
        """
        tiers = read_tiers(self._url)
        lake = self._url if tiers is None else tiers.cold
        if not is_lake(lake):
            raise ProblemError(
                HTTPStatus.NOT_FOUND,
                "this server has no lake, so there are no triples",
                hint="the operator sets LINEAGE_STORE to a lake, or to a database with one behind it",
            )
        with self._lock:
            if self._opened is None or not self._opened.is_there():
                self._opened = None
                try:
                    self._opened = _Opened.of(TripleStore(lake))
                except TriplesNotFoundError as error:
                    # The first import may make them at any time.
                    raise ProblemError(HTTPStatus.NOT_FOUND, str(error)) from error
            opened = self._opened
        try:
            yield opened.store
        except StoreUnavailableError:
            # Its folder may have been put in place of another.
            with self._lock:
                if self._opened is opened:
                    self._opened = None
            raise


@dataclass(frozen=True, slots=True)
class _Opened:
    """``version``: that the table had, and ``written`` its entry in the log."""

    store: TripleStore
    version: int
    written: tuple[int, int | None]

    @classmethod
    def of(cls, store: TripleStore) -> _Opened:
        version = store.table.snapshot().version
        return cls(store, version, store.table.commit_written(version))

    def is_there(self) -> bool:
        """Whether the table was not removed, nor another one put in its place: what is kept in memory would be answered of it, and mixed with the other."""
        return self.store.table.commit_written(self.version) == self.written
