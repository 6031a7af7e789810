"""Traces of provenance triples by Spark, over the workflow of benchmarks.triples: python -m benchmarks.triples_by_spark FOLDER [--factor N] [--methods ...] [--classes ...] [--json-out FILE].

One session of Spark answers, by each method, a question of one item and of ten items of each of the three classes, and of 100,000 items that are drawn
from all (the class `many`); the last one also without a search on the driver. Each table is compared with a breadth-first search in memory. Prints one JSON line; seconds are those of a question
until its table is written. ``first_s`` is that of another item, which is asked before all, as a session that has answered nothing is slower.
A lake that FOLDER has from an earlier call is used again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.measure import high_water_bytes
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from benchmarks.triples import NAME, Search, chosen_items, digest, write_sources
from benchmarks.workloads.triples import workflow
from lineage.frame_traces import spark_session
from lineage_dataframes.triples.tracing import DRIVER_TRIPLES, trace_to_table
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.tracing import Method

MANY = 100_000
CLASSES = ("SC-SL", "LC-SL", "LC-LL", "many")
METHODS = list(Method)


def traced(
    spark: SparkSession,
    store: TripleStore,
    folder: Path,
    items: list[int],
    method: Method,
    driver_triples: int = DRIVER_TRIPLES,
) -> tuple[dict[str, Any], str]:
    """The figures of one question, and a digest of its table."""
    place = folder / "answer"
    shutil.rmtree(place, ignore_errors=True)
    started = time.perf_counter()
    asked = pa.array(items, pa.int64())
    found = trace_to_table(
        spark, store, NAME, asked, str(place), is_back=True, method=method, driver_triples=driver_triples
    )  # fmt: skip
    seconds = time.perf_counter() - started
    rows = pq.read_table(place)
    triples = sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    figures = {
        "s": round(seconds, 2),
        "triples": found.triples,
        "read": found.read,
        "steps": found.steps,
    }
    return figures, digest(triples)


def spark_row(
    folder: Path, factor: int, methods: Sequence[Method], classes: Sequence[str]
) -> dict[str, Any]:
    """The row of one factor."""
    made = workflow(factor)
    search = Search(made)
    url = f"lake:{folder}/spark-lake"
    store = TripleStore(url, create=True)
    if not store.files(NAME):
        triples, nodes = write_sources(made, folder)
        store.add(NAME, [triples], [nodes])
        store.index(NAME)
    draw = np.random.default_rng(12)
    many = np.unique(draw.integers(0, made.items, MANY)).tolist()
    chosen = chosen_items(made, search)
    questions = {
        f"{name}, {count} items": items[:count]
        for name, items in chosen.items()
        if name in classes
        for count in (1, 10)
    } | ({"many": many} if "many" in classes else {})
    answers: dict[str, Any] = {}
    with spark_session(confined=False) as spark:
        first, _ = traced(spark, store, folder, chosen["SC-SL"][-1:], Method.CSPROV)
        for name, items in questions.items():
            expected = digest(search.back(*items))
            answers[name] = {}
            for method in methods:
                is_last = name == "many" and method is Method.CSPROV
                bounds = (DRIVER_TRIPLES, 0) if is_last else (DRIVER_TRIPLES,)
                for bound in bounds:
                    label = f"{method}, joins" if bound == 0 else method
                    figures, found = traced(spark, store, folder, items, method, bound)
                    answers[name][label] = figures | {"same": found == expected}
                    print(name, label, answers[name][label], file=sys.stderr, flush=True)
    return {
        "benchmark": "triples by spark",
        "factor": factor,
        "nodes": made.items,
        "edges": len(made.src),
        "first_s": first["s"],
        "questions": answers,
        "peak_mib": high_water_bytes(os.getpid()) >> 20,
        "provenance": provenance(),
    }


def main() -> None:
    """Print the row of a factor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--factor", type=int, default=1)
    parser.add_argument("--methods", nargs="+", type=Method, default=METHODS)
    parser.add_argument("--classes", nargs="+", choices=CLASSES, default=CLASSES)
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    put_out(spark_row(folder, given.factor, given.methods, given.classes), given.json_out)


if __name__ == "__main__":
    main()
