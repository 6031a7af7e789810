"""What runs inside the workers: readers that begin a segment, functions that end or renumber it.

Each class is a picklable ``(split, iterator) -> iterator`` as PySpark composes them. PySpark calls
the composed function from the innermost outwards before the first record flows, so a reader has
begun the segment by the time an outer function requests :func:`segment.current_segment`.
"""

from __future__ import annotations

import threading
from array import array
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

from pyspark.shuffle import ExternalSorter, get_used_memory

from lineage_emitter.code.values import PLAIN_SCALARS, is_plain
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.buckets import (
    MEMORY_CHECK_RECORDS,
    faster_hash,
    next_batch_records,
    write_buckets,
)
from lineage_emitter.worker.detail import Detail
from lineage_emitter.worker.inband_addresses import AddressedRecords
from lineage_emitter.worker.lines import Lines
from lineage_emitter.worker.named_rows import NamedRowStream
from lineage_emitter.worker.partition_inputs import (
    NumberedCollection,
    NumberedRecords,
    as_pyspark,
    has_iterator_type,
    is_collection,
    is_uncountable,
    with_iterator_type,
    wrap_like,
    wrap_result,
)
from lineage_emitter.worker.recorders import FLOWS_MAX, AllRecorder, DenseRecorder, PositionRecorder
from lineage_emitter.worker.segment import NOTHING_READ, Numbering, Segment
from lineage_emitter.worker.spaces import Spaces, read_split
from lineage_emitter.worker.task_config import TaskConfig

_END = object()
Records = Iterable[Any]
PartitionFunction = Callable[[int, Records], Records]


class Chain:
    """``then`` after ``first``, as PySpark pipelines them.

    A chain of chains is one flat list: pickle can't follow functions nested by the hundred, which
    a loop makes of them.
    """

    def __init__(self, first: PartitionFunction, then: PartitionFunction) -> None:
        earlier = first.functions if isinstance(first, Chain) else (first,)
        self.functions: tuple[PartitionFunction, ...] = (*earlier, then)

    def __call__(self, split: int, iterator: Records) -> Records:
        for function in self.functions:
            iterator = function(split, iterator)
        return iterator


class ReadRecords:
    """Begins a segment at a source or behind the JVM, and numbers the records.

    ``spaces``: the source node whose splits they are, the source space of each split, or None
    where the records carry their own names.
    """

    def __init__(self, config: TaskConfig, node: str, spaces: Spaces) -> None:
        self.config = config
        self.node = node
        self.spaces = spaces

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.begin_segment(self.config, self.node, split)
        numbering = segment.numbering
        if self.spaces is not None:
            read_split(segment, self.spaces, split)
        elif isinstance(iterator, AddressedRecords):
            address_ranges = iterator.address_ranges
            numbering.starts, numbering.bases, numbering.spaces = (
                address_ranges.starts,
                address_ranges.bases,
                address_ranges.spaces,
            )
        if isinstance(iterator, Lines):
            return iterator.numbered(numbering)
        if isinstance(iterator, NamedRowStream):
            return NumberedRecords(iterator.numbered(segment, numbering), chain)
        numbered = _numbered(iterator, numbering)
        if is_collection(iterator):
            count = len(iterator)  # type: ignore[arg-type]
            return NumberedCollection(iterator, numbered, partial(_mark_all_read, numbering, count))
        kind = chain if isinstance(iterator, AddressedRecords) else type(iterator)
        return NumberedRecords(numbered, kind)


def _numbered(records: Records, numbering: Numbering) -> Iterator[Any]:
    cell = numbering.cell
    ordinal = -1
    try:
        for ordinal, record in enumerate(records):
            cell[0] = ordinal
            yield record
        numbering.exhausted = True
    finally:
        numbering.rows = ordinal + 1


def _mark_all_read(numbering: Numbering, count: int) -> None:
    """The function after this numbering can read all records."""
    numbering.rows, numbering.exhausted = count, True
    if count:
        numbering.cell[0] = count - 1


