"""Blocks that were linked elsewhere: which are not visible yet, and which have not arrived.

Blocks, what makes them visible, and edges come in several commits, in any order. What they say together is computed of
the files of one version, and remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lineage_core.contract.block import BlockId
from lineage_store.lake.arrow import pc, scalar_of
from lineage_store.lake.columns import BLOCK_ID, PRODUCER_ID, Kind
from lineage_store.lake.files import Files, LakeReader, rows_of


@dataclass(frozen=True, slots=True)
class Arrivals:
    """``hidden``: blocks that are stored and not visible yet. ``stubs``: blocks that are named and not stored.

    ``written``: how many blocks are stored; None: nothing was linked elsewhere, so all blocks are visible.
    """

    hidden: frozenset[BlockId] = frozenset()
    stubs: frozenset[BlockId] = frozenset()
    written: int | None = None

    @property
    def unseen(self) -> frozenset[BlockId]:
        """Blocks that no answer names."""
        return self.hidden | self.stubs


_ALL_VISIBLE: Final = Arrivals()


def arrivals_of(reader: LakeReader, files: Files) -> Arrivals:
    """What of an application arrived."""
    return reader.remember("arrivals", files, lambda of: _arrivals(reader, of))


def _arrivals(reader: LakeReader, files: Files) -> Arrivals:
    if not reader.read(files, Kind.EPOCH, ["name"]).num_rows:
        return _ALL_VISIBLE
    blocks = reader.read(files, Kind.BLOCK, (*BLOCK_ID, "committed"))
    visible = _ids(reader.read(files, Kind.VISIBLE, BLOCK_ID))
    stored = _ids(blocks)
    # Those that were moved here, or linked beside the lake, are visible by themselves.
    moved = _ids(blocks.filter(pc.fill_null(blocks["committed"], scalar_of(True))))
    # File by file: edges are many, and name few blocks.
    edges = [
        _ids(reader.read((file,), Kind.EDGE, ends), ends)
        for file in files
        for ends in (BLOCK_ID, PRODUCER_ID)
    ]
    unmatched = _ids(reader.read(files, Kind.UNMATCHED, BLOCK_ID))
    named = _ids(pa.concat_tables([visible, unmatched, *edges]))
    return Arrivals(
        hidden=_without(stored, pa.concat_tables([visible, moved])),
        stubs=_without(named, stored),
        written=stored.num_rows,
    )


def _ids(rows: pa.Table, names: Sequence[str] = BLOCK_ID) -> pa.Table:
    """Ids of blocks, each once."""
    ids = rows.select(list(names)).group_by(list(names)).aggregate([])
    return pa.table(ids.columns, names=list(BLOCK_ID))


def _without(ids: pa.Table, others: pa.Table) -> frozenset[BlockId]:
    left = ids.join(others, list(BLOCK_ID), join_type="left anti")
    return frozenset(BlockId(*key) for key in rows_of(left))


def count_epochs(reader: LakeReader, files: Files) -> int:
    """How many states of linking made links; one that has no name is none."""
    names = reader.read(files, Kind.EPOCH, ["name"])["name"].to_pylist()
    return len(set(names) - {""})
