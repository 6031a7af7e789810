"""Plans by the costs that a program stored: what the plan keeps answers as region pairs of each cell do, from the next run on."""

from __future__ import annotations

import json
import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from lineage.main import app as command_line
from lineage_arrays import ArrayLineageError, CellError, Recording
from lineage_arrays.cells import Cells
from lineage_arrays.errors import ModeError
from lineage_arrays.operators import Mode, Operator, OperatorGraph, Strategy, Version
from lineage_arrays.operators.costs import packed_costs
from lineage_arrays.operators.optimiser import Limits
from lineage_arrays.operators.plan_files import PLAN_VARIABLE, PlannedStep, read_plan, write_plan
from lineage_arrays.operators.planning import explain
from lineage_arrays.operators.questions import BackQuestion, ForwardQuestion, samples_of
from lineage_arrays.querying import backward, forward
from lineage_arrays.saved import measured_run, read_recording, store_recording
from lineage_store.url import open_store
from tests.support.cell_operators import BrightSpots, Opaque
from tests.support.operator_graphs import Sky, image_of
from tests.support.stored_arrays import parts, reloaded

pytestmark = pytest.mark.unit


def any_clock(seed: int) -> Callable[[], float]:
    """Seconds that go by as chance has it: so each strategy is the cheapest at times."""
    chance, now = random.Random(seed), [0.0]

    def clock() -> float:
        now[0] += chance.random()
        return now[0]

    return clock


def planned(path: Path) -> Any:
    return mock.patch.dict(os.environ, {PLAN_VARIABLE: str(path)})


def assert_answers_of(version: Version, full: Version, sky: Sky) -> None:
    """Each cell backward, and forward, in the program and as it is stored."""
    ends = (sky.spots, sky.totals, sky.mended)
    for flow in (version.flow, reloaded(version.flow)):
        for step in ends:
            node, twin = full.node(step), flow.nodes[version.node(step).number]
            for cells in parts(node):
                assert backward(flow, twin, cells).cells == backward(full.flow, node, cells).cells
            source, source_twin = full.node(sky.image), flow.nodes[version.node(sky.image).number]
            for cells in parts(source):
                found = forward(flow, source_twin, cells, twin)
                assert found.cells == forward(full.flow, source, cells, node).cells


@settings(max_examples=6)
@given(
    seed=st.integers(0, 2**32 - 1),
    disk=st.none() | st.integers(100, 3_000),
    run=st.none() | st.floats(1.0, 20.0),
)
def test_what_a_plan_keeps_answers_as_region_pairs(
    seed: int, disk: int | None, run: float | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sky, path = Sky(), tmp_path_factory.getbasetemp() / "plan.json"
    costs = measured_run(sky.run(image_of(seed)), sky.questions(seed), clock=any_clock(seed))
    try:
        plan = explain(costs, Limits(disk, run))
    except ArrayLineageError:
        plan = explain(costs, Limits())
    write_plan(path, plan.planned())
    assert read_plan(path) == plan.planned()
    again = Sky()
    image = image_of(seed + 1)
    with planned(path), warnings.catch_warnings():
        warnings.simplefilter("error")
        version = again.run(image)
    # What each step keeps is what the plan says, though no argument did.
    kept = {one.name: one.strategies for one in plan.planned()}
    by_hand = again.run(image, {step: kept[step.name] for step in again.full})
    kinds = [
        [type(edge.mapping).__name__ for node in one.flow.nodes for edge in node.inputs]
        for one in (version, by_hand)
    ]
    assert kinds[0] == kinds[1]
    assert_answers_of(version, again.run(image, again.full), again)


def test_the_workload_is_how_questions_meet_the_steps() -> None:
    sky = Sky()
    costs = measured_run(sky.run(image_of(3)), sky.questions(3), clock=any_clock(3))
    # Of three questions: mended by two, totals by both its operands and forward by one, spots by all.
    assert {step.name: round(3 * often) for step, often in costs.workload.items()} == {
        "spots": 3, "totals": 3, "mended": 2,
    }  # fmt: skip
    modes = {
        step.name: {one.strategy.mode for one in of} for step, of in costs.alternatives.items()
    }
    assert modes == {
        "spots": set(Mode) - {Mode.MAP},
        "totals": {Mode.FULL, Mode.MAP, Mode.BLACKBOX},
        "mended": {Mode.FULL, Mode.COMP, Mode.BLACKBOX},
    }


def test_a_black_box_costs_what_its_pairs_take_in_a_store() -> None:
    sky = Sky()
    costs = measured_run(sky.run(image_of(5)), sky.questions(0))
    box = next(one for one in costs.alternatives[sky.spots] if one.strategy.mode is Mode.BLACKBOX)
    assert box.disk_bytes > 0


def invoked(*arguments: str) -> Result:
    return CliRunner().invoke(command_line, ["arrays", "plan", *arguments])


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Sky, str]:
    """A graph whose run was stored with costs, and its application; a later one was stored without."""
    monkeypatch.chdir(tmp_path)
    sky = Sky()
    version = sky.run(image_of(1))
    costs = measured_run(version, sky.questions(1), clock=any_clock(1))
    app = store_recording(version, "nightly", costs=costs)
    store_recording(version, "later")
    return sky, app


