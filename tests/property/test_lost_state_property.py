"""A state of linking that is lost, or restored from an older copy, makes no trace wrong."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import EdgeBatch, LinkRecord
from lineage_core.contract.region import Region
from lineage_core.contract.sealing import Seal, is_sealed, seal_of
from lineage_core.linking.joining import join_entry_of
from lineage_core.linking.linker import Linker, LinkResult, MemoryState, TaskId
from lineage_core.tracing import block_lookup
from lineage_core.tracing.tracer import Direction, trace
from lineage_linker.app_state import CommitSummary
from tests.property.test_linking_property import Case, brute_pairs, cases, pairs_of
from tests.support.linker_job import keyed
from tests.support.linker_memory import MemoryAppState
from tests.support.memory_graph import MemoryGraph, node

pytestmark = pytest.mark.property


@dataclass
class Stored:
    """What a store made of the links that it was sent: it never forgets."""

    visible: set[BlockId] = field(default_factory=set)
    edges: dict[tuple[BlockId, BlockId], EdgeBatch] = field(default_factory=dict)
    seals: dict[str, Seal] = field(default_factory=dict)

    def take(self, linked: LinkResult, seals: Sequence[Seal] = ()) -> None:
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
        return {space for space, seal in self.seals.items() if seal == seal_among(space, visible)}


def seal_among(space: str, visible: Sequence[FlowBlock]) -> Seal:
    """The seal of a space over some blocks."""
    return seal_of(
        space,
        [b.block_id for b in visible if space in join_entry_of(b).outputs],
        [b.block_id for b in visible if b.in_space == space and len(b.in_first)],
    )


def check(case: Case, stored: Stored) -> None:
    """Whatever happened: of a space whose seal holds, all edges are stored."""
    visible = {b.block_id: b for _, b in case.blocks if b.block_id in stored.visible}
    sealed = stored.sealed(visible.values())
    edges = [edge for ends, edge in stored.edges.items() if visible.keys() >= {*ends}]
    known = set().union(*(pairs_of(edge, visible) for edge in edges))
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
            linked = linker.receive(event[0], join_entry_of(event[1]))
        linker.recount_unmatched()
        stored.take(linked, linker.seal())

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


Batches = Sequence[int]


class Workers:
    """Over one state, which may be lost; each batch is of some tasks, each a block and its commit."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._state = MemoryAppState()
        self.stored = Stored()

    def lose(self) -> None:
        self._state = MemoryAppState()

    def link(self, tasks: Batches, *, sent: bool = True) -> None:
        """One batch; where it is not ``sent``, its worker is killed, or slow, before it sends anything."""
        view = self._state.of_batch()
        linker, linked = Linker(view), []
        for at in tasks:
            task, block = self._case.blocks[at]
            view.set_commit_summary(task, CommitSummary(1, None, True))
            linked += [linker.receive(task, join_entry_of(block)), linker.commit(task)]
        linker.recount_unmatched()
        if sent:
            for found in linked:
                self.stored.take(found)
            view.make_visible()
            self.stored.take(LinkResult(), linker.seal())
        check(self._case, self.stored)


def at_one_key() -> Case:
    """Two tasks that write a key, and two that read it."""
    tasks = [TaskId("2", 0, 0), TaskId("2", 1, 1), TaskId("3", 0, 9), TaskId("3", 1, 10)]
    blocks = [
        keyed("app-1", BlockId(*task, 0), f"1#{task.partition}", [("2@0", [7])], [[0]])
        if task.node == "2"
        else keyed("app-1", BlockId(*task, 0), "2@0", [(f"3#{task.partition}", [0])], [[7]])
        for task in tasks
    ]
    blocks = [replace(block, in_last=block.in_first) for block in blocks]
    return Case(tuple(zip(tasks, blocks, strict=True)), tuple(tasks))


@pytest.mark.parametrize(("early", "late"), [(1, 2), (1, 3), (2, 3)])
def test_a_seal_waits_for_edges_that_another_worker_has_under_way(early: int, late: int) -> None:
    """The store has all blocks of before a loss: a seal must not count those that are linked again just now."""
    case = at_one_key()
    for order in itertools.permutations(range(4)):
        workers = Workers(case)
        workers.link(order[:early])
        workers.lose()
        workers.link(order[early:late])
        workers.link(order[:early], sent=False)
        workers.link(order[late:])
        assert not workers.stored.sealed(block for _, block in case.blocks)
        # Whoever takes over has them again.
        workers.link(order[:early])
        assert workers.stored.sealed(block for _, block in case.blocks) == {"2@0"}


def test_what_was_not_sealed_is_sealed_when_it_comes_again() -> None:
    """A worker is killed between the moment its blocks are visible and its seals."""
    case = at_one_key()
    for part in ("block", "commit"):
        state, stored = MemoryAppState(), Stored()
        view = state.of_batch()
        linker = Linker(view)
        for task, block in case.blocks:
            view.set_commit_summary(task, CommitSummary(1, None, True))
            stored.take(linker.receive(task, join_entry_of(block)))
            stored.take(linker.commit(task))
        view.make_visible()
        view = state.of_batch()
        again = Linker(view)
        task, block = case.blocks[0]
        view.set_commit_summary(task, CommitSummary(1, None, True))
        found = again.receive(task, join_entry_of(block)) if part == "block" else again.commit(task)
        assert found == LinkResult()
        stored.take(found, again.seal())
        assert stored.sealed(block for _, block in case.blocks) == {"2@0"}


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
            linker.receive(task, join_entry_of(block))
            graph.stored.take(linker.commit(task))
        linker.recount_unmatched()
        graph.stored.take(LinkResult(), linker.seal())

    def inputs() -> int:
        start = {"3#0": Region(np.array([0], np.uint64))}
        result = trace(graph, Direction.BACKWARD, start)
        assert result.exact
        return result.count

    assert len(maps) > block_lookup.FEW_BLOCKS
    arrive([*maps[:3], reads])
    linker = Linker(MemoryState())
    arrive(maps[3:])
    assert inputs() == 6
    assert graph.sealed(["2@0"]) == set()
    arrive([*maps[:3], reads])
    assert graph.sealed(["2@0"]) == {"2@0"}
    assert inputs() == 6
