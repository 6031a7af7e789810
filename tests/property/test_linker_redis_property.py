"""Linking over Redis is linking: whoever is killed, whatever comes twice, however two interleave.

Workers run in threads, of which one at a time runs, from one request to Redis to its next; which, and
which is killed before its request, is Hypothesis' choice.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis
from redis.client import Pipeline
from redis.exceptions import OutOfMemoryError

from lineage_core.codec.edge_message import Links, packed_edge
from lineage_core.contract.block import BlockId
from lineage_core.contract.sealing import Seal, is_sealed, seal_of
from lineage_core.linking.joining import JoinEntry, Side, join_entry_of
from lineage_core.linking.linker import Linker, LinkResult, TaskId
from lineage_linker.redis_state import RedisState, StateBounds
from lineage_linker.side_cache import SideCache
from tests.property.test_linking_property import Case, brute_unmatched, brute_visible, cases
from tests.property.test_lost_state_property import seal_among
from tests.support.linker_memory import MemoryAppState, Seen
from tests.support.servers import RedisUnderTest

pytestmark = pytest.mark.property

Event = TaskId | tuple[TaskId, JoinEntry]
_apps = itertools.count()


class Killed(BaseException):
    """As kill -9: nothing of the worker goes on."""


@dataclass
class Worker:
    """A thread that stops before every request until it is told to go on."""

    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    stopped: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    killed: bool = False
    thread: threading.Thread | None = None
    error: BaseException | None = None
    done: bool = True
    batch: list[int] = field(default_factory=list)

    def start(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                self.pause()
                work()
            except Killed:
                pass
            except BaseException as error:
                self.error = error
            self.done = True
            self.stopped.release()

        self.done = self.killed = False
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        self.stopped.acquire()

    def pause(self) -> None:
        """In the thread: before a request."""
        self.stopped.release()
        self.go.acquire()
        if self.killed:
            raise Killed

    def step(self, *, kill: bool = False) -> None:
        """From outside: up to the next request, or not that far."""
        self.killed = kill
        self.go.release()
        self.stopped.acquire()
        if self.done:
            assert self.thread is not None
            self.thread.join()
            if self.error is not None:
                raise self.error


class PausingPipeline(Pipeline):
    def execute(self, raise_on_error: bool = True) -> Any:
        if self.command_stack:
            self.connection_pool.pause()  # type: ignore[attr-defined]
        return super().execute(raise_on_error)


class PausingRedis(Redis):
    """Stops before every request."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        self.connection_pool.pause()  # type: ignore[attr-defined]
        return super().execute_command(*args, **options)

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Pipeline:
        return PausingPipeline(
            self.connection_pool, self.response_callbacks, transaction, shard_hint
        )


def link(linker: Linker, events: list[Event]) -> tuple[list[BlockId], list[LinkResult]]:
    """One batch, up to what is to be sent."""
    linked = [
        linker.commit(event) if isinstance(event, TaskId) else linker.receive(*event)
        for event in events
    ]
    linker.recount_unmatched()
    return [block for one in linked for block in one.visible], linked


def links_of(state: Any, events: list[Event], linker: Linker | None = None) -> Links:
    visible, linked = link(linker or Linker(state), events)
    edges = [packed_edge(edge) for one in linked for edge in one.edges]
    return Links("app", visible, state.counts(), edges)


def events_of(case: Case) -> list[Event]:
    return [*((task, join_entry_of(block)) for task, block in case.blocks), *case.commits]


def expected(case: Case, events: list[Event]) -> Seen:
    seen = Seen()
    state = MemoryAppState()
    for task in case.commits:
        state.set_commit_summary(task, (0, None, True))  # type: ignore[arg-type]
    seen.links(links_of(state, events))
    for block, count in seen.unmatched.items():
        assert count == brute_unmatched(brute_visible(case))[block]
    return seen


