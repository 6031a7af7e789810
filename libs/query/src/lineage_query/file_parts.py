"""Parts of files: runs of bytes, which answers list in the place of single items.

The items of a file whose bytes programs named (``LineageApi.location``) are these bytes. Nobody lists them one by one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lineage_core.contract.address import split_range
from lineage_core.contract.positions import is_file_node
from lineage_core.contract.region import Region
from lineage_core.errors import AddressError
from lineage_query.rows.places import Location, parse_place, part_of_file

PARTS_NAMED = 3
"""Runs of bytes that a reason names."""


def part_address(space: str, first: int, last: int) -> str:
    """The address of a part. ``space``: as answers show it."""
    return f"{space}#{first}" if first == last else f"{space}#{first}-{last}"


def region_of_parts(addresses: Iterable[str]) -> Region:
    """The bytes that addresses of parts name.

    Raises:
        AddressError: one is none.
    """
    ends = np.array([split_range(address)[1:] for address in addresses], np.uint64).reshape(-1, 2)
    return Region.of_runs(ends[:, 0], ends[:, 1])


def location_of_part(address: str, location: str) -> Location | None:
    """Where a part lies; None: the address is of no part of a file."""
    try:
        space, first, last = split_range(address)
    except AddressError:
        return None
    if not is_file_node(space.rpartition("#")[0]):
        return None
    return part_of_file(parse_place(location).path, first, last)


def listed_count(node: str, region: Region) -> int:
    """As how many items answers list a region of a node."""
    return region.runs if is_file_node(node) else region.count


def listed_slice(node: str, region: Region, offset: int, limit: int) -> Region:
    """The part of a region that is some of these items, from the ``offset``-th on."""
    if not is_file_node(node):
        return region.slice(offset, limit)
    return Region(region.first[offset : offset + limit], region.last[offset : offset + limit])


def bytes_text(region: Region) -> str:
    """Bytes in words."""
    named = ", ".join(
        f"{first:,} to {last:,}" if first != last else f"{first:,}"
        for first, last in list(region)[:PARTS_NAMED]
    )
    more = region.runs - PARTS_NAMED
    return f"bytes {named}" + (f" and {more:,} other parts" if more > 0 else "")
