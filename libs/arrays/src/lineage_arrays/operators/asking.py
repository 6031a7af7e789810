"""Queries of a mapping in either direction, and mappings whose queries something else answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lineage_arrays.cells import Cells, Shape
from lineage_arrays.mappings import Mapping
from lineage_arrays.operators.encodings import Orientation


def ask(mapping: Mapping, direction: Orientation, cells: Cells) -> Cells:
    """What a mapping answers in a direction."""
    backward = direction is Orientation.BACKWARD
    return mapping.backward(cells) if backward else mapping.forward(cells)


@dataclass(frozen=True)
class Answered:
    """A mapping whose queries ``answer`` answers in its place."""

    mapping: Mapping
    answer: Callable[[Orientation, Cells], Cells]

    @property
    def source(self) -> Shape:
        return self.mapping.source

    @property
    def target(self) -> Shape:
        return self.mapping.target

    def backward(self, cells: Cells) -> Cells:
        return self.answer(Orientation.BACKWARD, cells)

    def forward(self, cells: Cells) -> Cells:
        return self.answer(Orientation.FORWARD, cells)
