"""How questions cross operators: by what is kept, or by running them again, whichever takes less time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from lineage.main import app as command_line
from lineage_arrays import ArrayLineageError, Cells, ModeError
from lineage_arrays.operators import (
    Mode,
    Operator,
    OperatorGraph,
    Regions,
    Shapes,
    Step,
    Strategy,
    Version,
)
from lineage_arrays.operators.costs import Costs, write_costs
from lineage_arrays.operators.encodings import Encoding, Orientation
from lineage_arrays.operators.measuring import Sample, measured
from lineage_arrays.operators.optimiser import Alternative, Limits
from lineage_arrays.operators.plan_files import read_plan, write_plan
from lineage_arrays.operators.planning import explain
from lineage_arrays.operators.query_time import By, Crossings
from lineage_arrays.querying import backward, forward
from tests.support.cell_operators import BrightSpots, Opaque

pytestmark = pytest.mark.unit

PAY, FULL, BOX = Strategy(Mode.PAY), Strategy(Mode.FULL), Strategy(Mode.BLACKBOX)


class Shifted(Operator):
    """Each cell from the one that its payload names, all payloads in one call; ``opened`` counts those that were read."""

    name = "shifted"

    def __init__(self, wrong: int = 0, wrong_at: Any = ...) -> None:
        """Take by how much region pairs are wrong, and at which output cells."""
        super().__init__()
        self.opened = self.runs = 0
        self.wrong, self.wrong_at = wrong, wrong_at

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.FULL, Mode.PAY})

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        (values,) = inputs
        self.runs += 1
        cells = np.arange(values.size)
        came = (cells * 7) % values.size
        outputs = Regions.of_rows(values.shape, cells)
        if Mode.PAY in modes:
            self.lwrite_many(outputs, [int(at).to_bytes(4, "little") for at in came])
        if Mode.FULL in modes:
            written = came.copy()
            written[self.wrong_at] = (came[self.wrong_at] + self.wrong) % len(came)
            self.lwrite_many(outputs, Regions.of_rows(values.shape, written))
        return values[came]

    def map_p(self, cell: Any, payload: bytes, operand: int, shapes: Shapes) -> Any:
        self.opened += 1
        return (int.from_bytes(payload, "little"),)


def graph_of(operator: Operator) -> tuple[OperatorGraph, Step, Step]:
    graph = OperatorGraph()
    source = graph.source("values")
    return graph, source, graph.add(operator, source, name="step")


VALUES = np.arange(1000.0)


def run_quickly(graph: OperatorGraph, step: Step, strategy: Strategy) -> Version:
    """A run, of which it is known that another one takes next to no time, on whatever machine."""
    version = graph.run({"values": VALUES}, {step: [strategy]})
    for run in version.runs.values():
        run.times.tracing_s = dict.fromkeys((Mode.FULL, Mode.PAY), (1e-5, run.cells))
    return version


def test_payloads_that_all_would_be_opened_give_way_to_region_pairs_of_another_run() -> None:
    operator = Shifted()
    graph, source, step = graph_of(operator)
    version = run_quickly(graph, step, PAY)
    trace = version.forward(source, step, np.s_[35], by="auto")
    assert trace.cells["step"].positions().tolist() == [5]
    assert operator.runs == 2
    assert operator.opened < 10
    (way,) = trace.ways
    assert (way.step, way.operand, way.direction, way.by, way.mode) == ("step", 0, "forward", "rerun", "full")  # fmt: skip
    assert way.why == "reading would take longer"
    assert way.read_s is not None
    assert way.rerun_s is not None
    assert way.read_s > way.rerun_s
    assert "run again: step (forward, operand 0): reading would take longer" in trace._text()
    # What it wrote is there for the next question; and backward the payload of a cell is read.
    assert version.forward(source, step, np.s_[:70], by="auto").cells["step"].count == 70
    back = version.back(step, np.s_[5], by="auto")
    assert back.cells["values"].positions().tolist() == [35]
    assert operator.runs == 2
    # By itself a question reads what is kept: all payloads are opened.
    kept = version.forward(source, step, np.s_[35])
    assert kept.cells == trace.cells
    assert (kept.exact, kept.complete) == (True, True)
    assert operator.opened > 1000
    assert [(one.by, one.read_s, one.rerun_s) for one in kept.ways] == [("stored", None, None)]
    assert "estimated" not in str(kept.ways[0])
    assert "run again" not in kept._text()


def test_what_was_never_timed_is_not_run_again_in_the_hope_that_it_is_quicker() -> None:
    operator = Shifted()
    graph, source, step = graph_of(operator)
    version = graph.run({"values": VALUES}, {step: [PAY]})
    trace = version.forward(source, step, np.s_[35], by="auto")
    assert trace.cells["step"].positions().tolist() == [5]
    assert [one.mode for one in trace.ways] == ["pay"]


def test_another_run_that_is_compared_at_a_few_cells_is_not_said_to_be_exact() -> None:
    """The region pairs of one output cell are others than its payload: two modes of one operator disagree."""
    graph, source, step = graph_of(Shifted(wrong=1, wrong_at=5))
    version = run_quickly(graph, step, PAY)
    some = np.s_[4:500]
    kept = version.back(step, some)
    assert kept.cells["values"].has(np.array([35]))[0]
    assert (kept.exact, kept.complete, [one.by for one in kept.ways]) == (True, True, ["stored"])
    words = "step: ran again, and what it wrote then (full) is not compared with what is kept"
    asked: list[tuple[By, str]] = [("auto", " but at 3 output cells"), ("rerun", "")]
    for by, but in asked:
        again = version.back(step, some, by=by)
        assert not again.cells["values"].has(np.array([35]))[0]
        assert again.superset_reasons == again.incomplete_reasons == (words + but,)
    ahead = version.forward(source, step, np.s_[35], by="rerun")
    assert (ahead.cells["step"].count, ahead.exact, ahead.complete) == (0, False, False)
    # All that the question asks is compared: the difference is seen, or there is none.
    near = version.back(step, np.s_[4:6], by="auto")
    assert (near.cells["values"].positions().tolist(), near.exact) == ([28, 35], True)


def test_another_run_that_wrote_the_same_in_the_same_mode_is_exact() -> None:
    ranges = Strategy(Mode.FULL, Encoding.RANGES)
    for strategy in (FULL, ranges):
        graph, source, step = graph_of(Shifted())
        version = run_quickly(graph, step, strategy)
        trace = version.forward(
            source, step, np.s_[35:900], by="auto" if strategy is ranges else "rerun"
        )
        assert [(one.by, one.mode, one.unproven) for one in trace.ways] == [("rerun", "full", "")]
        assert (trace.exact, trace.complete) == (True, True)
        assert trace.cells == version.forward(source, step, np.s_[35:900]).cells


class Unsteady(Shifted):
    """Writes other region pairs of one cell from the second run on."""

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        self.wrong = 1 if self.runs else 0
        return super().run(*inputs, modes=modes)


def test_region_pairs_that_are_no_ranges_yet_are_compared_in_full() -> None:
    graph, _, step = graph_of(Unsteady(wrong_at=5))
    version = run_quickly(graph, step, Strategy(Mode.FULL, Encoding.RANGES))
    trace = version.back(step, np.s_[4:900], by="auto")
    assert trace.cells["values"].has(np.array([35]))[0]
    assert trace.exact
    (way,) = trace.ways
    assert (way.by, way.why) == (
        "stored",
        "can't run again: it writes something else (full) than what is kept",
    )


def test_a_black_box_is_read_by_one_mode_unless_a_quicker_one_is_requested() -> None:
    graph, source, step = graph_of(Shifted(wrong=1, wrong_at=5))
    version = run_quickly(graph, step, BOX)
    quicker = version.forward(source, step, np.s_[35], by="auto")
    assert [one.mode for one in quicker.ways] == ["full"]
    assert (quicker.exact, quicker.complete) == (False, False)
    trace = version.forward(source, step, np.s_[35])
    assert [one.mode for one in trace.ways] == ["pay"]
    assert trace.cells["step"].positions().tolist() == [5]
    assert (trace.exact, trace.complete) == (True, True)


class Slower(Shifted):
    """A payload takes a second by a clock of its own from the fourth on, and a run ten."""

    now = 0.0

    def clock(self) -> float:
        return self.now

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        self.now += 10
        return super().run(*inputs, modes=modes)

    def map_p(self, cell: Any, payload: bytes, operand: int, shapes: Shapes) -> Any:
        self.now += 1 if self.opened >= 3 else 1e-6
        return super().map_p(cell, payload, operand, shapes)


def test_a_reading_that_takes_longer_than_was_thought_ends_at_twice_a_black_box() -> None:
    operator = Slower()
    graph, source, step = graph_of(operator)
    version = graph.run({"values": VALUES}, {step: [PAY]})
    (run,) = version.runs.values()
    run.clock, run.run_s = operator.clock, 10.0
    for estimator in run.estimators:
        estimator.clock = operator.clock
    run.times.tracing_s = {Mode.FULL: (10.0, run.cells), Mode.PAY: (10.0, run.cells)}
    operator.now = 0.0
    crossings = Crossings(version.runs, "auto", operator.clock)
    cells = Cells.at(VALUES.shape, [35])
    trace = forward(version.flow, version.node(source), cells, version.node(step), cross=crossings)
    assert trace.cells["step"].positions().tolist() == [5]
    (way,) = crossings.ways
    assert (way.by, way.why) == ("rerun", "reading was given up, as it took longer")
    # A reading to the end takes 1,000 seconds; four payloads are opened to compare both ways, and one while the time was up.
    assert 20 <= way.took_s < 2 * 10 + 4 + 1 + 0.1
    assert way.took_s == pytest.approx(operator.now, abs=1)


class Few(Shifted):
    """Writes lineage of the first output cells alone; a payload takes 40 microseconds by a clock of its own."""

    now = 0.0
    written = 2_000

    def clock(self) -> float:
        return self.now

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        (values,) = inputs
        cells = np.arange(self.written)
        outputs = Regions.of_rows(values.shape, cells)
        if Mode.PAY in modes:
            self.lwrite_many(outputs, [int(at).to_bytes(4, "little") for at in cells])
        if Mode.FULL in modes:
            self.lwrite_many(outputs, Regions.of_rows(values.shape, cells))
        return values.copy()

    def map_p(self, cell: Any, payload: bytes, operand: int, shapes: Shapes) -> Any:
        self.now += 4e-5
        return super().map_p(cell, payload, operand, shapes)


@pytest.mark.parametrize("back", [True, False])
def test_what_another_run_writes_is_estimated_by_what_is_kept(back: bool) -> None:
    """An index of all cells of the array would take longer than to open the payloads, and another run writes of few."""
    operator = Few()
    graph, source, step = graph_of(operator)
    version = graph.run({"values": np.zeros(400_000)}, {step: [PAY]})
    (run,) = version.runs.values()
    for estimator in run.estimators:
        estimator.clock = operator.clock
    run.times.tracing_s = dict.fromkeys((Mode.FULL, Mode.PAY), (1e-5, run.cells))
    some = np.s_[:1_000]
    trace = version.back(step, some, by="auto") if back else version.forward(source, step, some, by="auto")  # fmt: skip
    (found,) = trace.cells.values()
    assert found.positions().tolist() == list(range(1_000))
    (way,) = trace.ways
    assert (way.by, way.why, way.mode) == ("rerun", "reading would take longer", "full")
    # The paper's bound, by the estimates: a reading would have ended at twice that.
    assert way.read_s is not None
    assert way.rerun_s is not None
    assert way.rerun_s < 0.005 < way.read_s


class Payloads(Few):
    """It has no other mode."""

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.PAY})


@pytest.mark.parametrize("kind", [Few, Payloads])
def test_payloads_are_not_written_again_to_be_opened(kind: type[Few]) -> None:
    """To open those of another run is guessed to take half the time of those that are kept, and takes as long."""
    operator = kind()
    graph, source, step = graph_of(operator)
    version = graph.run({"values": np.zeros(4_000)}, {step: [PAY]})
    (run,) = version.runs.values()
    for estimator in run.estimators:
        estimator.clock = operator.clock
    run.times.tracing_s = {Mode.FULL: (0.06, run.cells), Mode.PAY: (1e-5, run.cells)}
    trace = version.forward(source, step, np.s_[:1_000], by="auto")
    assert trace.cells["step"].positions().tolist() == list(range(1_000))
    (way,) = trace.ways
    assert (way.by, way.mode) == (("rerun", "full") if kind is Few else ("stored", "pay"))
    if kind is Payloads:
        assert (trace.exact, way.why) == (True, "running again would take longer")


class Once(Shifted):
    """Can't run again, as it says in some way."""

    def __init__(self, how: str) -> None:
        super().__init__(wrong=1 if how == "writes something else" else 0)
        self.how = how

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        if self.runs and self.how == "fails":
            raise OSError("the instrument is gone")
        made = super().run(*inputs, modes=modes)
        return made + self.runs if self.how == "gives another output" else made


