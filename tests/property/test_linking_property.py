"""Any order, duplication and redelivery links what a brute-force join links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.graph import EdgeBatch
from lineage_core.linking import joining
from lineage_core.linking.joining import join_entry_of
from lineage_core.linking.linker import Linker, MemoryState, TaskId, claimable

pytestmark = pytest.mark.property

SPACES = ["1#0", "2#0.5", "2#0.6", "3@0", "3@1", "4#*", "5#0.7", "6#0", "*@0"]
TOP = 2**64 - 1


@dataclass(frozen=True)
class Case:
    blocks: tuple[tuple[TaskId, FlowBlock], ...]
    commits: tuple[TaskId, ...]


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Disjoint runs in order, not adjacent; sometimes at the very top."""
    base = draw(st.sampled_from([0, 0, 0, TOP - 24]))
    marks = draw(st.lists(st.integers(0, 24), max_size=6, unique=True))
    found: list[tuple[int, int]] = []
    for mark_ in sorted(marks):
        last = min(mark_ + draw(st.sampled_from([0, 0, 1, 3])), 24)
        if not found or base + mark_ > found[-1][1] + 1:
            found.append((base + mark_, base + last))
    return found


@st.composite
def blocks(draw: st.DrawFn, block_id: BlockId) -> FlowBlock:
    rows = draw(st.integers(1, 6))
    identity = draw(st.integers(0, 3)) == 0
    per_row = [draw(runs()) for _ in range(rows)]
    outs: list[tuple[int, int]] = []
    base = draw(st.sampled_from([0, 3, TOP - 8]))
    shape = draw(st.sampled_from(["dense", "points", "ranges"]))
    for row in range(rows):
        if identity:
            per_row[row] = (per_row[row] or [(row, row)])[:1]
            length = per_row[row][0][1] - per_row[row][0][0]
        else:
            length = draw(st.integers(0, 5)) if shape == "ranges" else 0
        first = base + row if shape == "dense" else draw(st.integers(0, 20))
        first = min(first, TOP - length)
        outs.append((first, first + length))
    flat = [run for one in per_row for run in one]
    cut = draw(st.integers(0, rows))
    spaces = draw(st.lists(st.sampled_from(SPACES), min_size=2, max_size=2))
    sections = [Section(spaces[0], 0, cut), Section(spaces[1], cut, rows)]
    points = all(first == last for first, last in outs)
    return FlowBlock(
        block_id,
        Relation.IDENTITY if identity else Relation.ROWS,
        draw(st.sampled_from(SPACES)),
        tuple(part for part in sections if part.row_stop > part.row_first),
        np.array([run[0] for run in flat], np.uint64),
        np.array([out[0] for out in outs], np.uint64),
        np.cumsum([0, *map(len, per_row)]).astype(np.int64),
        np.array([run[1] for run in flat], np.uint64),
        None if points else np.array([out[1] for out in outs], np.uint64),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    tasks = [TaskId(str(node), 0, 5 + node) for node in range(draw(st.integers(1, 4)))]
    made = []
    for task in tasks:
        for seq in range(draw(st.integers(0, 3))):
            made.append((task, draw(blocks(BlockId(task.node, 0, task.attempt, seq)))))
    commits = draw(st.lists(st.sampled_from(tasks), unique=True, max_size=len(tasks)))
    return Case(tuple(made), tuple(commits))


def positions_in(block: FlowBlock, row: int) -> set[int]:
    ptr = block.in_ptr
    assert ptr is not None
    assert block.in_last is not None
    found: set[int] = set()
    for at in range(int(ptr[row]), int(ptr[row + 1])):
        found.update(range(int(block.in_first[at]), int(block.in_last[at]) + 1))
    return found


def positions_out(block: FlowBlock, row: int) -> set[int]:
    last = block.out_first if block.out_last is None else block.out_last
    return set(range(int(block.out_first[row]), int(last[row]) + 1))


def space_of(block: FlowBlock, row: int) -> str:
    return next(part.space for part in block.out if part.row_first <= row < part.row_stop)


def brute_visible(case: Case) -> dict[BlockId, FlowBlock]:
    seen = {block.block_id: block for task, block in case.blocks if task in case.commits}
    while True:
        read = {block.in_space for block in seen.values() if claimable(block.in_space)}
        more = {
            block.block_id: block
            for _, block in case.blocks
            if block.block_id not in seen and read & {part.space for part in block.out}
        }
        if not more:
            return seen
        seen |= more


def brute_pairs(visible: dict[BlockId, FlowBlock]) -> set[tuple[BlockId, int, BlockId, int]]:
    return {
        (producer.block_id, row_p, consumer.block_id, row_c)
        for producer in visible.values()
        for consumer in visible.values()
        for row_p in range(producer.rows)
        if space_of(producer, row_p) == consumer.in_space
        for row_c in range(consumer.rows)
        if positions_out(producer, row_p) & positions_in(consumer, row_c)
    }


def brute_unmatched(visible: dict[BlockId, FlowBlock]) -> dict[BlockId, int]:
    counts = {}
    for block in visible.values():
        wanted = set().union(*(positions_in(block, row) for row in range(block.rows)))
        if block.in_space == "*@0" or not wanted:
            continue
        for producer in visible.values():
            for row in range(producer.rows):
                if space_of(producer, row) == block.in_space:
                    wanted -= positions_out(producer, row)
        counts[block.block_id] = len(wanted)
    return counts


def pairs_of(
    edge: EdgeBatch, visible: dict[BlockId, FlowBlock]
) -> set[tuple[BlockId, int, BlockId, int]]:
    if edge.rows_producer is not None and edge.rows_consumer is not None:
        found = zip(edge.rows_producer.tolist(), edge.rows_consumer.tolist(), strict=True)
        pairs = [(row_p, row_c) for row_p, row_c in found]
        assert pairs == sorted(pairs, key=lambda pair: (pair[1], pair[0]))
    else:
        producer, consumer = visible[edge.producer], visible[edge.consumer]
        pairs = [
            (row_p, row_c)
            for row_p in range(producer.rows)
            if space_of(producer, row_p) == consumer.in_space
            for row_c in range(consumer.rows)
            if positions_out(producer, row_p) & positions_in(consumer, row_c)
        ]
    assert len(pairs) == edge.pairs
    return {(edge.producer, row_p, edge.consumer, row_c) for row_p, row_c in pairs}


def run(case: Case, data: st.DataObject) -> None:
    events: list[TaskId | tuple[TaskId, FlowBlock]] = [*case.blocks, *case.commits]
    order = data.draw(st.permutations(range(len(events))))
    again = data.draw(st.lists(st.sampled_from(order), max_size=6)) if order else []
    state = MemoryState()
    linker = Linker(state)
    edges: dict[tuple[BlockId, BlockId], EdgeBatch] = {}
    shown: set[BlockId] = set()
    for at in [*order, *again]:
        event = events[at]
        if isinstance(event, TaskId):
            linked = linker.commit(event)
        else:
            linked = linker.receive(event[0], join_entry_of(event[1]))
        for edge in linked.edges:
            assert (edge.producer, edge.consumer) not in edges
            edges[edge.producer, edge.consumer] = edge
        assert not shown & set(linked.visible)
        shown.update(linked.visible)
        if data.draw(st.booleans()):
            linker.recount_unmatched()
            linker = Linker(state)  # another process takes over
    linker.recount_unmatched()
    visible = brute_visible(case)
    assert shown == set(visible)
    found = [pairs_of(edge, visible) for edge in edges.values()]
    assert set().union(*found) == brute_pairs(visible)
    for block_id, expected in brute_unmatched(visible).items():
        assert state.unmatched(block_id) == expected


@settings(max_examples=300, deadline=None)
@given(case=cases(), data=st.data())
def test_any_order_links_the_same(case: Case, data: st.DataObject) -> None:
    run(case, data)


@settings(max_examples=100, deadline=None)
@given(case=cases(), data=st.data())
def test_pairs_beyond_the_bound_are_counted(case: Case, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joining, "PAIRS_MAX", 3)
        run(case, data)
