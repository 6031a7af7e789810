"""Applications opened for queries, with the data cached between queries."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.tracer import CACHE_BYTES_MAX, Tracer
from lineage_query.answers import Composer
from lineage_query.names import Names
from lineage_query.rows.locations import Locations
from lineage_query.rows.reader import RowReader
from lineage_query.verdicts import verdict_of, with_reasons
from lineage_store.port import GraphStore


@dataclass(frozen=True, slots=True)
class ApplicationSnapshot:
    """One application, with the data cached between queries of it."""

    app: str
    graph: FlowGraph
    nodes: Sequence[NodeRecord]
    names: Names
    locations: Locations
    tracer: Tracer
    verdict: Verdict
    opened_at: float
    """Seconds of :func:`time.monotonic`."""
    revision: Hashable
    """That of the application in the store (:meth:`lineage_store.port.GraphStore.revision`)."""

    def record(self, node: str) -> NodeRecord | None:
        """A node by its id; None if the application reported none (opaque items)."""
        return next((node_record for node_record in self.nodes if node_record.node == node), None)

    def composer(self) -> Composer:
        """A builder of items from regions, with their lines and texts."""
        return Composer(self.graph, self.names, self.locations.as_now(), self.nodes)


class ApplicationCache:
    """Opens applications of a store and caches the most recently queried ones. May be shared by threads.

    ``cached_max``: maximum number of cached applications; ``cache_bytes_max``: of unpacked blocks, over all of them.
    ``stale_s``: seconds for which an incomplete one is reused without reading it again.
    """

    def __init__(
        self,
        store: GraphStore,
        reader: RowReader,
        *,
        cached_max: int = 1,
        stale_s: float = 0.0,
        cache_bytes_max: int = CACHE_BYTES_MAX,
    ) -> None:
        self.store = store
        self.reader = reader
        self.cached_max = cached_max
        self._stale_s = stale_s
        self._cache_bytes_max = cache_bytes_max // cached_max
        self._opened: OrderedDict[str, ApplicationSnapshot] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, app: str) -> ApplicationSnapshot:
        """An application by its full id.

        Raises:
            KeyError: there is no such application.
        """
        with self._lock:
            snapshot = self._opened.get(app)
        # An incomplete application may grow between two queries (a notebook): it is opened again. So is one that got another
        # message, or that was deleted and captured anew.
        if (
            snapshot is None
            or self._is_stale(snapshot)
            or snapshot.revision != self.store.revision(app)
        ):
            snapshot = self._open(app)
        with self._lock:
            self._opened[app] = snapshot
            self._opened.move_to_end(app)
            while len(self._opened) > self.cached_max:
                self._opened.popitem(last=False)
        return snapshot

    def forget(self, app: str) -> None:
        """Reopen an application at the next query of it."""
        with self._lock:
            self._opened.pop(app, None)

    def _is_stale(self, snapshot: ApplicationSnapshot) -> bool:
        if snapshot.verdict.complete:
            return False
        return time.monotonic() - snapshot.opened_at >= self._stale_s

    def _open(self, app: str) -> ApplicationSnapshot:
        # Before all else: what comes meanwhile is another revision.
        revision = self.store.revision(app)
        # Before the verdict, which would be that of another one, where this was deleted and stored again since.
        graph = self.store.graph(app)
        verdict = verdict_of(self.store, app)
        nodes = with_reasons(graph.nodes(), verdict.superset)
        return ApplicationSnapshot(
            app,
            graph,
            nodes,
            Names(nodes),
            Locations(graph, self.reader.of_application(app)),
            Tracer(graph, cache_bytes_max=self._cache_bytes_max),
            verdict,
            time.monotonic(),
            revision,
        )
