"""Kafka: one broker that is its own controller (KRaft), and the topics of the pipeline."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lineage.stack.downloads import jars
from lineage.stack.errors import StackError, StartError
from lineage.stack.ports import LOOPBACK
from lineage.stack.programs import java
from lineage.stack.server import NotReady, Say, Server, silent
from lineage_kafka.topics import RECORD_BYTES_MAX

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

CHECK_LIMIT_S = 5.0
FORMAT_LIMIT_S = 120

PROPERTIES = """\
# Written by `lineage stack up` at each start.
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
# A topic whose name is mistyped is an error, not a new topic.
auto.create.topics.enable=false
message.max.bytes={message_bytes}
replica.fetch.max.bytes={message_bytes}
# One broker: nothing to replicate to, and few partitions of its own topics start faster than 50.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
# After a crash the broker is let in again when its old session is over (9 s by default).
broker.heartbeat.interval.ms=1000
broker.session.timeout.ms=5000
# 128 MiB by default, a quarter of the heap.
log.cleaner.dedupe.buffer.size=16777216
"""
LOGGING = """\
log4j.rootLogger=WARN, stdout
log4j.logger.kafka.server.KafkaRaftServer=INFO
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n
"""


class Kafka(Server):
    """A broker on loopback, without authentication.

    Args:
        folder: for its data, configuration and log.
        port: for clients.
        controller_port: for itself.
        heap: as java's -Xmx takes it.
        options: further ones of its JVMs.
        topics: names and partitions of topics that exist once it is ready.
    """

    def __init__(
        self,
        folder: Path,
        port: int,
        controller_port: int,
        *,
        heap: str = "512m",
        options: Sequence[str] = (),
        topics: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__("kafka", folder, port)
        self.controller_port = controller_port
        self.heap = heap
        self.options = tuple(options)
        self.topics = dict(topics or {})

    @property
    def ports(self) -> Mapping[str, int]:
        return {"kafka": self.port, "kafka_controller": self.controller_port}

    @property
    def bootstrap(self) -> str:
        """Where clients connect first, as host:port."""
        return f"{LOOPBACK}:{self.port}"

    def prepare(self, say: Say = silent) -> None:
        jars("kafka", say)
        for folder in (self.folder, self._data, self._temporary):
            folder.mkdir(parents=True, exist_ok=True)
        properties = PROPERTIES.format(
            host=LOOPBACK,
            port=self.port,
            controller=self.controller_port,
            data=self._data,
            message_bytes=RECORD_BYTES_MAX,
        )
        self._properties.write_text(properties, encoding="utf-8")
        (self.folder / "log4j.properties").write_text(LOGGING, encoding="utf-8")
        if not (self._data / "meta.properties").exists():
            self._format()

    def command(self) -> list[str]:
        return self._java(f"-Xmx{self.heap}", *self.options, "kafka.Kafka", str(self._properties))

    def check(self) -> None:
        from confluent_kafka import KafkaException

        try:
            with self._admin() as admin:
                admin.list_topics(timeout=CHECK_LIMIT_S)
        except KafkaException as error:
            raise NotReady(f"no metadata from {self.bootstrap}: {error}") from None

    def after_start(self) -> None:
        if self.topics:
            with self._admin() as admin:
                create_topics(admin, self.topics)

    def settings(self) -> dict[str, str]:
        return {"LINEAGE_DISPATCHER": "kafka", "LINEAGE_KAFKA": self.bootstrap}

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        # Lines of librdkafka about a broker that is not up yet would only confuse.
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _temporary(self) -> Path:
        """Native libraries are unpacked here: in /tmp they would stay when Kafka is killed."""
        return self.folder / "tmp"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def _java(self, *words: str) -> list[str]:
        return [
            str(java()),
            *("-cp", f"{jars('kafka')}/*"),
            f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}",
            # Another logging library that comes along complains of having no configuration.
            "-Dlog4j2.StatusLogger.level=OFF",
            f"-Djava.io.tmpdir={self._temporary}",
            f"-XX:ErrorFile={self.folder / 'crash.log'}",
            "-XX:-UsePerfData",
            *words,
        ]

    def _format(self) -> None:
        """Give the data folder its cluster id; a broker refuses an unformatted one."""
        # Kafka's own form of a UUID, of which it refuses those that begin with a dash.
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        words = ("format", "-t", f"L{cluster[1:]}", "-c", str(self._properties))
        done = subprocess.run(
            self._java("-Xmx128m", *self.options, "kafka.tools.StorageTool", *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FORMAT_LIMIT_S,
            check=False,
        )
        if done.returncode:
            raise StartError(f"kafka: its folder can't be formatted: {done.stderr or done.stdout}")


def create_topics(admin: AdminClient, topics: Mapping[str, int]) -> None:
    """Create the topics that do not exist yet, and wait until they do.

    Raises:
        StackError: the broker refused one.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic

    config = {"max.message.bytes": str(RECORD_BYTES_MAX)}
    topics_to_create = [
        NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        for name, partitions in topics.items()
    ]
    for name, creation in admin.create_topics(topics_to_create, operation_timeout=30).items():
        try:
            creation.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise StackError(f"kafka: topic {name} can't be created: {error}") from None
