"""Seals in the SQLite store: one a space, and whether it still holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lineage_core.contract.block import BlockId
from lineage_core.contract.sealing import Seal, seal_of
from lineage_core.linking.linker import Members
from lineage_store.sqlite.connection import Query

_ID = "block.node, block.partition, block.attempt, block.seq"
_PRODUCERS = (
    f"SELECT {_ID} FROM section JOIN block ON block.id = section.block WHERE section.space = ?"
)
_CONSUMERS = f"SELECT {_ID} FROM block WHERE in_space = ? AND in_low IS NOT NULL"


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


def seals_of(query: Query, app_id: int) -> list[Seal]:
    """All seals of an application, whether they still hold or not, in order of their spaces."""
    rows = query("SELECT text, seal FROM space WHERE app = ? AND seal <> '' ORDER BY text", app_id)
    return [Seal.from_text(*row) for row in rows]


def sealed_spaces(query: Query, app_id: int, spaces: Iterable[str]) -> Iterator[str]:
    """The spaces among some that hold exactly the blocks of their seals."""
    for space in spaces:
        rows = query(
            "SELECT id, seal FROM space WHERE app = ? AND text = ? AND seal <> ''", app_id, space
        )
        for space_row, text in rows:
            seal = Seal.from_text(space, text)
            if seal_of(space, *members_of(query, space_row)) == seal:
                yield space
