import dataclasses
import io
import json
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from lineage_core.codec.csv_codec import BlockHeader, clean_value, decode_csv, encode_csv, header_of
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.block_check import BLOCK_ROWS_MAX, check_block
from lineage_core.contract.positions import text_positions
from lineage_core.errors import BlockError, VersionError
from tests.support.flow_blocks import same_flows, u64

pytestmark = pytest.mark.unit


def block(
    values: Sequence[str | None] | None = ("a", None, ""), space: str = "4@3", app: str = "app-1"
) -> FlowBlock:
    """Three rows: a region of runs, a region of nothing, one position."""
    return FlowBlock(
        BlockId("4", 0, 17, 2),
        Relation.ROWS,
        "1#0",
        (Section(space, 0, 2), Section("4@4", 2, 3)),
        in_first=u64([0, 7, 12, 5]),
        in_last=u64([3, 7, 12, 5]),
        in_ptr=np.array([0, 3, 3, 4]),
        out_first=u64([9, 2**64 - 1, 0]),
        values=values,
        app=app,
    )


CSV = (
    "flowId,hashIn,hashOut,value\n"
    "4#0.17#2/0,1#0#0-3 7 12,4@3#9,a\n"
    "4#0.17#2/1,1#0#,4@3#18446744073709551615,\n"
    '4#0.17#2/2,1#0#5,4@4#0,""\n'
)


def test_the_rows_of_a_block() -> None:
    assert encode_csv(block()).decode() == CSV


def test_the_header_of_a_block() -> None:
    assert json.loads(header_of(block()).to_json()) == {
        "v": 1,
        "app": "app-1",
        "node": "4",
        "partition": 0,
        "attempt": 17,
        "seq": 2,
        "relation": "rows",
        "in_space": "1#0",
        "out": [["4@3", 0, 2], ["4@4", 2, 3]],
        "rows": 3,
        "associations": 7,
        "exact": True,
        "reason": "",
    }


def test_the_block_of_the_rows() -> None:
    found = decode_csv(CSV.encode(), header_of(block()))
    assert same_flows(found, block())
    assert found.values == ["a", None, ""]
    assert found.out_last is None


def test_columns_that_say_nothing_are_left_out() -> None:
    plain = dataclasses.replace(
        block(None), in_first=u64([4, 5, 6]), in_last=u64([4, 5, 6]), in_ptr=np.arange(4)
    )
    found = decode_csv(encode_csv(plain), header_of(plain))
    assert (found.in_ptr, found.in_last, found.out_last, found.values) == (None,) * 4
    assert same_flows(found, plain)


def test_pandas_reads_the_rows_and_writes_them_back() -> None:
    flows = block(['say "hi", you', "two\nlines", "NA ☃"])
    frame = pd.read_csv(io.BytesIO(encode_csv(flows)), dtype=str, keep_default_na=False)
    assert list(frame.columns) == ["flowId", "hashIn", "hashOut", "value"]
    assert frame["hashIn"].tolist() == ["1#0#0-3 7 12", "1#0#", "1#0#5"]
    assert frame["value"].tolist() == flows.values
    for line_end in ("\n", "\r\n"):
        written = frame.to_csv(index=False, lineterminator=line_end).encode()
        assert same_flows(decode_csv(written, header_of(flows)), flows)
    frame["value"] = ["x", None, None]
    expected = block(["x", None, None])
    assert same_flows(decode_csv(frame.to_csv(index=False).encode(), header_of(expected)), expected)


def test_identity_and_all_write_runs() -> None:
    identity = FlowBlock(
        BlockId("9", 1, 3, 0),
        Relation.IDENTITY,
        "4#0.17",
        (Section("9#1.3", 0, 1),),
        in_first=u64([0]),
        in_last=u64([999_999]),
        out_first=u64([5]),
        out_last=u64([1_000_004]),
    )
    assert b"9#1.3#0/0,4#0.17#0-999999,9#1.3#5-1000004,\n" in encode_csv(identity)
    assert header_of(identity).associations == 1_000_000
    every = dataclasses.replace(identity, relation=Relation.ALL)
    assert header_of(every).associations == 10**12
    for flows in (identity, every):
        assert same_flows(decode_csv(encode_csv(flows), header_of(flows)), flows)


