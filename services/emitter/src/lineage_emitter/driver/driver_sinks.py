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

from lineage_emitter import scope
from lineage_emitter.driver.shuffles import named
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

Numbered = tuple[Any, int]
"""A record and its number among those that were read."""
Choose = Callable[[Iterable[Numbered]], Iterable[Numbered]]


# -- in the worker -------------------------------------------------------------------------------


class Candidates:
    """Passes on just the records of a partition that ``choose`` chooses, in its order."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose

    def __call__(self, split: int, records: Iterable[Any]) -> Iterator[Any]:
        segment = segments.current_segment()
        cell = segment.numbering.cell
        # A cell of its own, which goes back to what was chosen: readers count by theirs.
        segment.numbering = segment.numbering.limited()
        numbered: Iterable[Numbered] = ((record, cell[0]) for record in records)
        if has_length(records):
            # Whether it knows its length decides how PySpark's heapq compares.
            numbered = list(numbered)
        return _in_cell(self.choose(numbered), segment.numbering.cell)


def _in_cell(numbered: Iterable[Numbered], cell: list[int]) -> Iterator[Any]:
    for record, number in numbered:
        cell[0] = number
        yield record


# -- on the driver -------------------------------------------------------------------------------


class Fetched:
    """Records that came to the driver, each with its number, and the names that they came with."""

    def __init__(self, records: Iterable[Any], pieces: AddressRanges) -> None:
        self.address_ranges = pieces
        self.numbered: list[Numbered] = [(record, n) for n, record in enumerate(records)]

    def by_partition(self) -> list[list[Numbered]]:
        """The records of each partition: each has a stream of its own, and so a name."""
        bounds = pairwise([*self.address_ranges.starts, len(self.numbered)])
        return [self.numbered[start:stop] for start, stop in bounds]


class _Keeping(AddressedSerializer):
    """Keeps the names of what it read last."""

    def load_stream(self, stream: Any) -> AddressedRecords:
        records = super().load_stream(stream)
        self.address_ranges = records.address_ranges
        return records


def _fetch(rdd: CapturedRDD) -> Fetched:
    """All records of an RDD whose streams have names, as PySpark collects them."""
    keeping = _Keeping(rdd.ctx._unbatched_serializer)
    streams: RDD[Any] = RDD(rdd._jrdd, rdd.ctx, keeping)
    return Fetched(streams.collect(), keeping.address_ranges)


class DriverSink:
    """A partition of a sink that the driver fills: its items are what it gives to the user."""

    def __init__(self, session: Session, sink: Node, partition: int = 0) -> None:
        self.space = f"{sink.name}#{partition}"
        self.detail = sink.detail
        self.segment = Segment(session.config, sink.name, partition, 0)

    def given(self, records: Iterable[Any]) -> Iterable[Any]:
        """Records on their way to the user; what they look like is kept where that is asked for."""
        return self.detail.sink(self.segment, self.space, records)

    def finish(self, pieces: AddressRanges, numbers: Sequence[int]) -> None:
        """Item by item: the number of the record, among those that ``pieces`` name."""
        segment, numbering = self.segment, Numbering()
        numbering.starts, numbering.bases, numbering.spaces = (
            pieces.starts,
            pieces.bases,
            pieces.spaces,
        )
        recorder = DenseRecorder(segment, numbering, self.detail.node, self.space)
        for at in range(0, len(numbers), FLOWS_MAX):
            recorder.buffer = array("Q", numbers[at : at + FLOWS_MAX])
            segment.guard(recorder.flush)
        segment.rows_out = recorder.count
        segment.finish()


def _tell(
    session: Session, sink: Node, pieces: AddressRanges, given: list[Numbered], partition: int = 0
) -> None:
    def tell() -> None:
        filled = DriverSink(session, sink, partition)
        for _ in filled.given(record for record, _ in given):
            pass
        filled.finish(pieces, [number for _, number in given])

    session.jobs.tell(tell)


def _give(
    rdd: CapturedRDD, name: str, choose: Choose, decide: Callable[[Fetched], list[Numbered]]
) -> list[Any]:
    """The records that the driver decides for among the candidates of all partitions."""
    session = rdd.session
    node = session.nodes.register("operator", name, [rdd.node], description="candidates")
    candidates = rdd.pipe_function(node.detail.wrap_step(Candidates(choose)), True, node)
    sink = session.nodes.register("sink", name, [node], alias=name)
    with session.jobs.action(name, sink, lambda: (0,)):
        found = _fetch(candidates)
        chosen = decide(found)
        _tell(session, sink, found.address_ranges, chosen)
    return [record for record, _ in chosen]


def _of(key: Callable[[Any], Any] | None) -> Callable[[Numbered], Any]:
    """What PySpark compares, of a numbered record."""
    if key is None:
        return itemgetter(0)
    return lambda numbered: key(numbered[0])


def extreme(rdd: CapturedRDD, pick: Callable[..., Any], key: Callable[[Any], Any] | None) -> Any:
    """``max`` and ``min`` (``pick``): the one record that won."""
    of = _of(key)
    better = fail_on_stopiteration(lambda a, b: pick(a, b, key=of))

    def best(numbered: Iterable[Numbered]) -> Iterator[Numbered]:
        rest = iter(numbered)
        for first in rest:
            yield reduce(better, rest, first)

    def decide(found: Fetched) -> list[Numbered]:
        if not found.numbered:
            raise ValueError("Can not reduce() empty RDD")
        return [reduce(better, found.numbered)]

    return _give(rdd, pick.__name__, best, decide)[0]


def top(rdd: CapturedRDD, num: int, key: Callable[[Any], Any] | None) -> list[Any]:
    """``top``: the largest, from the largest on."""
    of = _of(key)

    def largest(numbered: Iterable[Numbered]) -> Iterator[Numbered]:
        yield from heapq.nlargest(num, numbered, key=of)

    @fail_on_stopiteration
    def merge(a: list[Numbered], b: list[Numbered]) -> list[Numbered]:
        return heapq.nlargest(num, a + b, key=of)

    def decide(found: Fetched) -> list[Numbered]:
        if not found.by_partition():
            raise ValueError("Can not reduce() empty RDD")
        return reduce(merge, found.by_partition())

    return _give(rdd, "top", largest, decide)


def take_ordered(rdd: CapturedRDD, num: int, key: Callable[[Any], Any] | None) -> list[Any]:
    """``takeOrdered``: the smallest, from the smallest on."""
    of = _of(key)

    def smallest(numbered: Iterable[Numbered]) -> list[Numbered]:
        return heapq.nsmallest(num, numbered, of)

    @fail_on_stopiteration
    def merge(a: list[Numbered], b: list[Numbered]) -> list[Numbered]:
        return heapq.nsmallest(num, a + b, of)

    if num < 0:
        raise ValueError("top N cannot be negative.")
    if num == 0 or rdd.getNumPartitions() == 0:
        sink = rdd.session.nodes.register("sink", "takeOrdered", [rdd.node], alias="takeOrdered")
        with rdd.session.jobs.action("takeOrdered", sink, lambda: ()):
            return []
    return _give(rdd, "takeOrdered", smallest, lambda found: reduce(merge, found.by_partition()))


class _Sampled:
    """What PySpark's ``takeSample`` asks of an RDD; its records come with their numbers."""

    def __init__(self, rdd: CapturedRDD, sink: Node, kept: list[Fetched]) -> None:
        self.rdd = rdd
        self.sink = sink
        self.kept = kept

    def getNumPartitions(self) -> int:
        return self.rdd.getNumPartitions()

    def count(self) -> int:
        with scope.suspended():
            return self.rdd.count()

    def sample(self, *arguments: Any) -> _Sampled:
        sampled: Any = self.rdd.sample(*arguments)
        return _Sampled(sampled, self.sink, self.kept)

    def collect(self) -> list[Numbered]:
        rdd = named(self.rdd)
        self.kept[:] = [_fetch(rdd)]
        self.sink.parents = (rdd.node,)
        return self.kept[0].numbered


def take_sample(rdd: CapturedRDD, with_replacement: bool, num: int, seed: int | None) -> list[Any]:
    """``takeSample``: PySpark's own, over records with their numbers."""
    session = rdd.session
    sink = session.nodes.register("sink", "takeSample", alias="takeSample")
    kept: list[Fetched] = []
    with session.jobs.action("takeSample", sink, lambda: (0,)):
        asked: Any = _Sampled(rdd, sink, kept)
        chosen: list[Any] = RDD.takeSample(asked, with_replacement, num, seed)
        for parent in sink.parents or (rdd.node,):
            session.nodes.link(parent, sink)
        _tell(session, sink, kept[0].address_ranges if kept else AddressRanges(), chosen)
    return [record for record, _ in chosen]


def collect(rdd: CapturedRDD) -> list[Any]:
    """``collect`` of the RDD's own streams, which a local checkpoint keeps."""
    session = rdd.session
    sink = session.nodes.register("sink", "collect", [rdd.node], alias="collect")
    with session.jobs.action("collect", sink, lambda: range(rdd.getNumPartitions())):
        found = _fetch(rdd)
        for partition, given in enumerate(found.by_partition()):
            _tell(session, sink, found.address_ranges, given, partition)
    return [record for record, _ in found.numbered]
