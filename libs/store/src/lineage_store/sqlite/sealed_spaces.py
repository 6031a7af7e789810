"""Seals in the SQLite store: one a space, and whether it still holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lineage_core.contract.block import BlockId
from lineage_core.contract.sealing import Seal, seal_of
from lineage_core.linking.linker import Members

_ID = "block.node, block.partition, block.attempt, block.seq"
_PRODUCERS = (
    f"SELECT {_ID} FROM section JOIN block ON block.id = section.block WHERE section.space = ?"
)
_CONSUMERS = f"SELECT {_ID} FROM block WHERE in_space = ? AND in_low IS NOT NULL"


Query = Callable[..., list[Any]]
"""All rows of a statement with its values."""


def members_of(query: Query, space_row: int) -> Members:
    """The stored blocks that put out into a space, and those that read it."""
    producers, consumers = (
        [BlockId(*row) for row in query(statement, space_row)]
        for statement in (_PRODUCERS, _CONSUMERS)
    )
    return producers, consumers


def is_read(query: Query, space_row: int) -> bool:
    """Whether a stored block reads a space."""
    return bool(query(f"{_CONSUMERS} LIMIT 1", space_row))


def is_intact(query: Query, space_row: int, seal: Seal) -> bool:
    """Whether a space holds just the blocks that its seal is of."""
    return seal_of(seal.space, *members_of(query, space_row)) == seal
