"""A trace of many items at once gives for each what a trace of it alone gives, and what single associations lead to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.region import Region
from lineage_core.linking.attempts import was_read
from lineage_core.tracing import space_parts, tagged_crossing
from lineage_core.tracing.tagged import TaggedRuns, compacted
from lineage_core.tracing.tracer import Direction, trace
from tests.oracle.budget import examples
from tests.property.test_tracing_property import POSITIONS, found_in, graphs
from tests.support.memory_graph import MemoryGraph, associations, node
from tests.support.tagged_trace import (
    Pair,
    pairs_of,
    region_of_items,
    tagged_start,
    tagged_trace,
)

pytestmark = pytest.mark.property
Item = tuple[str, int]


@pytest.fixture(scope="module", autouse=True)
def _small_parts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        # Several parts of an exchange of few positions, and several batches of few rows.
        patch.setattr(space_parts, "_BITS", np.uint64(2))
        patch.setattr(tagged_crossing, "PAIRS_AT_ONCE", 3)
        yield


@st.composite
def uneven_graphs(draw: st.DrawFn) -> MemoryGraph:
    """Graphs with supersets, unknown nodes, and attempts of which some were read."""
    graph = draw(graphs())
    blocks: list[FlowBlock] = []
    for block in graph.block_list:
        attempt = draw(st.sampled_from([7, 7, 7, 8]))
        why = draw(st.sampled_from(["", "", "", "", "a guess", "a copy"]))
        block_id = replace(block.block_id, attempt=attempt, seq=len(blocks))
        changed = replace(block, block_id=block_id, exact=not why, reason=why)
        is_keyed = parse_space(block.in_space).kind is SpaceKind.KEYS
        if is_keyed and block.relation is Relation.ROWS:
            read = draw(st.sampled_from([None, None, (7,), (8,), (7, 8)]))
            changed = replace(
                changed, attempts_read=None if read is None else Region.from_positions(read)
            )
        blocks.append(changed)
    nodes = [
        replace(record, exact=False, reason="so it says")
        if draw(st.integers(0, 7)) == 0
        else record
        for record in graph.node_list
    ]
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(nodes) - 1))
        nodes[at] = node(nodes[at].node, "unknown", reason="a black box")
    return MemoryGraph(nodes, graph.link_list, blocks)


@st.composite
def asked(draw: st.DrawFn, graph: MemoryGraph) -> list[Item]:
    spaces = {s.space for b in graph.block_list for s in b.out}
    spaces |= {b.in_space for b in graph.block_list}
    numbered = sorted(s for s in spaces if parse_space(s).kind is not SpaceKind.KEYS)
    space = st.sampled_from(numbered)
    return draw(
        st.lists(
            st.tuples(space, st.integers(0, POSITIONS - 1)), min_size=1, max_size=6, unique=True
        )
    )


def brute(graph: MemoryGraph, item: Item, *, backward: bool) -> dict[Item, bool]:
    """Items that pairs of single positions lead to, and whether some way to each is exact, of its items' nodes, too."""
    exact_nodes = {
        record.node: record.exact or record.kind == "unknown" for record in graph.node_list
    }

    def is_exact(space: str) -> bool:
        return exact_nodes.get(parse_space(space).name, True)

    pairs = [
        (pair[:2], pair[2:], block) if not backward else (pair[2:], pair[:2], block)
        for block in graph.block_list
        for pair in associations(block)
    ]
    start: tuple[Item, Hashed | None, bool] = (item, None, is_exact(item[0]))
    met, pending = {start}, [start]
    while pending:
        at, through, exact = pending.pop()
        for near, far, block in pairs:
            if near != at:
                continue
            if through is not None and parse_space(at[0]).kind is SpaceKind.KEYS:
                reader, writer = (through, block) if backward else (block, through)
                if not was_read(reader.attempts_read, writer.block_id.attempt):
                    continue
            key = through_of(far, block, exact and block.exact and is_exact(far[0]))
            if key not in met:
                met.add(key)
                pending.append(key)
    reached: dict[Item, bool] = {}
    for at, _, exact in met:
        reached[at] = reached.get(at, False) or exact
    return reached