def test_opaque_strings_stand_as_they_are() -> None:
    texts = ["a", 'b,"c"', ""]
    flows = FlowBlock(
        BlockId("etl", 0, 0, 0),
        Relation.ROWS,
        "*@0",
        (Section("*@0", 0, 3),),
        in_first=text_positions(["a", ""]),
        in_ptr=np.array([0, 1, 1, 2]),
        in_text=["a", "", ""],
        out_first=text_positions(texts),
        out_text=texts,
    )
    payload = encode_csv(flows)
    assert payload.decode().splitlines()[1:] == [
        "etl#0.0#0/0,a,a,",
        'etl#0.0#0/1,,"b,""c""",',
        'etl#0.0#0/2,"","",',
    ]
    assert same_flows(decode_csv(payload, header_of(flows)), flows)
    wrong = dataclasses.replace(flows, out_first=u64([1, 2, 3]))
    with pytest.raises(BlockError, match="position"):
        encode_csv(wrong)
    with pytest.raises(BlockError, match="associations"):
        decode_csv(payload.replace(b',"","",', b',,"",'), header_of(flows))


def test_a_block_of_no_rows() -> None:
    empty = FlowBlock(BlockId("4", 0, 1, 0), Relation.ROWS, "1#0", (), u64([]), u64([]))
    assert same_flows(decode_csv(encode_csv(empty), header_of(empty)), empty)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("flowId", "flowid", "header row"),
        ("flowId", "\ufeffflowId", "header row"),
        (",value", "", "header row"),
        (",a\n", "\n", "row 0"),
        (",a\n", ",a,b\n", "row 0"),
        ("2/1", "2/2", "row 1, column flowId"),
        ("2/1", "2/01", "row 1, column flowId"),
        ("2/1", "2/", "row 1, column flowId"),
        ("#2/1", "#3/1", "row 1, column flowId"),
        ("1#0#5", "1#1#5", "row 2, column hashIn"),
        ("1#0#5", "5", "row 2, column hashIn"),
        ("1#0#5", "", "row 2, column hashIn"),
        ("1#0#5", "1#0#05", "row 2, column hashIn"),
        ("1#0#5", "1#0#-5", "row 2, column hashIn"),
        ("1#0#5", "1#0#5-5", "row 2, column hashIn"),
        ("1#0#5", "1#0#5-4", "row 2, column hashIn"),
        ("1#0#5", "1#0#5 ", "row 2, column hashIn"),
        ("1#0#5", "1#0#5 6", "row 2, column hashIn"),
        ("1#0#5", "1#0#18446744073709551616", "row 2, column hashIn"),
        ("0-3 7 12", "0-3 7  12", "row 0, column hashIn"),
        ("0-3 7 12", "0-3-7 12", "row 0, column hashIn"),
        ("0-3 7 12", "0-3 12 7", "row 0, column hashIn"),
        ("0-3 7 12", "0-3 3 12", "row 0, column hashIn"),
        ("0-3 7 12", "0-3 4 12", "row 0, column hashIn"),
        ("0-3 7 12", "0-3 7 13-12", "row 0, column hashIn"),
        ("4@4#0", "4@3#0", "row 2, column hashOut"),
        ("4@4#0", "4@4#", "row 2, column hashOut"),
        ("4@4#0", "4@4#0 2", "row 2, column hashOut"),
        ("18446744073709551615", "18446744073709551616", "row 1, column hashOut"),
        ("18446744073709551615", "99999999999999999999999", "row 1, column hashOut"),
        (',""\n', ',"\n', "payload"),
        (',""\n', ',""x\n', "row 2, column value"),
        (",a\n", ',a"b"\n', "row 0, column value"),
        (",a\n", ",a\rb\n", "row 0, column value"),
        (",a\n", ",a\r\n", "row 0"),
        (",a\n", ",a\0\n", "line 2, byte 59"),
        ('""\n', '""', "payload"),
        ('""\n', '""\n\n', "row 3"),
        ("1#0#0-3 7 12", "1#0#0-3 7 11", None),
        ("4#0.17#2/0,1#0#0-3 7 12", "4#0.17#2/0,1#0#0-2 7 12", "payload"),
    ],
)
def test_errors_name_the_cell(old: str, new: str, where: str | None) -> None:
    assert old in CSV
    damaged = CSV.replace(old, new, 1).encode()
    if where is None:
        assert not same_flows(decode_csv(damaged, header_of(block())), block())
        return
    with pytest.raises(BlockError) as caught:
        decode_csv(damaged, header_of(block()))
    assert caught.value.where == where
    assert where in str(caught.value)


def test_bytes_that_are_not_text_are_named() -> None:
    with pytest.raises(BlockError, match="line 2, byte 58: not UTF-8"):
        decode_csv(CSV.encode().replace(b",a\n", b",\xff\n"), header_of(block()))


def test_errors_show_the_cell_also_where_cells_are_quoted() -> None:
    damaged = CSV.replace("4@4#0", '"4@4#01"').encode()
    with pytest.raises(BlockError, match="row 2, column hashOut: '4@4#01'"):
        decode_csv(damaged, header_of(block()))


