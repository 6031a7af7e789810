"""Flows told one by one, in any order and as often as one likes: each is put out once, as told first."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.codec.csv_codec import clean_value, decode_csv, encode_csv, header_of
from lineage_core.contract.address import OPAQUE_SPACE
from lineage_core.contract.block import BlockId, FlowBlock, Relation
from lineage_core.contract.region import Region
from lineage_core.errors import AddressError, ConflictError, RegionError
from lineage_emitter.sdk import flow_buffer, flow_columns
from lineage_emitter.sdk.flow_buffer import FlowBuffer
from lineage_emitter.sdk.flow_columns import FlowColumns, FlowContent
from lineage_emitter.sdk.flow_id_index import FlowIdIndex

pytestmark = pytest.mark.property

SPACES = ["read#0", "read#1", "r#0.17", "a.b:c@3", "x#*"]
REGIONS = ["0", "7", "0-3 7", "5-9", "", "9999999999999999999", "18446744073709551615", "1 3 5"]
OPAQUE = ["a line", "", "a#b", "白 #1", 'a,b "c"\nd', "read#٣#1", "*@0#5", " read#0#1", "read#0#٣"]
VALUES = [None, "", "v", "a,b", 'say "x"\r\n', "nul \0 and \udc00"]

addresses = st.builds("{}#{}".format, st.sampled_from(SPACES), st.sampled_from(REGIONS))
outputs = st.builds("{}#{}".format, st.sampled_from(SPACES), st.integers(0, 2**64 - 1))
opaque = st.sampled_from(OPAQUE)
contents = st.tuples(addresses | opaque, outputs | opaque, st.sampled_from(VALUES))
calls = st.lists(st.tuples(st.sampled_from("abcdefghijklmnop"), contents), max_size=60)


class Collected(FlowBuffer):
    """What a task would write, read back."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.found: Counter[FlowContent] = Counter()

    def _write(self, in_space: str, flows: FlowColumns) -> None:
        for part in flows.blocks():
            made = FlowBlock(
                *(BlockId("n", 0, 0, 0), Relation.ROWS, in_space, part.directory()),
                *(part.first, part.outs, part.ptr, part.last),
                values=part.values, in_text=part.in_text, out_text=part.out_text,
            )  # fmt: skip
            self.found.update(rows_of(decode_csv(encode_csv(made), header_of(made))))


def rows_of(block: FlowBlock) -> Iterator[FlowContent]:
    """Flows as they are told."""
    spaces = [s.space for s in block.out for _ in range(s.row_stop - s.row_first)]
    ptr = np.arange(block.rows + 1) if block.in_ptr is None else block.in_ptr
    last = block.in_first if block.in_last is None else block.in_last
    for row, (space, out) in enumerate(zip(spaces, block.out_first.tolist(), strict=True)):
        low, high = int(ptr[row]), int(ptr[row + 1])
        region = Region(block.in_first[low:high], last[low:high]).to_text()
        given_in = f"{block.in_space}#{region}" if block.in_text is None else block.in_text[row]
        text = block.out_text[row] if block.out_text and space == OPAQUE_SPACE else None
        value = block.values[row] if block.values is not None else None
        yield given_in, f"{space}#{out}" if text is None else text, value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("told")


