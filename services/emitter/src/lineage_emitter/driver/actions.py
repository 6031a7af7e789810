"""Sinks: what reached the user or a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark import RDD
from pyspark.serializers import NoOpSerializer

from lineage_core.answers import ANSWERS, CollectedAnswer
from lineage_core.contract.collected import CollectedRows
from lineage_emitter import scope
from lineage_emitter.driver import driver_sinks
from lineage_emitter.driver.pairs import raising_driver_errors
from lineage_emitter.pyspark_parts import records_from_socket
from lineage_emitter.worker.by_record import ForEach, nothing
from lineage_emitter.worker.operators import (
    AllIntoOne,
    Collect,
    CollectWithPartition,
    ConsumingFunction,
    SaveText,
    SinkIntoFunction,
    TakeFirst,
)

if TYPE_CHECKING:
    from lineage_emitter.driver.captured import CapturedRDD
    from lineage_emitter.session.nodes import Node


@contextmanager
def running_action(
    rdd: CapturedRDD, name: str, sink: Node, partitions: Sequence[int] | None = None
) -> Iterator[None]:
    """The body runs PySpark's own action, which computes all partitions or some."""

    def computed() -> Iterable[int]:
        return range(rdd.getNumPartitions()) if partitions is None else partitions

    writes = name.startswith("save")
    recorded = rdd.session.recorded(writes=writes)
    with rdd.session.jobs.action(name, sink, computed), recorded, scope.suspended():
        yield


def collect(rdd: CapturedRDD, partitions: Sequence[int] | None = None) -> list[Any]:
    """``collect``; just some partitions where ``partitions`` are given."""
    is_answer = scope.is_outermost("collect") and ANSWERS.wanted
    if partitions is None and (is_answer or rdd.checkpointed_locally):
        rows, records = collect_rows(rdd)
        if is_answer:
            ANSWERS.keep_list(records, CollectedAnswer(scope.running_site(), rows))
        return records
    sink = rdd.session.nodes.register("sink", "collect", [rdd.node], alias="collect")
    collected = rdd.pipe_function(Collect(sink.detail), True, sink).ending(rdd.ctx.serializer)
    with running_action(rdd, "collect", sink, partitions), raising_driver_errors(rdd):
        if partitions is None:
            return RDD.collect(collected)
        return _from_partitions(collected, partitions)


def collect_rows(rdd: CapturedRDD) -> tuple[CollectedRows, list[Any]]:
    """``collect`` that says where each record was."""
    if rdd.checkpointed_locally:
        sink, by_partition = driver_sinks.collect(rdd)
        counts = list(map(len, by_partition))
        records = [record for partition in by_partition for record in partition]
    else:
        sink = rdd.session.nodes.register("sink", "collect", [rdd.node], alias="collect")
        operator = CollectWithPartition(sink.detail)
        placed = rdd.pipe_function(operator, True, sink).ending(rdd.ctx.serializer)
        with running_action(rdd, "collect", sink), raising_driver_errors(rdd):
            collected = RDD.collect(placed)
        counts, records = [0] * rdd.getNumPartitions(), []
        for partition, record in collected:
            counts[partition] += 1
            records.append(record)
    return CollectedRows(rdd.session.app, sink.name, tuple(counts)), records


def collect_with_job_group(rdd: CapturedRDD, *arguments: Any) -> list[Any]:
    """``collectWithJobGroup``: as ``collect``."""
    name = "collectWithJobGroup"
    sink = rdd.session.nodes.register("sink", name, [rdd.node], alias=name)
    collected = rdd.pipe_function(Collect(sink.detail), True, sink).ending(rdd.ctx.serializer)
    with running_action(rdd, name, sink), raising_driver_errors(rdd):
        return RDD.collectWithJobGroup(collected, *arguments)


