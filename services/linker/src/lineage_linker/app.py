"""The linker as a Faust app: topics in, batches to :class:`lineage_linker.acks.Acks`, records out.

Faust 0.15.3 acks a message whose handler raised, and commits past one that is not acked; so nothing
is ever acked but by us, in order, and what can't go on ends the process (docs/adr/0006).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any, cast

import faust
import mode
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from faust.auth import SASLCredentials, SSLCredentials
from faust.exceptions import FaustError
from faust.types import EventT
from faust.types.auth import CredentialsT

from lineage_core.dead_letter import Place
from lineage_core.topics import RECORD_BYTES_MAX
from lineage_linker.acks import Acks
from lineage_linker.errors import BrokerUnavailableError, RefusedError
from lineage_linker.lag import Lag
from lineage_linker.records import Incoming, Layout, Outgoing
from lineage_linker.settings import LinkerSettings
from lineage_store.kafka_problems import RIGHTS, kafka_problem

ANSWER_S = 5.0
"""Metadata that takes longer is taken for absence."""
BUFFERED = 64
"""Records that are read ahead of a batch: they are counted, whatever their size."""


def make_app(settings: LinkerSettings, folder: str) -> faust.App:
    """A Faust app without agents. ``folder``: it wants one, and puts nothing there.

    Raises:
        KafkaSettingsError: a file of a setting can't be read.
    """
    return faust.App(
        settings.linker_group,
        broker=[f"kafka://{one}" for one in settings.kafka.split(",")],
        broker_credentials=credentials(settings),
        broker_client_id="lineage-linker",
        broker_commit_interval=1.0,
        broker_max_poll_records=500,
        broker_session_timeout=settings.linker_session_s,
        broker_request_timeout=max(40.0, settings.linker_session_s + 10.0),
        broker_heartbeat_interval=min(3.0, settings.linker_session_s / 3),
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=RECORD_BYTES_MAX,
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


def credentials(settings: LinkerSettings) -> CredentialsT | None:
    """Kafka's security settings in Faust's terms."""
    known = settings.aiokafka_config()
    context = known.get("ssl_context")
    if "sasl_mechanism" in known:
        return SASLCredentials(
            mechanism=known["sasl_mechanism"],
            username=known["sasl_plain_username"],
            password=known["sasl_plain_password"],
            ssl_context=context,
        )
    return None if context is None else SSLCredentials(context)


def add_agent(app: faust.App, settings: LinkerSettings, acks: Acks[EventT[Any]], lag: Lag) -> None:
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
        taken: AsyncIterator[Sequence[EventT[Any]]] = cast("Any", stream).noack_take(
            settings.linker_batch, within=settings.linker_wait_s
        )
        async for events in taken:
            begin = 0
            for stop in cuts([len(event.message.value or b"") for event in events], settings):
                part = events[begin:stop]
                records = [incoming(event) for event in part]
                await acks.batch(part, records)
                lag.handled(records)
                begin = stop


def cuts(sizes: Sequence[int], settings: LinkerSettings) -> list[int]:
    """Where batches end, so that each is at most as large as it may be, or a single record."""
    found: list[int] = []
    size = 0
    for index, one in enumerate(sizes):
        if size and size + one > settings.linker_batch_bytes:
            found.append(index)
            size = 0
        size += one
    return [*found, len(sizes)] if sizes else []


def incoming(event: EventT[Any]) -> Incoming:
    """An event as a record."""
    message = event.message
    return Incoming(
        Place(message.topic, message.partition, message.offset),
        message.key,
        message.value,
        max(message.timestamp or 0.0, 0.0),
    )


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
            sent = await self._topics[record.topic].send(
                key=record.key,
                value=record.value,
                partition=record.partition,
                timestamp=record.timestamp or time.time(),
                headers=record.headers,
                force=True,
            )
        except (KafkaError, FaustError) as error:
            raise unavailable_or_refused(error) from error
        return self._acknowledged(sent)

    async def _acknowledged(self, sent: Awaitable[object]) -> None:
        try:
            await sent
        except (KafkaError, FaustError) as error:
            raise unavailable_or_refused(error) from error

    async def _partitions(self, topic: str) -> int:
        producer: Any = await self._app.maybe_start_producer()
        try:
            client = producer._ensure_producer().client
            known = client.cluster.partitions_for_topic(topic)
            if not known:
                client.add_topic(topic)
                await client.force_metadata_update()
                known = client.cluster.partitions_for_topic(topic)
        except (KafkaError, FaustError) as error:
            raise BrokerUnavailableError(f"no metadata: {kafka_problem(error)}") from error
        if not known:
            raise BrokerUnavailableError(f"there is no topic {topic} that it may see ({RIGHTS})")
        return len(known)


def unavailable_or_refused(error: Exception) -> BrokerUnavailableError | RefusedError:
    """What a failure to send means; Faust wraps Kafka's errors."""
    cause = error.__cause__ if isinstance(error.__cause__, KafkaError) else error
    if isinstance(cause, MessageSizeTooLargeError):
        return RefusedError(str(cause))
    return BrokerUnavailableError(kafka_problem(cause))
