"""Processor time of 1, 2 and 4 linkers and writers, each with a partition of its own, for the same lineage.

Sends the lineage of a ``distinct`` (`ingest_blocks.py --keys`) by ``lineage send`` into topics of 1, 2
and 4 partitions. As many linkers share them, then, when these are done, as many writers, until it is
complete in Neo4j. Prints a JSON line for each: processor time per association of all linkers and of
all writers together, beyond what they use while idle (``idle_cpu``: seconds of it per second), and
matched pairs and bytes of columns per second of it.

    python -m benchmarks.workers --keys 4000000 --workers 1 2 4 4 2 1
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient

from benchmarks.ingest_blocks import APP, Spool
from benchmarks.kafka import until_committed
from benchmarks.meter import cpu_s
from benchmarks.pairs import RunError
from benchmarks.provenance import provenance
from benchmarks.stack import Stack, complete, lineage, stack
from lineage.stack import supervisor
from lineage.stack.kafka_server import create_topics
from lineage.stack.ports import free_ports
from lineage.stack.services import KINDS, Service
from lineage_kafka.topics import Topics
from lineage_store.url import open_store

PARTITIONS = 32
"""Of the job, not of the topics."""
IDLE_S = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=4_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 4, 2, 1])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spool = Spool(folder / "made" / APP, PARTITIONS)
        spool.write_distinct(options.keys)
        with stack(folder / "stack") as servers:
            for number, workers in enumerate(options.workers):
                row = measure_workers(servers, folder / str(number), spool, options.keys, workers)
                shown = {"bench": "workers", "keys": options.keys, "workers": workers, **row}
                print(json.dumps(shown | {"provenance": provenance()}), flush=True)


def measure_workers(
    servers: Stack, folder: Path, spool: Spool, keys: int, workers: int
) -> dict[str, Any]:
    """One run on topics of its own; nothing of it is left in the store."""
    servers.redis().flushall()
    topics = Topics(f"{folder.name}-")
    shared = {topics.flow, topics.edge}
    bootstrap = servers.settings["LINEAGE_KAFKA"]
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        create_topics(admin, {topic: workers if topic in shared else 1 for topic in topics.all()})
    settings = {
        **servers.settings,
        "LINEAGE_TOPIC_PREFIX": topics.prefix,
        "LINEAGE_LINKER_GROUP": f"{topics.prefix}linker",
        "LINEAGE_WRITER_GROUP": f"{topics.prefix}writer",
        "LINEAGE_SPOOL": str(folder / "spool"),
    }
    shutil.copytree(spool.folder.parent, folder / "spool")
    services = [
        Service(kind, folder / f"{kind.name}-{number}", free_ports(1)[0], settings)
        for kind in KINDS
        for number in range(workers)
    ]
    try:
        for service in services:
            supervisor.start(service)
        for service in services:
            supervisor.wait_ready(service)
        idle = _idle(services)
        with pause_services(services, "writer"):
            began = time.time()
            lineage("send", settings=settings)
            group = settings["LINEAGE_LINKER_GROUP"]
            until_committed(bootstrap, group, (topics.flow, topics.node))
            linked = _cpu_s(services)["linker"] - idle.used["linker"]
            linked -= (time.time() - began) * idle.per_s["linker"]
        with pause_services(services, "linker"), open_store(settings["LINEAGE_STORE"]) as store:
            began = time.time()
            complete(store, APP)
            written = _cpu_s(services)["writer"] - idle.used["writer"]
            written -= (time.time() - began) * idle.per_s["writer"]
            associations = store.applications()[0].associations
            store.delete(APP)
    finally:
        for service in services:
            supervisor.stop(service)
    return {
        "associations": associations,
        "idle_cpu": {name: round(rate, 3) for name, rate in idle.per_s.items()},
        "linker_cpu_s": round(linked, 2),
        "linker_ns_per_association": round(linked / associations * 1e9),
        "linker_pairs_per_cpu_s": round(keys / linked),
        "writer_cpu_s": round(written, 2),
        "writer_ns_per_association": round(written / associations * 1e9),
        "writer_bytes_per_cpu_s": round(spool.bytes / written),
    }


@contextmanager
def pause_services(services: Sequence[Service], name: str) -> Iterator[None]:
    """Stop the processes of a service for a while: they use no processor time."""
    processes = [_process(service) for service in services if service.name == name]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


@dataclass(frozen=True)
class Idle:
    """Processor time of services that have nothing to do: used until now, and per second of it."""

    used: Mapping[str, float]
    per_s: Mapping[str, float]


def _idle(services: Sequence[Service]) -> Idle:
    begin = _cpu_s(services)
    time.sleep(IDLE_S)  # what is measured: nothing
    end = _cpu_s(services)
    return Idle(end, {name: (end[name] - begin[name]) / IDLE_S for name in end})


def _cpu_s(services: Sequence[Service]) -> dict[str, float]:
    """User and system time of all linkers, and of all writers, since their start."""
    seconds = dict.fromkeys((kind.name for kind in KINDS), 0.0)
    for service in services:
        seconds[service.name] += cpu_s(_process(service).pid)
    return seconds


def _process(service: Service) -> psutil.Process:
    process = supervisor.running(service)
    if process is None:
        raise RunError(f"{service.name} has ended; see {service.log}")
    return psutil.Process(process.pid)


if __name__ == "__main__":
    main()