@pytest.mark.parametrize("how", ["fails", "gives another output", "writes something else"])
def test_what_can_not_run_again_is_answered_by_what_is_kept(how: str) -> None:
    operator = Once(how)
    graph, source, step = graph_of(operator)
    version = run_quickly(graph, step, PAY)
    for _ in range(2):
        trace = version.forward(source, step, np.s_[35], by="auto")
        assert trace.cells["step"].positions().tolist() == [5]
        (way,) = trace.ways
        assert way.by == "stored"
        words = {"fails": "OSError: the instrument is gone"}.get(how, how)
        assert way.why.startswith("can't run again: ")
        assert words in way.why
    # It is tried once.
    assert operator.runs <= 2


def test_a_request_to_run_again_is_refused_where_the_output_changes() -> None:
    graph, _, step = graph_of(Once("gives another output"))
    version = graph.run({"values": VALUES}, {step: [PAY]})
    with pytest.raises(ModeError, match="another output"):
        version.back(step, 5, by="rerun")
    assert version.back(step, 5, by="auto").cells["values"].positions().tolist() == [35]
    with pytest.raises(ModeError, match="auto, stored, rerun"):
        version.back(step, 5, by="quick")  # type: ignore[arg-type] # what a user may type


def test_a_black_box_has_nothing_else_and_an_opaque_operator_no_way_at_all() -> None:
    operator = Shifted()
    graph, source, step = graph_of(operator)
    version = run_quickly(graph, step, BOX)
    trace = version.forward(source, step, np.s_[35], by="auto")
    assert trace.cells["step"].positions().tolist() == [5]
    # By the run whose lineage is quicker to ask, as it is known.
    assert [(one.by, one.why, one.mode) for one in trace.ways] == [("rerun", "nothing else is kept", "full")]  # fmt: skip
    graph, _, step = graph_of(Opaque())
    opaque = graph.run({"values": VALUES}).back(step, 5, by="rerun")
    assert (opaque.ways, opaque.exact) == ((), False)


