"""What a trace answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.block import BlockId
from lineage_core.contract.positions import is_file_node
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.linking.linker import TaskId

CROSSED_MAX = 512
"""Blocks that a result names: some 100 bytes each."""


class Direction(Enum):
    """Which way a trace goes."""

    BACKWARD = "backward"
    FORWARD = "forward"


class TraceError(LineageError):
    """A trace that can't be started: what it names is not in the application."""


@dataclass(frozen=True, slots=True)
class DeadEnd:
    """Items past which nothing is known, although there should be something."""

    node: str
    space: str
    region: Region
    reason: str


@dataclass(frozen=True, slots=True)
class NodeItems:
    """Items of one node, by space."""

    node: str
    spaces: Mapping[str, Region]

    @property
    def count(self) -> int:
        """Number of items; of bytes of a file that of its parts: of the runs of bytes."""
        if is_file_node(self.node):
            return sum(region.runs for region in self.spaces.values())
        return sum(region.count for region in self.spaces.values())

    def once(self) -> NodeItems:
        """The same, each record by one address.

        A node that sorts or partitions records names each twice: on its way through the shuffle, and where it arrives.
        """
        kinds = {space: parse_space(space).kind for space in self.spaces}
        moved = {space: self.spaces[space] for space in kinds if kinds[space] is SpaceKind.EXCHANGE}
        arrived = {
            space: self.spaces[space] for space in kinds if kinds[space] is not SpaceKind.EXCHANGE
        }
        if not (moved and arrived):
            return self
        # Where some have not arrived (yet), or were left out on arrival, all that set out are more.
        return max(
            (NodeItems(self.node, spaces) for spaces in (arrived, moved)),
            key=lambda items: items.count,
        )


@dataclass(frozen=True, slots=True)
class TraceResult:
    """The answer to a trace.

    ``found``: the requested items, by node: those of sources (backward) or sinks (forward), of
    the node named by ``until``, or those ``steps`` blocks away (and what ended before).
    ``passed``: every item on the way by node, the start and what was found included.
    ``exact`` is False when a block or node on the way is a superset or the trace met a dead end;
    ``reasons`` says why, each once.
    ``tasks``: where requested, by space of the found items the tasks whose blocks led to them: that read them (backward)
    or put them out (forward). An item may have several, and none where no block led to it.
    ``crossed``: the blocks, where they are at most `CROSSED_MAX`; else none of them.
    """

    direction: Direction
    found: Mapping[str, NodeItems]
    passed: Mapping[str, NodeItems]
    exact: bool
    reasons: tuple[str, ...]
    dead_ends: tuple[DeadEnd, ...]
    blocks_crossed: int
    tasks: Mapping[str, Mapping[TaskId, Region]] = field(default_factory=dict)
    crossed: frozenset[BlockId] = field(default=frozenset(), compare=False)

    @property
    def count(self) -> int:
        """Number of items found."""
        return sum(items.count for items in self.found.values())
