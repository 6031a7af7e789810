"""Multiple-choice knapsacks, against all choices and against the integer programme."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_arrays.operators import Encoding, Mode, Orientation, Step, Strategy
from lineage_arrays.operators import optimiser as optimiser_module
from lineage_arrays.operators.enumerating import Knapsack, least_choice
from lineage_arrays.operators.optimiser import Alternative, Limits, choose

pytestmark = pytest.mark.unit

STEPS, LIMIT_S = 100, 0.05
STRATEGIES = [
    Strategy(mode, encoding, orientation)
    for mode in (Mode.BLACKBOX, Mode.FULL)
    for encoding in Encoding
    for orientation in Orientation
]


@given(seed=st.integers(0, 2**32), limits=st.integers(0, 2), groups=st.integers(1, 4))
def test_it_is_the_best_of_all_choices(seed: int, limits: int, groups: int) -> None:
    """Whatever the prices; and where it gives none, none is within the limits."""
    random = np.random.default_rng(seed)
    of_group = [np.full(random.integers(1, 5), group) for group in range(groups)]
    numbers = np.concatenate(of_group)
    knapsack = Knapsack(
        random.integers(0, 9, len(numbers)).astype(float),
        random.integers(0, 5, (limits, len(numbers))) / 10,
        random.integers(0, 12, limits) / 10,
        numbers,
    )
    members = [np.flatnonzero(numbers == group) for group in range(groups)]
    costs = [
        knapsack.costs[list(one)].sum()
        for one in itertools.product(*members)
        if (knapsack.uses[:, list(one)].sum(axis=1) <= knapsack.most + 1e-9).all()
    ]
    chosen = least_choice(knapsack, random.integers(0, 9, limits).astype(float), 1e-4)
    if not costs:
        assert chosen is None
        return
    assert chosen is not None
    assert numbers[chosen].tolist() == list(range(groups))
    assert (knapsack.uses[:, chosen].sum(axis=1) <= knapsack.most + 1e-9).all()
    assert knapsack.costs[chosen].sum() == pytest.approx(min(costs), rel=1e-4)


def drawn(seed: int) -> tuple[dict[Step, list[Alternative]], dict[Step, float]]:
    random = np.random.default_rng(seed)
    costs = {}
    for number in range(STEPS):
        alternatives = [Alternative(STRATEGIES[0], 0, 0.0, 10 * random.random())]
        alternatives += [
            Alternative(
                one, int(random.integers(1_000, 100_000_000)), random.random(), random.random()
            )
            for one in STRATEGIES[1:]
        ]
        costs[Step(f"step {number}")] = alternatives
    return costs, {step: random.random() for step in costs}


LIMITS = (Limits(), Limits(disk_bytes=10**9), Limits(run_s=10), Limits(disk_bytes=10**9, run_s=10))


@pytest.mark.parametrize("limits", LIMITS)
def test_a_hundred_steps_of_twelve_strategies_take_milliseconds(limits: Limits) -> None:
    costs, workload = drawn(1)
    choose(costs, workload, limits)
    taken = []
    for seed in range(2, 7):
        costs, workload = drawn(seed)
        begin = time.process_time()
        choose(costs, workload, limits)
        taken.append(time.process_time() - begin)
    assert np.median(taken) <= LIMIT_S, taken


@pytest.mark.parametrize("limits", LIMITS[1:])
def test_the_integer_programme_chooses_nothing_better(
    limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs, workload = drawn(11)
    enumerated = choose(costs, workload, limits)
    monkeypatch.setattr(optimiser_module, "least_choice", lambda *_: None)
    solved = choose(costs, workload, limits)
    assert enumerated.query_s == pytest.approx(solved.query_s, rel=3e-4)
