"""The writer's metrics for Prometheus. docs/reference/metrics.md has the table; names are stable."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram

from lineage_core.codec.edge_message import Links, StoredBlock
from lineage_service.metrics import new_registry
from lineage_store.neo4j.server_statistics import ServerStatistics
from lineage_writer.records import Partition, StoreBatch

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LATENCIES = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_COUNTS = (1, 4, 16, 64, 256, 1024, 4096)
_BYTES = tuple(float(1 << power) for power in range(10, 28, 2))


class Metrics:
    """All metrics of one writer, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = new_registry()

        def counter(name: str, help_text: str, *labels: str) -> Counter:
            return Counter(f"lineage_writer_{name}", help_text, labels, registry=self.registry)

        def histogram(name: str, help_text: str, buckets: Iterable[float]) -> Histogram:
            full = f"lineage_writer_{name}"
            return Histogram(full, help_text, buckets=list(buckets), registry=self.registry)

        def gauge(name: str, help_text: str, *labels: str) -> Gauge:
            return Gauge(f"lineage_writer_{name}", help_text, labels, registry=self.registry)

        self.messages = counter("messages", "Records of Kafka that were stored")
        self.bytes = counter("bytes", "Bytes of their values")
        self.blocks = counter("blocks", "Flow blocks that were stored")
        self.flows = counter("flows", "Flows in these blocks")
        self.edges = counter("edges", "Linked edges (pairs of flows) that were stored")
        self.dead_letters = counter("dead_letters", "Records that could not be used")
        self.lost_messages = counter(
            "lost_messages", "Records that Kafka removed before they were stored"
        )
        self.retries = counter("retries", "Transactions that were tried again", "cause")
        self.batch_messages = histogram("batch_messages", "Records of a transaction", _COUNTS)
        self.batch_bytes = histogram("batch_bytes", "Bytes of a transaction", _BYTES)
        self.batch_seconds = histogram("batch_seconds", "Seconds of a transaction", _SECONDS)
        self.latency_seconds = histogram(
            "latency_seconds", "Seconds from when a record was sent until it is stored", _LATENCIES
        )
        self.queryable_seconds = histogram(
            "queryable_seconds",
            "Seconds from when what made blocks visible was sent until they can be traced",
            _LATENCIES,
        )
        self.store_nodes = gauge("store_nodes", "Nodes in Neo4j", "label")
        self.store_relationships = gauge("store_relationships", "Relationships in Neo4j")
        self.store_transactions = gauge("store_transactions", "Transactions that are open in Neo4j")
        self.store_heap_bytes = gauge("store_heap_bytes", "Heap that Neo4j uses")
        self.store_heap_bytes_max = gauge("store_heap_bytes_max", "Heap that Neo4j may use")
        self.store_answer_seconds = gauge(
            "store_answer_seconds", "Seconds that Neo4j took for the last small query"
        )
        self.lag_messages = gauge("lag_messages", "Records that wait in Kafka", "partition")
        self.lag_seconds = gauge("lag_seconds", "Age of the oldest of them", "partition")
        self.ready = gauge("ready", "Whether Kafka and the store answer")
        self.openlineage_runs = counter(
            "openlineage_runs",
            "Attempts to publish the OpenLineage events of an application",
            "outcome",
        )
        self.openlineage_waiting = gauge(
            "openlineage_waiting", "Applications that ended and whose events are not published yet"
        )
        for outcome in ("told", "failed"):
            self.openlineage_runs.labels(outcome)
        for cause in ("unavailable", "memory", "refused", "fenced", "kafka"):
            self.retries.labels(cause)

    def stored(self, batch: StoreBatch, seconds: float, now: float) -> None:
        """A batch is durable; ``now`` in unix seconds."""
        size = 0
        for entry in batch.entries:
            size += entry.size
            age = max(0.0, now - entry.record.timestamp / 1000)
            self.latency_seconds.observe(age)
            if entry.dead is not None:
                continue
            match entry.content:
                case StoredBlock():
                    self.blocks.inc()
                    self.flows.inc(entry.content.rows)
                case Links():
                    self.edges.inc(sum(edge.pairs for edge in entry.content.edges))
                    if entry.content.visible:
                        self.queryable_seconds.observe(age)
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

    def store(self, server_statistics: ServerStatistics) -> None:
        """Statistics of Neo4j."""
        for label, nodes in server_statistics.nodes.items():
            self.store_nodes.labels(label).set(nodes)
        self.store_relationships.set(server_statistics.relationships)
        self.store_transactions.set(server_statistics.transactions)
        self.store_heap_bytes.set(server_statistics.heap_bytes)
        self.store_heap_bytes_max.set(server_statistics.heap_bytes_max)

    def forget(self, partition: Partition) -> None:
        """The partition is another writer's."""
        for gauge in (self.lag_messages, self.lag_seconds):
            with contextlib.suppress(KeyError):
                gauge.remove(partition.partition)