def test_the_command_plans_by_a_stored_recording_and_the_next_run_keeps_it(
    stored: tuple[Sky, str], tmp_path: Path
) -> None:
    sky, app = stored
    shown = invoked("--max-disk", "900", "--save", "plan.json")
    assert shown.exit_code == 0, shown.output
    for words in (app, "spots", "totals", "mended", "blackbox", "900 bytes of disk", PLAN_VARIABLE):
        assert words in shown.output
    named = invoked("--app", app, "--max-disk", "900", "--json")
    document = json.loads(named.stdout)
    assert document["app"] == app
    kept = {
        step["name"]: [one["mode"] for one in step["alternatives"] if one["kept"]]
        for step in document["steps"]
    }
    assert kept == {
        one.name: [str(how.mode) for how in one.strategies] for one in read_plan("plan.json")
    }
    image = image_of(2)
    with planned(tmp_path / "plan.json"):
        version = sky.run(image)
        # What a program says comes before the plan.
        by_hand = sky.run(image, sky.full)
    assert_answers_of(version, by_hand, sky)
    assert not list(tmp_path.glob("*.new"))


def test_costs_come_back_with_the_recording(stored: tuple[Sky, str]) -> None:
    sky, app = stored
    with open_store("sqlite:///.lineage/lineage.db") as store:
        recording = read_recording(store, app)
        assert recording.is_measured
        assert packed_costs(recording.costs()) == recording.packed_costs
        assert recording.back("mended", 0).cells == sky.run(image_of(1)).back(sky.mended, 0).cells


