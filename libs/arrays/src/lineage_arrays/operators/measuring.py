"""What each strategy costs at an operator: it runs with each of them, and answers a sample of queries."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lineage_arrays.cells import Cells
from lineage_arrays.errors import ModeError, RecordingError
from lineage_arrays.mappings import Mapping
from lineage_arrays.operators.encodings import (
    Encoding,
    Orientation,
)
from lineage_arrays.operators.operator import Mode, Operator, Shapes
from lineage_arrays.operators.optimiser import Alternative
from lineage_arrays.operators.strategies import (
    Again,
    ReExecution,
    Strategy,
    all_to_all,
    opaque,
    run_once,
    stored_bytes,
)
from lineage_arrays.workflow import AnyArray

Keep: TypeAlias = Callable[[Sequence[Mapping]], tuple[Sequence[Mapping], int]]


@dataclass(frozen=True)
class Sample:
    """A query as it meets an operator: cells of its output (backward) or of an operand (forward)."""

    direction: Orientation
    operand: int
    cells: Cells


def supported(operator: Operator) -> list[Strategy]:
    """All strategies that an operator supports."""
    modes = operator.supported_modes()
    strategies = [Strategy(Mode.BLACKBOX)]
    if Mode.MAP in modes:
        strategies.append(Strategy(Mode.MAP))
    if Mode.FULL in modes:
        encodings = (Encoding.ONE, Encoding.MANY)
        strategies += [
            Strategy(Mode.FULL, *how) for how in itertools.product(encodings, Orientation)
        ]
        strategies.append(Strategy(Mode.FULL, Encoding.RANGES))
    for mode in (Mode.PAY, Mode.COMP):
        if mode in modes:
            strategies += [Strategy(mode, Encoding.ONE), Strategy(mode, Encoding.MANY)]
    return strategies


def measured(
    operator: Operator,
    inputs: tuple[AnyArray, ...],
    samples: Sequence[Sample],
    clock: Callable[[], float] = time.perf_counter,
    among: Sequence[Strategy] | None = None,
    keep: Keep | None = None,
) -> list[Alternative]:
    """Run an operator with each strategy, and time it.

    Args:
        operator: the operator; for one that declares no lineage there is nothing to choose.
        inputs: its operands.
        samples: queries, whose mean time counts; indexes are built before, and a black box runs again for each.
        clock: seconds.
        among: strategies that are tried where the operator supports them; None: all. Region pairs of each cell of a large array take
            gigabytes.
        keep: keeps mappings elsewhere than in memory, as a store does: gives what answers instead, and the bytes that it takes. Then a
            black box costs what its keeping costs, too.

    Returns:
        An alternative for each strategy, but for those that can't be kept elsewhere; the time of a run is what it takes more than without lineage.

    Raises:
        ModeError, RecordingError: no strategy can be kept.
    """
    begin = clock()
    output, _ = run_once(operator, inputs, ())
    plain_s = clock() - begin
    alternatives = []
    problem: ModeError | RecordingError | None = None
    tried = [
        strategy
        for strategy in supported(operator)
        if strategy.mode is Mode.BLACKBOX or among is None or strategy in among
    ]
    for strategy in tried:
        if strategy.mode is Mode.BLACKBOX and keep is None:
            shapes = Shapes(tuple(array.shape for array in inputs), output.shape)
            query_s = _mean_rerun_s(operator, inputs, output, shapes, samples, clock)
            alternatives.append(Alternative(strategy, 0, 0.0, query_s))
            continue
        begin = clock()
        # The cost of the index is part of the run: it is built once and used often.
        try:
            ways, disk_bytes = (keep or _keep_in_memory)(_ways_of(operator, inputs, strategy))
        except (ModeError, RecordingError) as error:
            # Such as a black box that gives another output when it is run again: it can't be kept there.
            if keep is None:
                raise
            problem = error
            continue
        run_s = max(clock() - begin - plain_s, 0.0)
        query_s = _mean_query_s(ways, samples, clock)
        alternatives.append(Alternative(strategy, disk_bytes, run_s, query_s))
    if not alternatives and problem is not None:
        raise problem
    return alternatives


def _keep_in_memory(ways: Sequence[Mapping]) -> tuple[Sequence[Mapping], int]:
    return ways, sum(stored_bytes(way) for way in ways)


def _ways_of(operator: Operator, inputs: tuple[AnyArray, ...], strategy: Strategy) -> list[Mapping]:
    """The mapping to each operand, after a run with a strategy."""
    if strategy.mode is not Mode.BLACKBOX:
        _, ways = run_once(operator, inputs, (strategy,))
        return [of_operand[0] for of_operand in ways]
    output, _ = run_once(operator, inputs, ())
    shapes = Shapes(tuple(array.shape for array in inputs), output.shape)
    if opaque(operator):
        return [all_to_all(shapes, n) for n in range(len(inputs))]
    again = ReExecution(operator, inputs, output)
    return [Again(shapes, n, again) for n in range(len(inputs))]


def _mean_query_s(
    ways: Sequence[Mapping], samples: Sequence[Sample], clock: Callable[[], float]
) -> float:
    begin = clock()
    for sample in samples:
        way = ways[sample.operand]
        if sample.direction is Orientation.BACKWARD:
            way.backward(sample.cells)
        else:
            way.forward(sample.cells)
    return (clock() - begin) / max(len(samples), 1)


def _mean_rerun_s(
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
    for sample in samples:
        again = ReExecution(operator, inputs, output)
        ways = [Again(shapes, n, again) for n in range(len(inputs))]
        total += _mean_query_s(ways, [sample], clock)
    return total / max(len(samples), 1)
