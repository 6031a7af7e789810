import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.codec.record_batch import (
    CONTENT_BYTES_MAX,
    HEADER_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    RecordBatch,
    compress,
    decompress_payload,
    pack_record_batch,
    read_record_batches,
)
from lineage_core.errors import RecordBatchError, TruncatedRecordBatchError

pytestmark = pytest.mark.unit

FRAME = pack_record_batch(b'{"v":1}', compress(b"flowId,hashIn,hashOut,value\n" * 20))


class Trickle(io.BytesIO):
    """A stream that gives one byte at a time."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 0, 1))


def test_frames_come_back_with_their_places() -> None:
    stop = len(FRAME)
    for stream in (io.BytesIO(FRAME * 2), Trickle(FRAME * 2)):
        first, second = read_record_batches(stream)
        assert (first.offset, first.stop, second.offset, second.stop) == (0, stop, stop, 2 * stop)
        assert first.header == second.header == b'{"v":1}'
        assert decompress_payload(second.payload) == b"flowId,hashIn,hashOut,value\n" * 20


def test_the_layout_of_a_frame() -> None:
    assert pack_record_batch(b"{}", b"xyz").hex() == ("4c4d4631020000007b7d0300000078797af73dbac5")


def test_a_file_that_ends_early_gives_its_whole_frames() -> None:
    for size in range(len(FRAME) + 1, 2 * len(FRAME)):
        frames = read_record_batches(io.BytesIO((FRAME * 2)[:size]))
        assert next(frames).stop == len(FRAME)
        with pytest.raises(TruncatedRecordBatchError) as caught:
            next(frames)
        assert caught.value.where == f"byte {len(FRAME)}"


@given(st.integers(0, 8 * len(FRAME) - 1))
def test_every_flipped_bit_is_noticed(bit: int) -> None:
    damaged = bytearray(FRAME)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RecordBatchError):
        list(read_record_batches(io.BytesIO(damaged)))


@given(st.binary(min_size=1, max_size=64))
def test_other_bytes_are_no_frame(raw: bytes) -> None:
    with pytest.raises(RecordBatchError):
        list(read_record_batches(io.BytesIO(raw)))


class Bounded(io.BytesIO):
    """Fails when more is read than a header or payload may take."""

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert size <= HEADER_BYTES_MAX
        return super().read(size)


def test_lengths_are_bounded_before_anything_is_read() -> None:
    for raw in (b"LMF1\xff\xff\xff\xff", b"LMF1\0\0\0\0\xff\xff\xff\xff"):
        with pytest.raises(RecordBatchError, match="at most"):
            list(read_record_batches(Bounded(raw)))
    with pytest.raises(RecordBatchError, match="header"):
        pack_record_batch(bytes(HEADER_BYTES_MAX + 1), b"")
    with pytest.raises(RecordBatchError, match="payload"):
        pack_record_batch(b"", bytes(PAYLOAD_BYTES_MAX + 1))


def test_what_decompresses_to_too_much_is_refused() -> None:
    huge = b"\x28\xb5\x2f\xfd\xa0" + (CONTENT_BYTES_MAX + 1).to_bytes(4, "little") + b"\x01\0\0"
    with pytest.raises(RecordBatchError, match="at most"):
        decompress_payload(huge)
    lying = b"\x28\xb5\x2f\xfd\xa0" + (1000).to_bytes(4, "little") + b"\x01\0\0"
    with pytest.raises(RecordBatchError):
        decompress_payload(lying)
    for raw in (
        b"",
        b"\x28\xb5\x2f\xfd",
        b"\x28\xb5\x2f\xfd\0\0\0",
        b"plain text",
        b"\x28\xb5\x2f\xfd\xe0\0",
    ):
        with pytest.raises(RecordBatchError):
            decompress_payload(raw)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65_791, 65_792, 100_000])
def test_contents_of_any_size_come_back(size: int) -> None:
    assert decompress_payload(compress(bytes(size))) == bytes(size)


def test_frames_are_values() -> None:
    assert RecordBatch(b"", b"", 0, 16) == RecordBatch(b"", b"", 0, 16)
