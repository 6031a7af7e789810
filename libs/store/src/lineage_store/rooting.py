"""Items that need no producer."""

from __future__ import annotations

from collections.abc import Collection

from lineage_core.address import SpaceKind, parse_space
from lineage_core.joining import may_be_root


def is_root(text: str, produced: bool, sources: Collection[str]) -> bool:
    """Whether items of a space need no producer. ``produced``: some visible block has one."""
    space = parse_space(text)
    if space.kind is SpaceKind.PARTITION and space.name in sources:
        return True
    return may_be_root(text) and (not produced or space.kind is SpaceKind.OPAQUE)
