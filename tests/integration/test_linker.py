"""The linker as a process, with real Kafka and Redis."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from lineage.stack.ports import free_ports
from lineage_core.codec.record_batch import pack_record_batch, read_record_batches
from lineage_core.contract.dead_letter import read_dead_record
from lineage_core.contract.message import DeadLetter, End, parse_message
from lineage_kafka.topics import Topics
from tests.support.linker_job import Job, make_job
from tests.support.linker_memory import MemoryLinker
from tests.support.linker_worker import Pipeline, Worker, until
from tests.support.servers import KafkaUnderTest, RedisUnderTest

pytestmark = pytest.mark.integration


@pytest.fixture
def pipeline(
    kafka: KafkaUnderTest, redis_server: RedisUnderTest, kafka_topics: Topics
) -> Iterator[Pipeline]:
    redis_server.clear()
    found = Pipeline(kafka, redis_server, kafka_topics)
    yield found
    found.close()


@contextmanager
def worker(pipeline: Pipeline, folder: Path, **settings: str) -> Iterator[Worker]:
    one = Worker({**pipeline.settings, **settings}, folder)
    try:
        yield one.ready()
    finally:
        one.kill()


def arrives(pipeline: Pipeline, expected: MemoryLinker) -> None:
    """Wait until all that is expected is there."""

    def same() -> bool:
        return pipeline.polled() and pipeline.received.linked() == expected.received.linked()

    until(same, "the same blocks and edges as in one process")


def test_a_job_is_linked_and_its_state_expires(pipeline: Pipeline, tmp_path: Path) -> None:
    job, expected = make_job("app-1", 1), MemoryLinker()
    expected.batch(job.values())
    with worker(pipeline, tmp_path, LINEAGE_LINKER_COMPLETE_S="1") as linker:
        pipeline.send(job)
        arrives(pipeline, expected)
        topics = pipeline.topics
        until(lambda: pipeline.committed(topics.flow) == len(job.flow), "all flows are acked")
        until(lambda: pipeline.committed(topics.node) == len(job.node), "all nodes are acked")
        with pipeline.redis.client() as redis:
            until(lambda: not redis.keys("lm:{app-1}:*"), "the state has expired")
        messages = pipeline.received.apps["app-1"].messages
        assert sorted(map(str, messages)) == sorted(map(str, expected.seen.messages))
        assert linker.metric("lineage_linker_messages_total") == len(job.values())
        assert linker.metric("lineage_linker_edges_total") == 133
        assert linker.metric("lineage_linker_complete_applications_total") == 1
        until(lambda: linker.metric("lineage_linker_lag_messages") == 0, "no lag")
        assert linker.stop() < 10
        assert linker.process.returncode == 0
        # A slow broker is worth a warning, and on a busy machine every broker is slow at times.
    assert [e for e in linker.events() if e["level"] not in {"info", "warning"}] == []


@pytest.mark.long
def test_what_comes_again_after_expiry_changes_nothing(pipeline: Pipeline, tmp_path: Path) -> None:
    job, expected = make_job("app-1", 2), MemoryLinker()
    expected.batch(job.values())
    with worker(pipeline, tmp_path, LINEAGE_LINKER_COMPLETE_S="1"):
        pipeline.send(job)
        arrives(pipeline, expected)
        with pipeline.redis.client() as redis:
            until(lambda: not redis.keys("lm:{app-1}:*"), "the state has expired")
            pipeline.flow(job.app, job.flow[3:7])
            sent = len(job.flow) + 4
            until(lambda: pipeline.committed(pipeline.topics.flow) == sent, "acked again")
        arrives(pipeline, expected)


def test_records_that_are_none(pipeline: Pipeline, tmp_path: Path) -> None:
    job, expected = make_job("app-1", 3), MemoryLinker()
    expected.batch(job.values())
    frame = job.flow[0][1]
    (found,) = read_record_batches(io.BytesIO(frame))
    wrong_rows = pack_record_batch(found.header.replace(b'"rows":', b'"rows":1'), found.payload)
    bad = [
        b"",
        b"\x00" * 100,
        frame[:-7],
        frame + frame,
        wrong_rows,
        b'{"v":1,"type":"what","app":"app-1"}',
        b'{"v":9,"type":"begin","app":"app-1"}',
        b"{" * 100_000,
    ]
    with worker(pipeline, tmp_path) as linker:
        pipeline.flow("app-1", [(0, value) for value in bad])
        pipeline.send(job)
        arrives(pipeline, expected)
        until(lambda: pipeline.polled() and len(pipeline.dead) == len(bad), "dead letters")
        letters = [read_dead_record(one.headers(), one.value()) for one in pipeline.dead]
        by_value = {one.value() or b"": one for one in pipeline.dead}
        assert set(by_value) == set(bad)
        assert {letter.service for letter in letters} == {"linker"}
        assert [letter.app for letter in letters].count("app-1") == len(bad) - 2
        assert all(letter.reason for letter in letters)
        told = [
            message
            for message in pipeline.received.apps["app-1"].messages
            if isinstance(message, DeadLetter)
        ]
        assert {one.place for one in told} == {
            str(letter.place) for letter in letters if letter.app
        }
        assert linker.metric("lineage_linker_dead_letters_total") == len(bad)


@pytest.mark.long
def test_a_topic_that_was_made_anew_is_read_from_its_beginning(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    """What was committed is of a longer log than the one that is there now."""
    job, expected = make_job("app-1", 9), MemoryLinker()
    expected.batch(job.values())
    pipeline.commit(pipeline.topics.flow, 1_000)
    pipeline.commit(pipeline.topics.node, 2)
    with worker(pipeline, tmp_path) as linker:
        pipeline.send(job)
        arrives(pipeline, expected)
        until(lambda: pipeline.committed(pipeline.topics.flow) == len(job.flow), "all are acked")
    told = [event for event in linker.events() if event["event"] == "log_is_shorter"]
    read = (pipeline.topics.flow, pipeline.topics.node)
    assert len(told) == sum(pipeline.partitions[name] for name in read)


def test_alive_without_servers(tmp_path: Path) -> None:
    kafka_port, redis_port = free_ports(2)
    linker = Worker(
        {
            "LINEAGE_KAFKA": f"127.0.0.1:{kafka_port}",
            "LINEAGE_REDIS": f"redis://127.0.0.1:{redis_port}/0",
        },
        tmp_path,
    )
    try:
        until(lambda: linker.alive() and linker.get("/healthz")[0] == 200, "healthy")
        status, body = linker.get("/readyz")
        assert status == 503
        assert "kafka" in body
        assert "redis" in body
        assert linker.get("/metrics")[0] == 200
        assert linker.stop() < 10
        assert linker.process.returncode == 0
    finally:
        linker.kill()


def test_settings_that_can_not_be_used(tmp_path: Path) -> None:
    for settings, said in (
        ({"LINEAGE_KAFKA": ""}, "LINEAGE_KAFKA is not set"),
        ({"LINEAGE_KAFKA": "k:1", "LINEAGE_REDIS": "redis://u:hush@h:1/0"}, "LINEAGE_REDIS"),
        (
            {
                "LINEAGE_KAFKA": "k:1",
                "LINEAGE_REDIS": "redis://h:1/0",
                "LINEAGE_REDIS_PASSWORD_FILE": "/no/such/file",
            },
            "/no/such/file",
        ),
    ):
        linker = Worker(settings, tmp_path)
        assert linker.process.wait(timeout=60) == 2
        assert said in linker.tail()
        assert "hush" not in linker.tail()


@pytest.mark.long
def test_a_stop_in_the_middle_loses_nothing(pipeline: Pipeline, tmp_path: Path) -> None:
    jobs = [make_job(f"app-{number}", number, maps=8, reduces=8) for number in range(8)]
    expected = MemoryLinker()
    for job in jobs:
        expected.batch(job.values())
    sending = threading.Thread(target=lambda: pipeline.send(*jobs))
    sending.start()
    for _ in range(2):
        with worker(pipeline, tmp_path, LINEAGE_LINKER_BATCH="5") as linker:
            until(partial(is_at_work, linker), "at work")
            assert linker.stop() < 10
            assert linker.process.returncode == 0
    sending.join()
    with worker(pipeline, tmp_path):
        arrives(pipeline, expected)


def is_at_work(linker: Worker) -> bool:
    return linker.metric("lineage_linker_messages_total") > 20


def changed_linker(folder: Path, source: str) -> tuple[Job, MemoryLinker, str]:
    """A job, what it is linked to, and a program in ``folder`` that runs a linker with a fault."""
    job, expected = make_job("app-1", 4), MemoryLinker()
    expected.batch(job.values())
    program = folder / "program.py"
    program.write_text(source)
    return job, expected, str(program)


BROKEN_ONCE = """
import sys
from pathlib import Path
from aiokafka.errors import KafkaConnectionError
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from lineage_linker.__main__ import main
from lineage_linker.batch import LinkBatch

