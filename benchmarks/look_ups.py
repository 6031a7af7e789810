"""Look-ups of triples by the engines that could do them: python -m benchmarks.look_ups FOLDER [--scale 1] [--engines ours pyarrow duckdb polars] [--json-out FILE].

The lake is the one that `python -m benchmarks.triples FOLDER` leaves, or is made, of a part of the workflow where ``--scale`` says so. A fresh process for each engine looks up the triples of one item, and
of 100 items that lie side by side, 20 times each, in the same Parquet files, which are in the system's memory; all answers are compared. Prints one JSON line: ``start_s``: until the
engine's package is loaded and the lake is opened; ``first_s``: the first look-up; ``next_s``: the others, in the median; ``_cpu_s``: the same by the processor, of all threads; ``peak_mib``: memory of the process.
DuckDB and Polars are in no lock: `pip install duckdb polars` in an environment of its own that has this project.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from benchmarks.blocks_or_sets import Clock
from benchmarks.measure import high_water_bytes
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from benchmarks.triples import NAME, write_sources
from benchmarks.workloads.triples import workflow
from lineage_store.triples.columns import Part
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.tracing import Reading

TURNS = 20
COUNTS = (1, 100)
Triples: TypeAlias = "Iterable[tuple[int, ...]]"
LookUp: TypeAlias = "Callable[[list[int]], Triples]"


def by_ours(url: str, _: Sequence[str]) -> LookUp:
    """As a trace does."""
    part = Reading(TripleStore(url), NAME).part(Part.BACK)

    def look_up(keys: list[int]) -> Triples:
        rows = part.equal(np.array(keys))
        return zip(*(rows[name].tolist() for name in ("src", "dst", "op")), strict=True)

    return look_up


def by_pyarrow(_: str, files: Sequence[str]) -> LookUp:
    """By a dataset with a filter."""
    datasets = importlib.import_module("pyarrow.dataset")
    opened = datasets.dataset(list(files), format="parquet")

    def look_up(keys: list[int]) -> Triples:
        rows = opened.to_table(
            columns=["src", "dst", "op"], filter=datasets.field("dst").isin(pa.array(keys))
        )
        return zip(*(column.to_pylist() for column in rows.columns), strict=True)

    return look_up


def by_duckdb(_: str, files: Sequence[str]) -> LookUp:
    """By SQL."""
    connection = importlib.import_module("duckdb").connect()
    read = f"read_parquet({list(files)!r})"

    def look_up(keys: list[int]) -> Triples:
        wanted = ", ".join(map(str, keys))
        found = connection.execute(f"SELECT src, dst, op FROM {read} WHERE dst IN ({wanted})")
        rows: Triples = found.fetchall()
        return rows

    return look_up


def by_polars(_: str, files: Sequence[str]) -> LookUp:
    """By a lazy frame."""
    polars = importlib.import_module("polars")
    frame = polars.scan_parquet(list(files))

    def look_up(keys: list[int]) -> Triples:
        found = frame.filter(polars.col("dst").is_in(keys)).select("src", "dst", "op").collect()
        rows: Triples = found.rows()
        return rows

    return look_up


ENGINES = {"ours": by_ours, "pyarrow": by_pyarrow, "duckdb": by_duckdb, "polars": by_polars}


def asked(url: str, engine: str) -> dict[str, Any]:
    """The figures of an engine, in this process."""
    files = [file for file in TripleStore(url).files(NAME) if file.part is Part.BACK]
    folder = f"{url.removeprefix('lake:')}.triples"
    highest = max(file.last for file in files)
    clock = Clock()
    look_up = ENGINES[engine](url, [f"{folder}/{file.file.path}" for file in files])
    figures: dict[str, Any] = {f"start_{name}": spent for name, spent in clock.seconds().items()}
    for count in COUNTS:
        draw = np.random.default_rng(count)
        digest, taken = hashlib.sha256(), []
        for first in draw.integers(0, highest - count, TURNS).tolist():
            clock = Clock()
            rows = sorted(look_up(list(range(first, first + count))))
            taken.append(clock.seconds())
            digest.update(repr(rows).encode())
        figures[f"of {count}"] = {
            **{f"first_{name}": taken[0][name] for name in taken[0]},
            **{
                f"next_{name}": round(statistics.median(one[name] for one in taken[1:]), 5)
                for name in taken[0]
            },
            "digest": digest.hexdigest(),
        }
    return figures | {"peak_mib": high_water_bytes(os.getpid()) >> 20}


def look_ups_row(folder: Path, scale: float, engines: Sequence[str]) -> dict[str, Any]:
    """The row of all engines."""
    url = f"lake:{folder}/lake"
    store = TripleStore(url, create=True)
    if not store.files(NAME):
        triples, nodes = write_sources(workflow(1, scale), folder)
        store.add(NAME, [triples], [nodes])
        store.index(NAME)
    found = {}
    for engine in engines:
        command = [sys.executable, "-m", "benchmarks.look_ups", str(folder), "--ask", engine]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        found[engine] = json.loads(run.stdout)
    digests = [
        {found[engine][f"of {count}"].pop("digest") for engine in engines} for count in COUNTS
    ]
    return {
        "benchmark": "look-ups",
        "scale": scale,
        "engines": found,
        "same": [len(some) for some in digests] == [1] * len(COUNTS),
        "load": os.getloadavg()[0],
        "provenance": provenance(),
    }


def main() -> None:
    """Print the row, or what one engine takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    parser.add_argument("--ask", choices=ENGINES)
    given = parser.parse_args()
    folder = given.folder.absolute()
    if given.ask:
        print(json.dumps(asked(f"lake:{folder}/lake", given.ask)))
        return
    folder.mkdir(parents=True, exist_ok=True)
    put_out(look_ups_row(folder, given.scale, given.engines), given.json_out)


if __name__ == "__main__":
    main()
