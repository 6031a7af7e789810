"""Blocks whose few rows have very many runs."""

from __future__ import annotations

import numpy as np

from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section


def row_of_runs(block: BlockId, runs: int) -> FlowBlock:
    """A block of one row, of so many runs that do not touch."""
    return FlowBlock(
        block,
        Relation.ROWS,
        "1@0",
        (Section("2#0", 0, 1),),
        np.arange(0, 4 * runs, 4, dtype=np.uint64),
        np.zeros(1, np.uint64),
        np.array([0, runs], np.int64),
        np.arange(1, 4 * runs, 4, dtype=np.uint64),
        app="app-1",
    )
