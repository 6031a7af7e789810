"""Messages of all applications as they are sent: those in the store first, then what comes into the spool."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeAlias

from lineage_core.contract.message import End, Message
from lineage_core.errors import LineageError
from lineage_store.port import GraphStore
from lineage_store.spool.reader import DRIVER_FILE, read_lines

LOST_S = 60.0
"""Silence after which an application is taken for lost: it gives a sign of life every 10 s."""
STORE_EVERY_S = 1.0
STORED_MAX = 20
"""Of the latest applications of the store, whose messages are read."""
KINDS = ("stream", "recipe", "end")


@dataclass(frozen=True, slots=True)
class Lost:
    """Nothing more is heard of an application. ``reason``: why."""

    app: str
    reason: str


Item: TypeAlias = Message | Lost


@dataclass
class _Tail:
    """The driver's file of an application. It stays readable when the folder is removed."""

    folder: Path
    stream: IO[bytes]
    heard_at: float
    offset: int = 0
    app: str = ""
    is_over: bool = False


@dataclass
class MessageFeed:
    """What is new since the last look.

    Args:
        spool: the folder of all applications that run.
        open_store: opens the store; None: there is none yet.
        clock: in seconds, as ``time.monotonic``.
    """

    spool: Path
    open_store: Callable[[], AbstractContextManager[GraphStore] | None]
    clock: Callable[[], float] = time.monotonic
    notes: list[str] = field(default_factory=list)
    """What could not be read."""

    def __post_init__(self) -> None:
        self._tails: dict[str, _Tail] = {}
        self._stored: set[str] = set()
        self._looked_at = float("-inf")

    def read(self) -> Iterator[Item]:
        """What is new, of each application in its order; those that ended before come first."""
        stored: list[str] = []
        store = None
        if self.clock() - self._looked_at >= STORE_EVERY_S:
            self._looked_at = self.clock()
            store = self.open_store()
        if store is None:
            self._find_tails()
        else:
            with store as opened:
                # Asked before the spool: an application of the store that has no folder there after that has ended.
                stored = [app for app in opened.application_ids() if app not in self._stored]
                self._find_tails()
                yield from self._read_stored(opened, stored)
        for name in list(self._tails):
            yield from self._read_tail(self._tails[name])
            if self._tails[name].is_over and not self._tails[name].folder.exists():
                self._tails.pop(name).stream.close()

    def close(self) -> None:
        """Release the files."""
        for tail in self._tails.values():
            tail.stream.close()

    @property
    def is_running(self) -> bool:
        """Whether an application runs."""
        return any(not tail.is_over for tail in self._tails.values())

    def _find_tails(self) -> None:
        try:
            names = sorted(os.listdir(self.spool))
        except FileNotFoundError:
            return
        for name in names:
            if name in self._tails:
                continue
            with suppress(OSError):
                path = self.spool / name / DRIVER_FILE
                stream = open(path, "rb")  # noqa: SIM115 - closed when its application is over
                silent_s = max(0.0, time.time() - os.fstat(stream.fileno()).st_mtime)
                tail = _Tail(path.parent, stream, self.clock() - silent_s)
                for line in read_lines(stream, 0):
                    if line.message is not None:
                        tail.app = line.message.app
                        break
                if not tail.app:
                    stream.close()
                    continue
                self._tails[name] = tail
                self._stored.add(tail.app)

    def _read_stored(self, store: GraphStore, apps: list[str]) -> Iterator[Item]:
        unread = [app for app in apps if app not in self._stored]
        self._stored.update(unread)
        # The latest are named first.
        for app in reversed(unread[:STORED_MAX]):
            try:
                if not store.messages(app, "stream"):
                    continue
                messages = store.messages(app, *KINDS)
            except (KeyError, LineageError) as problem:
                self.notes.append(f"{app} is not read: {problem}")
                continue
            yield from messages
            if not any(isinstance(message, End) for message in messages):
                yield Lost(app, "its application is no longer heard of")
        if len(unread) > STORED_MAX:
            self.notes.append(f"of applications that ended, only the latest {STORED_MAX} are read")

    def _read_tail(self, tail: _Tail) -> Iterator[Item]:
        is_gone = not tail.folder.exists()
        for line in read_lines(tail.stream, tail.offset):
            tail.offset = line.stop
            tail.heard_at = self.clock()
            if line.message is not None:
                tail.is_over = isinstance(line.message, End)
                yield line.message
        if tail.is_over:
            return
        if is_gone or self.clock() - tail.heard_at >= LOST_S:
            tail.is_over = True
            yield Lost(tail.app, "its application is no longer heard of")
