"""What is known of the state that functions of ``foreachBatch`` get rows of, when a query is started again and again."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.recipe.document import StreamBatch
from lineage_emitter.dataframes.earlier_runs import RunNotes, continued
from lineage_emitter.dataframes.stream_frames import FrameRun
from lineage_emitter.dataframes.stream_plans import BatchPlan, UntracedBatchError

SPARK: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "true"))
PLAN = BatchPlan(None, (), reads_earlier=True)
QUERY = StreamBatch("query", "run", 0).query


@dataclass(frozen=True)
class Run:
    """A run of the query.

    ``mark``: of its plan; empty: it can't be told. ``batches``: that it begins; its function does something with those in ``used``. ``is_cut``: the last one is not
    committed. ``is_reported``: that the last one is committed is seen.
    """

    mark: str
    is_captured: bool
    batches: int
    used: frozenset[int]
    is_cut: bool
    is_reported: bool


RUNS = st.builds(
    Run,
    mark=st.sampled_from(["one", "one", "other", ""]),
    is_captured=st.sampled_from([True, True, True, False]),
    batches=st.integers(1, 3),
    used=st.frozensets(st.integers(0, 2)),
    is_cut=st.booleans(),
    is_reported=st.booleans(),
)


def plan_is_known(run: FrameRun, number: int) -> bool | None:
    """Whether the plan of all batches so far is sure; None: it is not known. As the recipe of a batch asks it."""
    known = run.known(SPARK, number)
    earlier = continued(run.earlier, known)
    problem = known.run_problem if earlier is None else earlier.known.run_problem
    if problem:
        return None
    try:
        sure = run.check_plan(SPARK, PLAN, known)
    except UntracedBatchError:
        return None
    run.note()
    return sure


@given(st.lists(RUNS, min_size=1, max_size=5))
def test_a_plan_is_sure_where_it_is_that_of_all_batches(runs: list[Run]) -> None:
    ran_by: dict[int, str] = {}
    first = 0
    with tempfile.TemporaryDirectory() as folder:
        for place, planned in enumerate(runs):
            mark = planned.mark or f"unlike {place}"
            frames = FrameRun(
                QUERY, f"run {place}", first, RunNotes(Path(folder)), lambda *_, m=planned.mark: m
            )
            for at in range(planned.batches):
                number = first + at
                ran_by[number] = mark
                if not planned.is_captured:
                    continue
                frames.commit(number - 1)
                if at in planned.used:
                    sure = plan_is_known(frames, number)
                    assert not sure or set(ran_by.values()) == {mark}, (runs, number)
                    # The first run knows its own plan.
                    assert sure or frames.first, (runs, number)
            first += planned.batches - planned.is_cut
            if planned.is_captured and planned.is_reported:
                frames.commit(first - 1)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_run_of_the_same_plan_goes_on(tmp_path: Path, is_cut: bool) -> None:
    def run(name: str, first: int) -> FrameRun:
        return FrameRun(QUERY, name, first, RunNotes(tmp_path), lambda *_: "same")

    one = run("one", 0)
    assert plan_is_known(one, 0)
    # Its function does nothing with the rows of the third batch.
    one.commit(1 if is_cut else 2)
    two = run("two", 2 if is_cut else 3)
    assert plan_is_known(two, two.first)
    two.commit(3)
    # A batch of which nothing is known may have been run by the same plan.
    assert plan_is_known(run("three", 5), 5) is False
    assert plan_is_known(run("four", 6), 6) is None
