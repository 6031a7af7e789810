"""TPC queries as DataFrame jobs: noted, traced row by row, materialised; one JSON line for all of them.

    python -m benchmarks.frames --suite tpcds --scale 0.1 --passes 3 --json-out benchmarks/results/frames.jsonl

Each pass runs every query (``collect``), plain and noted in turn (A B B A), after one that only warms up:
``job_ratio`` is noted over plain, pass by pass, until all is noted, ``cpu_ratio`` the same in CPU seconds of Spark and the
program. Then each query is looked at by itself, unless ``--rows 0``.
``result``: exact, superset (with reasons), refused (with the reason), failed (an error of ours), wrong (a row was
not given again by the query run on its witnesses alone, or on these and the tables of which it wants rows absent, or
by the plan with each reading of a table reduced to what it gave; or the plan rebuilt from the recipe alone gave other rows),
or empty (the query gives no row at this scale). In milliseconds: ``plain`` and ``noted`` of the query (medians of the
passes), ``noting`` of its recipe (from the plan to its text) alone, ``traces`` of single rows, ``write`` of its rows to Parquet (from its
text, as a job does) and ``materialise`` of that output (in turn, medians of the rounds, after one that only warms up).
Each query is told on stderr as it is done.
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

from benchmarks.frames_oracle import ParquetTables, rebuilt, rebuilt_apart, same, same_rows
from benchmarks.intervals import median_interval
from benchmarks.meter import cpu_s
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from benchmarks.tpc import SETTINGS, SUITES, make_tables, queries


def passes(spark: Any, texts: Mapping[int, str], many: int, folder: Path) -> dict[str, Any]:
    """Run all queries ``many`` times plain and noted; how long each took, and all of them."""
    from lineage_emitter import LineageContext

    times: dict[str, defaultdict[int, list[float]]] = {
        kind: defaultdict(list) for kind in ("plain", "noted")
    }
    totals: dict[str, list[float]] = {"plain": [], "noted": []}
    spent: dict[str, list[float]] = {"plain": [], "noted": []}
    store = f"sqlite:///{folder / 'passes.db'}"
    for number in range(many + 1):
        # Java still gets quicker: whichever comes second would win.
        pair = ("plain", "noted") if number % 2 else ("noted", "plain")
        for kind in pair if number else ("plain",):
            context = LineageContext(spark.sparkContext, store=store) if kind == "noted" else None
            begun, before = time.perf_counter(), cpu_s(os.getpid())
            with context or nullcontext():
                for query, text in texts.items():
                    _, taken = _timed(lambda text=text: spark.sql(text).collect())
                    if number:
                        times[kind][query].append(taken)
                if context is not None and context.session is not None:
                    context.session.frames.settle()
                if number:
                    totals[kind].append(time.perf_counter() - begun)
                    spent[kind].append(cpu_s(os.getpid()) - before)
    return {
        "job_ratio": _ratio(totals),
        "cpu_ratio": _ratio(spent),
        "pass_s": {kind: [round(one, 1) for one in found] for kind, found in totals.items()},
        "times": {
            kind: {query: statistics.median(found) for query, found in of.items()}
            for kind, of in times.items()
        },
    }


def _ratio(found: Mapping[str, Sequence[float]]) -> dict[str, Any] | None:
    ratios = [noted / plain for noted, plain in zip(found["noted"], found["plain"], strict=True)]
    return median_interval(ratios) if ratios else None


def looked_at(
    spark: Any, tables: ParquetTables, query: str, folder: Path, rows_max: int, rounds: int
) -> dict[str, Any]:
    """Note, rebuild, trace and materialise a query."""
    from lineage_core.recipe.document import Recipe
    from lineage_dataframes.errors import FramesError
    from lineage_emitter.dataframes.plans import recipe_of

    tables.views(spark)
    frame = spark.sql(query)
    output = frame.collect()
    text, noting = _timed(lambda: recipe_of(frame).to_json())
    found: dict[str, Any] = {"rows": len(output), "noting": noting, "recipe_bytes": len(text)}
    recipe = Recipe.from_json(text)
    try:
        if not same_rows(output, rebuilt(spark, recipe)):
            return {**found, "result": "wrong", "reasons": ["the plan rebuilt gives other rows"]}
        if not output:
            return {**found, "result": "empty"}
        found |= _traced(spark, tables, query, recipe, output, folder, rows_max)
        if rounds and found["result"] != "wrong":
            tables.views(spark)
            found |= _materialised(spark, query, folder, rounds)
    except FramesError as problem:
        return {**found, "result": "refused", "reasons": [str(problem)]}
    except Exception as problem:
        # An error of the program: the other queries still are worth their rows.
        return {**found, "result": "failed", "reasons": [repr(problem)[:500]]}
    return found


def _traced(
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
    found: dict[str, Any] = {"traces": [], "witnesses": []}
    places = sorted({n * (len(output) - 1) // max(1, rows_max - 1) for n in range(rows_max)})
    for place in places:
        row = tuple(output[place])
        traced, taken = _timed(
            lambda row=row: trace_backward(spark, recipe, [row], is_in_output=True)
        )
        found["traces"].append(taken)
        found["witnesses"].append(traced.count)
        reasons += traced.reasons
        again: list[Any] = []
        # A row may be there because others are absent, which no witness says.
        for whole in dict.fromkeys([(), tuple(tables.absent_in(recipe))]):
            if not any(same(row, tuple(one)) for one in again):
                tables.only(spark, traced, folder / f"{place}-{len(whole)}", whole)
                again = spark.sql(query).collect()
        if not any(same(row, tuple(one)) for one in again):
            # A table that is read twice: what one reading gave may be in the way in the other.
            again = rebuilt_apart(spark, recipe, row, traced)
        if not any(same(row, tuple(one)) for one in again):
            return {**found, "result": "wrong", "reasons": [f"row {place} is not given again"]}
    listed = list(dict.fromkeys(reasons))
    return {**found, "result": "superset" if listed else "exact", "reasons": listed}


def _materialised(spark: Any, query: str, folder: Path, rounds: int) -> dict[str, Any]:
    """How long the write of a query's rows takes, and materialising them; why not, where they can't be."""
    from lineage.materialising import materialise
    from lineage_emitter import LineageContext
    from lineage_store.url import open_store

    def write(name: str) -> None:
        frame = spark.sql(query)
        named = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
        named.write.parquet(str(folder / name))

    url = f"sqlite:///{folder / 'lineage.db'}"
    with LineageContext(spark.sparkContext, store=url) as context:
        write("noted")
    found: dict[str, Any] = {}
    writes, takes = [], []
    for number in range(rounds + 1):
        _, plain = _timed(lambda n=number: write(f"plain-{n}"))
        with open_store(url) as store:
            made, taken = _timed(
                lambda store=store, n=number: materialise(store, url, context.app, again=n > 0)
            )
        if made.refused:
            return {"write": plain, "not_materialised": next(iter(made.refused.values()))}
        # As the passes: of two that are compared neither is to be the one that Java compiles first.
        if number:
            writes.append(plain)
            takes.append(taken)
        found["associations"] = made.associations
    return {**found, "write": statistics.median(writes), "materialise": statistics.median(takes)}


def _timed(call: Any) -> tuple[Any, float]:
    begun = time.perf_counter()
    value = call()
    return value, round((time.perf_counter() - begun) * 1000, 1)


def summary(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the queries say together. Ratios are over the query's own time (a write's, of materialising)."""
    traced = [
        (taken, one["plain"])
        for one in found
        for taken in one.get("traces", ())
        if one.get("plain") is not None
    ]
    made = [one["materialise"] / one["write"] for one in found if "materialise" in one]
    return {
        "results": dict(Counter(one["result"] for one in found)),
        "trace_more_ms": _quantiles([taken - plain for taken, plain in traced]),
        "trace_ratio": _quantiles([taken / plain for taken, plain in traced]),
        "materialise_ratio": _quantiles(made),
        "noting_ms": _quantiles([one["noting"] for one in found]),
        "recipe_bytes": _quantiles([one["recipe_bytes"] for one in found]),
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
    asked = parser.parse_args(arguments)

    from pyspark.sql import SparkSession

    folder = asked.folder.resolve() / f"{asked.suite}-{asked.scale:g}"
    tables = ParquetTables(folder, make_tables(asked.suite, asked.scale, folder))
    builder = SparkSession.builder.master(asked.master).config("spark.ui.enabled", "false")
    quiet = {"spark.driver.memory": "4g", "spark.ui.showConsoleProgress": "false"}
    for name, value in {**SETTINGS, **quiet}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    texts = queries(asked.suite)
    if asked.queries:
        texts = {int(one): texts[int(one)] for one in asked.queries.split(",")}
    tables.views(spark)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        ran = passes(spark, texts, asked.passes, Path(scratch))
    times = ran.pop("times")
    for number, text in texts.items() if asked.rows else ():
        with tempfile.TemporaryDirectory() as scratch:
            one = looked_at(spark, tables, text, Path(scratch), asked.rows, asked.rounds)
        one = {"query": number, **one, **{kind: of.get(number) for kind, of in times.items()}}
        found.append(one)
        print(json.dumps(one), file=sys.stderr, flush=True)
    spark.stop()
    about = {"bench": "frames", "suite": asked.suite, "scale": asked.scale, "passes": asked.passes}
    row = {**about, **ran, **summary(found), "queries": found, "provenance": provenance()}
    put_out(row, asked.json_out)
    return int(any(one["result"] in {"wrong", "failed"} for one in found))


if __name__ == "__main__":
    sys.exit(main())
