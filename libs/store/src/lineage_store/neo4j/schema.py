"""Constraints and indexes of the Neo4j store, one step a version.

A node ``(:LineageSchema)`` holds the version. One process at a time changes the schema: the others wait for its lock on the
nodes ``(:LineageMigration)``. Every statement may be repeated, so the next one goes on where a process ended in the middle.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from neo4j import exceptions

from lineage_store.errors import StoreError
from lineage_store.neo4j.connection import Connection
from lineage_store.neo4j.recorded_files import add_files

if TYPE_CHECKING:
    from typing_extensions import LiteralString

ATTEMPTS = 20
"""Tries of one statement while other processes change the schema too."""
PAUSE_S = 0.05
STATEMENT_S = 60
"""When the server ends a statement that makes an index or a constraint. Those of constraints wait for an index over a label that
is new, so for moments."""
LOCK_S = 3_600
"""How long one process may keep the others waiting."""
ONLINE_S = 300
"""How long new indexes may take to be filled."""

_VERSION_1: Sequence[LiteralString] = (
    "CREATE CONSTRAINT lineage_application IF NOT EXISTS FOR (n:Application) REQUIRE n.id IS UNIQUE",
    "CREATE CONSTRAINT lineage_node IF NOT EXISTS FOR (n:LineageNode) REQUIRE n.id IS UNIQUE",
    "CREATE CONSTRAINT lineage_block IF NOT EXISTS FOR (n:FlowBlock) REQUIRE n.id IS UNIQUE",
    "CREATE CONSTRAINT lineage_task IF NOT EXISTS FOR (n:Task) REQUIRE n.id IS UNIQUE",
    "CREATE CONSTRAINT lineage_message IF NOT EXISTS FOR (n:Message) REQUIRE n.id IS UNIQUE",
    "CREATE CONSTRAINT lineage_problem IF NOT EXISTS FOR (n:Problem) REQUIRE n.id IS UNIQUE",
    "CREATE CONSTRAINT lineage_offset IF NOT EXISTS FOR (n:KafkaOffset) REQUIRE n.id IS UNIQUE",
    "CREATE INDEX lineage_block_in IF NOT EXISTS FOR (n:FlowBlock) ON (n.app, n.in_space, n.in_low)",
    "CREATE INDEX lineage_block_task IF NOT EXISTS FOR (n:FlowBlock) ON (n.task)",
    "CREATE INDEX lineage_section IF NOT EXISTS FOR (n:FlowSection) ON (n.app, n.space, n.low)",
    "CREATE INDEX lineage_message_type IF NOT EXISTS FOR (n:Message) ON (n.app, n.type)",
)

_VERSION_2: Sequence[LiteralString] = (
    "CREATE CONSTRAINT lineage_record_flow IF NOT EXISTS FOR (n:LineageFlow) "
    "REQUIRE (n.applicationId, n.flowId) IS UNIQUE",
    "CREATE CONSTRAINT lineage_record_node IF NOT EXISTS FOR (n:LineageNodeEntity) "
    "REQUIRE (n.applicationId, n.nodeId) IS UNIQUE",
    "CREATE INDEX lineage_record_in IF NOT EXISTS FOR (n:LineageFlow) ON (n.applicationId, n.hashIn)",
    "CREATE INDEX lineage_record_out IF NOT EXISTS FOR (n:LineageFlow) ON (n.applicationId, n.hashOut)",
)
"""For the record-level view (docs/adr/0010)."""

_VERSION_3: Sequence[LiteralString] = (
    "CREATE INDEX lineage_recipe IF NOT EXISTS FOR (n:Message) ON (n.app, n.recipe_of)",
)
"""For recipes of DataFrames: such messages have ``packed`` (compressed) instead of ``body``."""

_VERSION_4: Sequence[LiteralString] = (
    "MATCH (s:FlowSection) WHERE s.space =~ '[^*].*@[0-9]+' "
    "CALL (s) { MATCH (b:FlowBlock {id: s.block}) WHERE b.exact "
    "MATCH (t:Task {id: b.task}) WHERE size(t.attempts) > 1 AND b.attempt IN t.attempts "
    "AND (size(t.digests) > 1 OR b.in_space =~ '.*#[0-9]+[.][0-9]+') "
    "SET b.exact = false, b.merges = true, b.reason = 'recomputed differently' "
    "} IN TRANSACTIONS OF 5000 ROWS",
)
"""Flows by key of partitions that were computed twice: no record says which attempt's were read, and rows
that an attempt numbered were taken for those of every other. Once over all sections, as no index finds those
of a block."""

_VERSION_5: Sequence[LiteralString] = (
    "CREATE CONSTRAINT lineage_space IF NOT EXISTS FOR (n:FlowSpace) REQUIRE n.id IS UNIQUE",
)
"""For seals of spaces (lineage_core.contract.sealing); what was stored before has none."""

_VERSION_6: Sequence[LiteralString] = (
    "CREATE CONSTRAINT lineage_file_use IF NOT EXISTS FOR (n:FileUse) REQUIRE n.id IS UNIQUE",
    "CREATE INDEX lineage_file_name IF NOT EXISTS FOR (n:FileUse) ON (n.name)",
    "CREATE INDEX lineage_message_kind IF NOT EXISTS FOR (n:Message) ON (n.type)",
    "MATCH (m:Message) "
    "WHERE m.type IN ['splits', 'record_splits', 'sink_files', 'record_files'] AND m.keyed IS NULL "
    "CALL (m) { SET m.keyed = true } IN TRANSACTIONS OF 5000 ROWS",
)
"""Names and folders of files by application. Only programs of this version use ``FileUse``; they mark the messages whose files
they stored so."""

_VERSION_7: Sequence[LiteralString] = (
    "CREATE CONSTRAINT lineage_file_version IF NOT EXISTS FOR (n:FileVersion) REQUIRE n.id IS UNIQUE",
    "CREATE INDEX lineage_file_version_name IF NOT EXISTS FOR (n:FileVersion) ON (n.name)",
    "CREATE INDEX lineage_file_version_app IF NOT EXISTS FOR (n:FileVersion) ON (n.app, n.name)",
    "CREATE INDEX lineage_file_version_state IF NOT EXISTS FOR (n:FileVersion) "
    "ON (n.name, n.size, n.mtime)",
    "CREATE INDEX lineage_file_version_checksum IF NOT EXISTS FOR (n:FileVersion) ON (n.checksum)",
    "CREATE INDEX lineage_message_keyed IF NOT EXISTS FOR (n:Message) ON (n.type, n.keyed)",
    "MATCH (f:FileUse) CALL (f) { DELETE f } IN TRANSACTIONS OF 5000 ROWS",
)
"""Versions of files (:mod:`lineage_store.recorded_files`). :func:`lineage_store.neo4j.recorded_files.add_files` stores those of
messages that are marked by version 6, and so do queries, each time, for what a program of that version writes meanwhile."""

_VERSION_CONSTRAINT: Final[LiteralString] = (
    "CREATE CONSTRAINT lineage_schema IF NOT EXISTS FOR (n:LineageSchema) REQUIRE n.id IS UNIQUE"
)
_LOCK: Final[LiteralString] = "MATCH (m:LineageMigration) SET m.id = m.id"
_HALVES: Final[LiteralString] = (
    "SHOW INDEXES YIELD name, owningConstraint WHERE name IN $names AND owningConstraint IS NULL RETURN name"
)
_STATES: LiteralString = (
    "SHOW INDEXES YIELD name, state WHERE name STARTS WITH 'lineage_' RETURN name, state"
)

STEPS: tuple[Sequence[LiteralString], ...] = (
    _VERSION_1,
    _VERSION_2,
    _VERSION_3,
    _VERSION_4,
    _VERSION_5,
    _VERSION_6,
    _VERSION_7,
)
"""``STEPS[n]`` makes version n + 1 of version n; every statement must be repeatable."""

_ALL: Final = (_VERSION_CONSTRAINT, *(statement for step in STEPS for statement in step))


def migrate(connection: Connection) -> None:
    """Take every step that the database still lacks.

    Raises:
        StoreError: the database is of a newer version, or can't be changed.
    """
    if _is_newest(connection):
        return
    with _alone(connection):
        if _is_newest(connection):
            return
        _drop_halves_of_constraints(connection)
        _repeat(connection, _VERSION_CONSTRAINT)
        version = version_of(connection)
        for number, step in enumerate(STEPS[version:], start=version + 1):
            for statement in step:
                _repeat(connection, statement)
            _wait_online(connection)
            if step is _VERSION_7:
                add_files(connection)
            connection.write(
                lambda transaction, number=number: transaction.run(  # type: ignore[misc]
                    "MERGE (s:LineageSchema {id: 'lineage'}) SET s.id = s.id "
                    "SET s.version = CASE WHEN coalesce(s.version, 0) < $number THEN $number "
                    "ELSE s.version END",
                    number=number,
                ).consume()
            )


def _is_newest(connection: Connection) -> bool:
    version, newest = version_of(connection), len(STEPS)
    if version > newest:
        raise StoreError(
            f"the lineage store {connection.address.uri} is of version {version}, this program "
            f"knows {newest}: update the program, or choose another store"
        )
    return version == newest


@contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """Wait until no other process changes the schema, and keep others from doing so.

    Two processes may have made a node each at the same moment. Both lock all nodes that they see, and whoever comes later sees
    the other's, so they meet in one of them.
    """
    connection.run("MERGE (:LineageMigration {id: 'lock'})")
    for attempt in range(ATTEMPTS):
        with ExitStack() as stack:
            try:
                stack.enter_context(connection.holding(_LOCK, timeout_s=LOCK_S))
            except StoreError as error:
                # Several nodes, locked in several orders.
                if not _may_pass(error.__cause__) or attempt == ATTEMPTS - 1:
                    raise
                continue
            yield
            return


def _drop_halves_of_constraints(connection: Connection) -> None:
    """Drop the indexes of constraints that a process, which is no more, did not get to make.

    Such an index keeps the constraint's name, and may never be filled (https://github.com/neo4j/neo4j/issues/13208).
    """
    names = [
        name for statement in _ALL for name in re.findall(r"^CREATE CONSTRAINT (\w+)", statement)
    ]
    for (name,) in connection.run(_HALVES, names=names):
        connection.run("DROP INDEX $name IF EXISTS", name=name)


def version_of(connection: Connection) -> int:
    """The schema's version; 0 of an empty database."""
    rows = connection.read("MATCH (s:LineageSchema {id: 'lineage'}) RETURN s.version")
    return int(rows[0][0]) if rows else 0


