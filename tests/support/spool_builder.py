"""Writes spool folders as capture does, and reads back all that a store says of an application."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lineage_core.codec.csv_codec import encode_csv
from lineage_core.codec.record_batch import compress, pack_record_batch
from lineage_core.contract.address import POSITION_MAX
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.block_header import header_of
from lineage_core.contract.message import (
    Begin,
    Commit,
    End,
    Expected,
    Job,
    Link,
    Message,
    Register,
    Totals,
    dump_message,
)
from lineage_core.contract.verdict import Verdict, judge
from lineage_store.port import GraphStore

APP = "app-1"
Rows = Sequence[tuple[Sequence[int], int]]
"""(input positions, output position) of each row."""


def block(
    block_id: BlockId,
    in_space: str,
    sections: Sequence[tuple[str, Rows]],
    *,
    app: str = APP,
    reason: str = "",
) -> FlowBlock:
    """A block of single positions; ``sections``: rows by output space."""
    parts, at = [], 0
    for space, rows in sections:
        parts.append(Section(space, at, at + len(rows)))
        at += len(rows)
    flat = [row for _, rows in sections for row in rows]
    counts = [len(ins) for ins, _ in flat]
    return FlowBlock(
        block_id,
        Relation.ROWS,
        in_space,
        tuple(parts),
        np.array([position for ins, _ in flat for position in ins], np.uint64),
        np.array([out for _, out in flat], np.uint64),
        np.cumsum([0, *counts]).astype(np.int64),
        exact=not reason,
        reason=reason,
        app=app,
    )


class Spool:
    """One application's spool folder."""

    def __init__(self, folder: Path, app: str = APP) -> None:
        self.app = app
        self.folder = folder / app
        self.blocks = self.folder / "blocks"
        self.driver = self.folder / "driver.jsonl"
        self.blocks.mkdir(parents=True)

    def send(self, *messages: Message) -> None:
        with self.driver.open("a") as stream:
            stream.writelines(dump_message(message) + "\n" for message in messages)

    def begin(self, started_at: float = 100.0, name: str = "job") -> None:
        self.send(Begin(app=self.app, name=name, started_at=started_at))

    def end(self, **totals: int) -> None:
        self.send(End(app=self.app, ended_at=200.0, status="ok", totals=Totals(**totals)))

    def node(self, node: str, kind: str, op: str = "map", **fields: Any) -> None:
        self.send(Register(app=self.app, node=node, kind=kind, op=op, **fields))

    def job(self, sink: str, **partitions: int) -> None:
        """``partitions``: number of partitions by node, as ``n4=2``."""
        expected = tuple(
            Expected(node=node[1:], partitions=tuple(range(count)))
            for node, count in partitions.items()
        )
        self.send(Job(app=self.app, job=0, action="save", sink=sink, expected=expected))

    def file(self, node: str, partition: int, attempt: int, blocks: Iterable[FlowBlock]) -> Path:
        path = self.blocks / f"{node}-{partition}-{attempt}.lmf"
        frames = [
            pack_record_batch(header_of(one).to_json(), compress(encode_csv(one))) for one in blocks
        ]
        path.write_bytes(b"".join(frames))
        return path

    def commit(self, node: str, partition: int, attempt: int, blocks: int, **fields: Any) -> Commit:
        message = Commit(
            app=self.app,
            node=node,
            partition=partition,
            attempt=attempt,
            file=f"{node}-{partition}-{attempt}.lmf",
            blocks=blocks,
            **fields,
        )
        self.send(message)
        return message

    def task(
        self, node: str, partition: int, attempt: int, blocks: Sequence[FlowBlock], **fields: Any
    ) -> Path:
        """A file and its commit."""
        path = self.file(node, partition, attempt, blocks)
        self.commit(node, partition, attempt, len(blocks), **fields)
        return path


