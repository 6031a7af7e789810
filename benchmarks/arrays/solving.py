"""How long the optimiser takes over drawn costs, held against the integer programme by itself."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from lineage_arrays.operators import Mode, Step, Strategy
from lineage_arrays.operators.optimiser import EPSILON, Alternative, Limits, choose

SOLVED_TO = 1e-3
"""How far, as a share, the quickest choice may be from the programme's: the optimiser's ties and gap."""


def drawn(operators: int, strategies: int, seed: int) -> dict[Step, list[Alternative]]:
    """Costs of strategies of which the larger are about as much quicker, and one that keeps nothing."""
    random = np.random.default_rng(seed)
    costs: dict[Step, list[Alternative]] = {}
    for number in range(operators):
        disk = random.lognormal(13, 2, strategies)
        query = random.lognormal(0, 1, strategies) / disk**0.5
        run = random.lognormal(-4, 1, strategies)
        disk[0] = run[0] = 0
        query[0] = 2 * query[1:].max()
        costs[Step(f"step-{number}")] = [
            # Twelve of one mode would be equal to each other: they differ by name alone.
            Alternative(Strategy(Mode.BLACKBOX), int(disk[at]), float(run[at]), float(query[at]))
            for at in range(strategies)
        ]
    return costs


def solver_row(operators: int, strategies: int, draws: int) -> dict[str, Any]:
    """Seconds of choosing, over draws of costs and limits; ``same``: each choice is within its limits, and as quick as that of HiGHS alone."""
    seconds, same = [], True
    for seed in range(draws + 1):
        costs = drawn(operators, strategies, seed)
        share = (0.05, 0.2, 0.5)[seed % 3]
        every = [one for of in costs.values() for one in of]
        limits = Limits(
            int(share * sum(one.disk_bytes for one in every) / strategies),
            share * sum(one.run_s for one in every) / strategies,
        )
        workload = dict.fromkeys(costs, 1.0)
        begin = time.process_time()
        choice = choose(costs, workload, limits)
        taken = time.process_time() - begin
        # The first one loads SciPy.
        seconds += [taken] if seed else []
        assert limits.disk_bytes is not None
        assert limits.run_s is not None
        same &= choice.disk_bytes <= limits.disk_bytes and choice.run_s <= limits.run_s
        least = _least_query_s(costs, limits)
        same &= choice.query_s <= least * (1 + SOLVED_TO) + EPSILON * max(
            one.query_s for one in every
        )
    return {
        "operators": operators,
        "strategies": strategies,
        "draws": draws,
        "solve_ms": {
            "median": round(1e3 * float(np.median(seconds)), 3),
            "low": round(1e3 * min(seconds), 3),
            "high": round(1e3 * max(seconds), 3),
        },
        "same": bool(same),
    }


def _least_query_s(costs: dict[Step, list[Alternative]], limits: Limits) -> float:
    every = [one for of in costs.values() for one in of]
    owner = np.repeat(np.arange(len(costs)), [len(of) for of in costs.values()])
    each = (owner == np.arange(len(costs))[:, None]).astype(np.float64)
    uses = np.array([[one.disk_bytes for one in every], [one.run_s for one in every]])
    most = np.array([limits.disk_bytes, limits.run_s], np.float64)
    solved = milp(
        np.array([one.query_s for one in every]),
        integrality=np.ones(len(every)),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(each, 1, 1),
            LinearConstraint(uses / most[:, None], -np.inf, 1),
        ],
        options={"mip_rel_gap": 1e-4},
    )
    return float(solved.fun)
