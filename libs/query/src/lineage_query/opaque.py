"""Opaque strings: items that a program instrumented by hand named itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lineage_core.contract.address import OPAQUE_SPACE
from lineage_core.contract.block import U64, FlowBlock
from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.positions import text_position
from lineage_query.blocks import iter_blocks


def find_opaque(graph: FlowGraph, text: str) -> int | None:
    """The position of an opaque string, if some flow names it."""
    position = text_position(text)
    texts = opaque_texts(graph, np.array([position], np.uint64))
    return position if texts.get(position) == text else None


def opaque_texts(graph: FlowGraph, positions: U64) -> dict[int, str]:
    """The strings behind positions of the opaque space, as far as blocks name them."""
    texts: dict[int, str] = {}
    if len(positions) == 0:
        return texts
    first, last = int(positions.min()), int(positions.max())
    refs = [
        *graph.blocks_into(OPAQUE_SPACE, first, last),
        *graph.blocks_from(OPAQUE_SPACE, first, last),
    ]
    block_ids = list(dict.fromkeys(ref.block_id for ref in refs))
    for block in iter_blocks(graph, block_ids):
        for column, names in _named(block):
            rows = np.flatnonzero(np.isin(column, positions)).tolist()
            texts |= {int(column[row]): names[row] for row in rows}
        if len(texts) == len(positions):
            break
    return texts


def _named(block: FlowBlock) -> Iterator[tuple[U64, list[str]]]:
    """Opaque positions of a block, each column with its strings."""
    if block.in_space == OPAQUE_SPACE and block.in_text is not None:
        # One position a row: that of its string.
        yield block.in_first, list(block.in_text)
    if block.out_text is not None:
        for section in block.out:
            if section.space == OPAQUE_SPACE:
                rows = slice(section.row_first, section.row_stop)
                yield block.out_first[rows], list(block.out_text[rows])