def _wait_online(connection: Connection) -> None:
    """Wait until every index of ours can be used.

    Not by ``db.awaitIndexes``: of an index that another process made first at the same moment it waits
    for a twin that is gone, until its time is up.

    Raises:
        StoreError: an index failed, or they take too long.
    """
    deadline = time.monotonic() + ONLINE_S
    while True:
        states = dict(connection.run(_STATES))
        waiting = sorted(name for name, state in states.items() if state != "ONLINE")
        if not waiting:
            return
        failed = any(states[name] == "FAILED" for name in waiting)
        if failed or time.monotonic() > deadline:
            raise StoreError(
                f"indexes of the lineage store can't be used: {', '.join(waiting)}; Neo4j's log (debug.log) "
                "says why. Drop them (DROP INDEX ...), then try again"
                if failed
                else f"indexes of the lineage store are not ready after {ONLINE_S} s: {', '.join(waiting)}; "
                "wait until SHOW INDEXES says that they are ONLINE, then try again"
            )
        time.sleep(PAUSE_S)


def _repeat(connection: Connection, statement: LiteralString) -> None:
    """Change the schema, again when the server gave it up for something that passes."""
    timeout_s = STATEMENT_S if statement.startswith("CREATE ") else None
    for attempt in range(ATTEMPTS):
        try:
            connection.run(statement, timeout_s=timeout_s)
        except StoreError as error:
            if not _may_pass(error.__cause__) or attempt == ATTEMPTS - 1:
                raise
            time.sleep(PAUSE_S * (1 + random.random()))
            _drop_halves_of_constraints(connection)
        else:
            return


def _may_pass(error: BaseException | None) -> bool:
    """Whether a statement may succeed at another time."""
    if not isinstance(error, exceptions.Neo4jError):
        return False
    code = str(error.code)
    return error.is_retryable() or "Schema" in code or "TransactionTimedOut" in code
