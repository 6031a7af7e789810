"""Plans of strategies: each reason is held against all choices that there are."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from lineage.main import app as command_line
from lineage_arrays import ArrayLineageError, Cells
from lineage_arrays.errors import NoChoiceError
from lineage_arrays.operators import Encoding, Mode, OperatorGraph, Orientation, Step, Strategy
from lineage_arrays.operators.costs import Costs, read_costs, write_costs
from lineage_arrays.operators.measuring import Sample, measured
from lineage_arrays.operators.optimiser import Alternative, Limits
from lineage_arrays.operators.planning import Plan, explain
from tests.support.cell_operators import BrightSpots

pytestmark = pytest.mark.unit

BOX, ONE, MANY, RANGES = (
    Strategy(Mode.BLACKBOX),
    Strategy(Mode.FULL),
    Strategy(Mode.FULL, Encoding.MANY, Orientation.FORWARD),
    Strategy(Mode.FULL, Encoding.RANGES),
)
AMOUNT = st.integers(0, 9)


@st.composite
def drawn_costs(draw: st.DrawFn) -> Costs:
    """A few steps whose strategies cost whole numbers, some of them pinned."""
    steps = [Step(f"step {number}") for number in range(draw(st.integers(1, 3)))]
    alternatives = {}
    for step in steps:
        kept = draw(st.lists(st.sampled_from([ONE, MANY, RANGES]), unique=True, max_size=3))
        alternatives[step] = [Alternative(BOX, 0, 0.0, float(draw(AMOUNT)))]
        alternatives[step] += [
            Alternative(one, draw(AMOUNT), float(draw(AMOUNT)), float(draw(AMOUNT))) for one in kept
        ]
    pinned = {
        step: [draw(st.sampled_from(of)).strategy]
        for step, of in alternatives.items()
        if draw(st.integers(0, 3)) == 0
    }
    return Costs(alternatives, {step: float(draw(AMOUNT)) for step in steps}, pinned)


def choices(costs: Costs) -> list[tuple[float, int, float]]:
    """Query time, disk and run time of each choice of one strategy a step beside the pinned ones."""
    of_steps = []
    for step, alternatives in costs.alternatives.items():
        pins = [one for one in alternatives if one.strategy in costs.pinned.get(step, ())]
        of_steps.append([
            (
                costs.workload[step] * min(each.query_s for each in {*pins, one}),
                sum(each.disk_bytes for each in {*pins, one}),
                sum(each.run_s for each in {*pins, one}),
            )
            for one in alternatives
        ])  # fmt: skip
    return [
        (
            sum(one[0] for one in chosen),
            sum(one[1] for one in chosen),
            sum(one[2] for one in chosen),
        )
        for chosen in itertools.product(*of_steps)
    ]


def is_within(disk_bytes: int, run_s: float, limits: Limits) -> bool:
    is_disk = limits.disk_bytes is None or disk_bytes <= limits.disk_bytes
    return is_disk and (limits.run_s is None or run_s <= limits.run_s)


@given(costs=drawn_costs(), disk=st.none() | st.integers(0, 20), run=st.none() | st.integers(0, 20))
def test_each_reason_holds_against_all_choices(
    costs: Costs, disk: int | None, run: int | None
) -> None:
    limits = Limits(disk, None if run is None else float(run))
    within = [one for one in choices(costs) if is_within(one[1], one[2], limits)]
    if not within:
        with pytest.raises(NoChoiceError, match="The least that can be kept"):
            explain(costs, limits)
        return
    plan = explain(costs, limits)
    assert is_within(plan.choice.disk_bytes, plan.choice.run_s, limits)
    # Costs are small whole numbers: what is a ten-thousandth from the best is the best.
    assert plan.choice.query_s == pytest.approx(min(within)[0], rel=1e-3, abs=1e-9)
    assert_reasons(plan, costs)
    for larger in plan.larger:
        best = min(one for one in choices(costs) if is_within(one[1], one[2], larger.limits))
        assert larger.choice.query_s == pytest.approx(best[0], rel=1e-3, abs=1e-9)


def assert_reasons(plan: Plan, costs: Costs) -> None:
    for step, explained in zip(costs.alternatives, plan.steps, strict=True):
        kept = [one.alternative for one in explained.alternatives if one.is_kept]
        pins = {one.alternative.strategy for one in explained.alternatives if one.why == "pinned"}
        assert pins == set(costs.pinned.get(step, ()))
        assert {one.strategy for one in kept} == set(plan.choice.strategies[step])
        quickest = min(one.query_s for one in kept)
        others = [one.alternative for one in explained.alternatives]
        for one in explained.alternatives:
            costs_of = one.alternative
            disk = plan.choice.disk_bytes + costs_of.disk_bytes
            disk -= sum(each.disk_bytes for each in kept if each.strategy not in pins)
            run = plan.choice.run_s + costs_of.run_s
            run -= sum(each.run_s for each in kept if each.strategy not in pins)
            if one.why == "slower":
                assert costs_of.query_s > quickest
            elif one.why == "over the limit":
                assert not is_within(disk, run, plan.limits)
            elif one.why == "beaten":
                assert any(
                    each is not costs_of
                    and each.query_s <= costs_of.query_s
                    and each.disk_bytes <= costs_of.disk_bytes
                    and each.run_s <= costs_of.run_s
                    for each in others
                )
            elif one.why == "as good":
                saved = explained.frequency * (quickest - costs_of.query_s)
                assert saved <= 1e-3 * max(plan.choice.query_s, 1)


@given(costs=drawn_costs())
def test_costs_come_back_from_a_file(
    costs: Costs, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "costs.json"
    write_costs(path, costs)
    again = read_costs(path)
    assert [step.name for step in again.alternatives] == [step.name for step in costs.alternatives]
    assert list(again.alternatives.values()) == list(costs.alternatives.values())
    assert list(again.workload.values()) == list(costs.workload.values())
    assert list(again.pinned.values()) == list(costs.pinned.values())


def costs_of_spots() -> Costs:
    image = np.random.default_rng(5).random((8, 9)) + np.pad([[3.0]], ((2, 5), (4, 4)))
    graph = OperatorGraph()
    spots = graph.add(BrightSpots(), graph.source("image"), name="spots")
    samples = [Sample(Orientation.BACKWARD, 0, Cells.at((8, 9), [3]))]
    return Costs({spots: measured(BrightSpots(), (image,), samples)}, {spots: 1.0})


def test_the_command_explains_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    measured_costs = costs_of_spots()
    write_costs(path, measured_costs)
    [alternatives] = measured_costs.alternatives.values()
    shown = CliRunner().invoke(command_line, ["arrays", "plan", str(path), "--max-disk", "0"])
    assert shown.exit_code == 0, shown.output
    for words in ("spots", "blackbox", "comp-many", "full-ranges", "within 0 bytes of disk"):
        assert words in shown.output
    answer = CliRunner().invoke(
        command_line, ["arrays", "plan", str(path), "--max-disk", "0", "--json"]
    )
    document = json.loads(answer.stdout)
    [step] = document["steps"]
    assert document["limits"] == {"disk_bytes": 0, "run_s": None}
    assert len(step["alternatives"]) == len(alternatives)
    assert sum(one["kept"] for one in step["alternatives"]) == 1
    assert document["disk_bytes"] == 0


def test_larger_limits_say_what_they_buy() -> None:
    step = Step("spots")
    costs = Costs({step: [Alternative(BOX, 0, 0, 9.0), Alternative(ONE, 150, 1.0, 1.0)]}, {step: 1})
    plan = explain(costs, Limits(disk_bytes=100))
    assert [(one.why, one.detail) for one in plan.steps[0].alternatives] == [
        ("chosen", ""),
        ("over the limit", "50 bytes of disk"),
    ]
    [larger] = plan.larger
    assert (larger.limits.disk_bytes, larger.choice.query_s, larger.choice.disk_bytes) == (200, 1.0, 150)  # fmt: skip
    assert not explain(costs, Limits()).larger


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("disk_bytes", 1.5),
        ("disk_bytes", -1),
        ("run_s", float("nan")),
        ("query_s", "1"),
        ("query_s", float("inf")),
        ("mode", "none"),
        ("encoding", None),
    ],
)
def test_costs_that_are_none_are_refused(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "costs.json"
    write_costs(path, costs_of_spots())
    document = json.loads(path.read_text())
    document["steps"][0]["alternatives"][0][key] = value
    path.write_text(json.dumps(document))
    with pytest.raises(ArrayLineageError):
        explain(read_costs(path), Limits())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2, "steps": []}', '{"format": 1, "steps": []}', '{"format": 1, "steps": [1]}', '{"format": 1, "steps": [{"name": "", "alternatives": []}]}', "[" * 100_000, "\xff"])  # fmt: skip
def test_files_that_are_no_costs_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ArrayLineageError):
        read_costs(path)
