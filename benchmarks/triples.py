"""Traces of provenance triples in a lake, over a workflow of the published shape: python -m benchmarks.triples FOLDER [--factor N] [--items N] [--json-out FILE].

The workflow is that of CSProv (25 entities, 4.6 million values, 6.4 million triples, three large components, 132 of medium size, the rest of
100 values at most), made by a seed and replicated. It is imported and indexed, then 1 % of triples more: the index of these against that
of the whole, by processor time, is `ratio`. Items of three classes are traced backward by all methods, each by a fresh process; each answer is compared with
a breadth-first search in memory. `classes` are traced before the addition, over the nodes and edges of `before`; `added.classes` after it, over those of the row. Prints one JSON line. Seconds of a trace are those of the question and of reading what answers it; those of
opening the lake are apart, Python's start is in neither. `cold`: both together, by the method `auto`, with nothing of the files in the system's memory.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import high_water_bytes
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from benchmarks.workloads.triples import OPS, Workflow, added, workflow
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.tracing import MOST_ANSWERED, Method, trace

ITEMS = 10
NAME = "workflow"
SMALL_LINEAGE = (1, 200)
LARGE_LINEAGE = (2_000, 1_000_000)
CANDIDATES = 20_000
SHARE_ADDED = 0.01


class Search:
    """Breadth-first search over all triples in memory: the oracle."""

    def __init__(self, made: Workflow) -> None:
        order = np.argsort(made.dst, kind="stable")
        self._src, self._op = made.src[order], made.op[order]
        self._start = np.searchsorted(made.dst[order], np.arange(made.items + 1))

    def back(self, *items: int) -> list[tuple[int, int, str]]:
        """The triples on the way to some items, in order."""
        found, waiting, seen = set(), [*items], set(items)
        while waiting:
            dst = waiting.pop()
            for at in range(self._start[dst], self._start[dst + 1]):
                src = int(self._src[at])
                found.add((src, dst, OPS[self._op[at]]))
                if src not in seen:
                    seen.add(src)
                    waiting.append(src)
        return sorted(found)


def digest(triples: list[tuple[int, int, str]]) -> str:
    """A short name of an answer."""
    return hashlib.sha256(repr(triples).encode()).hexdigest()


def chosen_items(made: Workflow, search: Search, most: int = ITEMS) -> dict[str, list[int]]:
    """So many items of each class: of small components; of large ones with a small, and with a large lineage."""
    draw = np.random.default_rng(11)
    classes: dict[str, list[int]] = {"SC-SL": [], "LC-SL": [], "LC-LL": []}
    for item in draw.integers(0, made.items, CANDIDATES).tolist():
        is_large = bool(made.is_large[item])
        count = len({src for src, _, _ in search.back(item)})
        if not is_large and SMALL_LINEAGE[0] <= count <= SMALL_LINEAGE[1]:
            name = "SC-SL"
        elif is_large and SMALL_LINEAGE[0] <= count <= SMALL_LINEAGE[1]:
            name = "LC-SL"
        elif is_large and LARGE_LINEAGE[0] <= count <= LARGE_LINEAGE[1]:
            name = "LC-LL"
        else:
            continue
        if len(classes[name]) < most:
            classes[name].append(item)
        if all(len(items) == most for items in classes.values()):
            break
    return classes


def write_sources(made: Workflow, folder: Path) -> tuple[Path, Path]:
    """The files that are imported."""
    triples, nodes = folder / "triples.parquet", folder / "nodes.parquet"
    ops = pa.DictionaryArray.from_arrays(pa.array(made.op, pa.int32()), pa.array(OPS))
    pq.write_table(
        pa.table({"src": pa.array(made.src), "dst": pa.array(made.dst), "op": ops}), triples
    )
    pq.write_table(
        pa.table({"item": pa.array(np.arange(made.items)), "node": pa.array(made.entity)}), nodes
    )
    return triples, nodes


def write_added(made: Workflow, first: int, folder: Path) -> Path:
    """The file of the triples from one on."""
    path = folder / "added.parquet"
    ops = [OPS[op] for op in made.op[first:]]
    ends = pa.array(made.src[first:]), pa.array(made.dst[first:])
    pq.write_table(pa.table([*ends, pa.array(ops)], ["src", "dst", "op"]), path)
    return path


def timed(command: list[str]) -> dict[str, Any]:
    """What a fresh process of this module prints."""
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.triples", *command],
        check=True,
        capture_output=True,
        text=True,
    )
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def one_step(command: list[str], url: str) -> dict[str, Any]:
    """Import, index or trace, in this process."""
    opened = time.perf_counter()
    made: dict[str, Any] = {}
    store = TripleStore(url, create=True)
    started, cpu_started = time.perf_counter(), time.process_time()
    if command[0] == "import":
        store.add(NAME, [Path(command[1])], [Path(path) for path in command[2:]])
    elif command[0] == "index":
        indexed = store.index(NAME)
        made = {"edges": indexed.triples if indexed else 0}
    else:
        found = trace(store, NAME, command[2], is_back=True, method=Method(command[1]))
        made = {"triples": found.triples, "read": found.read.triples, "method": found.method}
    made["s"] = time.perf_counter() - started
    made["cpu_s"] = time.process_time() - cpu_started
    made["open_s"] = started - opened
    if "triples" in made:
        made["digest"] = digest(made["triples"])
        made["triples"] = len(made["triples"])
    made["peak_mib"] = high_water_bytes(os.getpid()) >> 20
    return made


def forget(url: str) -> None:
    """Have the system drop what it holds of the files of a lake's triples in memory."""
    for path in Path(f"{url.removeprefix('lake:')}.triples").rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def traces_of(url: str, items: list[int], search: Search) -> dict[str, Any]:
    """All methods over the items of a class: medians, and how many answers were as the search says; and the first question of a cold lake."""
    expected = {item: digest(search.back(item)) for item in items}
    cold = []
    for item in items:
        forget(url)
        cold.append(timed(["--url", url, "--step", "trace", Method.AUTO, str(item)]))
    row: dict[str, Any] = {
        "cold": {
            "median_s": round(statistics.median(run["s"] + run["open_s"] for run in cold), 3),
            "worst_s": round(max(run["s"] + run["open_s"] for run in cold), 3),
        }
    }
    for method in Method:
        runs = [
            (item, timed(["--url", url, "--step", "trace", method, str(item)])) for item in items
        ]
        row[method] = {
            "median_s": round(statistics.median(run["s"] for _, run in runs), 3),
            "open_s": round(statistics.median(run["open_s"] for _, run in runs), 3),
            "worst_s": round(max(run["s"] for _, run in runs), 3),
            "median_read": statistics.median(run["read"] for _, run in runs),
            "median_triples": statistics.median(run["triples"] for _, run in runs),
            "peak_mib": max(run["peak_mib"] for _, run in runs),
            "same": sum(run["digest"] == expected[item] for item, run in runs),
            "items": len(runs),
        }
    return row


