"""Replaces texts of stored blocks and recipes, within a transaction that the caller holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from lineage_core.codec.columns import pack_block, unpack_block
from lineage_core.contract.message import Message, Recipe
from lineage_store.port import Rewrite
from lineage_store.recipes import recipe_in
from lineage_store.sqlite.folding import BODY, WITH_BASE, Folding, body_of
from lineage_store.sqlite.writing import SqliteWriter


def erase_application(
    connection: sqlite3.Connection,
    app_id: int,
    app: str,
    rewrite: Rewrite,
    messages: Iterable[Message],
    now: float,
) -> int:
    """As :meth:`lineage_store.port.ErasableStore.erase`; ``app_id``: the row of the application."""
    replaced = 0
    rows = connection.execute("SELECT id FROM block WHERE app = ? ORDER BY id", (app_id,))
    for (row_id,) in rows.fetchall():
        ((data,),) = connection.execute(
            "SELECT data FROM block_columns WHERE block = ?", (row_id,)
        ).fetchall()
        block = rewrite(unpack_block(data))
        if block is not None:
            connection.execute(
                "UPDATE block_columns SET data = ? WHERE block = ?", (pack_block(block), row_id)
            )
            replaced += 1
    writer = SqliteWriter(connection, app, now)
    for message in messages:
        if isinstance(message, Recipe):
            _remove_recipes(connection, app_id, message)
        writer.message(message)
    return replaced


def _remove_recipes(connection: sqlite3.Connection, app_id: int, by: Recipe) -> None:
    """Remove the recipe of a node, if it is another than the one that takes its place."""
    rows = connection.execute(
        f"SELECT message.id, {BODY} FROM recipe JOIN message ON message.id = recipe.message {WITH_BASE} "
        "WHERE recipe.app = ? AND recipe.node = ?",
        (app_id, by.node),
    )
    for row_id, *stored in rows.fetchall():
        if recipe_in(body_of(*stored)) != by.recipe:
            Folding(connection, app_id).remove(row_id)
