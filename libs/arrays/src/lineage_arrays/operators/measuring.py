"""What each strategy costs at an operator: it is run with each of them, and asked a sample of questions."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lineage_arrays.cells import Cells
from lineage_arrays.mappings import Mapping
from lineage_arrays.operators.encodings import (
    Encoding,
    Orientation,
    PairStore,
    PayloadStore,
    RangeStore,
)
from lineage_arrays.operators.operator import Mode, Operator, Shapes
from lineage_arrays.operators.optimiser import Alternative
from lineage_arrays.operators.strategies import (
    Again,
    Composite,
    ReExecution,
    Strategy,
    opaque,
    run_once,
)
from lineage_arrays.workflow import AnyArray


@dataclass(frozen=True)
class Sample:
    """A question as it meets an operator: cells of its output (backward) or of an operand (forward)."""

    direction: Orientation
    operand: int
    cells: Cells


def supported(operator: Operator) -> list[Strategy]:
    """All strategies that an operator supports."""
    modes = operator.supported_modes()
    made = [Strategy(Mode.BLACKBOX)]
    if Mode.MAP in modes:
        made.append(Strategy(Mode.MAP))
    if Mode.FULL in modes:
        kept = (Encoding.ONE, Encoding.MANY)
        made += [Strategy(Mode.FULL, *how) for how in itertools.product(kept, Orientation)]
        made.append(Strategy(Mode.FULL, Encoding.RANGES))
    for mode in (Mode.PAY, Mode.COMP):
        if mode in modes:
            made += [Strategy(mode, Encoding.ONE), Strategy(mode, Encoding.MANY)]
    return made


def measured(
    operator: Operator,
    inputs: tuple[AnyArray, ...],
    samples: Sequence[Sample],
    clock: Callable[[], float] = time.perf_counter,
) -> list[Alternative]:
    """Run an operator with each strategy, and time it.

    Args:
        operator: the operator; nothing can be chosen for one that says nothing of its lineage.
        inputs: its operands.
        samples: questions, whose mean time counts; indexes are made before, and a black box is run again for each.
        clock: seconds.

    Returns:
        An alternative for each strategy; the time of a run is what it takes more than without lineage.
    """
    begin = clock()
    output, _ = run_once(operator, inputs, ())
    plain_s = clock() - begin
    made = []
    for strategy in [Strategy(Mode.BLACKBOX)] if opaque(operator) else supported(operator):
        shapes = Shapes(tuple(one.shape for one in inputs), output.shape)
        if strategy.mode is Mode.BLACKBOX:
            query_s = _asked_again(operator, inputs, output, shapes, samples, clock)
            made.append(Alternative(strategy, 0, 0.0, query_s))
            continue
        begin = clock()
        _, ways = run_once(operator, inputs, (strategy,))
        # What the index takes is part of the run: it is made once, and asked often.
        disk_bytes = sum(_nbytes(way) for of_operand in ways for way in of_operand)
        run_s = max(clock() - begin - plain_s, 0.0)
        query_s = _asked([of_operand[0] for of_operand in ways], samples, clock)
        made.append(Alternative(strategy, disk_bytes, run_s, query_s))
    return made


def _nbytes(way: Mapping) -> int:
    if isinstance(way, Composite):
        return way.store.nbytes
    return way.nbytes if isinstance(way, PairStore | PayloadStore | RangeStore) else 0


def _asked(ways: Sequence[Mapping], samples: Sequence[Sample], clock: Callable[[], float]) -> float:
    begin = clock()
    for one in samples:
        way = ways[one.operand]
        if one.direction is Orientation.BACKWARD:
            way.backward(one.cells)
        else:
            way.forward(one.cells)
    return (clock() - begin) / max(len(samples), 1)


def _asked_again(
    operator: Operator,
    inputs: tuple[AnyArray, ...],
    output: AnyArray,
    shapes: Shapes,
    samples: Sequence[Sample],
    clock: Callable[[], float],
) -> float:
    if opaque(operator):
        return 0.0
    total = 0.0
    for one in samples:
        again = ReExecution(operator, inputs, output)
        ways = [Again(shapes, n, again) for n in range(len(inputs))]
        total += _asked(ways, [one], clock)
    return total / max(len(samples), 1)
