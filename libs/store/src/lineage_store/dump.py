"""A canonical dump of one application: the same bytes from every store that holds the same.

One JSON object on each line, its one key saying what it is: ``application``, ``message``, ``node``,
``link``, ``split``, ``file``, ``block`` (header and rows as CSV), ``edge`` (row columns, or null
where they are implied) and ``counts``. Lines of one kind are in order of what they name, keys in
order of the alphabet; nothing depends on the order in which things arrived.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from lineage_core.codec.csv_codec import encode_csv
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.block_header import header_of
from lineage_core.contract.graph import BlockRef, EdgeBatch, FlowGraph
from lineage_core.contract.message import Message, dump_message
from lineage_core.contract.verdict import StoreCounts
from lineage_store.parts import in_parts
from lineage_store.port import GraphStore

BLOCKS_AT_ONCE = 32
"""Blocks that are in memory together."""


def dump_application(store: GraphStore, app: str) -> Iterator[str]:
    """The lines of the dump, without line ends.

    Raises:
        KeyError: there is no such application.
        StoreError: the store can't be read.
    """
    graph = store.graph(app)
    yield _line("application", app)
    yield from sorted(_message(message) for message in store.messages(app))
    nodes = sorted(graph.nodes(), key=lambda node: node.node)
    for node in nodes:
        yield _line("node", dataclasses.asdict(node))
    for src, dest in sorted((link.src, link.dest) for link in graph.links()):
        yield _line("link", [src, dest])
    for node in nodes:
        for split in graph.splits(node.node):
            yield _line("split", dataclasses.asdict(split))
        for file in graph.sink_files(node.node):
            yield _line("file", dataclasses.asdict(file))
    for refs in in_parts(graph.blocks(), BLOCKS_AT_ONCE):
        blocks_by_id = graph.load(ref.block_id for ref in refs)
        for ref in refs:
            yield _line("block", _block(ref, blocks_by_id[ref.block_id]))
    yield from _edges(graph)
    yield _line("counts", _counts(store.counts(app)))


def _message(message: Message) -> str:
    return _line("message", json.loads(dump_message(message)))


def _block(ref: BlockRef, block: FlowBlock) -> dict[str, Any]:
    fields: dict[str, Any] = header_of(block).to_fields()
    return fields | {
        "task": ref.task,
        "in_min": ref.in_min,
        "in_max": ref.in_max,
        "csv": encode_csv(block).decode(),
    }


def _edges(graph: FlowGraph) -> Iterator[str]:
    for refs in in_parts(graph.blocks(), BLOCKS_AT_ONCE):
        edges: dict[tuple[BlockId, BlockId], EdgeBatch] = {
            (edge.consumer, edge.producer): edge
            for edge in graph.edges_into(ref.block_id for ref in refs)
        }
        for ends in sorted(edges):
            yield _line("edge", _edge(edges[ends]))


def _edge(edge: EdgeBatch) -> dict[str, Any]:
    columns = edge.rows_producer, edge.rows_consumer
    producer, consumer = (None if column is None else column.tolist() for column in columns)
    return {
        "producer": str(edge.producer),
        "consumer": str(edge.consumer),
        "pairs": edge.pairs,
        "rows_producer": producer,
        "rows_consumer": consumer,
    }


def _counts(counts: StoreCounts) -> dict[str, Any]:
    fields = dataclasses.asdict(counts)
    # How much is on its way, not what the lineage is.
    del fields["written"], fields["silent_s"]
    fields["claimed"] = sorted(counts.claimed)
    fields["recipes"] = sorted(counts.recipes)
    fields["inexact"] = {node: sorted(reasons) for node, reasons in counts.inexact.items()}
    return fields


def _line(kind: str, value: Any) -> str:
    return json.dumps({kind: value}, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
