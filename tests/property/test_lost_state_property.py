"""A state of linking that is lost, or restored from an older copy, makes no trace wrong."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core import reaching
from lineage_core.block import BlockId, FlowBlock
from lineage_core.graph import EdgeBatch, LinkRecord
from lineage_core.joining import entry_of
from lineage_core.linking import Linked, Linker, MemoryState, TaskId
from lineage_core.region import Region
from lineage_core.sealing import Seal, is_sealed, seal_of
from lineage_core.tracing import Direction, trace
from tests.linker_job import keyed
from tests.memory_graph import MemoryGraph, node
from tests.property.test_linking_property import Case, brute_pairs, cases, pairs_of

pytestmark = pytest.mark.property


@dataclass
class Stored:
    """What a store made of the links that it was sent: it never forgets."""

    visible: set[BlockId] = field(default_factory=set)
    edges: dict[tuple[BlockId, BlockId], EdgeBatch] = field(default_factory=dict)
    seals: dict[str, Seal] = field(default_factory=dict)

    def take(self, linked: Linked, seals: Sequence[Seal] = ()) -> None:
        self.visible.update(linked.visible)
        for edge in linked.edges:
            self.edges[edge.producer, edge.consumer] = edge
        for seal in seals:
            known = self.seals.get(seal.space)
            if known is None or known.size <= seal.size:
                self.seals[seal.space] = seal

    def sealed(self, blocks: Iterable[FlowBlock]) -> set[str]:
        """Spaces whose seal is of just the visible blocks that there are."""
        visible = [block for block in blocks if block.block_id in self.visible]
        return {space for space, seal in self.seals.items() if seal == _seal(space, visible)}


def _seal(space: str, visible: Sequence[FlowBlock]) -> Seal:
    return seal_of(
        space,
        [b.block_id for b in visible if space in entry_of(b).outputs],
        [b.block_id for b in visible if b.in_space == space and len(b.in_first)],
    )


def check(case: Case, stored: Stored) -> None:
    """Whatever happened: of a space whose seal holds, all edges are stored."""
    visible = {b.block_id: b for _, b in case.blocks if b.block_id in stored.visible}
    sealed = stored.sealed(visible.values())
    known = set().union(*(pairs_of(edge, visible) for edge in stored.edges.values()))
    for pair in brute_pairs(visible):
        assert visible[pair[2]].in_space not in sealed or pair in known


@settings(max_examples=120, deadline=None)
@given(case=cases(), data=st.data())
def test_a_seal_that_holds_has_all_edges_whatever_was_lost(case: Case, data: st.DataObject) -> None:
    events: list[TaskId | tuple[TaskId, FlowBlock]] = [*case.blocks, *case.commits]
    order = data.draw(st.permutations(range(len(events))))
    stored, state = Stored(), MemoryState()
    copies: list[MemoryState] = [MemoryState()]

    def do(at: int) -> None:
        event, linker = events[at], Linker(state)
        if isinstance(event, TaskId):
            linked = linker.commit(event)
        else:
            linked = linker.receive(event[0], entry_of(event[1]))
        stored.take(linked, linker.settle())

    for at in order:
        match data.draw(st.sampled_from(["on", "on", "copy", "restore"])):
            case "copy":
                copies.append(copy.deepcopy(state))
            case "restore":
                state = copy.deepcopy(data.draw(st.sampled_from(copies)))
            case _:
                pass
        do(at)
        check(case, stored)
    # All comes again, as when the topics are read from where the state stands.
    for at in range(len(events)):
        do(at)
    check(case, stored)
    visible = [b for _, b in case.blocks if b.block_id in stored.visible]
    read = {b.in_space for b in visible if len(b.in_first)}
    assert stored.sealed(visible) == {space for space in read if is_sealed(space)}


class StoredGraph(MemoryGraph):
    """A graph with the edges that were stored."""

    stored = Stored()

    def edges_into(self, consumers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        chosen = set(consumers)
        return [edge for edge in self.stored.edges.values() if edge.consumer in chosen]

    def edges_from(self, producers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        chosen = set(producers)
        return [edge for edge in self.stored.edges.values() if edge.producer in chosen]

    def sealed(self, spaces: Iterable[str]) -> Collection[str]:
        return self.stored.sealed(self.block_list) & set(spaces)


def test_a_trace_names_what_was_linked_after_a_loss() -> None:
    """Three map tasks and what read them, the loss of all state, three more map tasks."""
    maps = [
        keyed("app-1", BlockId("2", part, part, 0), f"1#{part}", [("2@0", [7])], [[part]])
        for part in range(6)
    ]
    reads = keyed("app-1", BlockId("3", 0, 9, 0), "2@0", [("3#0", [0])], [[7]])
    graph = StoredGraph(
        [node("1", "source"), node("2", "shuffle"), node("3", "sink")],
        [LinkRecord("1", "2"), LinkRecord("2", "3")],
        [*maps, reads],
    )
    graph.stored = Stored()
    linker = Linker(MemoryState())

    def arrive(blocks: Sequence[FlowBlock]) -> None:
        for block in blocks:
            task = TaskId(block.block_id.node, block.block_id.partition, block.block_id.attempt)
            linker.receive(task, entry_of(block))
            graph.stored.take(linker.commit(task))
        graph.stored.take(Linked(), linker.settle())

    def inputs() -> int:
        start = {"3#0": Region(np.array([0], np.uint64))}
        result = trace(graph, Direction.BACKWARD, start)
        assert result.exact
        return result.count

    assert len(maps) > reaching.FEW_BLOCKS
    arrive([*maps[:3], reads])
    linker = Linker(MemoryState())
    arrive(maps[3:])
    assert inputs() == 6
    assert graph.sealed(["2@0"]) == set()
    arrive([*maps[:3], reads])
    assert graph.sealed(["2@0"]) == {"2@0"}
    assert inputs() == 6
