"""What a lake on object storage is asked for: python -m benchmarks.object_storage STORE PLACE [PLACE ...].

Copies the latest application of an embedded store to a server that stands in for S3, where each request takes ``--delay`` more,
and traces PLACE backward, each time with a lake that is opened anew. ``few`` reads small files whole and several at once, as the
lake does on object storage; ``each`` asks for each column of a row group, as it does in a folder. They take turns. Prints one
JSON line with the median of the seconds, and the requests of one trace.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any
from unittest.mock import PropertyMock, patch

from benchmarks.provenance import provenance
from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.opening import FileOpener
from lineage_store.lake.store import LakeStore
from lineage_store.moving import move_application
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import store_path
from tests.support.object_storage import BUCKET, ObjectStorage, object_storage

TURNS = 5
DELAY_S = 0.02
ADDRESS = LakeAddress(f"s3://{BUCKET}/lineage")
WAYS = {"few": True, "each": False}


def object_storage_row(
    server: ObjectStorage, store: str, places: Sequence[str], delay_s: float
) -> dict[str, Any]:
    """The row of the latest application of a store."""
    with SqliteStore(store_path(store)) as source, LakeStore(ADDRESS) as lake:
        app = source.application_ids()[0]
        server.requests()
        move_application(source, lake, app, deletes=False)
        moved = server.requests()
        (files,) = lake.table.snapshot(newest=True).files.values()
    server.delay(delay_s)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    requests: dict[str, list[int]] = {way: [] for way in WAYS}
    answers = []
    for _ in range(TURNS):
        for place in places:
            for way, is_remote in WAYS.items():
                server.requests()
                started = time.perf_counter()
                with patch.object(FileOpener, "is_remote", PropertyMock(return_value=is_remote)):
                    answers.append((place, _asked(app, place)))
                seconds[way].append(time.perf_counter() - started)
                requests[way].append(server.requests().total)
    return {
        "lake_bytes": sum(file.size for file in files),
        "files": len(files),
        "delay_s": delay_s,
        "move_requests": moved.total,
        "same_answers": all(answer == dict(answers)[place] for place, answer in answers),
        **{f"{way}_s": statistics.median(taken) for way, taken in seconds.items()},
        **{f"{way}_requests": statistics.median(taken) for way, taken in requests.items()},
    }


def _asked(app: str, place: str) -> Any:
    with LakeStore(ADDRESS, create=False) as lake:
        query = TraceQuery(Direction.BACKWARD, (place,), app=app)
        return QueryEngine(lake, RowReader()).ask(query).to_json()


def main() -> None:
    """Print the row."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.object_storage", description=__doc__
    )
    parser.add_argument("store")
    parser.add_argument("places", nargs="+")
    parser.add_argument("--delay", type=float, default=DELAY_S, metavar="SECONDS")
    words = parser.parse_args()
    with object_storage() as server:
        os.environ.update(server.settings)
        row = object_storage_row(server, words.store, words.places, words.delay)
    sys.stdout.write(json.dumps(row | {"provenance": provenance()}) + "\n")


if __name__ == "__main__":
    main()
