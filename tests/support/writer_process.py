"""The writer as a process of its own, and what it reads from and writes to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from lineage.stack.ports import free_ports
from lineage_core.contract.dead_letter import DeadRecord, read_dead_record
from lineage_kafka.topics import RECORD_BYTES_MAX, Topics
from tests.support.probing import asked
from tests.support.servers import KafkaUnderTest

LIMIT_S = 120.0


def wait_until(condition: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    """Poll until a condition holds; fails with ``what`` was waited for."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class HasSettings(Protocol):
    """What says by settings where it is."""

    @property
    def settings(self) -> dict[str, str]: ...


class WriterProcess:
    """``python -m lineage_writer``: start it, ask it, kill it, start it again."""

    def __init__(
        self,
        kafka: KafkaUnderTest,
        store: HasSettings,
        topics: Topics,
        folder: Path,
        openlineage_file: Path | None = None,
        **more: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self._log = folder / "writer.log"
        self._process: subprocess.Popen[bytes] | None = None
        own = {
            "LINEAGE_TOPIC_PREFIX": topics.prefix,
            "LINEAGE_WRITER_GROUP": f"{topics.prefix}writer",
            "LINEAGE_WRITER_HTTP_PORT": str(self.port),
            "LINEAGE_OPENLINEAGE_FILE": str(openlineage_file or ""),
        }
        given = {f"LINEAGE_WRITER_{name.upper()}": str(value) for name, value in more.items()}
        plain = {name: text for name, text in os.environ.items() if not name.startswith("LINEAGE_")}
        self._environment = plain | kafka.settings | store.settings | own | given

    def start(self) -> None:
        """Start it, or again after a kill."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lineage_writer"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """End it as kill -9 does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> tuple[int, float]:
        """SIGTERM: the exit code, and the seconds it took."""
        assert self._process is not None
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60), time.monotonic() - began

    def close(self) -> None:
        """Whatever state it is in: it is gone."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def events(self) -> list[dict[str, Any]]:
        """Its log, without a last line that is not whole."""
        lines = self._log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def log_text(self) -> str:
        return self._log.read_text()

    def get(self, path: str) -> tuple[int, str]:
        """Status (0: nobody answers) and body."""
        return asked(self.port, path)

    def is_ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def wait_ready(self) -> None:
        wait_until(self.is_ready, "the writer never became ready: " + self.log_text()[-3000:])

    def metric(self, name: str, labels: str = "") -> float:
        """A sample of /metrics; 0 where there is none."""
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(f"lineage_writer_{name}{labels} "):
                return float(line.rpartition(" ")[2])
        return 0.0


def send(
    kafka: KafkaUnderTest,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes | None]],
    partition: Callable[[int], int] = lambda number: 0,
    headers: Sequence[tuple[str, bytes]] = (),
) -> None:
    """Produce (key, value) records and wait for all acknowledgements."""
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "enable.idempotence": True,
            "message.max.bytes": 2 * RECORD_BYTES_MAX,
            "linger.ms": 5,
        }
    )
    failures: list[str] = []
    for number, (key, value) in enumerate(records):
        producer.produce(
            topic,
            value,
            key,
            partition(number),
            headers=list(headers),
            on_delivery=lambda error, _: failures.append(str(error)) if error else None,
        )
        producer.poll(0)
    assert producer.flush(90) == 0
    assert failures == []


def ends(kafka: KafkaUnderTest, topic: str, partitions: int) -> list[int]:
    """The next offset of each partition."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "test"})
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=30)[1]
            for one in range(partitions)
        ]
    finally:
        consumer.close()


def dead_letters(kafka: KafkaUnderTest, topics: Topics) -> list[tuple[DeadRecord, bytes | None]]:
    """All of the dead-letter topic, which has one partition, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "test",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 2 * RECORD_BYTES_MAX,
        }
    )
    try:
        place = TopicPartition(topics.dead_letter, 0, 0)
        low, high = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([place])
        found = consumer.consume(high - low, timeout=60) if high > low else []
        assert [one.error() for one in found] == [None] * (high - low)
        return [(_read(one), one.value()) for one in found]
    finally:
        consumer.close()


def _read(found: Message) -> DeadRecord:
    headers = found.headers()
    assert isinstance(headers, list)
    return read_dead_record(headers, found.value())
