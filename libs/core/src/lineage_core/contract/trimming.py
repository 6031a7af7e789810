"""Cutting a sink's blocks to the rows that reached the user (``take`` reads ahead of what it gives)."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from lineage_core.contract.block import I64, FlowBlock, Relation, Section
from lineage_core.contract.message import Commit
from lineage_core.contract.runs import normalise


class RowLimit(NamedTuple):
    """The first ``rows`` items of a sink's ``space`` reached the user."""

    space: str
    rows: int


def row_limit_of(commit: Commit) -> RowLimit | None:
    """The row limit for the blocks of a commit's file; None: they are not cut."""
    if commit.keep is None:
        return None
    return RowLimit(f"{commit.node}#{commit.partition}", commit.keep)


def cut_block(block: FlowBlock, space: str, row_limit: int) -> FlowBlock:
    """The block with only the outputs of ``space`` at positions below ``row_limit``.

    Outputs in other spaces stay. A block without remaining outputs has no rows: it still counts as
    arrived. The same object when nothing changes. ``space`` is a sink's, so the block has no opaque
    texts.
    """
    out_last = block.out_first if block.out_last is None else block.out_last
    within = np.zeros(block.rows, np.bool_)
    for section in block.out:
        if section.space == space:
            within[section.row_first : section.row_stop] = True
    beyond = within & (out_last >= row_limit)
    if not beyond.any():
        return block
    is_dropped = within & (block.out_first >= row_limit)
    if is_dropped.all():
        return _without_rows(block)
    if block.relation is Relation.ALL:
        block = _inputs_in_one_row(block, int(np.flatnonzero(~is_dropped)[0]))
    excess = np.where(
        beyond & ~is_dropped, out_last - np.uint64(max(row_limit - 1, 0)), np.uint64(0)
    )
    block = dataclasses.replace(
        block, out_last=None if block.out_last is None else out_last - excess
    )
    if block.relation is Relation.IDENTITY and block.in_last is not None:
        # One run a row, as long as the output run.
        block = dataclasses.replace(block, in_last=block.in_last - excess)
    return _rows(block, np.flatnonzero(~is_dropped))


def _without_rows(block: FlowBlock) -> FlowBlock:
    return FlowBlock(
        block_id=block.block_id,
        relation=block.relation,
        in_space=block.in_space,
        out=(),
        in_first=block.in_first[:0],
        out_first=block.out_first[:0],
        exact=block.exact,
        reason=block.reason,
        app=block.app,
        attempts_read=block.attempts_read,
    )


def _inputs_in_one_row(block: FlowBlock, row: int) -> FlowBlock:
    """The same ``all`` block, every input in ``row``: the other rows can then be removed."""
    first, last = normalise(
        block.in_first, block.in_first if block.in_last is None else block.in_last
    )
    in_ptr = np.zeros(block.rows + 1, np.int64)
    in_ptr[row + 1 :] = len(first)
    return dataclasses.replace(block, in_first=first, in_last=last, in_ptr=in_ptr)


def _rows(block: FlowBlock, rows: I64) -> FlowBlock:
    """The block with some of its rows (sorted)."""
    in_first, in_last, in_ptr = block.in_first, block.in_last, block.in_ptr
    if in_ptr is None:
        runs = rows
    else:
        counts = np.diff(in_ptr)[rows]
        is_selected = np.zeros(block.rows, np.bool_)
        is_selected[rows] = True
        runs = np.flatnonzero(np.repeat(is_selected, np.diff(in_ptr)))
        in_ptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    sections = []
    for section in block.out:
        first, stop = np.searchsorted(rows, (section.row_first, section.row_stop)).tolist()
        if stop > first:
            sections.append(Section(section.space, first, stop))
    values = None if block.values is None else [block.values[row] for row in rows.tolist()]
    return dataclasses.replace(
        block,
        out=tuple(sections),
        in_first=in_first[runs],
        in_last=None if in_last is None else in_last[runs],
        in_ptr=in_ptr,
        out_first=block.out_first[rows],
        out_last=None if block.out_last is None else block.out_last[rows],
        values=values,
    )
