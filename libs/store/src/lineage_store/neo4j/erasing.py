"""Replaces texts of an application in Neo4j: some blocks a transaction, and its messages last."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import neo4j

from lineage_core.codec.columns import pack_block, unpack_block
from lineage_core.contract.message import Message, Recipe, dump_message
from lineage_core.tracing.budget import current_budget
from lineage_store.neo4j.connection import Connection
from lineage_store.neo4j.keys import message_key, prefix
from lineage_store.parts import in_parts
from lineage_store.port import Rewrite

if TYPE_CHECKING:
    from typing_extensions import LiteralString

BLOCKS_AT_ONCE = 32

_KEYS: Final[LiteralString] = """
MATCH (b:FlowBlock)
USING INDEX b:FlowBlock(id)
WHERE b.id STARTS WITH $prefix AND b.stub IS NULL
RETURN b.id
"""
_DATA: Final[LiteralString] = """
UNWIND $ids AS id
MATCH (b:FlowBlock {id: id})
RETURN b.id, b.data
"""
_REPLACE: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (b:FlowBlock {id: row.id})
SET b.data = row.data
"""
_REMOVE_RECIPES: Final[LiteralString] = """
UNWIND $rows AS row
MATCH (m:Message)
USING INDEX m:Message(app, recipe_of)
WHERE m.app = $app AND m.recipe_of = row.node AND m.id <> row.id
DETACH DELETE m
"""


def erase_blocks(connection: Connection, app: str, rewrite: Rewrite) -> int:
    """Replace blocks, visible or not; how many were."""
    replaced = 0
    keys = [block_key for (block_key,) in connection.read(_KEYS, prefix=prefix(app))]
    for part in in_parts(sorted(keys), BLOCKS_AT_ONCE):
        current_budget().check()
        rows = []
        for block_key, data in connection.read(_DATA, ids=list(part)):
            block = rewrite(unpack_block(data))
            if block is not None:
                rows.append({"id": block_key, "data": pack_block(block)})
        if rows:
            connection.write(partial(_run, _REPLACE, rows=rows))
            replaced += len(rows)
    return replaced


def remove_recipes(connection: Connection, app: str, messages: Iterable[Message]) -> None:
    """Remove recipes of the nodes that some messages bring others of, but for these."""
    rows = [
        {"node": message.node, "id": message_key(app, dump_message(message))}
        for message in messages
        if isinstance(message, Recipe)
    ]
    if rows:
        connection.write(partial(_run, _REMOVE_RECIPES, rows=rows, app=app))


def _run(statement: LiteralString, transaction: neo4j.ManagedTransaction, **values: Any) -> None:
    transaction.run(statement, values).consume()
