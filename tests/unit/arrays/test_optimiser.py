"""What strategies cost, and which the optimiser keeps."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from lineage_arrays import ArrayLineageError, Cells
from lineage_arrays.operators import Encoding, Mode, OperatorGraph, Orientation, Step, Strategy
from lineage_arrays.operators.measuring import Sample, measured, supported
from lineage_arrays.operators.optimiser import Alternative, Limits, choose
from tests.support.cell_operators import BrightSpots, Opaque, RowTotals

pytestmark = pytest.mark.unit

IMAGE = np.random.default_rng(5).random((8, 9)) + np.pad([[3.0]], ((2, 5), (4, 4)))
BACK = [Sample(Orientation.BACKWARD, 0, Cells.at((8, 9), [at])) for at in (3, 40)]


def test_every_strategy_is_measured() -> None:
    ticks = itertools.count()
    costs = measured(BrightSpots(), (IMAGE,), BACK, clock=lambda: float(next(ticks)))
    by_strategy = {one.strategy: one for one in costs}
    assert list(by_strategy) == supported(BrightSpots())
    assert len(by_strategy) == 10
    black_box = by_strategy[Strategy(Mode.BLACKBOX)]
    assert (black_box.disk_bytes, black_box.run_s) == (0, 0.0)
    kept = [one for one in costs if one.strategy.mode is not Mode.BLACKBOX]
    assert all(one.disk_bytes > 0 for one in kept)
    assert by_strategy[Strategy(Mode.COMP)].disk_bytes < by_strategy[Strategy(Mode.PAY)].disk_bytes
    assert by_strategy[Strategy(Mode.FULL, Encoding.RANGES)].disk_bytes < min(
        one.disk_bytes
        for one in kept
        if one.strategy.encoding is not Encoding.RANGES and one.strategy.mode is Mode.FULL
    )
    assert len(measured(Opaque(), (IMAGE,), [])) == 1
    totals = measured(RowTotals(), (IMAGE, np.array(2.0)), [])
    assert {one.strategy.mode for one in totals} == {Mode.BLACKBOX, Mode.MAP, Mode.FULL}


def test_a_black_box_is_run_again_for_each_question() -> None:
    operator = BrightSpots(frozenset({Mode.FULL}))
    measured(operator, (IMAGE,), BACK)
    without = BrightSpots(frozenset({Mode.FULL}))
    measured(without, (IMAGE,), [])
    assert operator.runs - without.runs == len(BACK)


def test_limits_decide_what_is_kept() -> None:
    graph = OperatorGraph()
    image = graph.source("image")
    spots = graph.add(BrightSpots(), image)
    box, pairs, ranges = (
        Strategy(Mode.BLACKBOX),
        Strategy(Mode.FULL),
        Strategy(Mode.FULL, Encoding.RANGES),
    )
    costs = {
        spots: [
            Alternative(box, 0, 0, 1.0),
            Alternative(pairs, 1000, 0.5, 0.001),
            Alternative(ranges, 100, 2.0, 0.002),
        ]
    }
    workload = {spots: 1.0}
    unbounded = choose(costs, workload)
    assert unbounded.strategies == {spots: (pairs,)}
    assert (unbounded.disk_bytes, unbounded.run_s, unbounded.query_s) == (1000, 0.5, 0.001)
    assert choose(costs, workload, Limits(disk_bytes=999)).strategies == {spots: (ranges,)}
    assert choose(costs, workload, Limits(disk_bytes=999, run_s=1)).strategies == {spots: (box,)}
    assert choose(costs, workload, Limits(0, 0)).strategies == {spots: (box,)}
    assert choose(costs, {}).strategies == {spots: (box,)}, "nobody asks: nothing is kept"
    both = choose(costs, workload, pinned={spots: (ranges,)})
    assert both.strategies == {spots: (pairs, ranges)}
    with pytest.raises(ArrayLineageError, match="within the limits"):
        choose(costs, workload, Limits(disk_bytes=10), pinned={spots: (ranges,)})
    version = graph.run({"image": IMAGE}, both.strategies)
    assert version.back(spots, np.s_[0, 0]).cells["image"].count >= 1


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf")])
def test_costs_that_can_not_be_are_refused(cost: float) -> None:
    step = Step("step")
    with pytest.raises(ArrayLineageError, match="finite"):
        choose({step: [Alternative(Strategy(Mode.BLACKBOX), 0, 0, cost)]}, {step: 1})
    with pytest.raises(ArrayLineageError, match="finite"):
        choose({step: [Alternative(Strategy(Mode.BLACKBOX), 0, 0, 1)]}, {step: cost})
    with pytest.raises(ArrayLineageError, match="no strategy"):
        choose({step: []}, {step: 1})
    with pytest.raises(ArrayLineageError, match="pinned"):
        choose(
            {step: [Alternative(Strategy(Mode.BLACKBOX), 0, 0, 1)]},
            {},
            pinned={step: [Strategy(Mode.MAP)]},
        )


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    step = Step("step")
    with pytest.raises(ArrayLineageError, match=r"extra \[arrays\]"):
        choose({step: [Alternative(Strategy(Mode.BLACKBOX), 0, 0, 1)]}, {step: 1})