def test_all_that_took_part_in_a_choice_is_no_matter_of_time() -> None:
    class Chosen(BrightSpots):
        chooses = True

    graph = OperatorGraph()
    image = graph.source("image")
    spots = graph.add(Chosen(), image)
    version = graph.run({"image": np.eye(4)}, {spots: [FULL]})
    crossings, node = Crossings(version.runs, "rerun"), version.node(spots)
    cells = Cells.at((4, 4), [1])
    every = backward(version.flow, node, cells, choices=True, cross=crossings)
    assert every.cells["image"].is_whole
    assert not crossings.ways
    assert version.back(spots, np.s_[0, 1], by="rerun").chosen_by


def test_plans_take_along_how_long_it_takes_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = Shifted()
    step = graph_of(operator)[2]
    samples = [Sample(Orientation.FORWARD, 0, Cells.at(VALUES.shape, [35]))]
    costs = Costs(
        {step: measured(operator, (VALUES,), samples, among=[FULL, PAY])},
        {step: 1.0},
        {step: [PAY]},
    )
    assert set(costs.writing_s[step]) == {Mode.FULL, Mode.PAY}
    path = tmp_path / "plan.json"
    write_plan(path, explain(costs, Limits()).planned())
    (planned,) = read_plan(path)
    assert planned.writing_s == costs.writing_s[step]
    monkeypatch.setenv("LINEAGE_ARRAYS_PLAN", str(path))
    again, source, step = graph_of(Shifted())
    version = again.run({"values": VALUES})
    (run,) = version.runs.values()
    assert run.times.writing_s == planned.writing_s
    found = version.forward(source, step, np.s_[35], by="auto")
    assert found.cells["step"].positions().tolist() == [5]
    document = json.loads(path.read_text())
    for wrong in ({"full": -1}, {"full": float("nan")}, {"full": "1"}, {"fast": 1.0}, [1]):
        document["steps"][0]["writing_s"] = wrong
        path.write_text(json.dumps(document))
        with pytest.raises(ArrayLineageError, match="no plan of strategies"):
            read_plan(path)
    del document["steps"][0]["writing_s"]
    path.write_text(json.dumps(document))
    assert read_plan(path)[0].writing_s == {}


def test_the_command_says_which_steps_run_again(tmp_path: Path) -> None:
    step = Step("step")
    alternatives = [
        Alternative(BOX, 0, 0.0, 0.5),
        Alternative(PAY, 100, 0.1, 2.0),
        Alternative(Strategy(Mode.PAY, Encoding.MANY), 100, 0.1, 0.25),
    ]
    path = tmp_path / "costs.json"
    write_costs(path, Costs({step: alternatives}, {step: 1.0}, {step: [PAY]}))
    shown = CliRunner().invoke(command_line, ["arrays", "plan", str(path), "--json"])
    assert shown.exit_code == 0, shown.output
    (plan,) = json.loads(shown.output)["steps"]
    assert plan["rerun_s"] == 0.5
    assert {one["strategy"]: one["reruns"] for one in plan["alternatives"]} == {
        "blackbox": False, "pay-one": True, "pay-many": False,
    }  # fmt: skip
    text = CliRunner().invoke(command_line, ["arrays", "plan", str(path)]).output
    assert "runs the operator again" in " ".join(text.split())
