"""Traces of captured applications by their blocks, and by connected sets over the same lineage as triples: python -m benchmarks.blocks_or_sets FOLDER [--rows N] [--json-out FILE].

Jobs that nobody tuned run under ``lineage run`` into a lake each: a word count, a join, an aggregation of which a tenth of the records has one key, and a
chain of four jobs. Their lineage is then written out as triples (each input item of each flow with each output item of it; a row of
a file between two jobs is one item), imported, and indexed. Rows of the last output are traced backward through all jobs: by the blocks of the lake,
and by each method over the triples. A process opens the store and asks for all rows of a class; it is begun anew with each of them as the first.

Prints one JSON line for each job; a folder with jobs that ran is taken again. ``first_s``, and ``first_cpu_s`` of the processor: opening and the first question; ``next_s``: the questions after it; ``read``: what the first one read.
``bytes``: of the lake, of the same lineage in SQLite, and of the triples; ``lake_over_sqlite``: of the first two. Classes are as those of
``benchmarks.triples``: components of at most 10,000 items and larger ones, of which the lineage is small or large. ``same``: answers with the rows of inputs that a search in memory finds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from benchmarks.correctness import sample_rows
from benchmarks.generate import SEED, write_text
from benchmarks.generate_records import write_tables
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from benchmarks.workloads.captured_triples import CapturedTriples, captured_triples
from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.copying import copy_application
from lineage_store.lake.store import LakeStore
from lineage_store.moving import contents_of
from lineage_store.sqlite.store import SqliteStore
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.tracing import Method, trace
from lineage_store.url import open_store

ITEMS = 5
TURNS = 3
CANDIDATES = 400
NAME = "captured"
BLOCKS = "blocks"
SMALL_COMPONENT = 10_000
SMALL_LINEAGE, LARGE_LINEAGE = 500, 2_000
MOST_LINEAGE, MOST_OF_CHAINS = 150_000, 10_000
"""Triples list what they go through, too, and a trace through several jobs at most 10,000 rows of each."""
PARTITIONS = "4"
WORKLOADS = Path(__file__).parent / "workloads"
CLEAN = """import sys
from pyspark import SparkContext

context = SparkContext(appName="clean")
lines = context.textFile(sys.argv[1], int(sys.argv[3]))
lines.filter(lambda line: int(line.rpartition(",")[2]) % 4 > 0).saveAsTextFile(sys.argv[2])
context.stop()
"""
TOTALS = """import sys
from operator import add
from pyspark import SparkContext

context = SparkContext(appName="totals")
fields = context.textFile(sys.argv[1], int(sys.argv[3])).map(lambda line: line.split(","))
totals = fields.map(lambda field: (field[3], int(field[1]))).reduceByKey(add)
totals.map(lambda total: f"{total[0]},{total[1]}").saveAsTextFile(sys.argv[2])
context.stop()
"""
SORTED = """import sys
from pyspark import SparkContext

