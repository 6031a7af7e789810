"""The spaces of a source's splits: in one text or list, as they travel to the workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lineage_emitter.worker.segment import Segment

EACH_RUN = "."
"""Ends the name of a source whose records come in another order each time that they are read."""

Spaces = Sequence[str] | str | None
"""Source space of each split, the node whose splits they are, or None: records name themselves."""


def space_of_split(spaces: Sequence[str] | str, split: int) -> str:
    """The space of one split; where each run numbers records again, its number is to follow."""
    if not isinstance(spaces, str):
        return spaces[split]
    tail = EACH_RUN if spaces.endswith(EACH_RUN) else ""
    return f"{spaces.removesuffix(EACH_RUN)}#{split}{tail}"


def read_split(segment: Segment, spaces: Sequence[str] | str, split: int) -> None:
    """The segment's first numbering numbers the records of a split."""
    space = space_of_split(spaces, split)
    if space.endswith(EACH_RUN):
        segment.numbering.add_range(0, f"{space}{segment.incarnation}", 0)
    else:
        segment.numbering.add_range(0, space, 0)
        segment.reads.append(segment.numbering)
