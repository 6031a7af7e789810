"""The optimiser's choice against all choices there are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_arrays import ArrayLineageError
from lineage_arrays.operators import Encoding, Mode, Orientation, Step, Strategy
from lineage_arrays.operators.optimiser import Alternative, Limits, choose

pytestmark = pytest.mark.property

KINDS = [
    Strategy(Mode.BLACKBOX), Strategy(Mode.FULL), Strategy(Mode.FULL, Encoding.MANY), Strategy(Mode.FULL, Encoding.RANGES),
    Strategy(Mode.FULL, Encoding.ONE, Orientation.FORWARD),
]  # fmt: skip
costs = st.integers(0, 20)


@st.composite
def problems(draw: st.DrawFn) -> tuple[dict[Step, list[Alternative]], dict[Step, float], Limits]:
    of: dict[Step, list[Alternative]] = {}
    for number in range(draw(st.integers(1, 3))):
        kinds = draw(st.integers(1, 4))
        of[Step(f"step.{number}")] = [
            Alternative(kind, draw(costs) if at else 0, draw(costs) if at else 0, draw(costs))
            for at, kind in enumerate(KINDS[:kinds])
        ]
    workload = {step: float(draw(st.integers(0, 3))) for step in of}
    limits = Limits(draw(st.none() | st.integers(0, 40)), draw(st.none() | st.integers(0, 40)))
    return of, workload, limits


def choices(
    of: dict[Step, list[Alternative]], limits: Limits, pinned: dict[Step, Sequence[Strategy]]
) -> Iterator[dict[Step, tuple[Alternative, ...]]]:
    """All sets of strategies for all steps that are within the limits."""
    several = [
        [
            some
            for count in range(1, len(kinds) + 1)
            for some in itertools.combinations(kinds, count)
            if {one.strategy for one in some} >= set(pinned.get(step, ()))
        ]
        for step, kinds in of.items()
    ]
    for combination in itertools.product(*several):
        kept = [one for some in combination for one in some]
        disk, run = sum(one.disk_bytes for one in kept), sum(one.run_s for one in kept)
        if disk <= (limits.disk_bytes if limits.disk_bytes is not None else disk) and run <= (
            limits.run_s if limits.run_s is not None else run
        ):
            yield dict(zip(of, combination, strict=True))


@given(problems(), st.booleans())
def test_no_choice_within_the_limits_is_better(
    problem: tuple[dict[Step, list[Alternative]], dict[Step, float], Limits], pin: bool
) -> None:
    of, workload, limits = problem
    pinned: dict[Step, Sequence[Strategy]] = (
        {step: [kinds[-1].strategy] for step, kinds in list(of.items())[:1]} if pin else {}
    )

    def query_s(choice: dict[Step, tuple[Alternative, ...]]) -> float:
        return sum(
            workload[step] * min(one.query_s for one in some) for step, some in choice.items()
        )

    every = list(choices(of, limits, pinned))
    if not every:
        with pytest.raises(ArrayLineageError, match="within the limits"):
            choose(of, workload, limits, pinned)
        return
    chosen = choose(of, workload, limits, pinned)
    kept = {
        step: tuple(one for one in kinds if one.strategy in chosen.strategies[step])
        for step, kinds in of.items()
    }
    assert kept in every
    assert chosen.query_s == query_s(kept) == min(map(query_s, every))
    assert chosen.disk_bytes == sum(one.disk_bytes for some in kept.values() for one in some)
    # Nothing is kept that no question needs, and no other choice is as quick with less of both.
    as_quick = [one for one in every if query_s(one) == chosen.query_s]
    assert not any(
        sum(a.disk_bytes for some in one.values() for a in some) < chosen.disk_bytes
        and sum(a.run_s for some in one.values() for a in some) < chosen.run_s
        for one in as_quick
    )
