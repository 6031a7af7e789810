"""The linker's core over dictionaries: what its state in Redis has to equal."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field

from lineage_core.codec.edge_message import Links, PackedEdge, StoredBlock, parse_edge_record
from lineage_core.contract.block import BlockId
from lineage_core.contract.dead_letter import TopicPartitionOffset
from lineage_core.contract.message import Message, Totals, parse_message
from lineage_core.contract.sealing import Seal
from lineage_core.linking.joining import JoinEntry
from lineage_core.linking.linker import Members, MemoryState, TaskId
from lineage_kafka.topics import Topics
from lineage_linker.app_state import BlockTreatment, CommitSummary
from lineage_linker.batch import LinkBatch
from lineage_linker.records import Incoming, Layout, Outgoing

TOPICS = Topics("t-")
LAYOUT = Layout(TOPICS, 4, 1)


class MemoryAppState(MemoryState):
    """Implements :class:`lineage_linker.app_state.AppState`; each batch has a view of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._visible: set[BlockId] = set()
        self._matched: set[BlockId] = set()
        self._shown: set[BlockId] = set()
        self.uses: dict[str, BlockTreatment] = {}
        self.totals: Totals | None = None
        self._promises: dict[TaskId, CommitSummary] = {}
        self._promised: dict[TaskId, CommitSummary] = {}
        self._held: dict[TaskId, dict[BlockId, bytes]] = {}
        self._counted: dict[BlockId, int] = {}

    def of_batch(self) -> MemoryAppState:
        """The same state for a batch that begins."""
        view = copy.copy(self)
        view._shown, view._counted, view._promises = set(), {}, {}
        return view

    def is_visible(self, block: BlockId) -> bool:
        return block in self._shown or block in self._visible

    def add(self, entry: JoinEntry) -> None:
        super().add(entry)
        self._shown.add(entry.block_id)

    def members(self, spaces: Collection[str]) -> Iterator[Members | None]:
        for blocks in super().members(spaces):
            whole = blocks is not None and self._visible.issuperset({*blocks[0], *blocks[1]})
            yield blocks if whole else None

    def treatment_of(self, node: str) -> BlockTreatment | None:
        return self.uses.get(node)

    def register(self, node: str, use: BlockTreatment) -> None:
        self.uses[node] = use

    def set_commit_summary(self, task: TaskId, summary: CommitSummary) -> None:
        self._promises[task] = summary

    def commit(self, task: TaskId) -> None:
        super().commit(task)
        self._promised[task] = self._promises.pop(task)

    def commit_summary(self, task: TaskId) -> CommitSummary | None:
        return self._promised.get(task)

    def hold(self, task: TaskId, block: BlockId, frame: bytes) -> None:
        self._held.setdefault(task, {})[block] = frame

    def held_of(self, task: TaskId) -> Sequence[bytes]:
        return list(self._held.get(task, {}).values())

    def end(self, totals: Totals) -> None:
        self.totals = totals

    def unmatched(self, block: BlockId) -> int:
        return self._counted.get(block, 0 if block in self._matched else 1)

    def set_unmatched(self, block: BlockId, positions: int) -> None:
        self._counted[block] = min(positions, self._counted.get(block, positions))

    def unlinked_spaces(self) -> Sequence[str]:
        return ()

    def counts(self) -> Sequence[tuple[BlockId, int]]:
        return list(self._counted.items())

    def make_visible(self) -> None:
        self._matched |= {block for block, count in self._counted.items() if count == 0}
        self._matched |= self._shown - self._counted.keys()
        self._visible |= self._shown

    def finish(self) -> bool:
        return False


@dataclass
class Seen:
    """What reached the store of one application, put together as a store does it."""

    blocks: dict[BlockId, StoredBlock] = field(default_factory=dict)
    visible: set[BlockId] = field(default_factory=set)
    unmatched: dict[BlockId, int] = field(default_factory=dict)
    edges: dict[tuple[BlockId, BlockId], PackedEdge] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    seals: dict[str, Seal] = field(default_factory=dict)
    epochs: set[str] = field(default_factory=set)

    def links(self, links: Links) -> None:
        """Edges that come twice must say the same."""
        self.epochs.add(links.epoch)
        for seal in links.seals:
            last = self.seals.get(seal.space)
            if last is None or last.size <= seal.size:
                self.seals[seal.space] = seal
        self.visible.update(links.visible)
        for block, count in links.unmatched:
            self.unmatched[block] = min(count, self.unmatched.get(block, count))
        for edge in links.edges:
            ends = edge.producer, edge.consumer
            known = self.edges.setdefault(ends, edge)
            assert (known.pairs, known.data) == (edge.pairs, edge.data)

    def linked(self) -> tuple[Sized, ...]:
        """What must be the same however it came about."""
        edges = {ends: (edge.pairs, edge.data) for ends, edge in self.edges.items()}
        blocks = {
            block_id: (block.task, block.rows, block.data)
            for block_id, block in self.blocks.items()
        }
        # A count of 0 and none are the same.
        unmatched = {block: count for block, count in self.unmatched.items() if count}
        return blocks, self.visible, unmatched, edges


@dataclass
class Received:
    """Everything that was sent to the store."""

    apps: defaultdict[str, Seen] = field(default_factory=lambda: defaultdict(Seen))
    records: int = 0

    def value(self, value: bytes) -> None:
        """One value of the edge topic."""
        self.records += 1
        if value.startswith(b"{"):
            message = parse_message(value)
            self.apps[message.app].messages.append(message)
            return
        found = parse_edge_record(value)
        seen = self.apps[found.app]
        if isinstance(found, Links):
            seen.links(found)
        else:
            seen.blocks[found.block_id] = found

    def linked(self) -> dict[str, tuple[Sized, ...]]:
        """What must be the same however it came about."""
        return {app: seen.linked() for app, seen in self.apps.items()}


def incoming(value: bytes | None, offset: int = 0, key: bytes = b"app-1") -> Incoming:
    """A record of the flow topic."""
    return Incoming(TopicPartitionOffset(TOPICS.flow, 2, offset), key, value, 1000.0 + offset)


@dataclass
class MemoryLinker:
    """Does batches over :class:`MemoryAppState`."""

    states: dict[str, MemoryAppState] = field(default_factory=dict)
    received: Received = field(default_factory=Received)
    dead: list[Outgoing] = field(default_factory=list)

    @property
    def seen(self) -> Seen:
        """Of the one application there is."""
        (seen,) = self.received.apps.values()
        return seen

    def batch(self, values: Iterable[bytes | None]) -> LinkBatch:
        """One batch, finished."""
        batch = self.handled(values)
        batch.send_links("")
        self._send(batch.outgoing)
        batch.seal()
        self._send(batch.send_seals(""))
        batch.finish()
        return batch

    def handled(self, values: Iterable[bytes | None]) -> LinkBatch:
        """A batch of which nothing is sent yet."""
        batch = LinkBatch(LAYOUT, self._state_of, 5.0)
        for offset, value in enumerate(values):
            batch.handle(incoming(value, offset))
        batch.recount_unmatched()
        return batch

    def _state_of(self, app: str) -> MemoryAppState:
        return self.states.setdefault(app, MemoryAppState()).of_batch()

    def _send(self, records: Iterable[Outgoing]) -> None:
        for record in records:
            if record.topic == TOPICS.dead_letter:
                self.dead.append(record)
            else:
                self.received.value(record.value)