def link_by_two(
    redis_server: RedisUnderTest, case: Case, data: st.DataObject, bounds: StateBounds
) -> Seen:
    """What two workers make of the events, killed at will."""
    app = f"app-{next(_apps)}"
    events = events_of(case)
    order = data.draw(st.permutations(range(len(events))))
    again = data.draw(st.lists(st.sampled_from(order), max_size=4)) if order else []
    todo: list[list[int]] = []
    for at in [*order, *again]:
        joins: bool = data.draw(st.booleans())
        if todo and joins:
            todo[-1].append(at)
        else:
            todo.append([at])
    seen = Seen()
    workers = [Worker(), Worker()]
    clients = [PausingRedis.from_url(redis_server.url) for _ in workers]
    for client, worker in zip(clients, workers, strict=True):
        client.connection_pool.pause = worker.pause  # type: ignore[attr-defined]
    kills = 4

    def work(
        worker: Worker, client: Redis, batch: list[int], cache: SideCache
    ) -> Callable[[], None]:
        def run() -> None:
            state = RedisState(client, app, cache, bounds)
            linker = Linker(state)
            links = links_of(state, [events[at] for at in batch], linker)
            worker.pause()
            seen.links(links)
            state.make_visible()
            seals = linker.seal()
            worker.pause()
            seen.links(Links("app", seals=seals))
            state.finish()

        return run

    caches = [SideCache(0), SideCache(1 << 20)]
    while todo or not all(worker.done for worker in workers):
        at = data.draw(st.integers(0, 1))
        worker = workers[at] if not workers[at].done or todo else workers[1 - at]
        at = workers.index(worker)
        if worker.done:
            worker.batch = todo.pop(0)
            worker.start(work(worker, clients[at], worker.batch, caches[at]))
        elif kills and data.draw(st.integers(0, 7)) == 0:
            kills -= 1
            worker.step(kill=True)
            todo.insert(data.draw(st.integers(0, len(todo))), worker.batch)
        else:
            worker.step()
    for client in clients:
        client.connection_pool.pause = lambda: None  # type: ignore[attr-defined]
        client.close()
    return seen


SETTINGS = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow],
)


@SETTINGS
@given(case=cases(), data=st.data())
def test_two_workers_killed_at_will_link_the_same(
    redis_server: RedisUnderTest, case: Case, data: st.DataObject
) -> None:
    seen = link_by_two(redis_server, case, data, StateBounds())
    assert seen.linked() == expected(case, events_of(case)).linked()
    visible = [block for _, block in case.blocks if block.block_id in seen.visible]
    read = {block.in_space for block in visible if len(block.in_first)}
    assert seen.seals == {space: seal_among(space, visible) for space in read if is_sealed(space)}


@SETTINGS
@given(case=cases(), data=st.data())
def test_no_seal_says_that_all_is_linked_where_a_bound_left_blocks_out(
    redis_server: RedisUnderTest, case: Case, data: st.DataObject
) -> None:
    pairs: int = data.draw(st.integers(1, 4))
    seen = link_by_two(redis_server, case, data, StateBounds(space_pairs=pairs))
    whole = expected(case, events_of(case))
    assert seen.visible == whole.visible
    for ends, edge in seen.edges.items():
        assert (whole.edges[ends].pairs, whole.edges[ends].data) == (edge.pairs, edge.data)
    for block, count in whole.unmatched.items():
        assert seen.unmatched[block] >= count
    visible = [block for _, block in case.blocks if block.block_id in seen.visible]
    spaces = {block.block_id: block.in_space for block in visible}
    for space, seal in seen.seals.items():
        if seal == seal_among(space, visible):
            # A trace looks at edges alone.
            assert {ends for ends in whole.edges if spaces[ends[1]] == space} <= set(seen.edges)


@settings(max_examples=40, deadline=None)
@given(case=cases(), data=st.data())
def test_nothing_is_done_twice_where_nobody_is_killed(
    redis_server: RedisUnderTest, case: Case, data: st.DataObject
) -> None:
    app = f"app-{next(_apps)}"
    events = events_of(case)
    order = data.draw(st.permutations(range(len(events))))
    with redis_server.client() as client:
        seen = Seen()
        for at in [*order, *order]:
            state = RedisState(client, app, SideCache(1 << 20))
            links = links_of(state, [events[at]])
            state.make_visible()
            assert not set(links.visible) & seen.visible
            assert not {(one.producer, one.consumer) for one in links.edges} & set(seen.edges)
            seen.links(links)
            state.finish()
        assert seen.linked() == expected(case, events).linked()
        keys = [key.decode() for key in client.scan_iter(f"lm:{{{app}}}:*")]
        assert all(client.ttl(key) > 0 for key in keys)
        committed = set(case.commits)
        waiting = [key for key in keys if ":wait:" in key]
        left = {
            str(block.block_id)
            for task, block in case.blocks
            if task not in committed and block.block_id not in seen.visible
        }
        assert {name.decode() for key in waiting for name in client.hkeys(key)} == left


