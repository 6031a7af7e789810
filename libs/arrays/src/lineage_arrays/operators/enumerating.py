"""Multiple-choice knapsacks: one alternative of each group, so that the sum of costs is least and no sum of what they use is over its limit.

Prices of what is used (those of the linear relaxation) give each alternative a reduced cost, and all choices a lower bound: a choice costs at least the
bound and the reduced costs of its alternatives. So all choices whose reduced costs add up to little are enumerated, and then the best one within the limits is
the best of all as soon as it costs no more than that (Sinha and Zoltners, "The Multiple-Choice Knapsack Problem", 1979, has the bound).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

STATES_MAX = 500_000
"""Choices that are enumerated at once."""
ROUNDS_MAX = 200
FIRST = 1e-3
"""Of the bound, as a share: how far above it choices are enumerated at first."""
GROWTH = 1.5
"""By how much more choices are enumerated than before."""
TOLERANCE = 1e-12
"""Of a limit, as a share: sums are rounded."""


@dataclass(frozen=True)
class Knapsack:
    """Alternatives in groups.

    ``costs`` [n]; ``uses`` [limits, n], as shares of the limits; ``most`` [limits], at most how much of each; ``groups`` [n]: numbers from 0, ascending.
    """

    costs: F64
    uses: F64
    most: F64
    groups: I64


def least_choice(knapsack: Knapsack, prices: F64, gap: float) -> I64 | None:
    """The alternatives of the best choice, one for each group; within a share ``gap`` of the best.

    Args:
        knapsack: what there is to choose from.
        prices: of what is used [limits], from 0 up: any give the right answer, those of the linear relaxation the soonest.
        gap: a share.

    Returns:
        Indices, by group; None: too many choices are nearly as good, or none is within the limits.
    """
    priced = knapsack.costs + prices @ knapsack.uses
    starts = np.flatnonzero(np.diff(knapsack.groups, prepend=-1))
    lowest = np.minimum.reduceat(priced, starts)
    reduced = priced - lowest[knapsack.groups]
    bound = float(lowest.sum() - prices @ knapsack.most)
    room = 1e-12
    # With so much room nothing is left out.
    everything = float(reduced.sum() + prices @ np.abs(knapsack.most))
    for _ in range(ROUNDS_MAX):
        chosen = _enumerated(knapsack, prices, reduced, room)
        if chosen is None:
            return None
        costs = knapsack.costs[chosen].sum() if chosen.size else np.inf
        # No other choice, but for those which were enumerated, costs less.
        if costs * (1 - gap) <= bound + room:
            return chosen
        if room > everything:
            return None
        room = max(room * GROWTH, FIRST * (abs(bound) or float(reduced.max())))
        room = min(room, max(costs * (1 - gap / 2) - bound, 1e-12))
    return None


def _enumerated(knapsack: Knapsack, prices: F64, reduced: F64, room: float) -> I64 | None:
    """The best choice within the limits among those that cost no more than ``room`` above the bound: empty, there is none; None: they are too many."""
    near = np.flatnonzero(reduced <= room)
    groups = knapsack.groups[near]
    options = np.split(near, np.flatnonzero(np.diff(groups)) + 1)
    chosen = np.array([of[reduced[of].argmin()] for of in options])
    open_groups = [group for group in range(len(options)) if len(options[group]) > 1]
    closed = np.delete(chosen, open_groups)
    totals = np.array([reduced[closed].sum()])
    uses = knapsack.uses[:, closed].sum(axis=1, keepdims=True)
    least, largest = _uses_after(knapsack, [options[group] for group in open_groups])
    back: list[tuple[I64, I64]] = []
    for at, group in enumerate(open_groups):
        if len(totals) * len(options[group]) > STATES_MAX:
            return None
        reached = totals[:, None] + reduced[options[group]][None, :]
        before, option = np.nonzero(reached <= room)
        taken = options[group][option]
        totals, uses = reached[before, option], uses[:, before] + knapsack.uses[:, taken]
        kept = _promising(knapsack, prices, room - totals, uses, least[at], largest[at])
        totals, uses = totals[kept], uses[:, kept]
        back.append((before[kept], taken[kept]))
    if not len(_promising(knapsack, prices, room - totals, uses)):
        return np.empty(0, np.int64)
    if open_groups:
        chosen[open_groups] = _best(knapsack, back)
    return chosen


def _promising(
    knapsack: Knapsack,
    prices: F64,
    rooms: F64,
    uses: F64,
    least: F64 | float = 0.0,
    largest: F64 | float = 0.0,
) -> I64:
    """The states from which a choice within the limits may be reached that costs no more than the room that each has left.

    ``uses`` [limits, states]; ``least``, ``largest`` [limits, 1]: what is used from there on.
    """
    left = knapsack.most[:, None] + TOLERANCE - uses
    # What is not used of a limit costs, too, by the prices.
    unused = prices @ np.maximum(left - largest, 0.0)
    return np.flatnonzero((least <= left).all(axis=0) & (unused <= rooms + TOLERANCE))


def _uses_after(knapsack: Knapsack, options: list[I64]) -> tuple[F64, F64]:
    """The least and the most that all groups behind each use, of each limit: [groups, limits, 1]."""
    behind = []
    for extreme in (np.min, np.max):
        of_groups = np.array([extreme(knapsack.uses[:, of], axis=1) for of in options])
        of_groups = of_groups.reshape(len(options), len(knapsack.most), 1)
        behind.append(np.cumsum(of_groups[::-1], axis=0)[::-1] - of_groups)
    return behind[0], behind[1]


def _best(knapsack: Knapsack, back: list[tuple[I64, I64]]) -> I64:
    """The cheapest of the choices that the last states are, by the way on which each was reached."""
    states = np.arange(len(back[-1][0]))
    chosen = np.empty((len(back), len(states)), np.int64)
    for group in range(len(back) - 1, -1, -1):
        before, option = back[group]
        chosen[group] = option[states]
        states = before[states]
    cheapest = int(knapsack.costs[chosen].sum(axis=0).argmin())
    return chosen[:, cheapest]
