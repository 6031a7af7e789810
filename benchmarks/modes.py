"""The ways in which a workload is run and measured, by name."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.baselines.record_level.row import record_row
from benchmarks.catalog import WORKLOADS, Workload, input_bytes
from benchmarks.deployed import deployed_row
from benchmarks.kafka import broker
from benchmarks.lineage_rows import lineage_row
from benchmarks.pairs import (
    AGAIN,
    KAFKA,
    PLAIN,
    RECORD_LEVEL,
    SPOOL,
    Setup,
    comparison_row,
    run_pairs,
)
from benchmarks.pipeline import pipeline_row
from benchmarks.totals import totals_until_queryable
from lineage_kafka.topics import Topics

WARM_BYTES = 1_000_000
EMISSION_PARTITIONS = 8
"""Of the topic that emission is measured with."""
IN_DETAIL = {"LINEAGE_DETAILED": "true"}


@dataclass(frozen=True)
class Job:
    """A workload, ready to be run."""

    setup: Setup
    pairs: int
    input_bytes: int
    warm_source: Path
    """A small input of the same kind."""
    kafka: str = ""
    """HOST:PORT of a Kafka to emit to; empty: one of its own."""

    def of(self, *kinds: str, **settings: Mapping[str, str]) -> Setup:
        """These two kinds of runs; environment variables by kind."""
        first, second = kinds
        return replace(self.setup, kinds=(first, second), settings=settings)


def spool(job: Job, settings: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Plain, and captured to the spool, linked into SQLite."""
    setup = job.of(PLAIN, SPOOL, **{SPOOL: settings or {}})
    plain, captured = run_pairs(setup, job.pairs)
    return {
        **comparison_row(plain, captured),
        **totals_until_queryable(plain, captured),
        **lineage_row(setup, captured, job.input_bytes),
    }


def detailed(job: Job) -> dict[str, Any]:
    """As spool, at every operator, with values."""
    return spool(job, IN_DETAIL)


def again(job: Job) -> dict[str, Any]:
    """Plain, and plain: what noise alone looks like."""
    return comparison_row(*run_pairs(job.of(PLAIN, AGAIN), job.pairs))


def kafka(job: Job, settings: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Plain, and captured through Kafka, linker and writer into Neo4j."""
    return pipeline_row(job.of(PLAIN, KAFKA, **{KAFKA: settings or {}}), job.pairs, job.input_bytes)


def kafka_detailed(job: Job) -> dict[str, Any]:
    """As kafka, at every operator, with values."""
    return kafka(job, IN_DETAIL)


def deployed(job: Job) -> dict[str, Any]:
    """Plain, and captured through the pipeline that LINEAGE_KAFKA and LINEAGE_STORE name."""
    return deployed_row(job.of(PLAIN, KAFKA), job.pairs)


def emission(job: Job) -> dict[str, Any]:
    """Captured runs that only emit: to the spool, and to Kafka."""
    with _kafka_settings(job) as over_kafka:
        settings = {SPOOL: {"LINEAGE_LINK": "false"}, KAFKA: over_kafka}
        return comparison_row(*run_pairs(job.of(SPOOL, KAFKA, **settings), job.pairs))


@contextmanager
def _kafka_settings(job: Job) -> Iterator[Mapping[str, str]]:
    """Environment variables of runs that send to the Kafka that is named, or to one for the while."""
    if job.kafka:
        login = {name: os.environ[name] for name in os.environ if name.startswith("LINEAGE_KAFKA_")}
        yield {**login, "LINEAGE_DISPATCHER": "kafka", "LINEAGE_KAFKA": job.kafka}
        return
    topics = Topics()
    partitions_by_topic = {topics.flow: EMISSION_PARTITIONS, topics.node: 1}
    with broker(job.setup.folder / "broker", partitions_by_topic) as server:
        yield server.settings()


def record_level(job: Job) -> dict[str, Any]:
    """Plain, and captured by the published design: an event and a node a record, linked by APOC."""
    return record_row(job.of(PLAIN, RECORD_LEVEL), job.warm_source, job.pairs, job.input_bytes)


MODES: dict[str, Callable[[Job], dict[str, Any]]] = {
    PLAIN: again,
    SPOOL: spool,
    "detailed": detailed,
    KAFKA: kafka,
    "kafka-detailed": kafka_detailed,
    "deployed": deployed,
    "emission": emission,
    RECORD_LEVEL: record_level,
}


def mode_row(name: str, mode: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run the pairs of one workload in one mode.

    Raises:
        RunError: a run failed, outputs differ, or lineage is not as it must be; no figure counts then.
    """
    job = _job(WORKLOADS[name], mode, options)
    return {
        "benchmark": name,
        "mode": mode,
        "input_bytes": job.input_bytes,
        "pairs": options.pairs,
        "partitions": options.partitions,
        "local_cores": options.cores,
        "outputs_identical": True,
        **MODES[mode](job),
    }


def _job(workload: Workload, mode: str, options: argparse.Namespace) -> Job:
    folder: Path = options.folder.resolve()
    inputs = folder / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    source = workload.prepare(inputs, options.rows if workload.by_rows else options.size)
    # Only the published workloads are warmed on a small input, and these are sized by bytes.
    warm = source if workload.by_rows else workload.prepare(inputs, min(options.size, WARM_BYTES))
    setup = Setup(
        workload, source, folder / f"{workload.name}-{mode}", options.partitions, options.cores
    )
    return Job(setup, options.pairs, input_bytes(source), warm, options.kafka)
