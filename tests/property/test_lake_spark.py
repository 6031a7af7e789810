"""Traces through a lake by Spark equal those in memory, which equal a walk over single associations (`test_tagged_traces`)."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_core.codec.tagged_runs import pack_tagged, unpack_tagged
from lineage_core.contract.message import Begin, End, Link, Message, Register
from lineage_core.tracing.tagged import TaggedRuns, compacted
from lineage_core.tracing.tagged_pairs import by_tags, distinct_pairs
from lineage_core.tracing.topology import Topology
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.lakes.questions import LakeQuestion
from lineage_dataframes.lakes.tracing import trace_lake
from lineage_dataframes.spark.table_files import session_for
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from tests.oracle.budget import examples
from tests.property.test_tagged_traces import Item, asked, tagged_runs, uneven_graphs
from tests.support.memory_graph import MemoryGraph
from tests.support.tagged_trace import Traced, pairs_of, tagged_start, tagged_trace

pytestmark = [pytest.mark.property]
APP = "app"


def _messages(graph: MemoryGraph) -> list[Message]:
    nodes = [
        Register(
            app=APP, node=one.node, kind=one.kind, op=one.op, name=one.name, exact=one.exact, reason=one.reason
        )
        for one in graph.node_list
    ]  # fmt: skip
    links = [Link(app=APP, src=link.src, dest=link.dest) for link in graph.link_list]
    begin = Begin(app=APP, name="job", started_at=1.0)
    return [
        begin,
        *nodes,
        *links,
        End(app=APP, ended_at=2.0, status="ok", messages=0, blocks=0, tasks=0),
    ]


def stored(lake: LakeStore, graph: MemoryGraph, commits: int) -> MemoryGraph:
    """The graph as the lake has it, which knows more: of partitions that were computed twice."""
    blocks = graph.block_list
    lake.write(APP, _messages(graph), blocks[::2])
    for _ in range(commits):
        # Some blocks come twice.
        lake.write(APP, [], blocks[1::2] + blocks[:1])
    lake.write(APP, [], blocks[1::2])
    read = lake.graph(APP)
    loaded = read.load([block.block_id for block in blocks])
    return MemoryGraph(list(read.nodes()), list(read.links()), list(loaded.values()))


def traced_by_spark(
    spark: SparkSession, lake: LakeStore, start: dict[str, TaggedRuns], *, backward: bool
) -> Traced:
    graph = lake.graph(APP)
    topology = Topology(graph.nodes(), graph.links())
    answer = trace_lake(spark, lake, LakeQuestion(APP, graph, topology, start, backward))
    traced = Traced(reasons=answer.reasons)
    for frame in answer.found:
        for row in frame.collect():
            for rows in distinct_pairs(unpack_tagged(bytes(row["payload"])), 3):
                for pair, reason in pairs_of(row["space"], rows):
                    assert pair not in traced.found, "found twice"
                    traced.found[pair] = {answer.numbered[reason]}
    return traced


@pytest.mark.long
@pytest.mark.integration
@settings(max_examples=examples(12), deadline=None)
@given(uneven_graphs(), st.sampled_from(Direction), st.booleans(), st.integers(0, 1), st.data())
def test_a_lake_gives_what_memory_gives(
    spark_context: SparkContext,
    graph: MemoryGraph,
    direction: Direction,
    together: bool,
    commits: int,
    data: st.DataObject,
) -> None:
    items: list[Item] = data.draw(asked(graph))
    spark = session_for(SparkSession(spark_context))
    backward = direction is Direction.BACKWARD
    with tempfile.TemporaryDirectory() as folder:
        lake = LakeStore(LakeAddress(f"{folder}/la ke[x]"))
        known = stored(lake, graph, commits)
        start = tagged_start(items, together=together)
        expected = tagged_trace(known, start, backward=backward)
        answer = traced_by_spark(spark, lake, start, backward=backward)
    assert answer.found.keys() == expected.found.keys()
    for pair, (why,) in ((pair, tuple(texts)) for pair, texts in answer.found.items()):
        assert why in expected.found[pair]
        assert (why == "") == ("" in expected.found[pair])
    assert set(answer.reasons) == set(expected.reasons)


@given(tagged_runs(), st.integers(1, 5))
def test_parts_of_tags_have_each_pair_once_with_its_smallest_reason(
    rows: TaggedRuns, most: int
) -> None:
    smallest: dict[object, int] = {}
    for pair, reason in pairs_of("0#0", rows):
        smallest[pair] = min(reason, smallest.get(pair, reason))
    found: list[object] = []
    for part in by_tags(compacted(rows), most):
        packed = unpack_tagged(pack_tagged(part))
        for single in distinct_pairs(packed, most):
            pairs = pairs_of("0#0", single)
            assert all(reason == smallest[pair] for pair, reason in pairs)
            found += [pair for pair, _ in pairs]
    assert len(found) == len(set(found))
    assert set(found) == set(smallest)
