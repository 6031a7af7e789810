"""Passes commits on, in a thread of its own: the one place where what tasks say comes in order."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from lineage_core.contract.message import Heartbeat, Message
from lineage_emitter.worker.commits import HeldMarkers, Hold, Marker, Release

if TYPE_CHECKING:
    from lineage_emitter.sdk.api import LineageApi
    from lineage_emitter.session.lazy_sinks import LazySinks
    from lineage_emitter.session.problems import Problems
    from lineage_emitter.session.quarantined import Quarantined
    from lineage_emitter.session.stored_rows import StoredRowsByName
    from lineage_emitter.settings import Settings

_STOP = object()
DRAIN_S = 60.0
STOP_S = 60.0
LINK_BYTES = 32 << 20
"""Linking goes on during a job whenever tasks have committed this many bytes of blocks."""


class CommitThread:
    """Takes end markers of tasks and what goes before or behind them, and passes commits on.

    ``stored_rows``, ``lazy``, ``quarantined``: these receive the tasks that have run.
    """

    def __init__(
        self,
        api: LineageApi,
        problems: Problems,
        settings: Settings,
        stored_rows: StoredRowsByName,
        lazy: LazySinks,
        quarantined: Quarantined,
    ) -> None:
        self._api = api
        self._problems = problems
        self._settings = settings
        self._stored_rows = stored_rows
        self._lazy = lazy
        self._quarantined = quarantined
        self.queue: SimpleQueue[Any] = SimpleQueue()
        """Markers, holds and releases; calls, made in their turn; events, set in their turn."""
        self.rows: dict[tuple[str, int], int] = {}
        """Rows that tasks have put out, by node and partition."""
        self._held = HeldMarkers()
        """Of the thread alone: all that changes it goes through the queue."""
        self._unlinked_bytes = 0
        self._thread = threading.Thread(target=self._run, name="lineage-commits", daemon=True)
        problems.quiet = self._thread

    def start(self) -> None:
        """Pass on from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Pass on what has arrived; nothing more is accepted."""
        self.drain()
        self.queue.put(_STOP)
        self._thread.join(timeout=STOP_S)

    def put(self, event: Hold | Release | Callable[[], None]) -> None:
        """Take something in its turn."""
        self.queue.put(event)

    def drain(self) -> None:
        """Wait until every marker that has arrived is passed on, or held back by its action."""
        if threading.current_thread() is self._thread:
            return
        reached = threading.Event()
        self.queue.put(reached)
        give_up_at = time.monotonic() + DRAIN_S
        # Behind the end of the session nobody answers any more.
        while self._thread.is_alive() and time.monotonic() < give_up_at:
            if reached.wait(timeout=0.1):
                return

    def _run(self) -> None:
        heartbeat_at, beat = time.monotonic(), 0
        while True:
            item: Any = None
            with contextlib.suppress(Exception):
                item = self.queue.get(timeout=self._settings.heartbeat_s)
            if item is _STOP:
                # An action may be under way in another thread: what it read is not lost.
                self._commit_all(self._held.release_all())
                return
            if isinstance(item, threading.Event):
                item.set()
            elif callable(item):
                self._problems.guard("note a job", item)
            elif item is not None:
                self._problems.guard(
                    "pass on a commit", functools.partial(self._handle_event, item)
                )
                if self.queue.empty():
                    self._problems.guard("push commits", self._api.dispatcher.push)
            if time.monotonic() - heartbeat_at >= self._settings.heartbeat_s:
                heartbeat_at = time.monotonic()
                beat += 1
                self.send(Heartbeat(app=self._api.app, at=time.time(), beat=beat))
                self._problems.guard("send a heartbeat", self._api.dispatcher.push)

    def _handle_event(self, event: Marker | Hold | Release) -> None:
        self._commit_all(self._held.handle(event))

    def _commit_all(self, markers: Iterable[Marker]) -> None:
        for marker in markers:
            self._problems.guard("pass on a commit", functools.partial(self._commit, marker))

    def _commit(self, marker: Marker) -> None:
        self.rows[(marker["node"], marker["partition"])] = marker["rows"]
        fact = marker.pop("kept", None)
        if fact is not None:
            self._stored_rows.record_run(marker["node"], marker["partition"], fact)
        self._quarantined.record_commit(marker)
        self._api.committed(marker)
        self._lazy.record_run(marker["node"], marker["partition"])
        self._unlinked_bytes += int(marker["bytes"])
        if self._unlinked_bytes >= LINK_BYTES:
            self._unlinked_bytes = 0
            self._api.dispatcher.push()
            self._api.linker.wake()
        if marker["failed"]:
            self._problems.record_task_problem(marker["failed"])

    def send(self, message: Message) -> None:
        """Send a message, unless that fails."""
        self._problems.guard("send a message", lambda: self._api.send(message))

    def push(self, *, durably: bool) -> None:
        """Pass on the messages so far. ``durably``: so that it is linked, too."""
        dispatcher = self._api.dispatcher
        self._problems.guard("send a message", dispatcher.sync if durably else dispatcher.push)
        if durably:
            self._api.linker.wake()