def through_of(item: Item, block: FlowBlock, exact: bool) -> tuple[Item, Hashed | None, bool]:
    """An item with the block that led to it where that decides how it goes on."""
    is_keyed = parse_space(item[0]).kind is SpaceKind.KEYS
    return item, Hashed(block) if is_keyed else None, exact


class Hashed:
    """A block, by what of it decides."""

    def __init__(self, block: FlowBlock) -> None:
        self.attempts_read, self.block_id = block.attempts_read, block.block_id
        self._key = (block.block_id.attempt, block.attempts_read)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashed) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _check(graph: MemoryGraph, items: list[Item], direction: Direction) -> None:
    backward = direction is Direction.BACKWARD
    each = tagged_trace(graph, tagged_start(items, together=False), backward=backward)
    together = tagged_trace(graph, tagged_start(items, together=True), backward=backward)
    expected: dict[Pair, bool] = {}
    reasons: set[str] = set()
    for tag, item in enumerate(items):
        alone = trace(graph, direction, region_of_items([item]))
        reasons |= set(alone.reasons)
        reached = brute(graph, item, backward=backward)
        for found in found_in(alone):
            expected[(tag, *found)] = reached[found]
    assert {pair: "" in why for pair, why in each.found.items()} == expected
    assert set(each.reasons) == reasons
    union = trace(graph, direction, region_of_items(items))
    assert {(space, at) for _, space, at in together.found} == found_in(union)
    exact = {item[1:]: False for item in expected}
    for (_, space, at), is_exact in expected.items():
        exact[space, at] |= is_exact
    assert {pair[1:]: "" in why for pair, why in together.found.items()} == exact
    assert set(together.reasons) <= reasons
    assert set(together.reasons) == set(union.reasons)


@settings(max_examples=examples(40))
@given(uneven_graphs(), st.sampled_from(Direction), st.data())
def test_each_item_is_traced_as_if_alone(
    graph: MemoryGraph, direction: Direction, data: st.DataObject
) -> None:
    _check(graph, data.draw(asked(graph)), direction)


@pytest.mark.long
@settings(max_examples=examples(400), deadline=None)
@given(uneven_graphs(), st.sampled_from(Direction), st.data())
def test_each_item_is_traced_as_if_alone_in_many_graphs(
    graph: MemoryGraph, direction: Direction, data: st.DataObject
) -> None:
    _check(graph, data.draw(asked(graph)), direction)


@st.composite
def tagged_runs(draw: st.DrawFn) -> TaggedRuns:
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 4),
                st.sampled_from([0, 1, 2, 5, 2**64 - 3, 2**63 - 2]),
                st.integers(0, 2),
                st.booleans(),
                st.integers(0, 2),
            ),
            max_size=8,
        )
    )
    tag, first, more, each, reason = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    begin = np.array(first, np.uint64)
    return TaggedRuns(
        np.array(tag, np.int64),
        begin,
        begin + np.array(more, np.uint64),
        np.array(each, np.bool_),
        np.array(reason, np.int64),
    )


@given(tagged_runs())
def test_compacted_rows_are_the_same_pairs_and_few(rows: TaggedRuns) -> None:
    small = compacted(rows)
    before, after = pairs_of("0#0", rows), pairs_of("0#0", small)
    assert set(before) == set(after)
    assert len(after) <= 2 * len(set(after))
    again = compacted(small)
    assert set(pairs_of("0#0", again)) == set(before)


def test_a_chain_with_two_ways_at_each_step_stays_small() -> None:
    """Without compaction rows double at each of 40 steps."""
    positions = np.arange(4, dtype=np.uint64)
    blocks = []
    for step in range(1, 41):
        for seq in range(2):
            blocks.append(
                FlowBlock(
                    BlockId(str(step), 0, 0, seq), Relation.IDENTITY, f"{step - 1}#0",
                    (Section(f"{step}#0", 0, 1),), positions[:1], positions[:1], None, positions[3:], positions[3:],
                )
            )  # fmt: skip
    kinds = {0: "source", 40: "sink"}
    graph = MemoryGraph([node(str(at), kinds.get(at, "operator")) for at in range(41)], [], blocks)
    traced = tagged_trace(
        graph, tagged_start([("40#0", at) for at in range(4)], together=False), backward=True
    )
    assert set(traced.found) == {(at, "0#0", at) for at in range(4)}
    assert traced.rows < 200
