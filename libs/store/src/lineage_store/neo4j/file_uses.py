"""Which applications may know a file, in Neo4j."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

import neo4j

from lineage_core.contract.message import parse_message
from lineage_store.file_keys import FILE_MESSAGES, applications_by_folders, names_of
from lineage_store.neo4j.connection import Connection
from lineage_store.neo4j.rows import file_use_rows, parts
from lineage_store.neo4j.statements import FILE_USES
from lineage_store.paths import Spellings

MESSAGES_AT_ONCE = 200
"""Of older messages that get keys in one transaction."""

_KNOWING: Final[LiteralString] = """
CALL () {
    MATCH (f:FileUse)
    USING INDEX f:FileUse(name)
    WHERE f.name IN $names
    RETURN f.app AS app, f.folder AS folder
    UNION
    MATCH (m:Message)
    USING INDEX m:Message(type)
    WHERE m.type IN $types AND m.keyed IS NULL
    RETURN m.app AS app, '' AS folder
}
MATCH (a:Application {id: replace(replace(app, '%', '%25'), '|', '%7C')})
RETURN a.app, a.started_at, folder
"""

_WITHOUT_KEYS: Final[LiteralString] = """
MATCH (m:Message)
USING INDEX m:Message(type)
WHERE m.type IN $types AND m.keyed IS NULL
RETURN m.id, m.body LIMIT $limit
"""

_KEYED: Final[LiteralString] = """
UNWIND $ids AS id
MATCH (m:Message {id: id})
SET m.keyed = true
"""


def applications_knowing(connection: Connection, path: str, spellings: Spellings) -> Sequence[str]:
    """As :meth:`lineage_store.port.GraphStore.applications_knowing`."""
    names = list(names_of(path, spellings).values())
    rows = connection.read(_KNOWING, names=names, types=list(FILE_MESSAGES))
    return applications_by_folders(rows, path, spellings)


def add_keys(connection: Connection) -> None:
    """Give messages that an older program stored the keys of their files. May be interrupted and repeated."""

    def add(transaction: neo4j.ManagedTransaction) -> bool:
        stored_messages = transaction.run(
            _WITHOUT_KEYS, types=list(FILE_MESSAGES), limit=MESSAGES_AT_ONCE
        )
        messages = {row["m.id"]: parse_message(row["m.body"]) for row in stored_messages}
        rows = [row for message in messages.values() for row in file_use_rows(message)]
        for part in parts({row["id"]: row for row in rows}.values()):
            transaction.run(FILE_USES, rows=part).consume()
        transaction.run(_KEYED, ids=list(messages)).consume()
        return bool(messages)

    while connection.write(add):
        pass
