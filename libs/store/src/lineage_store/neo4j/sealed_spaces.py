"""Seals in the Neo4j store: one a space, and whether it still holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from lineage_core.contract.sealing import Seal, seal_of
from lineage_store.neo4j.connection import Reads
from lineage_store.neo4j.keys import app_key, block_of, key, prefix
from lineage_store.parts import in_parts

if TYPE_CHECKING:
    from typing_extensions import LiteralString

SPACES_AT_ONCE = 64
"""Spaces whose blocks are compared with their seals at a time."""

_SEALS: Final[LiteralString] = """
MATCH (s:FlowSpace)
USING INDEX s:FlowSpace(id)
WHERE s.id STARTS WITH $prefix AND s.seal IS NOT NULL
RETURN s.space, s.seal ORDER BY s.space
"""

_SEALED: Final[LiteralString] = """
UNWIND $spaces AS id
MATCH (f:FlowSpace {id: id})
WHERE f.seal IS NOT NULL
RETURN f.space, f.seal, COLLECT {
    MATCH (s:FlowSection)
    USING INDEX s:FlowSection(app, space, low)
    WHERE s.app = $app AND s.space = f.space AND s.low IS NOT NULL
    MATCH (p:FlowBlock {id: s.block})
    WHERE p.visible
    RETURN p.id
}, COLLECT {
    MATCH (c:FlowBlock)
    USING INDEX c:FlowBlock(app, in_space, in_low)
    WHERE c.app = $app AND c.in_space = f.space AND c.in_low IS NOT NULL AND c.visible
    RETURN c.id
}
"""

_EPOCHS: Final[LiteralString] = """
MATCH (a:Application {id: $id})
RETURN size(coalesce(a.epochs, []))
"""


def seals_of(connection: Reads, app: str) -> list[Seal]:
    """All seals of an application, whether they still hold or not, in order of their spaces."""
    rows = connection.read(_SEALS, prefix=prefix(app))
    return [Seal.from_text(*row) for row in rows]


def sealed_spaces(connection: Reads, app: str, spaces: Iterable[str]) -> Iterator[str]:
    """The spaces among some that hold exactly the blocks of their seals."""
    space_keys = (key(app, space) for space in spaces)
    for part in in_parts(space_keys, SPACES_AT_ONCE):
        for space, text, *sides in connection.read(_SEALED, app=app, spaces=part):
            producers, consumers = (map(block_of, side) for side in sides)
            if seal_of(space, producers, consumers) == Seal.from_text(space, text):
                yield space


def count_unsealed(connection: Reads, app: str) -> int:
    """How many spaces have a seal that does not hold, where several states of linking made them.

    While one state makes all links, what is not sealed is on its way.
    """
    ((epochs,),) = connection.read(_EPOCHS, id=app_key(app))
    if epochs < 2:
        return 0
    spaces = [seal.space for seal in seals_of(connection, app)]
    return len(spaces) - len(list(sealed_spaces(connection, app, spaces)))
