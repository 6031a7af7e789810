"""How soon a person sees jobs and datasets on the web page, in a real browser over the real service.

Makes a store of ``--datasets`` datasets: each is written by a job of its own, which reads two others, and every tenth job also reads
a dataset that all of these share. Serves it, and measures ``--runs`` times, each in a fresh browser context: from opening the
address of an application's job until its graph is painted, and from a click beside a node until its neighbours are.
The first view of all is that of a server that has looked at no run yet, and stands by itself (``cold``), as does how long the service takes
to look at all of them.

    python -m benchmarks.job_graph --datasets 5000 --runs 15
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.api import serve
from benchmarks.page import in_browser, times
from benchmarks.pairs import RunError
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from lineage_core.contract.message import (
    Begin,
    End,
    Message,
    Register,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
)
from lineage_query_api.page import require_page
from lineage_store.sqlite.store import SqliteStore

FILES = 4
SHARED = "/lake/shared"
SHARED_EACH = 10


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    options = parser.parse_args()
    require_page()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/lineage.db"
        with SqliteStore(Path(folder) / "lineage.db") as opened:
            for number in range(options.datasets):
                opened.write(f"app-{number}", job_run(number, options.datasets, draw))
        apps = [f"app-{draw.randrange(options.datasets)}" for _ in range(options.runs + 1)]
        with serve(store) as (address, _):
            cold = times_of_views(address, apps[:1])
            all_runs = seconds_for_all(address, apps[0], options.datasets)
            warm = times_of_views(address, apps[1:])
    row = {
        "benchmark": "job_graph",
        "datasets": options.datasets + 1,
        "runs": options.runs,
        "cold_first_view_ms": round(cold["first_view"][0]["ms"], 1),
        "all_runs_read_s": round(all_runs, 2),
        "first_view": times(warm["first_view"]),
        "growth": {**times(warm["growth"]), "clicks": len(warm["growth"])},
        "nodes_max": max(shown["nodes"] for shown in warm["growth"]),
    }
    put_out(row | {"provenance": provenance()}, options.json_out)


def job_run(number: int, datasets: int, draw: random.Random) -> list[Message]:
    """Messages of a run that reads two datasets and writes one."""
    app = f"app-{number}"
    reads = [f"/lake/{draw.randrange(datasets)}" for _ in range(2)]
    reads += [SHARED] * (number % SHARED_EACH == 0)
    messages: list[Message] = [Begin(app=app, name=f"job {number}", started_at=float(number))]
    for node, path in enumerate(reads):
        splits = tuple(
            Split(partition=at, path=f"{path}/{at}", start=0, length=1, file_size=1, mtime=1.0)
            for at in range(FILES)
        )
        messages += [
            Register(app=app, node=f"{node}", kind="source", op="textFile", path=path),
            Splits(app=app, node=f"{node}", splits=splits),
        ]
    files = tuple(
        SinkFile(partition=at, path=f"/lake/{number}/{at}", size=1, mtime=1.0, rows=1)
        for at in range(FILES)
    )
    messages += [
        Register(app=app, node="out", kind="sink", op="saveAsTextFile", path=f"/lake/{number}"),
        SinkFiles(app=app, node="out", path=f"/lake/{number}", files=files),
        End(app=app, ended_at=number + 1.0, status="ok"),
    ]
    return messages


def seconds_for_all(address: str, app: str, runs: int) -> float:
    """How long the service takes to look at the runs that it has not looked at yet."""
    started = time.monotonic()
    with httpx.Client(base_url=address, timeout=120) as client:
        answer = client.get("/v1/jobs/graph", params={"app": app, "read_s": 60}).json()
    if answer["runs"] != runs:
        raise RunError(f"the service looked at {answer['runs']} of {runs} runs")
    return time.monotonic() - started


def times_of_views(address: str, apps: list[str]) -> dict[str, list[dict[str, Any]]]:
    """What the browser measured, a first view for each application."""
    return in_browser("job-figures", LINEAGE_URL=address, APPS=",".join(apps), RUNS=str(len(apps)))


if __name__ == "__main__":
    main()
