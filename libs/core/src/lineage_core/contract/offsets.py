"""Ranges of offsets of a topic of Kafka as text: ``0:5-9 1:0-7`` are the offsets 5 to 8 of partition 0 and 0 to 6 of partition 1."""

from __future__ import annotations

import re
from collections.abc import Mapping

OFFSETS = re.compile(r"\d{1,9}:\d{1,18}-\d{1,18}( \d{1,9}:\d{1,18}-\d{1,18})*", re.ASCII)
"""What such a text is."""


def parse_offsets(text: str) -> dict[int, tuple[int, int]]:
    """Read ranges.

    Args:
        text: as `OFFSETS` has it.

    Returns:
        By partition the first offset and the one behind the last; of several ranges of a partition, those of all.
    """
    ranges: dict[int, tuple[int, int]] = {}
    for part in text.split():
        partition, _, offsets = part.partition(":")
        first, _, end = offsets.partition("-")
        known = ranges.get(int(partition), (int(first), int(end)))
        ranges[int(partition)] = min(known[0], int(first)), max(known[1], int(end))
    return ranges


def offsets_text(ranges: Mapping[int, tuple[int, int]]) -> str:
    """Ranges as text, without those that hold no offset.

    Args:
        ranges: by partition the first offset and the one behind the last.

    Returns:
        The text; empty: no range holds an offset.
    """
    return " ".join(
        f"{partition}:{first}-{end}"
        for partition, (first, end) in sorted(ranges.items())
        if end > first
    )
