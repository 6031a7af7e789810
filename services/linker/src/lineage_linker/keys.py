"""Names of the linker's keys in Redis, and of what stands in them.

All keys of an application hold the hash tag ``{<app>}``: in a cluster they share one slot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from lineage_core.contract.block import BlockId
from lineage_core.errors import AddressError
from lineage_core.linking.linker import TaskId

PREFIX = "lm:"
_TASK = re.compile(r"(.*)#([0-9]{1,19})\.([0-9]{1,19})", re.DOTALL)
_BLOCK = re.compile(r"(.*)#([0-9]{1,19})\.([0-9]{1,19})#([0-9]{1,19})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of one application; ``base`` is made by :func:`keys_of`."""

    base: str

    @property
    def nodes(self) -> str:
        """Hash: node, what it was registered as."""
        return f"{self.base}nodes"

    @property
    def tasks(self) -> str:
        """Hash: committed task, what its commit promised."""
        return f"{self.base}tasks"

    @property
    def visible(self) -> str:
        """Set: blocks that are visible, with all that follows from it sent."""
        return f"{self.base}visible"

    @property
    def matched(self) -> str:
        """Set: visible blocks of which every input position is put out by some visible block."""
        return f"{self.base}matched"

    @property
    def roots(self) -> str:
        """Hash: visible block that may need no producer, its input space."""
        return f"{self.base}roots"

    @property
    def finished(self) -> str:
        """Hash: task, how many of its blocks are in ``visible``."""
        return f"{self.base}finished"

    @property
    def claims(self) -> str:
        """Set: spaces that a visible block reads."""
        return f"{self.base}claims"

    @property
    def unlinked(self) -> str:
        """Set: spaces of which some blocks have no marks, since too many others are linked with each other."""
        return f"{self.base}unlinked"

    @property
    def end(self) -> str:
        """String: what the application delivered in all; written at its end."""
        return f"{self.base}end"

    @property
    def names(self) -> str:
        """Set: those of the application's keys that hold a space or a task in their name."""
        return f"{self.base}names"

    def marks(self, role: str, space: str) -> str:
        """Hash: block, mark of its side in a space. ``role``: ``in`` or ``out``."""
        return f"{self.base}{role}:{space}"

    def columns(self, role: str, space: str) -> str:
        """Hash: block, columns of its side in a space."""
        return f"{self.base}{role}+:{space}"

    def waiting(self, task: TaskId) -> str:
        """Hash: block that waits for the task's commit, its entry."""
        return f"{self.base}wait:{task_name(task)}"

    def waiting_into(self, space: str) -> str:
        """Hash: block that waits and puts out into the space, its task."""
        return f"{self.base}into:{space}"

    def held(self, task: TaskId) -> str:
        """Hash: block whose rows may be cut by the task's commit, its frame as it came."""
        return f"{self.base}held:{task_name(task)}"

    def fixed(self) -> tuple[str, ...]:
        """All keys without a space or task in their name."""
        return (
            *(self.nodes, self.tasks, self.visible, self.matched, self.roots, self.finished),
            *(self.claims, self.unlinked, self.end, self.names),
        )


def keys_of(app: str) -> Keys:
    """Keys of an application; what would end the hash tag is escaped."""
    name = app.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
    return Keys(f"{PREFIX}{{{name}}}:")


def task_name(task: TaskId) -> str:
    """A task as text, unique in its application."""
    return f"{task.node}#{task.partition}.{task.attempt}"


def parse_task(text: str) -> TaskId:
    """Read what :func:`task_name` wrote.

    Raises:
        AddressError: it did not.
    """
    match = _TASK.fullmatch(text)
    if match is None:
        raise AddressError(f"{text!r:.80} does not name a task (like 4#0.17)")
    node, partition, attempt = match.groups()
    return TaskId(node, int(partition), int(attempt))


@lru_cache(maxsize=1 << 16)
def parse_block(name: bytes) -> BlockId:
    """Read the text of a block id.

    Raises:
        AddressError: it is none.
    """
    match = _BLOCK.fullmatch(name.decode("utf-8", "replace"))
    if match is None:
        raise AddressError(f"{name!r:.80} does not name a block (like 4#0.17#2)")
    node, *numbers = match.groups()
    return BlockId(node, *map(int, numbers))