class OpaqueFunction:
    """A user's function over a whole partition: it may buffer, so its outputs are supersets."""

    def __init__(self, function: PartitionFunction) -> None:
        self.function = function

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.current_segment()
        # It may use records that rules exclude: they can't be distinguished behind it.
        before = segment.numbering.unlimited or segment.numbering
        after = before.derived()
        segment.numbering = after
        return wrap_result(self.function(split, _function_input(iterator, before, after, segment)))


def _function_input(records: Records, before: Numbering, after: Numbering, segment: Segment) -> Any:
    """What the user's function gets; what it reads is recorded."""
    if isinstance(records, NumberedCollection):
        records.mark_all_read()
        if before.opaque:
            after.reads_with(before)
        elif before.cell[0] != NOTHING_READ:
            after.prefix_from = 0
        return records.collection
    kind = records.kind if isinstance(records, NumberedRecords) else type(records)
    if before.opaque and not has_iterator_type(kind):
        # An iterator that the user's function before made, perhaps with methods of its own.
        after.reads_with(before)
        return records.records if isinstance(records, NumberedRecords) else records
    return with_iterator_type(_track_prefix(records, before, after, segment), kind)


class OneRecord:
    """A function over a partition, each output of which is made from the record read last.

    Where that is proved it is so of plain records: from the first other one on, outputs are
    supersets. ``is_declared``: the user says so of any record. ``still_holds``: proves it again when an
    action sends the function to the workers: what its names stand for may be others by then.
    """

    def __init__(
        self,
        function: PartitionFunction,
        *,
        is_declared: bool,
        still_holds: Callable[[PartitionFunction], bool] | None = None,
    ) -> None:
        self.function = function
        self.is_declared = is_declared
        self.still_holds = still_holds

    def __reduce__(self) -> tuple[Any, ...]:
        if self.still_holds is not None and not self.still_holds(self.function):
            return OpaqueFunction, (self.function,)
        return _one_record, (self.function, self.is_declared)

    def __call__(self, split: int, iterator: Records) -> Records:
        numbering = segments.current_segment().numbering
        if numbering.unlimited is not None or (
            self.is_declared and isinstance(iterator, NumberedCollection)
        ):
            # Rules exclude records, or it may look at any of a collection: what else it uses
            # can't be distinguished behind it.
            return OpaqueFunction(self.function)(split, iterator)
        function_input = (
            as_pyspark(iterator) if self.is_declared else _plain_records(iterator, numbering)
        )
        return wrap_result(self.function(split, function_input))


def _one_record(function: PartitionFunction, is_declared: bool) -> OneRecord:
    return OneRecord(function, is_declared=is_declared)


def _plain_records(records: Records, numbering: Numbering) -> Iterator[Any]:
    cell, iterator, first = numbering.cell, iter(records), None
    for record in iterator:
        if first is None:
            first = cell[0]
        if type(record) not in PLAIN_SCALARS and not is_plain(record):
            numbering.become_opaque(first)
            yield record
            break
        yield record
    yield from iterator


def _track_prefix(
    records: Records, before: Numbering, after: Numbering, segment: Segment
) -> Iterator[Any]:
    iterator = iter(records)
    if threading.get_ident() != segment.thread:
        iterator = _locked_records(iterator, segment)
    for record in islice(iterator, 1):
        if after.prefix_from is None:
            after.prefix_from = before.cell[0] if before.prefix_from is None else before.prefix_from
        yield record
    yield from iterator


def _locked_records(records: Iterator[Any], segment: Segment) -> Iterator[Any]:
    """The records for a thread of the function's own (``pipe``), while the worker's own one flushes.

    A record is numbered before the thread has it: whatever comes out of it later is recorded with it.
    """
    while True:
        with segment.lock:
            record = next(records, _END)
        if record is _END:
            return
        yield record


class EndsIn:
    """Names the node whose records leave the segment, and so its task.

    It does so before a reader begins the segment: a function that reads all of its input at once
    makes blocks before the functions behind it are called.
    """

    def __init__(self, node: str, function: PartitionFunction) -> None:
        self.node = node
        self.function = function

    def __call__(self, split: int, iterator: Records) -> Records:
        segments.set_end_node(self.node)
        return self.function(split, iterator)


