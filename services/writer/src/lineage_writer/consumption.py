"""The consumer group: which partitions are this writer's, and a task for each."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Collection, Sequence
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import IllegalStateError, KafkaError, OffsetOutOfRangeError
from aiokafka.structs import OffsetAndMetadata

from lineage_core.contract.dead_letter import dead_letter_reason
from lineage_kafka.errors import RIGHTS, kafka_problem
from lineage_kafka.settings import METADATA_MS
from lineage_store.errors import StoreError
from lineage_writer.dead_letters import DeadLetters
from lineage_writer.errors import OffsetGoneError
from lineage_writer.health import Health
from lineage_writer.metrics import Metrics
from lineage_writer.partition import PartitionWriter, Tools
from lineage_writer.records import Partition, Record
from lineage_writer.settings import WriterSettings
from lineage_writer.threads import ThreadedStore

HANDOVER_S = 5.0
"""How long a rebalance waits for open transactions. Longer ones are fenced off if need be."""
WATCH_S = 2.0
"""Between two looks at lags and servers."""
MEASURED_EVERY_S = 10.0
"""Between two looks at what is in the store."""
ANSWER_S = 5.0
"""A server that takes longer for something small is not ready."""
NEVER_IDLE_MS = 24 * 3600 * 1000
"""A writer that waits for its store still owns its partitions: offsets are fenced, not timed."""


class KafkaSource:
    """aiokafka's consumer as partitions see it (:class:`lineage_writer.partition.RecordSource`)."""

    def __init__(self, settings: WriterSettings) -> None:
        self.consumer = AIOKafkaConsumer(
            **settings.aiokafka_config(),
            group_id=settings.writer_group,
            enable_auto_commit=False,
            # The stored position decides; a position that Kafka does not hold is handled there.
            auto_offset_reset="none",
            max_partition_fetch_bytes=settings.writer_fetch_bytes,
            session_timeout_ms=int(settings.writer_session_s * 1000),
            heartbeat_interval_ms=int(settings.writer_session_s * 1000 / 4),
            max_poll_interval_ms=NEVER_IDLE_MS,
            fetch_max_wait_ms=250,
            metadata_max_age_ms=METADATA_MS,
        )

    async def fetch(self, partition: Partition, limit: int, wait_s: float) -> Sequence[Record]:
        topic_partition = TopicPartition(*partition)
        try:
            records_by_partition = await self.consumer.getmany(
                topic_partition, timeout_ms=int(wait_s * 1000), max_records=limit
            )
        except OffsetOutOfRangeError as error:
            raise OffsetGoneError(str(error)) from error
        records: list[Any] = records_by_partition.get(topic_partition, [])
        return records

    async def bounds(self, partition: Partition) -> tuple[int, int]:
        topic_partition = TopicPartition(*partition)
        low = await self.consumer.beginning_offsets([topic_partition])
        high = await self.consumer.end_offsets([topic_partition])
        return low[topic_partition], high[topic_partition]

    def seek(self, partition: Partition, offset: int) -> None:
        # The partition was revoked: its task is about to be stopped.
        with contextlib.suppress(IllegalStateError):
            self.consumer.seek(TopicPartition(*partition), offset)


