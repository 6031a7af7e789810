"""Partitions that were computed twice, differently."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.message import Commit

RECOMPUTED = "recomputed differently"
"""Reason of flows that two committed attempts at one partition state differently."""
UNCOMMITTED = "an attempt at the same partition is there, but not its commit"
"""Reason of flows of two attempts at one partition while what one of them put out is not known."""
ROW_OF_ATTEMPT = "0#0.0"
"""A space of rows that an attempt numbered."""
NAMED = "by attempt"
"""Replaces the digest of attempts whose readers record which attempt's outputs they read."""


def attempt_digest(commit: Commit) -> str:
    """The text that differs between attempts at a partition if their outputs may differ."""
    return NAMED if commit.attempts_named else commit.digest


def may_differ(attempts: int, digests: Collection[str], in_space: str) -> bool:
    """Whether flows to keys of so many committed attempts at a partition may contradict each other.

    A digest covers how many records went to which key. That two attempts put out the same follows only
    where they read the same: rows of another attempt may be others, or come in another order.
    """
    if attempts < 2 or set(digests) == {NAMED}:
        return False
    return len(set(digests)) > 1 or parse_space(in_space).incarnation is not None


def merges_by_key(out_spaces: Iterable[str]) -> bool:
    """Whether flows of two attempts at one partition merge, so that the attempts must agree.

    Rows of an incarnation keep the attempts apart; flows by key merge.
    """
    return any(parse_space(space).kind is SpaceKind.KEYS for space in out_spaces)
