import dataclasses

import numpy as np
import pytest

from lineage_core.codec.columns import BLOCK_MAGIC, pack_block, unpack_block
from lineage_core.codec.number_columns import pack_numbers, unpack_numbers
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.errors import BlockError
from tests.support.flow_blocks import same_flows, u64

pytestmark = pytest.mark.unit

ROWS = 60_000


def dense() -> FlowBlock:
    return FlowBlock(
        BlockId("4", 0, 17, 2),
        Relation.ROWS,
        "1#0",
        (Section("4#0.17", 0, ROWS),),
        in_first=np.arange(ROWS, dtype=np.uint64) * np.uint64(2),
        out_first=np.arange(ROWS, dtype=np.uint64),
        app="app-1",
    )


def test_dense_columns_cost_nothing() -> None:
    packed = pack_block(dense())
    assert len(packed) < 300
    assert same_flows(unpack_block(packed), dense())


def test_columns_that_say_nothing_are_left_out() -> None:
    block = dense()
    wordy = dataclasses.replace(
        block, in_ptr=np.arange(ROWS + 1), in_last=block.in_first, out_last=block.out_first
    )
    assert pack_block(wordy) == pack_block(block)
    found = unpack_block(pack_block(wordy))
    assert (found.in_ptr, found.in_last, found.out_last) == (None, None, None)


def test_gaps_cost_their_entropy() -> None:
    chance = np.random.default_rng(7)
    first = np.cumsum(chance.integers(2, 200, (100, 2_600)), axis=1).astype(np.uint64)
    block = dataclasses.replace(
        dense(),
        in_first=first.ravel(),
        in_ptr=np.arange(0, 260_001, 2_600),
        out=(Section("4@3", 0, 100),),
        out_first=np.arange(100, dtype=np.uint64),
    )
    assert len(pack_block(block)) < 1.05 * 260_000
    assert same_flows(unpack_block(pack_block(block)), block)


def test_every_flipped_byte_is_noticed() -> None:
    packed = pack_block(dense())
    for at in range(len(packed)):
        damaged = bytearray(packed)
        damaged[at] ^= 1
        with pytest.raises(BlockError):
            unpack_block(bytes(damaged))
    for size in range(len(packed)):
        with pytest.raises(BlockError):
            unpack_block(packed[:size])
    with pytest.raises(BlockError):
        unpack_block(packed + b"\0")
    assert packed.startswith(BLOCK_MAGIC)


def test_texts_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(BlockError):
        pack_block(dataclasses.replace(dense(), values=["\ud800"] * ROWS))


@pytest.mark.parametrize(
    ("numbers", "size"),
    [
        ([], 0),
        ([7], 18),
        ([5, 3, 1], 18),
        ([2**64 - 1, 0, 1], 18),
        ([0, 2**64 - 1, 5], 20),
        ([0, 255, 3], 21),
        ([1000, 1001, 1255], 21),
        ([2000, 1255, 1000, 1500], 26),
        ([2000, 2100, 2090, 2190, 2300], 22),
        ([0, 2**63, 3], 42),
    ],
)
def test_numbers_come_back(numbers: list[int], size: int) -> None:
    packed = pack_numbers(u64(numbers))
    assert len(packed) == size
    found, rest = unpack_numbers(memoryview(packed + b"rest"), len(numbers), "here")
    assert found.dtype == np.uint64
    assert found.tolist() == numbers
    assert bytes(rest) == b"rest"
    for cut in range(len(packed)):
        with pytest.raises(BlockError, match="here: ends too early"):
            unpack_numbers(memoryview(packed[:cut]), len(numbers), "here")


def test_unknown_modes_are_refused() -> None:
    for raw in (b"\3", b"\1\x09"):
        with pytest.raises(BlockError, match="not known"):
            unpack_numbers(memoryview(raw + bytes(40)), 2, "here")
