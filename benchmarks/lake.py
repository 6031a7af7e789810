"""What an application costs in a lake and in SQLite: python -m benchmarks.lake STORE PLACE [PLACE ...].

Copies the latest application of an embedded store into a lake of its own, compares both, and prints one JSON line: bytes on disk,
seconds of a trace from each place (in turn in all stores, each opened anew; the median), and what the lake opened for one. ``sqlite`` and
``lake`` have all applications of the store; ``hot`` and ``cold`` are SQLite with a lake behind it, where the application is in the first
and in the second, and all others in the other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from lineage_store.tiers.address import TierAddresses
from lineage_store.tiers.store import TieredStore
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
        others, every = _copied(source, folder / "others", 1), _copied(source, folder / "every", 0)
        stores: dict[str, Callable[[], GraphStore]] = {
            "sqlite": lambda: SqliteStore(every.database),
            "lake": lambda: LakeStore(every.lake),
            "hot": lambda: _tiers(alone, others.lake),
            "cold": lambda: _tiers(others.database, address),
        }
        seconds: dict[str, list[float]] = {name: [] for name in stores}
        same = True
        for _ in range(TURNS):
            for place in places:
                answers = []
                for name, opens in stores.items():
                    taken, answer = _asked_anew(opens, app, place)
                    seconds[name].append(taken)
                    answers.append(answer)
                same = same and all(answer == answers[0] for answer in answers)
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
            **{f"{name}_s": statistics.median(taken) for name, taken in seconds.items()},
            "lake_opened": {"footers": opened.footers, "groups": opened.groups, "bytes": opened.column_bytes},
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Copies:
    database: Path
    lake: LakeAddress


def _copied(source: GraphStore, folder: Path, first: int) -> _Copies:
    """All applications but the ``first`` so many, in SQLite and in a lake."""
    folder.mkdir()
    copies = _Copies(folder / "lineage.db", LakeAddress(str(folder / "lake")))
    with SqliteStore(copies.database) as database, LakeStore(copies.lake) as lake:
        for app in source.application_ids()[first:]:
            copy_application(source, database, app)
            move_application(source, lake, app, deletes=False)
    return copies


def _tiers(hot: Path, cold: LakeAddress) -> TieredStore:
    addresses = TierAddresses(str(hot), str(cold))
    return TieredStore(SqliteStore(hot), lambda: LakeStore(cold, create=False), addresses)


def _asked_anew(opens: Callable[[], GraphStore], app: str, place: str) -> tuple[float, Any]:
    """Seconds with those that the store takes to open, and the answer."""
    started = time.perf_counter()
    with opens() as store:
        answer = _asked(store, app, place)[1]
    return time.perf_counter() - started, answer


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
    sys.stdout.write(json.dumps(row | {"provenance": provenance()}) + "\n")


if __name__ == "__main__":
    main()
