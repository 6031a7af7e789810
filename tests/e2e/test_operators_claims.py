"""docs/reference/operators.md against runs: a row's claim is what a trace of the operator says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD, SparkContext

from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction
from lineage_core.tracing.tracer import Tracer
from lineage_emitter import LineageContext
from lineage_store.url import open_store
from tests.support.job_runs import STORE, judged
from tests.support.memory_graph import outputs_of
from tests.unit.emitter.test_operators_page import claims

pytestmark = pytest.mark.e2e

Pairs = RDD[Any]
OLD, NEW = "org.apache.hadoop.mapred", "org.apache.hadoop.mapreduce.lib.output"
ROWS = [("a", 1), ("b", 2), ("a", 3), ("c", 4)]


def add(a: Any, b: Any) -> Any:
    return a + b


def key_of(pair: Any) -> Any:
    return pair[0]


def doubled(number: Any) -> Any:
    return (number, number)


def records_of(records: Any) -> Any:
    return list(records)


def indexed(split: int, records: Any) -> Any:
    return [(split, record) for record in records]


def drained(records: Any) -> None:
    for _ in records:
        pass


def kept(rdd: RDD[Any], how: str) -> list[Any]:
    """Computed, kept, and read again from where it is kept."""
    getattr(rdd, how)()
    rdd.count()
    return rdd.collect()


def written_to(folder: str, prefix: str) -> dict[str, str]:
    """A Hadoop configuration that writes lines of text."""
    package = OLD if prefix == "mapred.output" else NEW
    suffix = ".format.class" if package == OLD else "format.class"
    return {
        prefix + suffix: f"{package}.TextOutputFormat",
        "mapreduce.output.fileoutputformat.outputdir": folder,
        "mapreduce.job.output.key.class": "org.apache.hadoop.io.Text",
        "mapreduce.job.output.value.class": "org.apache.hadoop.io.IntWritable",
    }


def by_first(key: str) -> int:
    return ord(key[0])


PROGRAMS: dict[str, Callable[[Pairs, str], Any]] = {
    "map": lambda p, _: p.map(key_of).collect(),
    "flatMap": lambda p, _: p.flatMap(records_of).collect(),
    "filter": lambda p, _: p.filter(key_of).collect(),
    "mapValues": lambda p, _: p.mapValues(str).collect(),
    "flatMapValues": lambda p, _: p.flatMapValues(doubled).collect(),
    "keyBy": lambda p, _: p.keyBy(key_of).collect(),
    "keys": lambda p, _: p.keys().collect(),
    "values": lambda p, _: p.values().collect(),
    "sample": lambda p, _: p.sample(False, 1.0, 1).collect(),
    "sampleByKey": lambda p, _: p.sampleByKey(False, {"a": 1.0, "b": 1.0, "c": 1.0}, 1).collect(),
    "randomSplit": lambda p, _: p.randomSplit([1.0], 1)[0].collect(),
    "zipWithIndex": lambda p, _: p.zipWithIndex().collect(),
    "zipWithUniqueId": lambda p, _: p.zipWithUniqueId().collect(),
    "glom": lambda p, _: p.glom().collect(),
    "reduceByKey": lambda p, _: p.reduceByKey(add, 1).collect(),
    "foldByKey": lambda p, _: p.foldByKey(0, add, 1).collect(),
    "aggregateByKey": lambda p, _: p.aggregateByKey(0, add, add, 1).collect(),
    "combineByKey": lambda p, _: p.mapValues(str).combineByKey(str, add, add, 1).collect(),
    "groupByKey": lambda p, _: p.groupByKey(1).mapValues(records_of).collect(),
    "groupBy": lambda p, _: p.groupBy(key_of, 1).mapValues(records_of).collect(),
    "distinct": lambda p, _: p.distinct(1).collect(),
    "cogroup": lambda p, _: p.cogroup(p, 1).keys().collect(),
    "groupWith": lambda p, _: p.groupWith(p, p).keys().collect(),
    "intersection": lambda p, _: p.intersection(p).collect(),
    "join": lambda p, _: p.join(p, 1).collect(),
    "leftOuterJoin": lambda p, _: p.leftOuterJoin(p, 1).collect(),
    "rightOuterJoin": lambda p, _: p.rightOuterJoin(p, 1).collect(),
    "fullOuterJoin": lambda p, _: p.fullOuterJoin(p, 1).collect(),
    "subtract": lambda p, _: p.subtract(p.filter(lambda kv: kv[1] > 1), 1).collect(),
    "subtractByKey": lambda p, _: p.subtractByKey(p.filter(lambda kv: kv[1] == 2), 1).collect(),
    "union": lambda p, _: p.union(p).collect(),
    "coalesce": lambda p, _: [p.coalesce(1).collect(), p.coalesce(1, shuffle=True).collect()],
    "repartition": lambda p, _: p.repartition(1).collect(),
    "partitionBy": lambda p, _: p.partitionBy(1, by_first).collect(),
    "sortBy": lambda p, _: p.sortBy(key_of, numPartitions=1).collect(),
    "sortByKey": lambda p, _: p.sortByKey(True, 1).collect(),
    "repartitionAndSortWithinPartitions": lambda p, _: p.repartitionAndSortWithinPartitions(
        1, by_first
    ).collect(),
    "cartesian": lambda p, _: p.cartesian(p).collect(),
    "zip": lambda p, _: p.zip(p).collect(),
    "pipe": lambda p, _: p.pipe("cat").collect(),
    "barrier": lambda p, _: p.barrier().mapPartitions(records_of).collect(),
    "mapPartitions": lambda p, _: p.mapPartitions(records_of).collect(),
    "mapPartitionsWithIndex": lambda p, _: p.mapPartitionsWithIndex(indexed).collect(),
    "mapPartitionsWithSplit": lambda p, _: p.mapPartitionsWithIndex(indexed).collect(),
    "checkpoint": lambda p, _: kept(p.map(key_of), "checkpoint"),
    "localCheckpoint": lambda p, _: kept(p.map(key_of), "localCheckpoint"),
    "collect": lambda p, _: p.collect(),
    "collectAsMap": lambda p, _: p.collectAsMap(),
    "collectWithJobGroup": lambda p, _: p.collectWithJobGroup("group", "a job"),
    "toLocalIterator": lambda p, _: list(p.toLocalIterator()),
    "lookup": lambda p, _: p.lookup("a"),
    "take": lambda p, _: p.take(2),
    "first": lambda p, _: p.first(),
    "isEmpty": lambda p, _: p.isEmpty(),
    "top": lambda p, _: p.top(2),
    "takeOrdered": lambda p, _: p.takeOrdered(2),
    "takeSample": lambda p, _: p.takeSample(False, 2, 1),
    "max": lambda p, _: p.max(),
    "min": lambda p, _: p.min(),
    "foreach": lambda p, _: p.foreach(key_of),
    "foreachPartition": lambda p, _: p.foreachPartition(drained),
    "count": lambda p, _: p.count(),
    "countByKey": lambda p, _: p.countByKey(),
    "countByValue": lambda p, _: p.countByValue(),
    "countApprox": lambda p, _: p.countApprox(10_000),
    "countApproxDistinct": lambda p, _: p.countApproxDistinct(),
    "sumApprox": lambda p, _: p.values().sumApprox(10_000),
    "meanApprox": lambda p, _: p.values().meanApprox(10_000),
    "histogram": lambda p, _: p.values().histogram(2),
    "reduce": lambda p, _: p.values().reduce(add),
    "fold": lambda p, _: p.values().fold(0, add),
    "aggregate": lambda p, _: p.values().aggregate(0, add, add),
    "treeReduce": lambda p, _: p.values().treeReduce(add),
    "treeAggregate": lambda p, _: p.values().treeAggregate(0, add, add),
    "reduceByKeyLocally": lambda p, _: p.reduceByKeyLocally(add),
    "sum": lambda p, _: p.values().sum(),
    "stats": lambda p, _: p.values().stats(),
    "mean": lambda p, _: p.values().mean(),
    "variance": lambda p, _: p.values().variance(),
    "stdev": lambda p, _: p.values().stdev(),
    "sampleVariance": lambda p, _: p.values().sampleVariance(),
    "sampleStdev": lambda p, _: p.values().sampleStdev(),
    "saveAsTextFile": lambda p, out: p.saveAsTextFile(out),
    "saveAsPickleFile": lambda p, out: p.saveAsPickleFile(out),
    "saveAsSequenceFile": lambda p, out: p.saveAsSequenceFile(out),
    "saveAsHadoopFile": lambda p, out: p.saveAsHadoopFile(out, f"{OLD}.TextOutputFormat"),
    "saveAsHadoopDataset": lambda p, out: p.saveAsHadoopDataset(written_to(out, "mapred.output")),
    "saveAsNewAPIHadoopFile": lambda p, out: p.saveAsNewAPIHadoopFile(
        out, f"{NEW}.TextOutputFormat"
    ),
    "saveAsNewAPIHadoopDataset": lambda p, out: p.saveAsNewAPIHadoopDataset(
        written_to(out, "mapreduce.job.output")
    ),
}
"""For each method a run of it, which must work with and without capture."""


# collectWithJobGroup is deprecated.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Deprecated in 3.1:FutureWarning")
def test_a_run_shows_what_each_row_claims(spark_context: SparkContext, tmp_path: Path) -> None:
    # What follows on toDF is unknown, and so never complete: test_sources_and_sinks has it.
    told = {
        name: claim
        for name, claim in claims().items()
        if claim in {"exact", "superset"} and callable(getattr(RDD, name)) and name != "toDF"
    }
    assert told.keys() <= PROGRAMS.keys()
    spark_context.setCheckpointDir(str(tmp_path / "checkpoints"))
    with LineageContext(spark_context, store=f"sqlite:///{tmp_path / STORE}") as lc:
        for name in told:
            PROGRAMS[name](lc.parallelize(ROWS, 2), str(tmp_path / "out" / name))
    verdict = judged(tmp_path, lc.app)
    assert verdict.complete, verdict.reasons
    assert claims_of_runs(tmp_path, lc.app, list(told)) == told


def claims_of_runs(folder: Path, app: str, ran: list[str]) -> dict[str, str]:
    """What traces of all items of each program's sinks say: each program has a source of its own."""
    found: dict[str, set[str]] = {name: set() for name in ran}
    with open_store(f"sqlite:///{folder / STORE}") as store:
        graph = store.graph(app)
        tracer = Tracer(graph)
        sources = [node.node for node in graph.nodes() if node.kind == "source"]
        program_of = dict(zip(sources, ran, strict=True))
        for sink in (node.node for node in graph.nodes() if node.kind == "sink"):
            result = tracer.trace(Direction.BACKWARD, items_of(graph, sink))
            assert result.found, f"items of sink {sink} come from nowhere"
            for source in result.found:
                found[program_of[source]].add("exact" if result.exact else "superset")
    return {
        name: "superset" if "superset" in says else "".join(says) for name, says in found.items()
    }


def items_of(graph: FlowGraph, sink: str) -> dict[str, Region]:
    """All items of a sink."""
    items: dict[str, list[Region]] = {}
    mine = [ref.block_id for ref in graph.blocks() if ref.block_id.node == sink]
    for block in graph.load(mine).values():
        for section in block.out:
            rows = range(section.row_first, section.row_stop)
            outs = [out for row in rows for out in outputs_of(block, row)]
            items.setdefault(section.space, []).append(Region.from_positions(outs))
    return {space: Region.union(regions) for space, regions in items.items()}