class Consumption(ConsumerRebalanceListener):  # type: ignore[misc]
    """One membership of the consumer group, from joining to leaving it."""

    def __init__(
        self, settings: WriterSettings, store: ThreadedStore, metrics: Metrics, health: Health
    ) -> None:
        self._topic = settings.topics.edge
        self._source = KafkaSource(settings)
        self._consumer = self._source.consumer
        self._dead_letters = DeadLetters(settings)
        self._store = store
        self._metrics = metrics
        self._health = health
        slots = asyncio.Semaphore(settings.writer_parallel)
        self._tools = Tools(
            self._source, store, self._dead_letters, settings, metrics, health, slots
        )
        self._running: dict[PartitionWriter, asyncio.Task[None]] = {}
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._measured_at = -MEASURED_EVERY_S
        self._committed: dict[Partition, int] = {}
        self._ended_writers: list[PartitionWriter] = []
        """Writers of this assignment that have ended: their positions are still to be committed."""
        self._log = structlog.get_logger()

    async def start(self) -> None:
        """Connect and join.

        Raises:
            KafkaError: no broker answers, or access is denied.
        """
        await self._dead_letters.start()
        self._consumer.subscribe([self._topic], listener=self)
        await self._consumer.start()

    async def run(self) -> None:
        """Look after the partitions until a task of one fails; cancel it to end it.

        Raises:
            SourceLostError: Kafka's client does not recover.
        """
        watch = asyncio.ensure_future(self._watch())
        try:
            await asyncio.wait({watch, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            for task in (watch, self._failed):
                if task.done():
                    task.result()
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def stop(self, limit_s: float) -> bool:
        """Finish open transactions and leave the group; False: some did not finish in time."""
        deadline = time.monotonic() + limit_s
        for writer in self._running:
            writer.stop()
        await self._wait_for_end(self._running.values(), limit_s)
        finished = not self._running
        for ending in (self._commit(), self._consumer.stop(), self._dead_letters.stop()):
            remaining_s = max(0.5, deadline - time.monotonic())
            try:
                await asyncio.wait_for(ending, remaining_s)
            except (KafkaError, asyncio.TimeoutError, OSError) as error:
                self._log.warning("kafka_left_without_goodbye", reason=dead_letter_reason(error))
        if not self._failed.done():
            self._failed.cancel()
        return finished

    # -- rebalances --------------------------------------------------------------------------

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        leaving = [
            member for member in self._running if TopicPartition(*member.partition) in revoked
        ]
        for writer in leaving:
            writer.stop()
            self._metrics.forget(writer.partition)
        await self._wait_for_end([self._running[writer] for writer in leaving], HANDOVER_S)
        await self._commit()
        if revoked:
            self._log.info(
                "partitions_revoked", partitions=sorted(member.partition for member in revoked)
            )

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._committed.clear()
        self._ended_writers.clear()
        for topic, partition in sorted(assigned):
            writer = PartitionWriter(Partition(topic, partition), self._tools)
            task = asyncio.create_task(writer.run())
            self._running[writer] = task
            task.add_done_callback(functools.partial(self._forget_ended, writer))
        self._log.info(
            "partitions_assigned",
            partitions=sorted(writer_partition.partition for writer_partition in assigned),
        )

    async def _wait_for_end(self, tasks: Collection[asyncio.Task[None]], limit_s: float) -> None:
        if tasks:
            await asyncio.wait(list(tasks), timeout=limit_s)
            # The callbacks of ended tasks run before this continues.
            await asyncio.sleep(0)

    def _forget_ended(self, writer: PartitionWriter, task: asyncio.Task[None]) -> None:
        self._running.pop(writer, None)
        self._ended_writers.append(writer)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failed.done():
            self._failed.set_exception(error)

    # -- looking after it --------------------------------------------------------------------

    async def _watch(self) -> None:
        """Report positions to Kafka and metrics to Prometheus, and detect servers that don't answer."""
        while True:
            await asyncio.gather(self._check_kafka(), self._check_store())
            await asyncio.sleep(WATCH_S)

    async def _check_kafka(self) -> None:
        try:
            await asyncio.wait_for(self._commit_and_measure(), ANSWER_S)
        except (KafkaError, asyncio.TimeoutError, OSError) as error:
            reason = kafka_problem(error)
            if self._health.fails("kafka", reason):
                self._log.warning("kafka_unavailable", reason=reason)

    async def _commit_and_measure(self) -> None:
        # Its own tasks fail silently where no partition is ours.
        self._consumer._coordinator.check_errors()
        await self._commit()
        positioned = [writer for writer in self._running if writer.position is not None]
        if not positioned and self._topic not in await self._consumer.topics():
            problem = f"there is no topic {self._topic} that it may see ({RIGHTS})"
            self._health.fails("kafka", problem)
            return
        if positioned:
            ends = await self._consumer.end_offsets(
                [TopicPartition(*writer.partition) for writer in positioned]
            )
            now = time.time()
            for writer in positioned:
                end = ends[TopicPartition(*writer.partition)]
                lag_records = max(0, end - (writer.position or 0))
                self._metrics.lag(writer.partition, lag_records, writer.lag_seconds(end, now))
        self._health.answers("kafka")

    async def _check_store(self) -> None:
        """Read from the store; failures of writes are detected when batches are stored."""
        started_at = time.monotonic()
        try:
            await asyncio.wait_for(self._store.offset(Partition(self._topic, 0)), ANSWER_S)
        except (StoreError, asyncio.TimeoutError, OSError) as error:
            self._health.fails("store_reads", dead_letter_reason(error))
        else:
            self._health.answers("store_reads")
            self._metrics.store_answer_seconds.set(time.monotonic() - started_at)
            if started_at - self._measured_at >= MEASURED_EVERY_S:
                self._measured_at = started_at
                await self._measure_store()
                await self._compare_positions()

    async def _compare_positions(self) -> None:
        """A partition without news would not notice that the store was emptied, or restored."""
        try:
            for writer in list(self._running):
                await asyncio.wait_for(writer.check_stored_position(), ANSWER_S)
        except (StoreError, asyncio.TimeoutError, OSError) as error:
            self._log.debug("positions_not_compared", reason=dead_letter_reason(error))

    async def _measure_store(self) -> None:
        """What the store holds; nothing depends on it."""
        try:
            server_statistics = await asyncio.wait_for(self._store.server_statistics(), ANSWER_S)
        except (StoreError, asyncio.TimeoutError, OSError) as error:
            self._log.debug("store_not_measured", reason=dead_letter_reason(error))
        else:
            if server_statistics is not None:
                self._metrics.store(server_statistics)

    async def _commit(self) -> None:
        """Tell Kafka's tools how far we are; nothing depends on it."""
        assigned = self._consumer.assignment()
        moved = {
            writer.partition: writer.position
            for writer in (*self._ended_writers, *self._running)
            if writer.position is not None
            and TopicPartition(*writer.partition) in assigned
            and self._committed.get(writer.partition) != writer.position
        }
        if not moved:
            return
        try:
            await self._consumer.commit(
                {
                    TopicPartition(*partition): OffsetAndMetadata(at, "")
                    for partition, at in moved.items()
                }
            )
        except KafkaError as error:
            self._log.debug("commit_failed", reason=dead_letter_reason(error))
        else:
            self._committed |= moved
