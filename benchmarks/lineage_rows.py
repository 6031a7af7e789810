"""What the last captured run left behind: its size, its verdict, how fast it answers."""

from __future__ import annotations

import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.correctness import witness_counts
from benchmarks.intervals import median_interval
from benchmarks.pairs import Run, RunError, Setup
from lineage_core.contract.address import parse_space
from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.region import Region
from lineage_core.contract.verdict import Verdict, judge
from lineage_core.tracing.trace_result import Direction, TraceResult
from lineage_core.tracing.tracer import Tracer
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.port import GraphStore
from lineage_store.sqlite.store import SqliteStore

SEED = 17
ROWS_ASKED = 200
WITNESSES_MAX = 1_000
CANDIDATES_MAX = 10_000
CANDIDATES_S = 30.0
"""Looking for rows to ask about stops then: where each has a million witnesses, few are counted."""
WIDE_ROWS = 5
ROWS_A_DECADE = 5
Row = TypeVar("Row")


def lineage_row(setup: Setup, captured: Sequence[Run], input_bytes: int) -> dict[str, Any]:
    """Figures of the lineage itself.

    Raises:
        RunError: the last run's lineage is not complete, or a trace is wrong.
    """
    last_run = captured[-1]
    size = sum(path.stat().st_size for path in last_run.lineage.rglob("*") if path.is_file())
    store, index = SqliteStore(last_run.lineage / "lineage.db"), last_run.lineage / "index"
    try:
        (application,) = store.applications()
        verdict = judge(
            store.messages(application.app), store.counts(application.app), now=time.time()
        )
        if not verdict.complete:
            raise RunError(f"lineage of {last_run.home} is incomplete: {verdict.reasons}")
        return {
            "store_bytes": size,
            "store_ratio": round(size / input_bytes, 4),
            "associations": application.associations,
            **_verdict(verdict),
            **queryable(captured),
            "witnesses": witness_counts(setup, last_run.output, store, application.app, index),
            "trace": trace_times(store, application.app, index),
        }
    finally:
        store.close()


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "complete": verdict.complete,
        "flows": verdict.flows,
        "blocks": verdict.blocks_linked,
        "tasks": verdict.tasks_committed,
        "unmatched": verdict.unmatched,
        "collisions": verdict.collisions,
        "superset_nodes": len(verdict.superset),
    }


def queryable(captured: Sequence[Run]) -> dict[str, Any]:
    """Seconds from the end of the last job until all of it is linked and stored (its last write)."""
    return {
        "queryable_s": median_interval([run.queryable_s for run in captured]),
        "queryable_ratio": median_interval(
            [run.queryable_s / run.times.jobs_s for run in captured]
        ),
    }


def trace_times(store: GraphStore, app: str, index: Path) -> dict[str, Any]:
    """Times of backward traces in this process, in milliseconds.

    ``positions``: rows of the output chosen at random among those with up to ``WITNESSES_MAX``
    witnesses; where none has so few, some are asked all the same, without texts. ``texts``: the same
    with the text of each witness; the first of them, which builds the index of the input, is given
    apart. ``top``: the row with the most witnesses, counts only. ``points``: witnesses and
    milliseconds of rows with few to many of them.
    """
    graph = store.graph(app)
    counts = counted_rows(graph)
    narrow = [row for row, count in counts.items() if count <= WITNESSES_MAX][:ROWS_ASKED]
    traced_rows = narrow or list(counts)[:WIDE_ROWS]
    top = max(counts, key=lambda row: counts[row])
    tracer = Tracer(graph)
    return {
        "rows": len(traced_rows),
        "witnesses_p50": statistics.median(counts[row] for row in traced_rows),
        "witnesses_max": max(counts[row] for row in traced_rows),
        "positions": percentiles([_milliseconds(partial(_back, tracer, r)) for r in traced_rows]),
        **(_texts(store, app, index, narrow) if narrow else {}),
        "top_witnesses": counts[top],
        "top_counts_first_ms": round(_milliseconds(lambda: _back(Tracer(graph), top)), 2),
        "top_counts": percentiles([_milliseconds(lambda: _back(tracer, top)) for _ in range(20)]),
        "points": [
            [counts[row], round(_milliseconds(partial(_back, tracer, row)), 3)]
            for row in spread(counts)
        ],
    }


def spread(counts: Mapping[Row, int]) -> list[Row]:
    """Up to ``ROWS_A_DECADE`` rows with 1 to 9 witnesses, as many with 10 to 99, and so on."""
    decades: defaultdict[int, list[Row]] = defaultdict(list)
    for row, count in counts.items():
        decades[len(str(count))].append(row)
    chosen = [row for rows in decades.values() for row in rows[:ROWS_A_DECADE]]
    return sorted(chosen, key=lambda row: counts[row])


def counted_rows(graph: FlowGraph) -> dict[tuple[str, int], int]:
    """Rows of the output, (space, position), chosen at random, with their number of witnesses."""
    sink = next(node.node for node in graph.nodes() if node.kind == "sink")
    rows = _output_rows(graph, sink)
    random.Random(SEED).shuffle(rows)
    return _counted(graph, rows[:CANDIDATES_MAX])


def _texts(
    store: GraphStore, app: str, index: Path, rows: Sequence[tuple[str, int]]
) -> dict[str, Any]:
    """Times of traces with the text of each witness."""
    fresh = _milliseconds(lambda: _ask(QueryEngine(store, RowReader(index)), app, rows[0]))
    query_engine = QueryEngine(store, RowReader(index))
    return {
        "texts_first_ms": round(fresh, 2),
        "texts": percentiles([_milliseconds(partial(_ask, query_engine, app, r)) for r in rows]),
    }


def _output_rows(graph: FlowGraph, sink: str) -> list[tuple[str, int]]:
    """(space, position) of every row that a sink wrote."""
    partitions = {parse_space(space).partition: space for space in graph.spaces_of(sink)}
    return [
        (partitions[file.partition], row)
        for file in graph.sink_files(sink)
        for row in range(file.rows or 0)
        if file.partition in partitions
    ]


def _counted(graph: FlowGraph, rows: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
    tracer, stop_at = Tracer(graph), time.monotonic() + CANDIDATES_S
    counts: dict[tuple[str, int], int] = {}
    for row in rows:
        counts[row] = _back(tracer, row).count
        if time.monotonic() > stop_at:
            break
    return counts


def _back(tracer: Tracer, row: tuple[str, int]) -> TraceResult:
    space, position = row
    return tracer.trace(Direction.BACKWARD, {space: Region.from_positions([position])})


def _ask(query_engine: QueryEngine, app: str, row: tuple[str, int]) -> object:
    return query_engine.ask(TraceQuery(Direction.BACKWARD, (f"{row[0]}#{row[1]}",), app=app))


def _milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def percentiles(times: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile of times in milliseconds."""
    ordered = sorted(times)
    return {
        "p50_ms": round(statistics.median(ordered), 2),
        "p95_ms": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 2),
    }
