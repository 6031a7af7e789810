"""Batches that carry their addresses: what the JVM pairs up in ``cartesian`` and ``zip``.

PySpark pairs batches in the JVM and then the records of two batches in Python. So the batches decide
the order of the pairs, and whether two RDDs fit. Here the very batches of PySpark travel, each with
the space and the position of its first record.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import RDD
from pyspark.serializers import (
    BatchedSerializer,
    CPickleSerializer,
    NoOpSerializer,
    Serializer,
)

from lineage_emitter.pyspark_parts import PipelinedRDD
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.by_record import pass_through
from lineage_emitter.worker.inband_addresses import (
    AddressedSerializer,
    pack_addressed,
    unpack_addressed,
    write_raw_batch,
)
from lineage_emitter.worker.named_rows import NamedRowsSerializer, NamedRowStream
from lineage_emitter.worker.operators import ReadRecords
from lineage_emitter.worker.recorders import DenseRecorder
from lineage_emitter.worker.spaces import EACH_RUN, space_of_split

if TYPE_CHECKING:
    from lineage_emitter.driver.captured import CapturedRDD
    from lineage_emitter.session.nodes import Node
    from lineage_emitter.worker.segment import Numbering, Segment

AUTO = BatchedSerializer.UNKNOWN_BATCH_SIZE
"""PySpark makes larger batches until one has :data:`AUTO_BYTES`."""
AS_READ = BatchedSerializer.UNLIMITED_BATCH_SIZE
"""Batches stay as they came out of the shuffle."""
AS_PAIRED = -2
"""Batches are the pairs of two batches."""
AUTO_BYTES = 1 << 16
FLUSHED_RECORDS = 128
"""Small batches wait until so many of their records are recorded together."""


class AddressedBatch(NamedTuple):
    """``items`` are the items from position ``base`` on of ``space``."""

    space: str
    base: int
    items: list[Any]


def batch_size_of(rdd: CapturedRDD) -> int:
    """Records a batch where PySpark's own RDD would hold this one's, or one of the names above."""
    if rdd.spaces is not None:
        return _batch_size_of(rdd._jrdd_deserializer)
    if rdd.batched:
        return rdd.batched
    return _batch_size_of(rdd.ctx.serializer) if rdd.batch_size is None else rdd.batch_size


def repartition_serializer(sc: Any) -> BatchedSerializer:
    """The serializer of PySpark's own repartition."""
    return BatchedSerializer(CPickleSerializer(), min(10, sc._batchSize or 1024))


def _batch_size_of(serializer: Any) -> int:
    return serializer.batchSize if isinstance(serializer, BatchedSerializer) else 1


def split_batches(
    records: Iterable[Any],
    size: int,
    dumps: Callable[[Any], bytes],
    current_stream: Callable[[], object],
) -> Iterator[tuple[int, bytes]]:
    """(records, pickled) of each batch; a new value of ``current_stream`` starts a new batch size, as in PySpark."""
    first_size = {AUTO: 1, AS_READ: sys.maxsize, AS_PAIRED: sys.maxsize}.get(size, size)
    items: list[Any] = []
    limit, last_stream = first_size, current_stream()
    for record in records:
        stream = current_stream()
        if stream != last_stream:
            if items:
                yield len(items), dumps(items)
                items = []
            limit, last_stream = first_size, stream
        items.append(record)
        if len(items) >= limit:
            pickled = dumps(items)
            yield len(items), pickled
            items = []
            if size == AUTO and len(pickled) < AUTO_BYTES:
                limit *= 2
            elif size == AUTO and len(pickled) > AUTO_BYTES * 10 and limit > 1:
                limit //= 2
    if items:
        yield len(items), dumps(items)


class AddressedBatchSerializer(Serializer):
    """Writes named batches; the segment ends with the last.

    ``restarts_per_stream``: the input is several written streams, and batch sizes start again with each.
    """

    def __init__(self, serializer: Any, size: int, restarts_per_stream: bool) -> None:
        self.serializer = serializer
        self.size = size
        self.restarts_per_stream = restarts_per_stream

    def dump_stream(self, iterator: Iterable[Any], stream: Any) -> None:
        """Write batches, each after the blocks of its records."""
        segment = segments.current_segment()
        space = segment.space(segment.end_node)
        recorder = DenseRecorder(segment, segment.numbering, segment.end_node, space)
        batches = split_batches(
            recorder.record(iterator),
            self.size,
            self.serializer.dumps,
            self._current_stream(segment),
        )
        waiting: list[bytes] = []
        position = flushed = 0
        for count, pickled in batches:
            waiting.append(pack_addressed(space, position, pickled))
            position += count
            if position - flushed >= FLUSHED_RECORDS:
                segment.flush()
                _write_all(waiting, stream)
                flushed = position
        segment.rows_out = recorder.count
        segment.flush()
        _write_all(waiting, stream)
        segment.finish()

    def _current_stream(self, segment: Segment) -> Callable[[], object]:
        if self.size in (AS_READ, AS_PAIRED):
            return lambda: segment.batches
        numbering = segment.numbering
        return (lambda: _stream_of(numbering)) if self.restarts_per_stream else (lambda: None)


