"""The published design, measured: pairs of plain runs and runs that it captures."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.baselines.record_level.expected import EXPECTED, line_of, lines_by_split
from benchmarks.baselines.record_level.graph import RecordGraph
from benchmarks.baselines.record_level.run import settings_for
from benchmarks.baselines.record_level.sender import Target
from benchmarks.baselines.record_level.servers import (
    PARTITIONS,
    TOPIC,
    Servers,
    empty_store_bytes,
    servers_in,
)
from benchmarks.correctness import sample_rows
from benchmarks.intervals import median_interval
from benchmarks.lineage_rows import percentiles
from benchmarks.meter import Meter, Usage
from benchmarks.pairs import RECORD_LEVEL, Run, RunError, Setup, comparison_row, run_once, run_pairs
from benchmarks.totals import totals_until_queryable

WARM = 0
"""Number of the run that is for what servers compile as they go."""


@dataclass(frozen=True)
class Pass:
    """One run, loaded and linked. Times are unix seconds."""

    app: str
    run: Run
    loaded_at: float
    linked_at: float
    usage: Usage

    @property
    def queryable_s(self) -> float:
        """From the end of the last job until all flows are linked."""
        return max(0.0, self.linked_at - self.run.times.jobs_ended)


def record_row(setup: Setup, warm_source: Path, pairs: int, input_bytes: int) -> dict[str, Any]:
    """Pairs of plain runs and captured ones. ``warm_source``: a small input for a first run.

    Raises:
        RunError: a run failed, the workload is not of the published ones, or counts are not as they must be.
    """
    if setup.workload.name not in EXPECTED:
        raise RunError(f"record-level knows {', '.join(EXPECTED)}, not {setup.workload.name}")
    empty = empty_store_bytes(setup.folder / "empty")
    with servers_in(setup.folder / "servers") as servers:
        warm = through(replace(setup, source=warm_source), servers, WARM)
        passes: list[Pass] = []

        def right(number: int) -> Run:
            passes.append(through(setup, servers, number + 1))
            return passes[-1].run

        plain, captured = run_pairs(setup, pairs, right)
        counts = checked(setup, servers.graph, passes[-1].app, passes[-1].run.output)
        flows_in_all = servers.graph.counts(warm.app)["flows"] + pairs * counts["flows"]
        # A flow takes as much in each run: of the same job, each has the same properties.
        stored = (servers.stop_neo4j() - empty) * counts["flows"] / flows_in_all
    return {
        **comparison_row(plain, captured),
        "in_detail": setup.workload.published_in_detail,
        "queryable_s": median_interval([run.queryable_s for run in passes]),
        "link_s": median_interval([run.linked_at - run.loaded_at for run in passes]),
        **totals_until_queryable(plain, captured, [run.usage for run in passes]),
        **counts,
        "store_bytes": round(stored),
        "store_ratio": round(stored / input_bytes, 4),
    }


def through(setup: Setup, servers: Servers, number: int) -> Pass:
    """One captured run, loaded and linked.

    Raises:
        RunError: the job failed, or loading takes too long.
    """
    app, in_detail = f"{setup.workload.name}-{number}", setup.workload.published_in_detail
    target = Target(servers.kafka.bootstrap, TOPIC, PARTITIONS, app, in_detail)
    meter = Meter(servers.pids())
    run = run_once(setup, RECORD_LEVEL, number, settings_for(target))
    servers.until_loaded()
    loaded_at = time.time()
    servers.graph.link(app)
    return Pass(app, run, loaded_at, time.time(), meter.read())


def checked(setup: Setup, graph: RecordGraph, app: str, output: Path) -> dict[str, Any]:
    """Flows, links and traces of a run, held against plain Python over the input.

    Raises:
        RunError: they differ.
    """
    splits = lines_by_split(setup.source, setup.partitions)
    expected = EXPECTED[setup.workload.name](splits)
    stored_counts = graph.counts(app)
    if stored_counts != expected._asdict():
        raise RunError(f"found {stored_counts}, expected {expected._asdict()}")
    places = sample_rows(output, setup.workload.sampled_rows)
    expected_lines = setup.workload.witnesses(setup.source, [row for _, row in places])
    times, witnesses = [], []
    names = [_written(place) for place, _ in places]
    graph.back(app, names[0])  # once for the plan
    for name in names:
        began = time.perf_counter()
        traced = graph.back(app, name)
        times.append((time.perf_counter() - began) * 1000)
        witnesses.append({(setup.source.name, line_of(event, splits)) for event in traced})
    if witnesses != expected_lines:
        raise RunError(f"traces of {places} name other lines than there are")
    counts = [len(lines) for lines in witnesses]
    return {
        **stored_counts,
        # Each of its flows says that one record was made from another.
        "associations": stored_counts["flows"],
        "flows_expected": expected.flows,
        "links_expected": expected.links,
        "witnesses": {
            "rows": len(places),
            "expected": sum(map(len, expected_lines)),
            "found": sum(counts),
            "superset_rows": 0,
        },
        "trace": {
            "rows": len(places),
            "positions": percentiles(times),
            "points": sorted(
                [count, round(ms, 3)] for count, ms in zip(counts, times, strict=True)
            ),
        },
    }


def _written(place: str) -> str:
    """``.../part-00002:7`` -> ``write#2#6``."""
    path, _, line = place.rpartition(":")
    return f"write#{int(path.rpartition('-')[2])}#{int(line) - 1}"
