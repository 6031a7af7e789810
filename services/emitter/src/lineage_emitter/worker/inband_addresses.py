"""Records that carry where they came from through the JVM.

Between two Python workers of one task (union, coalesce), in a cache, and through a repartition,
Spark moves batches of pickled records as opaque bytes, each with its length before it. Two kinds of
address tell the reader which items the following records are:

- a *space header* before a partition's first batch names the space (node, partition, incarnation) whose
  ordinals 0, 1, 2 ... the records are, whoever computed and cached them, and whenever;
- an *addressed batch* starts with the exchange position of its first record.

So a reader knows every record's item without a call to the driver how the JVM mapped partitions.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from pyspark.serializers import (
    AutoBatchedSerializer,
    BatchedSerializer,
    FramedSerializer,
    write_int,
)

SPACE_HEADER = b"\x00lineage-stamp\x00"
ADDRESSED = b"\x00lineage-batch\x00"
_POSITION = struct.Struct("<Q")
_ADDRESSED_HEADER_BYTES = len(ADDRESSED) + _POSITION.size
BATCH_BYTES = 1 << 18
"""Blocks are written ahead of every batch, so batches are larger than Spark's 64 KiB."""


def pack_addressed(space: str, base: int, pickled: bytes) -> bytes:
    """A batch whose records are the items from position ``base`` on of ``space``, as it travels."""
    return ADDRESSED + _POSITION.pack(base) + space.encode() + b"\x00" + pickled


def unpack_addressed(batch: bytes) -> tuple[str, int, bytes]:
    """Space, base and pickled records of an addressed batch."""
    end = batch.index(b"\x00", _ADDRESSED_HEADER_BYTES)
    (base,) = _POSITION.unpack_from(batch, len(ADDRESSED))
    return batch[_ADDRESSED_HEADER_BYTES:end].decode(), base, batch[end + 1 :]


class AddressRanges:
    """Where the records of a stream come from, as they come.

    From record ``starts[i]`` on (counted from 0), records are the items from ``bases[i]`` on of
    space ``spaces[i]``.
    """

    def __init__(self) -> None:
        self.starts = array("Q")
        self.bases = array("Q")
        self.spaces: list[str] = []

    def add(self, start: int, space: str, base: int) -> None:
        """From record ``start`` on, records are items of ``space`` from position ``base``."""
        self.starts.append(start)
        self.spaces.append(space)
        self.bases.append(base)


class AddressedRecords:
    """Records of a stream, with the ranges that name them."""

    def __init__(self, records: Iterator[Any], address_ranges: AddressRanges) -> None:
        self.records = records
        self.address_ranges = address_ranges

    def __iter__(self) -> Iterator[Any]:
        return self.records

    def __next__(self) -> Any:
        return next(self.records)


class AddressedSerializer(AutoBatchedSerializer):
    """Reads streams with space headers and addressed batches (plain batches too); writes space headers.

    Equal to any other with the same inner serializer, so that PySpark joins such streams without
    serializing them again.
    """

    def __init__(self, serializer: Any) -> None:
        super().__init__(serializer, BATCH_BYTES)

    def dump_stream(self, iterator: Iterable[Any], stream: Any) -> None:
        """Write a space header, then batches, each after the blocks of its records."""
        from lineage_emitter.worker import segment as segments
        from lineage_emitter.worker.recorders import DenseRecorder

        segment = segments.current_segment()
        space = segment.space(segment.end_node)
        # A node that numbers its records itself has recorded their flows.
        is_numbered = segment.numbering.numbers(space)
        recorder = (
            None
            if is_numbered
            else DenseRecorder(segment, segment.numbering, segment.end_node, space)
        )
        records = iter(iterator) if recorder is None else recorder.record(iterator)
        write_raw_batch(SPACE_HEADER + space.encode(), stream)
        batch_records = 1
        while True:
            items = list(islice(records, batch_records))
            if not items:
                break
            segment.rows_out += len(items)
            segment.flush_recorders()
            # Blocks are on their way meanwhile: mostly nothing is left to wait for behind it.
            pickled = self.serializer.dumps(items)
            segment.push()
            write_raw_batch(pickled, stream)
            if len(pickled) < self.bestSize:
                batch_records *= 2
            elif len(pickled) > self.bestSize * 10 and batch_records > 1:
                batch_records //= 2
        segment.finish()

    def load_stream(self, stream: Any) -> AddressedRecords:
        """The records, with the ranges that name them."""
        address_ranges = AddressRanges()
        return AddressedRecords(
            chain.from_iterable(self._batches(stream, address_ranges)), address_ranges
        )

    def _batches(self, stream: Any, address_ranges: AddressRanges) -> Iterator[list[Any]]:
        count = 0
        for batch in RawBatchSerializer().load_stream(stream):
            payload = strip_address(batch, count, address_ranges)
            if payload is not None:
                items = self.serializer.loads(payload)
                count += len(items)
                yield items


def strip_address(batch: bytes, count: int, address_ranges: AddressRanges) -> bytes | None:
    """The pickled records of a batch, None for a space header; adds the address to ``address_ranges``.

    ``count``: records before it.
    """
    if batch.startswith(SPACE_HEADER):
        address_ranges.add(count, batch[len(SPACE_HEADER) :].decode(), 0)
        return None
    if not batch.startswith(ADDRESSED):
        return batch
    space, base, pickled = unpack_addressed(batch)
    address_ranges.add(count, space, base)
    return pickled


class ExchangeSerializer(BatchedSerializer):
    """Writes the batches that a repartition moves, each with the position of its first record.

    ``batchSize`` records a batch, as PySpark's own repartition: the JVM deals out batches, so the
    same batches land in the same partitions.
    """

    def __init__(self, serializer: Any, batch_size: int, node: str) -> None:
        super().__init__(serializer, batch_size)
        self.node = node

    def dump_stream(self, iterator: Iterable[Any], stream: Any) -> None:
        """Write addressed batches; the segment ends with the last."""
        from lineage_emitter.worker import segment as segments
        from lineage_emitter.worker.recorders import DenseRecorder

        segment = segments.current_segment()
        base = segment.exchange_base()
        space = f"{self.node}#*"
        recorder = DenseRecorder(segment, segment.numbering, self.node, space, base)
        position = base
        for items in self._batched(recorder.record(iterator)):
            write_raw_batch(pack_addressed(space, position, self.serializer.dumps(items)), stream)
            position += len(items)
        segment.rows_out = recorder.count
        segment.finish()


class RawBatchSerializer(FramedSerializer):
    """Reads batches as bytes."""

    def loads(self, obj: bytes) -> bytes:
        return obj


def write_raw_batch(batch: bytes, stream: Any) -> None:
    """Write a batch with its length before it."""
    write_int(len(batch), stream)
    stream.write(batch)
