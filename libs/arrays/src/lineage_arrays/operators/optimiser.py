"""Which strategies to keep: an integer programme over what they cost (section VII of the paper).

Needs SciPy, whose HiGHS solves it, or its linear relaxation where choices near that are few: the extra ``optimiser`` of this package.
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnly
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from lineage_arrays.errors import ArrayLineageError, NoChoiceError
from lineage_arrays.operators.enumerating import F64, I64, Knapsack, least_choice
from lineage_arrays.operators.graph import Step
from lineage_arrays.operators.strategies import Strategy

EPSILON = 1e-4
"""How much all disk and run time count beside the longest query: differences in time below that may be given up for less of them."""
BETA = 1.0
"""How much run time counts beside disk, each in shares of the most that a strategy takes."""

MAGNITUDE = 1e3
"""The solver stops a millionth away from the best: costs are made as large as to count beside that."""
GAP = 1e-4
"""How far, as a share, a choice may be from the best one: to prove the last of it takes seconds."""


@dataclass(frozen=True)
class Alternative:
    """What a strategy costs at one step.

    ``disk_bytes`` and ``run_s``: more than without lineage. ``query_s``: of one question of the workload that meets the step.
    """

    strategy: Strategy
    disk_bytes: int
    run_s: float
    query_s: float


@dataclass(frozen=True)
class Limits:
    """What lineage may cost; None: any amount."""

    disk_bytes: int | None = None
    run_s: float | None = None


@dataclass(frozen=True)
class Choice:
    """The strategies that were chosen, and what they cost together.

    ``query_s``: the expected time of a question, over the workload.
    """

    strategies: ReadOnly[Step, tuple[Strategy, ...]]
    disk_bytes: int
    run_s: float
    query_s: float


def choose(
    alternatives: ReadOnly[Step, Sequence[Alternative]],
    workload: ReadOnly[Step, float],
    limits: Limits = Limits(),  # immutable
    pinned: ReadOnly[Step, Sequence[Strategy]] | None = None,
) -> Choice:
    """Choose strategies for each step, so that the workload's queries take the least time within limits.

    A question uses the quickest strategy that its step has. Of choices that take the same time the one with least disk and run time wins.

    Args:
        alternatives: what each strategy costs at each step; one of them costs nothing to keep (a black box, functions).
        workload: how often queries meet each step, relative to each other.
        limits: what may be spent.
        pinned: strategies that are kept whatever they cost; they count against the limits.

    Raises:
        NoChoiceError: no choice is within the limits.
        ArrayLineageError: a cost is no finite number from 0 up, or SciPy is missing.
    """
    _check(alternatives, workload, pinned or {})
    entries = [
        (step, alternative)
        for step, of in alternatives.items()
        for alternative in _worthwhile(step, of, pinned or {})
    ]
    chosen = _solve(entries, workload, limits, pinned or {})
    strategies: dict[Step, tuple[Strategy, ...]] = {
        step: tuple(alternative.strategy for at, alternative in chosen if at is step)
        for step in alternatives
    }
    return Choice(
        strategies,
        sum(alternative.disk_bytes for _, alternative in chosen),
        sum(alternative.run_s for _, alternative in chosen),
        sum(
            workload.get(step, 0.0)
            * min(alternative.query_s for at, alternative in chosen if at is step)
            for step in alternatives
        ),
    )


def _check(
    alternatives: ReadOnly[Step, Sequence[Alternative]],
    workload: ReadOnly[Step, float],
    pinned: ReadOnly[Step, Sequence[Strategy]],
) -> None:
    costs = [
        cost
        for of in alternatives.values()
        for alternative in of
        for cost in (alternative.disk_bytes, alternative.run_s, alternative.query_s)
    ]
    if not all(np.isfinite(cost) and cost >= 0 for cost in (*costs, *workload.values())):
        raise ArrayLineageError("a cost or a frequency is no finite number from 0 up")
    if not all(alternatives.values()):
        raise ArrayLineageError("a step has no strategy to choose from")
    for step, strategies in pinned.items():
        offered = {alternative.strategy for alternative in alternatives.get(step, ())}
        if not set(strategies) <= offered:
            raise ArrayLineageError(f"{step.name}: what is pinned is not among its alternatives")


def _worthwhile(
    step: Step, alternatives: Sequence[Alternative], pinned: ReadOnly[Step, Sequence[Strategy]]
) -> list[Alternative]:
    """Without those that another one beats at everything: no choice needs them. Pinned ones stay."""
    worthwhile: list[Alternative] = []
    order = sorted(
        alternatives,
        key=lambda alternative: (alternative.query_s, alternative.disk_bytes, alternative.run_s),
    )
    for alternative in order:
        beaten = any(
            better.query_s <= alternative.query_s
            and better.disk_bytes <= alternative.disk_bytes
            and better.run_s <= alternative.run_s
            for better in worthwhile
        )
        if not beaten or alternative.strategy in pinned.get(step, ()):
            worthwhile.append(alternative)
    return worthwhile


def _solve(
    entries: Sequence[tuple[Step, Alternative]],
    workload: ReadOnly[Step, float],
    limits: Limits,
    pinned: ReadOnly[Step, Sequence[Strategy]],
) -> list[tuple[Step, Alternative]]:
    if find_spec("scipy") is None:
        raise ArrayLineageError(
            "the optimiser needs SciPy: the extra [arrays] of lineage-master brings it"
        )
    # A query of a step uses the quickest of the stored strategies, so one beside the pinned ones is enough: which one is the variable.
    pins = np.array(
        [alternative.strategy in pinned.get(step, ()) for step, alternative in entries], np.bool_
    )
    disk = np.array([alternative.disk_bytes for _, alternative in entries], np.float64)
    run = np.array([alternative.run_s for _, alternative in entries], np.float64)
    used = np.array(
        [workload.get(step, 0.0) * alternative.query_s for step, alternative in entries]
    )
    shares = disk / (disk.max() or 1.0) + BETA * run / (run.max() or 1.0)
    objective = used / (used.max() or 1.0) + EPSILON * np.where(pins, 0.0, shares) / len(entries)
    rows = {step: row for row, step in enumerate(dict.fromkeys(step for step, _ in entries))}
    uses, most = [], []
    for costs, limit in ((disk, limits.disk_bytes), (run, limits.run_s)):
        if limit is not None:
            # In shares of the limit: bytes and seconds are of different sizes.
            uses.append(np.where(pins, 0.0, costs) / (limit or 1.0))
            most.append((limit - float(costs[pins].sum())) / (limit or 1.0))
    knapsack = Knapsack(
        objective * MAGNITUDE,
        np.array(uses).reshape(-1, len(entries)),
        np.array(most, np.float64),
        np.array([rows[step] for step, _ in entries]),
    )
    best = set(_best_of(knapsack).tolist())
    chosen = [entry for at, entry in enumerate(entries) if at in best or pins[at]]
    _check_limits(chosen, limits)
    return chosen


def _best_of(knapsack: Knapsack) -> I64:
    """The alternatives of the best choice: by enumeration near the linear relaxation, else by the integer programme.

    Raises:
        NoChoiceError: none is within the limits.
    """
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    count = len(knapsack.costs)
    each = sparse.csr_array((np.ones(count), (knapsack.groups, np.arange(count))))
    prices = _prices(knapsack, each)
    chosen = None if prices is None else least_choice(knapsack, prices, GAP)
    if chosen is not None:
        return chosen
    solved = milp(
        knapsack.costs,
        integrality=np.ones(count),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(each, 1, 1),
            LinearConstraint(knapsack.uses, -np.inf, knapsack.most),
        ],
        options={"mip_rel_gap": GAP},
    )
    if solved.x is None:
        raise NoChoiceError(f"no choice of strategies is within the limits: {solved.message}")
    return np.flatnonzero(solved.x > 0.5)


def _prices(knapsack: Knapsack, each: Any) -> F64 | None:
    """What the linear relaxation would give for more of each limit; None: it has no solution."""
    from scipy.optimize import linprog

    if not len(knapsack.most):
        return np.empty(0)
    relaxed = linprog(
        knapsack.costs, knapsack.uses, knapsack.most, each, np.ones(each.shape[0]), (0, 1), "highs"
    )
    return None if relaxed.x is None else np.maximum(-relaxed.ineqlin.marginals, 0.0)


def _check_limits(chosen: Sequence[tuple[Step, Alternative]], limits: Limits) -> None:
    """Solvers work within a tolerance: the result is checked against the limits themselves."""
    disk, run = (
        sum(alternative.disk_bytes for _, alternative in chosen),
        sum(alternative.run_s for _, alternative in chosen),
    )
    over_disk = limits.disk_bytes is not None and disk > limits.disk_bytes * (1 + 1e-6)
    over_run = limits.run_s is not None and run > limits.run_s * (1 + 1e-6)
    if over_disk or over_run:
        raise ArrayLineageError(
            f"the solver gave a choice beyond the limits: {disk} bytes, {run} s"
        )
