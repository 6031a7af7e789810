"""Processor time of the linker for the lineage of a word count, without Spark and Kafka.

Takes the blocks and commits of `ingest_blocks.py` as records, in the order in which tasks end, through
the linker's core with its state in a Redis that runs for the while. Prints one JSON line: processor
time of the linker (``linker_cpu_s``) and of Redis (``redis_cpu_s``), what Redis held at most beyond an
empty one, and how many records went out.

    python -m benchmarks.link_records --megabytes 100
    python -m benchmarks.link_records --keys 2000000 --partitions 32
    python -m benchmarks.link_records --shuffle 200

``--keys``: a ``distinct`` of so many rows that are all different. ``--shuffle``: so many map by so many
reduce tasks with one small block each.
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from redis import Redis

from benchmarks.ingest_blocks import APP, Spool
from lineage.stack import supervisor
from lineage.stack.ports import free_ports
from lineage.stack.redis_server import Redis as RedisServer
from lineage_core.codec.csv_codec import encode_csv
from lineage_core.codec.record_batch import compress, pack_record_batch, read_record_batches
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.block_header import header_of
from lineage_core.contract.dead_letter import TopicPartitionOffset
from lineage_core.contract.message import Commit, dump_message, parse_message
from lineage_kafka.topics import Topics
from lineage_linker.batch import LinkBatch
from lineage_linker.records import Incoming, Layout
from lineage_linker.redis_state import RedisState, StateBounds
from lineage_linker.side_cache import SideCache

BATCH = 256
LAYOUT = Layout(Topics(), 4, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--keys", type=int, default=0)
    parser.add_argument("--shuffle", type=int, default=0)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--reduces-first", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.shuffle:
            values = shuffled(options.shuffle)
        else:
            values = spool_records(Path(folder) / APP, options)
        if options.reduces_first:
            values = values[len(values) // 2 :] + values[: len(values) // 2]
        with redis_server(Path(folder) / "redis") as redis:
            row = linked(redis, values)
    print(json.dumps({"bench": "link_records", **vars(options), **row}))


def spool_records(folder: Path, options: argparse.Namespace) -> list[bytes]:
    """Records of a word count or a distinct."""
    spool = Spool(folder, options.partitions)
    if options.keys:
        spool.write_distinct(options.keys)
    else:
        spool.write_word_count(options.megabytes * 17_000)
    values: list[bytes] = []
    last_messages: list[bytes] = []
    for line in (folder / "driver.jsonl").read_bytes().splitlines():
        message = parse_message(line)
        if isinstance(message, Commit):
            content = (folder / "blocks" / message.file).read_bytes()
            frames = read_record_batches(io.BytesIO(content))
            values += [content[frame.offset : frame.stop] for frame in frames]
            values.append(line)
        elif message.type == "end":
            last_messages.append(line)
        else:
            values.append(line)
    return values + last_messages


def shuffled(size: int) -> list[bytes]:
    """Map tasks with a key for each reduce task, then reduce tasks with a key of each map task."""
    values = []
    for at, node in enumerate("46"):
        for task in range(size):
            attempt = at * size + task
            numbers = np.arange(size, dtype=np.uint64)
            if node == "4":
                sections = tuple(Section(f"4@{n}", n, n + 1) for n in range(size))
                columns = (f"1#{task}", sections, numbers, np.full(size, task, np.uint64))
            else:
                columns = (f"4@{task}", (Section(f"6#{task}", 0, size),), numbers, numbers)
            in_space, out, ins, outs = columns
            block_id = BlockId(node, task, attempt, 0)
            block = FlowBlock(block_id, Relation.ROWS, in_space, out, ins, outs, app=APP)
            values.append(
                pack_record_batch(header_of(block).to_json(), compress(encode_csv(block)))
            )
            commit = Commit(app=APP, node=node, partition=task, attempt=attempt, blocks=1)
            values.append(dump_message(commit).encode())
    return values


@contextmanager
def redis_server(folder: Path) -> Iterator[Redis]:
    """A Redis of its own."""
    server = RedisServer(folder, *free_ports(1))
    supervisor.start(server)
    try:
        supervisor.wait_ready(server)
        with Redis.from_url(server.url) as redis:
            yield redis
    finally:
        supervisor.stop(server)


def linked(redis: Redis, values: list[bytes]) -> dict[str, Any]:
    """Through the core, batch by batch; Redis is asked for its memory after each."""
    cache = SideCache(128 << 20)
    empty = memory_of(redis)
    peak = sent = sent_bytes = 0
    totals = dict.fromkeys(
        ("blocks", "flows", "associations", "edges", "edge_batches", "bytes", "dead_letters"), 0
    )
    cpu = wall = 0.0
    complete = 0
    redis_cpu = cpu_of(redis)
    for start in range(0, len(values), BATCH):
        part = values[start : start + BATCH]
        cpu_began, began = time.process_time(), time.perf_counter()
        batch = LinkBatch(
            LAYOUT, lambda app: RedisState(redis, app, cache, StateBounds()), time.time()
        )
        for at, value in enumerate(part):
            batch.handle(
                Incoming(TopicPartitionOffset("flow", 0, start + at), APP.encode(), value, 1.0)
            )
        batch.recount_unmatched()
        batch.send_links("")
        batch.seal()
        batch.send_seals("")
        peak = max(peak, memory_of(redis) - empty)
        batch.finish()
        cpu += time.process_time() - cpu_began
        wall += time.perf_counter() - began
        sent += len(batch.outgoing)
        sent_bytes += sum(len(record.value) for record in batch.outgoing)
        complete += batch.counts.complete
        for name in totals:
            totals[name] += getattr(batch.counts, name)
    redis_cpu = cpu_of(redis) - redis_cpu
    return {
        **totals,
        "complete": complete,
        "linker_cpu_s": round(cpu, 3),
        "linker_wall_s": round(wall, 3),
        "redis_cpu_s": round(redis_cpu, 3),
        "associations_per_cpu_s": round(totals["associations"] / cpu),
        "edges_per_cpu_s": round(totals["edges"] / cpu),
        "redis_peak_bytes": peak,
        "records_sent": sent,
        "bytes_sent": sent_bytes,
        "python": platform.python_version(),
    }


def memory_of(redis: Redis) -> int:
    memory: Any = redis.info("memory")
    return int(memory["used_memory_dataset"])


def cpu_of(redis: Redis) -> float:
    cpu: Any = redis.info("cpu")
    return float(cpu["used_cpu_sys"]) + float(cpu["used_cpu_user"])


if __name__ == "__main__":
    main()