def triples_row(folder: Path, factor: int, items_of_class: int) -> dict[str, Any]:
    """The row of one factor."""
    made = workflow(factor)
    sources = write_sources(made, folder)
    url = f"lake:{folder}/lake"
    imported = timed(["--url", url, "--step", "import", *map(str, sources)])
    indexed = timed(["--url", url, "--step", "index"])
    search = Search(made)
    items = chosen_items(made, search, items_of_class)
    classes = {name: traces_of(url, some, search) for name, some in items.items()}
    before = {"nodes": made.items, "edges": indexed["edges"]}
    more = added(made, SHARE_ADDED)
    path = write_added(more, len(made.src), folder)
    del made, search
    added_import = timed(["--url", url, "--step", "import", str(path)])
    added_index = timed(["--url", url, "--step", "index"])
    triples = added_index["edges"]
    parts: dict[str, int] = {}
    for file in TripleStore(url).files(NAME):
        parts[file.part] = parts.get(file.part, 0) + file.file.size
    return {
        "benchmark": "triples",
        "factor": factor,
        "nodes": more.items,
        "edges": triples,
        "before": before,
        "import": imported,
        "index": indexed,
        "added": {
            "import": added_import,
            "index": added_index,
            "ratio": round(added_index["cpu_s"] / indexed["cpu_s"], 4),
            "classes": joined_traces(url, items, Search(more)),
        },
        "index_bytes_per_edge": round((indexed["peak_mib"] << 20) / indexed["edges"], 1),
        "bytes_per_edge": round(sum(parts.values()) / triples, 2),
        "bytes_per_edge_of": {part: round(size / triples, 2) for part, size in parts.items()},
        "classes": classes,
        "provenance": provenance(),
    }


def joined_traces(url: str, items: dict[str, list[int]], search: Search) -> dict[str, Any]:
    """The same items once triples at random joined components, so that most items are in joined ones: what a trace takes, how many answers are as the search says, and how many are refused as too large."""
    rows = {}
    for name, some in items.items():
        expected = {item: search.back(item) for item in some}
        small = [item for item in some if len(expected[item]) <= MOST_ANSWERED]
        runs = [
            (item, timed(["--url", url, "--step", "trace", Method.AUTO, str(item)]))
            for item in small
        ]
        seconds = [run["s"] for _, run in runs]
        rows[name] = {
            "median_s": round(statistics.median(seconds), 3) if seconds else None,
            "worst_s": round(max(seconds), 3) if seconds else None,
            "same": sum(run["digest"] == digest(expected[item]) for item, run in runs),
            "items": len(runs),
            "too_large": len(some) - len(small),
        }
    return rows


def main() -> None:
    """Print the row of a factor, or one step of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--factor", type=int, default=1)
    parser.add_argument("--items", type=int, default=ITEMS, help="of each class")
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    parser.add_argument("--url", default="")
    parser.add_argument("--step", nargs="+", default=[])
    given = parser.parse_args()
    if given.step:
        print(json.dumps(one_step(given.step, given.url)))
    else:
        given.folder.mkdir(parents=True, exist_ok=True)
        put_out(triples_row(given.folder, given.factor, given.items), given.json_out)


if __name__ == "__main__":
    main()
