"""One step across one block: from requested outputs to inputs, or from requested inputs to outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lineage_core.contract.block import I64, U64, FlowBlock, Relation
from lineage_core.contract.runs import EMPTY, Runs, overlaps, spread, touching


@dataclass(frozen=True, slots=True, eq=False)
class BlockCrossing:
    """What one block records about requested positions.

    ``rows``: int64, the flows that hold any, in order. ``seen``: the requested positions among them
    (runs in any order). ``reached``: by space, runs in any order, overlaps possible.
    """

    rows: I64
    seen: Runs
    reached: dict[str, Runs]


def cross_backward(block: FlowBlock, space: str, requested: Runs) -> BlockCrossing:
    """Inputs of the block's outputs that lie in ``requested`` (normal runs of ``space``)."""
    rows, out_first, out_last = _outputs_in(block, space, requested)
    if len(rows) == 0:
        return BlockCrossing(rows, EMPTY, {})
    match block.relation:
        case Relation.ROWS:
            first = out_first[rows]
            last = first if out_last is out_first else out_last[rows]
            return BlockCrossing(rows, (first, last), {block.in_space: inputs_of_rows(block, rows)})
        case Relation.IDENTITY:
            index, first, last = overlaps(out_first[rows], out_last[rows], requested)
            shift = (block.in_first - block.out_first)[rows[index]]
            return BlockCrossing(
                rows, (first, last), {block.in_space: (first + shift, last + shift)}
            )
        case Relation.ALL:
            seen = (out_first[rows], out_last[rows])
            everything = np.arange(block.rows, dtype=np.int64)
            return BlockCrossing(everything, seen, {block.in_space: _all_inputs(block)})


def cross_forward(block: FlowBlock, requested: Runs) -> BlockCrossing:
    """Outputs of the block's inputs that lie in ``requested`` (normal runs of its input space)."""
    first, last = _all_inputs(block)
    matching_runs = np.flatnonzero(touching(first, last, requested))
    if len(matching_runs) == 0:
        return BlockCrossing(matching_runs, EMPTY, {})
    seen = (first[matching_runs], last[matching_runs])
    match block.relation:
        case Relation.ROWS:
            rows = matching_runs
            if block.in_ptr is not None:
                rows = np.searchsorted(block.in_ptr, matching_runs, side="right") - 1
                rows = rows[np.concatenate((np.ones(1, np.bool_), rows[1:] != rows[:-1]))]
            return BlockCrossing(rows, seen, outputs_of_rows(block, rows))
        case Relation.IDENTITY:
            index, in_first, in_last = overlaps(
                first[matching_runs], last[matching_runs], requested
            )
            rows = matching_runs[index]
            shift = (block.out_first - block.in_first)[rows]
            outs = (in_first + shift, in_last + shift)
            return BlockCrossing(matching_runs, (in_first, in_last), _by_section(block, rows, outs))
        case Relation.ALL:
            rows = np.arange(block.rows, dtype=np.int64)
            return BlockCrossing(rows, seen, outputs_of_rows(block, rows))


def inputs_of_rows(block: FlowBlock, rows: I64) -> Runs:
    """The input runs of some rows of a block, in order of the rows."""
    at = rows
    if block.in_ptr is not None:
        counts = block.in_ptr[rows + 1] - block.in_ptr[rows]
        if len(rows) == 1:
            start = int(block.in_ptr[rows[0]])
            at = np.arange(start, start + int(counts[0]))
        else:
            owner, step = spread(counts)
            at = block.in_ptr[rows][owner] + step
    first = block.in_first[at]
    return first, first if block.in_last is None else block.in_last[at]


def outputs_of_rows(block: FlowBlock, rows: I64) -> dict[str, Runs]:
    """The output runs of some sorted rows of a block, by space."""
    first, last = _all_outputs(block)
    some = first[rows]
    return _by_section(block, rows, (some, some if last is first else last[rows]))


def _all_inputs(block: FlowBlock) -> Runs:
    return block.in_first, block.in_first if block.in_last is None else block.in_last


def _all_outputs(block: FlowBlock) -> Runs:
    return block.out_first, block.out_first if block.out_last is None else block.out_last


def _outputs_in(block: FlowBlock, space: str, requested: Runs) -> tuple[I64, U64, U64]:
    """Rows with outputs among the requested runs, and the output columns of the whole block."""
    first, last = _all_outputs(block)
    matching_rows: list[I64] = []
    for section in block.out:
        if section.space != space:
            continue
        part = slice(section.row_first, section.row_stop)
        part_first = first[part]
        part_last = part_first if last is first else last[part]
        hit = touching(part_first, part_last, requested)
        matching_rows.append(np.flatnonzero(hit) + section.row_first)
    rows = np.concatenate(matching_rows) if matching_rows else np.empty(0, np.int64)
    return rows, first, last


def _by_section(block: FlowBlock, rows: I64, outs: Runs) -> dict[str, Runs]:
    """Runs (one for each of the sorted ``rows``) by the space of the row's section."""
    parts: dict[str, list[Runs]] = {}
    for section in block.out:
        low, high = np.searchsorted(rows, (section.row_first, section.row_stop))
        if low < high:
            first = outs[0][low:high]
            last = first if outs[1] is outs[0] else outs[1][low:high]
            parts.setdefault(section.space, []).append((first, last))
    return {
        space: space_parts[0]
        if len(space_parts) == 1
        else (
            np.concatenate([part[0] for part in space_parts]),
            np.concatenate([part[1] for part in space_parts]),
        )
        for space, space_parts in parts.items()
    }
