"""Ids of nodes in Neo4j: ``<application>|<local id>``, unique for each label."""

from __future__ import annotations

import hashlib

from lineage_core.contract.block import BlockId
from lineage_core.linking.linker import TaskId

SEPARATOR = "|"


def app_key(app: str) -> str:
    """The application in an id: applications may be called anything, also ``a|b``."""
    return app.replace("%", "%25").replace(SEPARATOR, "%7C")


def key(app: str, local: object) -> str:
    """The id of something that belongs to an application."""
    return f"{app_key(app)}{SEPARATOR}{local}"


def message_key(app: str, body: str) -> str:
    """The id of a message that is stored once, by its JSON."""
    return key(app, hashlib.blake2b(body.encode(), digest_size=16).hexdigest())


def prefix(app: str) -> str:
    """What all ids of an application begin with, and no other's."""
    return app_key(app) + SEPARATOR


def task_key(app: str, task: TaskId) -> str:
    """The id of a task's partition: all attempts at it share one node."""
    return key(app, f"{task.node}#{task.partition}")


def block_of(block_key: str) -> BlockId:
    """The block that an id names; inverse of :func:`key` with a block."""
    local = block_key.partition(SEPARATOR)[2]
    task, _, seq = local.rpartition("#")
    node, _, attempt = task.partition("#")
    partition, _, incarnation = attempt.partition(".")
    return BlockId(node, int(partition), int(incarnation), int(seq))
