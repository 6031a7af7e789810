"""A job may send blocks of any form: they cost the linker a bounded amount, however they lie to each other."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace

import numpy as np

from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.region import Region
from lineage_core.contract.runs import EMPTY
from lineage_core.linking.joining import Side, join_entry_of
from lineage_core.linking.linker import Linker, MemoryState, TaskId
from tests.support.wide_blocks import row_of_runs

RUNS = 5_700
PRODUCERS = 20
SECONDS_MAX = 5.0
BYTES_MAX = 64 << 20


def producer(number: int) -> FlowBlock:
    """A block each row of which covers all that the consumer reads."""
    zeros = np.zeros(RUNS, np.uint64)
    return FlowBlock(
        BlockId("1", 0, 0, number),
        Relation.ROWS,
        "0#0",
        (Section("1@0", 0, RUNS),),
        zeros,
        zeros,
        out_last=np.full(RUNS, 2**40, np.uint64),
        app="app-1",
    )


def linked(linker: Linker, block: FlowBlock) -> list[EdgeBatch]:
    """Edges that a block brings with its commit."""
    task = TaskId(block.block_id.node, 0, 0)
    received = linker.receive(task, join_entry_of(block))
    return [*received.edges, *linker.commit(task).edges]


def test_blocks_that_meet_each_other_everywhere_hold_no_linker_up() -> None:
    linker = Linker(MemoryState())
    began = time.process_time()
    tracemalloc.start()
    try:
        edges = linked(linker, row_of_runs(BlockId("2", 0, 0, 0), RUNS))
        for number in range(PRODUCERS):
            edges += linked(linker, producer(number))
        linker.recount_unmatched()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Each row of a producer is met by the one row of the consumer, once, by however many runs.
    assert [edge.pairs for edge in edges] == [RUNS] * PRODUCERS
    assert time.process_time() - began < SECONDS_MAX
    assert peak < BYTES_MAX


def test_attempts_that_a_block_has_read_count_as_memory_of_its_side() -> None:
    entry = join_entry_of(producer(0))
    side = Side(EMPTY[0], EMPTY[0], np.zeros(0, np.uint32), 0, 9, 0, True)
    attempts = Region.from_positions(range(0, 200_000, 2))
    reading = replace(side, attempts=attempts)
    assert reading.nbytes == side.nbytes + attempts.first.nbytes + attempts.last.nbytes
    assert replace(entry, inputs=reading).nbytes > 1_600_000
