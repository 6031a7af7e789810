"""What a verification of an erasure says: what is left, and what could not be looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

LISTED_MAX = 10_000
"""Things that are listed; the others are counted."""


@dataclass(frozen=True, slots=True)
class Left:
    """Something of the subject that is there. ``where``: a place, an application or a file; ``why``: how that is known."""

    kind: str
    where: str
    why: str


@dataclass(slots=True)
class Verified:
    """``left``: what is there. ``unseen``: what could not be looked at, and why. ``rows_read``: of outputs."""

    digest: str
    left: dict[Left, None] = field(default_factory=dict)
    unseen: dict[str, None] = field(default_factory=dict)
    rows_read: int = 0
    more: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing is left, and all could be looked at."""
        return not self.left and not self.unseen

    def add(self, kind: str, where: str, why: str) -> None:
        """Note something that is left."""
        if len(self.left) < LISTED_MAX:
            self.left[Left(kind, where, why)] = None
        else:
            self.more += 1

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {
            "plan": self.digest,
            "clean": self.clean,
            "left": [asdict(left) for left in self.left],
            "unseen": list(self.unseen),
            "rows_read": self.rows_read,
            "more": self.more,
        }

    def lines(self) -> Iterator[str]:
        """For people."""
        if self.clean:
            yield f"clean: nothing is left, by trace and in {self.rows_read:,} rows that were read"
            return
        if self.left:
            yield f"{len(self.left) + self.more:,} left"
            yield from (f"  {left.where}: {left.kind}, {left.why}" for left in self.left)
            if self.more:
                yield f"  ... and {self.more:,} more"
        if self.unseen:
            yield "could not be looked at"
            yield from (f"  {reason}" for reason in self.unseen)
