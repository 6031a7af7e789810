"""Processor time of the writer for the lineage of a word count, without Kafka, into a lake or another store.

Stores the records that a linker sends for blocks of random columns, in batches and by processes as the writer has them: each
process has a partition of its own and begins when all have opened the store. Prints one JSON line: megabytes of records a
second of processor time and of wall time, over all processes, and the largest resident memory of one.

    python -m benchmarks.store_records lake:/tmp/lake --megabytes 200 --writers 1 2 4
    python -m benchmarks.store_records neo4j://127.0.0.1:7687 --megabytes 50

The store's own server is not counted. An application of this name is deleted before and after.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import resource
import time
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Any

import numpy as np

from lineage_core.codec.edge_message import Links, pack_links, pack_stored, stored_block
from lineage_core.codec.packing import pack_for_store
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.linking.linker import TaskId
from lineage_store.url import open_store
from lineage_writer.loading import store_batch
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
    parser.add_argument(
        "--megabytes", type=int, default=100, help="of columns, of all writers together"
    )
    parser.add_argument("--writers", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    with open_store(options.store, create=True) as store:
        for writers in options.writers:
            store.delete(APP)
            row = run(options.store, writers, options.megabytes)
            received = store.counts(APP).received
            store.delete(APP)
            print(json.dumps({**row, "blocks": received, "python": platform.python_version()}))


def run(url: str, writers: int, megabytes: int) -> dict[str, Any]:
    """Store so many megabytes by some processes."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(writers), context.Queue()
    processes = [
        context.Process(target=write, args=(url, at, megabytes / writers, barrier, results))
        for at in range(writers)
    ]
    for process in processes:
        process.start()
    done = [results.get() for _ in processes]
    for process in processes:
        process.join()
    stored = sum(one["megabytes"] for one in done)
    return {
        "bench": "store_records",
        "store": url.partition(":")[0],
        "writers": writers,
        "megabytes": round(stored, 1),
        "mb_a_cpu_s": round(stored / sum(one["cpu_s"] for one in done), 1),
        "mb_a_s": round(stored / max(one["wall_s"] for one in done), 1),
        "batches": sum(one["batches"] for one in done),
        "memory_mb": max(one["memory_mb"] for one in done),
        "memory_before_mb": max(one["memory_before_mb"] for one in done),
    }


def write(url: str, at: int, megabytes: float, barrier: Barrier, results: Any) -> None:
    """One writer: a partition of its own."""
    settings = WriterSettings.model_validate({"store": url})
    records = records_of(at, megabytes)
    store = store_opener(url)()
    group = f"{GROUP}-{time.time_ns()}"
    barrier.wait()
    before = _peak_mb()
    began, cpu_began = time.perf_counter(), time.process_time()
    first, batches, partition = 0, 0, Partition("bench", at)
    while first < len(records):
        last, size = first, 0
        while last < len(records) and size < settings.writer_batch_bytes:
            size += len(records[last].value)
            last += 1
        batch = read_batch(
            partition, first, records[first:last], settings.writer_record_bytes, 0.0, new=not first
        )
        for part in cut(batch, settings.writer_batch_rows):
            store_batch(store, group, partition, part)
            batches += 1
        first = last
    results.put(
        {
            "megabytes": sum(len(record.value) for record in records) / 1e6,
            "wall_s": time.perf_counter() - began,
            "cpu_s": time.process_time() - cpu_began,
            "memory_mb": _peak_mb(),
            "memory_before_mb": before,
            "batches": batches,
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
