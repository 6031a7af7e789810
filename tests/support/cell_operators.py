"""Operators over arrays that support several modes, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineage_arrays.mappings import Boxes, Mapping, SamePositions, Span
from lineage_arrays.operators import Mode, Operator, Shapes


class BrightSpots(Operator):
    """1 where a cell is far brighter than the others around it: of these all within the radius, of others the cell alone.

    As the paper's detection of cosmic rays: the mapping function is the default, what is detected is written.
    """

    name = "bright-spots"
    radius = 1

    def __init__(self, modes: frozenset[Mode] = frozenset(Mode)) -> None:
        super().__init__()
        self._modes = modes
        self.runs = 0

    def supported_modes(self) -> frozenset[Mode]:
        return self._modes - {Mode.MAP}

    def around(self, cell: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        return tuple(
            slice(max(at - self.radius, 0), min(at + self.radius + 1, length))
            for at, length in zip(cell, shape, strict=True)
        )

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        (image,) = inputs
        self.runs += 1
        found = (image > image.mean() + 1).astype(np.int8)
        for cell in np.ndindex(*image.shape):
            spot = bool(found[cell])
            near = self.around(cell, image.shape)
            if Mode.FULL in modes:
                self.lwrite(cell, near if spot else cell)
            if Mode.PAY in modes or (spot and Mode.COMP in modes):
                self.lwrite(cell, bytes([self.radius if spot else 0]))
        return found

    def map_b(self, cell: Any, operand: int, shapes: Shapes) -> Any:
        return cell

    def map_f(self, cell: Any, operand: int, shapes: Shapes) -> Any:
        return cell

    def map_p(self, cell: Any, payload: bytes, operand: int, shapes: Shapes) -> Any:
        return self.around(cell, shapes.inputs[operand]) if payload[0] else cell


class Mended(Operator):
    """Bright cells are replaced by the one before them: they are made from that, and not from what they were."""

    name = "mended"

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.COMP, Mode.BLACKBOX})

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        (values,) = inputs
        made = values.copy()
        for at in np.flatnonzero(values > 2).tolist():
            made[at] = values[at - 1]
            if Mode.COMP in modes:
                self.lwrite((at,), b"-")
        return made

    def map_b(self, cell: Any, operand: int, shapes: Shapes) -> Any:
        return cell

    def map_f(self, cell: Any, operand: int, shapes: Shapes) -> Any:
        return cell

    def map_p(self, cell: Any, payload: bytes, operand: int, shapes: Shapes) -> Any:
        return (cell[0] - 1,)


class MendedAtOnce(Mended):
    """As `Mended`, with mappings of whole sets of cells."""

    def mapping(self, operand: int, shapes: Shapes) -> Mapping:
        return SamePositions(shapes.inputs[operand], shapes.output)

    def mapping_p(self, payload: bytes, operand: int, shapes: Shapes) -> Mapping:
        return Boxes(shapes.inputs[operand], shapes.output, (Span.point(0, 1, -1),))


class RowTotals(Operator):
    """The total of each row of the first operand, in proportion to the one number of the second: whole regions."""

    name = "row-totals"

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.FULL, Mode.MAP, Mode.BLACKBOX})

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        table, unit = inputs
        if Mode.FULL in modes:
            for row in range(len(table)):
                self.lwrite((row,), (row, slice(None)), ())
        return table.sum(axis=1) / unit

    def map_b(self, cell: Any, operand: int, shapes: Shapes) -> Any:
        return (cell[0], slice(None)) if operand == 0 else ()

    def map_f(self, cell: Any, operand: int, shapes: Shapes) -> Any:
        return (cell[0],) if operand == 0 else ...


class Opaque(Operator):
    """Says nothing of its lineage."""

    name = "opaque"

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        return inputs[0] + 1
