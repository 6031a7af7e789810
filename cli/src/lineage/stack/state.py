"""What a stack's folder remembers: which servers, on which ports, with which bounds."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lineage.stack.errors import StackFolderError
from lineage.stack.server import Say

LOCK_POLL_S = 0.2
LOCK_LIMIT_S = 600
"""Longer than a first `up`, which may have to fetch Kafka and Neo4j."""
SIZE = r"^[1-9][0-9]*[kmgKMG]$"


class StackOptions(BaseModel):
    """Bounds that a person may choose."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partitions: int = Field(4, ge=1, le=1_000)
    kafka_heap: str = Field("512m", pattern=SIZE)
    redis_memory: str = Field("1g", pattern=SIZE)
    neo4j_heap: str = Field("1g", pattern=SIZE)
    neo4j_page_cache: str = Field("128m", pattern=SIZE)


class StackState(BaseModel):
    """The state file.

    ``servers``: names of those that were ever started here. ``ports``: chosen once, by use.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    servers: frozenset[str] = frozenset()
    ports: dict[str, int] = Field(default_factory=dict)
    options: StackOptions = Field(default_factory=StackOptions)


def load(folder: Path) -> StackState | None:
    """The state of the stack in a folder; None when there is no stack.

    Raises:
        FolderError: the state can't be read.
    """
    file = _file(folder)
    try:
        return StackState.model_validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValidationError, ValueError) as error:
        raise StackFolderError(f"{file} is not the state of a stack: {error}") from None


def save(folder: Path, state: StackState) -> None:
    """Write the state, whole or not at all."""
    file = _file(folder)
    draft = file.with_name(file.name + ".new")
    draft.write_text(state.model_dump_json(indent=2) + "\n", encoding="utf-8")
    draft.replace(file)


def is_foreign(folder: Path) -> bool:
    """Whether a folder holds files, but no stack (nor the beginning of one)."""
    return not _file(folder).exists() and any(file != _lock(folder) for file in folder.iterdir())


def forget(folder: Path) -> None:
    """Remove what this module keeps in the folder."""
    _file(folder).unlink(missing_ok=True)
    _lock(folder).unlink(missing_ok=True)


@contextmanager
def locked(folder: Path, say: Say) -> Iterator[None]:
    """One command at a time changes a stack.

    Raises:
        FolderError: another command holds it for too long.
    """
    deadline = time.monotonic() + LOCK_LIMIT_S
    with _lock(folder).open("w") as lock:
        reported = False
        while not _try(lock.fileno()):
            if not reported:
                say("another lineage stack command is at work here: waiting for it")
                reported = True
            if time.monotonic() >= deadline:
                raise StackFolderError(f"another lineage stack command holds {folder}")
            time.sleep(LOCK_POLL_S)
        yield


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _file(folder: Path) -> Path:
    return folder / "stack.json"


def _lock(folder: Path) -> Path:
    return folder / "lock"
