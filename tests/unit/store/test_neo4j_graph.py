"""What is asked of Neo4j at a time, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from lineage_core.contract.block import BlockId
from lineage_core.contract.sealing import Seal, seal_of
from lineage_store.neo4j import sealed_spaces
from lineage_store.neo4j.graph import Neo4jGraph
from lineage_store.neo4j.keys import key

pytestmark = pytest.mark.unit

APP = "app-1"
PRODUCER, CONSUMER = BlockId("2", 0, 1, 0), BlockId("3", 0, 2, 0)


class Sealed:
    """A connection to a store in which each space has a producer and a consumer; the first lost its seal."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def read(self, _: str, *, app: str, spaces: list[str]) -> list[list[Any]]:
        self.asked.append(len(spaces))
        return [
            [space, self.seal(space).to_text(), [key(app, PRODUCER)], [key(app, CONSUMER)]]
            for space in (one.partition("|")[2] for one in spaces)
        ]

    @staticmethod
    def seal(space: str) -> Seal:
        return seal_of(space, [PRODUCER], [] if space == "2@0" else [CONSUMER])


def test_seals_are_compared_some_at_a_time() -> None:
    connection = Sealed()
    spaces = [f"2@{part}" for part in range(2 * sealed_spaces.SPACES_AT_ONCE + 1)]
    graph = Neo4jGraph(connection, APP)  # type: ignore[arg-type]
    assert graph.sealed(spaces) == spaces[1:]
    assert connection.asked == [sealed_spaces.SPACES_AT_ONCE] * 2 + [1]
