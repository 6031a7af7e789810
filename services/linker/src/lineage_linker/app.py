"""The linker as a Faust app: topics in, batches to :class:`lineage_linker.acks.Acks`, records out.

Faust 0.15.3 acks a message whose handler raised, and commits past one that is not acked; so nothing
is ever acked but by us, in order, and what can't go on ends the process (docs/adr/0006).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import faust
import mode
import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from faust.auth import SASLCredentials, SSLCredentials
from faust.exceptions import FaustError
from faust.transport.drivers.aiokafka import Consumer
from faust.types import TP, EventT
from faust.types.auth import CredentialsT

from lineage_core.contract.dead_letter import TopicPartitionOffset
from lineage_kafka.errors import RIGHTS, kafka_problem
from lineage_kafka.settings import METADATA_MS
from lineage_kafka.topics import RECORD_BYTES_MAX
from lineage_linker.acks import Acks
from lineage_linker.continuity import Continuity, Partition
from lineage_linker.errors import BrokerUnavailableError, RecordRefusedError
from lineage_linker.lag import Lag
from lineage_linker.records import Incoming, Layout, Outgoing
from lineage_linker.settings import LinkerSettings

log = structlog.get_logger(__name__)

ANSWER_S = 5.0
"""Metadata that takes longer is taken for absence."""
BUFFERED = 64
"""Records that are read ahead of a batch: they are counted, whatever their size."""


Locate = Callable[[int, Mapping[Partition, int | None]], Awaitable[Mapping[Partition, int]]]
"""Where the state stands, by an assignment's number and what is committed; 0: before the first record."""


def make_app(settings: LinkerSettings, folder: str) -> faust.App:
    """A Faust app without agents. ``folder``: it wants one, and puts nothing there.

    Raises:
        KafkaSettingsError: a file of a setting can't be read.
    """
    app = faust.App(
        settings.linker_group,
        broker=[f"kafka://{address}" for address in settings.kafka.split(",")],
        broker_credentials=credentials(settings),
        broker_client_id="lineage-linker",
        broker_commit_interval=1.0,
        broker_max_poll_records=500,
        broker_session_timeout=settings.linker_session_s,
        broker_request_timeout=max(40.0, settings.linker_session_s + 10.0),
        broker_heartbeat_interval=min(3.0, settings.linker_session_s / 3),
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=RECORD_BYTES_MAX,
        consumer_metadata_max_age_ms=METADATA_MS,
        cython_optimizations=True,
        datadir=folder,
        producer_acks=-1,
        producer_compression_type="zstd",
        producer_linger=0.02,
        producer_max_batch_size=1 << 20,
        producer_max_request_size=RECORD_BYTES_MAX,
        producer_request_timeout=10.0,
        store="memory://",
        stream_buffer_maxsize=BUFFERED,
        stream_wait_empty=False,
        table_standby_replicas=0,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        worker_redirect_stdouts=False,
    )
    transport: Any = app.transport
    transport.Consumer = SeekingConsumer
    return app


def set_start_locator(app: faust.App, locate: Locate) -> None:
    """Start each assignment of partitions at the offsets that ``locate`` returns."""
    transport: Any = app.transport
    transport.locate = locate


class SeekingConsumer(Consumer):
    """Faust's consumer, which goes on where the linker's state stands, and not where Kafka believes it.

    The original leaves a partition where it stands if nothing is committed yet (aiokafka's
    ``seek_to_committed``): records that were fetched and dropped, as around a rebalance, would never
    come again. And it believes an offset behind the log's end: a topic that was made anew, or a Kafka
    that has lost its disk, would be read by nobody until it has grown that long.
    """

    logger = Consumer.logger

    async def seek_to_committed(self) -> Mapping[TP, int]:
        generation = int(self.app.consumer_generation_id)
        committed: dict[TP, int | None] = dict(await super().seek_to_committed())
        committed_offsets = {partition: offset for partition, offset in committed.items() if offset}
        ends = await self.highwaters(*committed_offsets) if committed_offsets else {}
        for partition, offset in committed_offsets.items():
            if offset > ends[partition]:
                log.warning(
                    "log_is_shorter", partition=partition, committed=offset, end=ends[partition]
                )
                committed[partition] = None
        transport: Any = self.transport
        located = await transport.locate(
            generation,
            {
                (partition.topic, partition.partition): offset
                for partition, offset in committed.items()
            },
        )
        starts = {
            partition: located[partition.topic, partition.partition] for partition in committed
        }
        await self._go_to(starts)
        return starts

    async def _go_to(self, starts: Mapping[TP, int]) -> None:
        # Faust does not seek to 0.
        first = [partition for partition, offset in starts.items() if not offset]
        if first:
            await self._thread.seek_to_beginning(*first)
        if len(first) < len(starts):
            await self._thread.seek_wait({partition: at for partition, at in starts.items() if at})
        # What it knew of an assignment before may be ahead of the state.
        self._committed_offset.update({partition: at or None for partition, at in starts.items()})


