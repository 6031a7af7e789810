"""What the linker sends for a small application: its records, and the same content as it is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from lineage_core.codec.edge_message import (
    Links,
    pack_links,
    pack_stored,
    packed_edge,
    stored_block,
)
from lineage_core.codec.packing import pack_for_store
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import (
    Begin,
    Commit,
    End,
    Expected,
    Heartbeat,
    Job,
    Link,
    Message,
    Register,
    Totals,
    dump_message,
)
from lineage_core.linking.linker import Linker, LinkResult, MemoryState, TaskId
from lineage_store.port import GraphStore
from tests.support.spool_builder import block

WORDS = 200


@dataclass
class EdgeLog:
    """One application. ``records``: values of lineage-edge in the order in which they were sent."""

    app: str
    records: list[bytes] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    blocks: list[FlowBlock] = field(default_factory=list)
    edges: list[EdgeBatch] = field(default_factory=list)
    unmatched: dict[BlockId, int] = field(default_factory=dict)

    def store(self, store: GraphStore) -> None:
        """Write the same content into a store."""
        store.write(self.app, self.messages, self.blocks, self.edges, unmatched=self.unmatched)

    @property
    def keyed(self) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) of each record."""
        for value in self.records:
            yield self.app.encode(), value


def word_count_log(
    app: str, seed: int, maps: int = 3, reduces: int = 2, blocks: int = 4
) -> EdgeLog:
    """A word count of ``maps`` and ``reduces`` tasks, ``blocks`` blocks each map task."""
    rng = np.random.default_rng(seed)
    log = EdgeLog(app)
    state = _Recording()
    linker = Linker(state)
    _frame(log, maps, reduces)
    keys = rng.integers(0, 2**63, WORDS, np.uint64).tolist()
    for partition in range(maps):
        made = []
        for seq in range(blocks):
            chosen = sorted(rng.choice(WORDS, WORDS // 2, replace=False).tolist())
            rows = [
                (np.unique(2 * rng.integers(0, 5_000, 3)).tolist(), keys[word]) for word in chosen
            ]
            outs = [
                (f"4@{reduce}", [row for row in rows if row[1] % reduces == reduce])
                for reduce in range(reduces)
            ]
            made.append(
                block(BlockId("4", partition, partition, seq), f"1#{partition}", outs, app=app)
            )
        _task(log, linker, TaskId("4", partition, partition), made)
    for partition in range(reduces):
        own = [key for key in keys if key % reduces == partition]
        rows = [([key], at) for at, key in enumerate(own)]
        made = [
            block(
                BlockId("6", partition, 100 + partition, 0),
                f"4@{partition}",
                [(f"6#{partition}", rows)],
                app=app,
            )
        ]
        _task(log, linker, TaskId("6", partition, 100 + partition), made)
    linker.recount_unmatched()
    seals = linker.seal()
    log.unmatched = {one: count for one, count in state.counts.items() if count}
    log.records += pack_links(Links(app, unmatched=list(state.counts.items()), seals=seals))
    totals = Totals(tasks=maps + reduces, blocks=len(log.blocks))
    _send(log, End(app=app, ended_at=200.0, status="ok", totals=totals))
    return log


class _Recording(MemoryState):
    """Remembers the last count of unmatched positions of each block."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[BlockId, int] = {}

    def set_unmatched(self, block: BlockId, positions: int) -> None:
        super().set_unmatched(block, positions)
        self.counts[block] = positions


def _frame(log: EdgeLog, maps: int, reduces: int) -> None:
    app = log.app
    _send(
        log,
        Begin(app=app, name="job", started_at=100.0),
        Register(app=app, node="1", kind="source", op="textFile", partitions=maps),
        Register(app=app, node="4", kind="shuffle", op="reduceByKey", partitions=reduces),
        Register(app=app, node="6", kind="sink", op="saveAsTextFile", partitions=reduces),
        Link(app=app, src="1", dest="4"),
        Link(app=app, src="4", dest="6"),
        Heartbeat(app=app, at=150.0),
    )
    expected = tuple(
        Expected(node=node, partitions=tuple(range(count)))
        for node, count in (("4", maps), ("6", reduces))
    )
    _send(log, Job(app=app, job=0, action="save", sink="6", expected=expected))


def _task(log: EdgeLog, linker: Linker, task: TaskId, made: list[FlowBlock]) -> None:
    linked = []
    for one in made:
        packed = pack_for_store(one)
        log.blocks.append(one)
        log.records.append(pack_stored(stored_block(log.app, task, packed)))
        linked.append(linker.receive(task, packed.entry))
    commit = Commit(
        app=log.app,
        node=task.node,
        partition=task.partition,
        attempt=task.attempt,
        blocks=len(made),
        flows=sum(one.rows for one in made),
    )
    _send(log, commit)
    for found in (*linked, linker.commit(task)):
        _links(log, found)


def _links(log: EdgeLog, found: LinkResult) -> None:
    log.edges += found.edges
    edges = [packed_edge(edge) for edge in found.edges]
    log.records += pack_links(Links(log.app, found.visible, edges=edges))


def _send(log: EdgeLog, *messages: Message) -> None:
    log.messages += messages
    log.records += (dump_message(message).encode() for message in messages)


def disordered(log: EdgeLog, seed: int, repeated: float = 0.2) -> list[tuple[bytes, bytes]]:
    """The records in any order, some of them several times."""
    rng = random.Random(seed)
    records = list(log.keyed)
    records += [one for one in records if rng.random() < repeated]
    rng.shuffle(records)
    return records
