"""Texts of items that capture stored beside their flows (detailed mode, an SDK)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lineage_core.contract.block import U64, FlowBlock
from lineage_core.contract.graph import FlowGraph
from lineage_query.blocks import iter_blocks


def item_values(graph: FlowGraph, space: str, positions: U64) -> dict[int, str]:
    """The recorded texts of items of one space; of several texts of an item, the first."""
    texts: dict[int, str] = {}
    if len(positions) == 0:
        return texts
    refs = graph.blocks_into(space, int(positions.min()), int(positions.max()))
    # Blocks without inputs first: detailed mode stores texts separately from flows.
    block_ids = [ref.block_id for ref in sorted(refs, key=lambda ref: ref.in_min <= ref.in_max)]
    for block in iter_blocks(graph, block_ids):
        for position, text in _values(block, space, positions):
            texts.setdefault(position, text)
        if len(texts) == len(positions):
            break
    return texts


def _values(block: FlowBlock, space: str, positions: U64) -> Iterator[tuple[int, str]]:
    if block.values is None:
        return
    for section in block.out:
        if section.space == space:
            outs = block.out_first[section.row_first : section.row_stop]
            for row in np.flatnonzero(np.isin(outs, positions)).tolist():
                text = block.values[section.row_first + row]
                if text is not None:
                    yield int(outs[row]), text
