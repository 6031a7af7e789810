"""A trace through a lake does without pandas, which takes longer to import than a trace takes."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.moving import move_application
from lineage_store.sqlite.store import SqliteStore
from tests.support.chained_runs import link_chain, spool_chain

PROGRAM = """
import sys
from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store

url, place = sys.argv[1:]
with open_store(url) as store:
    query = TraceQuery(Direction.BACKWARD, (place,), all_jobs=True)
    answer = QueryEngine(store, RowReader()).ask(query)
print(answer.complete, len(answer.apps), "pandas" in sys.modules)
"""


def test_a_trace_through_a_lake_does_without_pandas(tmp_path: Path) -> None:
    chain = spool_chain(tmp_path / "spool", tmp_path, random.Random(1), 1)
    with (
        SqliteStore(tmp_path / "own.db") as own,
        LakeStore(LakeAddress(f"{tmp_path}/lake")) as lake,
    ):
        link_chain(tmp_path / "spool", own)
        move_application(own, lake, chain.apps[0], deletes=False)
    words = [f"lake:{tmp_path}/lake", f"{chain.files[1]}:1"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["True", "1", "False"]