def test_what_was_stored_without_costs_says_how_to_have_them(
    stored: tuple[Sky, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///.lineage/lineage.db") as store:
        later = store.applications()[0].app
    assert later != stored[1]
    refused = invoked("--app", later)
    assert (refused.exit_code, "measured_run(version, questions)" in refused.output) == (2, True)
    both = invoked("costs.json", "--app", later)
    assert "not both" in both.output
    recording = Recording()
    recording.output("x", recording.source("a", np.arange(3)))
    store_recording(recording, "plain", "sqlite:///other.db")
    assert "none was stored with costs" in invoked("--store", "sqlite:///other.db").output


def test_forged_costs_are_refused_and_traces_are_not(stored: tuple[Sky, str]) -> None:
    sky, _ = stored
    version = sky.run(image_of(1))
    with (
        open_store("sqlite:///forged.db", create=True) as store,
        mock.patch("lineage_arrays.saved.storing.packed_costs", return_value={"format": 9}),
    ):
        costs = measured_run(version, sky.questions(1))
        app = store_recording(version, "forged", "sqlite:///forged.db", costs=costs)
        recording = read_recording(store, app)
        assert recording.back("mended", 0).cells
        with pytest.raises(ArrayLineageError, match="format 9"):
            recording.costs()


class OtherSpots(BrightSpots):
    version = "2"


@pytest.mark.parametrize(
    ("operator", "strategy", "said"),
    [
        (OtherSpots(), Strategy(Mode.FULL), "bright-spots 1, and this is bright-spots 2"),
        (BrightSpots(frozenset({Mode.PAY})), Strategy(Mode.FULL), "does not support full"),
    ],
)
def test_a_plan_for_another_operator_is_not_used(
    tmp_path: Path, operator: Operator, strategy: Strategy, said: str
) -> None:
    path = tmp_path / "plan.json"
    write_plan(path, [PlannedStep("spots", "bright-spots 1", (strategy,))])
    graph = OperatorGraph()
    spots = graph.add(operator, graph.source("image"), name="spots")
    with planned(path), pytest.warns(UserWarning, match=said):
        version = graph.run({"image": image_of(1)})
    assert version.stored_bytes == 0
    assert version.back(spots, np.s_[1, 1]).cells


def test_payloads_of_two_kinds_are_no_plan(tmp_path: Path) -> None:
    path, sky = tmp_path / "plan.json", Sky()
    both = (Strategy(Mode.PAY), Strategy(Mode.COMP))
    write_plan(path, [PlannedStep("spots", "", both), PlannedStep("gone", "", both)])
    with planned(path), pytest.warns(UserWarning, match="not written in one run"):
        assert sky.run(image_of(1)).stored_bytes == 0


@pytest.mark.parametrize(
    "text",
    [
        None, "", "[]", '{"format": 2, "steps": []}', '{"format": 1, "steps": [1]}', "[" * 100_000,
        '{"format": 1, "steps": [{"name": "a", "operator": "", "strategies": []}]}',
        '{"format": 1, "steps": [{"name": "a", "operator": "", "strategies": [{"mode": "map"}]}]}',
        '{"format": 1, "steps": [{"name": 1, "operator": "", "strategies": [1]}]}',
    ],
)  # fmt: skip
def test_a_plan_that_is_none_ends_the_run_before_it_computes(
    tmp_path: Path, text: str | None
) -> None:
    path, sky = tmp_path / "plan.json", Sky()
    if text is not None:
        path.write_text(text)
    with planned(path), pytest.raises(ArrayLineageError, match=r"plan\.json"):
        sky.run(image_of(1))
    assert isinstance(sky.spots.operator, BrightSpots)
    assert sky.spots.operator.runs == 0


class Chance(BrightSpots):
    """Gives another output each time: it can't be run again, and keeps what it writes."""

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        return super().run(*inputs, modes=modes) + np.int8(self.runs)


def test_what_can_not_be_kept_is_no_alternative() -> None:
    graph = OperatorGraph()
    image = graph.source("image")
    spots, opaque = graph.add(Chance(), image), graph.add(Opaque(), image)
    version = graph.run({"image": image_of(1)}, {spots: [Strategy(Mode.FULL)]})
    costs = measured_run(version, [BackQuestion(spots, np.s_[0, 0])])
    assert Mode.BLACKBOX not in {one.strategy.mode for one in costs.alternatives[spots]}
    assert [one.strategy.mode for one in costs.alternatives[opaque]] == [Mode.BLACKBOX]
    with pytest.raises(ModeError, match="another output"):
        measured_run(version, [BackQuestion(spots, np.s_[0, 0])], among=[])


def test_questions_that_can_not_be_are_refused() -> None:
    sky, other = Sky(), Sky()
    version = sky.run(image_of(1))
    for questions, error in (
        ([], ArrayLineageError),
        ([BackQuestion(other.mended)], ArrayLineageError),
        ([ForwardQuestion(sky.mended, sky.spots)], ArrayLineageError),
        ([BackQuestion(sky.mended, 99)], CellError),
    ):
        with pytest.raises(error):
            measured_run(version, questions)


def test_cells_of_a_sample_are_those_that_reach_the_step() -> None:
    sky = Sky()
    version = sky.run(image_of(1))
    samples = samples_of(version, [BackQuestion(sky.totals, 1)])
    assert [one.cells for one in samples[sky.totals]] == [Cells.at((4,), [1])] * 2
    [of_spots] = samples[sky.spots]
    # The rows are turned before they are added up.
    assert of_spots.cells.positions().tolist() == [10, 11, 12, 13, 14]
