"""From one store into another, through the port."""

from __future__ import annotations

from lineage_core.linking import TaskId
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
    target.write(app, source.messages(app))
    for refs in in_parts(graph.blocks(), BLOCKS_AT_ONCE):
        loaded = graph.load(ref.block_id for ref in refs)
        tasks = {
            ref.block_id: TaskId(ref.task, ref.block_id.partition, ref.block_id.attempt)
            for ref in refs
        }
        unmatched = {ref.block_id: ref.unmatched for ref in refs}
        blocks = [loaded[ref.block_id] for ref in refs]
        target.write(app, blocks=blocks, tasks=tasks, unmatched=unmatched)
    for refs in in_parts(graph.blocks(), BLOCKS_AT_ONCE):
        target.write(app, edges=graph.edges_into(ref.block_id for ref in refs))
    # Last: what they are of has all of its edges now.
    target.write(app, seals=graph.seals())
