"""Linking: blocks and commits in, visible blocks and linked edges out.

A state machine without I/O and without a clock. Any order of events, any number of repetitions
and any cut between two processes gives the same blocks and edges: when a block becomes visible,
first its own entry is written to the state, then the other side is read (a symmetric join), so
of two blocks at least one sees the other; edges are named by their two blocks, so both may.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple, Protocol, TypeAlias

from lineage_core.contract.address import OPAQUE_SPACE, POSITION_MAX, SpaceKind, parse_space
from lineage_core.contract.block import BlockId
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.sealing import Seal, is_sealed, seal_of
from lineage_core.linking.joining import JoinEntry, ProducedPositions, Side, join_sides


class TaskId(NamedTuple):
    """What a commit makes visible: one attempt at one partition of a segment.

    ``node`` is the segment's last node; its blocks may be of other nodes of the segment.
    """

    node: str
    partition: int
    attempt: int


Members: TypeAlias = tuple[Collection[BlockId], Collection[BlockId]]
"""Blocks that put out into a space, and blocks that read it."""
SidesWithin: TypeAlias = Callable[[int, int], Iterator[tuple[BlockId, Side]]]
"""Blocks and their sides that may lie in ``first..last``."""


class LinkState(Protocol):
    """What linking remembers. Every method may be repeated without effect.

    Where a state is not in one transaction with what becomes of :class:`LinkResult`, a block counts as
    visible only once its edges are safe; until then an event that comes again is done again.
    """

    def is_visible(self, block: BlockId) -> bool:
        """Whether :meth:`add` was called for the block, and its edges are safe."""

    def add(self, entry: JoinEntry) -> None:
        """Remember the entry of a visible block under its spaces."""

    def producers(self, space: str, first: int, last: int) -> Iterator[tuple[BlockId, Side]]:
        """Outputs in ``space`` of visible blocks that may lie in ``first..last``."""

    def consumers(self, space: str, first: int, last: int) -> Iterator[tuple[BlockId, Side]]:
        """Inputs in ``space`` of visible blocks that may lie in ``first..last``."""

    def outputs_of(self, space: str) -> SidesWithin:
        """As :meth:`producers`, of the blocks that are visible at this call, for any bounds."""

    def members(self, spaces: Collection[str]) -> Iterator[Members | None]:
        """Of each space all blocks that were added under it, at one moment.

        None where no block reads the space, where some of its blocks are not found by their sides, or where :meth:`is_visible` is not true of each of them for every
        process: edges of one that is not may still be under way.
        """

    def unmatched(self, block: BlockId) -> int:
        """What :meth:`set_unmatched` was given for the block: 0 only where all is matched.

        Several processes may count at once: of all that was given the smallest is true.
        """

    def set_unmatched(self, block: BlockId, positions: int) -> None:
        """Remember how many input positions of a visible block no visible block puts out."""

    def is_committed(self, task: TaskId) -> bool:
        """Whether :meth:`commit` was called for the task."""

    def commit(self, task: TaskId) -> None:
        """Remember that the task is committed."""

    def is_claimed(self, space: str) -> bool:
        """Whether :meth:`claim` was called for the space."""

    def claim(self, space: str) -> None:
        """Remember that a visible block reads the space."""

    def wait(self, task: TaskId, entry: JoinEntry) -> None:
        """Store a block that is not visible yet."""

    def waiting_of(self, task: TaskId) -> Iterable[JoinEntry]:
        """Blocks that wait at this call for the commit of ``task``; some may have become visible since."""

    def waiting_into(self, space: str) -> Iterable[JoinEntry]:
        """Blocks that wait at this call and put out into ``space``; some may have become visible since."""


@dataclass(slots=True)
class LinkResult:
    """What an event brought about."""

    visible: list[BlockId] = field(default_factory=list)
    edges: list[EdgeBatch] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)
    """Spaces that are read by a visible block for the first time: their producer, whichever
    attempt it was, is visible too, committed or not."""


@dataclass(slots=True)
class _Recount:
    """Blocks that read a space and are to be counted again, and the bounds of what they read."""

    blocks: set[BlockId] = field(default_factory=set)
    low: int = POSITION_MAX
    high: int = 0

    def add(self, block: BlockId, inputs: Side) -> None:
        self.blocks.add(block)
        self.low, self.high = min(self.low, inputs.low), max(self.high, inputs.high)


class Linker:
    """The state machine over a :class:`LinkState`.

    After a batch of events :meth:`recount_unmatched` brings the counts of unmatched positions up to date; it belongs in
    the same transaction. :meth:`seal` comes once all that was linked is safe.
    """

    def __init__(self, state: LinkState) -> None:
        self._state = state
        self._to_recount: dict[str, _Recount] = {}
        self._spaces_to_seal: dict[str, None] = {}

    def receive(self, task: TaskId, entry: JoinEntry) -> LinkResult:
        """A block of ``task`` arrived. It waits until the task is committed or the block claimed."""
        linked = LinkResult()
        if self._state.is_visible(entry.block_id):
            self._make_visible([entry], linked)
            return linked
        # Waiting first: a commit or claim that comes between the two lines finds the block.
        self._state.wait(task, entry)
        if self._state.is_committed(task) or any(map(self._state.is_claimed, entry.outputs)):
            self._make_visible([entry], linked)
        return linked

    def commit(self, task: TaskId) -> LinkResult:
        """``task`` is committed: its blocks, present and future, are visible."""
        linked = LinkResult()
        self._state.commit(task)
        self._make_visible(self._state.waiting_of(task), linked)
        return linked

    def recount_unmatched(self) -> None:
        """Count again what is unmatched of the blocks that producers came for since the last call."""
        # Their inputs are read again: those of all blocks that a batch concerns may be more than memory holds.
        for space, recount in self._to_recount.items():
            outputs_within = self._state.outputs_of(space)
            for block_id, inputs in self._state.consumers(space, recount.low, recount.high):
                if block_id in recount.blocks:
                    coverage = ProducedPositions(inputs)
                    for producer, outputs in outputs_within(inputs.low, inputs.high):
                        coverage.add_producer(producer, outputs)
                    self._state.set_unmatched(block_id, coverage.unmatched())
        self._to_recount.clear()

    def seal(self) -> list[Seal]:
        """Seal the spaces of all blocks that came since the last call.

        Call it when what was linked since is safe and its blocks count as visible, and before anything is
        forgotten by which an event that comes again would find them.

        Returns:
            Seals of the spaces all of whose blocks are visible, and that are read. Of other spaces the
            process that makes the last of their blocks visible makes the seal.
        """
        spaces = list(self._spaces_to_seal)
        members = zip(spaces, self._state.members(spaces), strict=True)
        seals = [seal_of(space, *blocks) for space, blocks in members if blocks is not None]
        self._spaces_to_seal.clear()
        return seals

    def _make_visible(self, entries: Iterable[JoinEntry], linked: LinkResult) -> None:
        """Make blocks visible, and those that they claim.

        The consequences of a visible block are repeated where they change nothing: the process that made it
        visible may have been killed before it got to them.
        """
        # One entry at a time: all of them may be more than memory holds.
        pending = [iter(entries)]
        shown: set[BlockId] = set()
        while pending:
            entry = next(pending[-1], None)
            if entry is None:
                pending.pop()
                continue
            if entry.block_id in shown:
                continue
            shown.add(entry.block_id)
            if not self._state.is_visible(entry.block_id):
                self._state.add(entry)
                linked.visible.append(entry.block_id)
                linked.edges.extend(self._edges_of(entry))
            self._spaces_to_seal |= dict.fromkeys(_spaces_to_seal(entry))
            if claimable(entry.in_space):
                if not self._state.is_claimed(entry.in_space):
                    self._state.claim(entry.in_space)
                    linked.claims.append(entry.in_space)
                pending.append(iter(self._state.waiting_into(entry.in_space)))

    def _edges_of(self, entry: JoinEntry) -> Iterator[EdgeBatch]:
        """Edges of a block that was just added, to and from all that are visible."""
        for space, outputs in entry.outputs.items():
            for consumer, inputs in self._state.consumers(space, outputs.low, outputs.high):
                edge = join_sides(entry.block_id, outputs, consumer, inputs)
                if edge is None:
                    continue
                yield edge
                # Once all is matched it stays so, and later producers cost nothing.
                if space != OPAQUE_SPACE and self._state.unmatched(consumer):
                    self._to_recount.setdefault(space, _Recount()).add(consumer, inputs)
        if entry.inputs is not None:
            yield from self._edges_into(entry.block_id, entry.in_space, entry.inputs)

    def _edges_into(self, consumer: BlockId, space: str, inputs: Side) -> Iterator[EdgeBatch]:
        """Edges to a block that was just added, counting what no producer matches."""
        edges: list[EdgeBatch] = []
        coverage = ProducedPositions(inputs)
        for producer, outputs in self._state.producers(space, inputs.low, inputs.high):
            # A block that reads its own outputs has met itself as a producer.
            if producer == consumer:
                coverage.add_producer(producer, outputs)
                continue
            edge = join_sides(producer, outputs, consumer, inputs)
            coverage.add(outputs, edge)
            if edge is not None:
                edges.append(edge)
        if space != OPAQUE_SPACE:  # any of those may be a root
            self._state.set_unmatched(consumer, coverage.unmatched())
        yield from edges


def _spaces_to_seal(entry: JoinEntry) -> Iterator[str]:
    """Spaces of a block of which seals are made once they are read."""
    if entry.inputs is not None and is_sealed(entry.in_space):
        yield entry.in_space
    yield from filter(is_sealed, entry.outputs)


@lru_cache(maxsize=1 << 16)  # called for every output space of every block
def claimable(space: str) -> bool:
    """Whether reading the space makes its producer visible: rows numbered by one incarnation."""
    parsed = parse_space(space)
    return parsed.kind is SpaceKind.PARTITION and parsed.incarnation is not None


class MemoryState:
    """A :class:`LinkState` in dictionaries, for programs that fit and for tests."""

    def __init__(self) -> None:
        self._entries: dict[BlockId, JoinEntry] = {}
        self._by_out: dict[str, dict[BlockId, JoinEntry]] = {}
        self._by_in: dict[str, dict[BlockId, JoinEntry]] = {}
        self._unmatched: dict[BlockId, int] = {}
        self._committed: set[TaskId] = set()
        self._claimed: set[str] = set()
        self._waiting: dict[TaskId, dict[BlockId, JoinEntry]] = {}
        self._waiting_into: dict[str, dict[BlockId, JoinEntry]] = {}

    def is_visible(self, block: BlockId) -> bool:
        return block in self._entries

    def add(self, entry: JoinEntry) -> None:
        self._entries[entry.block_id] = entry
        for space in entry.outputs:
            self._by_out.setdefault(space, {})[entry.block_id] = entry
        if entry.inputs is not None:
            self._by_in.setdefault(entry.in_space, {})[entry.block_id] = entry

    def producers(self, space: str, first: int, last: int) -> Iterator[tuple[BlockId, Side]]:
        for entry in list(self._by_out.get(space, {}).values()):
            side = entry.outputs[space]
            if side.low <= last and side.high >= first:
                yield entry.block_id, side

    def consumers(self, space: str, first: int, last: int) -> Iterator[tuple[BlockId, Side]]:
        for entry in list(self._by_in.get(space, {}).values()):
            side = entry.inputs
            if side is not None and side.low <= last and side.high >= first:
                yield entry.block_id, side

    def outputs_of(self, space: str) -> SidesWithin:
        return partial(self.producers, space)

    def members(self, spaces: Collection[str]) -> Iterator[Members | None]:
        for space in spaces:
            readers = list(self._by_in.get(space, ()))
            yield (list(self._by_out.get(space, ())), readers) if readers else None

    def unmatched(self, block: BlockId) -> int:
        return self._unmatched.get(block, 0)

    def set_unmatched(self, block: BlockId, positions: int) -> None:
        self._unmatched[block] = positions

    def is_committed(self, task: TaskId) -> bool:
        return task in self._committed

    def commit(self, task: TaskId) -> None:
        self._committed.add(task)

    def is_claimed(self, space: str) -> bool:
        return space in self._claimed

    def claim(self, space: str) -> None:
        self._claimed.add(space)

    def wait(self, task: TaskId, entry: JoinEntry) -> None:
        self._waiting.setdefault(task, {})[entry.block_id] = entry
        for space in filter(claimable, entry.outputs):
            self._waiting_into.setdefault(space, {})[entry.block_id] = entry

    def waiting_of(self, task: TaskId) -> Sequence[JoinEntry]:
        return list(self._waiting.get(task, {}).values())

    def waiting_into(self, space: str) -> Sequence[JoinEntry]:
        return list(self._waiting_into.get(space, {}).values())
