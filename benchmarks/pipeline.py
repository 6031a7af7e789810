"""A captured job through Kafka, linker and writer into Neo4j: how long, how much, how fast to trace.

Plain runs and runs with the dispatcher ``kafka`` take turns against a stack of its own; the row says
what every part of the pipeline needed until the lineage could be asked for.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from benchmarks.correctness import witness_counts
from benchmarks.intervals import median_interval
from benchmarks.lineage_rows import trace_times
from benchmarks.meter import Meter, Usage
from benchmarks.pairs import KAFKA, Run, Setup, comparison_row, run_once, run_pairs
from benchmarks.stack import Stack, arrived, complete, stack
from benchmarks.totals import totals_until_queryable
from lineage_core.contract.verdict import Verdict
from lineage_store.port import GraphStore
from lineage_store.url import open_store

WARM = 0
"""Number of the run that is for caches, and for what servers compile as they go."""


@dataclass(frozen=True)
class Pass:
    """One run through a pipeline."""

    run: Run
    app: str
    verdict: Verdict
    complete_at: float

    @property
    def queryable_s(self) -> float:
        """From the end of the last job until the verdict is complete."""
        return max(0.0, self.complete_at - self.run.times.jobs_ended)


@dataclass(frozen=True)
class MeteredPass(Pass):
    """The same through a pipeline of its own, whose processes can be measured."""

    usage: Usage
    redis_peak_bytes: int


def pipeline_row(setup: Setup, pairs: int, input_bytes: int) -> dict[str, Any]:
    """Pairs of plain runs and runs through a pipeline of its own.

    Raises:
        RunError: a run failed, or its lineage never became complete.
    """
    with stack(setup.folder / "stack") as servers:
        empty = servers.stop()
        servers.start()
        run_through_pipeline(setup, servers, WARM)
        passes: list[MeteredPass] = []

        def right(number: int) -> Run:
            passes.append(run_through_pipeline(setup, servers, number + 1))
            return passes[-1].run

        plain, captured = run_pairs(setup, pairs, right)
        with open_store(servers.settings["LINEAGE_STORE"]) as store:
            last_pass = passes[-1]
            remains = what_is_stored(setup, store, last_pass.run, last_pass.app, last_pass.verdict)
        # All runs wrote the same, the one for the caches, too.
        stored = (servers.stop() - empty) / (pairs + 1)
    return {
        **comparison_row(plain, captured),
        "queryable_s": median_interval([run.queryable_s for run in passes]),
        **totals_until_queryable(plain, captured, [run.usage for run in passes]),
        **remains,
        **_rates(passes, remains),
        "redis_peak_ratio": round(
            _median([run.redis_peak_bytes for run in passes]) / input_bytes, 4
        ),
        "store_bytes": round(stored),
        "store_ratio": round(stored / input_bytes, 4),
    }


def run_through_pipeline(setup: Setup, servers: Stack, number: int) -> MeteredPass:
    """One captured run, and the wait for its lineage."""
    with servers.redis() as redis:
        redis.flushall()
        redis.config_resetstat()
        base = int(redis.info("memory")["used_memory"])
        meter = Meter(servers.pids())
        with open_store(servers.settings["LINEAGE_STORE"]) as store:
            before = set(store.application_ids())
            run = run_once(setup, KAFKA, number, servers.settings)
            app = arrived(store, before)
            verdict, complete_at = complete(store, app)
            usage = meter.read()
        peak = int(redis.info("memory")["used_memory_peak"])
    return MeteredPass(run, app, verdict, complete_at, usage, peak - base)


def what_is_stored(
    setup: Setup, store: GraphStore, run: Run, app: str, verdict: Verdict
) -> dict[str, Any]:
    """What a run's lineage in the store says, and how fast."""
    whereabouts = (store, app, setup.folder / "index")
    (application,) = (application for application in store.applications() if application.app == app)
    return {
        "associations": application.associations,
        "flows": verdict.flows,
        "blocks": verdict.blocks_linked,
        "complete": verdict.complete,
        "linker_pairs": _linked_pairs(store, app),
        "witnesses": witness_counts(setup, run.output, *whereabouts),
        "trace": trace_times(*whereabouts),
    }


def _linked_pairs(store: GraphStore, app: str) -> int:
    graph = store.graph(app)
    consumers = [
        ref.block_id
        for node in graph.nodes()
        for space in graph.spaces_of(node.node)
        for ref in graph.blocks_into(space, 0, 2**64 - 1)
    ]
    return sum(edge.pairs for edge in graph.edges_into(dict.fromkeys(consumers)))


def _rates(passes: list[MeteredPass], stored: dict[str, Any]) -> dict[str, int]:
    linker_s = _median([run.usage.cpu_s["linker"] for run in passes])
    return {
        "linker_associations_per_s": round(stored["associations"] / linker_s),
        "linker_pairs_per_s": round(stored["linker_pairs"] / linker_s),
    }


def _median(values: list[Any]) -> float:
    return float(statistics.median(values))
