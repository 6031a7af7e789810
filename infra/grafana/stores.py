"""Redis as the linker sees it, and Neo4j as the writer does."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from infra.grafana.panels import Panel, Query, build_dashboard, graph_panel, quantile_panel
from infra.grafana.queries import highest, quantile, rate, total

LINKER, WRITER = "lineage_linker", "lineage_writer"


def dashboard() -> Dashboard:
    """What our own services know of their servers; the servers' own exporters know more."""
    return build_dashboard(
        "lineage-stores",
        "Redis and Neo4j",
        "The linker's state and the graph, as the services see them.",
        "Redis",
        *_redis(),
        "Neo4j",
        *_neo4j(),
    )


def _redis() -> list[Panel]:
    return [
        graph_panel(
            "Memory",
            "At its limit Redis refuses writes, and the linker waits.",
            "bytes",
            Query(highest(f"{LINKER}_state_bytes"), "used"),
            Query(highest(f"{LINKER}_state_bytes_max"), "limit (0: none)"),
        ),
        graph_panel(
            "Keys",
            "Those of complete applications expire after LINEAGE_LINKER_COMPLETE_S.",
            "short",
            Query(highest(f"{LINKER}_state_entries"), "keys"),
        ),
        graph_panel(
            "Answer",
            "Time of one small question.",
            "s",
            Query(highest(f"{LINKER}_state_answer_seconds", "job, instance"), "{{instance}}"),
        ),
        graph_panel(
            "Applications found complete",
            "Their state expires from then on; a second.",
            "cps",
            Query(rate(f"{LINKER}_complete_applications_total"), "complete"),
        ),
        quantile_panel(
            "Batches of the linker", "With all their round trips.", f"{LINKER}_batch_seconds"
        ),
        graph_panel(
            "Retries",
            "Attempts a second that failed, by server.",
            "cps",
            Query(rate(f"{LINKER}_retries_total", "server"), "{{server}}"),
        ),
    ]


def _neo4j() -> list[Panel]:
    return [
        graph_panel(
            "Nodes",
            "By label. Most of the space is in FlowSection: the columns.",
            "short",
            Query(highest(f"{WRITER}_store_nodes", "label"), "{{label}}"),
        ),
        graph_panel(
            "Relationships",
            "Of all types.",
            "short",
            Query(highest(f"{WRITER}_store_relationships"), "relationships"),
        ),
        graph_panel(
            "Heap",
            "0 where the writer's user may not ask.",
            "bytes",
            Query(highest(f"{WRITER}_store_heap_bytes"), "used"),
            Query(highest(f"{WRITER}_store_heap_bytes_max"), "limit"),
        ),
        graph_panel(
            "Transactions",
            "Of the writers, a second.",
            "cps",
            Query(rate(f"{WRITER}_batch_seconds_count"), "committed"),
            Query(rate(f"{WRITER}_retries_total", "cause"), "tried again, {{cause}}"),
        ),
        quantile_panel("Time of a transaction", "Of the writers.", f"{WRITER}_batch_seconds"),
        graph_panel(
            "Open transactions",
            "Of everybody, the query API included.",
            "short",
            Query(highest(f"{WRITER}_store_transactions"), "open"),
        ),
        graph_panel(
            "Records a transaction",
            "Few records: little waits. Many: the writer catches up.",
            "short",
            Query(quantile(0.5, f"{WRITER}_batch_messages"), "p50"),
            Query(quantile(0.95, f"{WRITER}_batch_messages"), "p95"),
        ),
        graph_panel(
            "Bytes a transaction",
            "Bounded by LINEAGE_WRITER_BATCH_BYTES.",
            "bytes",
            Query(quantile(0.5, f"{WRITER}_batch_bytes"), "p50"),
            Query(quantile(0.95, f"{WRITER}_batch_bytes"), "p95"),
        ),
        graph_panel(
            "Answer",
            "Time of one small question.",
            "s",
            Query(total(f"{WRITER}_store_answer_seconds", "job, instance"), "{{instance}}"),
        ),
    ]
