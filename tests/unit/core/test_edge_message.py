"""What the linker sends to be stored comes back as it was, and nothing else passes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lineage_core.codec.edge_message import (
    LINKS_MAX,
    Links,
    PackedEdge,
    StoredBlock,
    pack_links,
    pack_stored,
    packed_edge,
    parse_edge_record,
    stored_block,
)
from lineage_core.codec.packing import pack_for_store
from lineage_core.codec.record_batch import pack_record_batch
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.sealing import Seal
from lineage_core.errors import ContractError
from lineage_core.linking.linker import TaskId
from lineage_kafka.topics import Topics, app_partition, flow_partition
from tests.support.flow_blocks import u64

pytestmark = pytest.mark.unit

ONE, TWO = BlockId("4", 0, 7, 0), BlockId("6", 0, 9, 2)


def key_block() -> FlowBlock:
    return FlowBlock(
        block_id=ONE,
        relation=Relation.ROWS,
        in_space="1#0",
        out=(Section("4@0", 0, 1), Section("4@1", 1, 2)),
        in_first=u64([0, 5]),
        out_first=u64([2**64 - 1, 3]),
        app="app-1",
    )


def fields(value: object) -> list[object]:
    return [getattr(value, name) for name in value.__slots__]  # type: ignore[attr-defined]


def test_a_block() -> None:
    block = stored_block("app-1", TaskId("6", 0, 7), pack_for_store(key_block()))
    found = parse_edge_record(pack_stored(block))
    assert isinstance(found, StoredBlock)
    assert fields(found) == fields(block)


def test_links() -> None:
    rows = np.array([0, 1, 1], np.uint32)
    edges = [packed_edge(EdgeBatch(ONE, TWO, 3, rows, rows)), PackedEdge(TWO, ONE, 5, None)]
    seals = [Seal("4@0", 2, 1, 2**64 - 1)]
    links = Links("app-1", [ONE], [(TWO, 2**63)], edges, seals, "e1")
    (frame,) = pack_links(links)  # whole or not at all: nothing is visible without its edges
    found = parse_edge_record(frame)
    assert isinstance(found, Links)
    assert (found.app, found.visible, found.unmatched) == ("app-1", [ONE], [(TWO, 2**63)])
    assert (found.seals, found.epoch) == (seals, "e1")
    assert [fields(edge) for edge in found.edges] == [fields(edge) for edge in edges]


def test_links_of_an_earlier_linker() -> None:
    header = b'{"v":1,"type":"links","app":"a","visible":[["4",0,7,0]],"unmatched":[],"edges":[]}'
    found = parse_edge_record(pack_record_batch(header, b""))
    assert isinstance(found, Links)
    assert (found.visible, found.seals, found.epoch) == ([BlockId("4", 0, 7, 0)], [], "")


def test_many_links_are_cut() -> None:
    blocks = [BlockId("4", 0, 7, seq) for seq in range(LINKS_MAX + 1)]
    edges = [PackedEdge(block, ONE, 1, None) for block in blocks]
    frames = pack_links(Links("app-1", blocks, (), edges))
    assert (len(frames.edges), len(frames.last)) == (2, 2)
    found = [parse_edge_record(frame) for frame in frames]
    assert [(len(one.visible), len(one.edges)) for one in found if isinstance(one, Links)] == [
        (0, LINKS_MAX),
        (0, 1),
        (LINKS_MAX, 0),
        (1, 0),
    ]
    assert not list(pack_links(Links("app-1")))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"LMF1",
        b"{}",
        pack_record_batch(b"[]", b""),
        pack_record_batch(b'{"type":"edges"}', b""),
        pack_record_batch(
            b'{"v":2,"type":"links","app":"a","visible":[],"unmatched":[],"edges":[]}', b""
        ),
        pack_record_batch(
            b'{"v":1,"type":"links","app":"a","visible":[],"unmatched":[],"edges":[]}', b"x"
        ),
        pack_record_batch(b'{"v":1,"type":"links","app":"a","visible":[["4",0,-1,0]]}', b""),
        pack_stored(stored_block("a", TaskId("6", 0, 7), pack_for_store(key_block()))) * 2,
    ],
)
def test_anything_else_is_refused(value: bytes) -> None:
    with pytest.raises(ContractError):
        parse_edge_record(value)


def test_a_space_that_is_none_is_refused() -> None:
    value = pack_stored(stored_block("a", TaskId("6", 0, 7), pack_for_store(key_block())))
    size = int.from_bytes(value[4:8], "little")
    header = json.loads(value[8 : 8 + size]) | {"in_space": "no space"}
    with pytest.raises(ContractError, match="in_space"):
        parse_edge_record(pack_record_batch(json.dumps(header).encode(), b""))


def test_partitions_are_the_same_everywhere() -> None:
    assert [flow_partition("app-1", task, 4) for task in range(5)] == [0, 1, 2, 3, 0]
    assert app_partition("app-1", 4) == 0
    assert Topics("test-").all()[0] == "test-lineage-flow"
