"""Writers that fill a lake are killed while they store: each record of Kafka is there once."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from os import kill
from pathlib import Path
from typing import Any

import pytest

from lineage_kafka.topics import Topics
from lineage_query.verdicts import verdict_of
from lineage_store.dump import dump_application
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.compacting import compact
from lineage_store.lake.store import LakeStore
from lineage_store.sqlite.store import SqliteStore
from tests.faults.test_pipeline_kills import MASTERS, prepare, truth
from tests.support.edge_log import disordered, word_count_log
from tests.support.lakes import LakeUnderTest, rows_stored
from tests.support.pipeline import pipeline
from tests.support.servers import KafkaUnderTest, RedisUnderTest
from tests.support.writer_process import WriterProcess, dead_letters, ends, send, wait_until

pytestmark = pytest.mark.faults

PARTITIONS = 4


@pytest.fixture
def writers(
    kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path
) -> Iterator[list[WriterProcess]]:
    """Two writers with small batches."""
    lake = LakeUnderTest(tmp_path / "lake")
    settings: dict[str, Any] = {"batch_rows": 5, "batch_wait_s": 0.0, "session_s": 6}
    made = [
        WriterProcess(kafka, lake, kafka_topics, tmp_path / f"writer-{at}", **settings)
        for at in range(2)
    ]
    yield made
    for writer in made:
        writer.close()


@pytest.mark.parametrize("kills", [1, pytest.param(100, marks=pytest.mark.long)])
def test_writers_that_are_killed_lose_and_repeat_nothing(
    kills: int,
    kafka: KafkaUnderTest,
    kafka_topics: Topics,
    writers: list[WriterProcess],
    tmp_path: Path,
) -> None:
    """Any order over all partitions, repetitions; each kill and start rebalances."""
    rng = random.Random(kills)
    logs = [word_count_log(f"app-{at}", at, maps=4, blocks=6) for at in range(2 + kills // 10)]
    records = [one for log in logs for one in disordered(log, kills)]
    rng.shuffle(records)
    for writer in writers:
        writer.start()
    wait_until((tmp_path / "lake" / "_delta_log").is_dir, "the lake is made")
    with LakeStore(LakeAddress(str(tmp_path / "lake"))) as lake:

        def offsets() -> list[int]:
            group = f"{kafka_topics.prefix}writer"
            return [lake.offset(group, kafka_topics.edge, at) or 0 for at in range(PARTITIONS)]

        part = len(records) // (kills + 1) + 1
        struck = 0
        for at in range(0, len(records), part):
            before = sum(offsets())
            send(
                kafka,
                kafka_topics.edge,
                records[at : at + part],
                lambda _: rng.randrange(PARTITIONS),
            )
            wait_until(lambda: sum(offsets()) > before, "something is stored")  # noqa: B023
            if struck == kills:
                continue
            time.sleep(rng.uniform(0, 0.1))
            writer = rng.choice(writers)
            writer.kill()
            writer.start()
            struck += 1
        assert struck == kills
        wanted = ends(kafka, kafka_topics.edge, PARTITIONS)
        wait_until(lambda: offsets() == wanted, f"{wanted} are to be stored")
        assert sum(wanted) == len(records)
        # As many rows as records: none was stored by two writers, or by one twice.
        messages = sum(value.startswith(b"{") for _, value in records)
        assert rows_stored(lake)["message"] == messages
        compact(lake)
        with SqliteStore(tmp_path / "expected.db") as expected:
            for log in logs:
                log.store(expected)
                wanted_lines = list(dump_application(expected, log.app))
                assert list(dump_application(lake, log.app)) == wanted_lines
                assert verdict_of(lake, log.app).complete
    assert dead_letters(kafka, kafka_topics) == []


@pytest.mark.long
def test_a_writer_that_slept_while_another_took_its_partitions_stores_nothing_twice(
    kafka: KafkaUnderTest,
    kafka_topics: Topics,
    writers: list[WriterProcess],
    tmp_path: Path,
) -> None:
    log = word_count_log("app-1", 1, maps=4, blocks=6)
    records = disordered(log, 1)
    first, second = writers
    first.start()
    first.wait_ready()
    send(kafka, kafka_topics.edge, records, lambda at: at % PARTITIONS)
    with LakeStore(LakeAddress(str(tmp_path / "lake"))) as lake:

        def stored() -> int:
            group = f"{kafka_topics.prefix}writer"
            offsets = (lake.offset(group, kafka_topics.edge, at) for at in range(PARTITIONS))
            return sum(offset or 0 for offset in offsets)

        wait_until(lambda: stored() > 0, "something is stored")
        # In the middle of a batch, most likely.
        kill(first.pid, signal.SIGSTOP)
        second.start()
        wait_until(lambda: stored() == len(records), "the other writer stores all")
        kill(first.pid, signal.SIGCONT)
        more = [(b"app-1", record) for record in log.records[:20]]
        send(kafka, kafka_topics.edge, more, lambda at: at % PARTITIONS)
        wait_until(lambda: stored() == len(records) + 20, "both go on")
        values = [value for _, value in (*records, *more)]
        assert rows_stored(lake)["message"] == sum(value.startswith(b"{") for value in values)
        with SqliteStore(tmp_path / "expected.db") as expected:
            log.store(expected)
            assert list(dump_application(lake, "app-1")) == list(
                dump_application(expected, "app-1")
            )


@pytest.mark.long
def test_a_job_is_traced_in_the_lake_that_kafka_fills(
    kafka: KafkaUnderTest, redis_server: RedisUnderTest, tmp_path: Path
) -> None:
    """From the job by the linker to the writer, which is killed in between."""
    folder = prepare(tmp_path / "job")
    # In the place of Neo4j: what says where it is.
    lake: Any = LakeUnderTest(tmp_path / "lake")
    with pipeline(tmp_path / "pipeline", kafka, redis_server, lake) as running:
        job = running.run(folder, "job.py", MASTERS["count"], "count", "out", "0", "0")
        _, writer = running.services
        writer.kill()
        writer.start()
        assert job.wait(240) == 0, (folder / "job.log").read_text()[-3000:]
        with running.store() as store:
            wait_until(lambda: len(store.application_ids()) == 1, "the application arrives")
            (app,) = store.application_ids()
        verdict = running.complete(app)
        assert (verdict.status, verdict.exact) == ("ok", True)
        assert running.traced(folder / "out", app) == truth()["count"]
