"""Processor time of the writer for the lineage of a word count, without Kafka, into a lake or another store.

Stores the records that a linker sends for blocks of random columns, in batches and by processes as the writer has them: each
process has a partition of its own, and begins when all have opened the store and stored a first batch. Prints one JSON line: of each number of writers
megabytes of records a second of processor time and of wall time, over all processes, the largest resident memory of one, and
how much of the processor time are commits (of a lake: its log, and waiting for the disk). `level`: the slowest megabytes a second of processor time over the quickest.
With `--apart`, the same once more into a lake for each writer: what writers lose then, they lose to the machine and not to each other.

    python -m benchmarks.store_records lake:/tmp/lake --megabytes 200 --writers 1 2 4
    python -m benchmarks.store_records neo4j://127.0.0.1:7687 --megabytes 50

The store's own server is not counted. An application of this name is deleted before and after.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import provenance
from benchmarks.row import put_out
from lineage_core.codec.edge_message import Links, pack_links, pack_stored, stored_block
from lineage_core.codec.packing import pack_for_store
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.linking.linker import TaskId
from lineage_store.lake.store import LakeStore
from lineage_store.url import open_store
from lineage_writer.loading import Store, store_batch
from lineage_writer.records import Partition, cut, read_batch
from lineage_writer.settings import WriterSettings
from lineage_writer.stores import store_opener

APP = "bench-store-records"
GROUP = "bench"
ROWS = 16_384


@dataclass(frozen=True)
class Sent:
    """A record of Kafka."""

    offset: int
    value: bytes
    key: bytes = APP.encode()
    timestamp: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("--megabytes", type=int, default=100, help="of columns, of each writer")
    parser.add_argument("--writers", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=1, help="of which the median counts")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    options = parser.parse_args()
    ways = ("together", "apart") if options.apart else ("together",)
    # In turn, so that what else the machine does falls on all of them.
    runs = [
        (way, writers, run(options.store, writers, options.megabytes, is_apart=way == "apart"))
        for _ in range(options.rounds)
        for writers in options.writers
        for way in ways
    ]
    row: dict[str, Any] = {
        "bench": "store_records",
        "store": options.store.partition(":")[0],
        "megabytes_a_writer": options.megabytes,
        "rounds": options.rounds,
    }
    for way in ways:
        by_writers = {
            str(writers): _median(
                [one for of_way, count, one in runs if (of_way, count) == (way, writers)]
            )
            for writers in options.writers
        }
        speeds = [one["mb_a_cpu_s"] for one in by_writers.values()]
        row[way] = {
            "writers": by_writers,
            "mb_a_cpu_s_min": min(speeds),
            "level": round(min(speeds) / max(speeds), 3),
        }
    put_out({**row, "provenance": provenance()}, options.json_out)


def _median(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def run(store: str, writers: int, megabytes: int, *, is_apart: bool) -> dict[str, Any]:
    """Store so many megabytes by each of some processes."""
    urls = [f"{store}-{at}" if is_apart else store for at in range(writers)]
    for url in dict.fromkeys(urls):
        _delete(url)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(writers), context.Queue()
    processes = [
        context.Process(target=write, args=(url, at, megabytes, barrier, results))
        for at, url in enumerate(urls)
    ]
    for process in processes:
        process.start()
    done = [results.get() for _ in processes]
    for process in processes:
        process.join()
    received = sum(_delete(url) for url in dict.fromkeys(urls))
    if received != sum(one["blocks"] for one in done):
        raise SystemExit(f"{received} blocks are in the store, others than those that were written")
    stored = sum(one["megabytes"] for one in done)
    cpu_s = sum(one["cpu_s"] for one in done)
    return {
        "megabytes": round(stored, 1),
        "mb_a_cpu_s": round(stored / cpu_s, 1),
        "mb_a_s": round(stored / max(one["wall_s"] for one in done), 1),
        "commit_share": round(sum(one["commit_cpu_s"] for one in done) / cpu_s, 3),
        "batches": sum(one["batches"] for one in done),
        "memory_mb": max(one["memory_mb"] for one in done),
        "memory_before_mb": max(one["memory_before_mb"] for one in done),
    }


def _delete(url: str) -> int:
    """Delete the application; how many blocks it had."""
    with open_store(url, create=True) as store:
        if APP not in store.application_ids():
            return 0
        blocks = store.counts(APP).received
        store.delete(APP)
        return blocks


class _Commits:
    """Counts the processor time of a lake's commits, of all threads of this process."""

    def __init__(self, store: Store) -> None:
        self.cpu_s = 0.0
        if isinstance(store, LakeStore):
            self._commit = store.table.commit
            store.table.commit = self._timed  # type: ignore[method-assign]

    def _timed(self, *words: Any, **named: Any) -> None:
        began = time.process_time()
        self._commit(*words, **named)
        self.cpu_s += time.process_time() - began


def write(url: str, at: int, megabytes: float, barrier: Barrier, results: Any) -> None:
    """One writer: a partition of its own."""
    settings = WriterSettings.model_validate({"store": url})
    records = records_of(at, megabytes + settings.writer_batch_bytes / 1e6)
    store = store_opener(url)()
    commits = _Commits(store)
    group = f"{GROUP}-{time.time_ns()}"
    partition = Partition("bench", at)

    def batches_from(first: int) -> Iterator[int]:
        """Store a batch each, and say where the next one begins."""
        while first < len(records):
            last, size = first, 0
            while last < len(records) and size < settings.writer_batch_bytes:
                size += len(records[last].value)
                last += 1
            batch = read_batch(
                partition,
                first,
                records[first:last],
                settings.writer_record_bytes,
                0.0,
                new=not first,
            )
            for part in cut(batch, settings.writer_batch_rows):
                store_batch(store, group, partition, part)
            first = last
            yield first

    # What a process does once, such as to load libraries, is no part of what it stores.
    batches = batches_from(0)
    begin = next(batches)
    barrier.wait()
    before, commits.cpu_s = _peak_mb(), 0.0
    began, cpu_began = time.perf_counter(), time.process_time()
    count = sum(1 for _ in batches)
    results.put(
        {
            "megabytes": sum(len(record.value) for record in records[begin:]) / 1e6,
            "wall_s": time.perf_counter() - began,
            "cpu_s": time.process_time() - cpu_began,
            "commit_cpu_s": commits.cpu_s,
            "memory_mb": _peak_mb(),
            "memory_before_mb": before,
            "batches": count,
            "blocks": len(records) // 2,
        }
    )
    store.close()


def records_of(at: int, megabytes: float) -> list[Sent]:
    """Blocks of a task each, and what makes them visible."""
    random = np.random.default_rng(at)
    values: list[bytes] = []
    size = 0
    while size < megabytes * 1e6:
        block_id = BlockId("4", at, at, len(values) // 2)
        block = FlowBlock(
            block_id,
            Relation.ROWS,
            f"1#{at}",
            (Section("4@0", 0, ROWS),),
            np.sort(random.integers(0, 2**40, ROWS, np.uint64)),
            random.integers(0, 2**63, ROWS, np.uint64),
            np.arange(ROWS + 1, dtype=np.int64),
            None,
            app=APP,
        )
        stored = stored_block(APP, TaskId("4", at, at), pack_for_store(block))
        values.append(pack_stored(stored))
        values += pack_links(Links(APP, visible=[block_id]))
        size += len(values[-2])
    return [Sent(offset, value) for offset, value in enumerate(values)]


def _peak_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


if __name__ == "__main__":
    main()
