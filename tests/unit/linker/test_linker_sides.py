"""Join columns as Redis keeps them, and back."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given

from lineage_core.contract.block import BlockId
from lineage_core.errors import ContractError
from lineage_core.linking.joining import Side, join_entry_of
from lineage_linker.keys import keys_of, parse_block, parse_task, task_name
from lineage_linker.side_cache import OVERHEAD, SideCache
from lineage_linker.sides import (
    INLINE_MAX,
    WaitingEntry,
    pack_side,
    pack_waiting,
    read_mark,
    unpack_waiting,
)
from tests.support.flow_blocks import block_ids, blocks

pytestmark = pytest.mark.unit


def same(left: Side, right: Side) -> bool:
    columns = ("first", "last", "row")
    return all(
        np.array_equal(getattr(left, name), getattr(right, name))
        and getattr(left, name).dtype == getattr(right, name).dtype
        for name in columns
    ) and all(
        getattr(left, name) == getattr(right, name)
        for name in ("low", "high", "row_low", "distinct", "nbytes", "dense")
    )


def read(mark: bytes, columns: bytes) -> Side:
    found = read_mark(mark)
    assert found.is_all == (not columns)
    side = found.side or found.with_columns(columns)
    assert (found.low, found.high) == (side.low, side.high)
    return side


@given(block=blocks())
def test_any_side_and_marks_and_back(block: object) -> None:
    entry = join_entry_of(block)  # type: ignore[arg-type]
    for side in [*entry.outputs.values(), *([entry.inputs] if entry.inputs else [])]:
        assert same(read(*pack_side(side)), side)
    marks = {space: pack_side(side)[0] for space, side in entry.outputs.items()}
    for inputs in (None, None if entry.inputs is None else pack_side(entry.inputs)[0]):
        waiting = WaitingEntry(entry.in_space, inputs, marks)
        found = unpack_waiting(pack_waiting(waiting))
        assert found == waiting
        assert list(found.outputs) == list(entry.outputs)


def side_of(positions: list[int]) -> Side:
    first = np.array(positions, np.uint64)
    return Side(
        first,
        first,
        np.arange(len(first), dtype=np.uint32),
        positions[0],
        positions[-1],
        distinct=True,
    )


def test_long_columns_stand_apart_and_are_short() -> None:
    rng = np.random.default_rng(1)
    keys = np.unique(rng.integers(0, 2**63, 8_000)).tolist()
    mark, columns = pack_side(side_of(keys))
    assert len(mark) < 32
    assert INLINE_MAX < len(columns) < 8.2 * len(keys)
    assert same(read(mark, columns), side_of(keys))
    rows = list(range(0, 30_000, 3))
    mark, columns = pack_side(side_of(rows))
    assert columns == b""
    assert len(mark) < 128


@pytest.mark.parametrize("mark", [b"", b"\x00" * 20, b"\x00" * 17 + b"\xff" * 4])
def test_what_is_no_mark(mark: bytes) -> None:
    with pytest.raises(ContractError):
        read_mark(mark)


@given(block=block_ids)
def test_names_and_back(block: BlockId) -> None:
    assert parse_block(str(block).encode()) == block
    task = (block.node, block.partition, block.attempt)
    name = task_name(entry_task := parse_task(str(block).rpartition("#")[0]))
    assert tuple(entry_task) == task
    assert parse_task(name) == entry_task


def test_one_hash_tag_an_application() -> None:
    for app in ("app-1", "a}b", "{}", "%7D"):
        base = keys_of(app).base
        tag = base[base.index("{") + 1 : base.index("}")]
        assert base == f"lm:{{{tag}}}:"
    assert len({keys_of(app).base for app in ("a}b", "a%7Db", "a{b", "ab")}) == 4


def test_the_cache_keeps_what_was_used_last() -> None:
    one = side_of(list(range(0, 30, 3)))
    cache = SideCache(2 * (one.nbytes + OVERHEAD))
    ids = [BlockId("4", 0, 1, seq) for seq in range(3)]
    for block in ids[:2]:
        cache.put("app", "out", "4@0", block, one)
    assert cache.get("app", "out", "4@0", ids[0]) is one
    cache.put("app", "out", "4@0", ids[2], one)
    cache.put("app", "out", "4@0", ids[2], dataclasses.replace(one))
    kept = [cache.get("app", "out", "4@0", block) is not None for block in ids]
    assert kept == [True, False, True]
    assert cache.nbytes == 2 * (one.nbytes + OVERHEAD)
    assert cache.get("app", "in", "4@0", ids[0]) is None
    small = SideCache(0)
    small.put("app", "out", "4@0", ids[0], one)
    assert small.nbytes == 0


def test_an_entry_of_many_spaces_is_short() -> None:
    point = Side(*(np.empty(0, np.uint64),) * 2, np.empty(0, np.uint32), 5, 5, 0, distinct=True)
    mark, _ = pack_side(point)
    waiting = WaitingEntry("1#0", None, {f"2@{n}": mark for n in range(1_000)})
    assert len(pack_waiting(waiting)) < 40_000
