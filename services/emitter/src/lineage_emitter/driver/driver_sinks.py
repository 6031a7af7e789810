"""Actions whose rows the driver chooses: ``max``, ``top``, ``takeSample``, ``toLocalIterator`` ...

Tasks send records in streams with names, so the driver knows of each which item it is. The sink is
the driver's own: its items are the rows that reached the user, in their order.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark import RDD
from pyspark.util import fail_on_stopiteration

from lineage_core.answers import ANSWERS, CollectedAnswer
from lineage_core.contract.collected import CollectedRows
from lineage_emitter import scope
from lineage_emitter.driver.shuffles import with_addresses
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.inband_addresses import (
    AddressedRecords,
    AddressedSerializer,
    AddressRanges,
)
from lineage_emitter.worker.partition_inputs import has_length
from lineage_emitter.worker.recorders import FLOWS_MAX, DenseRecorder
from lineage_emitter.worker.segment import Numbering, Segment

if TYPE_CHECKING:
    from lineage_emitter.driver.captured import CapturedRDD
    from lineage_emitter.session.nodes import Node
    from lineage_emitter.session.session import Session

NumberedRecord = tuple[Any, int]
"""A record and its number among those that were read."""
Choose = Callable[[Iterable[NumberedRecord]], Iterable[NumberedRecord]]


# -- in the worker -------------------------------------------------------------------------------


class CandidateRecords:
    """Passes on just the records of a partition that ``choose`` chooses, in its order."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose

    def __call__(self, split: int, records: Iterable[Any]) -> Iterator[Any]:
        segment = segments.current_segment()
        cell = segment.numbering.cell
        # A cell of its own, which goes back to what was chosen: readers count by theirs.
        segment.numbering = segment.numbering.limited()
        numbered: Iterable[NumberedRecord] = ((record, cell[0]) for record in records)
        if has_length(records):
            # Whether it knows its length decides how PySpark's heapq compares.
            numbered = list(numbered)
        return _setting_cell(self.choose(numbered), segment.numbering.cell)


def _setting_cell(numbered: Iterable[NumberedRecord], cell: list[int]) -> Iterator[Any]:
    for record, number in numbered:
        cell[0] = number
        yield record


# -- on the driver -------------------------------------------------------------------------------


class FetchedRecords:
    """Records that came to the driver, each with its number, and the names that they came with."""

    def __init__(self, records: Iterable[Any], ranges: AddressRanges) -> None:
        self.address_ranges = ranges
        self.numbered: list[NumberedRecord] = [(record, n) for n, record in enumerate(records)]

    def by_partition(self) -> list[list[NumberedRecord]]:
        """The records of each partition: each has a stream of its own, and so a name."""
        bounds = pairwise([*self.address_ranges.starts, len(self.numbered)])
        return [self.numbered[start:stop] for start, stop in bounds]


class _AddressKeepingSerializer(AddressedSerializer):
    """Keeps the names of what it read last."""

    def load_stream(self, stream: Any) -> AddressedRecords:
        records = super().load_stream(stream)
        self.address_ranges = records.address_ranges
        return records


def _fetch(rdd: CapturedRDD) -> FetchedRecords:
    """All records of an RDD whose streams have names, as PySpark collects them."""
    serializer = _AddressKeepingSerializer(rdd.ctx._unbatched_serializer)
    streams: RDD[Any] = RDD(rdd._jrdd, rdd.ctx, serializer)
    return FetchedRecords(streams.collect(), serializer.address_ranges)


class DriverSink:
    """A partition of a sink that the driver fills: its items are what it gives to the user."""

    def __init__(self, session: Session, sink: Node, partition: int = 0) -> None:
        self.space = f"{sink.name}#{partition}"
        self.detail = sink.detail
        self.segment = Segment(session.config, sink.name, partition, 0)

    def pass_records(self, records: Iterable[Any]) -> Iterable[Any]:
        """Pass records on to the user, and record their texts in detailed mode."""
        return self.detail.sink(self.segment, self.space, records)

    def finish(self, ranges: AddressRanges, numbers: Sequence[int]) -> None:
        """Item by item: the number of the record, among those that ``ranges`` name."""
        segment, numbering = self.segment, Numbering()
        numbering.starts, numbering.bases, numbering.spaces = (
            ranges.starts,
            ranges.bases,
            ranges.spaces,
        )
        recorder = DenseRecorder(segment, numbering, self.detail.node, self.space)
        for start in range(0, len(numbers), FLOWS_MAX):
            recorder.buffer = array("Q", numbers[start : start + FLOWS_MAX])
            segment.guard(recorder.flush)
        segment.rows_out = recorder.count
        segment.finish()


def _record_items(
    session: Session,
    sink: Node,
    ranges: AddressRanges,
    numbered: list[NumberedRecord],
    partition: int = 0,
) -> None:
    def record() -> None:
        driver_sink = DriverSink(session, sink, partition)
        for _ in driver_sink.pass_records(record for record, _ in numbered):
            pass
        driver_sink.finish(ranges, [number for _, number in numbered])

    session.jobs.record_or_defer(record)


def _answer(session: Session, sink: Node, chosen: list[NumberedRecord]) -> list[Any]:
    """The records that the driver chose, as the program gets them."""
    records = [record for record, _ in chosen]
    if ANSWERS.wanted and scope.is_outermost(sink.op):
        rows = CollectedRows(session.app, sink.name, (len(records),))
        ANSWERS.keep_list(records, CollectedAnswer(scope.running_site(), rows))
    return records


