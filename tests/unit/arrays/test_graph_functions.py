"""Functions of plain NumPy code as steps of a graph, and mappings that operators give for whole sets of cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lineage_arrays import ArrayLineageError, Cells, ModeError, Recording, sharing
from lineage_arrays.mappings import AllToAll, Mapping, SamePositions
from lineage_arrays.operators import Mode, OperatorGraph, Shapes, Strategy, Version, encodings
from lineage_arrays.operators.encodings import Encoding, PayloadStore
from tests.support.cell_operators import BrightSpots

pytestmark = pytest.mark.unit

IMAGE = np.random.default_rng(6).random((5, 6)) + np.pad([[3.0]], ((2, 2), (0, 5)))


def smooth(image: Any) -> Any:
    return (image[:, 1:] + image[:, :-1]) / 2


def test_a_function_is_traced_as_a_recording_is() -> None:
    graph = OperatorGraph()
    image = graph.source("image")
    spots = graph.add(BrightSpots(), graph.apply(smooth, image))
    result = graph.apply(np.transpose, spots, name="result")
    version = graph.run({"image": IMAGE})
    recording = Recording()
    smoothed = smooth(recording.source("image", IMAGE))
    np.testing.assert_array_equal(
        version.array(spots), (smoothed.current > smoothed.current.mean() + 1)
    )
    for cell in np.ndindex(*version.array(result).shape):
        between = version.back(spots, cell[::-1]).cells["image"]
        assert version.back(result, cell).cells["image"] == between
        radius = [slice(max(at - 1, 0), at + 2) for at in cell[::-1]]
        where = tuple(radius) if version.array(spots)[cell[::-1]] else cell[::-1]
        assert between == recording.back(smoothed, where).cells["image"]
    forth = version.forward(image, result, np.s_[0, 3]).cells
    assert forth["result"].coordinates().tolist() == [[2, 0], [3, 0]]


def test_what_a_function_chooses_and_where_values_leave_shows() -> None:
    graph = OperatorGraph()
    image = graph.source("image")
    brightest = graph.apply(np.max, image)
    scaled = graph.apply(lambda values: values + float(values.sum()), image)
    version = graph.run({"image": IMAGE})
    assert version.back(brightest).chosen_by
    assert not version.back(scaled, np.s_[0, 0]).complete


def test_a_function_may_write_to_its_operand_and_the_step_before_stays() -> None:
    def without_first(values: Any) -> Any:
        values[0] = 0
        return values

    graph = OperatorGraph()
    image = graph.source("image")
    changed = graph.apply(without_first, image)
    again = graph.apply(without_first, changed)
    version = graph.run({"image": IMAGE})
    np.testing.assert_array_equal(version.array(image), IMAGE)
    assert version.array(again)[0].tolist() == [0] * 6
    assert not version.back(changed, np.s_[0]).cells["image"]
    assert version.back(again, np.s_[1, 1]).cells["image"].coordinates().tolist() == [[1, 1]]


def test_functions_of_one_step_do_not_see_what_another_one_writes() -> None:
    def without_first(values: Any) -> Any:
        values[0] = 7
        return values

    graph = OperatorGraph()
    image = graph.source("image")
    changed = graph.apply(without_first, image)
    doubled = graph.apply(lambda values: values * 2, image)
    again = graph.apply(without_first, image, name="again")
    version = graph.run({"image": IMAGE})
    np.testing.assert_array_equal(version.array(doubled), IMAGE * 2)
    np.testing.assert_array_equal(version.array(again), version.array(changed))
    assert version.back(doubled, np.s_[0, 1]).cells["image"].coordinates().tolist() == [[0, 1]]
    assert not version.back(again, np.s_[0]).cells["image"]


LAID_OUT: list[Callable[[Any], Any]] = [
    lambda values: values,
    lambda values: values.T,
    lambda values: values[:, ::-1],
    lambda values: values[1:3, ::2],
    lambda values: values.T[::-1],
    lambda values: values.reshape(-1)[3:],
    lambda values: values[1, 2:3].reshape(()),
]


@pytest.mark.parametrize("laid_out", LAID_OUT)
def test_arrays_are_lent_without_a_copy_to_those_who_can_not_write_to_them(laid_out: Any) -> None:
    value = laid_out(IMAGE.copy())
    lent = sharing.lent(value)
    np.testing.assert_array_equal(lent, value)
    assert (type(lent), lent.strides) == (np.ndarray, value.strides)
    assert np.shares_memory(lent, value)
    assert sharing.owner(lent) is not sharing.owner(value)
    with pytest.raises(ValueError, match="WRITEABLE"):
        lent.flags.writeable = True


@pytest.mark.parametrize("dtype", ["U3", "M8[s]", "f4,i2"])
def test_other_arrays_are_lent_as_copies(dtype: str) -> None:
    value = np.zeros((2, 3), dtype)
    lent = sharing.lent(value)
    np.testing.assert_array_equal(lent, value)
    assert not np.shares_memory(lent, value)


@pytest.mark.parametrize("laid_out", LAID_OUT[:-1])
def test_functions_write_to_views_that_others_see_and_the_steps_before_stay(laid_out: Any) -> None:
    def changed(values: Any) -> Any:
        part = values[1:]
        values[...] = values + 1
        return np.concatenate((part.reshape(-1), values.reshape(-1)))

    graph = OperatorGraph()
    viewed = graph.apply(laid_out, graph.source("image"))
    first, second = graph.apply(changed, viewed), graph.apply(changed, viewed, name="second")
    version = graph.run({"image": IMAGE})
    plain = laid_out(IMAGE) + 1
    np.testing.assert_array_equal(version.array(viewed), laid_out(IMAGE))
    for step in (first, second):
        wanted = np.concatenate((plain[1:].reshape(-1), plain.reshape(-1)))
        np.testing.assert_array_equal(version.array(step), wanted)
        assert version.back(step, np.s_[0]).cells["image"] == version.back(viewed, Cells.at(plain.shape, [plain[0].size])).cells["image"]  # fmt: skip


@pytest.mark.parametrize("function", [np.asarray, lambda values: 3.0, lambda values: None])
def test_a_function_that_loses_lineage_is_refused(function: Any) -> None:
    graph = OperatorGraph()
    graph.apply(function, graph.source("image"), name="lost")
    with pytest.raises(ArrayLineageError, match="lost returns"):
        graph.run({"image": IMAGE})


def test_an_array_of_another_run_is_refused() -> None:
    kept: list[Any] = []

    def keep(values: Any) -> Any:
        kept.append(values)
        return kept[0] * 1

    graph = OperatorGraph()
    graph.apply(keep, graph.source("image"), name="kept")
    graph.run({"image": IMAGE})
    with pytest.raises(ArrayLineageError, match="workflow"):
        graph.run({"image": IMAGE})


def test_a_step_of_a_function_has_no_strategies() -> None:
    graph = OperatorGraph()
    step = graph.apply(np.sqrt, graph.source("image"))
    with pytest.raises(ModeError, match="no strategies"):
        graph.run({"image": IMAGE}, {step: [Strategy(Mode.MAP)]})


def test_an_input_of_another_graph_is_refused() -> None:
    with pytest.raises(ArrayLineageError, match="another graph"):
        OperatorGraph().apply(np.sqrt, OperatorGraph().source("image"))


class Spots(BrightSpots):
    """With a mapping of whole sets of cells."""

    asked = 0

    def mapping(self, operand: int, shapes: Shapes) -> Mapping:
        return SamePositions(shapes.inputs[operand], shapes.output)

    def map_b(self, cell: Any, operand: int, shapes: Shapes) -> Any:
        Spots.asked += 1
        return cell

    map_f = map_b


@pytest.mark.parametrize("encoding", [Encoding.ONE, Encoding.MANY])
def test_a_mapping_stands_in_for_calls_of_each_cell(encoding: Encoding) -> None:
    versions = []
    for operator in (BrightSpots(), Spots()):
        graph = OperatorGraph()
        image = graph.source("image")
        step = graph.add(operator, image, name="spots")
        version = graph.run({"image": IMAGE}, {step: [Strategy(Mode.COMP, encoding)]})
        versions.append((version, image, step))
    assert versions[0][0].stored_bytes == versions[1][0].stored_bytes > 0
    random = np.random.default_rng(7)
    for size in (1, 3, 12, 30):
        cells = Cells.at(IMAGE.shape, random.choice(IMAGE.size, size, replace=False))
        by_cell, at_once = (
            (version.back(step, cells).cells, version.forward(image, step, cells).cells)
            for version, image, step in versions
        )
        assert by_cell == at_once
    assert Spots.asked == 0


def test_a_mapping_of_other_arrays_is_refused() -> None:
    class Wrong(Spots):
        def mapping(self, operand: int, shapes: Shapes) -> Mapping:
            return AllToAll((3,), shapes.output)

    graph = OperatorGraph()
    image = graph.source("image")
    step = graph.add(Wrong(), image)
    version: Version = graph.run({"image": IMAGE}, {step: [Strategy(Mode.COMP)]})
    with pytest.raises(ModeError, match="the arrays are"):
        version.back(step, np.s_[0, 0])


def test_payloads_written_after_a_question_are_in_the_next_answer() -> None:
    store = PayloadStore((4,), (4,), Encoding.ONE, lambda at, payload: Cells.at((4,), payload))
    store.append(Cells.at((4,), [1]), b"\x02")
    assert store.written.positions().tolist() == [1]
    store.append(Cells.at((4,), [3]), b"\x00\x02")
    assert store.written.positions().tolist() == [1, 3]
    assert store.forward(Cells.at((4,), [2])).positions().tolist() == [1, 3]
    assert store.backward(Cells.whole((4,))).positions().tolist() == [0, 2]


def test_sets_of_cells_agree_with_sets_of_numbers() -> None:
    random = np.random.default_rng(8)
    for shape in ((1,), (7,), (20, 10), (100, 100)):
        size = int(np.prod(shape))
        sets = [set(random.integers(0, size, count).tolist()) for count in (0, 1, 5, size // 2, 5 * size)]  # fmt: skip
        cells = [Cells.at(shape, list(one)) for one in sets]
        for one, ours in zip(sets, cells, strict=True):
            for other, others in zip(sets, cells, strict=True):
                inside, outside = ours.split(others)
                assert set(inside.positions().tolist()) == one & other
                assert set(outside.positions().tolist()) == one - other
        assert set(Cells.union(shape, iter(cells)).positions().tolist()) == set().union(*sets)
        assert Cells.union(shape, ()) == Cells.empty(shape)
    singles = (Cells.at((2, 40_000), [at]) for at in range(80_000))
    assert Cells.union((2, 40_000), singles).is_whole


@pytest.mark.parametrize("where", [(1, -1), (-2, 0), (0, 0)])
def test_a_cell_by_its_numbers(where: tuple[int, int]) -> None:
    mask = np.zeros((2, 3), np.bool_)
    mask[where] = True
    assert Cells.of((2, 3), where) == Cells.masked(mask)
    assert Cells.of((1, 1), (0, 0)).is_whole
    with pytest.raises(IndexError):
        Cells.of((2, 3), (2, 0))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64, np.int64])
def test_cells_by_their_coordinates(dtype: Any) -> None:
    random = np.random.default_rng(9)
    shape = (3, 5, 2)
    for count in (0, 1, 4, 60):
        least = 0 if np.dtype(dtype).kind == "u" else -1
        where = tuple(
            random.integers(length * least, length, count).astype(dtype) for length in shape
        )
        mask = np.zeros(shape, np.bool_)
        mask[where] = True
        assert Cells.of(shape, where) == Cells.masked(mask)
    assert not Cells.of(shape, [])
    for wrong in ((3, 0, 0), (0, 0, 100)):
        with pytest.raises(IndexError):
            Cells.of(shape, tuple(np.array([at], dtype) for at in wrong))


def test_a_forward_query_of_payloads_calls_their_function_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []

    def cells_of(at: int, payload: bytes) -> Cells:
        calls.append(at)
        return Cells.at((4,), payload)

    store = PayloadStore((4,), (4,), Encoding.MANY, cells_of)
    store.append(Cells.at((4,), [0, 1]), bytes([2, 3]))
    for some, wanted in (([2], [0, 1]), ([3, 0], [0, 1]), ([1], [])):
        assert store.forward(Cells.at((4,), some)).positions().tolist() == wanted
    assert calls == [0, 1]
    store.append(Cells.at((4,), [3]), bytes([1]))
    assert store.forward(Cells.at((4,), [1])).positions().tolist() == [3]
    monkeypatch.setattr(encodings, "READ_MAX", 3)
    store.append(Cells.at((4,), [2]), bytes([1]))
    for _ in range(2):
        calls.clear()
        assert store.forward(Cells.at((4,), [1])).positions().tolist() == [2, 3]
        assert calls[-4:] == [0, 1, 3, 2]