class Collect:
    """Sink: each record is an item of the sink, in order.

    ``each_run``: a partition may be computed more than once for the sink; each time its items have
    a space of their own.
    """

    def __init__(self, detail: Detail, *, each_run: bool = False) -> None:
        self.detail = detail
        self.each_run = each_run

    def __call__(self, split: int, iterator: Records) -> Records:
        segment, node = segments.current_segment(), self.detail.node
        space = segment.space(node) if self.each_run else f"{node}#{split}"
        recorder = DenseRecorder(segment, segment.numbering, node, space)
        records = self.detail.sink(segment, space, self.select_records(iterator))
        return _start(_finish_after(segment, recorder, recorder.record(records)))

    def select_records(self, records: Records) -> Records:
        """Those that reach the sink."""
        return records


class CollectWithPartition(Collect):
    """Sink: as :class:`Collect`; gives each record with its partition, in streams of batches as PySpark's own."""

    def __call__(self, split: int, iterator: Records) -> Records:
        for record in super().__call__(split, iterator):
            yield split, record


class SinkIntoFunction(Collect):
    """Sink: each record that a user's function over the partition takes is an item.

    The function is wrapped in :class:`ConsumingFunction`, which ends the segment.
    """

    def __call__(self, split: int, iterator: Records) -> Records:
        segment, node = segments.current_segment(), self.detail.node
        space = segment.space(node) if self.each_run else f"{node}#{split}"
        recorder = DenseRecorder(segment, segment.numbering, node, space)
        segment.on_end(partial(_count_rows, segment, recorder))
        if is_uncountable(iterator):
            # What its records are can't be known: all of it is one item, recorded when it was used.
            segment.on_end(lambda: recorder.buffer.append(recorder.numbering.cell[0]))
            return iterator
        records = self.detail.sink(segment, space, iterator)
        return wrap_like(iterator, recorder.record(records))


def _count_rows(segment: Segment, recorder: DenseRecorder) -> None:
    segment.rows_out = recorder.count


class ConsumingFunction:
    """A user's function over the partition behind a :class:`SinkIntoFunction`; the segment ends with what it gives."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, records: Records) -> Any:
        segment = segments.current_segment()
        result = self.function(records)
        try:
            results = iter(result)
        except TypeError:
            # As `foreachPartition` allows.
            segment.finish()
            return result
        return _start(_finish_after(segment, None, results))


class PlainFunction:
    """A function of PySpark's own behind a captured chain."""

    def __init__(self, function: PartitionFunction) -> None:
        self.function = function

    def __call__(self, split: int, iterator: Records) -> Records:
        return self.function(split, as_pyspark(iterator))


class TakeFirst(Collect):
    """Sink: at most ``limit`` records of the partition."""

    def __init__(self, detail: Detail, limit: int) -> None:
        super().__init__(detail)
        self.limit = limit

    def select_records(self, records: Records) -> Records:
        """The first ones."""
        return islice(records, self.limit)


class AllIntoOne:
    """Sink: one item that every record goes into."""

    def __init__(self, node: str) -> None:
        self.node = node

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.current_segment()
        recorder = AllRecorder(segment, segment.numbering, self.node, f"{self.node}#0", 0)
        return _start(_finish_after(segment, None, recorder.record(iterator)))


def _start(records: Generator[Any, None, None]) -> Iterator[Any]:
    """A function that takes no record drops them: a generator that has not started is not closed."""
    next(records)
    return records


def _finish_after(
    segment: Segment, recorder: DenseRecorder | None, records: Records
) -> Generator[Any, None, None]:
    try:
        yield None
        yield from records
    except GeneratorExit:
        _finish(segment, recorder)
        raise
    _finish(segment, recorder)


def _finish(segment: Segment, recorder: DenseRecorder | None) -> None:
    if recorder is not None:
        segment.rows_out = recorder.count
    segment.finish()


