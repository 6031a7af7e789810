"""TPC queries as DataFrame jobs: recorded, traced row by row, materialised; one JSON line for all of them.

    python -m benchmarks.frames --suite tpcds --scale 0.1 --passes 3 --json-out benchmarks/results/frames.jsonl

Each pass runs every query (``collect``), plain and recorded in turn (A B B A), after one that only warms up:
``job_ratio`` is recorded over plain, pass by pass, until all is recorded, ``cpu_ratio`` the same in CPU seconds of Spark and the
program. Then each query is looked at by itself, unless ``--rows 0``.
``result``: exact, superset (with reasons), refused (with the reason), failed (an error of ours), wrong (a row was
not given again by the query run on its witnesses alone, or on these and the tables of which it wants rows absent, or
by the plan with each reading of a table reduced to what it gave; or the plan rebuilt from the recipe alone gave other rows),
or empty (the query gives no row at this scale). In milliseconds: ``plain`` and ``noted`` of the query (medians of the
passes), ``noting`` of its recipe (from the plan to its text) alone, ``traces`` of single rows, ``write`` of its rows to Parquet (from its
text, as a job does) and ``materialise`` of that output (in turn, medians of the rounds, after one that only warms up).
Each query is reported on stderr when it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.frames_oracle import (
    ParquetTables,
    rebuild,
    rebuild_separately,
    same_rows,
    same_value,
)
from benchmarks.intervals import median_interval
from benchmarks.meter import cpu_s
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from benchmarks.tpc import SETTINGS, SUITES, make_tables, queries


def run_passes(spark: Any, texts: Mapping[int, str], many: int, folder: Path) -> dict[str, Any]:
    """Run all queries ``many`` times plain and recorded; how long each took, and all of them."""
    from lineage_emitter import LineageContext

    times: dict[str, defaultdict[int, list[float]]] = {
        kind: defaultdict(list) for kind in ("plain", "noted")
    }
    totals: dict[str, list[float]] = {"plain": [], "noted": []}
    spent: dict[str, list[float]] = {"plain": [], "noted": []}
    store = f"sqlite:///{folder / 'passes.db'}"
    for number in range(many + 1) if many else ():
        # Java still gets quicker: whichever comes second would win.
        pair = ("plain", "noted") if number % 2 else ("noted", "plain")
        for kind in pair if number else ("plain",):
            context = LineageContext(spark.sparkContext, store=store) if kind == "noted" else None
            started, before = time.perf_counter(), cpu_s(os.getpid())
            with context or nullcontext():
                for query, text in texts.items():
                    _, elapsed = _run_timed(lambda text=text: spark.sql(text).collect())
                    if number:
                        times[kind][query].append(elapsed)
                if context is not None and context.session is not None:
                    context.session.frames.wait_until_recorded()
                if number:
                    totals[kind].append(time.perf_counter() - started)
                    spent[kind].append(cpu_s(os.getpid()) - before)
    return {
        "job_ratio": _noted_ratio(totals),
        "cpu_ratio": _noted_ratio(spent),
        "pass_s": {
            kind: [round(seconds, 1) for seconds in timings] for kind, timings in totals.items()
        },
        "times": {
            kind: {query: statistics.median(timings) for query, timings in of.items()}
            for kind, of in times.items()
        },
    }


def _noted_ratio(timings: Mapping[str, Sequence[float]]) -> dict[str, Any] | None:
    ratios = [
        recorded / plain for recorded, plain in zip(timings["noted"], timings["plain"], strict=True)
    ]
    return median_interval(ratios) if ratios else None


def trace_query(
    spark: Any, tables: ParquetTables, query: str, folder: Path, rows_max: int, rounds: int
) -> dict[str, Any]:
    """Note, rebuild, trace and materialise a query."""
    from lineage_core.recipe.document import Recipe
    from lineage_dataframes.errors import FramesError
    from lineage_emitter.dataframes.plans import recipe_of

    tables.views(spark)
    frame = spark.sql(query)
    output = frame.collect()
    text, recipe_seconds = _run_timed(lambda: recipe_of(frame).to_json())
    row: dict[str, Any] = {"rows": len(output), "noting": recipe_seconds, "recipe_bytes": len(text)}
    recipe = Recipe.from_json(text)
    try:
        if not same_rows(output, rebuild(spark, recipe)):
            return {**row, "result": "wrong", "reasons": ["the plan rebuilt gives other rows"]}
        if not output:
            return {**row, "result": "empty"}
        row |= _trace_rows(spark, tables, query, recipe, output, folder, rows_max)
        if rounds and row["result"] != "wrong":
            tables.views(spark)
            row |= _materialise(spark, query, folder, rounds)
    except FramesError as problem:
        return {**row, "result": "refused", "reasons": [str(problem)]}
    except Exception as problem:
        # An error of the program: the other queries still are worth their rows.
        return {**row, "result": "failed", "reasons": [repr(problem)[:500]]}
    return row


def _trace_rows(
    spark: Any,
    tables: ParquetTables,
    query: str,
    recipe: Any,
    output: Sequence[Any],
    folder: Path,
    rows_max: int,
) -> dict[str, Any]:
    from lineage_dataframes.trace.backward import trace_backward

    reasons: list[str] = []
    fields: dict[str, Any] = {"traces": [], "witnesses": []}
    places = sorted({n * (len(output) - 1) // max(1, rows_max - 1) for n in range(rows_max)})
    for place in places:
        row = tuple(output[place])
        traced, seconds = _run_timed(
            lambda row=row: trace_backward(spark, recipe, [row], is_in_output=True)
        )
        fields["traces"].append(seconds)
        fields["witnesses"].append(traced.count)
        reasons += traced.reasons
        recomputed: list[Any] = []
        # A row may be there because others are absent, which no witness says.
        for whole in dict.fromkeys([(), tuple(tables.absent_in(recipe))]):
            if not any(same_value(row, tuple(value)) for value in recomputed):
                tables.only(spark, traced, folder / f"{place}-{len(whole)}", whole)
                recomputed = spark.sql(query).collect()
        if not any(same_value(row, tuple(value)) for value in recomputed):
            # A table that is read twice: what one reading gave may be in the way in the other.
            recomputed = rebuild_separately(spark, recipe, row, traced)
        if not any(same_value(row, tuple(value)) for value in recomputed):
            return {**fields, "result": "wrong", "reasons": [f"row {place} is not given again"]}
    distinct_reasons = list(dict.fromkeys(reasons))
    return {
        **fields,
        "result": "superset" if distinct_reasons else "exact",
        "reasons": distinct_reasons,
    }


def _materialise(spark: Any, query: str, folder: Path, rounds: int) -> dict[str, Any]:
    """How long the write of a query's rows takes, and materialising them; why not, where they can't be."""
    from lineage.materialising import materialise
    from lineage_emitter import LineageContext
    from lineage_store.url import open_store

    def write(name: str) -> None:
        frame = spark.sql(query)
        renamed = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
        renamed.write.parquet(str(folder / name))

    url = f"sqlite:///{folder / 'lineage.db'}"
    with LineageContext(spark.sparkContext, store=url) as context:
        write("noted")
    row: dict[str, Any] = {}
    writes, takes = [], []
    for number in range(rounds + 1):
        _, plain = _run_timed(lambda n=number: write(f"plain-{n}"))
        with open_store(url) as store:
            pairs, seconds = _run_timed(
                lambda store=store, n=number: materialise(store, url, context.app, again=n > 0)
            )
        if pairs.refused:
            return {"write": plain, "not_materialised": next(iter(pairs.refused.values()))}
        # As the passes: of two that are compared neither is to be the one that Java compiles first.
        if number:
            writes.append(plain)
            takes.append(seconds)
        row["associations"] = pairs.associations
    return {**row, "write": statistics.median(writes), "materialise": statistics.median(takes)}


def _run_timed(call: Any) -> tuple[Any, float]:
    started = time.perf_counter()
    value = call()
    return value, round((time.perf_counter() - started) * 1000, 1)


def summary_row(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the queries say together. Ratios are over the query's own time (a write's, of materialising)."""
    traced = [
        (trace_seconds, seconds["plain"])
        for seconds in rows
        for trace_seconds in seconds.get("traces", ())
        if seconds.get("plain") is not None
    ]
    materialise_ratios = [
        seconds["materialise"] / seconds["write"] for seconds in rows if "materialise" in seconds
    ]
    return {
        "results": dict(Counter(seconds["result"] for seconds in rows)),
        "trace_more_ms": _quantiles([trace_seconds - plain for trace_seconds, plain in traced]),
        "trace_ratio": _quantiles([trace_seconds / plain for trace_seconds, plain in traced]),
        "materialise_ratio": _quantiles(materialise_ratios),
        "noting_ms": _quantiles([seconds["noting"] for seconds in rows]),
        "recipe_bytes": _quantiles([seconds["recipe_bytes"] for seconds in rows]),
    }


