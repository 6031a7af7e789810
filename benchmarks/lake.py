"""What an application costs in a lake and in SQLite: python -m benchmarks.lake STORE PLACE [PLACE ...].

Copies the latest application of an embedded store into a lake of its own, compares both, and prints one JSON line: bytes on disk,
seconds of a trace from each place (in turn in both stores, each opened anew; the median), and what the lake opened for one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance
from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.copying import copy_application
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.moving import contents_of, move_application
from lineage_store.port import GraphStore
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import store_path

TURNS = 7


def lake_row(url: str, places: Sequence[str], folder: Path) -> dict[str, Any]:
    """The row of one application."""
    path = store_path(url)
    alone, address = folder / "alone.db", LakeAddress(str(folder / "lake"))
    with SqliteStore(path) as source, LakeStore(address) as lake:
        app = source.application_ids()[0]
        started = time.perf_counter()
        moved = move_application(source, lake, app, deletes=False)
        copied_s = time.perf_counter() - started
        with SqliteStore(alone) as other:
            copy_application(source, other, app)
        seconds: dict[str, list[float]] = {"sqlite": [], "lake": []}
        same = True
        for _ in range(TURNS):
            for place in places:
                answers = []
                for name, store in (("sqlite", SqliteStore(alone)), ("lake", LakeStore(address))):
                    with store:
                        taken, answer = _asked(store, app, place)
                    seconds[name].append(taken)
                    answers.append(answer)
                same = same and answers[0] == answers[1]
        with LakeStore(address) as fresh:
            _asked(fresh, app, places[0])
            opened = fresh.reader.counts
        return {
            "blocks": moved.contents.blocks,
            "edges": moved.contents.edges,
            "same_contents": contents_of(source, app) == moved.contents,
            "same_answers": same,
            "sqlite_bytes": alone.stat().st_size,
            "lake_bytes": sum(file.stat().st_size for file in Path(address.location).rglob("*") if file.is_file()),
            "move_s": copied_s,
            "sqlite_s": statistics.median(seconds["sqlite"]),
            "lake_s": statistics.median(seconds["lake"]),
            "lake_opened": {"footers": opened.footers, "groups": opened.groups, "bytes": opened.column_bytes},
        }  # fmt: skip


def _asked(store: GraphStore, app: str, place: str) -> tuple[float, Any]:
    started = time.perf_counter()
    query = TraceQuery(Direction.BACKWARD, (place,), app=app)
    answer = QueryEngine(store, RowReader()).ask(query).to_json()
    return time.perf_counter() - started, answer


def main() -> None:
    """Print the row."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lake", description=__doc__)
    parser.add_argument("store")
    parser.add_argument("places", nargs="+")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        row = lake_row(words.store, words.places, Path(folder))
    sys.stdout.write(json.dumps(row | provenance()) + "\n")


if __name__ == "__main__":
    main()