def foreach(rdd: CapturedRDD, function: Callable[[Any], Any]) -> None:
    """``foreach``."""
    sink = rdd.session.nodes.register("sink", "foreach", [rdd.node], alias="foreach")
    by_record = ForEach(function)
    guarded = rdd.session.quarantine.around(by_record, sink)
    if guarded is not by_record:
        # What it fails on reaches no sink.
        rdd, function = rdd.pipe_function(guarded, True, sink), nothing
    collected = rdd.pipe_function(Collect(sink.detail), True, sink).ending(rdd.ctx.serializer)
    with running_action(rdd, "foreach", sink):
        RDD.foreach(collected, function)


def foreach_partition(rdd: CapturedRDD, function: Callable[[Iterable[Any]], Any]) -> None:
    """``foreachPartition``."""
    name = "foreachPartition"
    sink = rdd.session.nodes.register("sink", name, [rdd.node], alias=name)
    piped = rdd.pipe_function(SinkIntoFunction(sink.detail), True, sink).ending(rdd.ctx.serializer)
    with running_action(rdd, name, sink):
        RDD.foreachPartition(piped, ConsumingFunction(function))


def reduce_to_item(
    rdd: CapturedRDD, name: str, method: Callable[..., Any], /, *arguments: Any, **keywords: Any
) -> Any:
    """An action whose one result depends on every record."""
    sink = rdd.session.nodes.register("sink", name, [rdd.node], alias=name)
    reduced = rdd.pipe_function(AllIntoOne(sink.name), True, sink).ending(rdd.ctx.serializer)
    with running_action(rdd, name, sink):
        return method(reduced, *arguments, **keywords)


def _from_partitions(rdd: CapturedRDD, partitions: Sequence[int]) -> list[Any]:
    """The records of some partitions, as PySpark's ``runJob`` fetches them."""
    sc = rdd.ctx
    assert sc._jvm is not None
    socket = sc._jvm.PythonRDD.runJob(sc._jsc.sc(), rdd._jrdd, list(partitions))
    return records_from_socket(socket, sc.serializer)


def save_text(rdd: CapturedRDD, path: str, codec: str | None) -> None:
    """``saveAsTextFile``."""
    sink = rdd.session.nodes.register(
        "sink", "saveAsTextFile", [rdd.node], alias="write", path=path
    )
    keyed = rdd.pipe_function(SaveText(sink.name), False, sink).ending(NoOpSerializer())
    with running_action(rdd, "saveAsTextFile", sink):
        jvm = rdd.ctx._jvm
        assert jvm is not None
        lines = keyed._jrdd.map(jvm.BytesToString())
        if codec:
            lines.saveAsTextFile(path, getattr(jvm, "java.lang.Class").forName(codec))
        else:
            lines.saveAsTextFile(path)
        rdd.session.files.record_sink_files(sink, path)


def take(rdd: CapturedRDD, num: int) -> list[Any]:
    """``take`` and ``first``: PySpark's rounds over ever more partitions."""
    session, sc = rdd.session, rdd.ctx
    sink = session.nodes.register("sink", "take", [rdd.node], alias="take")
    items: list[Any] = []
    rounds: list[list[int]] = []
    total = rdd.getNumPartitions()
    scanned = 0
    with session.jobs.action("take", sink, lambda: [p for ps in rounds for p in ps], limit=num):
        while len(items) < num and scanned < total:
            partitions = list(range(scanned, min(scanned + _tries(items, num, scanned), total)))
            round_rdd = rdd.pipe_function(TakeFirst(sink.detail, num - len(items)), True, sink)
            round_rdd.ending(sc.serializer)
            with scope.suspended():
                items += _from_partitions(round_rdd, partitions)
            rounds.append(partitions)
            scanned += len(partitions)
    return items[:num]


def _tries(items: list[Any], num: int, scanned: int) -> int:
    """PySpark's guess how many more partitions hold what is missing."""
    if not scanned:
        return 1
    if not items:
        return scanned * 4
    guess = int(1.5 * num * scanned / len(items)) - scanned
    return min(max(guess, 1), scanned * 4)