broken = Path("broken")

async def commit(self, offsets):
    broken.touch()
    await self.crash(KafkaConnectionError("made up"))
    return False

def handle(self, record):
    broken.touch()
    raise RuntimeError("a bug")

if not broken.exists():
    if sys.argv[1] == "kafka":
        AIOKafkaConsumerThread._commit = commit
    else:
        LinkBatch.handle = handle
sys.exit(main())
"""


@pytest.mark.long
def test_begins_anew_when_the_client_of_kafka_gives_up(pipeline: Pipeline, tmp_path: Path) -> None:
    job, expected, program = changed_linker(tmp_path, BROKEN_ONCE)
    linker = Worker(pipeline.settings, tmp_path, program=(program, "kafka")).ready()
    try:
        pipeline.send(job)
        topic = pipeline.topics.flow
        until(lambda: pipeline.committed(topic) == len(job.flow), "acked by the next")
        arrives(pipeline, expected)
        assert (tmp_path / "broken").exists()
        assert linker.alive()
        assert [one["event"] for one in linker.events()].count("linker_started") == 2
    finally:
        linker.kill()


MISREADING_ONCE = """
import asyncio
import sys
from pathlib import Path
from faust.transport.consumer import Consumer
from lineage_linker.__main__ import main

broken = Path("broken")
original = Consumer._wait_next_records