def credentials(settings: LinkerSettings) -> CredentialsT | None:
    """Kafka's security settings in Faust's terms."""
    config = settings.aiokafka_config()
    context = config.get("ssl_context")
    if "sasl_mechanism" in config:
        return SASLCredentials(
            mechanism=config["sasl_mechanism"],
            username=config["sasl_plain_username"],
            password=config["sasl_plain_password"],
            ssl_context=context,
        )
    return None if context is None else SSLCredentials(context)


def add_agent(
    app: faust.App,
    settings: LinkerSettings,
    acks: Acks[EventT[Any]],
    continuity: Continuity,
    lag: Lag,
) -> None:
    """Have the app read the topics. What an agent raises crashes the app, never skips a record."""
    topics = settings.topics
    flow = app.topic(
        topics.flow,
        topics.node,
        key_serializer="raw",
        value_serializer="raw",
    )

    @app.agent(flow, name="linker", concurrency=1, supervisor_strategy=mode.CrashingSupervisor)
    async def link(stream: faust.StreamT[Any]) -> None:
        # It gives out events, whatever its annotation says.
        batches: AsyncIterator[Sequence[EventT[Any]]] = cast("Any", stream).noack_take(
            settings.linker_batch, within=settings.linker_wait_s
        )
        async for events in batches:
            begin = 0
            for stop in batch_ends([len(event.message.value or b"") for event in events], settings):
                with continuity.working():
                    part = [event for event in events[begin:stop] if await is_next(event)]
                    records = [incoming(event) for event in part]
                    if part:
                        await acks.batch(part, records)
                lag.record_handled(records)
                begin = stop

    async def is_next(event: EventT[Any]) -> bool:
        return await continuity.follows(
            event.message.generation_id or 0, topic_partition_offset(event)
        )


def batch_ends(sizes: Sequence[int], settings: LinkerSettings) -> list[int]:
    """Indexes at which batches end: each is within the limit of bytes, or a single record."""
    stops: list[int] = []
    size = 0
    for index, record_bytes in enumerate(sizes):
        if size and size + record_bytes > settings.linker_batch_bytes:
            stops.append(index)
            size = 0
        size += record_bytes
    return [*stops, len(sizes)] if sizes else []


def incoming(event: EventT[Any]) -> Incoming:
    """An event as a record."""
    message = event.message
    return Incoming(
        topic_partition_offset(event),
        message.key,
        message.value,
        max(message.timestamp or 0.0, 0.0),
        message.generation_id or 0,
    )


def topic_partition_offset(event: EventT[Any]) -> TopicPartitionOffset:
    """Topic, partition and offset of a record."""
    message = event.message
    return TopicPartitionOffset(message.topic, message.partition, message.offset)


def log_assignments(app: faust.App) -> None:
    """Log which partitions are assigned and revoked."""

    async def assigned(_: object, /, *args: Any, **__: Any) -> None:
        log.info("partitions_assigned", partitions=sorted(args[0]))

    async def revoked(_: object, /, *args: Any, **__: Any) -> None:
        if args[0]:
            log.info("partitions_revoked", partitions=sorted(args[0]))

    app.on_partitions_assigned.connect(assigned)
    app.on_partitions_revoked.connect(revoked)


