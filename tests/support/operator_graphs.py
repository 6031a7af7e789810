"""A graph of operators of all modes, for tests of how its lineage is kept and asked."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineage_arrays.operators import Mode, OperatorGraph, Step, Strategy, Version
from lineage_arrays.operators.questions import BackQuestion, ForwardQuestion, Question
from tests.support.cell_operators import BrightSpots, Mended, RowTotals


class FullMended(Mended):
    """As `Mended`, and it writes the region pair of each cell."""

    def supported_modes(self) -> frozenset[Mode]:
        return super().supported_modes() | {Mode.FULL}

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        made = super().run(*inputs, modes=modes)
        if Mode.FULL in modes:
            bright = set(np.flatnonzero(inputs[0] > 2).tolist())
            for at in range(len(made)):
                self.lwrite((at,), (at - 1,) if at in bright else (at,))
        return made


class Sky:
    """A graph of operators of all modes, and a function."""

    def __init__(self) -> None:
        self.graph = OperatorGraph()
        self.image, self.unit = self.graph.source("image"), self.graph.source("unit")
        self.spots = self.graph.add(BrightSpots(), self.image, name="spots")
        self.turned = self.graph.apply(lambda array: array[::-1] * 2, self.spots, name="turned")
        self.totals = self.graph.add(RowTotals(), self.turned, self.unit, name="totals")
        self.mended = self.graph.add(FullMended(), self.totals, name="mended")

    def run(self, image: np.ndarray[Any, Any], strategies: Any = None) -> Version:
        return self.graph.run({"image": image, "unit": 0.5}, strategies)

    @property
    def full(self) -> dict[Step, tuple[Strategy, ...]]:
        return {step: (Strategy(Mode.FULL),) for step in (self.spots, self.totals, self.mended)}

    def questions(self, at: int) -> list[Question]:
        return [
            BackQuestion(self.mended, at % 4),
            ForwardQuestion(self.image, self.mended, np.s_[at % 4, :2]),
            BackQuestion(self.spots, np.s_[1:3, at % 5]),
        ]


def image_of(seed: int) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(seed)
    return values.random((4, 5)) + 3 * (values.random((4, 5)) < 0.2)
