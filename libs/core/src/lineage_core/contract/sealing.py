"""Seals: which blocks of a space were joined with each other, by count and digest.

Stored edges record which blocks share items, and do not prove that no others do: after the linker's state is lost
or restored from an older copy, edges are missing. A seal names the blocks that one state holds of a
space; of any two of them the later one was joined with the earlier one when it became visible, and its
edges were stored before it. Only where these are exactly the blocks that a store has of the space do edges
show which blocks need not be loaded (docs/adr/0002).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.block import BlockId
from lineage_core.errors import ContractError

_MODULUS = 1 << 64
_TEXT = re.compile(r"([0-9]{1,19}) ([0-9]{1,19}) ([0-9a-f]{16})")
_CONSUMER_FACTOR = 0x9E3779B97F4A7C15
"""Odd: what a block counts for as a consumer, so that it is not taken for itself as a producer."""


@dataclass(frozen=True, slots=True)
class Seal:
    """The visible blocks of a space that were joined with each other.

    ``digest``: of their ids and sides, 0 to 2**64 - 1.
    """

    space: str
    producers: int
    consumers: int
    digest: int

    @property
    def size(self) -> int:
        """Sides of blocks: of several seals of one space, which grows, the largest is the latest."""
        return self.producers + self.consumers

    def to_text(self) -> str:
        """All but the space."""
        return f"{self.producers} {self.consumers} {self.digest:016x}"

    @classmethod
    def from_text(cls, space: str, text: str) -> Seal:
        """Read what :meth:`to_text` gave.

        Raises:
            ContractError: it did not.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ContractError(
                f"{text!r:.80} is not a seal (like 12 7 00ff00ff00ff00ff)", where=space
            )
        producers, consumers, digest = match.groups()
        return cls(space, int(producers), int(consumers), int(digest, 16))


def seal_of(space: str, producers: Iterable[BlockId], consumers: Iterable[BlockId]) -> Seal:
    """The seal over some blocks, each named once a side."""
    producer_hashes, consumer_hashes = (
        [_hash_of(block) for block in producers],
        [_hash_of(block) for block in consumers],
    )
    digest = (sum(producer_hashes) + _CONSUMER_FACTOR * sum(consumer_hashes)) % _MODULUS
    return Seal(space, len(producer_hashes), len(consumer_hashes), digest)


@lru_cache(maxsize=1 << 16)  # called for every space of every block
def is_sealed(space: str) -> bool:
    """Whether seals are made for a space: one whose positions come in no order."""
    return parse_space(space).kind in (SpaceKind.KEYS, SpaceKind.OPAQUE)


@lru_cache(maxsize=1 << 16)
def _hash_of(block: BlockId) -> int:
    return int.from_bytes(blake2b(str(block).encode(), digest_size=8).digest(), "big")
