"""Reduce side of a join at key granularity: each output row from all rows of its key.

One flow a key and side instead of one an output row: cheaper where keys have many rows. A choice of
the user's, and a superset that says so.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.operators import JoinSides, Records
from lineage_emitter.worker.partition_inputs import NumberedRecords
from lineage_emitter.worker.recorders import FLOWS_MAX, RUNS_MAX, FlowRegions, emit_csr, runs_of
from lineage_emitter.worker.segment import Numbering, Segment

KEY_REASON = "key granularity, by choice: every output row from all rows of its key"


class JoinSidesByKey(JoinSides):
    """As :class:`JoinSides`, with flows from all records of a key to all of its output rows."""

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.begin_segment(self.config, self.node, split)
        space = segment.space(self.node)
        sides = (
            KeyRegions(segment, self.node, f"{self.left}#*", space),
            KeyRegions(segment, self.node, f"{self.right}#*", space),
        )
        numbering = segment.numbering = Numbering.of_space(space)
        numbering.origin = lambda: sides[0].last() + sides[1].last()
        return NumberedRecords(self._pairs(segment, sides, numbering, iterator), chain)

    def _pairs(
        self,
        segment: Segment,
        sides: tuple[KeyRegions, KeyRegions],
        numbering: Numbering,
        groups: Records,
    ) -> Iterator[Any]:
        cell, ordinal = numbering.cell, 0
        left, right = sides
        for key, tagged in groups:
            lefts: list[Any] = []
            rights: list[Any] = []
            left_positions: list[int] = []
            right_positions: list[int] = []
            for side, value, position in tagged:
                if side == 1:
                    lefts.append(value)
                    left_positions.append(position)
                else:
                    rights.append(value)
                    right_positions.append(position)
            if not lefts and self.right_outer:
                lefts.append(None)
            if not rights and self.left_outer:
                rights.append(None)
            rows = len(lefts) * len(rights)
            if not rows:
                continue
            left.add(left_positions, ordinal, rows)
            right.add(right_positions, ordinal, rows)
            for left_value in lefts:
                for right_value in rights:
                    cell[0] = ordinal
                    ordinal += 1
                    yield (key, (left_value, right_value))
            if left.is_full or right.is_full:
                segment.guard(left.flush)
                segment.guard(right.flush)


class KeyRegions:
    """Flows from regions of exchange positions to runs of output ordinals, one a key."""

    def __init__(self, segment: Segment, node: str, in_space: str, space: str) -> None:
        self.segment = segment
        self.node = node
        self.in_space = in_space
        self.space = space
        self.positions = array("Q")
        self.lengths = array("q")
        self.first = array("Q")
        self.rows = array("Q")
        segment.on_flush(self.flush)

    @property
    def is_full(self) -> bool:
        """Whether it is time to flush."""
        return len(self.lengths) >= FLOWS_MAX or len(self.positions) >= RUNS_MAX // 2

    def add(self, positions: list[int], ordinal: int, rows: int) -> None:
        """The records at ``positions`` went into the ``rows`` output rows from ``ordinal`` on."""
        if positions:
            self.positions.extend(positions)
            self.lengths.append(len(positions))
            self.first.append(ordinal)
            self.rows.append(rows)

    def last(self) -> list[tuple[str, int, int]]:
        """The records (runs) of the key added last."""
        if not self.lengths:
            return []
        return [
            (self.in_space, position, position) for position in self.positions[-self.lengths[-1] :]
        ]

    def flush(self) -> None:
        """Emit what is buffered."""
        if not self.lengths:
            return
        positions = np.array(self.positions, dtype=np.uint64)
        lengths = np.array(self.lengths, dtype=np.int64)
        outs, rows = (np.array(column, dtype=np.uint64) for column in (self.first, self.rows))
        for column in (self.positions, self.lengths, self.first, self.rows):
            del column[:]
        owner = np.repeat(np.arange(len(lengths)), lengths)
        counts, first, last = runs_of(positions[np.lexsort((positions, owner))], lengths)
        regions = FlowRegions(counts, first, last, outs, KEY_REASON, outs + rows - np.uint64(1))
        sections = [(self.space, np.arange(len(outs)))]
        emit_csr(self.segment, self.node, self.in_space, sections, regions)