context = SparkContext(appName="sorted")
lines = context.textFile(sys.argv[1], int(sys.argv[3]))
lines.sortBy(lambda line: int(line.rpartition(",")[2]), ascending=False).saveAsTextFile(sys.argv[2])
context.stop()
"""


def run(folder: Path, program: Path | str, *words: str, store: str = "") -> None:
    """Run a program under capture; a text is the program itself. ``store``: else a lake in the folder."""
    if isinstance(program, str):
        path = folder / f"{words[1]}.py"
        path.write_text(program, encoding="ascii")
    else:
        path = program
    command = Path(sys.executable).with_name("lineage")
    url = store or f"lake:{folder}/lake"
    words = (*words, PARTITIONS)
    subprocess.run(
        [command, "--store", url, "run", "--quiet", path, *words],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


def word_count(folder: Path, rows: int) -> None:
    """Words of a natural skew."""
    write_text(folder / "text", rows * 60)
    run(folder, WORKLOADS / "wordcount.py", "text", "out")


def join(folder: Path, rows: int) -> None:
    """As many orders as customers."""
    write_tables(folder, rows)
    run(folder, WORKLOADS / "join.py", ".", "out")


def skewed(folder: Path, rows: int) -> None:
    """A tenth of the records has one key, the others keys of a power law."""
    draw = np.random.default_rng(SEED)
    keys = np.where(draw.random(rows) < 0.1, 0, (draw.random(rows) ** 4 * rows / 4).astype(int))
    numbers = draw.integers(0, 10**6, rows)
    with (folder / "records").open("w", encoding="ascii") as file:
        for at, (key, number) in enumerate(zip(keys.tolist(), numbers.tolist(), strict=True)):
            file.write(f"{at},k{key},{number},x\n")
    run(folder, WORKLOADS / "group.py", "records", "out")


def chain(folder: Path, rows: int) -> None:
    """Orders are cleaned, joined with customers, added up by name, and sorted."""
    raw, tables = folder / "raw", folder / "tables"
    raw.mkdir()
    tables.mkdir()
    write_tables(raw, rows)
    (raw / "customers.csv").rename(tables / "customers.csv")
    run(folder, CLEAN, "raw/orders.csv", "tables/orders.csv")
    run(folder, WORKLOADS / "join.py", "tables", "joined")
    run(folder, TOTALS, "joined", "totals")
    run(folder, SORTED, "totals", "out")


JOBS: dict[str, Callable[[Path, int], None]] = {
    "word count": word_count,
    "join": join,
    "skewed aggregation": skewed,
    "chain of four jobs": chain,
}


class Search:
    """A search in memory over all triples: the oracle."""

    def __init__(self, triples: CapturedTriples) -> None:
        count = triples.items
        ones = np.ones(len(triples.src), np.int8)
        self._graph = sparse.csr_array((ones, (triples.dst, triples.src)), (count, count))
        self._label = csgraph.connected_components(self._graph, directed=False)[1]
        self._sizes = np.bincount(self._label)
        self.has_no_source = np.ones(count, np.bool_)
        self.has_no_source[triples.dst] = False

    def lineage(self, item: int) -> np.ndarray[Any, Any]:
        """All items that one was derived from."""
        reached: np.ndarray[Any, Any] = csgraph.breadth_first_order(
            self._graph, item, return_predecessors=False
        )
        return reached[1:]

    def inputs(self, item: int) -> list[int]:
        """Those that nothing here made."""
        reached = self.lineage(item)
        return sorted(reached[self.has_no_source[reached]].tolist())

    def component(self, item: int) -> int:
        """How many items its component has."""
        return int(self._sizes[self._label[item]])


def number_of(triples: CapturedTriples, place: str) -> int:
    """The item that is a line of a file."""
    path, _, line = place.rpartition(":")
    return triples.first_of_file[path] + int(line) - 1


def chosen(
    output: Path, triples: CapturedTriples, search: Search, most: int
) -> dict[str, list[str]]:
    """Lines of the output of each class, made of at most so many items."""
    classes: dict[str, list[str]] = {"SC-SL": [], "LC-SL": [], "LC-LL": []}
    for place, _ in sample_rows(output, CANDIDATES):
        item = number_of(triples, place)
        count = len(search.lineage(item))
        size = "SC" if search.component(item) <= SMALL_COMPONENT else "LC"
        lineage = "SL" if count <= SMALL_LINEAGE else "LL" if count >= LARGE_LINEAGE else ""
        name = f"{size}-{lineage}"
        if name in classes and len(classes[name]) < ITEMS and 0 < count <= most:
            classes[name].append(place)
    return {name: places for name, places in classes.items() if places}


class Clock:
    """Seconds since it was made: of the clock, and of this process on a processor, all threads together."""

    def __init__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    def seconds(self) -> dict[str, float]:
        """Both."""
        wall, cpu = self._started
        return {"s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


def by_blocks(url: str, places: Sequence[str]) -> list[dict[str, Any]]:
    """Trace rows by the blocks of a lake, in this process."""
    answers = []
    clock = Clock()
    with open_store(url) as store:
        assert isinstance(store, LakeStore)
        engine = QueryEngine(store, RowReader())
        is_chain = len(store.application_ids()) > 1
        for place in places:
            query = TraceQuery(Direction.BACKWARD, (place,), texts=False, all_jobs=is_chain)
            answer = engine.ask(query)
            seconds = clock.seconds()
            found = sorted(item.location or "" for group in answer.groups for item in group.items)
            counts = asdict(store.reader.counts)
            is_exact = answer.exact and answer.complete
            answers.append(seconds | {"read": counts, "found": found, "exact": is_exact})
            clock = Clock()
    return answers


def by_triples(url: str, method: Method, items: Sequence[str]) -> list[dict[str, Any]]:
    """Trace items by a method, in this process."""
    answers = []
    clock = Clock()
    store = TripleStore(url)
    for item in items:
        found = trace(store, NAME, item, is_back=True, method=method)
        seconds = clock.seconds()
        counts = asdict(found.read)
        answers.append(seconds | {"read": counts, "found": found.items, "exact": True})
        clock = Clock()
    return answers


def fresh(*words: str) -> list[dict[str, Any]]:
    """What a fresh process of this module says."""
    command = [sys.executable, "-m", "benchmarks.blocks_or_sets", *words]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answers: list[dict[str, Any]] = json.loads(made.stdout)
    return answers


def class_row(
    url: str, places: list[str], triples: CapturedTriples, search: Search
) -> dict[str, Any]:
    """All ways to trace the rows of a class."""
    numbers = [number_of(triples, place) for place in places]
    row: dict[str, Any] = {
        "items": len(places),
        "lineage": statistics.median(len(search.lineage(number)) for number in numbers),
        "component": statistics.median(search.component(number) for number in numbers),
    }
    runs: dict[str, list[list[dict[str, Any]]]] = {}
    same: dict[str, int] = {}
    for turn in range(min(TURNS, len(places))):
        rotated = numbers[turn:] + numbers[:turn]
        asked = places[turn:] + places[:turn]
        expected = [search.inputs(number) for number in rotated]
        # In turn, so that what else the machine does falls on all of them.
        for way in (BLOCKS, Method.RQ, Method.CCPROV, Method.CSPROV):
            words = asked if way == BLOCKS else [str(number) for number in rotated]
            answers = fresh(str(Path(url.removeprefix("lake:")).parent), "--ask", way, *words)
            runs.setdefault(way, []).append(answers)
            for answer, wanted in zip(answers, expected, strict=True):
                found = answer["found"]
                if way == BLOCKS:
                    found = sorted(number_of(triples, place) for place in found)
                else:
                    found = [item for item in found if search.has_no_source[item]]
                same[way] = same.get(way, 0) + (found == wanted and answer["exact"])
    for way, of_way in runs.items():
        first = [answers[0] for answers in of_way]
        later = [answer for answers in of_way for answer in answers[1:]]
        row[way] = {
            f"{name}_{clock}": round(statistics.median(answer[clock] for answer in some), 4)
            for name, some in (("first", first), ("next", later))
            for clock in ("s", "cpu_s")
            if some
        } | {
            "read": {
                name: statistics.median(answer["read"][name] for answer in first)
                for name in first[0]["read"]
            },
            "same": f"{same[way]} of {sum(map(len, of_way))}",
        }
    return row


def bytes_in(folder: Path) -> int:
    """Of all Parquet files."""
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


def bytes_in_sqlite(url: str) -> int:
    """Of the same lineage in the embedded store."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lineage.db"
        with open_store(url) as lake, SqliteStore(path) as embedded:
            for app in lake.application_ids():
                copy_application(lake, embedded, app)
                assert contents_of(embedded, app) == contents_of(lake, app)
        return path.stat().st_size