class SaveText:
    """Sink: the lines of ``saveAsTextFile``, encoded as PySpark encodes them."""

    def __init__(self, node: str) -> None:
        self.node = node

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.current_segment()
        recorder = DenseRecorder(segment, segment.numbering, self.node, f"{self.node}#{split}")
        return self._lines(segment, recorder, iter(iterator))

    def _lines(
        self, segment: Segment, recorder: DenseRecorder, records: Iterator[Any]
    ) -> Iterator[bytes]:
        append, cell = recorder.buffer.append, recorder.numbering.cell
        buffer, newlines = recorder.buffer, segment.newlines
        while True:
            for record in islice(records, FLOWS_MAX):
                append(cell[0])
                if isinstance(record, bytes):
                    line = record
                elif isinstance(record, str):
                    line = record.encode("utf-8")
                else:
                    line = str(record).encode("utf-8")
                if b"\n" in line:
                    newlines.append((recorder.count - 1, line.count(b"\n")))
                yield line
            if len(buffer) < FLOWS_MAX:
                break
            segment.guard(recorder.flush)
        _finish(segment, recorder)


def _new_bucket() -> tuple[list[Any], array[int]]:
    """Records, and their positions."""
    return [], array("Q")


class Exchange:
    """Map side of a shuffle whose records carry their address (partitionBy, sort).

    PySpark's own ``partitionBy`` (same batches, same order), with the ordinals of the records
    beside each batch.
    """

    def __init__(
        self,
        node: str,
        num_partitions: int,
        partition_function: Callable[[Any], int],
        memory_mb: float,
        serializer: Any,
    ) -> None:
        self.node = node
        self.num_partitions = num_partitions
        self.partition_function = partition_function
        self.memory_mb = memory_mb
        self.serializer = serializer

    def __call__(self, split: int, iterator: Records) -> Iterator[bytes]:
        segment = segments.current_segment()
        space = f"{self.node}#*"
        recorder = DenseRecorder(
            segment, segment.numbering, self.node, space, segment.exchange_base()
        )
        return self._batches(segment, recorder, iterator)

    def _batches(
        self, segment: Segment, recorder: DenseRecorder, records: Records
    ) -> Iterator[bytes]:
        partition_function, num_partitions = (
            faster_hash(self.partition_function),
            self.num_partitions,
        )
        limit, base = self.memory_mb / 2, segment.exchange_base()
        append, cell, buffer = recorder.buffer.append, recorder.numbering.cell, recorder.buffer
        buckets: defaultdict[int, tuple[list[Any], array[int]]] = defaultdict(_new_bucket)
        count, batch = 0, float(min(10 * num_partitions, MEMORY_CHECK_RECORDS))
        for position, (key, value) in enumerate(records, base):
            items, positions = buckets[partition_function(key) % num_partitions]
            items.append((key, value))
            positions.append(position)
            append(cell[0])
            count += 1
            if (count % MEMORY_CHECK_RECORDS == 0 and get_used_memory() > limit) or count > batch:
                average = yield from write_buckets(buckets, self.serializer)
                batch = next_batch_records(batch, average)
                count = 0
                if len(buffer) >= FLOWS_MAX:
                    segment.guard(recorder.flush)
        yield from write_buckets(buckets, self.serializer)
        segment.rows_out = recorder.count
        segment.finish()


class ReadExchange:
    """Reduce side of an :class:`Exchange`: begins a segment, numbers the records again."""

    def __init__(self, config: TaskConfig, node: str, source: str) -> None:
        self.config = config
        self.node = node
        self.source = source

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.begin_segment(self.config, self.node, split)
        recorder = _renumber(segment, self.node, f"{self.source}#*")
        return NumberedRecords(self._records(segment, recorder, segment.numbering, iterator), chain)

    @staticmethod
    def _records(
        segment: Segment, recorder: PositionRecorder, numbering: Numbering, batches: Records
    ) -> Iterator[Any]:
        cell, ordinal = numbering.cell, 0
        append, append_out = recorder.buffer.append, recorder.outs.append
        for items, positions in batches:
            segment.batches += 1
            for record, position in zip(items, positions, strict=True):
                append(position)
                append_out(ordinal)
                cell[0] = ordinal
                ordinal += 1
                yield record
            if len(recorder.buffer) >= FLOWS_MAX:
                segment.guard(recorder.flush)


