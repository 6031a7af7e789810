"""Lineage through a real Kafka: what is sent, what waits in the spool when it can't be, and `lineage send`."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lineage.stack.ports import LOOPBACK, free_ports
from lineage_core.contract.block_header import BlockHeader
from lineage_core.contract.message import Commit, dump_message, parse_message
from lineage_core.contract.verdict import StoreCounts, Verdict, judge
from lineage_emitter import LineageApi
from lineage_emitter.dispatch.sending import send_all
from lineage_emitter.errors import DeliveryError
from lineage_emitter.settings import read_settings
from lineage_kafka.topics import RECORD_BYTES_MAX, Topics
from lineage_store.spool.reader import record_batches_of
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.drained import Drained, as_spool, drain
from tests.support.job_runs import environment
from tests.support.servers import KafkaUnderTest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

TASKS = 3
ROWS = 5_000
TIMEOUT_S = 2.0


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LINEAGE_")]:
        monkeypatch.delenv(name)


class Application:
    """A program that tells its lineage by the API, to Kafka unless ``settings`` say otherwise."""

    def __init__(self, folder: Path, bootstrap: str, topics: Topics, **settings: Any) -> None:
        self.spool = folder / "spool"
        self.settings: dict[str, Any] = {
            "dispatcher": "kafka",
            "kafka": bootstrap,
            "topic_prefix": topics.prefix,
            "spool": str(self.spool),
            "kafka_timeout_s": TIMEOUT_S,
            "kafka_retry_s": 300.0,
            **settings,
        }
        self.api = LineageApi("program", app="app-1", **self.settings)

    def register(self) -> None:
        self.api.register("read", "in.txt", kind="source")
        self.api.register("write", "out", kind="sink")
        self.api.link("read", "write")

    def task(self, partition: int, rows: int = ROWS) -> None:
        """Row i of the output from the rows i and 2 i + 1000 of the input."""
        with self.api.task("write", partition) as task:
            self._rows(task, partition, rows)

    def _rows(self, task: Any, partition: int, rows: int = ROWS) -> None:
        out = np.arange(rows, dtype=np.uint64)
        first = np.stack((out, out * np.uint64(2) + np.uint64(100_000)), axis=1).reshape(-1)
        ptr = np.arange(0, 2 * rows + 1, 2, dtype=np.int64)
        task.capture_columns(f"read#{partition}", first, f"write#{partition}", out, in_ptr=ptr)

    def whole(self) -> None:
        """All of a program, from register to close."""
        self.register()
        for partition in range(TASKS):
            self.task(partition)
        self.api.close()

    def waits(self) -> list[str]:
        """Files in the spool."""
        return sorted(path.name for path in self.spool.rglob("*") if path.is_file())

    def send(self) -> Any:
        """``lineage send`` within this process."""
        return send_all(read_settings(**self.settings), self.spool)


def nobody() -> str:
    """An address where nobody answers."""
    (port,) = free_ports(1)
    return f"{LOOPBACK}:{port}"


def judged(drained: Drained, folder: Path) -> Verdict:
    """The embedded default's verdict on what arrived."""
    with closing(SqliteStore(folder / "lineage.db")) as store:
        ingest_all(store, as_spool(drained, folder / "arrived"))
        (app,) = drained.apps
        return judge(store.messages(app), store.counts(app), now=time.time())


def messages_of(drained: Drained) -> list[dict[str, Any]]:
    """What was said, without times and places; each message once."""
    dropped = {"file", "started_at", "ended_at", "at", "spooled", "spooled_reason", "argv", "cwd"}
    found = {
        json.dumps({key: one[key] for key in sorted(one.keys() - dropped)})
        for one in drained.messages
    }
    return [json.loads(text) for text in sorted(found)]


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, bytes]:
    """The frames that the same program leaves in the spool of the embedded default, by block."""
    folder = tmp_path / "embedded"
    application = Application(
        folder, "", Topics(), dispatcher="spool", store=f"sqlite:///{folder}/l.db", link=False
    )
    application.whole()
    found = {}
    for path in application.spool.rglob("*.lmf"):
        for frame in record_batches_of(path):
            header = BlockHeader.from_json(frame.header)  # type: ignore[union-attr]
            with path.open("rb") as file:
                file.seek(frame.offset)  # type: ignore[union-attr]
                found[str(header.block_id)] = file.read(frame.stop - frame.offset)  # type: ignore[union-attr]
    assert len(found) == TASKS
    return found


def frames_by_block(drained: Drained) -> dict[str, bytes]:
    found = {}
    for (_, block), versions in drained.frames.items():
        (found[block],) = versions
    return found


