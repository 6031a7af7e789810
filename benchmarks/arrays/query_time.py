"""Questions that what is kept of an operator's lineage answers well or badly: by it alone, by the black box, and by whichever is quicker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.arrays.microbenchmark import QUERY_CELLS, Pairs, pairs
from benchmarks.intervals import median_interval
from lineage_arrays import CellTrace
from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.operators import (
    Mode,
    Operator,
    OperatorGraph,
    Orientation,
    Regions,
    Shapes,
    Step,
    Strategy,
    Version,
)
from lineage_arrays.operators.costs import Costs
from lineage_arrays.operators.measuring import Sample, measured
from lineage_arrays.operators.query_time import By

F64 = npt.NDArray[np.float64]
SHAPE = (500, 500)
MIRRORED = (200, 500)
"""Of the array whose cells functions map one by one: a call for each."""
GROWING = 10_000
"""Regions that are of more cells from one to the next."""
GROWTH = 200
"""Cells of the last one."""
BLACKBOX = Strategy(Mode.BLACKBOX)
FULL = Strategy(Mode.FULL)


class Scattered(Operator):
    """Means of cells somewhere in the input: the paper's microbenchmark as an operator, with payloads of four bytes for each input cell."""

    name = "scattered"

    def __init__(self, outputs: I64, lengths: I64, inputs: I64) -> None:
        """Take the position of each output cell, and of each the number of input cells and their positions, one behind the other."""
        super().__init__()
        self._outputs, self._lengths, self._inputs = outputs, lengths, inputs
        self._begins = np.cumsum(lengths) - lengths

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.FULL, Mode.PAY})

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> F64:
        (values,) = inputs
        totals = np.add.reduceat(values.reshape(-1)[self._inputs], self._begins)
        made = np.zeros(values.shape)
        made.reshape(-1)[self._outputs] = totals / self._lengths
        if not modes & self.supported_modes():
            return made
        outputs = Regions.of_rows(values.shape, self._outputs)
        if Mode.FULL in modes:
            self.lwrite_many(outputs, Regions.of_columns(values.shape, self._lengths, self._inputs))
        if Mode.PAY in modes:
            packed = memoryview(self._inputs.astype("<u4").tobytes())
            ends = 4 * (self._begins + self._lengths)
            begins = 4 * self._begins
            self.lwrite_many(
                outputs,
                [bytes(packed[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)],
            )  # fmt: skip
        return made

    def map_p(self, cell: tuple[int, ...], payload: bytes, operand: int, shapes: Shapes) -> Any:
        return np.unravel_index(np.frombuffer(payload, "<u4"), shapes.inputs[operand])

    def pairs(self) -> tuple[I64, I64]:
        """By definition: the output cell and the input cell of each pair."""
        return np.repeat(self._outputs, self._lengths), self._inputs


def of_microbenchmark(of: Pairs) -> Scattered:
    """An operator whose lineage is that of pairs with one output cell each, of each output cell the first."""
    outputs, first = np.unique(of.outputs[:, 0], return_index=True)
    inputs = of.inputs[first]
    return Scattered(outputs, np.full(len(outputs), inputs.shape[1]), inputs.reshape(-1))


def growing(shape: Shape = SHAPE, regions: int = GROWING, seed: int = 5) -> Scattered:
    """Regions in order of their sizes: the few payloads whose opening is timed beforehand are smaller than most."""
    random = np.random.default_rng(seed)
    size = shape[0] * shape[1]
    lengths = 1 + (GROWTH * np.linspace(0, 1, regions) ** 2).astype(np.int64)
    outputs = np.sort(random.choice(size, regions, replace=False))
    return Scattered(outputs, lengths, random.integers(0, size, int(lengths.sum())))


class Mirrored(Operator):
    """Rows from their ends: functions say of each cell which one it was made from."""

    name = "mirrored"

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.FULL, Mode.MAP})

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> F64:
        (values,) = inputs
        if Mode.FULL in modes:
            cells = np.arange(values.size).reshape(values.shape)
            self.lwrite_many(
                Regions.of_rows(values.shape, cells.reshape(-1)),
                Regions.of_rows(values.shape, cells[:, ::-1].reshape(-1)),
            )
        return np.array(values[:, ::-1])

    def map_b(self, cell: tuple[int, ...], operand: int, shapes: Shapes) -> Any:
        return (cell[0], shapes.output[1] - 1 - cell[1])

    map_f = map_b