def _renumber(segment: Segment, node: str, in_space: str) -> PositionRecorder:
    """End the numbering; records that follow are numbered again as items of ``node``."""
    space = segment.space(node)
    recorder = PositionRecorder(segment, node, in_space, space)
    numbering = segment.numbering = Numbering.of_space(space)
    numbering.origin = lambda: recorder.last(numbering.cell[0])
    return recorder


class Sort:
    """PySpark's ``sortPartition``, with each record's item beside it."""

    def __init__(
        self,
        node: str,
        ascending: bool,
        key_function: Callable[[Any], Any],
        memory_mb: float,
        serializer: Any,
    ) -> None:
        self.node = node
        self.ascending = ascending
        self.key_function = key_function
        self.memory_mb = memory_mb
        self.serializer = serializer

    def sorted(self, triples: Iterable[tuple[Any, Any, int]]) -> Iterator[tuple[Any, Any, int]]:
        """(key, value, position) in order of the key, stable."""
        key_function = self.key_function
        sorter = ExternalSorter(self.memory_mb * 0.9, self.serializer)
        return iter(
            sorter.sorted(triples, key=lambda t: key_function(t[0]), reverse=not self.ascending)
        )


class SortExchanged(Sort):
    """Reduce side of a sort behind an :class:`Exchange`."""

    def __init__(self, config: TaskConfig, source: str, **sort: Any) -> None:
        super().__init__(**sort)
        self.config = config
        self.source = source

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.begin_segment(self.config, self.node, split)
        recorder = _renumber(segment, self.node, f"{self.source}#*")
        triples = (
            (record[0], record[1], position)
            for items, positions in iterator
            for record, position in zip(items, positions, strict=True)
        )
        return _record_positions(segment, recorder, segment.numbering, self.sorted(triples))


def _record_positions(
    segment: Segment,
    recorder: PositionRecorder,
    numbering: Numbering,
    triples: Iterator[tuple[Any, Any, int]],
) -> Iterator[tuple[Any, Any]]:
    cell = numbering.cell
    append, append_out = recorder.buffer.append, recorder.outs.append
    for ordinal, (key, value, position) in enumerate(triples):
        append(position)
        append_out(ordinal)
        cell[0] = ordinal
        yield (key, value)
        if len(recorder.buffer) >= FLOWS_MAX:
            segment.guard(recorder.flush)


class SortInPlace(Sort):
    """A sort of one partition without a shuffle: within the segment."""

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.current_segment()
        before = segment.numbering
        recorder = DenseRecorder(segment, before, self.node, segment.space(self.node))
        after = Numbering.of_space(segment.space(self.node))
        after.origin = recorder.last
        segment.numbering = after
        cell = before.cell
        triples = ((key, value, cell[0]) for key, value in iterator)
        return self._records(segment, recorder, after, self.sorted(triples))

    @staticmethod
    def _records(
        segment: Segment,
        recorder: DenseRecorder,
        numbering: Numbering,
        triples: Iterator[tuple[Any, Any, int]],
    ) -> Iterator[tuple[Any, Any]]:
        cell, append = numbering.cell, recorder.buffer.append
        for ordinal, (key, value, item) in enumerate(triples):
            append(item)
            cell[0] = ordinal
            yield (key, value)
            if len(recorder.buffer) >= FLOWS_MAX:
                segment.guard(recorder.flush)


class Glom:
    """``glom``: one record for each partition, from all of its records."""

    def __init__(self, node: str) -> None:
        self.node = node

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.current_segment()
        before, space = segment.numbering, segment.space(self.node)
        after = segment.numbering = Numbering.of_space(space)
        recorder = AllRecorder(segment, before, self.node, space, 0)
        # Until it is whole, a record is still on its way into it.
        after.origin = lambda: before.current() if after.cell[0] else before.all_read()
        return self._gather(segment, recorder, after, iterator)

    @staticmethod
    def _gather(
        segment: Segment, recorder: AllRecorder, numbering: Numbering, records: Records
    ) -> Iterator[list[Any]]:
        cell = numbering.cell
        unlimited = list(recorder.record(records))
        segment.guard(recorder.complete)
        cell[0] = 0
        yield unlimited


