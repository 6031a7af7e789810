"""What goes through linker and writer: how much, how late, and what goes wrong."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from infra.grafana.panels import (
    Limits,
    Panel,
    Query,
    bucket_heatmap,
    build_dashboard,
    graph_panel,
    number_panel,
    quantile_panel,
)
from infra.grafana.queries import (
    cores,
    highest,
    increase,
    lowest,
    memory,
    quantile,
    rate,
    total,
)

LINKER, WRITER = "lineage_linker", "lineage_writer"


def dashboard() -> Dashboard:
    """The first one to look at."""
    return build_dashboard(
        "lineage-pipeline",
        "Pipeline",
        "From Kafka through linker and writer into the store.",
        "Now",
        *_now(),
        "Throughput",
        *_throughput(),
        "Lag",
        *_lag(),
        "Latency",
        *_latency(),
        "Errors",
        *_errors(),
        "Processes",
        *_processes(),
    )


def _now() -> list[Panel]:
    waiting = f"{total(f'{LINKER}_lag_messages')} + {total(f'{WRITER}_lag_messages')}"
    letters = (
        f"{increase(f'{LINKER}_dead_letters_total')} + {increase(f'{WRITER}_dead_letters_total')}"
    )
    late = quantile(0.95, f"{WRITER}_queryable_seconds", over="$__range")
    return [
        number_panel(
            "Linkers ready", "Processes that do their work.", "short", total(f"{LINKER}_ready")
        ),
        number_panel(
            "Writers ready", "Processes that do their work.", "short", total(f"{WRITER}_ready")
        ),
        number_panel("Flows", "Stored a second.", "cps", rate(f"{WRITER}_flows_total")),
        number_panel(
            "Waiting", "Records that nobody has handled yet.", "short", waiting, Limits(1e3, 1e5)
        ),
        number_panel(
            "Until queryable, p95",
            "From emit to when it can be traced, in all that is shown.",
            "s",
            late,
            Limits(10, 60),
        ),
        number_panel(
            "Dead letters",
            "Records that could not be used, in all that is shown: `lineage dlq list`.",
            "short",
            letters,
            Limits(1, 100),
        ),
    ]


def _throughput() -> list[Panel]:
    return [
        graph_panel(
            "Messages",
            "Kafka records a second.",
            "cps",
            Query(rate(f"{LINKER}_messages_total", "topic"), "linker, {{topic}}"),
            Query(rate(f"{LINKER}_sent_messages_total"), "linker, sent"),
            Query(rate(f"{WRITER}_messages_total"), "writer, stored"),
        ),
        graph_panel(
            "Bytes",
            "Of these records' values, a second.",
            "Bps",
            Query(rate(f"{LINKER}_bytes_total"), "linker, read"),
            Query(rate(f"{LINKER}_sent_bytes_total"), "linker, sent"),
            Query(rate(f"{WRITER}_bytes_total"), "writer, stored"),
        ),
        graph_panel(
            "Blocks",
            "Flow blocks that were stored a second.",
            "cps",
            Query(rate(f"{WRITER}_blocks_total"), "writer"),
        ),
        graph_panel(
            "Flows",
            "Rows of flow blocks a second.",
            "cps",
            Query(rate(f"{LINKER}_flows_total"), "linker"),
            Query(rate(f"{WRITER}_flows_total"), "writer"),
        ),
        graph_panel(
            "Edges",
            "Linked pairs of flows a second.",
            "cps",
            Query(rate(f"{LINKER}_edges_total"), "linker"),
            Query(rate(f"{WRITER}_edges_total"), "writer"),
        ),
        graph_panel(
            "Associations",
            "Pairs of an input and an output position a second.",
            "cps",
            Query(rate(f"{LINKER}_associations_total"), "linker"),
        ),
    ]


def _lag() -> list[Panel]:
    return [
        graph_panel(
            "Records that wait",
            "It falls again when a job ends. Where it only grows, add workers (up to one a partition).",
            "short",
            Query(total(f"{LINKER}_lag_messages", "topic"), "linker, {{topic}}"),
            Query(total(f"{WRITER}_lag_messages"), "writer"),
            span=12,
        ),
        graph_panel(
            "Age of what waits",
            "Of the oldest record in the worst partition.",
            "s",
            Query(highest(f"{LINKER}_lag_seconds", "topic"), "linker, {{topic}}"),
            Query(highest(f"{WRITER}_lag_seconds"), "writer"),
            span=12,
        ),
    ]


def _latency() -> list[Panel]:
    buckets = rate(f"{WRITER}_queryable_seconds_bucket", "le")
    return [
        quantile_panel(
            "From emit to queryable",
            "From when the last message that made blocks visible was sent until they can be traced.",
            f"{WRITER}_queryable_seconds",
        ),
        quantile_panel(
            "From emit to stored",
            "Of every record.",
            f"{WRITER}_latency_seconds",
        ),
        graph_panel(
            "Batches",
            "Seconds of the slower batches.",
            "s",
            Query(quantile(0.95, f"{LINKER}_batch_seconds"), "linker, p95"),
            Query(quantile(0.95, f"{WRITER}_batch_seconds"), "writer, p95"),
        ),
        bucket_heatmap(
            "From emit to queryable, spread", "How many took how long.", buckets, span=24
        ),
    ]


def _errors() -> list[Panel]:
    return [
        graph_panel(
            "Dead letters",
            "Records a second that could not be used: `lineage dlq list` says why.",
            "cps",
            Query(rate(f"{LINKER}_dead_letters_total"), "linker"),
            Query(rate(f"{WRITER}_dead_letters_total"), "writer"),
            span=12,
        ),
        graph_panel(
            "Retries",
            "Attempts a second that failed because a server was away, full or busy.",
            "cps",
            Query(rate(f"{LINKER}_retries_total", "server"), "linker, {{server}}"),
            Query(rate(f"{WRITER}_retries_total", "cause"), "writer, {{cause}}"),
            span=12,
        ),
        graph_panel(
            "OpenLineage",
            "Applications published a second, failed attempts, and applications that wait.",
            "short",
            Query(rate(f"{WRITER}_openlineage_runs_total", "outcome"), "{{outcome}}"),
            Query(highest(f"{WRITER}_openlineage_waiting"), "waiting"),
            span=12,
        ),
        graph_panel(
            "Ready",
            "1: the process and its servers do their work.",
            "short",
            Query(lowest(f"{LINKER}_ready", "job, instance"), "{{job}} {{instance}}"),
            Query(lowest(f"{WRITER}_ready", "job, instance"), "{{job}} {{instance}}"),
            span=12,
        ),
    ]


def _processes() -> list[Panel]:
    name = "{{job}} {{instance}}"
    return [
        graph_panel(
            "Processor",
            "Cores in use.",
            "short",
            Query(cores(f"{LINKER}_ready"), name),
            Query(cores(f"{WRITER}_ready"), name),
        ),
        graph_panel(
            "Memory",
            "Resident.",
            "bytes",
            Query(memory(f"{LINKER}_ready"), name),
            Query(memory(f"{WRITER}_ready"), name),
        ),
        graph_panel(
            "Join columns in memory",
            "The linker's cache: what it saves Redis from.",
            "bytes",
            Query(total(f"{LINKER}_cache_bytes", "job, instance"), name),
        ),
    ]
