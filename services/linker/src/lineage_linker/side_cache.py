"""Sides that were read before: a block's columns never change, so they need not come again."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

from lineage_core.contract.block import BlockId
from lineage_core.linking.joining import Side

_Key: TypeAlias = tuple[str, str, str, BlockId]
OVERHEAD = 512
"""Bytes that a side takes beyond its columns."""


class SideCache:
    """The sides used last, within a bound of bytes; for one thread."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sides: OrderedDict[_Key, Side] = OrderedDict()
        self.nbytes = 0

    def get(self, app: str, role: str, space: str, block: BlockId) -> Side | None:
        """A side, if it is here; it is then the last to go."""
        key = (app, role, space, block)
        side = self._sides.get(key)
        if side is not None:
            self._sides.move_to_end(key)
        return side

    def put(self, app: str, role: str, space: str, block: BlockId, side: Side) -> None:
        """Keep a side."""
        key = (app, role, space, block)
        if key not in self._sides:
            self.nbytes += side.nbytes + OVERHEAD
        self._sides[key] = side
        while self.nbytes > self._bytes_max:
            _, evicted = self._sides.popitem(last=False)
            self.nbytes -= evicted.nbytes + OVERHEAD
