"""Sinks that hand pickled records to the JVM, which writes them: ``saveAsPickleFile`` and others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark import RDD
from pyspark.serializers import (
    AutoBatchedSerializer,
    BatchedSerializer,
    CPickleSerializer,
    NoOpSerializer,
)

from lineage_emitter.driver.actions import under_way
from lineage_emitter.pyspark_parts import PipelinedRDD
from lineage_emitter.session import hadoop
from lineage_emitter.worker.inband_addresses import AddressedSerializer, RawBatchSerializer
from lineage_emitter.worker.operators import Collect, ReadRecords
from lineage_emitter.worker.whole_batches import PassBatches

if TYPE_CHECKING:
    from lineage_emitter.driver.captured import CapturedRDD
    from lineage_emitter.session.nodes import Node

SAVES = ("saveAsPickleFile", "saveAsSequenceFile", "saveAsHadoopFile", "saveAsHadoopDataset",
         "saveAsNewAPIHadoopFile", "saveAsNewAPIHadoopDataset")  # fmt: skip


def save(
    rdd: CapturedRDD, name: str, method: Callable[..., Any], /, *arguments: Any, **named: Any
) -> None:
    """One of ``SAVES``: PySpark's own ``method``. Each record written is an item of the sink."""
    try:
        given = inspect.signature(method).bind(rdd, *arguments, **named)
    except TypeError:
        method(rdd, *arguments, **named)  # raises what the program would see without capture
        return
    given.apply_defaults()
    path = given.arguments.get("path") or hadoop.folder_out(given.arguments.get("conf"))
    sink = rdd.session.nodes.register("sink", name, [rdd.node], alias="write", path=path)
    with under_way(rdd, name, sink):
        handed = _handed(rdd, sink, _batches_of(given.arguments.get("batchSize", 0)))
        method(handed, *arguments, **named)
        if path is not None:
            rdd.session.files.note_sink(sink, path, "record")


def _batches_of(size: int) -> BatchedSerializer:
    """What PySpark serializes by before it saves; 0: as many records as make a good batch."""
    if size == 0:
        return AutoBatchedSerializer(CPickleSerializer())
    return BatchedSerializer(CPickleSerializer(), size)


def _handed(rdd: CapturedRDD, sink: Node, serializer: BatchedSerializer) -> RDD[Any]:
    """The records in the batches in which PySpark hands them to the JVM."""
    sinking = Collect(sink.detail)
    if not _fit_already(rdd, serializer):
        return rdd.pipe_function(sinking, True, sink).ending(serializer)
    config, inner = rdd.session.config, rdd.ctx._unbatched_serializer
    read: Any = ReadRecords(config, sink.name, rdd.spaces)
    if rdd.named_by_node:
        read = rdd.node.detail.observe(read)
    frames: RDD[Any] = RDD(rdd._jrdd, rdd.ctx, RawBatchSerializer())
    passing = PassBatches(read, sinking, inner)
    passed = rdd.piped(frames, passing, True, sink)
    return RDD(passed.ending(NoOpSerializer())._jrdd, rdd.ctx, serializer)


def _fit_already(rdd: CapturedRDD, serializer: BatchedSerializer) -> bool:
    """Whether PySpark would save the batches of its own RDD as they are."""
    if isinstance(rdd, PipelinedRDD):
        return False
    own: Any = rdd._jrdd_deserializer
    if isinstance(own, AddressedSerializer):
        own = BatchedSerializer(rdd.ctx._unbatched_serializer, rdd.batched) if rdd.batched else None
    return bool(own == serializer)