@pytest.fixture
def application(
    kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path
) -> Iterator[Application]:
    made = Application(tmp_path, kafka.bootstrap, kafka_topics)
    yield made
    made.api.close()


def test_the_same_frames_and_messages_as_in_the_spool(
    application: Application,
    kafka: KafkaUnderTest,
    kafka_topics: Topics,
    tmp_path: Path,
    expected: dict[str, bytes],
) -> None:
    application.whole()
    assert application.waits() == []
    arrived = drain(kafka.bootstrap, kafka_topics)
    assert frames_by_block(arrived) == expected
    once = dict.fromkeys(("begin", "link", "job", "end"), 1)
    assert arrived.records == once | {"register": 2, "frame": TASKS, "commit": TASKS}
    assert all(commit["spooled"] == 0 and not commit["file"] for commit in arrived.commits())
    verdict = judged(arrived, tmp_path)
    assert verdict.complete, verdict.reasons
    assert verdict.flows == TASKS * ROWS


@pytest.mark.long
def test_a_failed_task_is_told_and_its_blocks_count_for_nothing(
    application: Application, kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path
) -> None:
    application.register()
    task = application.api.task("write", 0)
    application._rows(task, 0)
    task.fail("it broke")
    application.task(0)
    application.api.close()
    arrived = drain(kafka.bootstrap, kafka_topics)
    assert arrived.records["fail"] == 1
    verdict = judged(arrived, tmp_path)
    assert verdict.complete, verdict.reasons
    assert verdict.flows == ROWS


# -- Kafka away ----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_frozen_kafka_costs_one_timeout_and_lineage_send_delivers_the_rest(
    application: Application,
    kafka: KafkaUnderTest,
    kafka_topics: Topics,
    tmp_path: Path,
    expected: dict[str, bytes],
) -> None:
    application.register()
    application.task(0)
    with kafka.paused():
        begun = time.monotonic()
        application.task(1)
        application.task(2)
        application.api.close()
        took_s = time.monotonic() - begun
    # One for the blocks, one for the messages; all that follows goes to the spool at once.
    assert took_s < 2 * TIMEOUT_S + 3
    assert application.waits() == ["driver.jsonl", "write-1-0.lmf", "write-2-0.lmf"]

    reports = application.send()
    assert [(report.blocks, report.busy, report.problems) for report in reports] == [(2, 0, {})]
    assert not application.spool.exists() or not any(application.spool.iterdir())
    arrived = drain(kafka.bootstrap, kafka_topics)
    assert frames_by_block(arrived) == expected
    spooled = [commit for commit in arrived.commits() if commit["spooled"]]
    assert len({commit["partition"] for commit in spooled}) == 2
    for commit in spooled:
        assert commit["file"] == (
            f"{socket.gethostname()}:{application.spool}/app-1/blocks/write-{commit['partition']}-0.lmf"
        )
    verdict = judged(arrived, tmp_path)
    assert verdict.complete, verdict.reasons


