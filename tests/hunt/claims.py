"""The three sentences that the hunt holds lineage to, and how a row says what it was made of.

*Exact* implies equal. *Superset* implies contained. *Complete* implies that no witness is missing and that no
output is without lineage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.oracle.brute import Witnesses

MARK = "\u241f"
"""Between the text of a row and the ids of its witnesses."""


@dataclass(frozen=True)
class Claim:
    """What a trace says of one output row. ``truth``: its witnesses, by the ids that the row carries."""

    row: str
    truth: Witnesses
    traced: Witnesses
    exact: bool

    def faults(self, *, complete: bool) -> Iterable[str]:
        """Each sentence that the claim breaks; where lineage is incomplete, rows may be missing."""
        lacking, foreign = self.truth - self.traced, self.traced - self.truth
        if foreign and self.exact:
            yield f"exact, and names {_some(foreign)} that did not go in: {self.row!r}"
        if lacking and complete:
            kind = "exact" if self.exact else "superset"
            yield f"{kind} and complete, and lacks {_some(lacking)}: {self.row!r}"


@dataclass
class Finding:
    """What came of an example. ``faults``: broken sentences; none where all is well.

    ``programs``: of the example, and ``harmed``: how many of them something happened to. ``struck``: what did, by name.
    """

    complete: bool
    rows: int = 0
    exact: int = 0
    programs: int = 1
    harmed: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    note: str = ""

    def hold(self, claims: Iterable[Claim]) -> Finding:
        """Hold each claim against the sentences."""
        for claim in claims:
            self.rows += 1
            self.exact += claim.exact
            self.faults += claim.faults(complete=self.complete)
        return self

    def lost(self, what: str) -> Finding:
        """An output without lineage: a fault only where lineage is said to be complete."""
        if self.complete:
            self.faults.append(f"complete, and {what}")
        return self

    def harmed_by(self, struck: Counter[str]) -> Finding:
        """Say what happened to the example's programs; nothing where all counts are 0."""
        self.struck.update(+struck)
        self.harmed = self.programs if self.struck.total() else 0
        return self

    @property
    def verdict(self) -> str:
        """In one word or two, for the log."""
        if self.faults:
            return "violated"
        return "complete" if self.complete else "incomplete"


class ViolationError(AssertionError):
    """A sentence is broken."""


def marked(text: str, ids: Iterable[str]) -> str:
    """The text of an output row that carries ids."""
    return f"{text}{MARK}{','.join(sorted(ids))}"


def truth_of(text: str) -> Witnesses:
    """The witnesses that an output row states.

    Raises:
        ValueError: it states none.
    """
    _, mark, ids = text.rpartition(MARK)
    if not mark:
        raise ValueError(f"{text!r} carries no ids")
    return frozenset(_witness(one) for one in ids.split(",") if one)


def _witness(text: str) -> tuple[str, int]:
    name, _, row = text.rpartition(":")
    return name, int(row)


def _some(witnesses: Witnesses) -> str:
    listed = sorted(witnesses)
    more = f" and {len(listed) - 4} more" if len(listed) > 4 else ""
    return ", ".join(f"{name}:{row}" for name, row in listed[:4]) + more