async def once(self, timeout):
    records, active = await original(self, timeout)
    if records and not broken.exists():
        broken.touch()
        match sys.argv[1]:
            case "throws away":  # what it does around a rebalance; the flow is resumed after it
                self.flow_active = False
                asyncio.get_running_loop().call_later(0.5, self.resume_flow)
            case "skips":
                partition, found = next(iter(records.items()))
                records[partition] = found[1:]
            case "stalls":
                self.stop_flow()
    return records, active

Consumer._wait_next_records = once
sys.exit(main())
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "starts"),
    [
        ("throws away", 1),
        *(pytest.param(fault, 2, marks=pytest.mark.long) for fault in ("skips", "stalls")),
    ],
)
def test_what_faust_does_not_hand_over_is_read_again(
    pipeline: Pipeline, tmp_path: Path, fault: str, starts: int
) -> None:
    job, expected, program = changed_linker(tmp_path, MISREADING_ONCE)
    pipeline.send(job)
    settings = {**pipeline.settings, "LINEAGE_LINKER_STALL_S": "4"}
    linker = Worker(settings, tmp_path, program=(program, fault)).ready()
    try:
        arrives(pipeline, expected)
        assert (tmp_path / "broken").exists()
        begun = [one["event"] for one in linker.events()].count("linker_started")
        assert begun == starts, linker.tail()
    finally:
        linker.kill()


UNKNOWING_AT_FIRST = """
import sys
import threading
from pathlib import Path
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as Assignor
from lineage_linker.__main__ import main

knowing = Path("knowing")
original, assign = ClusterMetadata.partitions_for_topic, Assignor.assign

def partitions_for_topic(self, topic):
    return None if "lineage-" in topic and not knowing.exists() else original(self, topic)

def once(cls, *args):
    threading.Timer(1.0, knowing.touch).start()  # by then the group has settled without partitions
    return assign(*args)

ClusterMetadata.partitions_for_topic = partitions_for_topic
Assignor.assign = classmethod(once)
sys.exit(main())
"""


@pytest.mark.long
def test_partitions_that_nobody_was_given_are_given_out_again(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    job, expected, program = changed_linker(tmp_path, UNKNOWING_AT_FIRST)
    pipeline.send(job)
    linker = Worker(pipeline.settings, tmp_path, program=(program,))
    try:
        arrives(pipeline, expected)
        given = [
            one["partitions"] for one in linker.events() if one["event"] == "partitions_assigned"
        ]
        assert given[0] == []
        assert given[-1]
    finally:
        linker.kill()


@pytest.mark.long
def test_a_bug_ends_the_process_and_skips_nothing(pipeline: Pipeline, tmp_path: Path) -> None:
    job, expected, program = changed_linker(tmp_path, BROKEN_ONCE)
    linker = Worker(pipeline.settings, tmp_path, program=(program, "bug")).ready()
    pipeline.send(job)
    assert linker.process.wait(timeout=60) == 1
    assert "a bug" in linker.tail()
    assert pipeline.committed(pipeline.topics.flow) == 0
    linker = Worker(pipeline.settings, tmp_path, program=(program, "bug")).ready()
    try:
        arrives(pipeline, expected)
    finally:
        linker.kill()


def test_ends_are_told_whole() -> None:
    """What the expiry of state leans on."""
    job = make_job("app-1", 1)
    end = parse_message(job.node[-1])
    assert isinstance(end, End)
    assert end.totals.tasks == 8