def positions(first: int, last: int) -> Side:
    return Side(*(np.empty(0, np.uint64),) * 2, np.empty(0, np.uint32), first, last, 0)


def test_a_count_that_was_not_sent_is_counted_again(redis_server: RedisUnderTest) -> None:
    """Its block is not touched by the event that comes again: just its producer is."""
    consumer = JoinEntry(BlockId("3", 0, 2, 0), "2@0", positions(0, 9), {})
    producer = JoinEntry(BlockId("2", 0, 1, 0), "1#0", None, {"2@0": positions(0, 9)})
    tasks = [TaskId("3", 0, 2), TaskId("2", 0, 1)]
    with redis_server.client() as client:
        app = f"app-{next(_apps)}"

        def batch(task: TaskId, entry: JoinEntry, *, finished: bool) -> Links:
            state = RedisState(client, app, SideCache(0))
            links = links_of(state, [(task, entry), task])
            if finished:
                state.make_visible()
                state.finish()
            return links

        assert batch(tasks[0], consumer, finished=True).unmatched == [(consumer.block_id, 10)]
        for finished in (False, False, True):
            links = batch(tasks[1], producer, finished=finished)
            assert dict(links.unmatched)[consumer.block_id] == 0
            assert [edge.pairs for edge in links.edges] == [10]
        links = batch(tasks[1], producer, finished=True)
        assert (links.visible, links.unmatched, links.edges) == ([], [], [])


def task_of(block: BlockId) -> TaskId:
    return TaskId(block.node, block.partition, block.attempt)


def test_what_lost_its_columns_is_in_no_seal(redis_server: RedisUnderTest) -> None:
    """They expire before the marks, and single keys may be deleted: what comes then was not joined with them."""
    keys = np.unique(np.random.default_rng(1).integers(0, 1 << 20, 2000).astype(np.uint64))
    rows = np.arange(len(keys), dtype=np.uint32)
    side = Side(keys, keys, rows, int(keys[0]), int(keys[-1]))
    end = 1 << 20
    lost = JoinEntry(BlockId("2", 0, 1, 0), "1#0", None, {"2@0": side})
    there = JoinEntry(BlockId("2", 1, 2, 0), "1#1", None, {"2@0": positions(end, end + 9)})
    reader = JoinEntry(BlockId("3", 0, 3, 0), "2@0", positions(0, end + 9), {})
    late = JoinEntry(BlockId("3", 1, 4, 0), "2@0", positions(end, end + 9), {})
    with redis_server.client() as client:
        app = f"app-{next(_apps)}"

        def batch(entry: JoinEntry) -> list[Seal]:
            state = RedisState(client, app, SideCache(0))
            linker = Linker(state)
            task = task_of(entry.block_id)
            links_of(state, [(task, entry), task], linker)
            state.make_visible()
            seals = linker.seal()
            state.finish()
            return seals

        assert (batch(lost), batch(there)) == ([], [])
        assert client.delete(f"lm:{{{app}}}:out+:2@0") == 1
        # Both read only where the second one puts out, or over all of it.
        for entries in ([reader], [reader, late]):
            readers = [entry.block_id for entry in entries]
            assert batch(entries[-1]) == [seal_of("2@0", [there.block_id], readers)]


def test_a_full_redis_deletes_nothing_that_waits(redis_server: RedisUnderTest) -> None:
    """It refuses to note that a block is visible: then it must not delete what waited for that."""
    task = TaskId("2", 0, 1)
    block = JoinEntry(BlockId("2", 0, 1, 0), "1#0", None, {"2@0": positions(0, 9)})
    with redis_server.client() as client:
        app = f"app-{next(_apps)}"

        def state() -> RedisState:
            return RedisState(client, app, SideCache(0))

        waits = state()
        assert links_of(waits, [(task, block)]).visible == []
        waits.make_visible()
        waits.finish()
        refused = state()
        assert links_of(refused, [task]).visible == [block.block_id]
        before = client.config_get("maxmemory")["maxmemory"]
        client.config_set("maxmemory", "1mb")
        try:
            with pytest.raises(OutOfMemoryError):
                refused.make_visible()
        finally:
            client.config_set("maxmemory", before)
        again = state()
        assert links_of(again, [task]).visible == [block.block_id]
        again.make_visible()
        again.finish()
        assert all(client.ttl(key) > 0 for key in client.keys(f"*{app}*"))
        assert links_of(state(), [task]).visible == []
