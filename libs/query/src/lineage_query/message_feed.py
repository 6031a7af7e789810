"""Messages of all applications as they are sent: those in the store first, then what comes into the spool, or into a store that others write to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import IO, TypeAlias

from lineage_core.contract.message import End, Message, dump_message
from lineage_core.errors import LineageError
from lineage_store.port import GraphStore
from lineage_store.spool.reader import DRIVER_FILE, read_lines

LOST_S = 60.0
"""Silence after which an application is taken for lost: it gives a sign of life every 10 s."""
STORE_EVERY_S = 1.0
STORED_MAX = 20
"""Of the latest applications of the store that ended and had streaming queries, whose messages are read."""
LOOKED_AT_MAX = 1_000
"""Of the latest applications of the store, of which it is looked at whether they run, or had streaming queries."""
STORE_SHARE = 0.1
"""Of the time, in which the store may be read: all messages of an application are, each time."""
SHOWN_ALIVE_S = 20.0
"""For which a sign of life is waited for of an application that is in the store alone."""
KINDS = ("stream", "recipe", "end")


GONE = "its application is no longer heard of"


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
class _Growing:
    """An application whose messages come into the store while it runs. ``given``: digests of what was given. ``beat``: the last sign of life."""

    app: str
    heard_at: float
    given: set[bytes] = field(default_factory=set)
    beat: Message | None = None
    is_seen: bool = False
    """Whether it was looked at, so that what is new is of now."""
    is_lost: bool = False
    is_over: bool = False

    def new(self, messages: Sequence[Message]) -> list[Message]:
        """Those that were not given yet. Another writer, with another clock, may put one before what is there; a store has each once."""
        found: list[Message] = []
        if len(messages) == len(self.given):
            return found
        for message in messages:
            digest = blake2b(dump_message(message).encode(), digest_size=16).digest()
            if digest not in self.given:
                self.given.add(digest)
                found.append(message)
        return found


@dataclass
class MessageFeed:
    """What is new since the last look.

    Args:
        spool: the folder of all applications that run on this machine; None: there is none.
        open_store: opens the store; None: there is none yet.
        is_shared: others write into the store while applications run.
        clock: in seconds, as ``time.monotonic``.
    """

    spool: Path | None
    open_store: Callable[[], AbstractContextManager[GraphStore] | None]
    is_shared: bool = False
    clock: Callable[[], float] = time.monotonic
    notes: list[str] = field(default_factory=list)
    """What could not be read."""

    def __post_init__(self) -> None:
        self._tails: dict[str, _Tail] = {}
        self._stored: set[str] = set()
        self._unreadable: set[str] = set()
        self._is_cut = False
        self._growing: list[_Growing] = []
        self._look_at = float("-inf")

    def read(self) -> Iterator[Item]:
        """What is new, of each application in its order; those that ended before come first."""
        stored: list[str] = []
        store = None
        if self.clock() >= self._look_at:
            self._look_at = self.clock() + STORE_EVERY_S
            store = self.open_store()
        if store is None:
            self._find_tails()
        else:
            with store as opened:
                # Asked before the spool: an application of the store that has no folder there after that has ended.
                stored = [app for app in opened.application_ids() if app not in self._stored]
                self._find_tails()
                yield from self._read_stored(opened, stored)
                yield from self._read_all_growing(opened)
        for name in list(self._tails):
            yield from self._read_tail(self._tails[name])
            if self._tails[name].is_over and not self._tails[name].folder.exists():
                self._tails.pop(name).stream.close()

    @property
    def is_partial(self) -> bool:
        """Whether messages were left out that may tell of rows; the notes say which."""
        return self._is_cut or bool(self._unreadable)

    def close(self) -> None:
        """Release the files."""
        for tail in self._tails.values():
            tail.stream.close()

    def _find_tails(self) -> None:
        if self.spool is None:
            return
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
        if len(unread) > LOOKED_AT_MAX:
            self._cut(f"only the latest {LOOKED_AT_MAX:,} applications are looked at")
        growing: list[_Growing] = []
        ended: list[str] = []
        for app in unread[:LOOKED_AT_MAX]:
            try:
                if self.is_shared and not store.messages(app, "end"):
                    growing.append(_Growing(app, self.clock() + SHOWN_ALIVE_S - LOST_S))
                elif store.messages(app, "stream"):
                    ended.append(app)
            except (KeyError, LineageError) as problem:
                self._skip(app, problem)
        self._growing += reversed(growing)
        if len(ended) > STORED_MAX:
            self._cut(
                f"of applications with streaming queries that ended, only the latest {STORED_MAX} are read"
            )
        # The latest are named first.
        for app in reversed(ended[:STORED_MAX]):
            try:
                messages = store.messages(app, *KINDS)
            except (KeyError, LineageError) as problem:
                self._skip(app, problem)
                continue
            self._unreadable.discard(app)
            yield from messages
            if not any(isinstance(message, End) for message in messages):
                yield Lost(app, GONE)

    def _cut(self, note: str) -> None:
        self._is_cut = True
        self.notes.append(f"{note}: rows of earlier ones may be missing")

    def _skip(self, app: str, problem: Exception) -> None:
        self.notes.append(f"{app} is not read: {problem}")
        self._unreadable.add(app)
        if self.is_shared:
            # It may run, and be read later.
            self._stored.discard(app)

    def _read_all_growing(self, store: GraphStore) -> Iterator[Item]:
        for growing in self._growing:
            try:
                yield from self._read_growing(store, growing)
            except (KeyError, LineageError) as problem:
                # It may be read later, and is told from where it was.
                self.notes.append(f"{growing.app} is not read: {problem}")
                self._unreadable.add(growing.app)
        self._growing = [growing for growing in self._growing if not growing.is_over]

    def _read_growing(self, store: GraphStore, growing: _Growing) -> Iterator[Item]:
        """What has come into the store of an application, behind what was given."""
        began_at = self.clock()
        beat = next(reversed(store.messages(growing.app, "heartbeat")), None)
        is_alive = growing.is_seen and beat != growing.beat
        is_silent = growing.is_lost and not is_alive
        messages = [] if is_silent else store.messages(growing.app, *KINDS)
        self._unreadable.discard(growing.app)
        self._look_at += (self.clock() - began_at) / STORE_SHARE
        if is_silent:
            return
        new = growing.new(messages)
        if len(messages) < len(growing.given):
            growing.is_over = True
            yield Lost(growing.app, "what its application has sent was removed from the store")
            return
        if is_alive or (growing.is_seen and new):
            growing.heard_at = self.clock()
        growing.is_seen, growing.beat = True, beat
        yield from new
        growing.is_over = any(isinstance(message, End) for message in new)
        growing.is_lost = not growing.is_over and self.clock() - growing.heard_at >= LOST_S
        if growing.is_lost:
            yield Lost(growing.app, GONE)

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
            yield Lost(tail.app, GONE)
