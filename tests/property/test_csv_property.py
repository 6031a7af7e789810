"""The codec against a plain one, and against everything that is not a block."""

import csv
import io
import random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lineage_core.codec.columns import BLOCK_MAGIC, pack_block, unpack_block
from lineage_core.codec.csv_codec import BlockHeader, decode_csv, encode_csv, header_of
from lineage_core.codec.zstd import compress, decompress
from lineage_core.contract.block import FlowBlock, Relation
from lineage_core.contract.block_check import associations
from lineage_core.errors import BlockError, ContractError, RecordBatchError
from tests.support.flow_blocks import (
    blocks,
    outputs_of,
    plain_cells,
    read_cells,
    regions_of,
    same_flows,
)

pytestmark = pytest.mark.property

NASTY = (
    *(b"", b"0", b"00", b"-", b" ", b"  ", b"-1", b"#", b",", b",,", b'"', b'""', b'"""', b"\n"),
    *(b"\r", b"\r\n", b"\n\n", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"x"),
    *(b"18446744073709551615", b"18446744073709551616", b"99999999999999999999999", b"/", b"."),
    *(b"4#0#", b"*@0", "٣".encode(), b"\x80" * 9, b"1e5", b"+1", b"0x10"),
)


@given(blocks())
def test_cells_are_those_of_a_plain_writer(block: FlowBlock) -> None:
    assert read_cells(encode_csv(block)) == plain_cells(block)


@given(blocks())
def test_decoding_inverts_encoding(block: FlowBlock) -> None:
    header = BlockHeader.from_json(header_of(block).to_json())
    assert header == header_of(block)
    payload = encode_csv(block)
    again = decode_csv(payload, header)
    assert same_flows(again, block)
    assert encode_csv(again) == payload


@given(
    blocks(),
    st.sampled_from((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)),
    st.sampled_from(("\n", "\r\n")),
)
def test_what_python_writes_back_is_read(block: FlowBlock, quoting: Any, line_end: str) -> None:
    payload = encode_csv(block)
    cells = read_cells(payload)
    assume(_tells_nothing_from_empty(block, quoting))
    # Python 3.11 quotes a CR only where lines end with one.
    assume(b"\r" not in payload or line_end == "\r\n")
    rewritten = io.StringIO(newline="")
    csv.writer(rewritten, quoting=quoting, lineterminator=line_end).writerows(cells)
    assert same_flows(decode_csv(rewritten.getvalue().encode(), header_of(block)), block)


def _tells_nothing_from_empty(block: FlowBlock, quoting: int) -> bool:
    """Python's csv takes ``""`` for nothing, and writes nothing as ``""`` where it quotes all."""
    values = [None] * block.rows if block.values is None else list(block.values)
    if quoting == csv.QUOTE_ALL:
        return None not in values and (block.in_text is None or "" not in block.in_text)
    return "" not in values and (block.in_text is None or "" not in block.in_text)


@given(blocks())
def test_associations_are_counted_as_one_by_one(block: FlowBlock) -> None:
    sizes = [sum(b - a + 1 for a, b in region) for region in regions_of(block)]
    if block.relation is Relation.IDENTITY:
        wanted = sum(sizes)
    elif block.relation is Relation.ROWS:
        out = [run[1] - run[0] + 1 for _, run in outputs_of(block)]
        wanted = sum(a * b for a, b in zip(sizes, out, strict=True))
    else:
        inputs = _distinct([("", run) for region in regions_of(block) for run in region])
        wanted = inputs * _distinct(outputs_of(block))
    assert associations(block) == wanted


def _distinct(runs: list[tuple[str, tuple[int, int]]]) -> int:
    count, reach = 0, ("", -1)
    for space, (first, last) in sorted(runs):
        begin = max(first, reach[1] + 1) if space == reach[0] else first
        if last >= begin:
            count += last - begin + 1
        if space != reach[0] or last > reach[1]:
            reach = (space, last)
    return count


@settings(max_examples=200)
@given(blocks(), st.randoms(use_true_random=False))
def test_a_damaged_payload_is_refused_or_means_what_it_says(
    block: FlowBlock, chance: random.Random
) -> None:
    payload, header = encode_csv(block), header_of(block)
    for _ in range(10):
        damaged = _damage(payload, chance)
        try:
            found = decode_csv(damaged, header)
        except ContractError as error:
            assert error.where  # noqa: PT017
            continue
        assert read_cells(damaged) == read_cells(encode_csv(found))


@given(blocks(), st.binary(max_size=200))
def test_random_bytes_are_refused(block: FlowBlock, payload: bytes) -> None:
    header = header_of(block)
    with pytest.raises(BlockError):
        decode_csv(payload, header)
    with pytest.raises(BlockError):
        decode_csv(encode_csv(block) + (payload or b"\n"), header)


@settings(max_examples=200)
@given(blocks(), st.randoms(use_true_random=False))
def test_a_damaged_header_is_refused_or_read(block: FlowBlock, chance: random.Random) -> None:
    header, payload = header_of(block).to_json(), encode_csv(block)
    for _ in range(10):
        try:
            found = decode_csv(payload, BlockHeader.from_json(_damage(header, chance)))
        except ContractError:
            continue
        assert header_of(found).rows == block.rows


@given(blocks())
def test_unpacking_inverts_packing(block: FlowBlock) -> None:
    packed = pack_block(block)
    again = unpack_block(packed)
    assert same_flows(again, block)
    assert pack_block(again) == packed


@settings(max_examples=200)
@given(blocks(), st.randoms(use_true_random=False))
def test_damaged_columns_are_refused_or_hold_the_invariants(
    block: FlowBlock, chance: random.Random
) -> None:
    packed = pack_block(block)
    with pytest.raises(BlockError):
        unpack_block(_damage(packed, chance, must_differ=True))
    content = decompress(packed[8:], 2**20)
    for _ in range(10):
        damaged = _seal(_damage(content, chance))
        try:
            found = unpack_block(damaged)
        except ContractError:
            continue
        assert same_flows(unpack_block(pack_block(found)), found)


def _seal(content: bytes) -> bytes:
    from zlib import crc32

    packed = compress(content)
    return BLOCK_MAGIC + crc32(packed).to_bytes(4, "little") + packed


@given(st.binary(max_size=64), st.randoms(use_true_random=False))
def test_damaged_zstd_is_refused_or_read(content: bytes, chance: random.Random) -> None:
    for _ in range(10):
        try:
            found = decompress(_damage(compress(content), chance), 1024)
        except RecordBatchError:
            continue
        assert len(found) <= 1024


def _damage(raw: bytes, chance: random.Random, *, must_differ: bool = False) -> bytes:
    damaged = raw
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(damaged))
        stop = min(len(damaged), at + chance.choice((0, 0, 1, 1, 2, 5, len(damaged))))
        piece = chance.choice(NASTY)
        kind = chance.randrange(4)
        if kind == 0 and at < len(damaged):
            stop = at + 1
            piece = bytes([damaged[at] ^ 1 << chance.randrange(8)])
        elif kind == 1:
            piece = damaged[at:stop] * 2
        elif kind == 2:
            piece = b""
        damaged = damaged[:at] + piece + damaged[stop:]
    if must_differ and damaged == raw:
        return raw + b"\0"
    return damaged
