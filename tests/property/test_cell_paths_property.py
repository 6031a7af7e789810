"""Traces along paths of operators and functions, against those of single operators put together, and against traces by all paths."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_arrays import Cells
from lineage_arrays.operators import Mode, Operator, OperatorGraph, Step, Strategy, Version

pytestmark = pytest.mark.property

SIZE = 6
Path = tuple[tuple[Step, int], ...]


class Paired(Operator):
    """Each cell from the one a few further of its first operand, and from the two about the mirrored one of its second."""

    name = "paired"

    def __init__(self, shift: int) -> None:
        super().__init__()
        self.shift = shift

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.FULL, Mode.MAP, Mode.PAY})

    def made_from(self, at: int, operand: int) -> list[int]:
        if operand == 0:
            return [(at + self.shift) % SIZE]
        return sorted({SIZE - 1 - at, (SIZE - at) % SIZE})

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        for at in range(SIZE):
            if Mode.FULL in modes:
                self.lwrite((at,), *((self.made_from(at, n),) for n in (0, 1)))
            if Mode.PAY in modes:
                self.lwrite((at,), b"-")
        return inputs[0] + inputs[1]

    def map_b(self, cell: Any, operand: int, shapes: Any) -> Any:
        return (self.made_from(cell[0], operand),)

    def map_f(self, cell: Any, operand: int, shapes: Any) -> Any:
        return ([at for at in range(SIZE) if cell[0] in self.made_from(at, operand)],)

    def map_p(self, cell: Any, payload: bytes, operand: int, shapes: Any) -> Any:
        return (self.made_from(cell[0], operand),)


def rolled(values: Any, others: Any) -> Any:
    """Both operands, the second in two ways; written to within."""
    values += np.roll(others, 1)
    return values + others


@functools.cache
def definition(step: Step, operand: int) -> np.ndarray[Any, Any]:
    """Whether an output cell (row) is made from a cell of an operand (column)."""
    pairs = np.zeros((SIZE, SIZE), np.bool_)
    for at in range(SIZE):
        if isinstance(step.operator, Paired):
            pairs[at, step.operator.made_from(at, operand)] = True
        else:
            pairs[at, [at] if operand == 0 else [at, (at - 1) % SIZE]] = True
    return pairs


class Drawn:
    """A graph of two sources and some steps of two operands each, drawn among all before."""

    def __init__(self, data: st.DataObject) -> None:
        self.graph = OperatorGraph()
        self.sources = [self.graph.source(name) for name in ("values", "others")]
        steps = [*self.sources]
        self.strategies: dict[Step, list[Strategy]] = {}
        for number in range(data.draw(st.integers(1, 4))):
            # One step may be both operands.
            before = data.draw(st.sampled_from(steps)), data.draw(st.sampled_from(steps))
            if data.draw(st.booleans()):
                steps.append(self.graph.apply(rolled, *before, name=f"step {number}"))
                continue
            step = self.graph.add(Paired(number), *before, name=f"step {number}")
            mode = data.draw(st.sampled_from((Mode.FULL, Mode.MAP, Mode.PAY, Mode.BLACKBOX)))
            self.strategies[step] = [Strategy(mode)]
            steps.append(step)
        self.last = steps[-1]

    def run(self) -> Version:
        values = {"values": np.arange(SIZE) * 1.0, "others": np.ones(SIZE)}
        return self.graph.run(values, self.strategies)

    def paths(self, end: Step) -> Iterator[Path]:
        """All from a step to a source."""
        for operand, before in enumerate(end.inputs):
            if before.is_source:
                yield ((end, operand),)
            for rest in self.paths(before):
                yield ((end, operand), *rest)


@settings(max_examples=60)
@given(data=st.data())
def test_a_path_is_its_operators_one_after_the_other_and_all_paths_are_the_trace(
    data: st.DataObject,
) -> None:
    drawn = Drawn(data)
    version = drawn.run()
    some = data.draw(st.sets(st.integers(0, SIZE - 1), min_size=1))
    by_source = {source.name: np.zeros(SIZE, np.bool_) for source in drawn.sources}
    for path in drawn.paths(drawn.last):
        pairs = functools.reduce(np.matmul, (definition(step, operand) for step, operand in path))
        trace = version.along(path, (sorted(some),))
        source = path[-1][0].inputs[path[-1][1]]
        wanted = pairs[sorted(some)].any(axis=0)
        assert list(trace.cells) == [source.name]
        assert np.array_equal(trace.cells[source.name].mask(), wanted)
        assert (trace.exact, trace.complete) == (True, True)
        by_source[source.name] |= wanted
        ahead = version.along(path[::-1], (sorted(some),), forward=True)
        assert list(ahead.cells) == [drawn.last.name]
        assert np.array_equal(ahead.cells[drawn.last.name].mask(), pairs[:, sorted(some)].any(axis=1))  # fmt: skip
    every = version.back(drawn.last, (sorted(some),)).cells
    for source in drawn.sources:
        found = every.get(source.name, Cells.empty((SIZE,)))
        assert np.array_equal(found.mask(), by_source[source.name])


@settings(max_examples=30)
@given(data=st.data())
def test_a_trace_that_ends_at_steps_goes_on_from_there_to_the_same_cells(
    data: st.DataObject,
) -> None:
    drawn = Drawn(data)
    version = drawn.run()
    until = data.draw(st.sets(st.sampled_from(version.steps)))
    where = (data.draw(st.lists(st.integers(0, SIZE - 1), min_size=1)),)
    found = version.back(drawn.last, where, until=sorted(until, key=lambda step: step.name)).cells
    ends = {step.name: step for step in version.steps}
    onward = {source.name: Cells.empty((SIZE,)) for source in drawn.sources}
    for name, cells in found.items():
        assert ends[name] in until or ends[name].is_source
        for source, more in version.back(ends[name], cells).cells.items():
            onward[source] = onward[source] | more
    for source, cells in version.back(drawn.last, where).cells.items():
        assert onward[source] == cells
