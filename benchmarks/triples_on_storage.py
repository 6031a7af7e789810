"""What a lake's triples on object storage are asked for: python -m benchmarks.triples_on_storage FOLDER [--scale 1] [--items N] [--delay SECONDS] [--json-out FILE].

The workflow of benchmarks.triples, or a part of it, is imported and indexed on a server that stands in for S3, where each request takes ``--delay`` more then. Items of the three
classes are traced backward by `auto`, each over a lake that is opened anew; each answer is compared with a search in memory. Prints one JSON line: of each class, in
the median, the requests and seconds of a trace, without opening the lake, which has lines of its own, and how many answers were as the search says.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance
from benchmarks.row import put_out
from benchmarks.triples import ITEMS, NAME, Search, chosen_items, write_sources
from benchmarks.workloads.triples import workflow
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.tracing import trace
from tests.support.object_storage import BUCKET, ObjectStorage, object_storage

DELAY_S = 0.02
URL = f"lake:s3://{BUCKET}/lineage"


def storage_row(
    server: ObjectStorage, folder: Path, scale: float, items_of_class: int, delay_s: float
) -> dict[str, Any]:
    """The row of a part of the workflow."""
    made = workflow(1, scale)
    store = TripleStore(URL, create=True)
    triples, nodes = write_sources(made, folder)
    store.add(NAME, [triples], [nodes])
    store.index(NAME)
    search = Search(made)
    (listed,) = store.data_sets()
    server.delay(delay_s)
    row: dict[str, Any] = {
        "benchmark": "triples on storage",
        "edges": len(made.src),
        "bytes": listed.stored_bytes,
        "delay_s": delay_s,
    }
    opened: list[tuple[int, float]] = []
    same = asked = 0
    for name, items in chosen_items(made, search, items_of_class).items():
        runs = []
        for item in items:
            server.requests()
            started = time.perf_counter()
            fresh = TripleStore(URL)
            opened.append((server.requests().total, time.perf_counter() - started))
            started = time.perf_counter()
            found = trace(fresh, NAME, str(item), is_back=True)
            seconds = time.perf_counter() - started
            requests = server.requests()
            runs.append((requests.total, seconds, requests.at_once, len(found.triples)))
            same += found.triples == search.back(item)
            asked += 1
        if runs:
            columns = list(zip(*runs, strict=True))
            row[name] = {
                "requests": statistics.median(columns[0]),
                "s": round(statistics.median(columns[1]), 3),
                "at_once": max(columns[2]),
                "triples": statistics.median(columns[3]),
            }
    return row | {
        "open_requests": statistics.median(count for count, _ in opened),
        "open_s": round(statistics.median(seconds for _, seconds in opened), 3),
        "same": same,
        "items": asked,
        "provenance": provenance(),
    }


def main() -> None:
    """Print the row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--items", type=int, default=ITEMS, help="of each class")
    parser.add_argument("--delay", type=float, default=DELAY_S, metavar="SECONDS")
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with object_storage() as server:
        os.environ.update(server.settings)
        row = storage_row(server, given.folder, given.scale, given.items, given.delay)
    put_out(row, given.json_out)


if __name__ == "__main__":
    main()
