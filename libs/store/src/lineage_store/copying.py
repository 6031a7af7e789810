"""From one store into another, through the port."""

from __future__ import annotations

from lineage_core.contract.block import BlockId
from lineage_core.linking.linker import TaskId
from lineage_store.parts import in_parts
from lineage_store.port import GraphStore

BLOCKS_AT_ONCE = 64
"""Blocks of one transaction; each takes some megabytes of memory at most."""


def copy_application(source: GraphStore, target: GraphStore, app: str) -> None:
    """Copy all lineage of an application; lineage that the target already has stays.

    Problems that the source recorded when it read files are not copied.

    Raises:
        KeyError: the source has no such application.
        StoreError: a store can't be read or written.
    """
    graph = source.graph(app)
    # Seals are read first: all edges of their spaces exist by then, and are read below. A seal that the source
    # stores meanwhile may cover edges that are not read here.
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
        # Without edges of blocks that arrived since.
        edges = [edge for edge in graph.edges_into(consumers) if edge.producer in copied_ids]
        target.write(app, edges=edges)
    # Written last: their spaces have all of their edges now.
    target.write(app, seals=seals)
