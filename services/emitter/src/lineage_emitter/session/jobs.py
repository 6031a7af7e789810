"""Jobs: actions of the program, and which tasks must have run for their lineage to be whole."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from lineage_core.answers import ANSWERS
from lineage_core.contract.address import parse_space
from lineage_core.contract.message import Expected
from lineage_emitter import scope
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.failures import error_type
from lineage_emitter.session.lazy_sinks import LazySink, LazySinks
from lineage_emitter.session.nodes import upstream_nodes
from lineage_emitter.worker.commits import Hold, Release
from lineage_emitter.worker.culprits import PositionRun, as_text, culprits_in

if TYPE_CHECKING:
    from lineage_core.contract.block import U64
    from lineage_emitter.sdk.api import LineageApi
    from lineage_emitter.session.commit_thread import CommitThread
    from lineage_emitter.session.job_files import JobFiles
    from lineage_emitter.session.nodes import Node, Nodes
    from lineage_emitter.session.problems import Problems

logger = logging.getLogger(__name__)
_GIVING_NOTHING = frozenset(
    ("foreach", "foreachPartition", "sortBy", "sortByKey", "zipWithIndex", "repartitionAndSortWithinPartitions", "getLineage")
)  # fmt: skip
"""Operators of RDDs that run jobs and give the program nothing of the records."""


class Jobs:
    """Wraps the program's actions and records their jobs. Thread-safe."""

    def __init__(
        self,
        api: LineageApi,
        problems: Problems,
        nodes: Nodes,
        commits: CommitThread,
        files: JobFiles,
        lazy: LazySinks,
    ) -> None:
        self._api = api
        self._problems = problems
        self._nodes = nodes
        self._commits = commits
        self._files = files
        self._lazy = lazy
        self.settled = -1
        """Of the jobs that have returned, how many the store was last seen to have."""
        self.open_ends: list[Callable[[], None]] = []
        """Of actions that are under way: each records what the user got so far, once."""

    @contextmanager
    def action(
        self,
        name: str,
        sink: Node,
        partitions: Callable[[], Iterable[int]],
        *,
        limit: int | None = None,
    ) -> Iterator[None]:
        """The body runs an action; afterwards its lineage is linked.

        ``partitions`` gives, after the action, the partitions of the sink that had to be computed.
        ``limit``: just so many of their rows, in that order, reach the user; the sink's commits
        are held back until it is known which.
        """
        try:
            with self._holding(sink, partitions, limit):
                yield
        except Exception as problem:
            self.record_action_failure(name, sink, problem)
            raise
        self._problems.guard(
            "note a job", lambda: self._record_job(name, sink, tuple(partitions()))
        )
        self.record_lazy_jobs()
        _note_answer()

    def record_failed_action(self, name: str, problem: Exception) -> None:
        """An action failed that gave no records of ours."""
        with contextlib.suppress(CaptureFailedError):
            self._nodes.unknown(name, f"the action failed: {error_type(problem)}")

    def record_action_failure(self, name: str, sink: Node, problem: Exception) -> None:
        """An action failed. Whatever else goes wrong: the program gets the error of its own action."""
        with contextlib.suppress(CaptureFailedError):
            culprits = culprits_in(problem)
            self._nodes.unknown(
                name, f"the action failed: {error_type(problem)}{_items_at_work(culprits)}"
            )
            self._problems.guard(
                "note a failed action", lambda: self._after_failure(sink, culprits)
            )

    def record_or_defer(self, action: Callable[[], None]) -> None:
        """Record which records an action gave, before its job is recorded."""
        self._problems.guard("note what an action gave", action)

    def record_job_later(self, name: str, sink: Node, call_site: str) -> None:
        """Record the job of an action on partition 0 of its sink, behind its commit; waits for nothing."""
        self._commits.put(functools.partial(self._record_job, name, sink, (0,), call_site))

    def begin_lazy(self, name: str, sink: Node) -> None:
        """An action has returned whose tasks run later, in jobs that are not ours, if at all.

        Of each of its partitions that has run by then, the next recorded job reports.
        """
        running = scope.outermost()
        site = running.call_site if running is not None else scope.call_site()
        self._lazy.add(LazySink(name, sink.name, site, sink))
        self._problems.guard("note a job", lambda: self._api.job(name, [], sink.name, site))

    def record_lazy_jobs(self) -> None:
        """Jobs that are not ours may have run tasks of ours: their lineage is linked."""
        if self._lazy:
            self._problems.guard("note a job", self._record_lazy_jobs)

    def _record_lazy_jobs(self) -> None:
        self._commits.drain()
        for lazy, partitions in self._lazy.take_run():
            if lazy.sink is not None:
                sink, lazy.sink = lazy.sink, None
                lazy.above = tuple(self._expected_above(sink))
            expected = [Expected(node=lazy.node, partitions=partitions), *lazy.above]
            self._api.job(lazy.action, expected, lazy.node, lazy.call_site)

    @contextmanager
    def _holding(
        self, sink: Node, partitions: Callable[[], Iterable[int]], limit: int | None
    ) -> Iterator[None]:
        if limit is None:
            yield
            return
        release = Release(sink.name)
        self._commits.put(Hold(sink.name))
        try:
            yield
            release = Release(sink.name, limit, tuple(partitions()))
        finally:
            self._commits.put(release)

    def _record_job(
        self, name: str, sink: Node, partitions: tuple[int, ...], call_site: str | None = None
    ) -> None:
        self._commits.drain()
        self._problems.check()
        expected = [Expected(node=sink.name, partitions=partitions)]
        if partitions:
            expected += self._expected_above(sink)
        else:
            self._files.record_sources(upstream_nodes(sink))
        running = scope.outermost()
        if call_site is None:
            call_site = running.call_site if running is not None else ""
        self._api.job(name, expected, sink.name, call_site)

    def _expected_above(self, sink: Node) -> Iterator[Expected]:
        """What a job that computes partitions of a sink needs besides; records the files it reads."""
        above = upstream_nodes(sink)
        self._files.record_sources(above)
        for node in above:
            if node.map_side is not None:
                if not node.expected:
                    node.expected = tuple(range(node.map_side.getNumPartitions()))
                yield Expected(node=node.name, partitions=node.expected)

    def _after_failure(self, sink: Node, culprits: list[list[PositionRun]]) -> None:
        self._commits.drain()
        # Before more is written: where the spool is gone, this says so best.
        self._api.dispatcher.sync()
        above = upstream_nodes(sink)
        self._files.record_sources(above)
        for runs in culprits:
            names = {parse_space(space).name for space, _, _ in runs}
            crash = self._nodes.register(
                "sink", "crash", [node for node in above if node.name in names], alias="crash"
            )
            with self._api.task(crash.name):
                for space, first, last in runs:
                    self._api.capture_columns(
                        *(space, _column(first), f"{crash.name}#0", _column(0)),
                        in_last=_column(last),
                    )
            logger.warning(
                "a task failed while working on %s; lineage back %s#0#0 --app %s names the rows",
                *(as_text(runs), crash.name, self._api.app),
            )
        self._api.dispatcher.sync()
        self._api.linker.wake()


def _note_answer() -> None:
    """Note that the program gets something of the records by the operator that it called."""
    running = scope.outermost()
    if running is not None and not (
        running.name.startswith("save") or running.name in _GIVING_NOTHING
    ):
        ANSWERS.note(scope.running_site())


def _items_at_work(culprits: list[list[PositionRun]]) -> str:
    return f" while working on {as_text(culprits[0])[:200]}" if culprits else ""


def _column(position: int) -> U64:
    return np.array([position], dtype=np.uint64)
