"""From one store into another, through the port."""

from __future__ import annotations

from lineage_core.contract.block import BlockId
from lineage_core.linking.linker import TaskId
from lineage_store.parts import in_parts
from lineage_store.port import GraphStore

BLOCKS_AT_ONCE = 64
"""Blocks of one transaction; each takes some megabytes of memory at most."""


def copy_application(source: GraphStore, target: GraphStore, app: str) -> None:
    """Copy all lineage of an application; what is there already stays.

    Problems that the source met when it read files stay behind.

    Raises:
        KeyError: the source has no such application.
        StoreError: a store can't be read or written.
    """
    graph = source.graph(app)
    # Read first: the edges of what they are of are there, and are read below. One that the source takes
    # meanwhile is of edges that may come behind what is read.
    seals = graph.seals()
    target.write(app, source.messages(app))
    copied: list[BlockId] = []
    for refs in in_parts(graph.blocks(), BLOCKS_AT_ONCE):
        blocks_by_id = graph.load(ref.block_id for ref in refs)
        tasks = {
            ref.block_id: TaskId(ref.task, ref.block_id.partition, ref.block_id.attempt)
            for ref in refs
        }
        unmatched = {ref.block_id: ref.unmatched for ref in refs}
        blocks = [blocks_by_id[ref.block_id] for ref in refs]
        target.write(app, blocks=blocks, tasks=tasks, unmatched=unmatched)
        copied += tasks
    copied_ids = set(copied)
    for consumers in in_parts(copied, BLOCKS_AT_ONCE):
        # Not of blocks that have come since.
        edges = [edge for edge in graph.edges_into(consumers) if edge.producer in copied_ids]
        target.write(app, edges=edges)
    # Written last: what they are of has all of its edges now.
    target.write(app, seals=seals)
