"""Partitions that were computed twice, differently."""

from __future__ import annotations

from collections.abc import Iterable

from lineage_core.address import SpaceKind, parse_space

RECOMPUTED = "recomputed differently"
"""Reason of flows that two committed attempts at one partition state differently."""


def merges_by_key(in_space: str, out_spaces: Iterable[str]) -> bool:
    """Whether flows of two attempts at one partition merge, so that the attempts must agree.

    Rows of an incarnation keep the attempts apart; only flows by key merge.
    """
    return parse_space(in_space).incarnation is None and any(
        parse_space(space).kind is SpaceKind.KEYS for space in out_spaces
    )
