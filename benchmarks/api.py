"""How fast the query API answers while many ask, and whether its memory stays flat.

Captures a word count (``--store`` asks a store that is there instead), serves it, and lets ``--users``
ask for traces of rows with up to 1,000 witnesses, each with a second between two. Then: counts for the
row with the most witnesses (each time another question, so that none is kept), and ``--queries`` traces
as fast as they go, with the server's resident memory before, in the middle and at the end.

    python -m benchmarks.api --size 100MB --users 16 --seconds 60 --queries 10000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.catalog import WORKLOADS
from benchmarks.generate import parse_size
from benchmarks.lineage_rows import SEED, WITNESSES_MAX, counted_rows, percentiles
from benchmarks.pairs import SPOOL, RunError, Setup, run_once
from benchmarks.provenance import provenance
from lineage_store.url import open_store

THINK_S = 1.0
ROWS_MAX = 2_000
WIDE_QUESTIONS = 20
PARTITIONS, CORES = 8, 2


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=parse_size, default=parse_size("100MB"))
    parser.add_argument("--store", default="")
    parser.add_argument("--users", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/out"))
    options = parser.parse_args()
    store = options.store or capture_workload(options.folder.resolve(), "wordcount", options.size)
    narrow, wide, witnesses = narrow_and_wide_rows(store)
    with serve(store) as (address, pid):
        row = {
            "benchmark": "api",
            "store": store.partition(":")[0],
            "users": options.users,
            "rows": len(narrow),
            "trace": asyncio.run(run_users(address, narrow, options.users, options.seconds)),
            "top_witnesses": witnesses,
            "top_counts": wide_counts(address, wide),
            "memory": asyncio.run(load_memory(address, pid, narrow, options.queries)),
        }
    print(json.dumps(row | {"provenance": provenance()}), flush=True)


def capture_workload(folder: Path, name: str, size: int) -> str:
    """A store that holds a captured run of a workload."""
    workload = WORKLOADS[name]
    source = workload.prepare(folder / "inputs", size)
    setup = Setup(workload, source, folder / f"{name}-served", PARTITIONS, CORES)
    run = run_once(setup, SPOOL, 0)
    return f"sqlite:///{run.lineage / 'lineage.db'}"


def narrow_and_wide_rows(store: str) -> tuple[list[str], str, int]:
    """Addresses of rows with few witnesses; the one with the most, and how many it has."""
    with open_store(store) as opened:
        counts = counted_rows(opened.graph(opened.application_ids()[0]))
    few = [row for row, count in counts.items() if count <= WITNESSES_MAX][:ROWS_MAX]
    top = max(counts, key=lambda row: counts[row])
    return [f"{space}#{at}" for space, at in few], f"{top[0]}#{top[1]}", counts[top]


@contextmanager
def serve(store: str) -> Iterator[tuple[str, int]]:
    """Address and process id of a service over a store, with no limit on requests."""
    settings = {
        "LINEAGE_STORE": store,
        "LINEAGE_API_PORT": "0",
        "LINEAGE_API_OPEN": "true",
        "LINEAGE_API_RATE": "1000000/second",
        "LINEAGE_API_ROOTS": "/",
    }
    command = [sys.executable, "-m", "lineage_query_api"]
    with subprocess.Popen(command, env=os.environ | settings, stderr=subprocess.PIPE) as service:
        assert service.stderr is not None
        try:
            for line in service.stderr:
                url = re.search(rb'"url": "([^"]+)"', line)
                if url:
                    break
            else:
                raise RunError("the query API did not start")
            # It logs each request: somebody has to read on.
            with subprocess.Popen(["cat"], stdin=service.stderr, stdout=subprocess.DEVNULL):
                try:
                    yield url[1].decode(), service.pid
                finally:
                    # The reader ends with it.
                    service.terminate()
        finally:
            service.terminate()


async def ask(client: httpx.AsyncClient, place: str) -> float:
    """One trace with the texts of its first items; milliseconds."""
    body = {"direction": "backward", "start": {"places": [place]}}
    started = time.perf_counter()
    answer = await client.post("/v1/applications/latest/traces", json=body)
    elapsed = (time.perf_counter() - started) * 1000
    if answer.status_code != httpx.codes.OK or not answer.json()["count"]:
        raise RunError(f"{place}: {answer.status_code} {answer.text[:300]}")
    return elapsed


async def run_users(
    address: str, rows: Sequence[str], count: int, seconds: float
) -> dict[str, Any]:
    """Percentiles over all that the users asked, after each asked once."""
    times: list[float] = []
    async with httpx.AsyncClient(base_url=address, timeout=120) as client:
        await asyncio.gather(*(ask(client, row) for row in rows[:count]))
        stop_at = time.monotonic() + seconds

        async def user(number: int) -> None:
            choose = random.Random(SEED + number)
            await asyncio.sleep(choose.uniform(0, THINK_S))
            while time.monotonic() < stop_at:
                times.append(await ask(client, choose.choice(rows)))
                await asyncio.sleep(THINK_S)

        await asyncio.gather(*(user(number) for number in range(count)))
    return {"questions": len(times), **percentiles(times)}


def wide_counts(address: str, place: str) -> dict[str, float]:
    """Counts of the widest trace. Another ``steps`` makes it another question each time."""
    times = []
    with httpx.Client(base_url=address, timeout=120) as client:
        for number in range(WIDE_QUESTIONS + 1):
            body = {
                "direction": "backward",
                "start": {"places": [place]},
                "steps": 100 + number,
            }
            started = time.perf_counter()
            answer = client.post("/v1/applications/latest/traces", json=body)
            times.append((time.perf_counter() - started) * 1000)
            if answer.status_code != httpx.codes.OK:
                raise RunError(answer.text[:300])
    return {"first_ms": round(times[0], 2), **percentiles(times[1:])}


async def load_memory(address: str, pid: int, rows: Sequence[str], queries: int) -> dict[str, Any]:
    """Resident memory (megabytes) along many traces, eight at once."""
    process, seen = psutil.Process(pid), []
    async with httpx.AsyncClient(base_url=address, timeout=120) as client:
        choose = random.Random(SEED)
        started = time.perf_counter()
        for number in range(0, queries, 8):
            if number % (queries // 10 // 8 * 8 or 8) == 0:
                seen.append(round(process.memory_info().rss / 1e6, 1))
            await asyncio.gather(*(ask(client, choose.choice(rows)) for _ in range(8)))
        elapsed = time.perf_counter() - started
    seen.append(round(process.memory_info().rss / 1e6, 1))
    return {"queries": queries, "rss_mb": seen, "queries_a_second": round(queries / elapsed, 1)}


if __name__ == "__main__":
    main()