@contextmanager
def small_buffers() -> Iterator[None]:
    """Few flows fill them many times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow_buffer, "FLOWS_MAX", 4)
        patch.setattr(flow_columns, "FLOWS_MAX", 3)
        patch.setattr(flow_columns, "RUNS_MAX", 4)
        patch.setattr(flow_buffer, "COLUMNED_FLOWS_MAX", 9)
        patch.setattr(flow_buffer, "WAITING_TEXT_MAX", 60)
        yield


def tell(buffer: FlowBuffer, told: Iterable[tuple[str, FlowContent]]) -> list[ConflictError]:
    """Tell all of it; the conflicts."""
    errors: list[ConflictError] = []
    calls: list[Callable[[], None]] = [partial(buffer.capture, id_, *told_) for id_, told_ in told]
    for call in (*calls, buffer._write_all, buffer._write_all):
        try:
            call()
        except ConflictError as error:
            errors.append(error)
    return errors


@given(calls)
@small_buffers()
def test_each_flow_is_put_out_once_as_it_was_told_first(
    folder: Path, told: list[tuple[str, FlowContent]]
) -> None:
    buffer, first = Collected(folder), dict[str, FlowContent]()
    again = [flow_id for flow_id, content in told if first.setdefault(flow_id, content) != content]
    errors = tell(buffer, told)
    assert buffer.found == Counter(
        (i, o, value and clean_value(value)) for i, o, value in first.values()
    )
    assert bool(errors) == bool(again)
    assert all(any(f"flow {name!r}" in str(error) for name in again) for error in errors)


@small_buffers()
def test_an_id_is_known_however_long_ago_it_was_told(folder: Path) -> None:
    buffer = Collected(folder)
    flows = [(f"f{n}", (f"read#0#{n}", f"kept#0#{n}", None)) for n in range(1_000)]
    assert tell(buffer, flows + flows) == []
    assert buffer.found.total() == len(buffer.found) == 1_000
    (error,) = tell(buffer, [("f7", ("read#0#8", "kept#0#7", None)), *flows])
    assert "flow 'f7' was captured before with other content" in str(error)
    assert buffer.found.total() == 1_000


@pytest.mark.parametrize(
    ("hash_in", "hash_out", "error"),
    [
        ("read#0#04", "kept#0#0", RegionError),
        ("read#00#4", "kept#0#0", AddressError),
        ("read#0#4", "kept#0#00", RegionError),
        ("read#0#4-4", "kept#0#0", RegionError),
        ("read#0#4 5", "kept#0#0", RegionError),
        ("read#0#18446744073709551616", "kept#0#0", RegionError),
        ("read#0#4", "kept#0#1 3", RegionError),
    ],
)
def test_what_can_not_be_read_is_told_at_the_call(
    folder: Path, hash_in: str, hash_out: str, error: type[Exception]
) -> None:
    buffer = Collected(folder)
    buffer.capture("before", "read#0#4", "kept#0#0")
    with pytest.raises(error):
        buffer.capture("f", hash_in, hash_out)
    with pytest.raises(TypeError, match="a value is a text, not int"):
        buffer.capture("f", "read#0#4", "kept#0#1", 5)  # type: ignore[arg-type]
    buffer.capture("f", "read#0#5", "kept#0#1", "5")
    buffer._write_all()
    assert buffer.found == Counter([("read#0#4", "kept#0#0", None), ("read#0#5", "kept#0#1", "5")])


def test_memory_does_not_grow_with_the_flows_told(tmp_path: Path) -> None:
    class Dropped(FlowBuffer):
        def _write(self, in_space: str, flows: FlowColumns) -> None:
            pass

    buffer, peaks = Dropped(tmp_path), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow_buffer, "FLOWS_MAX", 1_000)
        tracemalloc.start()
        for turn in range(3):
            for n in range(turn * 10_000, (turn + 1) * 10_000):
                buffer.capture(f"f{n}", f"read#0#{n}", f"kept#0#{n}", f"customer {n}")
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.reset_peak()
        tracemalloc.stop()
    assert max(peaks) < 5 << 20
    assert peaks[2] < peaks[1] * 1.1
    assert not any(tmp_path.iterdir())  # the file of ids has no name


def test_hashes_of_ids_are_found_with_their_contents(tmp_path: Path) -> None:
    told, rng = FlowIdIndex(tmp_path), np.random.default_rng(5)
    ids = rng.integers(0, 2**64, 200_000, dtype=np.uint64, endpoint=False)
    for part in np.array_split(ids[:150_000], 7):
        told.add(part, part ^ np.uint64(1))
    rows, contents = told.find(ids)
    order = np.argsort(rows)
    assert rows[order].tolist() == list(range(150_000))
    assert (contents[order] == ids[:150_000] ^ np.uint64(1)).all()
    told.close()
