"""How far the lineage of streaming queries is complete, while they run and afterwards."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from lineage_core.contract.message import Message, Register, Stream

StreamState: TypeAlias = Literal["running", "over", "lost"]
ID_CHARS = 8
"""Of the ids of queries that are shown to people."""


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """A run of a streaming query.

    ``state``: ``lost``: what comes of it is not recorded. ``committed``: the last batch that is known to be committed; -1: none.
    ``complete_to``: of all batches that it has run under capture, up to this one, the lineage is complete; -1: of none; None: not known. ``reason``: why it is lost.
    """

    query: str
    run: str
    state: StreamState
    committed: int
    complete_to: int | None
    reason: str = ""

    @property
    def text(self) -> str:
        """For people."""
        if self.complete_to is None:
            complete = "how far it is complete is not known"
        elif self.complete_to < 0:
            complete = "complete up to no batch"
        else:
            complete = f"complete up to batch {self.complete_to}"
        committed = "" if self.complete_to == self.committed else f" of {self.committed}"
        text = f"query {self.query[:ID_CHARS]}: {complete}{committed} ({self.state})"
        return f"{text}: {self.reason}" if self.reason else text


@dataclass(slots=True)
class StreamRuns:
    """The runs of an application, from its messages in their order."""

    _runs: dict[tuple[str, str], tuple[Stream, int]] = field(default_factory=dict)
    """The latest message of each run, and how many frames were registered before it."""
    _frames: list[str] = field(default_factory=list)

    def add(self, message: Message) -> None:
        """Take the next message."""
        if isinstance(message, Register):
            if message.kind == "frame":
                self._frames.append(message.node)
        elif isinstance(message, Stream):
            known = self._runs.get((message.query, message.run))
            # What it reads is said once more when it has begun, and any message may come twice.
            if known is None or _order(message) >= _order(known[0]):
                self._runs[message.query, message.run] = message, len(self._frames)

    def progress(self, recipes: Collection[str], *, is_whole: bool) -> tuple[StreamProgress, ...]:
        """How far each run is.

        Args:
            recipes: nodes whose recipes the store has.
            is_whole: whether nothing is known to be missing of what was sent.
        """
        missing = [place for place, node in enumerate(self._frames) if node not in recipes]
        first_missing = missing[0] if missing else len(self._frames)
        return tuple(self._progress(first_missing, is_whole))

    def _progress(self, first_missing: int, is_whole: bool) -> Iterator[StreamProgress]:
        for message, frames in self._runs.values():
            has_all = is_whole and first_missing >= frames
            complete_to = message.complete_to if has_all else None
            if message.state in ("started", "begun"):
                complete_to = -1
            yield StreamProgress(
                query=message.query,
                run=message.run,
                state=_state(message),
                committed=message.number,
                complete_to=complete_to,
                reason=message.reason,
            )


def _order(message: Stream) -> tuple[int, int]:
    phase = {"started": 0, "begun": 0, "batch": 1, "over": 2, "lost": 2}[message.state]
    return phase, message.number


def _state(message: Stream) -> StreamState:
    if message.state in ("over", "lost"):
        return "lost" if message.state == "lost" else "over"
    return "running"
