"""A job may send blocks and nodes of any number: what the linker keeps and reads of them is bounded."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from redis import ConnectionPool, Redis
from redis.client import Pipeline

from lineage_core.codec.edge_message import Links, parse_edge_record
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.dead_letter import TopicPartitionOffset
from lineage_core.contract.message import Commit, Register, Unknown, parse_message
from lineage_core.linking.joining import JoinEntry, Side
from lineage_core.linking.linker import Linker, TaskId
from lineage_kafka.topics import Topics
from lineage_linker.batch import LinkBatch
from lineage_linker.records import Incoming, Layout
from lineage_linker.redis_state import RedisState, StateBounds
from lineage_linker.side_cache import SideCache
from tests.support.linker_job import keyed, record_batch_of, value_of
from tests.support.servers import RedisUnderTest

pytestmark = pytest.mark.security
TOPICS = Topics("t-")
LAYOUT = Layout(TOPICS, 4, 1)
TASK = TaskId("2", 0, 0)
RUNS = 1 << 16
_apps = itertools.count()


class CountingPipeline(Pipeline):
    owner: CountingRedis

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        replies: list[Any] = super().execute(raise_on_error)
        for reply in replies:
            self.owner.count(reply)
        return replies


class CountingRedis(Redis):
    """Counts the fields of hashes that it reads."""

    fields = 0

    def count(self, reply: object) -> None:
        self.fields += len(reply) if isinstance(reply, Mapping) else 0

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        reply = super().parse_response(connection, command_name, **options)
        self.count(reply)
        return reply

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Pipeline:
        pipeline = CountingPipeline(
            self.connection_pool, self.response_callbacks, transaction, shard_hint
        )
        pipeline.owner = self
        return pipeline


@pytest.fixture
def redis(redis_server: RedisUnderTest) -> Iterator[CountingRedis]:
    client = CountingRedis(connection_pool=ConnectionPool.from_url(redis_server.url))
    yield client
    client.close()


@pytest.fixture
def app() -> str:
    return f"forged-{next(_apps)}"


def run_batch(redis: Redis, app: str, values: list[bytes], pairs: int = 1 << 22) -> LinkBatch:
    bounds = StateBounds(space_pairs=pairs)
    cache = SideCache(1 << 20)
    batch = LinkBatch(LAYOUT, lambda name: RedisState(redis, name, cache, bounds), 0.0)
    for at, value in enumerate(values):
        batch.handle(Incoming(TopicPartitionOffset(TOPICS.flow, 0, at), app.encode(), value))
    batch.recount_unmatched()
    batch.send_links("epoch")
    batch.seal()
    batch.send_seals("epoch")
    batch.finish()
    assert batch.dead == []
    return batch


@contextmanager
def traced_memory() -> Iterator[list[int]]:
    """The bytes that the body left, and its peak."""
    held: list[int] = []
    gc.collect()
    tracemalloc.start()
    try:
        yield held
        gc.collect()
        held += tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def wide(number: int) -> JoinEntry:
    """A block that reads 65,536 positions: 768 KiB of columns, few bytes when they are compressed."""
    first = np.arange(RUNS, dtype=np.uint64) * np.uint64(2)
    side = Side(first, first, np.arange(RUNS, dtype=np.uint32), 0, 2 * RUNS, distinct=True)
    return JoinEntry(BlockId("2", 0, 0, number), "1@0", side, {})


@pytest.mark.long
def test_columns_of_a_batch_of_blocks_are_not_all_kept(redis: CountingRedis, app: str) -> None:
    cache = SideCache(2 << 20)
    state = RedisState(redis, app, cache)
    linker = Linker(state)
    with traced_memory() as held:
        for number in range(32):
            linker.receive(TASK, wide(number))
    assert held[0] < 4 << 20


def test_blocks_that_wait_for_one_commit_are_read_one_by_one(
    redis: CountingRedis, app: str
) -> None:
    for number in range(32):
        Linker(RedisState(redis, app, SideCache(0))).receive(TASK, wide(number))
    state = RedisState(redis, app, SideCache(0))
    with traced_memory() as held:
        linked = Linker(state).commit(TASK)
        assert len(linked.visible) == 32
    assert held[1] < 12 << 20


def test_blocks_that_are_counted_again_are_read_one_by_one(redis: CountingRedis, app: str) -> None:
    first = Linker(RedisState(redis, app, SideCache(0)))
    first.commit(TASK)
    for number in range(32):
        first.receive(TASK, wide(number))
    state = RedisState(redis, app, SideCache(0))
    ends = np.array([0, 4, 12], np.uint64)
    producer = Side(ends, ends, np.arange(3, dtype=np.uint32), 0, 12, distinct=True)
    with traced_memory():
        linker = Linker(state)
        linker.commit(TaskId("1", 0, 0))
        entry = JoinEntry(BlockId("1", 0, 0, 0), "0#0", None, {"1@0": producer})
        assert len(linker.receive(TaskId("1", 0, 0), entry).edges) == 32
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        linker.recount_unmatched()
    assert kept < 4 << 20
    assert {count for _, count in state.counts()} >= {RUNS - 3}


def small(app: str, number: int, *, node: str = "2") -> FlowBlock:
    """A block that reads a position of its own, and puts it out, in one space."""
    positions = [[number * 10]]
    return keyed(app, BlockId(node, 0, 0, number), "1@0", [("1@0", positions[0])], positions)


def test_a_block_of_an_unknown_node_reads_no_other_nodes(redis: CountingRedis, app: str) -> None:
    nodes = [
        value_of(Register(app=app, node=f"n{at}", kind="operator", op="map")) for at in range(400)
    ]
    run_batch(redis, app, nodes)
    redis.fields = 0
    unknown = [
        FlowBlock(
            BlockId(f"u{at}", 0, 0, 0),
            Relation.ROWS,
            f"u{at}#0",
            (Section(f"v{at}#0.5", 0, 1),),
            np.zeros(1, np.uint64),
            np.zeros(1, np.uint64),
            np.array([0, 1], np.int64),
            app=app,
        )
        for at in range(20)
    ]
    run_batch(
        redis,
        app,
        [record_batch_of(block, TaskId(block.block_id.node, 0, 0)) for block in unknown],
    )
    assert redis.fields < 400


def test_registrations_of_sources_read_once_a_batch_what_may_be_theirs(
    redis: CountingRedis, app: str
) -> None:
    run_batch(redis, app, [value_of(Commit(app=app, node="2", partition=0, attempt=0, blocks=50))])
    blocks = [
        keyed(app, BlockId("2", 0, 0, at), f"s{at}#0", [("2#0.5", [at])], [[0]]) for at in range(50)
    ]
    run_batch(redis, app, [record_batch_of(block, TASK) for block in blocks])
    redis.fields = 0
    sources = [
        value_of(Register(app=app, node=f"s{at}", kind="source", op="textFile")) for at in range(50)
    ]
    batch = run_batch(redis, app, sources)
    assert redis.fields < 200
    (links,) = [links for record in batch.outgoing if (links := links_in(record.value))]
    assert sorted(links.unmatched) == sorted((block.block_id, 0) for block in blocks)


def links_in(value: bytes) -> Links | None:
    """The links of a record; None: it is a message, or a block."""
    if value.startswith(b"{"):
        return None
    record = parse_edge_record(value)
    return record if isinstance(record, Links) else None


def test_a_space_that_very_many_blocks_share_is_linked_up_to_a_bound_and_said_to_be(
    redis: CountingRedis, app: str
) -> None:
    run_batch(redis, app, [value_of(Commit(app=app, node="2", partition=0, attempt=0, blocks=90))])
    unknown: list[Unknown] = []
    unmatched: dict[BlockId, int] = {}
    seals: list[object] = []
    read: list[int] = []
    for start in range(0, 90, 10):
        redis.fields = 0
        values = [record_batch_of(small(app, start + at), TASK) for at in range(10)]
        batch = run_batch(redis, app, values, pairs=400)
        read.append(redis.fields)
        for record in batch.outgoing:
            links = links_in(record.value)
            if links is not None:
                unmatched.update(links.unmatched)
                seals += links.seals
            elif b'"unknown"' in record.value:
                message = parse_message(record.value.decode())
                assert isinstance(message, Unknown)
                unknown.append(message)
    # 20 by 20 are linked, and said to be whole while there were no more.
    assert sum(count == 0 for count in unmatched.values()) == 20
    assert len(unmatched) == 90
    assert {message.what for message in unknown} == {"linking of 1@0"}
    assert all("LINEAGE_LINKER_SPACE_PAIRS" in message.reason for message in unknown)
    assert len(seals) == 2
    assert max(read[2:]) == 0 < min(read[:2])
