"""What the linker remembers of one application, beyond the join itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Commit, Register, Totals
from lineage_core.linking.linker import LinkState, TaskId

TRIMMING_OPS = frozenset({"take", "first"})
"""Sinks that may read more rows than they give out: their commits say how many count."""


class BlockTreatment(Enum):
    """How the linker treats the blocks of a registered node."""

    SOURCE = "s"
    """Nobody produces what is read from it: such inputs are not linked."""
    TRIMMED = "t"
    """A sink whose blocks wait for the commit, which may cut them."""
    ORDINARY = "w"
    """Nothing special."""


def treatment_of(message: Register) -> BlockTreatment:
    """How the blocks of a newly registered node are treated."""
    if message.kind == "source":
        return BlockTreatment.SOURCE
    trimmed = message.kind == "sink" and message.op in TRIMMING_OPS
    return BlockTreatment.TRIMMED if trimmed else BlockTreatment.ORDINARY


class CommitSummary(NamedTuple):
    """What a commit says of its task's blocks.

    ``blocks``: how many there are. ``row_limit``: rows of the sink's partition that count; None: all.
    ``is_undamaged``: nothing was lost before it was sent.
    """

    blocks: int
    row_limit: int | None
    is_undamaged: bool


def commit_summary_of(commit: Commit) -> CommitSummary:
    """The part of a commit that the linker needs later."""
    return CommitSummary(commit.blocks, commit.keep, not commit.undelivered and not commit.failed)


class AppState(LinkState, Protocol):
    """The state of one application during one batch of events.

    Writes are done when a method returns, except for visibility, counts and what waits: those
    change in :meth:`make_visible` and :meth:`finish`, when what they stand for has been sent. A batch that is given
    up before may be done again by another object, from its beginning.
    """

    def treatment_of(self, node: str) -> BlockTreatment | None:
        """How a node's blocks are treated; None while the node is not registered."""

    def register(self, node: str, treatment: BlockTreatment) -> None:
        """Store how a node's blocks are treated."""

    def set_commit_summary(self, task: TaskId, summary: CommitSummary) -> None:
        """Set what the next :meth:`commit` of the task stores with it."""

    def commit_summary(self, task: TaskId) -> CommitSummary | None:
        """The summary of the task's commit; None before it."""

    def hold(self, task: TaskId, block: BlockId, frame: bytes) -> None:
        """Keep a block as it came until its task's commit says how much of it counts."""

    def held_of(self, task: TaskId) -> Iterable[bytes]:
        """Frames that are held for a task at this call; some may have become visible since."""

    def end(self, totals: Totals) -> None:
        """Store the totals that the application announced at its end."""

    def unlinked_spaces(self) -> Collection[str]:
        """Spaces of which blocks of this batch are not linked, since too many others are, except those of opaque items."""

    def counts(self) -> Sequence[tuple[BlockId, int]]:
        """Unmatched positions of blocks that were counted in this batch."""

    def make_visible(self) -> None:
        """All that the batch linked is safe: its blocks are visible. They still wait."""

    def finish(self) -> bool:
        """All that the batch brought about is safe, seals among it: nothing of its blocks waits.

        True when the application has ended and all that it announced is linked: its state is then
        given up, after a while.
        """