@pytest.mark.long
def test_a_verdict_names_where_blocks_wait_until_they_have_come(
    application: Application, kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path
) -> None:
    application.register()
    application.api.dispatcher.sync()
    with kafka.down():
        application.task(0)
        application.api.close()
    arrived = drain(kafka.bootstrap, kafka_topics)
    assert set(arrived.records) == {"begin", "register", "link"}
    # Of the rest first the messages, then the block.
    blocks = application.spool / "app-1" / "blocks"
    blocks.rename(tmp_path / "blocks")
    application.send()
    arrived = drain(kafka.bootstrap, kafka_topics)
    assert "frame" not in arrived.records

    parsed = [parse_message(json.dumps(one)) for one in arrived.messages]
    counts = StoreCounts(received=0, unlinked=0, unmatched=0, flows=0)
    verdict = judge(parsed, counts, now=time.time())
    place = f"{socket.gethostname()}:{application.spool}"
    (reason,) = [one for one in verdict.reasons if "spool" in one]
    assert reason.startswith(f"1 blocks wait in the spool at {place} (")
    assert reason.endswith("): lineage send")
    assert verdict.final
    assert not verdict.complete
    counts = StoreCounts(received=1, unlinked=0, unmatched=0, flows=ROWS)
    verdict = judge(parsed, counts, now=time.time())
    assert verdict.complete, verdict.reasons
    (tmp_path / "blocks").rename(_made(blocks))
    application.send()
    arrived = drain(kafka.bootstrap, kafka_topics)
    assert arrived.records["frame"] == 1
    verdict = judged(arrived, tmp_path)
    assert verdict.complete, verdict.reasons


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.long
def test_no_kafka_at_all_costs_one_timeout_and_loses_nothing(
    kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    begun = time.monotonic()
    application = Application(tmp_path, nobody(), kafka_topics)
    application.whole()
    assert time.monotonic() - begun < TIMEOUT_S + 3
    waiting = ["driver.jsonl", *(f"write-{number}-0.lmf" for number in range(TASKS))]
    assert application.waits() == waiting
    with pytest.raises(DeliveryError):
        application.send()
    assert application.waits() == waiting

    application.settings["kafka"] = kafka.bootstrap
    application.send()
    assert application.waits() == []
    assert frames_by_block(drain(kafka.bootstrap, kafka_topics)) == expected


@pytest.mark.long
def test_on_error_fail_makes_it_an_error(
    kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path
) -> None:
    application = Application(tmp_path, kafka.bootstrap, kafka_topics, on_error="fail")
    application.register()
    with kafka.paused():
        with pytest.raises(DeliveryError, match="blocks could not be sent"):
            application.task(0)
        with pytest.raises(DeliveryError):
            application.api.close()
    with pytest.raises(DeliveryError):
        Application(tmp_path, nobody(), kafka_topics, on_error="fail")


def test_a_kafka_that_comes_back_gets_what_waited_then_the_rest(
    kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    application = Application(tmp_path, kafka.bootstrap, kafka_topics, kafka_retry_s=0.0)
    application.register()
    with kafka.down():
        application.task(0)
        application.api.dispatcher.sync()
        assert application.waits() == ["driver.jsonl", "write-0-0.lmf"]
    application.task(1)
    application.task(2)
    application.api.close()
    assert application.waits() == []
    arrived = drain(kafka.bootstrap, kafka_topics)
    assert frames_by_block(arrived) == expected
    verdict = judged(arrived, tmp_path)
    assert verdict.complete, verdict.reasons


# -- limits --------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_topic_with_a_small_limit(
    kafka: KafkaUnderTest,
    kafka_topics: Topics,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    set_limit(kafka, kafka_topics.flow, 3_000)
    application = Application(tmp_path, kafka.bootstrap, kafka_topics)
    assert f"set its max.message.bytes to {RECORD_BYTES_MAX}" in caplog.text
    application.register()
    application.task(0)
    application.task(1, rows=10)
    application.api.close()
    assert application.waits() == ["write-0-0.lmf"]
    first = drain(kafka.bootstrap, kafka_topics)
    assert first.records["frame"] == 1
    (commit,) = [commit for commit in first.commits() if commit["spooled"]]
    assert "max.message.bytes" in commit["spooled_reason"]
    verdict = judged(first, tmp_path)
    assert any("max.message.bytes" in reason for reason in verdict.reasons)

    (report,) = application.send()
    assert list(report.problems) == ["write-0-0.lmf"]
    assert application.waits() == ["write-0-0.lmf"]
    set_limit(kafka, kafka_topics.flow, RECORD_BYTES_MAX)
    (report,) = application.send()
    assert not report.problems
    assert application.waits() == []
    (tmp_path / "again").mkdir()
    verdict = judged(drain(kafka.bootstrap, kafka_topics), tmp_path / "again")
    assert verdict.complete, verdict.reasons


def set_limit(kafka: KafkaUnderTest, topic: str, limit: int) -> None:
    from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
    from confluent_kafka.admin._resource import ResourceType

    entry = ConfigEntry(
        "max.message.bytes", str(limit), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = kafka.admin()
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()
    deadline = time.monotonic() + 30
    while True:  # a broker's change of settings is not there at once
        (asked,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        if asked.result()["max.message.bytes"].value == str(limit):
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.long
def test_blocks_beyond_the_memory_wait_for_acknowledgments(
    kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path
) -> None:
    application = Application(tmp_path, kafka.bootstrap, kafka_topics, memory_mb=1)
    application.register()
    rows, blocks = 60_000, 12
    random = np.random.default_rng(3)
    with application.api.task("write", 0) as task:
        for number in range(blocks):
            out = np.arange(number * rows, (number + 1) * rows, dtype=np.uint64)
            first = random.integers(0, 2**60, rows, dtype=np.uint64)
            task.capture_columns("read#0", first, "write#0", out)
            waiting = task._out._waiting_bytes  # type: ignore[attr-defined]
            assert waiting <= task._out._waiting_bytes_max  # type: ignore[attr-defined]
    application.api.close()
    arrived = drain(kafka.bootstrap, kafka_topics)
    sizes = [len(value) for versions in arrived.frames.values() for value in versions]
    assert len(sizes) == blocks
    assert sum(sizes) > 4 << 20
    assert application.waits() == []


def test_a_message_larger_than_a_record_travels_compressed(
    application: Application, kafka: KafkaUnderTest, kafka_topics: Topics
) -> None:
    newlines = tuple((row, 1 + row % 3) for row in range(900_000))
    large = Commit(app="app-1", node="write", partition=0, attempt=0, newlines=newlines)
    assert len(dump_message(large)) > RECORD_BYTES_MAX
    application.api.send(large)
    application.api.close()
    assert application.waits() == []
    (commit,) = drain(kafka.bootstrap, kafka_topics).commits()
    assert len(commit["newlines"]) == len(newlines)


def test_missing_topics_are_made(kafka: KafkaUnderTest, tmp_path: Path) -> None:
    topics = Topics("made-")
    try:
        application = Application(tmp_path, kafka.bootstrap, topics)
        application.whole()
        assert application.waits() == []
        assert drain(kafka.bootstrap, topics).records["frame"] == TASKS
    finally:
        kafka.delete_topics("made-")


# -- lineage send --------------------------------------------------------------------------------


@pytest.fixture
def waiting(kafka_topics: Topics, tmp_path: Path) -> Application:
    """An application all of which waits in the spool."""
    application = Application(tmp_path, nobody(), kafka_topics, kafka_timeout_s=0.5)
    application.whole()
    return application


def command(waiting: Application, kafka: KafkaUnderTest) -> subprocess.Popen[str]:
    settings = {
        "LINEAGE_KAFKA": kafka.bootstrap,
        "LINEAGE_TOPIC_PREFIX": waiting.settings["topic_prefix"],
    }
    return subprocess.Popen(
        [
            *(sys.executable, "-c", "from lineage.main import app; app()", "send"),
            *("--spool", str(waiting.spool), "--json"),
        ],
        env=environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
def test_the_command_sends_once_however_many_run_at_once(
    waiting: Application, kafka: KafkaUnderTest, kafka_topics: Topics, expected: dict[str, bytes]
) -> None:
    running = [command(waiting, kafka) for _ in range(3)]
    sent = 0
    for one in running:
        out, err = one.communicate(timeout=60)
        assert one.returncode == 0, err
        sent += sum(report["blocks"] for report in json.loads(out))
    assert sent == TASKS
    assert waiting.waits() == []
    arrived = drain(kafka.bootstrap, kafka_topics)
    assert frames_by_block(arrived) == expected
    assert arrived.records["frame"] == TASKS
    assert arrived.records["end"] == 1


@pytest.mark.long
def test_killed_while_kafka_hangs_the_command_can_be_repeated(
    waiting: Application,
    kafka: KafkaUnderTest,
    kafka_topics: Topics,
    tmp_path: Path,
    expected: dict[str, bytes],
) -> None:
    before = waiting.waits()
    with kafka.paused():
        running = command(waiting, kafka)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(timeout=2)
        running.send_signal(signal.SIGKILL)
        running.communicate()
    assert waiting.waits() == before
    running = command(waiting, kafka)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert waiting.waits() == []
    arrived = drain(kafka.bootstrap, kafka_topics)
    assert frames_by_block(arrived) == expected
    verdict = judged(arrived, tmp_path)
    assert verdict.complete, verdict.reasons


@pytest.mark.long
def test_a_file_that_is_being_written_waits_for_its_writer(
    waiting: Application, kafka: KafkaUnderTest
) -> None:
    waiting.settings["kafka"] = kafka.bootstrap
    busy = waiting.spool / "app-1" / "blocks" / "write-1-0.lmf"
    with busy.open("r+b") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        (report,) = waiting.send()
        assert (report.blocks, report.busy) == (TASKS - 1, 1)
        assert waiting.waits() == ["write-1-0.lmf"]
    (report,) = waiting.send()
    assert (report.blocks, report.busy) == (1, 0)
    assert waiting.waits() == []


@pytest.mark.long
def test_damage_is_named_and_stays_while_the_rest_is_sent(
    waiting: Application, kafka: KafkaUnderTest, kafka_topics: Topics
) -> None:
    waiting.settings["kafka"] = kafka.bootstrap
    blocks = waiting.spool / "app-1" / "blocks"
    damaged = bytearray((blocks / "write-1-0.lmf").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (blocks / "write-1-0.lmf").write_bytes(damaged)
    cut = (blocks / "write-2-0.lmf").read_bytes()
    (blocks / "write-2-0.lmf").write_bytes(cut[:-5])
    with (waiting.spool / "app-1" / "driver.jsonl").open("a") as file:
        file.write("no message\n")
    (report,) = waiting.send()
    assert report.problems.keys() >= {"write-1-0.lmf"}
    assert len(report.problems) == 2
    assert waiting.waits() == ["driver.jsonl", "write-1-0.lmf"]
    assert drain(kafka.bootstrap, kafka_topics).records["frame"] == 1
