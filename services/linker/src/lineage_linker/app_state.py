"""What the linker remembers of one application, beyond the join itself."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Commit, Register, Totals
from lineage_core.linking.linker import LinkState, TaskId

TRIMMING_OPS = frozenset({"take", "first"})
"""Sinks that may read more rows than they give out: their commits say how many count."""


class Use(Enum):
    """What a registered node means for its blocks."""

    SOURCE = "s"
    """Nobody produces what is read from it: such inputs are not linked."""
    TRIMMED = "t"
    """A sink whose blocks wait for the commit, which may cut them."""
    WHOLE = "w"
    """Nothing special."""


def use_of(message: Register) -> Use:
    """What a registration means for the node's blocks."""
    if message.kind == "source":
        return Use.SOURCE
    trimmed = message.kind == "sink" and message.op in TRIMMING_OPS
    return Use.TRIMMED if trimmed else Use.WHOLE


class Promise(NamedTuple):
    """What a commit says of its task's blocks.

    ``blocks``: how many there are. ``keep``: rows of the sink's partition that count; None: all.
    ``whole``: nothing was lost before it was sent.
    """

    blocks: int
    keep: int | None
    whole: bool


def promise_of(commit: Commit) -> Promise:
    """What a commit promises."""
    return Promise(commit.blocks, commit.keep, not commit.undelivered and not commit.failed)


class AppState(LinkState, Protocol):
    """The state of one application during one batch of events.

    Writes are done when a method returns, except for visibility, counts and what waits: those
    change in :meth:`show` and :meth:`finish`, when what they stand for has been sent. A batch that is given
    up before may be done again by another object, from its beginning.
    """

    def use_of(self, node: str) -> Use | None:
        """What a node was registered as; None when it was not (yet)."""

    def register(self, node: str, use: Use) -> None:
        """Remember what a node was registered as."""

    def promise(self, task: TaskId, promise: Promise) -> None:
        """What the next :meth:`commit` of the task says; it is remembered with it."""

    def promised(self, task: TaskId) -> Promise | None:
        """What the task's commit said; None before it."""

    def hold(self, task: TaskId, block: BlockId, frame: bytes) -> None:
        """Keep a block as it came until its task's commit says how much of it counts."""

    def held_of(self, task: TaskId) -> Sequence[bytes]:
        """Frames that are held for a task; some may have become visible since."""

    def end(self, totals: Totals) -> None:
        """Remember what the application has delivered in all."""

    def counts(self) -> Sequence[tuple[BlockId, int]]:
        """Unmatched positions of blocks that were counted in this batch."""

    def show(self) -> None:
        """All that the batch linked is safe: its blocks are visible. They still wait."""

    def finish(self) -> bool:
        """All that the batch brought about is safe, seals among it: nothing of its blocks waits.

        True when the application has ended and all that it announced is linked: its state is then
        given up, after a while.
        """
