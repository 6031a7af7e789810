"""Captured lineage as triples: each input item of each flow with each output item of it, one a line, as systems keep it that know no ranges."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.block import I64, U64, FlowBlock, Relation
from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.region import Region
from lineage_core.contract.runs import spread
from lineage_query.rows.locations import Locations
from lineage_query.rows.reader import RowReader
from lineage_store.port import GraphStore

MOST_PAIRS = 1 << 28


@dataclass(slots=True)
class _Space:
    """Positions of a space that some flow has, in order, and the number of each as an item."""

    positions: U64
    numbers: I64


@dataclass(slots=True, eq=False)
class CapturedTriples:
    """Triples of all applications of a store. An item is a number: a row of a file that one application wrote and others read is one item.

    ``src``, ``dst``, ``op`` (the node of the flow) and ``node`` (of each item): int64. ``first_of_file``: the number of the first row of
    each file, by canonical path.
    """

    src: I64
    dst: I64
    op: I64
    node: I64
    first_of_file: dict[str, int]

    @property
    def items(self) -> int:
        """How many items there are."""
        return len(self.node)

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write the triples, and the nodes of items, as files for an import."""
        triples, nodes = folder / "captured.parquet", folder / "captured-nodes.parquet"
        columns = {"src": pa.array(self.src), "dst": pa.array(self.dst), "op": pa.array(self.op)}
        pq.write_table(pa.table(columns), triples)
        items = {"item": pa.array(np.arange(self.items)), "node": pa.array(self.node)}
        pq.write_table(pa.table(items), nodes)
        return triples, nodes


@dataclass(slots=True)
class _Numbering:
    nodes: list[I64] = field(default_factory=list)
    count: int = 0
    node_count: int = 0

    def add(self, items: int, node: int) -> int:
        first = self.count
        self.nodes.append(np.full(items, node, np.int64))
        self.count += items
        return first

    def new_node(self) -> int:
        self.node_count += 1
        return self.node_count - 1


def captured_triples(store: GraphStore, reader: RowReader) -> CapturedTriples:
    """All flows of all applications as triples.

    Raises:
        ValueError: a block holds more pairs than there is room for, or rows of a file have no numbers.
    """
    numbering = _Numbering()
    graphs = [store.graph(app) for app in sorted(store.application_ids())]
    located = [(graph, Locations(graph, reader)) for graph in graphs]
    loaded = [list(graph.load([ref.block_id for ref in graph.blocks()]).values()) for graph in graphs]  # fmt: skip
    regions = [_regions(blocks) for blocks in loaded]
    files = _file_rows(located, regions)
    folders = {folder: numbering.new_node() for folder in sorted({os.path.dirname(path) for path in files})}  # fmt: skip
    first_of_file = {
        path: numbering.add(rows, folders[os.path.dirname(path)])
        for path, rows in sorted(files.items())
    }
    parts: list[tuple[I64, I64, I64]] = []
    for (graph, locations), blocks, spaces in zip(located, loaded, regions, strict=True):
        numbers = _numbered(graph, locations, spaces, first_of_file, numbering)
        nodes = {block.block_id.node for block in blocks}
        ops = {node: numbering.node_count + at for at, node in enumerate(sorted(nodes))}
        for block in blocks:
            src, dst = _pairs(block, numbers)
            parts.append((src, dst, np.full(len(src), ops[block.block_id.node], np.int64)))
    src, dst, op = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return CapturedTriples(src, dst, op, np.concatenate(numbering.nodes), first_of_file)


def _regions(blocks: list[FlowBlock]) -> dict[str, Region]:
    """All positions that flows have, by space."""
    runs: dict[str, list[Region]] = {}
    for block in blocks:
        first, last = _inputs(block)
        runs.setdefault(block.in_space, []).append(Region.of_runs(first, last))
        for section in block.out:
            rows = slice(section.row_first, section.row_stop)
            first, last = _outputs(block)
            runs.setdefault(section.space, []).append(Region.of_runs(first[rows], last[rows]))
    return {space: Region.union(of_space) for space, of_space in runs.items()}


