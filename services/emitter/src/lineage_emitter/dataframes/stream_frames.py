"""The frames that functions of ``foreachBatch`` are given, as micro-batches of their queries.

To Spark such a frame is an RDD. Which batch's rows it has is remembered when the function is called, so that what the
function writes is recorded with what the batch read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineage_core.recipe.document import StreamBatch
from lineage_emitter.dataframes.stream_state import Offsets, offsets_of_batch
from lineage_emitter.dataframes.topic_ids import SeenTopics

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

BATCHES_MAX = 256
"""Batches whose frames a program may still write behind the end of its function."""
QUERY_ID = "sql.streaming.queryId"
"""A property of the thread that runs a query."""
_BATCHES = "_lineage_stream_batches"
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """A micro-batch. ``plan``: of it, as Spark runs it (its object). ``seen``: topics, before it read them. ``execution``: its query (Spark's object)."""

    fact: StreamBatch
    plan: Any
    seen: SeenTopics
    execution: Any

    def streams(self) -> list[tuple[Any, Offsets]]:
        """The streams of the query (Spark's objects) with the offsets of the batch; none: the checkpoint has them no more."""
        offsets = offsets_of_batch(self.execution.offsetLog(), self.fact.number) or ()
        streams = self.execution.sources()
        return [(streams.apply(place), of_stream) for place, of_stream in enumerate(offsets)]


def begin_batch(java_session: Any, frame: DataFrame, number: int, seen: SeenTopics) -> None:
    """A function is about to get the rows of a batch: remember of which. In the query's own thread.

    ``java_session``: Spark's session in which the query was begun. ``seen``: topics, before that.

    Raises:
        ValueError: it is not known of which query.
        py4j.protocol.Py4JError: Spark does not answer.
    """
    sc = frame.sparkSession.sparkContext
    query_id = sc.getLocalProperty(QUERY_ID)
    query = None if query_id is None else java_session.streams().get(query_id)
    if query is None:
        raise ValueError("Spark does not say of which streaming query a batch is")
    execution = query.streamingQuery()
    rdd = int(frame._jdf.queryExecution().analyzed().rdd().id())
    run = str(execution.runId().toString())
    fact, plan = StreamBatch(str(query_id), run, number), execution.lastExecution().logical()
    batch = FrameBatch(fact, plan, seen, execution)
    with _lock:
        batches = _batches(sc)
        batches[rdd] = batch
        while len(batches) > BATCHES_MAX:
            batches.popitem(last=False)


def batch_of(sc: SparkContext, rdd: int) -> FrameBatch | None:
    """The batch whose rows an RDD has; None: it has those of none."""
    with _lock:
        return _batches(sc).get(rdd)


def _batches(sc: SparkContext) -> OrderedDict[int, FrameBatch]:
    batches: OrderedDict[int, FrameBatch] = sc.__dict__.setdefault(_BATCHES, OrderedDict())
    return batches
