"""One application in both stores: the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import (
    Begin,
    Commit,
    End,
    Heartbeat,
    Link,
    Message,
    Read,
    Recipe,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    Register,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
    Unknown,
)
from lineage_core.linking.linker import TaskId
from lineage_store.copying import copy_application
from lineage_store.dump import dump_application
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.sqlite.store import SqliteStore
from tests.support import flow_blocks
from tests.support.servers import Neo4jUnderTest
from tests.support.stores import empty_neo4j

pytestmark = pytest.mark.integration

APP = "app|1"
NODES = ("4", "12", "word-count.1", "a:b")
nodes = st.sampled_from(NODES)
texts = flow_blocks.texts
times = st.floats(0, 2e9)
counts = st.integers(0, 2**63 - 1)
partitions = st.integers(0, 9)


@pytest.fixture
def store(neo4j: Neo4jUnderTest) -> Iterator[Neo4jStore]:
    with empty_neo4j(neo4j) as opened:
        yield opened


reads = st.builds(
    Read,
    space=st.sampled_from([*flow_blocks.SPACES, "12#3", "a:b#1"]),
    rows=counts,
    exhausted=st.booleans(),
)
splits = st.builds(
    Split,
    partition=partitions,
    path=texts,
    start=counts,
    length=counts,
    file_size=counts,
    mtime=times,
)
record_splits = st.builds(
    RecordSplit,
    partition=partitions,
    path=texts,
    row=st.integers(0, 2),
    start=counts,
    length=counts,
    first=st.none() | counts,
    file_size=counts,
    mtime=times,
)
files = st.builds(
    SinkFile, partition=partitions, path=texts, size=counts, mtime=times, rows=st.none() | counts
)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Begin, app=st.just(APP), name=texts, started_at=times, argv=st.tuples(texts)),
    st.builds(Heartbeat, app=st.just(APP), at=times),
    st.builds(End, app=st.just(APP), ended_at=times, status=st.sampled_from(["ok", "failed"])),
    st.builds(Link, app=st.just(APP), src=nodes, dest=nodes),
    st.builds(Unknown, app=st.just(APP), node=st.none() | nodes, what=texts),
    st.builds(
        Register,
        app=st.just(APP),
        node=nodes,
        kind=st.sampled_from(["source", "operator", "shuffle", "sink", "frame", "frame-source"]),
        op=texts,
        name=texts,
        alias=st.none() | texts,
        exact=st.booleans(),
        reason=texts,
        partitions=st.none() | partitions,
    ),
    st.builds(
        Commit,
        app=st.just(APP),
        node=nodes,
        partition=partitions,
        attempt=st.integers(0, 9),
        digest=st.sampled_from(["", "a", "b"]),
        reads=st.lists(reads, max_size=3).map(tuple),
        newlines=st.lists(st.tuples(counts, counts), max_size=3).map(tuple),
    ),
    st.builds(
        Recipe,
        app=st.just(APP),
        node=nodes,
        recipe=st.dictionaries(texts, texts).map(lambda made: json.dumps(made | {"version": 1})),
    ),
    st.builds(Splits, app=st.just(APP), node=nodes, splits=st.lists(splits, max_size=3).map(tuple)),
    st.builds(
        SinkFiles,
        app=st.just(APP),
        node=nodes,
        path=texts,
        files=st.lists(files, max_size=3).map(tuple),
    ),
    st.builds(
        RecordSplits,
        app=st.just(APP),
        node=nodes,
        whole=st.booleans(),
        splits=st.lists(record_splits, max_size=3).map(tuple),
    ),
    st.builds(
        RecordFiles,
        app=st.just(APP),
        node=nodes,
        path=texts,
        files=st.lists(files, max_size=3).map(tuple),
    ),
)


def once_each(found: list[Message]) -> list[Message]:
    """No two commits of one attempt: they would contradict each other."""
    kept: dict[object, Message] = {}
    for message in found:
        key: object = len(kept)
        if isinstance(message, Commit):
            key = message.node, message.partition, message.attempt
        kept.setdefault(key, message)
    return list(kept.values())


@st.composite
def edges_of(draw: st.DrawFn, blocks: list[FlowBlock]) -> list[EdgeBatch]:
    """Edges between some of the blocks; what they say need not be true."""
    ends = st.sampled_from([one.block_id for one in blocks])
    found: dict[tuple[BlockId, BlockId], EdgeBatch] = {}
    for producer, consumer in draw(st.lists(st.tuples(ends, ends), max_size=5)):
        pairs = draw(st.integers(1, 9))
        rows = flow_blocks.u64(
            draw(st.lists(st.integers(0, 2**32 - 1), min_size=pairs, max_size=pairs))
        )
        columns = (rows.astype("u4"), rows[::-1].astype("u4")) if draw(st.booleans()) else ()
        found[producer, consumer] = EdgeBatch(producer, consumer, pairs, *columns)
    return list(found.values())


@pytest.mark.long
@settings(
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    said=st.lists(messages, max_size=20).map(once_each),
    blocks=st.lists(flow_blocks.blocks(), max_size=4, unique_by=lambda one: one.block_id),
    data=st.data(),
)
def test_the_same_content_gives_the_same_bytes(
    store: Neo4jStore,
    tmp_path: Path,
    said: list[Message],
    blocks: list[FlowBlock],
    data: st.DataObject,
) -> None:
    edges = data.draw(edges_of(blocks)) if blocks else []
    tasks = {
        one.block_id: TaskId(data.draw(nodes), one.block_id.partition, one.block_id.attempt)
        for one in blocks
    }
    unmatched = {one.block_id: data.draw(counts) for one in blocks}
    store.delete(APP)
    for name in ("one.db", "two.db"):
        (tmp_path / name).unlink(missing_ok=True)
    with SqliteStore(tmp_path / "one.db") as one, SqliteStore(tmp_path / "two.db") as two:
        one.write(APP, said, blocks, edges, tasks=tasks, unmatched=unmatched)
        expected = list(dump_application(one, APP))
        store.write(APP, said, blocks, edges, tasks=tasks, unmatched=unmatched)
        assert list(dump_application(store, APP)) == expected
        copy_application(store, two, APP)
        assert list(dump_application(two, APP)) == expected
        store.delete(APP)
        copy_application(two, store, APP)
        assert list(dump_application(store, APP)) == expected
