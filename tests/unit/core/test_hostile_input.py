"""What comes from a topic may be made to hurt: it costs a bounded amount, and is refused."""

from __future__ import annotations

import json
import struct
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from lineage_core.codec import csv_cells
from lineage_core.codec.columns import unpack_block
from lineage_core.codec.csv_codec import decode_csv
from lineage_core.codec.edge_message import Links, PackedEdge, pack_links, parse_edge_record
from lineage_core.codec.packing import pack_edge, unpack_edge
from lineage_core.codec.record_batch import (
    CONTENT_BYTES_MAX,
    compress,
    decompress_payload,
    pack_record_batch,
)
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.block_check import BLOCK_RUNS_MAX
from lineage_core.contract.block_header import header_of
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import parse_message
from lineage_core.errors import BlockError, ContractError, MessageError, RecordBatchError
from lineage_core.linking.joining import RUNS_COUNTED_MAX, join_entry_of, join_sides
from lineage_linker.errors import UnusableRecordError
from lineage_linker.events import prepare_block, read_block_record, read_event
from tests.support.wide_blocks import row_of_runs

A, B = BlockId("1", 0, 0, 0), BlockId("2", 0, 0, 0)
MIB = 1 << 20


def peak(work: Callable[[], object]) -> int:
    """Bytes of memory that some work takes at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(work: Callable[[], object], message: str = ".") -> Callable[[], None]:
    def attempt() -> None:
        with pytest.raises(ContractError, match=message):
            work()

    return attempt


def block(rows: int = 2, out: tuple[Section, ...] | None = None) -> FlowBlock:
    positions = np.arange(rows, dtype=np.uint64)
    spaces = (Section("1#0", 0, rows),) if out is None else out
    return FlowBlock(A, Relation.ROWS, "0#0", spaces, positions, positions, app="app-1")


def test_content_that_expands_is_refused_before_it_does() -> None:
    # 300 MiB of zeros, by hand: 2,400 blocks of one repeated byte behind a header that notes the size.
    size = CONTENT_BYTES_MAX + 44 * MIB
    header = b"\x28\xb5\x2f\xfd" + bytes([0xA0]) + struct.pack("<I", size)
    bomb = header + struct.pack("<I", (128 << 10) << 3 | 2)[:3] * 2_400
    assert peak(refused(lambda: decompress_payload(bomb), "bytes of content, at most")) < MIB


def test_content_that_is_longer_or_shorter_than_it_notes_is_refused() -> None:
    honest = compress(bytes(1000))
    assert len(decompress_payload(honest)) == 1000
    for noted in (999, 2_000, 60_000):
        at = 5 if honest[4] & 0x20 else 6
        lie = honest[:at] + struct.pack("<H", noted - 256) + honest[at + 2 :]
        with pytest.raises(RecordBatchError):
            decompress_payload(lie)


@pytest.mark.parametrize("mark", [b",", b" ", b"-", b'"', b"\n", b'"",'])
def test_a_payload_of_nothing_but_marks_takes_no_more_memory(
    mark: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_cells, "MARKS_MAX", MIB)
    payload = mark * (16 * MIB // len(mark))
    header = header_of(block())
    assert peak(refused(lambda: decode_csv(payload, header), "more than 1048576 of")) < MIB


def test_json_that_is_deep_or_has_numbers_without_end_is_refused() -> None:
    for text in (b"[" * 900_000, b'{"a":' * 150_000, b'{"v":' + b"9" * 900_000 + b"}"):
        with pytest.raises(MessageError):
            parse_message(b'{"v":1,"x":' + text)
        with pytest.raises(UnusableRecordError):
            read_event(text if text.startswith(b"{") else b"{" + text)
        frame = pack_record_batch(text, compress(b""))
        with pytest.raises(ContractError):
            read_block_record(frame)
        with pytest.raises(ContractError):
            parse_edge_record(frame)


def test_lengths_that_a_record_does_not_have_are_refused() -> None:
    good = pack_record_batch(b"{}", b"payload")
    for size in (len(good), 2**20 + 1, 2**31, 2**32 - 1):
        lie = good[:4] + struct.pack("<I", size) + good[8:]
        assert peak(refused(lambda lie=lie: parse_edge_record(lie))) < MIB  # type: ignore[misc]


def test_rows_that_a_header_only_claims_are_refused() -> None:
    honest = header_of(block())
    for rows in (2**20, 2**20 + 1, 2**62):
        fields = honest.to_fields() | {"rows": rows, "out": [["1#0", 0, rows]]}
        frame = pack_record_batch(
            json.dumps(fields).encode(), compress(b"flowId,hashIn,hashOut,value\n")
        )

        def prepared(frame: bytes = frame) -> None:
            with pytest.raises((UnusableRecordError, ContractError)):
                prepare_block(read_block_record(frame), lambda node: False)

        assert peak(prepared) < MIB


def test_a_packed_block_that_notes_what_it_lacks_is_refused() -> None:
    with pytest.raises(BlockError):
        unpack_block(b"LMC1" + bytes(4) + compress(bytes(100)))


def test_pairs_of_an_edge_are_those_that_it_holds() -> None:
    rows = np.arange(3, dtype=np.uint32)
    data = pack_edge(EdgeBatch(A, B, 3, rows, rows))
    assert data is not None
    assert [column.tolist() for column in unpack_edge(3, data)] == [[0, 1, 2], [0, 1, 2]]
    for pairs in (0, 2, 4, BLOCK_RUNS_MAX, BLOCK_RUNS_MAX + 1, 2**62):
        assert peak(refused(lambda pairs=pairs: unpack_edge(pairs, data))) < MIB  # type: ignore[misc]


def test_links_that_claim_too_many_pairs_or_name_no_node_are_refused() -> None:
    def parsed(links: Links) -> object:
        (value,) = pack_links(links)
        return parse_edge_record(value)

    parsed(Links("app-1", (), (), [PackedEdge(A, B, 2**40, None)]))
    with pytest.raises(RecordBatchError, match="pairs, at most"):
        parsed(Links("app-1", (), (), [PackedEdge(A, B, BLOCK_RUNS_MAX + 1, b"rows")]))
    for name in ("", "a#b", "x" * 600, "a\nb#"):
        bad = BlockId(name, 0, 0, 0)
        for links in (
            Links("app-1", [bad]),
            Links("app-1", (), [(bad, 1)]),
            Links("app-1", (), (), [PackedEdge(A, bad, 1, None)]),
        ):
            with pytest.raises(BlockError):
                parsed(links)


@pytest.mark.parametrize(
    ("runs", "rows", "times", "mib"),
    [
        # 33 million matches, each pair of rows met 5,790 times.
        pytest.param(5_790, 5_790, 1, 8, id="small"),
        pytest.param(2**18, 2**16, 1, 64, id="as-writers-cut-them"),
        pytest.param(RUNS_COUNTED_MAX, 4_000, RUNS_COUNTED_MAX, 64, id="larger-than-writers-make"),
    ],
)
def test_blocks_that_overlap_everywhere_are_counted_in_bounded_time_and_memory(
    runs: int, rows: int, times: int, mib: int
) -> None:
    # One row of many runs against rows that each cover all of them.
    consumer = row_of_runs(B, runs)
    producer = FlowBlock(
        A,
        Relation.ROWS,
        "0#0",
        (Section("1@0", 0, rows),),
        np.zeros(rows, np.uint64),
        np.zeros(rows, np.uint64),
        out_last=np.full(rows, 2**40, np.uint64),
        app="app-1",
    )
    outputs, inputs = join_entry_of(producer).outputs["1@0"], join_entry_of(consumer).inputs
    assert inputs is not None

    def joined() -> None:
        edge = join_sides(A, outputs, B, inputs)
        assert edge is not None
        assert edge.pairs == rows * times

    began = time.process_time()
    assert peak(joined) < mib * MIB
    assert time.process_time() - began < 5


def test_a_block_of_very_many_spaces_takes_time_in_proportion() -> None:
    spaces = 16_000
    many = block(spaces, tuple(Section(f"1@{at}", at, at + 1) for at in range(spaces)))
    began = time.process_time()
    assert len(join_entry_of(many).outputs) == spaces
    # A pass over all sections for each space would be 256 million steps.
    assert time.process_time() - began < 5