def _file_rows(
    located: list[tuple[FlowGraph, Locations]], regions: list[dict[str, Region]]
) -> dict[str, int]:
    """One more than the last row of each file, by canonical path."""
    rows: dict[str, int] = {}
    for (_, locations), spaces in zip(located, regions, strict=True):
        for space, region in spaces.items():
            for part in locations.parts_of(space, region):
                if part.rows is None:
                    raise ValueError(f"rows of {part.path} have no numbers")
                stop = int(part.rows.last[-1]) + 1
                rows[part.canonical_path] = max(rows.get(part.canonical_path, 0), stop)
    return rows


def _numbered(
    graph: FlowGraph,
    locations: Locations,
    spaces: dict[str, Region],
    first_of_file: dict[str, int],
    numbering: _Numbering,
) -> dict[str, _Space]:
    nodes: dict[str, int] = {node.node: numbering.new_node() for node in graph.nodes()}
    numbered = {}
    for space, region in spaces.items():
        positions = region.positions()
        of_space = parse_space(space)
        if of_space.kind is SpaceKind.OPAQUE:
            raise ValueError("opaque strings are no captured records")
        node = nodes[of_space.name]
        parts = list(locations.parts_of(space, region))
        if parts:
            rows = [
                first_of_file[part.canonical_path] + part.rows.positions().astype(np.int64)
                for part in parts
                if part.rows is not None
            ]
            numbered[space] = _Space(positions, np.concatenate(rows))
        else:
            first = numbering.add(len(positions), node)
            numbers = np.arange(first, first + len(positions))
            numbered[space] = _Space(positions, numbers)
    return numbered


def _pairs(block: FlowBlock, numbers: dict[str, _Space]) -> tuple[I64, I64]:
    """Each input item of a block with each output item that was made of it."""
    in_first, in_last = _inputs(block)
    out_first, out_last = _outputs(block)
    row_of_run = np.arange(len(in_first), dtype=np.int64)
    if block.in_ptr is not None:
        row_of_run = spread(np.diff(block.in_ptr))[0]
    in_row, ins = _written_out(row_of_run, in_first, in_last)
    src = _look_up(numbers[block.in_space], ins)
    out_row, outs = _written_out(np.arange(block.rows, dtype=np.int64), out_first, out_last)
    dst = np.empty(len(outs), np.int64)
    for section in block.out:
        some = (out_row >= section.row_first) & (out_row < section.row_stop)
        dst[some] = _look_up(numbers[section.space], outs[some])
    match block.relation:
        case Relation.IDENTITY:
            return src, dst
        case Relation.ALL:
            in_row, out_row = np.zeros_like(in_row), np.zeros_like(out_row)
        case Relation.ROWS:
            pass
    low = np.searchsorted(in_row, out_row, "left")
    counts = np.searchsorted(in_row, out_row, "right") - low
    if counts.sum() > MOST_PAIRS:
        raise ValueError(f"block {block.block_id} holds {counts.sum():,} pairs")
    at, step = spread(counts)
    return src[low[at] + step], dst[at]


def _written_out(row: I64, first: U64, last: U64) -> tuple[I64, U64]:
    at, step = spread((last - first).astype(np.int64) + 1)
    return row[at], first[at] + step.astype(np.uint64)


def _look_up(space: _Space, positions: U64) -> I64:
    return space.numbers[np.searchsorted(space.positions, positions)]


def _inputs(block: FlowBlock) -> tuple[U64, U64]:
    return block.in_first, block.in_first if block.in_last is None else block.in_last


def _outputs(block: FlowBlock) -> tuple[U64, U64]:
    return block.out_first, block.out_first if block.out_last is None else block.out_last
