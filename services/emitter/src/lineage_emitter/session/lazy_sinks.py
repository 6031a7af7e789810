"""Sinks that Spark reads in jobs of its own: when, how often and how far is not known here."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lineage_core.contract.message import Expected
    from lineage_emitter.session.nodes import Node

UNREAD_SINKS_MAX = 100
"""Sinks that were never read and are held with the RDDs above them. Spark cleans up behind RDDs that
nobody holds, so the oldest are let go: what lies above those is not expected in the verdict."""


@dataclass(eq=False)
class LazySink:
    """One of them, and the program's line that made it.

    ``sink``: held until its first job. ``above``: what each of its jobs needs of the nodes above,
    known from then on. ``run``: partitions committed since the last job.
    """

    action: str
    node: str
    call_site: str
    sink: Node | None
    above: tuple[Expected, ...] = ()
    run: set[int] = field(default_factory=set)


class LazySinks:
    """All of a session's. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_node: dict[str, LazySink] = {}

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def add(self, lazy: LazySink) -> None:
        """Record commits of this sink from now on."""
        with self._lock:
            self._by_node[lazy.node] = lazy
            held = [unread for unread in self._by_node.values() if unread.sink is not None]
            for unread in held[:-UNREAD_SINKS_MAX]:
                unread.sink = None

    def record_run(self, node: str, partition: int) -> None:
        """A task of some node was committed."""
        with self._lock:
            lazy = self._by_node.get(node)
            if lazy is not None:
                lazy.run.add(partition)

    def take_run(self) -> list[tuple[LazySink, tuple[int, ...]]]:
        """The sinks that have run since the last call, with the partitions that did."""
        with self._lock:
            run = [(lazy, tuple(sorted(lazy.run))) for lazy in self._by_node.values() if lazy.run]
            for lazy, _ in run:
                lazy.run.clear()
        return run
