"""Numbers, packs and counts the blocks of one segment run, whichever way they go."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lineage_core.codec.csv_codec import encode_csv, header_of
from lineage_core.codec.record_batch import compress, pack_record_batch

if TYPE_CHECKING:
    from lineage_core.contract.block import FlowBlock


class BlockPacker:
    """Packs blocks into record batches. Not thread-safe."""

    def __init__(self) -> None:
        self.blocks = self.flows = self.associations = self.bytes = 0
        self._seq = 0

    def next_seq(self) -> int:
        """Sequence number for the next block."""
        self._seq += 1
        return self._seq - 1

    def record_batch_of(self, block: FlowBlock, task: str) -> bytes:
        """The record batch of a block of the task that node ``task`` ends; counts it."""
        header = header_of(block)
        if task != block.block_id.node:
            header = replace(header, task=task)
        record_batch = pack_record_batch(header.to_json(), compress(encode_csv(block)))
        self.blocks += 1
        self.flows += header.rows
        self.associations += header.associations
        self.bytes += len(record_batch)
        return record_batch