def word_count(spool: Spool) -> None:
    """Two map tasks, two reduce tasks: words by hash, rows of the sink by ordinal."""
    spool.begin()
    spool.node("1", "source", "textFile", partitions=2)
    spool.node("4", "shuffle", "reduceByKey", partitions=2)
    spool.node("6", "sink", "saveAsTextFile", partitions=2)
    spool.send(Link(app=spool.app, src="1", dest="4"), Link(app=spool.app, src="4", dest="6"))
    even, odd = 2**63 + 8, 77
    for partition in range(2):
        block_id = BlockId("4", partition, 10 + partition, 0)
        more = BlockId("4", partition, 10 + partition, 1)
        spool.task(
            "4",
            partition,
            10 + partition,
            [
                block(block_id, f"1#{partition}", [("4@0", [([0, 2, 5], even)])], app=spool.app),
                block(
                    more,
                    f"1#{partition}",
                    [("4@0", [([7], 5 + partition)]), ("4@1", [([2], odd), ([3, 6], 6)])],
                    app=spool.app,
                ),
            ],
        )
    for partition, keys in enumerate(([even, 5, 6], [6, odd])):
        block_id = BlockId("6", partition, 20 + partition, 0)
        rows = [([key], at) for at, key in enumerate(keys)]
        one = block(block_id, f"4@{partition}", [(f"6#{partition}", rows)], app=spool.app)
        spool.task("6", partition, 20 + partition, [one])
    spool.job("6", n4=2, n6=2)
    spool.end(tasks=4)


def verdict_of(store: GraphStore, app: str = APP, now: float = 300.0) -> Verdict:
    return judge(store.messages(app), store.counts(app), now=now)


def contents(store: GraphStore, app: str = APP) -> dict[str, object]:
    """All that a store says of an application, in an order of its own."""
    graph = store.graph(app)
    refs = {ref.block_id: ref for ref in graph.blocks()}
    for ref in refs.values():
        assert ref in graph.blocks_from(ref.in_space, 0, POSITION_MAX) or ref.in_min > ref.in_max
    loaded = graph.load(refs)
    for key, found in loaded.items():
        for space in {part.space for part in found.out if part.row_stop > part.row_first}:
            assert refs[key] in graph.blocks_into(space, 0, POSITION_MAX)
    edges = {
        (edge.producer, edge.consumer): (
            edge.pairs,
            _list(edge.rows_producer),
            _list(edge.rows_consumer),
        )
        for edge in graph.edges_into(refs)
    }
    backward = {(edge.producer, edge.consumer) for edge in graph.edges_from(refs)}
    assert backward == edges.keys()
    return {
        "nodes": list(graph.nodes()),
        "links": list(graph.links()),
        "refs": [refs[key] for key in sorted(refs)],
        "blocks": {str(key): encode_csv(loaded[key]) for key in sorted(refs)},
        "edges": {key: edges[key] for key in sorted(edges)},
        "verdict": verdict_of(store, app).to_json(),
    }


def _list(column: np.ndarray[Any, Any] | None) -> list[int] | None:
    return None if column is None else column.tolist()


RECOMPUTED_EXACT = {"4": False, "5": True, "6": False, "7": True, "8": True}
"""By node, what of :func:`write_recomputed` stays exact: of 5 and 7 the attempts agree, 8 has no keys."""


def write_recomputed(store: GraphStore) -> None:
    """Five tasks of two attempts each: digests that differ or not, inputs that are of an attempt or not."""
    for node, digests, in_space, out_space in (
        ("4", "ab", "1#0", "4@0"),
        ("5", "aa", "1#0", "5@0"),
        ("6", "aa", "3#0.2", "6@0"),
        ("7", "aa", "1#0", "7@0"),
        ("8", "ab", "3#0.2", "8#0.5"),
    ):
        for attempt, digest in zip((5, 6), digests, strict=True):
            one = block(BlockId(node, 0, attempt, 0), in_space, [(out_space, [([attempt], 1)])])
            done = Commit(app=APP, node=node, partition=0, attempt=attempt, blocks=1, digest=digest)
            store.write(APP, [done], [one])