def test_rows_are_counted() -> None:
    lines = CSV.splitlines(keepends=True)
    for rows in (lines[:-1], [*lines, lines[-1]], lines[:1], []):
        with pytest.raises(BlockError):
            decode_csv("".join(rows).encode(), header_of(block()))


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"in_first": u64([0, 7, 4, 5]), "in_last": None}, "row 0, column hashIn"),
        ({"in_last": u64([3, 7, 12, 4])}, "row 2, column hashIn"),
        ({"in_first": u64([0, 4, 12, 5])}, "row 0, column hashIn"),
        ({"in_last": u64([3, 7, 12])}, "in_last"),
        ({"in_first": np.array([0, 7, 12, 5])}, "in_first"),
        ({"in_ptr": None}, "in_first"),
        ({"in_ptr": np.array([0, 3, 2, 4])}, "in_ptr"),
        ({"in_ptr": np.array([1, 3, 3, 4])}, "in_ptr"),
        ({"out_last": u64([8, 2**64 - 1, 0])}, "row 0, column hashOut"),
        ({"relation": Relation.IDENTITY}, "row 0, column hashIn"),
        ({"out": (Section("4@3", 0, 2),)}, "out"),
        ({"out": (Section("4@3", 0, 2), Section("4@4", 1, 3))}, "out[1]"),
        ({"out": (Section("4", 0, 3),)}, "out[0]"),
        ({"in_space": "1#00"}, "in_space"),
        ({"in_space": "1#٣"}, "in_space"),
        ({"in_space": "*@0"}, "in_text"),
        ({"in_text": ["a", "b", "c"]}, "in_text"),
        ({"values": ["a"]}, "values"),
        ({"values": ["a", "b\0", None]}, "row 1, column value"),
        ({"values": ["a", None, "\ud800"]}, "row 2, column value"),
        ({"values": ["a", 5, None]}, "row 1, column value"),
        ({"app": "\ud800"}, "app"),
        ({"reason": "x" * 2**17}, "reason"),
        ({"block_id": BlockId("a,b", 0, 0, 0)}, "node"),
        ({"block_id": BlockId("4", -1, 0, 0)}, "partition"),
        ({"block_id": BlockId("4", 0, 2**63, 0)}, "attempt"),
    ],
)
def test_a_block_that_is_none_is_not_written(changed: dict[str, object], where: str) -> None:
    broken = dataclasses.replace(block(), **changed)  # type: ignore[arg-type]
    with pytest.raises(BlockError) as caught:
        encode_csv(broken)
    assert caught.value.where == where


def test_blocks_are_bounded() -> None:
    many = u64([0] * (BLOCK_ROWS_MAX + 1))
    with pytest.raises(BlockError, match="rows"):
        check_block(
            FlowBlock(
                BlockId("4", 0, 0, 0),
                Relation.ROWS,
                "1#0",
                (Section("4@0", 0, len(many)),),
                many,
                many,
            )
        )


@pytest.mark.parametrize(
    ("name", "value", "where"),
    [
        ("rows", -1, "rows"),
        ("rows", 4, "out"),
        ("rows", 2**21, "rows"),
        ("rows", True, "rows"),
        ("associations", "7", "associations"),
        ("relation", "function", "relation"),
        ("exact", 1, "exact"),
        ("out", [["4@3", 0]], "out[0]"),
        ("out", {}, "out"),
        ("node", "", "node"),
        ("node", None, "node"),
        ("attempt", 1.0, "attempt"),
    ],
)
def test_errors_name_the_field_of_the_header(name: str, value: object, where: str) -> None:
    fields = header_of(block()).to_fields() | {name: value}
    with pytest.raises(BlockError) as caught:
        BlockHeader.from_json(json.dumps(fields))
    assert caught.value.where == where


def test_fields_of_a_header_are_needed_or_ignored() -> None:
    fields = header_of(block()).to_fields()
    for name in fields:
        left = {key: value for key, value in fields.items() if key != name}
        with pytest.raises(BlockError, match="is missing"):
            BlockHeader.from_json(json.dumps(left))
    assert BlockHeader.from_json(json.dumps(fields | {"new": 1})) == header_of(block())


def test_headers_of_other_versions_are_told() -> None:
    fields = header_of(block()).to_fields() | {"v": 2}
    with pytest.raises(VersionError, match="known: 1"):
        BlockHeader.from_json(json.dumps(fields))


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b"\xff", b"[" * 10**5, b"1" * 5000, b" " * 2**21]
)
def test_what_is_no_header_is_refused(text: bytes) -> None:
    with pytest.raises(BlockError):
        BlockHeader.from_json(text)


def test_values_are_cleaned_for_the_csv() -> None:
    assert clean_value("a\0b\ud800c☃\U0001f600") == "a\ufffdb\ufffdc☃\U0001f600"
    assert clean_value("\ud83d\ude00") in ("\U0001f600", "\ufffd\ufffd")
    assert clean_value("plain") == "plain"
