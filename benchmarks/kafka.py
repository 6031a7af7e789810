"""A Kafka for measuring emission: the one that is named, or a broker for the while."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lineage.stack import supervisor
from lineage.stack.kafka_server import Kafka
from lineage.stack.ports import free_ports
from lineage_core.topics import Topics

PARTITIONS = 8


@contextmanager
def broker(folder: Path, named: str = "") -> Iterator[str]:
    """Its address; a broker that is not named runs in ``folder`` and is gone afterwards.

    Raises:
        StackError: it does not start.
    """
    if named:
        yield named
        return
    shutil.rmtree(folder, ignore_errors=True)
    topics = Topics()
    server = Kafka(folder, *free_ports(2), topics={topics.flow: PARTITIONS, topics.node: 1})
    try:
        supervisor.start(server)
        supervisor.wait_ready(server)
        yield server.bootstrap
    finally:
        supervisor.stop(server)
        shutil.rmtree(folder, ignore_errors=True)
