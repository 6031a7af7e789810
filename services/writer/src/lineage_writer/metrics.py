"""What the writer tells Prometheus. docs/reference/metrics.md has the table; names are stable."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from lineage_core.edge_message import Links, StoredBlock
from lineage_writer.records import Batch, Partition

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LATENCIES = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_COUNTS = (1, 4, 16, 64, 256, 1024, 4096)
_BYTES = tuple(float(1 << power) for power in range(10, 28, 2))


class Metrics:
    """All metrics of one writer, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, said: str, *labels: str) -> Counter:
            return Counter(f"lineage_writer_{name}", said, labels, registry=self.registry)

        def histogram(name: str, said: str, buckets: Iterable[float]) -> Histogram:
            full = f"lineage_writer_{name}"
            return Histogram(full, said, buckets=list(buckets), registry=self.registry)

        def gauge(name: str, said: str, *labels: str) -> Gauge:
            return Gauge(f"lineage_writer_{name}", said, labels, registry=self.registry)

        self.messages = counter("messages", "Records of Kafka that were stored")
        self.bytes = counter("bytes", "Bytes of their values")
        self.blocks = counter("blocks", "Flow blocks that were stored")
        self.flows = counter("flows", "Flows in these blocks")
        self.edges = counter("edges", "Linked edges (pairs of flows) that were stored")
        self.dead_letters = counter("dead_letters", "Records that could not be used")
        self.retries = counter("retries", "Transactions that were tried again", "cause")
        self.batch_messages = histogram("batch_messages", "Records of a transaction", _COUNTS)
        self.batch_bytes = histogram("batch_bytes", "Bytes of a transaction", _BYTES)
        self.batch_seconds = histogram("batch_seconds", "Seconds of a transaction", _SECONDS)
        self.latency_seconds = histogram(
            "latency_seconds", "Seconds from when a record was sent until it is stored", _LATENCIES
        )
        self.lag_messages = gauge("lag_messages", "Records that wait in Kafka", "partition")
        self.lag_seconds = gauge("lag_seconds", "Age of the oldest of them", "partition")
        self.ready = gauge("ready", "Whether Kafka and the store answer")
        for cause in ("unavailable", "memory", "refused", "fenced", "kafka"):
            self.retries.labels(cause)

    def stored(self, batch: Batch, seconds: float, now: float) -> None:
        """A batch is durable; ``now`` in unix seconds."""
        size = 0
        for entry in batch.entries:
            size += entry.size
            self.latency_seconds.observe(max(0.0, now - entry.record.timestamp / 1000))
            if entry.dead is not None:
                continue
            match entry.content:
                case StoredBlock():
                    self.blocks.inc()
                    self.flows.inc(entry.content.rows)
                case Links():
                    self.edges.inc(sum(edge.pairs for edge in entry.content.edges))
                case _:
                    pass
        self.messages.inc(len(batch.entries))
        self.bytes.inc(size)
        self.batch_messages.observe(len(batch.entries))
        self.batch_bytes.observe(size)
        self.batch_seconds.observe(seconds)

    def lag(self, partition: Partition, messages: int, seconds: float) -> None:
        """What waits in a partition."""
        self.lag_messages.labels(partition.partition).set(messages)
        self.lag_seconds.labels(partition.partition).set(seconds)

    def forget(self, partition: Partition) -> None:
        """The partition is another writer's."""
        for gauge in (self.lag_messages, self.lag_seconds):
            with contextlib.suppress(KeyError):
                gauge.remove(partition.partition)
