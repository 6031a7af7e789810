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

from lineage_emitter.driver.actions import running_action
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
    rdd: CapturedRDD, name: str, method: Callable[..., Any], /, *arguments: Any, **keywords: Any
) -> None:
    """One of ``SAVES``: PySpark's own ``method``. Each record written is an item of the sink."""
    try:
        bound = inspect.signature(method).bind(rdd, *arguments, **keywords)
    except TypeError:
        method(rdd, *arguments, **keywords)  # raises what the program would see without capture
        return
    bound.apply_defaults()
    path = bound.arguments.get("path") or hadoop.folder_out(bound.arguments.get("conf"))
    sink = rdd.session.nodes.register("sink", name, [rdd.node], alias="write", path=path)
    with running_action(rdd, name, sink):
        batched = _in_save_batches(
            rdd, sink, _batch_serializer(bound.arguments.get("batchSize", 0))
        )
        method(batched, *arguments, **keywords)
        if path is not None:
            rdd.session.files.record_sink_files(sink, path, "record")


def _batch_serializer(size: int) -> BatchedSerializer:
    """What PySpark serializes by before it saves; 0: as many records as make a good batch."""
    if size == 0:
        return AutoBatchedSerializer(CPickleSerializer())
    return BatchedSerializer(CPickleSerializer(), size)


def _in_save_batches(rdd: CapturedRDD, sink: Node, serializer: BatchedSerializer) -> RDD[Any]:
    """The records in the batches in which PySpark hands them to the JVM."""
    sinking = Collect(sink.detail)
    if not _has_save_batches(rdd, serializer):
        return rdd.pipe_function(sinking, True, sink).ending(serializer)
    config, inner = rdd.session.config, rdd.ctx._unbatched_serializer
    read: Any = ReadRecords(config, sink.name, rdd.spaces)
    if rdd.named_by_node:
        read = rdd.node.detail.observe(read)
    batches: RDD[Any] = RDD(rdd._jrdd, rdd.ctx, RawBatchSerializer())
    passing = PassBatches(read, sinking, inner)
    passed = rdd.piped(batches, passing, True, sink)
    return RDD(passed.ending(NoOpSerializer())._jrdd, rdd.ctx, serializer)


def _has_save_batches(rdd: CapturedRDD, serializer: BatchedSerializer) -> bool:
    """Whether PySpark would save the batches of its own RDD as they are."""
    if isinstance(rdd, PipelinedRDD):
        return False
    own: Any = rdd._jrdd_deserializer
    if isinstance(own, AddressedSerializer):
        own = BatchedSerializer(rdd.ctx._unbatched_serializer, rdd.batched) if rdd.batched else None
    return bool(own == serializer)