class FaustPositions:
    """Implements :class:`lineage_linker.continuity.KafkaPositions` by a Faust app's consumer."""

    def __init__(self, app: faust.App, settings: LinkerSettings) -> None:
        self._app = app
        self._settings = settings

    def generation(self) -> int:
        return int(self._app.consumer_generation_id)

    def check(self) -> None:
        """Whether the membership is alive: its tasks fail silently where no partition is ours.

        Raises:
            KafkaError: it is not.
        """
        consumer: Any = self._app.consumer
        client = consumer._thread and consumer._thread._consumer
        joining = getattr(client and client._coordinator, "_coordination_task", None)
        if joining is not None and joining.done() and not joining.cancelled():
            joining.result()

    async def bounds(self) -> Mapping[Partition, tuple[int, int]]:
        """Of each partition that is ours: where we have to begin, and the offset behind its last record.

        Raises:
            KafkaError: Kafka does not answer.
            FaustError: there is no consumer yet.
        """
        consumer: Any = self._app.consumer
        assigned = list(consumer.assignment())
        if not assigned:
            return {}
        ends = await consumer.highwaters(*assigned)
        starts = await self._starts(assigned)
        return {
            (partition.topic, partition.partition): (starts[partition], ends[partition])
            for partition in assigned
        }

    async def start(self, partition: Partition) -> int:
        topic_partition = TP(*partition)
        return (await self._starts([topic_partition]))[topic_partition]

    async def _starts(self, topic_partitions: Sequence[TP]) -> dict[TP, int]:
        consumer: Any = self._app.consumer
        committed = {
            partition: consumer._committed_offset.get(partition) for partition in topic_partitions
        }
        unknown = [partition for partition, offset in committed.items() if offset is None]
        first = await consumer.earliest_offsets(*unknown) if unknown else {}
        return committed | dict(first)

    async def first_at(self, partition: Partition, offset: int) -> int | None:
        # A reader of its own: the app's stands elsewhere.
        topic_partition = TopicPartition(*partition)
        reader = AIOKafkaConsumer(
            **self._settings.aiokafka_config(),
            client_id="lineage-linker-gap",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        reader.assign([topic_partition])
        try:
            await reader.start()
            reader.seek(topic_partition, offset)
            records = await reader.getmany(
                topic_partition, timeout_ms=int(ANSWER_S * 1000), max_records=1
            )
        finally:
            await reader.stop()
        return records[topic_partition][0].offset if records.get(topic_partition) else None


class FaustSender:
    """Implements :class:`lineage_linker.processing.Sender` by a Faust app's producer."""

    def __init__(self, app: faust.App, settings: LinkerSettings) -> None:
        self._app = app
        self._names = settings.topics
        self._topics = {
            name: app.topic(name, key_serializer="raw", value_serializer="raw")
            for name in (self._names.edge, self._names.dead_letter)
        }

    async def layout(self) -> Layout:
        return Layout(
            self._names,
            await self._partitions(self._names.edge),
            await self._partitions(self._names.dead_letter),
        )

    async def send(self, record: Outgoing) -> Awaitable[object]:
        try:
            acknowledgement = await self._topics[record.topic].send(
                key=record.key,
                value=record.value,
                partition=record.partition,
                timestamp=record.timestamp or time.time(),
                headers=record.headers,
                force=True,
            )
        except (KafkaError, FaustError) as error:
            raise sending_error(error) from error
        return self._acknowledged(acknowledgement)

    async def _acknowledged(self, acknowledgement: Awaitable[object]) -> None:
        try:
            await acknowledgement
        except (KafkaError, FaustError) as error:
            raise sending_error(error) from error

    async def _partitions(self, topic: str) -> int:
        producer: Any = await self._app.maybe_start_producer()
        try:
            client = producer._ensure_producer().client
            partitions = client.cluster.partitions_for_topic(topic)
            if not partitions:
                client.add_topic(topic)
                await client.force_metadata_update()
                partitions = client.cluster.partitions_for_topic(topic)
        except (KafkaError, FaustError) as error:
            raise BrokerUnavailableError(f"no metadata: {kafka_problem(error)}") from error
        if not partitions:
            raise BrokerUnavailableError(f"there is no topic {topic} that it may see ({RIGHTS})")
        return len(partitions)


def sending_error(error: Exception) -> BrokerUnavailableError | RecordRefusedError:
    """What a failure to send means; Faust wraps Kafka's errors."""
    cause = error.__cause__ if isinstance(error.__cause__, KafkaError) else error
    if isinstance(cause, MessageSizeTooLargeError):
        return RecordRefusedError(str(cause))
    return BrokerUnavailableError(kafka_problem(cause))
