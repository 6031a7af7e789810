"""Items that need no producer."""

from __future__ import annotations

from collections.abc import Collection

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.linking.joining import is_source_space, may_be_root


def is_root(text: str, produced: bool, sources: Collection[str]) -> bool:
    """Whether items of a space need no producer. ``produced``: some visible block has one."""
    if is_source_space(text, sources.__contains__):
        return True
    return may_be_root(text) and (not produced or parse_space(text).kind is SpaceKind.OPAQUE)
