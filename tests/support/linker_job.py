"""Records that a job sends, made up from a seed: a shuffle, a cached partition, a take."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lineage_core.codec.csv_codec import encode_csv
from lineage_core.codec.record_batch import compress, pack_record_batch
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.block_header import header_of
from lineage_core.contract.message import (
    Begin,
    Commit,
    End,
    Message,
    Register,
    Totals,
    dump_message,
)
from lineage_core.linking.linker import TaskId


def record_batch_of(block: FlowBlock, task: TaskId) -> bytes:
    """The value of a block's record."""
    header = dataclasses.replace(header_of(block), task=task.node)
    return pack_record_batch(header.to_json(), compress(encode_csv(block)))


def value_of(message: Message) -> bytes:
    """The value of a message's record."""
    return dump_message(message).encode()


def keyed(
    app: str,
    block_id: BlockId,
    in_space: str,
    out: Sequence[tuple[str, Sequence[int]]],
    inputs: Sequence[Sequence[int]],
) -> FlowBlock:
    """A block of single positions; ``out``: positions by output space, ``inputs``: row by row."""
    sections, at = [], 0
    for space, positions in out:
        sections.append(Section(space, at, at + len(positions)))
        at += len(positions)
    flat = [position for row in inputs for position in sorted(row)]
    return FlowBlock(
        block_id,
        Relation.ROWS,
        in_space,
        tuple(part for part in sections if part.row_stop > part.row_first),
        np.array(flat, np.uint64),
        np.array([position for _, positions in out for position in positions], np.uint64),
        np.cumsum([0, *map(len, inputs)]).astype(np.int64),
        app=app,
    )


@dataclass
class Job:
    """``flow``: (partition of the task, value), in the order in which the driver and tasks send."""

    app: str
    node: list[bytes] = field(default_factory=list)
    flow: list[tuple[int, bytes]] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=lambda: {"tasks": 0, "blocks": 0})

    def values(self) -> list[bytes]:
        """All values, nodes first."""
        return [*self.node, *(value for _, value in self.flow)]

    def register(self, node: str, kind: str, op: str) -> None:
        self.node.append(value_of(Register(app=self.app, node=node, kind=kind, op=op)))

    def task(
        self,
        task: TaskId,
        blocks: Sequence[FlowBlock],
        *,
        commits: bool = True,
        keep: int | None = None,
    ) -> None:
        """The blocks of a task, and its commit."""
        self.flow += [(task.partition, record_batch_of(block, task)) for block in blocks]
        if commits:
            self.totals["tasks"] += 1
            self.totals["blocks"] += len(blocks)
            commit = Commit(
                app=self.app,
                node=task.node,
                partition=task.partition,
                attempt=task.attempt,
                blocks=len(blocks),
                keep=keep,
            )
            self.flow.append((task.partition, value_of(commit)))

    def end(self) -> None:
        totals = Totals(**self.totals)
        end = End(app=self.app, ended_at=2000.0, status="ok", totals=totals)
        self.node.append(value_of(end))


def make_job(app: str, seed: int, *, maps: int = 4, reduces: int = 3, words: int = 40) -> Job:
    """Lines are split into words, counted, saved; a cached partition is read by a ``take``."""
    rng = random.Random(seed)
    job = Job(app)
    job.node.append(value_of(Begin(app=app, name="job", started_at=1000.0)))
    job.register("1", "source", "textFile")
    job.register("2", "shuffle", "reduceByKey")
    job.register("3", "sink", "saveAsTextFile")
    job.register("4", "operator", "cache")
    job.register("5", "sink", "take")
    keys = sorted({rng.getrandbits(64) for _ in range(words)})
    attempt = 0
    for part in range(maps):
        attempt += 1
        mine = sorted(rng.sample(keys, len(keys) * 3 // 4))
        blocks = []
        for seq, some in enumerate((mine[::2], mine[1::2])):
            by_reduce = [
                (f"2@{r}", [key for key in some if key % reduces == r]) for r in range(reduces)
            ]
            count = sum(len(one) for _, one in by_reduce)
            inputs = [rng.sample(range(0, 200, 2), rng.randint(1, 3)) for _ in range(count)]
            blocks.append(
                keyed(app, BlockId("2", part, attempt, seq), f"1#{part}", by_reduce, inputs)
            )
        job.task(TaskId("2", part, attempt), blocks)
    for part in range(reduces):
        attempt += 1
        mine = [key for key in keys if key % reduces == part]
        rng.shuffle(mine)
        block = keyed(
            app,
            BlockId("3", part, attempt, 0),
            f"2@{part}",
            [(f"3#{part}", range(len(mine)))],
            [[key] for key in mine],
        )
        job.task(TaskId("3", part, attempt), [block])
    _taken(job, attempt + 1)
    job.end()
    return job


def _taken(job: Job, attempt: int) -> None:
    """A task that a take stopped numbered rows which another one read: it is claimed."""
    cached = keyed(
        job.app,
        BlockId("4", 0, attempt, 0),
        "1#0",
        [(f"4#0.{attempt}", range(50))],
        [[position] for position in range(50)],
    )
    job.task(TaskId("4", 0, attempt), [cached], commits=False)
    reader = attempt + 1
    rows = [
        keyed(
            job.app,
            BlockId("5", 0, reader, seq),
            f"4#0.{attempt}",
            [("5#0", range(10 * seq, 10 * seq + 10))],
            [[position] for position in range(10 * seq, 10 * seq + 10)],
        )
        for seq in range(3)
    ]
    job.task(TaskId("5", 0, reader), rows, keep=13)
