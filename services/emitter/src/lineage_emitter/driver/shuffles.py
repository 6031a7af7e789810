"""Operators that move records between partitions, as PySpark builds them, with lineage."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from pyspark import RDD
from pyspark.resultiterable import ResultIterable
from pyspark.serializers import NoOpSerializer
from pyspark.shuffle import Aggregator, ExternalGroupBy, ExternalMerger
from pyspark.traceback_utils import SCCallSiteSync

from lineage_emitter import scope
from lineage_emitter.pyspark_parts import Partitioner
from lineage_emitter.worker.attempts import AttemptReader
from lineage_emitter.worker.batches import AS_READ, batch_size_of, repartition_serializer
from lineage_emitter.worker.buckets import PartitionBuckets
from lineage_emitter.worker.by_record import pass_through
from lineage_emitter.worker.combiner import CombineMapSide, Combiners, ReadKeys
from lineage_emitter.worker.inband_addresses import AddressedSerializer, ExchangeSerializer
from lineage_emitter.worker.operators import Exchange, ReadExchange, SortExchanged, SortInPlace
from lineage_emitter.worker.spaces import space_of_split

if TYPE_CHECKING:
    from lineage_emitter.driver.captured import CapturedRDD
    from lineage_emitter.session.nodes import Node


# -- combining shuffles ------------------------------------------------------------------------


class MergeCombiners:
    """Reduce side of ``combineByKey``: PySpark's own merger."""

    kind: type = GeneratorType
    """Of the iterator that PySpark gives. (Where nothing was spilled it is a dict's own.)"""

    def __init__(self, aggregator: Aggregator, memory_mb: float, serializer: Any) -> None:
        self.aggregator = aggregator
        self.memory_mb = memory_mb
        self.serializer = serializer

    def __call__(self, records: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        merger = ExternalMerger(self.aggregator, self.memory_mb, self.serializer)
        merger.mergeCombiners(records)
        return merger.items()  # type: ignore[no-any-return]


class MergeGroups(MergeCombiners):
    """Reduce side of ``groupByKey``: PySpark's own merger."""

    kind: type = map

    def __call__(self, records: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        merger = ExternalGroupBy(self.aggregator, self.memory_mb, self.serializer)
        merger.mergeCombiners(records)
        return ((key, ResultIterable(values)) for key, values in merger.items())


def combine_by_key(
    rdd: CapturedRDD,
    create: Callable[[Any], Any],
    merge_value: Callable[[Any, Any], Any],
    merge_combiners: Callable[[Any, Any], Any],
    num_partitions: int | None,
    partition_function: Callable[[Any], int],
) -> RDD[Any]:
    """``combineByKey``: one flow a key on each map task, no identifier in the shuffle."""
    combiners = (create, merge_value, merge_combiners)
    merge = MergeCombiners(Aggregator(*combiners), rdd._memory_limit(), rdd.ctx.serializer)
    return _combine(rdd, combiners, merge, num_partitions, partition_function)


def group_by_key(
    rdd: CapturedRDD, num_partitions: int | None, partition_function: Callable[[Any], int]
) -> RDD[Any]:
    """``groupByKey``: as :func:`combine_by_key`."""

    def create(value: Any) -> list[Any]:
        return [value]

    def merge_value(values: list[Any], value: Any) -> list[Any]:
        values.append(value)
        return values

    def merge_combiners(values: list[Any], others: list[Any]) -> list[Any]:
        values.extend(others)
        return values

    combiners = (create, merge_value, merge_combiners)
    merge = MergeGroups(Aggregator(*combiners), rdd._memory_limit(), rdd.ctx.serializer)
    return _combine(rdd, combiners, merge, num_partitions, partition_function)


def _combine(
    rdd: CapturedRDD,
    combiners: Combiners,
    merge: MergeCombiners,
    num_partitions: int | None,
    partition_function: Callable[[Any], int],
) -> RDD[Any]:
    if num_partitions is None:
        num_partitions = rdd._defaultReducePartitions()
    in_place = rdd.partitioner == Partitioner(num_partitions, partition_function)
    node = rdd.session.nodes.register("shuffle", "combineByKey", [rdd.node], description="map side")
    map_side = CombineMapSide(
        node.name,
        combiners,
        rdd._memory_limit(),
        rdd.ctx.serializer,
        num_partitions,
        partition_function,
        in_place,
    )
    combined = rdd.pipe_function(map_side, True, node)
    reduced = _reduce_side(node, rdd, "combineByKey")
    read = ReadKeys(rdd.session.config, reduced.name, node.name, merge, in_place)
    if in_place:
        return combined.pipe_function(reduced.detail.observe(read), True, reduced)
    combined.end_segment()
    shuffled = _shuffled(combined, node, num_partitions, partition_function)
    return _read_shuffle(rdd, shuffled, read, reduced)


def _reduce_side(node: Node, rdd: CapturedRDD, op: str) -> Node:
    """A node of its own for what the reduce tasks put out: its commits are not the map side's."""
    return rdd.session.nodes.register("operator", op, [node], description="reduce side")


def _shuffled(
    rdd: CapturedRDD, node: Node, num_partitions: int, partition_function: Callable[[Any], int]
) -> RDD[Any]:
    """``partitionBy`` of records whose lineage is already recorded."""
    serializer = rdd.ctx._unbatched_serializer
    buckets = PartitionBuckets(num_partitions, partition_function, rdd._memory_limit(), serializer)
    node.map_side = rdd
    with scope.suspended():
        keyed = rdd.mapPartitionsWithIndex(buckets, preservesPartitioning=True)
    keyed._bypass_serializer = True  # type: ignore[attr-defined]
    reader = AttemptReader(serializer)
    return _by_partition(keyed, reader, Partitioner(num_partitions, partition_function))


def _by_partition(keyed: RDD[Any], serializer: Any, partitioner: Partitioner) -> RDD[Any]:
    """The JVM half of PySpark's ``partitionBy``; ``serializer`` reads the records behind it."""
    sc = keyed.ctx
    assert sc._jvm is not None
    with SCCallSiteSync(sc):
        pairs = sc._jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD()
        by = sc._jvm.PythonPartitioner(partitioner.numPartitions, id(partitioner.partitionFunc))
    jrdd = sc._jvm.PythonRDD.valueOfPair(pairs.partitionBy(by))
    shuffled: RDD[Any] = RDD(jrdd, sc, serializer)
    shuffled.partitioner = partitioner
    return shuffled


def _read_shuffle(rdd: CapturedRDD, shuffled: RDD[Any], read: Any, node: Node) -> CapturedRDD:
    """The reduce side: the first Python function behind a shuffle."""
    return rdd.piped(shuffled, node.detail.observe(read), True, node)


# -- shuffles of whole records -------------------------------------------------------------------


def partition_by(
    rdd: CapturedRDD, num_partitions: int, partition_function: Callable[[Any], int]
) -> RDD[Any]:
    """``partitionBy`` with addresses beside the records."""
    node = rdd.session.nodes.register("shuffle", "partitionBy", [rdd.node], description="map side")
    shuffled = _exchange(rdd, node, num_partitions, partition_function)
    reduced = _reduce_side(node, rdd, "partitionBy")
    read = ReadExchange(rdd.session.config, reduced.name, node.name)
    result = _read_shuffle(rdd, shuffled, read, reduced)
    result.batch_size = AS_READ
    return result


def _exchange(
    rdd: CapturedRDD, node: Node, num_partitions: int, partition_function: Callable[[Any], int]
) -> RDD[Any]:
    """``partitionBy`` whose map side sends addresses along."""
    serializer = rdd.ctx._unbatched_serializer
    exchange = Exchange(
        node.name, num_partitions, partition_function, rdd._memory_limit(), serializer
    )
    keyed = rdd.pipe_function(exchange, True, node).ending(NoOpSerializer())
    node.map_side = keyed
    return _by_partition(keyed, serializer, Partitioner(num_partitions, partition_function))


def sort_by_key(
    rdd: CapturedRDD,
    ascending: bool,
    num_partitions: int | None,
    key_function: Callable[[Any], Any],
) -> RDD[Any]:
    """``sortByKey``: PySpark's sampling, range partitioning and stable sort."""
    if num_partitions is None:
        num_partitions = rdd._defaultReducePartitions()
    sort = _sort(rdd, ascending, key_function)
    if num_partitions == 1:
        single = coalesce(rdd, 1, False) if rdd.getNumPartitions() > 1 else rdd
        return _sort_in_place(single, "sortByKey", sort)
    bounds = _bounds(rdd, num_partitions, key_function)
    if bounds is None:
        return rdd

    def range_partitioner(key: Any) -> int:
        partition = bisect.bisect_left(bounds, key_function(key))
        return partition if ascending else num_partitions - 1 - partition

    return _sort_after_shuffle(rdd, "sortByKey", num_partitions, range_partitioner, sort)


def repartition_and_sort(
    rdd: CapturedRDD,
    num_partitions: int | None,
    partition_function: Callable[[Any], int],
    ascending: bool,
    key_function: Callable[[Any], Any],
) -> RDD[Any]:
    """``repartitionAndSortWithinPartitions``: ``partitionBy``, then a stable sort."""
    if num_partitions is None:
        num_partitions = rdd._defaultReducePartitions()
    name, sort = "repartitionAndSortWithinPartitions", _sort(rdd, ascending, key_function)
    if rdd.partitioner == Partitioner(num_partitions, partition_function):
        return _sort_in_place(rdd, name, sort)
    return _sort_after_shuffle(rdd, name, num_partitions, partition_function, sort)


def _sort(rdd: CapturedRDD, ascending: bool, key_function: Callable[[Any], Any]) -> dict[str, Any]:
    """What a sort needs to know, but for its node."""
    return {
        "ascending": ascending,
        "key_function": key_function,
        "memory_mb": rdd._memory_limit(),
        "serializer": rdd.ctx.serializer,
    }


def _sort_in_place(rdd: CapturedRDD, name: str, sort: dict[str, Any]) -> RDD[Any]:
    node = rdd.session.nodes.register("operator", name, [rdd.node])
    return rdd.pipe_function(node.detail.observe(SortInPlace(node=node.name, **sort)), True, node)


def _sort_after_shuffle(
    rdd: CapturedRDD,
    name: str,
    num_partitions: int,
    partition_function: Callable[[Any], int],
    sort: dict[str, Any],
) -> RDD[Any]:
    node = rdd.session.nodes.register("shuffle", name, [rdd.node])
    shuffled = _exchange(rdd, node, num_partitions, partition_function)
    read = SortExchanged(rdd.session.config, node.name, node=node.name, **sort)
    return _read_shuffle(rdd, shuffled, read, node)


def _bounds(
    rdd: CapturedRDD, num_partitions: int, key_function: Callable[[Any], Any]
) -> list[Any] | None:
    """PySpark's range bounds (its jobs stay out of the graph); None when there are no records."""
    with scope.suspended():
        size = rdd.count()
        if not size:
            return None
        fraction = min(num_partitions * 20.0 / max(size, 1), 1.0)
        samples = rdd.sample(False, fraction, 1).map(lambda kv: kv[0]).collect()
    samples = sorted(samples, key=key_function)
    return [
        samples[int(len(samples) * (i + 1) / num_partitions)] for i in range(num_partitions - 1)
    ]


# -- what the JVM does between Python workers ----------------------------------------------------


def with_addresses(rdd: CapturedRDD) -> CapturedRDD:
    """The RDD with records that name themselves, through one more Python function if need be."""
    if rdd.spaces is None:
        return rdd
    node = rdd.session.nodes.register("operator", "named", [rdd.node])
    return rdd.pipe_function(pass_through, True, node)


def in_addressed_batches(rdd: CapturedRDD, batch_size: int) -> CapturedRDD:
    """The RDD in the batches that PySpark would move, each with its first record's position."""
    if rdd.batched and isinstance(rdd._jrdd_deserializer, AddressedSerializer):
        return rdd
    node = (
        rdd.node
        if rdd.batched
        else rdd.session.nodes.register("shuffle", "repartition", [rdd.node])
    )
    ser = ExchangeSerializer(rdd.ctx._unbatched_serializer, batch_size, node.name)
    addressed_rdd = rdd.pipe_function(pass_through, True, node).ending(ser)
    node.map_side = addressed_rdd
    addressed = AddressedSerializer(rdd.ctx._unbatched_serializer)
    return rdd.wrapped(addressed_rdd, node, None, batched=batch_size, deserializer=addressed)


def coalesce(rdd: CapturedRDD, num_partitions: int, shuffle: bool) -> CapturedRDD:
    """``coalesce`` and ``repartition``."""
    if shuffle:
        moved = in_addressed_batches(rdd, repartition_serializer(rdd.ctx).batchSize)
    else:
        moved = in_addressed_batches(rdd, rdd.batched) if rdd.batched else with_addresses(rdd)
    node = rdd.session.nodes.register("operator", "coalesce", [moved.node])
    jrdd = moved._jrdd.coalesce(num_partitions, shuffle)
    plain: RDD[Any] = RDD(jrdd, rdd.ctx, moved._jrdd_deserializer)
    batched = moved.batched
    result = rdd.wrapped(plain, node, None, batched=batched)
    result.batch_size = batch_size_of(rdd)
    return result


def union(rdds: Sequence[CapturedRDD], united: Any | None = None) -> CapturedRDD:
    """``union``: sources keep their splits, all else names itself.

    ``united``: the Java RDD that unites those of ``rdds`` already, which is taken where they go into it as they are.
    """
    first = rdds[0]
    sc, session = first.ctx, first.session
    same_format = all(rdd._jrdd_deserializer == first._jrdd_deserializer for rdd in rdds)
    spaces: list[str] | None = None
    batched = 0
    if same_format and all(rdd.spaces is not None and not rdd.node.detail.shows for rdd in rdds):
        spaces = [space for rdd in rdds for space in split_spaces(rdd)]
        sides = list(rdds)
    elif all(rdd.batched and rdd.batched == first.batched for rdd in rdds):
        batched = first.batched
        sides = [in_addressed_batches(rdd, batched) for rdd in rdds]
    else:
        sides = [with_addresses(rdd) for rdd in rdds]
    node = session.nodes.register("operator", "union", [side.node for side in sides])
    with scope.suspended():
        if united is not None and all(map(operator.is_, sides, rdds)):
            joined: RDD[Any] = RDD(united, sc, sides[0]._jrdd_deserializer)
        elif len(sides) == 2:
            joined = RDD(sides[0]._jrdd.union(sides[1]._jrdd), sc, sides[0]._jrdd_deserializer)
        else:
            joined = sc.union([_as_plain(side) for side in sides])
    same_format = len(rdds) == 2 and first.partitioner == rdds[1].partitioner
    if same_format and first.getNumPartitions() == joined.getNumPartitions():
        joined.partitioner = first.partitioner
    result = first.wrapped(joined, node, spaces, batched=batched)
    sizes = {batch_size_of(rdd) for rdd in rdds}
    result.batch_size = sizes.pop() if len(sizes) == 1 else None
    return result


def _as_plain(rdd: CapturedRDD) -> RDD[Any]:
    return RDD(rdd._jrdd, rdd.ctx, rdd._jrdd_deserializer)


def split_spaces(rdd: CapturedRDD) -> list[str]:
    """The source space of each split."""
    assert rdd.spaces is not None
    return [space_of_split(rdd.spaces, split) for split in range(rdd.getNumPartitions())]
