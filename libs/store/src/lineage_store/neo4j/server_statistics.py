"""Statistics of a Neo4j server, as far as all editions report them over its own protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.neo4j.connection import Connection

if TYPE_CHECKING:
    from typing_extensions import LiteralString

# Each count alone is read off Neo4j's own statistics, in constant time.
_NODES: Final[Mapping[str, LiteralString]] = {
    "Application": "MATCH (n:Application) RETURN count(n)",
    "LineageNode": "MATCH (n:LineageNode) RETURN count(n)",
    "FlowBlock": "MATCH (n:FlowBlock) RETURN count(n)",
    "FlowSection": "MATCH (n:FlowSection) RETURN count(n)",
    "Message": "MATCH (n:Message) RETURN count(n)",
}
_RELATIONSHIPS: Final[LiteralString] = "MATCH ()-[r]->() RETURN count(r)"
_TRANSACTIONS: Final[LiteralString] = "SHOW TRANSACTIONS YIELD transactionId AS id RETURN count(id)"
_HEAP: Final[LiteralString] = """
CALL dbms.queryJmx('java.lang:type=Memory') YIELD attributes
WITH attributes.HeapMemoryUsage.value.properties AS heap
RETURN heap.used, heap.max
"""


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    """What is in a Neo4j, and how busy it is.

    ``nodes``: by label. ``transactions``: open ones, without that of this query. ``heap_bytes`` and
    ``heap_bytes_max``: 0 if the user may not read them.
    """

    nodes: Mapping[str, int]
    relationships: int
    transactions: int
    heap_bytes: int
    heap_bytes_max: int


def read_server_statistics(connection: Connection) -> ServerStatistics:
    """Ask.

    Raises:
        StoreError: the store can't be read.
    """
    nodes = {label: _number(connection, query) for label, query in _NODES.items()}
    relationships = _number(connection, _RELATIONSHIPS)
    transactions = _number(connection, _TRANSACTIONS) - 1
    return ServerStatistics(nodes, relationships, max(transactions, 0), *_heap(connection))


def _number(connection: Connection, query: LiteralString) -> int:
    return int(connection.read(query)[0][0])


def _heap(connection: Connection) -> tuple[int, int]:
    try:
        ((used, most),) = connection.read(_HEAP)
    except StoreUnavailableError:
        raise
    except StoreError:
        # Enterprise returns it to administrators only, hosted servers to no user.
        return 0, 0
    return int(used), int(most)
