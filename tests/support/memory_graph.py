"""A lineage graph in memory, by the plainest means: what tests trace over and compare with."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from lineage_core.contract.block import BlockId, FlowBlock, Relation
from lineage_core.contract.graph import (
    BlockRef,
    EdgeBatch,
    LinkRecord,
    NodeRecord,
    PositionRange,
    SinkFileRecord,
    SplitRecord,
)
from lineage_core.contract.sealing import Seal

Association = tuple[str, int, str, int]
"""Input space and position, output space and position."""


def node(
    name: str,
    kind: str = "operator",
    op: str = "map",
    *,
    reason: str = "",
    alias: str | None = None,
    path: str | None = None,
) -> NodeRecord:
    exact = kind != "unknown" and not reason
    return NodeRecord(name, kind, op, op, "", "job.py:1", alias, exact, reason, None, path)


def region_of(block: FlowBlock, row: int) -> list[int]:
    """Input positions of one row."""
    low, high = row, row + 1
    if block.in_ptr is not None:
        low, high = int(block.in_ptr[row]), int(block.in_ptr[row + 1])
    last = block.in_first if block.in_last is None else block.in_last
    return [p for j in range(low, high) for p in range(int(block.in_first[j]), int(last[j]) + 1)]


def outputs_of(block: FlowBlock, row: int) -> list[int]:
    """Output positions of one row."""
    last = block.out_first if block.out_last is None else block.out_last
    return list(range(int(block.out_first[row]), int(last[row]) + 1))


def space_of(block: FlowBlock, row: int) -> str:
    """Output space of one row."""
    return next(s.space for s in block.out if s.row_first <= row < s.row_stop)


def associations(block: FlowBlock) -> list[Association]:
    """Every (input, output) pair of a block, as its relation defines them."""
    found: list[Association] = []
    everything = [p for row in range(block.rows) for p in region_of(block, row)]
    for row in range(block.rows):
        ins, outs, space = region_of(block, row), outputs_of(block, row), space_of(block, row)
        if block.relation is Relation.ALL:
            ins = everything
        pairs = [(i, o) for i in ins for o in outs]
        if block.relation is Relation.IDENTITY:
            pairs = list(zip(ins, outs, strict=True))
        found += [(block.in_space, i, space, o) for i, o in pairs]
    return found


@dataclass
class MemoryGraph:
    """Implements FlowGraph; counts what it is asked to load."""

    node_list: list[NodeRecord]
    link_list: list[LinkRecord]
    block_list: list[FlowBlock]
    split_list: list[SplitRecord] = field(default_factory=list)
    file_list: list[SinkFileRecord] = field(default_factory=list)
    loaded: list[BlockId] = field(default_factory=list)
    recipes: dict[str, str] = field(default_factory=dict)

    def nodes(self) -> Sequence[NodeRecord]:
        return self.node_list

    def links(self) -> Sequence[LinkRecord]:
        return self.link_list

    def splits(self, node: str) -> Sequence[SplitRecord]:
        return [split for split in self.split_list if split.node == node]

    def sink_files(self, node: str) -> Sequence[SinkFileRecord]:
        return [file for file in self.file_list if file.node == node]

    def recipe(self, node: str) -> str | None:
        return self.recipes.get(node)

    def _ref(self, block: FlowBlock) -> BlockRef:
        ins = [p for row in range(block.rows) for p in region_of(block, row)]
        return BlockRef(
            block.block_id,
            block.in_space,
            min(ins, default=0),
            max(ins, default=0),
            block.rows,
            len(ins),
            block.exact,
            block.reason,
        )

    def blocks_into(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        return [
            self._ref(block)
            for block in self.block_list
            if any(
                space_of(block, row) == space
                and any(first <= p <= last for p in outputs_of(block, row))
                for row in range(block.rows)
            )
        ]

    def blocks_from(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        refs = [self._ref(block) for block in self.block_list if block.in_space == space]
        return [ref for ref in refs if ref.in_min <= last and ref.in_max >= first]

    def blocks_into_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        return [self.blocks_into(*stretch) for stretch in ranges]

    def blocks_from_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        return [self.blocks_from(*stretch) for stretch in ranges]

    def blocks(self) -> Iterator[BlockRef]:
        return map(self._ref, sorted(self.block_list, key=lambda block: block.block_id))

    def spaces_of(self, node: str) -> Sequence[str]:
        spaces = {section.space for block in self.block_list for section in block.out}
        return sorted(space for space in spaces if space.startswith(f"{node}#"))

    def load(self, blocks: Iterable[BlockId]) -> dict[BlockId, FlowBlock]:
        by_id = {block.block_id: block for block in self.block_list}
        wanted = list(blocks)
        self.loaded += wanted
        return {block: by_id[block] for block in wanted}

    def _edges(self, producers: list[FlowBlock], consumers: list[FlowBlock]) -> list[EdgeBatch]:
        found = []
        for consumer in consumers:
            for producer in producers:
                pairs = [
                    (p, c)
                    for c in range(consumer.rows)
                    for p in range(producer.rows)
                    if space_of(producer, p) == consumer.in_space
                    and set(outputs_of(producer, p)) & set(region_of(consumer, c))
                ]
                if pairs:
                    rows = np.array(pairs, np.uint32)
                    found.append(
                        EdgeBatch(
                            producer.block_id, consumer.block_id, len(pairs), rows[:, 0], rows[:, 1]
                        )
                    )
        return found

    def seals(self) -> Sequence[Seal]:
        return []

    def sealed(self, spaces: Iterable[str]) -> Collection[str]:
        """All: edges are made when they are asked for."""
        return list(spaces)

    def edges_into(self, consumers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        chosen = set(consumers)
        return self._edges(self.block_list, [b for b in self.block_list if b.block_id in chosen])

    def edges_from(self, producers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        chosen = set(producers)
        return self._edges([b for b in self.block_list if b.block_id in chosen], self.block_list)
