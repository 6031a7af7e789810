"""Processor time of 1, 2 and 4 linkers and writers, each with a partition of its own, for the same lineage.

Sends the lineage of a ``distinct`` (`ingest_blocks.py --keys`) by ``lineage send`` into topics of 1, 2
and 4 partitions, which as many linkers and writers share, and waits until it is complete in Neo4j.
Prints a JSON line for each: processor time per association of all linkers and of all writers
together, beyond what they use while idle (``idle_cpu``: seconds of it per second), and the bytes of
columns that a writer loads per second of its own.

    python -m benchmarks.workers --keys 4000000 --workers 1 2 4 4 2 1
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient

from benchmarks.ingest_blocks import APP, Spool
from benchmarks.pipeline import Stack, complete, stack
from benchmarks.provenance import provenance
from lineage.stack import supervisor
from lineage.stack.kafka_server import create_topics
from lineage.stack.ports import free_ports
from lineage.stack.services import KINDS, Service
from lineage_core.topics import Topics
from lineage_store.opening import open_store

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
        made = Spool(folder / "made" / APP, PARTITIONS)
        made.write_distinct(options.keys)
        with stack(folder / "stack") as servers:
            os.environ.update(servers.settings)
            for number, workers in enumerate(options.workers):
                row = measured(servers, folder / str(number), made, workers)
                shown = {"bench": "workers", "keys": options.keys, "workers": workers, **row}
                print(json.dumps(shown | {"provenance": provenance()}), flush=True)


def measured(servers: Stack, folder: Path, made: Spool, workers: int) -> dict[str, Any]:
    """One run on topics of its own; nothing of it is left in the store."""
    servers.redis().flushall()
    topics = Topics(f"{folder.name}-")
    shared = {topics.flow, topics.edge}
    admin = AdminClient({"bootstrap.servers": servers.settings["LINEAGE_KAFKA"]})
    create_topics(admin, {one: workers if one in shared else 1 for one in topics.all()})
    settings = {
        **servers.settings,
        "LINEAGE_TOPIC_PREFIX": topics.prefix,
        "LINEAGE_LINKER_GROUP": f"{topics.prefix}linker",
        "LINEAGE_WRITER_GROUP": f"{topics.prefix}writer",
        "LINEAGE_SPOOL": str(folder / "spool"),
    }
    shutil.copytree(made.folder.parent, folder / "spool")
    services = [
        Service(kind, folder / f"{kind.name}-{number}", free_ports(1)[0], settings)
        for kind in KINDS
        for number in range(workers)
    ]
    try:
        for one in services:
            supervisor.start(one)
        for one in services:
            supervisor.wait_ready(one)
        return _loaded(services, settings, made)
    finally:
        for one in services:
            supervisor.stop(one)


def _loaded(
    services: Sequence[Service], settings: Mapping[str, str], made: Spool
) -> dict[str, Any]:
    begin = _cpu_s(services)
    time.sleep(IDLE_S)  # what is measured: nothing
    idle = {name: (used - begin[name]) / IDLE_S for name, used in _cpu_s(services).items()}
    before, began = _cpu_s(services), time.time()
    command = [sys.executable, "-c", "from lineage.main import app; app()", "send"]
    subprocess.run(command, env={**os.environ, **settings}, check=True, stdout=subprocess.DEVNULL)
    with open_store(settings["LINEAGE_STORE"]) as store:
        _, ended = complete(store, APP)
        after = _cpu_s(services)
        associations = store.applications()[0].associations
        store.delete(APP)
    seconds = ended - began
    used = {name: after[name] - before[name] - seconds * idle[name] for name in after}
    return {
        "seconds": round(seconds, 2),
        "associations": associations,
        "idle_cpu": {name: round(one, 3) for name, one in idle.items()},
        "linker_cpu_s": round(used["linker"], 2),
        "linker_ns_per_association": round(used["linker"] / associations * 1e9),
        "writer_cpu_s": round(used["writer"], 2),
        "writer_ns_per_association": round(used["writer"] / associations * 1e9),
        "writer_bytes_per_cpu_s": round(made.bytes / used["writer"]),
    }


def _cpu_s(services: Sequence[Service]) -> dict[str, float]:
    """User and system time of all linkers, and of all writers, since their start."""
    found = dict.fromkeys((kind.name for kind in KINDS), 0.0)
    for one in services:
        process = supervisor.running(one)
        assert process is not None
        times = psutil.Process(process.pid).cpu_times()
        found[one.name] += times.user + times.system
    return found


if __name__ == "__main__":
    main()
