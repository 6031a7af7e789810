"""How many blocks of a space are linked with each other: a bound of the work that an application may cause."""

from __future__ import annotations

from collections.abc import Collection

from redis import Redis

from lineage_linker.keys import Keys

IN, OUT = "in", "out"
SPACE_PAIRS_MAX = 1 << 22
"""Pairs of a block that puts out into a space and one that reads it: a shuffle of 2,000 by 2,000 tasks. Each is looked at."""
MARK_BYTES_MAX = 32 << 20
"""Bytes of the marks of one side of a space, which are read together, were all as long as the longest."""


class SpaceSizes:
    """The sizes of spaces as read in this batch: another worker may add some blocks meanwhile.

    Args:
        keys: of the application.
        pairs_max: number of pairs of producers and consumers of a space beyond which no block is added to it.
    """

    def __init__(self, keys: Keys, pairs_max: int) -> None:
        self.unlinked: set[str] = set()
        """Spaces of which a block of this batch is not linked."""
        self._keys = keys
        self._pairs_max = pairs_max
        self._sizes: dict[tuple[str, str], int] = {}
        self._full: set[str] = set()

    def read(self, redis: Redis, spaces: Collection[str]) -> None:
        """Read what is not known yet of some spaces."""
        missing = [space for space in spaces if (IN, space) not in self._sizes]
        if not missing:
            return
        with redis.pipeline(transaction=False) as pipe:
            for space in missing:
                pipe.hlen(self._keys.marks(IN, space))
                pipe.hlen(self._keys.marks(OUT, space))
                pipe.sismember(self._keys.unlinked, space)
            replies = iter(pipe.execute())
        for space in missing:
            self._sizes[IN, space], self._sizes[OUT, space] = next(replies), next(replies)
            if next(replies):
                # For good: of a space of which some blocks are not linked no others are either.
                self._full.add(space)

    def take(self, role: str, space: str, mark_bytes: int) -> bool:
        """Count a block's side in a space, or say that it is not to be linked."""
        own = self._sizes[role, space] + 1
        other = self._sizes[OUT if role == IN else IN, space]
        is_full = own * other > self._pairs_max or own * mark_bytes > MARK_BYTES_MAX
        if is_full or space in self._full:
            self._full.add(space)
            self.unlinked.add(space)
            return False
        self._sizes[role, space] = own
        return True
