"""Two attempts at one map task that put out other records: lineage is of what was read."""

from dataclasses import replace

import pytest

from lineage_core.codec.columns import pack_block, unpack_block
from lineage_core.codec.csv_codec import decode_csv, encode_csv
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.block_header import BlockHeader, header_of
from lineage_core.contract.graph import LinkRecord
from lineage_core.contract.region import Region
from lineage_core.errors import BlockError
from lineage_core.linking.attempts import READ_DIFFERENTLY, READ_UNKNOWN
from lineage_core.linking.joining import Side, join_entry_of
from lineage_core.linking.linker import Linker, MemoryState, TaskId
from lineage_core.tracing.derivations import derivations_among
from lineage_core.tracing.tracer import Direction, trace
from lineage_linker.sides import pack_side, read_mark
from tests.support.memory_graph import MemoryGraph, node
from tests.unit.core.test_tracing import at, pairs, rows

pytestmark = pytest.mark.unit

BACK, FORTH = Direction.BACKWARD, Direction.FORWARD
A, B, OTHER = BlockId("1", 0, 1, 0), BlockId("1", 0, 5, 0), BlockId("1", 1, 2, 0)
"""Two attempts at one map task, and another task."""


def reading(reader: int, key: int, *attempts: int) -> FlowBlock:
    """What a reduce task writes that has read one key of some attempts."""
    name = BlockId("2", reader, 10 + reader, 0)
    one = rows(name, "1@0", [([key], f"2#{reader}", 0)])
    return replace(one, attempts_read=Region.from_positions(attempts) if attempts else None)


def recomputed(*readers: FlowBlock) -> MemoryGraph:
    """Row 0 went to key 7 in the first attempt, row 1 in the second; the other task adds its own."""
    return MemoryGraph(
        [node("0", "source", "textFile"), node("1", "shuffle"), node("2", "sink")],
        [LinkRecord("0", "1"), LinkRecord("1", "2")],
        [
            rows(A, "0#0", [([0], "1@0", 7), ([1], "1@0", 8)]),
            rows(B, "0#0", [([1], "1@0", 7), ([0], "1@0", 8)]),
            rows(OTHER, "0#1", [([3], "1@0", 7)]),
            *readers,
        ],
    )


@pytest.mark.parametrize(("attempt", "row"), [(1, 0), (5, 1)])
def test_a_row_is_from_what_its_task_read(attempt: int, row: int) -> None:
    graph = recomputed(reading(0, 7, 2, attempt))
    found = trace(graph, BACK, {"2#0": at(0)})
    assert pairs(found) == {"0": {"0#0": [(row, row)], "0#1": [(3, 3)]}}
    assert found.exact
    assert pairs(trace(graph, BACK, {"1@0": at(7)})) == pairs(found)
    assert pairs(trace(graph, BACK, {"2#0": at(0)}, steps=2)) == pairs(found)
    for source_row in (0, 1):
        went = trace(graph, FORTH, {"0#0": at(source_row)})
        assert pairs(went) == ({"2": {"2#0": [(0, 0)]}} if source_row == row else {})
        assert went.exact


def test_tasks_that_read_other_attempts_in_one_trace() -> None:
    graph = recomputed(reading(0, 7, 1, 2), reading(1, 8, 2, 5))
    both = trace(graph, BACK, {"2#0": at(0), "2#1": at(0)})
    # Each from row 0: the first attempt sent it to key 7, the second to key 8.
    assert pairs(both) == {"0": {"0#0": [(0, 0)], "0#1": [(3, 3)]}}
    assert both.exact
    went = trace(graph, FORTH, {"0#0": at(0, 1)})
    assert pairs(went) == {"2": {"2#0": [(0, 0)], "2#1": [(0, 0)]}}
    assert pairs(trace(graph, FORTH, {"0#0": at(1)})) == {}


def test_a_key_that_was_read_differently_is_a_superset() -> None:
    graph = recomputed(reading(0, 7, 1, 2), reading(1, 7, 2, 5))
    found = trace(graph, BACK, {"1@0": at(7)})
    assert pairs(found) == {"0": {"0#0": [(0, 1)], "0#1": [(3, 3)]}}
    assert found.reasons == (f"node 1 (map): {READ_DIFFERENTLY}",)
    told = {(one.block_id, one.exact) for one in derivations_among(graph) if one.out_space == "1@0"}
    assert told == {(A, False), (B, False), (OTHER, True)}


def test_a_key_that_nobody_read_is_a_superset() -> None:
    found = trace(recomputed(), BACK, {"1@0": at(7)})
    assert pairs(found) == {"0": {"0#0": [(0, 1)], "0#1": [(3, 3)]}}
    assert found.reasons == (f"node 1 (map): {READ_UNKNOWN}",)


def keys_of_many(*readers: FlowBlock) -> MemoryGraph:
    """Six map tasks, so that edges tell which blocks are loaded: three put out key 7, three key 8."""
    producers = [
        rows(BlockId("1", at, at, 0), f"0#{at}", [([0], "1@0", 7 if at < 3 else 8)])
        for at in range(6)
    ]
    return MemoryGraph(
        [node("0", "source", "textFile"), node("1", "shuffle"), node("2", "sink")],
        [LinkRecord("0", "1"), LinkRecord("1", "2")],
        [*producers, *readers],
    )


