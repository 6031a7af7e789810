"""Traces of TPC queries' rows, checked by running each query on the witnesses alone: one JSON line a query.

    scripts/java.sh exec .venv/bin/python -m benchmarks.frames --suite tpcds --scale 0.05 --folder build/tpc

``result``: exact, superset (with reasons), refused (with the reason), failed (an error of ours), wrong (a row was not given again, or
the plan rebuilt from the recipe alone gave other rows), or empty (the query gives no row at this scale).
Milliseconds: ``job_ms`` of the query alone, ``noted_ms`` of noting its recipe, ``trace_ms`` of each trace.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.frames_oracle import ParquetTables, carried, rebuilt, same, same_rows
from benchmarks.tpc import SETTINGS, SUITES, make_tables, queries


def measured(
    spark: Any, tables: ParquetTables, query: str, folder: Path, rows_max: int
) -> dict[str, Any]:
    """Run, note, rebuild and trace a query."""
    from lineage_frames.errors import FramesError
    from lineage_frames.tracing import trace_back

    tables.views(spark)
    frame = spark.sql(query)
    output, job_ms = _timed(frame.collect)
    recipe, noted_ms = _timed(lambda: carried(frame))
    found: dict[str, Any] = {"rows": len(output), "job_ms": job_ms, "noted_ms": noted_ms}
    found["recipe_bytes"] = len(recipe.to_json())
    try:
        if not same_rows(output, rebuilt(spark, recipe)):
            return {**found, "result": "wrong", "reasons": ["the plan rebuilt gives other rows"]}
        if not output:
            return {**found, "result": "empty"}
        reasons: list[str] = []
        found |= {"trace_ms": [], "witnesses": []}
        places = sorted({n * (len(output) - 1) // max(1, rows_max - 1) for n in range(rows_max)})
        for place in places:
            row = tuple(output[place])
            traced, trace_ms = _timed(lambda row=row: trace_back(spark, recipe, [row]))
            found["trace_ms"].append(trace_ms)
            found["witnesses"].append(traced.count)
            reasons += traced.reasons
            tables.only(spark, traced, folder / str(place))
            if not any(same(row, tuple(one)) for one in spark.sql(query).collect()):
                return {**found, "result": "wrong", "reasons": [f"row {place} is not given again"]}
    except FramesError as problem:
        return {**found, "result": "refused", "reasons": [str(problem)]}
    except Exception as problem:
        # An error of the program: the other queries still are worth their rows.
        return {**found, "result": "failed", "reasons": [repr(problem)[:500]]}
    listed = list(dict.fromkeys(reasons))
    return {**found, "result": "superset" if listed else "exact", "reasons": listed}


def _timed(call: Any) -> tuple[Any, float]:
    begun = time.perf_counter()
    value = call()
    return value, round((time.perf_counter() - begun) * 1000, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", choices=SUITES, default="tpcds")
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--folder", type=Path, default=Path("build/tpc"), help="for the tables")
    parser.add_argument("--queries", help="their numbers, with commas between; all")
    parser.add_argument("--rows", type=int, default=2, help="output rows to trace of each query")
    parser.add_argument("--master", default="local[2]")
    asked = parser.parse_args(arguments)

    from pyspark.sql import SparkSession

    folder = asked.folder.resolve() / f"{asked.suite}-{asked.scale:g}"
    tables = ParquetTables(folder, make_tables(asked.suite, asked.scale, folder))
    builder = SparkSession.builder.master(asked.master).config("spark.ui.enabled", "false")
    for name, value in {**SETTINGS, "spark.driver.memory": "4g"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    texts = queries(asked.suite)
    numbers = [int(one) for one in asked.queries.split(",")] if asked.queries else sorted(texts)
    wrong = 0
    for number in numbers:
        with tempfile.TemporaryDirectory() as scratch:
            row = measured(spark, tables, texts[number], Path(scratch), asked.rows)
        wrong += row["result"] in {"wrong", "failed"}
        known = {"suite": asked.suite, "scale": asked.scale, "query": number}
        print(json.dumps({**known, **row}), flush=True)
    spark.stop()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