def _stream_of(numbering: Numbering) -> object:
    """Which of the streams that were read as one the record comes from."""
    space = numbering.spaces[-1] if numbering.spaces else ""
    return space if space.endswith("#*") else len(numbering.spaces)


def _write_all(batches: list[bytes], stream: Any) -> None:
    for batch in batches:
        write_raw_batch(batch, stream)
    batches.clear()


class BatchesAsRead(Serializer):
    """Reads lists: the batches that ``inner`` reads."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def load_stream(self, stream: Any) -> Iterator[list[Any]] | NamedRowStream:
        """The batches; rows that have names come with theirs."""
        if isinstance(self.inner, NamedRowsSerializer):
            return self.inner.load_stream(stream)
        return map(list, self.inner._load_stream_without_unbatching(stream))


class ReadBatches(ReadRecords):
    """As :class:`ReadRecords`, of batches."""

    def __call__(self, split: int, iterator: Iterable[list[Any]] | NamedRowStream) -> Iterable[Any]:
        if isinstance(iterator, NamedRowStream):
            iterator.on_batch = _count_batch
            return super().__call__(split, iterator)
        return super().__call__(split, _records_of(iterator))


def _records_of(batches: Iterable[list[Any]]) -> Iterator[Any]:
    for items in batches:
        _count_batch()
        yield from items


def _count_batch() -> None:
    segments.current_segment().batches += 1


class AddressSourceBatches:
    """Names the batches of a source: no segment, for its rows need no flows."""

    def __init__(self, spaces: Sequence[str] | str, serializer: Any, size: int | None) -> None:
        self.spaces = spaces
        self.serializer = serializer
        self.size = size
        """None: as they are."""

    def __call__(self, split: int, batches: Iterable[list[Any]]) -> Iterator[bytes]:
        space, dumps = space_of_split(self.spaces, split), self.serializer.dumps
        position = 0
        if self.size is None:
            sized_batches = ((len(items), dumps(items)) for items in batches)
        else:
            records = (record for items in batches for record in items)
            sized_batches = split_batches(records, self.size, dumps, lambda: None)  # type: ignore[assignment]
        for count, pickled in sized_batches:
            yield pack_addressed(space, position, pickled)
            position += count


class PairedBatches(Serializer):
    """Reads what the JVM made of two RDDs of named batches: pairs of them."""

    def __init__(self, serializer: Any) -> None:
        self.serializer = serializer

    def load_stream(self, stream: Any) -> Iterator[tuple[AddressedBatch, AddressedBatch]]:
        """(left, right) of each pair."""
        batches = NoOpSerializer().load_stream(stream)
        for left in batches:
            yield self._batch(left), self._batch(next(batches))

    def _batch(self, batch: bytes) -> AddressedBatch:
        space, base, pickled = unpack_addressed(batch)
        return AddressedBatch(space, base, self.serializer.loads(pickled))


def carries_addresses(rdd: CapturedRDD) -> bool:
    """Whether the records in the JVM have their names, with nothing to record where they are read."""
    if rdd.spaces is None:
        return True
    spaces = [rdd.spaces] if isinstance(rdd.spaces, str) else rdd.spaces
    shown = rdd.named_by_node and rdd.node.detail.shows
    return not shown and not any(space.endswith(EACH_RUN) for space in spaces)


def addressed_batches(
    rdd: CapturedRDD, op: str, side: str, size: int | None
) -> tuple[RDD[Any], Node]:
    """The RDD in named batches of ``size`` records (None: PySpark's own), and the node that names."""
    serializer = rdd.ctx._unbatched_serializer
    if size is None and rdd.batched and isinstance(rdd._jrdd_deserializer, AddressedSerializer):
        return rdd, rdd.node
    if rdd.spaces is not None and carries_addresses(rdd):
        addressed = _batches_of(rdd).mapPartitionsWithIndex(
            AddressSourceBatches(rdd.spaces, serializer, size)
        )
        addressed._bypass_serializer = True  # type: ignore[attr-defined]
        return addressed, rdd.node
    node = rdd.session.nodes.register("operator", op, [rdd.node], description=f"{side} side")
    if rdd.spaces is not None:
        read: Any = ReadBatches(rdd.session.config, node.name, rdd.spaces)
        if rdd.named_by_node:
            read = rdd.node.detail.observe(read)
        addressed_rdd = rdd.piped(_batches_of(rdd), read, True, node)
        writer = AddressedBatchSerializer(
            serializer, AS_READ if size is None else size, restarts_per_stream=False
        )
        return addressed_rdd.ending(writer), node
    own_size = batch_size_of(rdd) if size is None else size
    restarts_per_stream = size is None and not (
        isinstance(rdd, PipelinedRDD) and rdd._is_pipelinable()
    )
    if restarts_per_stream and own_size < 0:
        # Streams with names (a cache, say) do not say which batches there were.
        own_size = _batch_size_of(rdd.ctx.serializer)
    addressed_rdd = rdd.pipe_function(pass_through, True, node).ending(
        AddressedBatchSerializer(serializer, own_size, restarts_per_stream)
    )
    return addressed_rdd, node


def _batches_of(source: CapturedRDD) -> RDD[Any]:
    return RDD(source._jrdd, source.ctx, BatchesAsRead(source._jrdd_deserializer))
