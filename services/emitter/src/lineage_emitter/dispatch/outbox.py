"""A process's one way to Kafka, and what it does while Kafka is away.

librdkafka's threads do not survive a fork, and PySpark forks its workers: a producer is made by the
process that uses it, on first use, and found again by the process's id.

Kafka away, or too slow, must cost the job next to nothing: after the first delivery that is not
acknowledged in time the outbox is closed for a while, and what would have been sent goes to the
spool at once. Then one short question to the brokers decides whether it opens again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lineage_emitter.errors import DeliveryError
from lineage_kafka.topics import RECORD_BYTES_MAX

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from lineage_emitter.dispatch.kafka_target import KafkaTarget

logger = logging.getLogger(__name__)

LINGER_MS = 1
"""Blocks are few and large; records that others are about to read wait for theirs."""
POLL_S = 0.1
PROBE_S = 1.0
"""How long the question whether Kafka is back may take."""
RETRY_FACTOR_MAX = 8
"""Away for long, Kafka is queried ever less often, down to this many times ``retry_s``."""
OVERHEAD_BYTES = 2048
"""Key, headers and what librdkafka counts beside a value."""
KAFKA_BATCH_BYTES = 1 << 20

Delivered = Callable[["KafkaError | None", "Message"], None]


class Outbox:
    """One producer, made on first use, and whether Kafka is to be tried now. Thread-safe.

    ``messages``: for the driver's JSON, which is compressed on its way; record batches are compressed already.

    Raises:
        ImportError: confluent-kafka is not installed here.
    """

    def __init__(self, target: KafkaTarget, *, messages: bool = False, away: str = "") -> None:
        import confluent_kafka

        self._kafka = confluent_kafka
        self._target = target
        self._messages = messages
        self._lock = threading.RLock()
        self._producer: Producer | None = None
        self._closed_until = 0.0
        self._factor = 1
        self._last_error = ""
        self._partitions: dict[str, int] = {}
        self.reason = ""
        """Why it is closed, or was closed last."""
        self._closed = False
        if away:
            self.give_up(away)

    # -- open or closed ----------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether it is closed, without a call to Kafka."""
        return self._closed

    def is_open(self) -> bool:
        """Whether Kafka is to be tried now; asks it when it has been away for long enough."""
        if not self._closed:
            return True
        with self._lock:
            if self._closed and time.monotonic() >= self._closed_until:
                self._probe()
            return not self._closed

    def _probe(self) -> None:
        try:
            self._open_producer().list_topics(self._target.flow, timeout=PROBE_S)
        except (self._kafka.KafkaException, DeliveryError) as problem:
            self.give_up(error_text(problem))
            return
        self._closed = False
        self._factor = 1
        logger.info("Kafka is back")

    def give_up(self, reason: str) -> None:
        """Close for a while. Whatever is not acknowledged now is the caller's again."""
        with self._lock:
            if not self._closed:
                logger.warning("Kafka is away, lineage goes to the spool: %s", reason)
            self.reason = reason
            self._closed = True
            self._closed_until = time.monotonic() + self._target.retry_s * self._factor
            self._factor = min(self._factor * 2, RETRY_FACTOR_MAX)
            producer, self._producer = self._producer, None
        if producer is not None:
            # Its callbacks are served here; a message that was under way may arrive all the same.
            producer.purge()
            producer.poll(0)

    # -- sending -----------------------------------------------------------------------------

    def warm(self) -> None:
        """Make the producer now: it takes half a second until it may send for the first time."""
        if not self._closed:
            try:
                self._open_producer()
            except DeliveryError as problem:
                self.give_up(str(problem))

    def _open_producer(self) -> Producer:
        with self._lock:
            if self._producer is None:
                self._last_error = ""
                try:
                    self._producer = self._kafka.Producer(self._config())
                except (self._kafka.KafkaException, OSError, ValueError) as problem:
                    raise DeliveryError(error_text(problem)) from problem
            return self._producer

    def _config(self) -> dict[str, Any]:
        target = self._target
        largest = target.record_bytes
        if self._messages:
            # The topic's limit is for what travels, compressed; this one is for what goes in.
            largest = max(largest, 8 * RECORD_BYTES_MAX)
        return {
            **target.client_config(),
            "client.id": f"lineage-emitter-{os.getpid()}",
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "batch.size": min(KAFKA_BATCH_BYTES, target.record_bytes),
            "message.max.bytes": largest + OVERHEAD_BYTES,
            "message.timeout.ms": max(1, int(target.timeout_s * 1000)),
            "socket.keepalive.enable": True,
            "compression.type": "gzip" if self._messages else "none",
            # Callbacks report errors; the job's own standard error stays as it is.
            "log_level": 0,
            "error_cb": self._record_error,
        }

    def _record_error(self, error: KafkaError) -> None:
        self._last_error = error.str()

    def produce(
        self, topic: str, partition: int, key: bytes, value: bytes, delivered: Delivered
    ) -> None:
        """Hand one record to the producer; ``delivered`` is called within a later :meth:`wait`.

        Raises:
            DeliveryError: it was not accepted; the outbox is closed unless the record itself is to blame.
        """
        producer = self._open_producer()
        deadline = time.monotonic() + self._target.timeout_s
        while True:
            try:
                producer.produce(topic, value, key=key, partition=partition, on_delivery=delivered)
            except BufferError:
                if time.monotonic() >= deadline:
                    self.give_up("its queue stays full")
                    raise DeliveryError(self.reason) from None
                producer.poll(POLL_S)
            except self._kafka.KafkaException as problem:
                error: KafkaError = problem.args[0]
                if not is_too_large(error):
                    self.give_up(error_text(problem))
                raise DeliveryError(error_text(problem)) from problem
            else:
                producer.poll(0)
                return

    def poll(self) -> None:
        """Serve callbacks, without waiting."""
        producer = self._producer
        if producer is not None:
            producer.poll(0)

    def wait(self, is_done: Callable[[], bool]) -> bool:
        """Send until ``done`` says so; False when that takes too long: then the outbox is closed."""
        deadline = time.monotonic() + self._target.timeout_s
        self.poll()
        while not is_done():
            producer = self._producer
            if producer is None:
                return False
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                self.give_up(self._timeout_reason())
                return False
            producer.flush(min(POLL_S, remaining_s))
        return True

    def reason_of(self, error: KafkaError) -> str:
        """Why a record was refused, in words that help."""
        kinds = self._kafka.KafkaError
        if error.code() == kinds._MSG_TIMED_OUT:
            return self._timeout_reason()
        if error.code() in {kinds._PURGE_QUEUE, kinds._PURGE_INFLIGHT}:
            return self.reason
        return error.str()

    def _timeout_reason(self) -> str:
        return self._last_error or f"no acknowledgment within {self._target.timeout_s:g} s"

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; queried once.

        Raises:
            DeliveryError: there is no such topic, or Kafka does not say; the outbox is closed.
        """
        if topic not in self._partitions:
            try:
                metadata = self._open_producer().list_topics(topic, timeout=self._target.timeout_s)
            except self._kafka.KafkaException as problem:
                self.give_up(error_text(problem))
                raise DeliveryError(self.reason) from problem
            described = metadata.topics[topic]
            if described.error is not None or not described.partitions:
                self.give_up(f"topic {topic}: {described.error or 'it has no partitions'}")
                raise DeliveryError(self.reason)
            self._partitions[topic] = len(described.partitions)
        return self._partitions[topic]


def error_text(problem: Exception) -> str:
    """What confluent-kafka's exception says, without its code."""
    error = problem.args[0] if problem.args else problem
    describe = getattr(error, "str", None)
    return str(describe()) if callable(describe) else str(problem)


def is_too_large(error: KafkaError) -> bool:
    """Whether the record itself, not Kafka, is why it was refused."""
    from confluent_kafka import KafkaError as Kinds

    return bool(error.code() in {Kinds.MSG_SIZE_TOO_LARGE, Kinds.INVALID_RECORD})


_outboxes: dict[int, tuple[KafkaTarget, Outbox]] = {}


def outbox_of(target: KafkaTarget) -> Outbox:
    """The outbox for blocks of this process.

    Raises:
        ImportError: confluent-kafka is not installed here.
    """
    process = os.getpid()
    entry = _outboxes.get(process)
    if entry is None or entry[0] != target:
        away = "" if target.partitions else "it was away when the application began"
        entry = target, Outbox(target, away=away)
        # That of a parent process stays where it is: to end it here would wait for its dead threads.
        _outboxes[process] = entry
    return entry[1]