@dataclass(frozen=True)
class Case:
    """An operator over one array, what is kept of its lineage, and its pairs by definition."""

    name: str
    operator: Operator
    shape: Shape
    kept: Strategy
    pairs: tuple[I64, I64]

    def answer(self, cells: Cells, backward: bool) -> Cells:
        """By definition: each pair is looked at."""
        outputs, inputs = self.pairs
        given, wanted = (outputs, inputs) if backward else (inputs, outputs)
        return Cells.at(self.shape, wanted[cells.has(given)])

    def questions(self) -> Iterator[tuple[str, bool, Cells]]:
        """One cell, a thousand and all of them, backward and forward."""
        random = np.random.default_rng(6)
        for backward in (True, False):
            among = self.pairs[0 if backward else 1]
            way = "backward" if backward else "forward"
            yield f"one cell {way}", backward, Cells.at(self.shape, among[:1])
            some = random.choice(among, min(QUERY_CELLS, len(among)))
            yield f"{QUERY_CELLS:,} cells {way}", backward, Cells.at(self.shape, some)
            yield f"all cells {way}", backward, Cells.whole(self.shape)


def cases(shape: Shape, mirrored: Shape, regions: int, fans: Sequence[int]) -> Iterator[Case]:
    """The operators."""
    pay = Strategy(Mode.PAY)
    for fan_in in fans:
        operator = of_microbenchmark(pairs(fan_in, 1, shape))
        yield Case(f"payloads, fan-in {fan_in}", operator, shape, pay, operator.pairs())
    larger = growing(shape, regions)
    yield Case("payloads that grow", larger, shape, pay, larger.pairs())
    cells = np.arange(mirrored[0] * mirrored[1])
    ends = cells.reshape(mirrored)[:, ::-1].reshape(-1)
    yield Case("functions of cells", Mirrored(), mirrored, Strategy(Mode.MAP), (cells, ends))


@dataclass(frozen=True)
class _Graph:
    """A case as a graph of one step, whose earlier runs say what it costs to run again."""

    case: Case
    graph: OperatorGraph
    source: Step
    step: Step
    values: F64

    @classmethod
    def of(cls, case: Case) -> _Graph:
        graph = OperatorGraph()
        source = graph.source("values")
        step = graph.add(case.operator, source, name="step")
        values = np.random.default_rng(7).random(case.shape)
        sample = [Sample(Orientation.BACKWARD, 0, Cells.at(case.shape, [0]))]
        among = [case.kept, FULL]
        costs = Costs({step: measured(case.operator, (values,), sample, among=among)}, {step: 1.0})
        graph.learn(costs.writing_s)
        return cls(case, graph, source, step, values)

    def run(self, strategy: Strategy) -> Version:
        version = self.graph.run({"values": self.values}, {self.step: [strategy]})
        assert version.stored_bytes >= 0  # indexes are built before a question is timed
        return version

    def ask(self, version: Version, backward: bool, cells: Cells, by: By) -> CellTrace:
        if backward:
            return version.back(self.step, cells, by=by)
        return version.forward(self.source, self.step, cells, by=by)


def query_time_rows(
    repeats: int,
    shape: Shape = SHAPE,
    mirrored: Shape = MIRRORED,
    regions: int = GROWING,
    fans: Sequence[int] = (1, 10),
) -> Iterator[dict[str, Any]]:
    """One row with all questions; ``same``: each way gives the definition.

    Times are the processor's seconds of the first question of a new run each, the three ways in turns.
    """
    asked = []
    for case in cases(shape, mirrored, regions, fans):
        graph = _Graph.of(case)
        for name, backward, cells in case.questions():
            asked.append(
                {"operator": case.name, "question": name, **_timed(graph, backward, cells, repeats)}
            )
    yield {
        "shape": list(shape),
        "questions": asked,
        "worst_over_blackbox": max(one["auto_over_blackbox"]["median"] for one in asked),
        "same": all(one["same"] for one in asked),
    }


def _timed(graph: _Graph, backward: bool, cells: Cells, repeats: int) -> dict[str, Any]:
    ways: dict[str, Callable[[], tuple[Version, By]]] = {
        "blackbox": lambda: (graph.run(BLACKBOX), "rerun"),
        "stored": lambda: (graph.run(graph.case.kept), "stored"),
        "auto": lambda: (graph.run(graph.case.kept), "auto"),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    wanted = graph.case.answer(cells, backward)
    same, whys = True, []
    for number in range(repeats):
        for way in ways if number % 2 == 0 else reversed(ways):
            version, by = ways[way]()
            begin = time.process_time()
            trace = graph.ask(version, backward, cells, by)
            seconds[way].append(time.process_time() - begin)
            (found,) = trace.cells.values()
            is_sure = trace.exact or trace.ways[0].unproven
            same = same and bool(is_sure) and found == wanted
            if way == "auto":
                whys.append(f"{trace.ways[0].by}: {trace.ways[0].why}")
    over = [auto / box for auto, box in zip(seconds["auto"], seconds["blackbox"], strict=True)]
    return {
        "same": same,
        **{f"{way}_s": round(float(np.median(of_way)), 6) for way, of_way in seconds.items()},
        "auto_over_blackbox": median_interval(over),
        "auto": max(set(whys), key=whys.count),
    }
