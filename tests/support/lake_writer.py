"""Writes parts of an application into a lake, in a process of its own, and says when each is durable."""

from __future__ import annotations

import sys

import numpy as np

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import Begin, Commit, Register
from lineage_core.contract.sealing import seal_of
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.port import GraphStore
from tests.support.spool_builder import block


def blocks_of(app: str, part: int, count: int = 2, *, wide: bool = False) -> list[FlowBlock]:
    """Blocks of one part: each writes two keys of one space, and the last one reads it."""
    writing = []
    for at in range(count):
        partition = part * count + at
        ins = [partition, partition + 2]
        if wide:
            random = np.random.default_rng(at)
            ins = np.unique(random.integers(0, 2**40, 4_000, np.uint64)).tolist()
        keys = [("4@0", [(ins, part), (ins[:1], part + 1)])]
        writing.append(
            block(BlockId("4", partition, partition, 0), f"1#{partition}", keys, app=app)
        )
    reading = block(BlockId("5", part, part, 0), "4@0", [(f"5#{part}", [([part], 0)])], app=app)
    return [*writing, reading]


def write_application(
    store: GraphStore, app: str, part: int, count: int = 2, *, wide: bool = False
) -> None:
    """Write one part, all at once: messages, blocks, edges, and a seal of its own."""
    blocks = blocks_of(app, part, count, wide=wide)
    ids = [one.block_id for one in blocks]
    rows = np.zeros(1, np.uint32)
    store.write(
        app,
        [
            Begin(app=app, name="parts", started_at=1.0),
            *(Register(app=app, node=node, kind=kind, op="op") for node, kind in (("4", "shuffle"), ("5", "sink"))),
            *(Commit(app=app, node=one.node, partition=one.partition, attempt=one.attempt, blocks=1) for one in ids),
        ],
        blocks,
        [EdgeBatch(one, ids[-1], 1, rows, rows) for one in ids[:-1]],
        unmatched={ids[-1]: part % 2},
        seals=[seal_of(f"4@{part + 1}", ids[:-1], ids[-1:])],
    )  # fmt: skip


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(folder: str, app: str, first: str, count: str) -> None:
    """Write ``count`` parts; ``app`` with a * is another application for each part."""
    with LakeStore(LakeAddress(folder)) as lake:
        _say("ready")
        for part in range(int(first), int(first) + int(count)):
            write_application(lake, app.replace("*", str(part)), part)
            _say(str(part))


if __name__ == "__main__":
    main(*sys.argv[1:])
