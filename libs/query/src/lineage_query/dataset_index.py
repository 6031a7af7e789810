"""The runs of a store and the datasets that they used, in memory: each run is read once, and again when its messages change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from lineage_core.tracing.budget import TooMuchError
from lineage_query.dataset_uses import READ, WROTE, DatasetUses, RunUses
from lineage_query.jobs import DATASET_MESSAGE_TYPES, dataset_runs, job_of_run, latest_first
from lineage_store.errors import DamagedError
from lineage_store.materialised import whose_rows
from lineage_store.port import ApplicationRecord, GraphStore

FRESH_S = 5.0
"""Seconds for which runs are not looked at again."""
RETRY_S = 60.0
"""Seconds until a run that could not be read is tried again, where its messages stay the same."""
INDEX_BYTES = 128 << 20
"""Memory of an index; beyond it the oldest runs are left out."""

RUN_BYTES = INDEX_BYTES // 8
"""Memory of one run; one that takes more is left out."""
NAME_MAX = 4_096
"""Characters of the name of a dataset; a run with a longer one is left out. Queries can't name it, and files have no longer paths."""

Bounded: TypeAlias = Callable[[Callable[[], None]], bool]
"""Runs a function within limits; False: it takes more."""


def _without_limits(read: Callable[[], None]) -> bool:
    read()
    return True


class DatasetIndex:
    """Runs and the datasets that they used. May be shared by threads.

    Args:
        store: the whole store: who asks sees no more of the index than they may.
        bounded: limits what one run may cost; by default nothing does.
        clock: seconds.
        bytes_max: memory of the index.
        run_bytes_max: memory of one run.
    """

    def __init__(
        self,
        store: GraphStore,
        bounded: Bounded = _without_limits,
        clock: Callable[[], float] = time.monotonic,
        bytes_max: int = INDEX_BYTES,
        run_bytes_max: int = RUN_BYTES,
    ) -> None:
        self._store = store
        self._bounded = bounded
        self._clock = clock
        self._bytes_max = bytes_max
        self._run_bytes_max = run_bytes_max
        self._updating = threading.Lock()
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        self.revisions: dict[str, Hashable] = {}
        """Of all runs, as they were looked at last; read it within :meth:`reading`."""
        self._waiting: dict[str, ApplicationRecord] = {}
        """Runs that are still to be read, the latest first."""
        self.records: dict[str, ApplicationRecord] = {}
        """All runs, the latest first; read it within :meth:`reading`."""
        self.runs_by_job: dict[str, list[str]] = {}
        """The same, by job; read it within :meth:`reading`."""
        self.uses = DatasetUses()
        """What runs used; read it within :meth:`reading`."""
        self.read_revisions: dict[str, Hashable] = {}
        """Of runs that were read, a revision with all that is held of them; read it within :meth:`reading`."""
        self.unread: dict[str, float] = {}
        """Runs that take more than they may, and when they are tried again; read it within :meth:`reading`."""

    def update(
        self,
        seconds: float,
        first: Callable[[ApplicationRecord], bool] = lambda record: False,
        *,
        fresh_s: float = FRESH_S,
    ) -> None:
        """Read runs that are new or have changed, the latest first.

        Args:
            seconds: how long it may take; what has not been read by then is read by a later call.
            first: which runs are read before all others.
            fresh_s: seconds for which runs are not looked at again; 0: changes until now are seen.

        Raises:
            BudgetError: the query has no time left.
        """
        until = self._clock() + seconds
        # Another thread reads the same runs: what it has read is there by then.
        if not self._updating.acquire(timeout=seconds):
            return
        try:
            if self._clock() - self._looked_at >= fresh_s:
                self._look_for_changes()
            waiting = sorted(self._waiting.values(), key=lambda record: not first(record))
            for number, record in enumerate(waiting):
                # To look for changes may take all of the time: one run is read then, or a caller would see none for ever.
                if self._clock() >= until and (number or not seconds):
                    break
                self._read(record)
        finally:
            self._updating.release()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While it is held, the content stays as it is."""
        with self._lock:
            yield

    def _look_for_changes(self) -> None:
        now = self._clock()
        revisions = dict(self._store.revisions(self._store.application_ids()))
        retried = {app for app, at in self.unread.items() if at <= now}
        changed = {
            app
            for app in revisions.keys() | self.revisions.keys()
            if revisions.get(app) != self.revisions.get(app)
        }
        records = latest_first(self._store.applications()) if changed else []
        ids = {record.app for record in records}
        with self._lock:
            if changed:
                self.records = {
                    record.app: record
                    for record in records
                    if record.app in revisions and whose_rows(record.app, ids) is None
                }
                self.runs_by_job = {}
                for app, record in self.records.items():
                    self.runs_by_job.setdefault(job_of_run(record), []).append(app)
            self.uses.remove(changed | retried)
            for app in changed | retried:
                self.read_revisions.pop(app, None)
                self.unread.pop(app, None)
            waiting = self._waiting.keys() | changed | retried
            self._waiting = {app: record for app, record in self.records.items() if app in waiting}
            self.revisions = revisions
            self._looked_at = now

    def _read(self, record: ApplicationRecord) -> None:
        def read() -> None:
            used = dataset_runs(record, self._store.messages(record.app, *DATASET_MESSAGE_TYPES))
            revision = self._store.revision(record.app)
            run = RunUses.of(used)
            if run.own_memory > self._run_bytes_max:
                raise TooMuchError("the run names more files than an index holds of one run")
            if any(len(namespace) + len(name) > NAME_MAX for namespace, name in run.named):
                raise TooMuchError("the run names datasets by names that are too long")
            files = [(WROTE if run.wrote else READ, names) for run, names in used]
            # Whoever reads the index need not wait for this: it changes only while `_updating` is held.
            prepared = self.uses.prepare(run, files, self._run_bytes_max)
            with self._lock:
                self.uses.add(record.app, prepared)
                self.read_revisions[record.app] = revision
                self._leave_out_oldest()

        try:
            is_read = self._bounded(read)
        except (KeyError, TooMuchError, DamagedError):
            # KeyError: it was deleted meanwhile; the next look at the store finds that.
            is_read = False
        with self._lock:
            if not is_read:
                self.unread[record.app] = self._clock() + RETRY_S
            del self._waiting[record.app]

    def _leave_out_oldest(self) -> None:
        memory = self.uses.memory
        left_out: list[str] = []
        for app in reversed(self.records):
            if memory <= self._bytes_max:
                break
            if app in self.uses.by_run:
                memory -= self.uses.by_run[app].memory
                left_out.append(app)
        self.uses.remove(left_out)
        for app in left_out:
            del self.read_revisions[app]
            self.unread[app] = float("inf")