def job_row(name: str, folder: Path, rows: int) -> dict[str, Any]:
    """Run a job, and trace by all ways."""
    url = f"lake:{folder}/lake"
    if not folder.exists():
        folder.mkdir(parents=True)
        JOBS[name](folder, rows)
    with open_store(url) as store:
        triples = captured_triples(store, RowReader())
        most = MOST_LINEAGE if len(store.application_ids()) == 1 else MOST_OF_CHAINS
    store_of_triples = TripleStore(url, create=True)
    if store_of_triples.data_sets():
        store_of_triples.remove(NAME)
    files, nodes = triples.write(folder)
    clock = Clock()
    store_of_triples.add(NAME, [files], [nodes])
    indexed = store_of_triples.index(NAME)
    assert indexed is not None
    index_s = clock.seconds()
    search = Search(triples)
    in_lake, in_sqlite = bytes_in(folder / "lake"), bytes_in_sqlite(url)
    return {
        "bench": "blocks or sets",
        "job": name,
        "rows": rows,
        "triples": indexed.triples,
        "components": indexed.components,
        "sets": indexed.sets,
        "import_and_index_cpu_s": round(index_s["cpu_s"], 1),
        "bytes": {
            "blocks": in_lake,
            "sqlite": in_sqlite,
            "triples": bytes_in(folder / "lake.triples"),
        },
        "lake_over_sqlite": round(in_lake / in_sqlite, 3),
        "classes": {
            of_class: class_row(url, places, triples, search)
            for of_class, places in chosen(folder / "out", triples, search, most).items()
        },
        "provenance": provenance(),
    }  # fmt: skip


def main() -> None:
    """Print the rows of all jobs, or what one way finds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blocks_or_sets", description=__doc__)  # fmt: skip
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--json-out", type=Path, help="append the rows to this file, too")
    parser.add_argument("--ask", nargs="+", default=[])
    given = parser.parse_args()
    folder: Path = given.folder.resolve()
    if given.ask:
        way, *asked = given.ask
        url = f"lake:{folder}/lake"
        answers = by_blocks(url, asked) if way == BLOCKS else by_triples(url, Method(way), asked)
        sys.stdout.write(json.dumps(answers))
        return
    for name in given.jobs:
        row = job_row(name, folder / name.replace(" ", "-"), given.rows)
        put_out(row, given.json_out)


if __name__ == "__main__":
    main()
