"""Which messages of an application that has streams are stored as what differs from others."""

from __future__ import annotations

import sqlite3

from lineage_core.contract.message import Message, Recipe, Register
from lineage_store.folding import Body, FoldedBody, expanded_body, folded_body, packed_body
from lineage_store.sqlite.connection import has_rows

FOLDED_TYPES = frozenset(
    {
        "register", "link", "splits", "record_splits", "sink_files", "record_files", "stream", "recipe",
    }
)  # fmt: skip
"""Types of the messages of batches. Those of tasks (``commit``) and of life (``heartbeat``) are searched by what they say."""
BASES_MAX = 8
"""The latest messages of a type, of those that are stored as they are, that another is compared with: some for each query that runs."""


BODY = "message.body, base.body"
"""Columns of a stored message, from which `body_of` makes its body."""
WITH_BASE = "LEFT JOIN message base ON base.id = message.base"
"""Joins the message that another refers to."""


def body_of(body: str | bytes, base: str | bytes | None) -> Body:
    """A stored body, of the columns ``BODY``."""
    return FoldedBody(body, base) if isinstance(body, bytes) and base is not None else body


class Folding:
    """Folds the messages of one application; the caller holds a transaction."""

    def __init__(self, connection: sqlite3.Connection, app_id: int) -> None:
        self._db = connection
        self._app_id = app_id
        self._has_streams: bool | None = None

    def stored(self, message: Message, body: str) -> tuple[str | bytes, int | None]:
        """What is stored of a message, and the row of the message that this refers to; None: it is all of it.

        ``body``: its text.
        """
        whole = packed_body(body) if isinstance(message, Recipe) else body
        if not self._is_folded(message):
            return whole, None
        bases = self._db.execute(
            "SELECT message.id, message.body FROM message_base JOIN message ON message.id = message_base.message "
            "WHERE message_base.app = ? AND message_base.type = ? ORDER BY message_base.message DESC LIMIT ?",
            (self._app_id, message.type, BASES_MAX),
        )
        for row_id, base in bases.fetchall():
            folded = folded_body(body, expanded_body(base))
            if 2 * len(folded) <= len(whole):
                return folded, row_id
        return whole, None

    def add_base(self, message: Message, row_id: int) -> None:
        """A message was stored as it is: later ones may refer to it."""
        if self._is_folded(message):
            self._db.execute(
                "INSERT INTO message_base VALUES (?, ?, ?)", (self._app_id, message.type, row_id)
            )

    def remove(self, row_id: int) -> None:
        """Remove a message, to which none refers from then on."""
        rows = self._db.execute(
            "SELECT message.id, message.type, message.body, base.body FROM message "
            "JOIN message base ON base.id = message.base WHERE message.app = ? AND message.base = ?",
            (self._app_id, row_id),
        )
        for other, kind, folded, base in rows.fetchall():
            body = expanded_body(FoldedBody(folded, base))
            whole = packed_body(body) if kind == "recipe" else body
            self._db.execute(
                "UPDATE message SET body = ?, base = NULL WHERE id = ?", (whole, other)
            )
        self._db.execute(
            "DELETE FROM message_base WHERE app = ? AND message = ?", (self._app_id, row_id)
        )
        self._db.execute("DELETE FROM message WHERE id = ?", (row_id,))

    def _is_folded(self, message: Message) -> bool:
        if message.type not in FOLDED_TYPES:
            return False
        # Sources of records are searched by what they say.
        if isinstance(message, Register) and message.kind == "source":
            return False
        if message.type == "stream":
            self._has_streams = True
        elif self._has_streams is None:
            streams = "FROM message WHERE app = ? AND type = 'stream'"
            self._has_streams = has_rows(self._db, streams, self._app_id)
        return self._has_streams