def test_a_key_that_nobody_read_is_found_beside_one_that_somebody_read() -> None:
    """As of a key that a filter drops behind the shuffle: no edge of a reader leads to it."""
    found = trace(keys_of_many(reading(0, 7)), BACK, {"1@0": at(7, 8)})
    assert pairs(found) == {"0": {f"0#{at}": [(0, 0)] for at in range(6)}}
    assert found.exact


def test_where_a_key_of_the_start_went_is_found_beside_what_leads_to_its_space() -> None:
    """The row leads to key 8 alone; edges of its block say nothing of who read key 7."""
    readers = [reading(at, 7 if at else 8) for at in range(6)]
    found = trace(keys_of_many(*readers), FORTH, {"1@0": at(7), "0#5": at(0)})
    assert pairs(found) == {"2": {f"2#{at}": [(0, 0)] for at in range(6)}}
    # Nor is it asked which attempts put out a key that the question names.
    readers = [reading(at, 7 if at else 8, 0, 3) for at in range(6)]
    found = trace(keys_of_many(*readers), FORTH, {"1@0": at(7), "0#5": at(0)})
    assert pairs(found) == {"2": {f"2#{at}": [(0, 0)] for at in range(1, 6)}}


def test_readers_that_do_not_tell_read_all() -> None:
    """As of programs that name no attempts; stores mark what such attempts contradict each other in."""
    found = trace(recomputed(reading(0, 7)), BACK, {"2#0": at(0)})
    assert pairs(found) == {"0": {"0#0": [(0, 1)], "0#1": [(3, 3)]}}


def test_derivations_are_of_what_was_read() -> None:
    graph = recomputed(reading(0, 7, 2, 5))
    of_keys = [one for one in derivations_among(graph) if one.out_space == "1@0"]
    assert {one.block_id for one in of_keys} == {B, OTHER}
    assert all(one.exact for one in of_keys)


def test_blocks_are_linked_to_what_they_read() -> None:
    blocks = recomputed(reading(0, 7, 2, 5)).block_list
    for order in (blocks, blocks[::-1]):
        state, edges = MemoryState(), []
        linker = Linker(state)
        for one in order:
            task = TaskId(one.block_id.node, one.block_id.partition, one.block_id.attempt)
            linker.commit(task)
            edges += linker.receive(task, join_entry_of(one, {"0"}.__contains__)).edges
        linker.recount_unmatched()
        assert {edge.producer for edge in edges} == {B, OTHER}
        assert state.unmatched(BlockId("2", 0, 10, 0)) == 0


def test_an_attempt_that_was_not_read_covers_nothing() -> None:
    blocks = [one for one in recomputed(reading(0, 7, 5)).block_list if one.block_id != B]
    state = MemoryState()
    linker = Linker(state)
    for one in blocks:
        task = TaskId(one.block_id.node, one.block_id.partition, one.block_id.attempt)
        linker.commit(task)
        linker.receive(task, join_entry_of(one, {"0"}.__contains__))
    linker.recount_unmatched()
    assert state.unmatched(BlockId("2", 0, 10, 0)) == 1


def test_attempts_travel_with_the_block() -> None:
    block = replace(reading(0, 7, 2, 3, 4, 9), app="a")
    header = BlockHeader.from_json(header_of(block).to_json())
    assert header.attempts_read == block.attempts_read
    assert b'"attempts_read":"2-4 9"' in header.to_json()
    assert decode_csv(encode_csv(block), header).attempts_read == block.attempts_read
    assert unpack_block(pack_block(block)).attempts_read == block.attempts_read
    silent = replace(block, attempts_read=None)
    assert b"attempts" not in header_of(silent).to_json()
    assert unpack_block(pack_block(silent)).attempts_read is None


def test_attempts_of_other_spaces_are_refused() -> None:
    block = replace(reading(0, 7, 2), app="a", in_space="1#0")
    with pytest.raises(BlockError, match="attempts_read: "):
        pack_block(block)
    fields = header_of(reading(0, 7, 2)).to_fields() | {"attempts_read": "3-2", "app": "a"}
    with pytest.raises(BlockError, match="attempts_read"):
        BlockHeader.from_fields(fields)


@pytest.mark.parametrize("keys", [[7], [7, 5, 90], list(range(4))])
def test_attempts_are_kept_with_a_side(keys: list[int]) -> None:
    block = rows(BlockId("2", 0, 10, 0), "1@0", [([key], "2#0", at) for at, key in enumerate(keys)])
    for attempts in (None, Region.from_positions([2, 3, 9])):
        side = join_entry_of(replace(block, attempts_read=attempts)).inputs
        assert isinstance(side, Side)
        packed, columns = pack_side(side)
        mark = read_mark(packed)
        kept = mark.side if mark.is_all else mark.with_columns(columns)
        assert kept is not None
        assert kept.attempts == attempts
        assert kept.positions()[0].tolist() == side.positions()[0].tolist()
