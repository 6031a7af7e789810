"""What the linker measures; names and labels are listed in docs/reference/metrics.md."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram

from lineage_linker.batch import Counts
from lineage_service.metrics import new_registry

SERVERS = ("kafka", "redis")

_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_RECORDS = (1, 4, 16, 64, 256, 1024, 4096)


class Metrics:
    """The linker's metrics in a registry of their own.

    ``topics``: those that it reads. What has not happened yet is exported as 0, so that a rate is known
    from the first time on.
    """

    def __init__(self, topics: Iterable[str] = ()) -> None:
        self.registry = new_registry()
        self._messages = self._counter("messages", "Records that were handled.", "topic")
        self._flows = self._counter("flows", "Flows in the blocks that were handled.")
        self._edges = self._counter("edges", "Linked edges (pairs of flows) that were sent.")
        self._associations = self._counter(
            "associations", "Pairs of an input and an output position in handled blocks."
        )
        self._bytes = self._counter("bytes", "Bytes of the records that were handled.")
        self._dead_letters = self._counter("dead_letters", "Records that could not be used.")
        self._sent = self._counter("sent_messages", "Records that were sent.")
        self._sent_bytes = self._counter("sent_bytes", "Bytes of the records that were sent.")
        self._complete = self._counter("complete_applications", "Applications found complete.")
        self._retries = self._counter(
            "retries", "Attempts that failed because a server was away or full.", "server"
        )
        self.batch_records = Histogram(
            "lineage_linker_batch_records",
            "Records of a batch.",
            buckets=_RECORDS,
            registry=self.registry,
        )
        self.batch_seconds = Histogram(
            "lineage_linker_batch_seconds",
            "Seconds from the begin of a batch until all it brought about is acknowledged.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._lag_messages = self._gauge(
            "lag_messages",
            "Records of this worker's partitions that are still to be read.",
            "topic",
        )
        self._lag_seconds = self._gauge(
            "lag_seconds",
            "Age of the last record that was handled, while there are more to be read; else 0.",
            "topic",
        )
        self.state_entries = self._gauge("state_entries", "Keys in Redis.")
        self.state_bytes = self._gauge("state_bytes", "Memory that Redis uses.")
        self.state_bytes_max = self._gauge(
            "state_bytes_max", "Memory that Redis may use (maxmemory); 0: no limit."
        )
        self.records_to_reread = self._gauge(
            "state_behind_messages",
            "Records of this worker's partitions that were handled once and are read again, since "
            "Redis lost its state or came back with an older one.",
        )
        self.state_answer_seconds = self._gauge(
            "state_answer_seconds", "Seconds that Redis took for the last small question."
        )
        self.cache_bytes = self._gauge("cache_bytes", "Join columns in this worker's memory.")
        self.ready = self._gauge("ready", "Whether Kafka and Redis do what they are asked.")
        for topic in topics:
            self._messages.labels(topic)
        for server in SERVERS:
            self._retries.labels(server)

    def batch(self, counts: Counts, by_topic: dict[str, int], seconds: float) -> None:
        """Record a batch that is done."""
        for topic, records in by_topic.items():
            self._messages.labels(topic).inc(records)
        self._flows.inc(counts.flows)
        self._edges.inc(counts.edges)
        self._associations.inc(counts.associations)
        self._bytes.inc(counts.bytes)
        self._dead_letters.inc(counts.dead_letters)
        self._complete.inc(counts.complete)
        self.batch_records.observe(counts.messages)
        self.batch_seconds.observe(seconds)

    def sent(self, records: int, size: int) -> None:
        """Record records that Kafka acknowledged."""
        self._sent.inc(records)
        self._sent_bytes.inc(size)

    def retry(self, server: str) -> None:
        """Record an attempt that failed."""
        self._retries.labels(server).inc()

    def lag(self, topic: str, messages: int, seconds: float) -> None:
        """Record how far this worker is behind the end of a topic."""
        self._lag_messages.labels(topic).set(messages)
        self._lag_seconds.labels(topic).set(seconds)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"lineage_linker_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"lineage_linker_{name}", text, labels, registry=self.registry)
