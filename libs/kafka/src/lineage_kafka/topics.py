"""Kafka topics of the pipeline, and which partition a record goes to.

A record's value is one JSON message (:mod:`lineage_core.contract.message`; its first byte is ``{``) or one
frame (:mod:`lineage_core.codec.record_batch`); its key is the application's id. The partition is always chosen
here: clients differ in how they hash keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import xxhash

RECORD_BYTES_MAX = 8 << 20
"""Largest record; topics and clients are set up for it."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Names of the topics. ``prefix`` keeps several installations on one Kafka apart."""

    prefix: str = ""

    @property
    def flow(self) -> str:
        """Blocks, commits and failures of tasks: emitter to linker."""
        return f"{self.prefix}lineage-flow"

    @property
    def node(self) -> str:
        """All other messages of the driver: emitter to linker."""
        return f"{self.prefix}lineage-node"

    @property
    def edge(self) -> str:
        """Messages, blocks and linked edges to be stored: linker to writer."""
        return f"{self.prefix}lineage-edge"

    @property
    def dead_letter(self) -> str:
        """Records that could not be used, unchanged, with the reason in their headers."""
        return f"{self.prefix}lineage-dead-letter"

    def all(self) -> tuple[str, ...]:
        """Every topic."""
        return self.flow, self.node, self.edge, self.dead_letter

    def partitions(self, shared_partitions: int) -> dict[str, int]:
        """Every topic with its number of partitions: ``shared_partitions`` for topics that several linkers or writers read."""
        return {
            name: shared_partitions if name in {self.flow, self.edge} else 1 for name in self.all()
        }


def flow_partition(app: str, task_partition: int, partitions: int) -> int:
    """The partition for a task's blocks and its commit: all attempts at one partition of Spark stay in one order."""
    return (_hash(app) + task_partition) % partitions


def app_partition(app: str, partitions: int) -> int:
    """The partition for the messages of an application, which stay in order."""
    return _hash(app) % partitions


def _hash(app: str) -> int:
    return xxhash.xxh3_64_intdigest(app.encode("utf-8", "surrogatepass"))
