"""A trace through two jobs of which one is archived: python -m benchmarks.hot_and_cold [--rows N] [--json-out FILE].

Orders are cleaned by one job and joined with customers by the next, both captured into SQLite. Rows of the output are traced backward through
both jobs, positions alone, with both applications in SQLite, both in a lake behind it, and the first in the lake; in turn, each time with stores that
are opened anew. ``ratio``: the median of the third over the larger of the other two. All answers must be equal, exact and complete.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.blocks_or_sets import CLEAN, WORKLOADS, run
from benchmarks.correctness import sample_rows
from benchmarks.generate_records import write_tables
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.moving import move_application
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store

HOT, COLD, BOTH = "hot", "cold", "both"
PLACES = 10


def captured(folder: Path, rows: int) -> Path:
    """Run the two jobs; their store."""
    raw, tables, database = folder / "raw", folder / "tables", folder / "lineage.db"
    raw.mkdir()
    tables.mkdir()
    write_tables(raw, rows)
    (raw / "customers.csv").rename(tables / "customers.csv")
    store = f"sqlite:///{database}"
    run(folder, CLEAN, "raw/orders.csv", "tables/orders.csv", store=store)
    run(folder, WORKLOADS / "join.py", "tables", "out", store=store)
    return database


def archived(database: Path, folder: Path, jobs: int) -> str:
    """A copy of the store of which the first so many jobs are in a lake behind it; its address."""
    folder.mkdir()
    copy, lake = folder / "lineage.db", folder / "lake"
    shutil.copy(database, copy)
    with SqliteStore(copy) as source, LakeStore(LakeAddress(str(lake))) as target:
        starts = source.starts()
        for app in sorted(starts, key=lambda app: starts[app])[:jobs]:
            move_application(source, target, app)
    return f"sqlite:///{copy},lake:{lake}"


def asked(url: str, place: str) -> tuple[float, Any]:
    """Seconds of a trace by a store that is opened anew, and the answer."""
    started = time.perf_counter()
    with open_store(url) as store:
        query = TraceQuery(Direction.BACKWARD, (place,), texts=False, all_jobs=True)
        answer = QueryEngine(store, RowReader()).ask(query)
    taken = time.perf_counter() - started
    assert (answer.exact, answer.complete) == (True, True), place
    return taken, sorted(str(item.location) for group in answer.groups for item in group.items)


def measure(urls: dict[str, str], places: Sequence[str], rounds: int) -> dict[str, Any]:
    """Medians of each way, after a question to each that is not counted."""
    seconds: dict[str, list[float]] = {way: [] for way in urls}
    for turn in range(rounds + 1):
        for place in places if turn else places[:1]:
            answers = []
            for way, url in urls.items():
                taken, answer = asked(url, place)
                answers.append(answer)
                if turn:
                    seconds[way].append(taken)
            assert any("/raw/orders.csv" in place for place in answers[0]), answers[0]
            assert all(answer == answers[0] for answer in answers), place
    medians = {way: statistics.median(of_way) for way, of_way in seconds.items()}
    return {
        **{f"{way}_s": round(median, 4) for way, median in medians.items()},
        "ratio": round(medians[BOTH] / max(medians[HOT], medians[COLD]), 3),
        "asked": len(seconds[BOTH]),
    }


def main() -> None:
    """Print a line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hot_and_cold", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        database = captured(folder, given.rows)
        urls = {
            way: archived(database, folder / way, jobs)
            for way, jobs in ((HOT, 0), (COLD, 2), (BOTH, 1))
        }
        places = [place for place, _ in sample_rows(folder / "out", PLACES)]
        row = measure(urls, places, given.rounds)
    row |= {"benchmark": "hot-and-cold", "rows": given.rows, "jobs": 2}
    put_out({**row, "provenance": provenance()}, given.json_out)


if __name__ == "__main__":
    main()
