"""Records that carry where they came from through the JVM.

Between two Python workers of one task (union, coalesce), in a cache, and through a repartition,
Spark moves batches of pickled records as opaque frames. Two kinds of frame of our own tell the
reader which items the following records are:

- a *stamp* before a partition's first batch names the space (node, partition, incarnation) whose
  ordinals 0, 1, 2 ... the records are, whoever computed and cached them, and whenever;
- a *positioned* batch starts with the exchange position of its first record.

So a reader knows every record's item without asking the driver how the JVM mapped partitions.
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

STAMP = b"\x00lineage-stamp\x00"
POSITIONED = b"\x00lineage-batch\x00"
_POSITION = struct.Struct("<Q")
_POSITIONED_HEAD = len(POSITIONED) + _POSITION.size
STAMPED_BATCH_BYTES = 1 << 18
"""Blocks are written ahead of every batch, so batches are larger than Spark's 64 KiB."""


def positioned(space: str, base: int, pickled: bytes) -> bytes:
    """A batch whose records are the items from position ``base`` on of ``space``, as it travels."""
    return POSITIONED + _POSITION.pack(base) + space.encode() + b"\x00" + pickled


def read_positioned(frame: bytes) -> tuple[str, int, bytes]:
    """Space, base and pickled records of a positioned batch."""
    end = frame.index(b"\x00", _POSITIONED_HEAD)
    (base,) = _POSITION.unpack_from(frame, len(POSITIONED))
    return frame[_POSITIONED_HEAD:end].decode(), base, frame[end + 1 :]


class Pieces:
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


class TracedRecords:
    """Records of a stream, with the pieces that name them."""

    def __init__(self, records: Iterator[Any], pieces: Pieces) -> None:
        self.records = records
        self.pieces = pieces

    def __iter__(self) -> Iterator[Any]:
        return self.records

    def __next__(self) -> Any:
        return next(self.records)


class TracedSerializer(AutoBatchedSerializer):
    """Reads streams with stamps and positioned batches (plain batches too); writes stamped ones.

    Equal to any other with the same inner serializer, so that PySpark joins such streams without
    serializing them anew.
    """

    def __init__(self, serializer: Any) -> None:
        super().__init__(serializer, STAMPED_BATCH_BYTES)

    def dump_stream(self, iterator: Iterable[Any], stream: Any) -> None:
        """Write a stamp, then batches, each after the blocks that tell of its records."""
        from lineage_emitter.worker import segment as segments
        from lineage_emitter.worker.recorders import DenseRecorder

        segment = segments.current()
        space = segment.space(segment.end_node)
        # A node that numbers its records itself has told their flows.
        told = segment.frame.numbers(space)
        recorder = None if told else DenseRecorder(segment, segment.frame, segment.end_node, space)
        records = iter(iterator) if recorder is None else recorder.record(iterator)
        write_frame(STAMP + space.encode(), stream)
        batch = 1
        while True:
            items = list(islice(records, batch))
            if not items:
                break
            segment.rows_out += len(items)
            segment.flush_recorders()
            # Blocks are on their way meanwhile: mostly nothing is left to wait for behind it.
            frame = self.serializer.dumps(items)
            segment.push()
            write_frame(frame, stream)
            if len(frame) < self.bestSize:
                batch *= 2
            elif len(frame) > self.bestSize * 10 and batch > 1:
                batch //= 2
        segment.finish()

    def load_stream(self, stream: Any) -> TracedRecords:
        """Records with the pieces that name them."""
        pieces = Pieces()
        return TracedRecords(chain.from_iterable(self._batches(stream, pieces)), pieces)

    def _batches(self, stream: Any, pieces: Pieces) -> Iterator[list[Any]]:
        count = 0
        for frame in Frames().load_stream(stream):
            payload = payload_of(frame, count, pieces)
            if payload is not None:
                items = self.serializer.loads(payload)
                count += len(items)
                yield items


def payload_of(frame: bytes, count: int, pieces: Pieces) -> bytes | None:
    """The batch in a frame, None where it is a stamp; what the frame names is noted in ``pieces``.

    ``count``: records before it.
    """
    if frame.startswith(STAMP):
        pieces.add(count, frame[len(STAMP) :].decode(), 0)
        return None
    if not frame.startswith(POSITIONED):
        return frame
    space, base, pickled = read_positioned(frame)
    pieces.add(count, space, base)
    return pickled


class PositionedSerializer(BatchedSerializer):
    """Writes the batches that a repartition moves, each with the position of its first record.

    ``batchSize`` records a batch, as PySpark's own repartition: the JVM deals out batches, so the
    same batches land in the same partitions.
    """

    def __init__(self, serializer: Any, batch_size: int, node: str) -> None:
        super().__init__(serializer, batch_size)
        self.node = node

    def dump_stream(self, iterator: Iterable[Any], stream: Any) -> None:
        """Write positioned batches; the segment ends with the last."""
        from lineage_emitter.worker import segment as segments
        from lineage_emitter.worker.recorders import DenseRecorder

        segment = segments.current()
        base = segment.exchange_base()
        space = f"{self.node}#*"
        recorder = DenseRecorder(segment, segment.frame, self.node, space, base)
        position = base
        for items in self._batched(recorder.record(iterator)):
            write_frame(positioned(space, position, self.serializer.dumps(items)), stream)
            position += len(items)
        segment.rows_out = recorder.count
        segment.finish()


class Frames(FramedSerializer):
    """Frames as they are."""

    def loads(self, obj: bytes) -> bytes:
        return obj


def write_frame(frame: bytes, stream: Any) -> None:
    """Write a frame with its length before it."""
    write_int(len(frame), stream)
    stream.write(frame)