def _quantiles(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    ordered = sorted(values)
    at = min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))
    return {
        "median": round(statistics.median(ordered), 3),
        "p95": round(ordered[at], 3),
        "max": round(ordered[-1], 3),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frames", description=__doc__)
    parser.add_argument("--suite", choices=SUITES, default="tpcds")
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--folder", type=Path, default=Path("build/tpc"), help="for the tables")
    parser.add_argument("--queries", help="their numbers, with commas between; all")
    parser.add_argument(
        "--rows", type=int, default=3, help="output rows to trace of each query; 0: passes alone"
    )
    parser.add_argument("--passes", type=int, default=1, help="pairs of runs of all queries")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of each write and materialising; 0: none"
    )
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json-out", type=Path, help="append the line to this file, too")
    options = parser.parse_args(arguments)

    from pyspark.sql import SparkSession

    folder = options.folder.resolve() / f"{options.suite}-{options.scale:g}"
    tables = ParquetTables(folder, make_tables(options.suite, options.scale, folder))
    builder = SparkSession.builder.master(options.master).config("spark.ui.enabled", "false")
    quiet = {"spark.driver.memory": "4g", "spark.ui.showConsoleProgress": "false"}
    for name, value in {**SETTINGS, **quiet}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    texts = queries(options.suite)
    if options.queries:
        texts = {int(query_row): texts[int(query_row)] for query_row in options.queries.split(",")}
    tables.views(spark)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        ran = run_passes(spark, texts, options.passes, Path(scratch))
    times = ran.pop("times")
    for number, text in texts.items() if options.rows else ():
        with tempfile.TemporaryDirectory() as scratch:
            query_row = trace_query(
                spark, tables, text, Path(scratch), options.rows, options.rounds
            )
        query_row = {
            "query": number,
            **query_row,
            **{kind: of.get(number) for kind, of in times.items()},
        }
        rows.append(query_row)
        print(json.dumps(query_row), file=sys.stderr, flush=True)
    spark.stop()
    about = {
        "bench": "frames",
        "suite": options.suite,
        "scale": options.scale,
        "passes": options.passes,
    }
    row = {**about, **ran, **summary_row(rows), "queries": rows, "provenance": provenance()}
    put_out(row, options.json_out)
    return int(any(seconds["result"] in {"wrong", "failed"} for seconds in rows))


if __name__ == "__main__":
    sys.exit(main())
