"""All items of a node, page by page, and those whose text holds something.

Users know the text of a row, not its position. A search reads a limited number of items a call, and
returns the cursor at which the next call continues.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lineage_core.contract.address import parse_space
from lineage_core.contract.graph import BlockRef
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import NodeItems
from lineage_query.answers import Item, order_of
from lineage_query.blocks import iter_blocks, output_region
from lineage_query.file_parts import listed_count, listed_slice
from lineage_query.rows.cut_texts import is_cut
from lineage_query.rows.file_status import FileStatus, worst
from lineage_query.snapshot import ApplicationSnapshot

POSITION_MAX = 2**64 - 1
SCAN_AT_ONCE = 2_000
"""Items whose texts are read in one batch."""
SCANNED_MAX = 200_000
"""Maximum number of items whose texts one call reads."""
SCAN_S_MAX = 1.0
"""Seconds after which a search call stops, and returns the matches so far."""
CACHED_REGIONS_MAX = 4_096
_CURSOR = re.compile(r"(\d{1,9})\.(\d{1,19})")


class CursorError(LineageError):
    """A cursor that no page gave."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some items of a node.

    ``count``: of all its items. ``following``: the cursor of the next page; None on the last page.
    ``scanned``: items read for this page. ``file_status``: the worst status of their files.
    ``cut``: the number of items without a match whose text is longer than the part that the search read: the rest may
    match.
    """

    count: int
    items: tuple[Item, ...]
    following: str | None
    scanned: int
    file_status: FileStatus = "same"
    cut: int = 0


class Listing:
    """Items of the nodes of one application. May be shared by threads."""

    def __init__(self, opened: ApplicationSnapshot) -> None:
        self.opened = opened
        self._regions: OrderedDict[str, Region] = OrderedDict()
        self._partitions: dict[str, dict[int, int | None]] = {}

    def has_items(self, node: str) -> bool:
        """Whether a node keeps items that can be listed."""
        return bool(self.spaces(node))

    def spaces(self, node: str) -> list[str]:
        """The spaces of a node's items, in the order of partitions."""
        partitions = self._partitions_of(node)
        if partitions:
            return [f"{node}#{partition}" for partition in sorted(partitions)]
        return sorted(self.opened.graph.spaces_of(node), key=order_of)

    def items(self, node: str, partition: int | None = None) -> NodeItems:
        """All items of a node, or of one partition of it."""
        spaces = [
            space
            for space in self.spaces(node)
            if partition is None or parse_space(space).partition == partition
        ]
        return NodeItems(node, {space: self.region(space) for space in spaces})

    def page(
        self,
        node_items: NodeItems,
        limit: int,
        *,
        cursor: str | None = None,
        contains: str = "",
        texts: bool = True,
    ) -> Page:
        """Items from a cursor on (None: the first), just those whose text holds ``contains``.

        Raises:
            CursorError: no page of these items gave the cursor.
        """
        spaces = list(node_items.spaces)
        at, offset = _position_of(cursor, len(spaces))
        deadline = time.monotonic() + SCAN_S_MAX
        items: list[Item] = []
        scanned = cut = 0
        file_statuses: set[FileStatus] = set()
        composer = self.opened.composer()
        while at < len(spaces):
            region = node_items.spaces[spaces[at]]
            if offset >= listed_count(node_items.node, region):
                at, offset = at + 1, 0
                continue
            if len(items) >= limit or scanned >= SCANNED_MAX or time.monotonic() > deadline:
                break
            count = SCAN_AT_ONCE if contains else limit - len(items)
            part = NodeItems(
                node_items.node, {spaces[at]: listed_slice(node_items.node, region, offset, count)}
            )
            group = composer.group(part, None, texts=texts or bool(contains))
            file_statuses.add(group.file_status)
            for item in group.items:
                offset += 1
                scanned += 1
                if not contains or contains in (item.text or ""):
                    items.append(item)
                    if len(items) >= limit:
                        break
                else:
                    cut += is_cut(item.text)
        following = f"{at}.{offset}" if at < len(spaces) else None
        return Page(node_items.count, tuple(items), following, scanned, worst(file_statuses), cut)

    def region(self, space: str) -> Region:
        """The positions of the items of one space."""
        region = self._regions.get(space)
        if region is None:
            region = self._regions[space] = self._region(space)
            while len(self._regions) > CACHED_REGIONS_MAX:
                self._regions.popitem(last=False)
        return region

    def _region(self, space: str) -> Region:
        parsed = parse_space(space)
        if parsed.incarnation is None:
            rows = self._partitions_of(parsed.name).get(parsed.partition)
            if rows is not None:
                last = np.array([rows - 1] if rows else [], np.uint64)
                return Region(np.zeros(len(last), np.uint64), last)
        graph = self.opened.graph
        put_out = output_region(graph, space, graph.blocks_into(space, 0, POSITION_MAX))
        # The items of a source are inputs of the blocks that read it, and outputs of none.
        return put_out or self._inputs(graph.blocks_from(space, 0, POSITION_MAX))

    def _partitions_of(self, node: str) -> dict[int, int | None]:
        """Rows of each partition of a node, found once: a node may have very many."""
        if node not in self._partitions:
            self._partitions[node] = self.opened.locations.partitions(node)
        return self._partitions[node]

    def _inputs(self, refs: Sequence[BlockRef]) -> Region:
        regions: list[Region] = []
        for block in iter_blocks(self.opened.graph, (ref.block_id for ref in refs)):
            last = block.in_first if block.in_last is None else block.in_last
            regions.append(Region.of_runs(block.in_first, last))
        return Region.union(regions)


def _position_of(cursor: str | None, spaces: int) -> tuple[int, int]:
    if cursor is None:
        return 0, 0
    match = _CURSOR.fullmatch(cursor)
    if match is None or int(match[1]) >= max(spaces, 1) or int(match[2]) > POSITION_MAX:
        raise CursorError(f"cursor {cursor!r:.40} was not given by a page of these items")
    return int(match[1]), int(match[2])
