"""Operators that say what their lineage is: all modes and encodings tell the same."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from lineage_arrays import ArrayLineageError, CellError, Cells, ModeError, Recording
from lineage_arrays.operators import (
    Encoding,
    Mode,
    Operator,
    OperatorGraph,
    Orientation,
    Shapes,
    Strategy,
    Version,
)
from tests.support.cell_operators import BrightSpots, Mended, MendedAtOnce, Opaque, RowTotals

pytestmark = pytest.mark.unit

IMAGE = np.random.default_rng(5).random((5, 6)) + np.pad([[3.0]], ((2, 2), (0, 5)))
FULL = tuple(
    Strategy(Mode.FULL, encoding, orientation)
    for encoding, orientation in itertools.product(Encoding, Orientation)
)
PAYLOADS = tuple(
    Strategy(mode, one) for mode in (Mode.PAY, Mode.COMP) for one in (Encoding.ONE, Encoding.MANY)
)
SPOTS: tuple[tuple[Strategy, ...], ...] = (
    *((one,) for one in FULL), *((one,) for one in PAYLOADS), (Strategy(Mode.BLACKBOX),), FULL, (*FULL, PAYLOADS[0]), (),
)  # fmt: skip


def answers(version: Version, source: Any, step: Any) -> tuple[Any, Any]:
    """Backward of each output cell, forward of each input cell."""
    outputs, inputs = version.array(step), version.array(source)
    back = [
        version.back(step, Cells.at(outputs.shape, [at])).cells[source.name].positions().tolist()
        for at in range(outputs.size)
    ]
    forth = [
        next(iter(version.forward(source, step, Cells.at(inputs.shape, [at])).cells.values()))
        .positions()
        .tolist()
        for at in range(inputs.size)
    ]
    return back, forth


def by_definition(image: Any) -> list[list[int]]:
    """What bright spots are made of, cell by cell."""
    spots, positions = image > image.mean() + 1, np.arange(image.size).reshape(image.shape)
    return [
        positions[max(r - 1, 0) : r + 2, max(c - 1, 0) : c + 2].ravel().tolist()
        if spots[r, c]
        else [int(positions[r, c])]
        for r, c in np.ndindex(*image.shape)
    ]


@pytest.mark.parametrize("strategies", SPOTS)
def test_all_strategies_give_the_definition(strategies: tuple[Strategy, ...]) -> None:
    graph = OperatorGraph()
    image = graph.source("image")
    spots = graph.add(BrightSpots(), image)
    version = graph.run({"image": IMAGE}, {spots: strategies})
    assert version.array(spots).sum() == 1
    back, forth = answers(version, image, spots)
    wanted = by_definition(IMAGE)
    assert back == wanted
    assert forth == [
        [out for out, came in enumerate(wanted) if at in came] for at in range(IMAGE.size)
    ]
    some = Cells.at(IMAGE.shape, [0, 12, 13, 29])
    assert version.back(spots, some).cells["image"].positions().tolist() == sorted(
        set().union(*(wanted[at] for at in (0, 12, 13, 29)))
    )
    whole = version.back(spots)
    assert whole.cells["image"].is_whole
    assert whole.exact


@pytest.mark.parametrize("strategies", [*((one,) for one in PAYLOADS[2:]), ()])
def test_what_is_written_stands_in_the_place_of_the_function(
    strategies: tuple[Strategy, ...],
) -> None:
    graph = OperatorGraph()
    values = graph.source("values")
    mended = graph.add(Mended(), values)
    version = graph.run({"values": [9.0, 1.0, 5.0, 0.0]}, {mended: strategies})
    assert version.array(mended).tolist() == [0.0, 1.0, 1.0, 0.0]
    assert answers(version, values, mended) == ([[3], [1], [1], [3]], [[], [1, 2], [], [0, 3]])


@pytest.mark.parametrize("strategies", [*((one,) for one in FULL), (Strategy(Mode.MAP),), ()])
def test_regions_of_two_operands(strategies: tuple[Strategy, ...]) -> None:
    graph = OperatorGraph()
    table, unit = graph.source("table"), graph.source("unit")
    totals = graph.add(RowTotals(), table, unit, name="totals")
    version = graph.run({"table": IMAGE, "unit": 2.0}, {totals: strategies})
    trace = version.back(totals, np.s_[3])
    assert trace.cells["table"].coordinates().tolist() == [[3, column] for column in range(6)]
    assert trace.cells["unit"].count == 1
    assert version.forward(unit, totals).cells["totals"].is_whole
    assert version.forward(table, totals, np.s_[1, 2]).cells["totals"].positions().tolist() == [1]


class Turned(Operator):
    """Rows from their ends, in each mode; ``calls`` counts what it is asked."""

    name = "turned"

    def __init__(self, entire_array: bool) -> None:
        super().__init__()
        self.entire_array, self.calls, self.runs = entire_array, 0, 0

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset(Mode)

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        (image,) = inputs
        self.runs += 1
        for cell in np.ndindex(*image.shape):
            if Mode.FULL in modes:
                self.lwrite(cell, self._other(cell, image.shape))
            if Mode.PAY in modes:
                self.lwrite(cell, b"")
        return image[:, ::-1].copy()

    def _other(self, cell: Any, shape: Any) -> Any:
        self.calls += 1
        return (cell[0], shape[1] - 1 - cell[1])

    def map_b(self, cell: Any, operand: int, shapes: Any) -> Any:
        return self._other(cell, shapes.output)

    map_f = map_b

    def map_p(self, cell: Any, payload: bytes, operand: int, shapes: Any) -> Any:
        return self._other(cell, shapes.output)


@pytest.mark.parametrize("mode", [Mode.MAP, Mode.PAY, Mode.FULL, Mode.COMP, Mode.BLACKBOX])
def test_whole_arrays_go_through_an_operator_that_takes_them_as_a_whole(mode: Mode) -> None:
    asked: dict[bool, tuple[Any, ...]] = {}
    for entire in (True, False):
        graph, operator = OperatorGraph(), Turned(entire)
        image = graph.source("image")
        turned = graph.add(operator, image)
        totals = graph.add(RowTotals(), turned, graph.source("unit"))
        version = graph.run({"image": IMAGE, "unit": 1.0}, {turned: [Strategy(mode)]})
        calls, runs = operator.calls, operator.runs
        whole = version.back(totals), version.forward(image, totals)
        if entire:
            assert (operator.calls, operator.runs) == (calls, runs)
        # Of a part the operator is asked, whatever it says of the whole.
        part = version.back(turned, np.s_[1, :2]), version.forward(image, turned, np.s_[1, :2])
        asked[entire] = tuple(
            (trace.cells, trace.exact, trace.complete) for trace in (*whole, *part)
        )
        assert part[0].cells["image"].coordinates().tolist() == [[1, 4], [1, 5]]
        assert whole[0].cells["image"].is_whole
    assert asked[True] == asked[False]


def test_a_recording_runs_an_operator_that_takes_arrays_as_a_whole() -> None:
    recording, operator = Recording(), Turned(entire_array=True)
    turned = recording.run(operator, recording.source("image", IMAGE))
    assert recording.back(turned).cells["image"].is_whole
    assert recording.forward("image", turned).cells["turned"].is_whole
    assert operator.calls == 0
    assert recording.back(turned, np.s_[0, 0]).cells["image"].positions().tolist() == [5]


def test_an_operator_that_chooses_takes_no_array_as_a_whole() -> None:
    operator = Turned(entire_array=True)
    operator.chooses = True
    graph = OperatorGraph()
    graph.add(operator, graph.source("image"))
    with pytest.raises(ModeError, match="it has no entire_array"):
        graph.run({"image": IMAGE})


def test_traces_go_through_several_operators() -> None:
    graph = OperatorGraph()
    image, unit = graph.source("image"), graph.source("unit")
    spots = graph.add(BrightSpots(), image)
    totals = graph.add(RowTotals(), spots, unit)
    version = graph.run({"image": IMAGE, "unit": 1.0})
    trace = version.back(totals, np.s_[0])
    assert trace.cells["image"].coordinates().tolist() == [[0, column] for column in range(6)]
    wide = version.back(totals, np.s_[2]).cells["image"]
    assert wide.count == 6 + 4
    into = version.forward(image, totals, np.s_[1, 0])
    assert [cells.positions().tolist() for cells in into.cells.values()] == [[1, 2]]


def test_a_run_of_a_black_box_writes_nothing_and_is_run_again_once() -> None:
    operator = BrightSpots()
    graph = OperatorGraph()
    image = graph.source("image")
    spots = graph.add(operator, image)
    version = graph.run({"image": IMAGE})
    assert operator.runs == 1
    for _ in range(2):
        version.back(spots, np.s_[2, 0])
    version.forward(image, spots, np.s_[2, 0])
    assert operator.runs == 2


def test_an_operator_that_gives_another_output_is_refused() -> None:
    class Counting(BrightSpots):
        def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
            return super().run(*inputs, modes=modes) + self.runs

    graph = OperatorGraph()
    spots = graph.add(Counting(), graph.source("image"))
    version = graph.run({"image": IMAGE})
    with pytest.raises(ModeError, match="another output"):
        version.back(spots, np.s_[0, 0])
    kept = graph.run({"image": IMAGE}, {spots: FULL[:1]})
    assert kept.back(spots, np.s_[0, 0]).cells["image"].count == 1


def test_of_an_opaque_operator_everything_is_a_superset() -> None:
    graph = OperatorGraph()
    opaque = graph.add(Opaque(), graph.source("image"))
    version = graph.run({"image": IMAGE})
    trace = version.back(opaque, np.s_[0, 0])
    assert trace.cells["image"].is_whole
    assert not trace.exact
    assert "supports no mode" in trace.superset_reasons[0]


def test_runs_are_versions_and_arrays_are_kept() -> None:
    class Greedy(Opaque):
        def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
            inputs[0][0] = 1
            return inputs[0]

    given = IMAGE.copy()
    graph = OperatorGraph()
    image = graph.source("image")
    more = graph.add(Opaque(), image)
    first = graph.run({"image": given})
    given[:] = 7
    second = graph.run({"image": given})
    assert np.array_equal(first.array(image), IMAGE)
    assert np.array_equal(first.array(more), IMAGE + 1)
    assert second.array(more)[0, 0] == 8
    with pytest.raises(ValueError, match="read-only"):
        first.array(more)[0] = 0
    graph.add(Greedy(), image)
    with pytest.raises(ValueError, match="read-only"):
        graph.run({"image": given})


class Writing(Operator):
    """Writes what a test says."""

    def __init__(self, *of: Any) -> None:
        super().__init__()
        self.of = of

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset(Mode)

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        self.lwrite(*self.of)
        return inputs[0]


@pytest.mark.parametrize(
    ("of", "strategies", "error"),
    [
        (((0, 0), (0, 0)), (Strategy(Mode.MAP),), ModeError),
        (((0, 0), b"payload"), (FULL[0],), ModeError),
        (((0, 0), (0, 0)), (PAYLOADS[0],), ModeError),
        (((0, 0), (0, 0), (0, 0)), (FULL[0],), ModeError),
        (((9, 0), (0, 0)), (FULL[0],), CellError),
        (((0, 0), (0, -7)), (FULL[0],), CellError),
        (((0, 0), (0, 0)), (FULL[0], PAYLOADS[0], PAYLOADS[2]), ModeError),
        (((0, 0), (0, 0)), (Strategy(Mode.PAY, orientation=Orientation.FORWARD),), ModeError),
        (((0, 0), b""), (Strategy(Mode.COMP, Encoding.RANGES),), ModeError),
    ],
)  # fmt: skip
def test_what_can_not_be_is_refused(of: Any, strategies: Any, error: type[Exception]) -> None:
    graph = OperatorGraph()
    step = graph.add(Writing(*of), graph.source("image"))
    with pytest.raises(error):
        graph.run({"image": IMAGE}, {step: strategies})


def test_graphs_refuse_what_does_not_hang_together() -> None:
    graph, other = OperatorGraph(), OperatorGraph()
    image = graph.source("image")
    with pytest.raises(ArrayLineageError, match="taken"):
        graph.source("image")
    with pytest.raises(ArrayLineageError, match="another graph"):
        other.add(Opaque(), image)
    with pytest.raises(ArrayLineageError, match="no array for image"):
        graph.run({})
    step = graph.add(BrightSpots(), image)
    with pytest.raises(ModeError, match="does not support map"):
        graph.run({"image": IMAGE}, {step: (Strategy(Mode.MAP),)})
    with pytest.raises(ModeError, match="outside of run"):
        BrightSpots().lwrite((0, 0), (0, 0))


def test_paths_that_hang_together_nowhere_are_refused() -> None:
    graph, other = OperatorGraph(), OperatorGraph()
    image, unit = graph.source("image"), graph.source("unit")
    spots = graph.add(BrightSpots(), image, name="spots")
    totals = graph.add(RowTotals(), spots, unit, name="totals")
    foreign = other.source("foreign")
    version = graph.run({"image": IMAGE, "unit": 1.0})
    good = version.along([(totals, 0), (spots, 0)], np.s_[0])
    assert list(good.cells) == ["image"]
    assert good.values["image"].tolist() == IMAGE.tolist()
    for path, words in (
        ([], "one step or more"),
        ([(totals, 2)], "totals has 2 operands"),
        ([(totals, -1)], "totals has 2 operands"),
        ([(image, 0)], "image has 0 operands"),
        ([(totals, 1), (spots, 0)], "spots does not follow totals on a path: the operand is unit"),
        ([(foreign, 0)], "foreign: a step of another graph"),
    ):
        with pytest.raises(ArrayLineageError, match=words):
            version.along(path)
    with pytest.raises(ArrayLineageError, match="totals does not follow spots"):
        version.along([(spots, 0), (totals, 1)], forward=True)
    with pytest.raises(CellError):
        version.along([(totals, 0)], np.s_[99])
    for ask in (lambda: version.back(foreign), lambda: version.back(totals, until=[foreign]), lambda: version.forward(foreign, totals)):  # fmt: skip
        with pytest.raises(ArrayLineageError, match="foreign: a step of another graph"):
            ask()


def _taken_out(left: Any, right: Any) -> Any:
    return right * float(left[0])


def test_paths_through_functions_say_what_left_within_and_what_sources_may_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = OperatorGraph()
    one, other = graph.source("one"), graph.source("other")
    made = graph.apply(_taken_out, one, other, name="made")
    arrays = {"one": [1.0, 2.0], "other": [3.0, 4.0]}
    version = graph.run(arrays)
    for operand, count in ((0, 0), (1, 1)):
        back = version.along([(made, operand)], np.s_[0])
        ahead = version.along([(made, operand)], np.s_[0], forward=True)
        assert [sum(cells.count for cells in trace.cells.values()) for trace in (back, ahead)] == [count] * 2  # fmt: skip
        for trace in (back, ahead):
            assert "values left by float" in trace.incomplete_reasons[0]
    doubled = OperatorGraph()
    source = doubled.source("source")
    twice = doubled.apply(np.negative, source, name="twice")
    monkeypatch.setattr(type(version.flow), "rows_before", "DataFrame.collect at job.py:1")
    held = doubled.run({"source": [1.0]})
    whole, path = held.back(twice), held.along([(twice, 0)])
    assert "gave rows: they may be in it" in path.incomplete_reasons[0]
    assert path.incomplete_reasons == whole.incomplete_reasons
    assert held.along([(twice, 0)], forward=True).incomplete_reasons == path.incomplete_reasons


def test_what_is_said_of_a_trace_is_said_of_its_path() -> None:
    """A choice within a function, an operator without lineage, and by which way of several a trace goes."""
    graph = OperatorGraph()
    values = graph.source("values")
    largest = graph.apply(lambda array: array.max(keepdims=True), values, name="largest")
    opaque = graph.add(Opaque(), values, name="opaque")
    both = graph.apply(np.subtract, opaque, largest, name="both")
    version = graph.run({"values": [1.0, 5.0, 3.0]})
    whole = version.back(both, np.s_[0])
    assert not whole.exact
    assert whole.cells["values"].is_whole
    by_largest = [(both, 1), (largest, 0)]
    chosen = version.along(by_largest, np.s_[0])
    assert chosen.cells["values"].positions().tolist() == [1]
    assert chosen.exact
    assert "max" in chosen.chosen_by[0]
    assert version.along(by_largest, np.s_[0], choices=True).cells["values"].is_whole
    assert version.along([(both, 0), (opaque, 0)], np.s_[0]).superset_reasons
    ahead = [(largest, 0), (both, 1)]
    assert version.along(ahead, np.s_[0], forward=True).cells["both"].count == 0
    assert version.along(ahead, np.s_[0], forward=True, choices=True).cells["both"].is_whole
    assert version.back(largest).cells["values"].count == 1
    assert version.back(largest, choices=True).cells["values"].is_whole
    assert version.forward(values, largest, np.s_[0], choices=True).cells["largest"].count == 1
    ended = version.back(both, np.s_[0], until=[largest, opaque])
    assert sorted(ended.cells) == ["largest", "opaque"]
    assert ended.exact


@pytest.mark.parametrize("encoding", [Encoding.ONE, Encoding.MANY])
def test_payloads_are_opened_at_once_as_one_by_one(encoding: Encoding) -> None:
    values = np.array([0.0, 1.0, 5.0, 0.5, 7.0, 0.1, 0.2, 9.0])
    of_each = []
    for operator in (Mended(), MendedAtOnce()):
        graph = OperatorGraph()
        source = graph.source("values")
        step = graph.add(operator, source, name="mended")
        version = graph.run({"values": values}, {step: [Strategy(Mode.COMP, encoding)]})
        whole = version.back(step).cells["values"].positions().tolist()
        of_each.append((answers(version, source, step), whole))
    assert of_each[0] == of_each[1]
    assert of_each[0][1] == [0, 1, 3, 5, 6]


def test_a_mapping_of_payloads_of_other_arrays_is_refused() -> None:
    class Wrong(MendedAtOnce):
        def mapping_p(self, payload: bytes, operand: int, shapes: Any) -> Any:
            return super().mapping(operand, Shapes(((3,),), (3,)))

    graph = OperatorGraph()
    step = graph.add(Wrong(), graph.source("values"), name="mended")
    version = graph.run({"values": [0.0, 5.0, 1.0, 1.0]}, {step: [Strategy(Mode.COMP)]})
    with pytest.raises(ModeError, match="a mapping of"):
        version.back(step, np.s_[1])


class OfEachCell(Operator):
    """Writes with one array for all cells, whose coordinates it changes."""

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.FULL})

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        cell, mask = np.zeros((1, 1), np.int64), np.zeros(4, np.bool_)
        for at in range(4):
            cell[0] = at
            mask[:] = False
            mask[at] = True
            self.lwrite(cell, mask)
        return inputs[0] * 2


@pytest.mark.parametrize("strategy", FULL)
def test_an_operator_may_use_its_arrays_again(strategy: Strategy) -> None:
    recording = Recording()
    row = recording.source("row", np.arange(4.0))
    made = recording.run(OfEachCell(), row, strategies=[strategy])
    for at in range(4):
        assert recording.back(made, at).cells["row"].positions().tolist() == [at]