class TagSide:
    """Map side of a join: a value becomes ``(side, value, position)``; ends the segment."""

    def __init__(self, node: str, side: int) -> None:
        self.node = node
        self.side = side

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.current_segment()
        recorder = DenseRecorder(
            segment, segment.numbering, self.node, f"{self.node}#*", segment.exchange_base()
        )
        return self._tagged(segment, recorder, iter(iterator))

    def _tagged(
        self, segment: Segment, recorder: DenseRecorder, records: Iterator[Any]
    ) -> Iterator[Any]:
        side, position = self.side, segment.exchange_base()
        append, cell, buffer = recorder.buffer.append, recorder.numbering.cell, recorder.buffer
        for key_value in records:
            append(cell[0])
            yield (key_value[0], (side, key_value[1], position))
            position += 1
            if len(buffer) >= FLOWS_MAX:
                segment.guard(recorder.flush)
        segment.rows_out = recorder.count
        segment.finish()


class JoinSides:
    """Reduce side of a join: pairs of values, each from just the two records that made it.

    ``left_outer``/``right_outer``: keep left (right) records without a partner.
    """

    def __init__(
        self,
        config: TaskConfig,
        node: str,
        left: str,
        right: str,
        left_outer: bool,
        right_outer: bool,
    ) -> None:
        self.config = config
        self.node = node
        self.left = left
        self.right = right
        self.left_outer = left_outer
        self.right_outer = right_outer

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.begin_segment(self.config, self.node, split)
        space = segment.space(self.node)
        left = PositionRecorder(segment, self.node, f"{self.left}#*", space)
        right = PositionRecorder(segment, self.node, f"{self.right}#*", space)
        numbering = segment.numbering = Numbering.of_space(space)
        numbering.origin = lambda: left.last(numbering.cell[0]) + right.last(numbering.cell[0])
        return NumberedRecords(self._joined(segment, left, right, numbering, iterator), chain)

    def _joined(
        self,
        segment: Segment,
        left: PositionRecorder,
        right: PositionRecorder,
        numbering: Numbering,
        groups: Records,
    ) -> Iterator[Any]:
        # The segment's own numbering may be a later function's when the first record is requested.
        cell, ordinal = numbering.cell, 0
        append_left_in, append_left_out = left.buffer.append, left.outs.append
        right_in, right_out = right.buffer.append, right.outs.append
        for key, tagged in groups:
            lefts: list[tuple[Any, int | None]] = []
            rights: list[tuple[Any, int | None]] = []
            for side, value, position in tagged:
                (lefts if side == 1 else rights).append((value, position))
            if not lefts and self.right_outer:
                lefts.append((None, None))
            if not rights and self.left_outer:
                rights.append((None, None))
            for left_value, left_position in lefts:
                for right_value, right_position in rights:
                    if left_position is not None:
                        append_left_in(left_position)
                        append_left_out(ordinal)
                    if right_position is not None:
                        right_in(right_position)
                        right_out(ordinal)
                    cell[0] = ordinal
                    ordinal += 1
                    yield (key, (left_value, right_value))
                if len(left.buffer) >= FLOWS_MAX or len(right.buffer) >= FLOWS_MAX:
                    segment.guard(left.flush)
                    segment.guard(right.flush)


class SubtractSides:
    """Reduce side of a ``subtractByKey``: left records of keys that the right side lacks."""

    def __init__(self, config: TaskConfig, node: str, left: str) -> None:
        self.config = config
        self.node = node
        self.left = left

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.begin_segment(self.config, self.node, split)
        recorder = _renumber(segment, self.node, f"{self.left}#*")
        return NumberedRecords(
            _record_positions(segment, recorder, segment.numbering, self._unmatched(iterator)),
            chain,
        )

    @staticmethod
    def _unmatched(groups: Records) -> Iterator[tuple[Any, Any, int]]:
        for key, tagged in groups:
            if all(side == 1 for side, _, _ in tagged):
                for _, value, position in tagged:
                    yield (key, value, position)