def _decide_on_driver(
    rdd: CapturedRDD,
    name: str,
    choose: Choose,
    decide: Callable[[FetchedRecords], list[NumberedRecord]],
) -> list[Any]:
    """The records that the driver decides for among the candidates of all partitions."""
    session = rdd.session
    node = session.nodes.register("operator", name, [rdd.node], description="candidates")
    candidates = rdd.pipe_function(node.detail.wrap_step(CandidateRecords(choose)), True, node)
    sink = session.nodes.register("sink", name, [node], alias=name)
    with session.jobs.action(name, sink, lambda: (0,)):
        fetched = _fetch(candidates)
        chosen = decide(fetched)
        _record_items(session, sink, fetched.address_ranges, chosen)
    return _answer(session, sink, chosen)


def _compare_by(key: Callable[[Any], Any] | None) -> Callable[[NumberedRecord], Any]:
    """What PySpark compares, of a numbered record."""
    if key is None:
        return itemgetter(0)
    return lambda numbered: key(numbered[0])


def extreme(rdd: CapturedRDD, pick: Callable[..., Any], key: Callable[[Any], Any] | None) -> Any:
    """``max`` and ``min`` (``pick``): the one record that won."""
    compare_key = _compare_by(key)
    better = fail_on_stopiteration(lambda a, b: pick(a, b, key=compare_key))

    def best(numbered: Iterable[NumberedRecord]) -> Iterator[NumberedRecord]:
        rest = iter(numbered)
        for first in rest:
            yield reduce(better, rest, first)

    def decide(fetched: FetchedRecords) -> list[NumberedRecord]:
        if not fetched.numbered:
            raise ValueError("Can not reduce() empty RDD")
        return [reduce(better, fetched.numbered)]

    return _decide_on_driver(rdd, pick.__name__, best, decide)[0]


def top(rdd: CapturedRDD, num: int, key: Callable[[Any], Any] | None) -> list[Any]:
    """``top``: the largest, from the largest on."""
    compare_key = _compare_by(key)

    def largest(numbered: Iterable[NumberedRecord]) -> Iterator[NumberedRecord]:
        yield from heapq.nlargest(num, numbered, key=compare_key)

    @fail_on_stopiteration
    def merge(a: list[NumberedRecord], b: list[NumberedRecord]) -> list[NumberedRecord]:
        return heapq.nlargest(num, a + b, key=compare_key)

    def decide(fetched: FetchedRecords) -> list[NumberedRecord]:
        if not fetched.by_partition():
            raise ValueError("Can not reduce() empty RDD")
        return reduce(merge, fetched.by_partition())

    return _decide_on_driver(rdd, "top", largest, decide)


def take_ordered(rdd: CapturedRDD, num: int, key: Callable[[Any], Any] | None) -> list[Any]:
    """``takeOrdered``: the smallest, from the smallest on."""
    compare_key = _compare_by(key)

    def smallest(numbered: Iterable[NumberedRecord]) -> list[NumberedRecord]:
        return heapq.nsmallest(num, numbered, compare_key)

    @fail_on_stopiteration
    def merge(a: list[NumberedRecord], b: list[NumberedRecord]) -> list[NumberedRecord]:
        return heapq.nsmallest(num, a + b, compare_key)

    if num < 0:
        raise ValueError("top N cannot be negative.")
    if num == 0 or rdd.getNumPartitions() == 0:
        sink = rdd.session.nodes.register("sink", "takeOrdered", [rdd.node], alias="takeOrdered")
        with rdd.session.jobs.action("takeOrdered", sink, lambda: ()):
            return []
    return _decide_on_driver(
        rdd, "takeOrdered", smallest, lambda fetched: reduce(merge, fetched.by_partition())
    )


class _SampledRdd:
    """What PySpark's ``takeSample`` asks of an RDD; its records come with their numbers."""

    def __init__(self, rdd: CapturedRDD, sink: Node, samples: list[FetchedRecords]) -> None:
        self.rdd = rdd
        self.sink = sink
        self.samples = samples

    def getNumPartitions(self) -> int:
        return self.rdd.getNumPartitions()

    def count(self) -> int:
        with scope.suspended():
            return self.rdd.count()

    def sample(self, *arguments: Any) -> _SampledRdd:
        sampled: Any = self.rdd.sample(*arguments)
        return _SampledRdd(sampled, self.sink, self.samples)

    def collect(self) -> list[NumberedRecord]:
        rdd = with_addresses(self.rdd)
        self.samples[:] = [_fetch(rdd)]
        self.sink.parents = (rdd.node,)
        return self.samples[0].numbered


def take_sample(rdd: CapturedRDD, with_replacement: bool, num: int, seed: int | None) -> list[Any]:
    """``takeSample``: PySpark's own, over records with their numbers."""
    session = rdd.session
    sink = session.nodes.register("sink", "takeSample", alias="takeSample")
    samples: list[FetchedRecords] = []
    with session.jobs.action("takeSample", sink, lambda: (0,)):
        sampled: Any = _SampledRdd(rdd, sink, samples)
        chosen: list[Any] = RDD.takeSample(sampled, with_replacement, num, seed)
        for parent in sink.parents or (rdd.node,):
            session.nodes.link(parent, sink)
        _record_items(
            session, sink, samples[0].address_ranges if samples else AddressRanges(), chosen
        )
    return _answer(session, sink, chosen)


def collect(rdd: CapturedRDD) -> tuple[Node, list[list[Any]]]:
    """``collect`` of the RDD's own streams, which a local checkpoint stores: the sink, and the records by partition."""
    session = rdd.session
    sink = session.nodes.register("sink", "collect", [rdd.node], alias="collect")
    with session.jobs.action("collect", sink, lambda: range(rdd.getNumPartitions())):
        fetched = _fetch(rdd)
        by_partition = fetched.by_partition()
        for partition, numbered in enumerate(by_partition):
            _record_items(session, sink, fetched.address_ranges, numbered, partition)
    return sink, [[record for record, _ in numbered] for numbered in by_partition]
