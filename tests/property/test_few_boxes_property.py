"""Sets of cells that are kept as a few boxes, and what mappings, ranges and regions make of them, against cells one by one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_arrays.cells import Cells, Shape
from lineage_arrays.few_boxes import FEW, Box, apart
from lineage_arrays.mappings import AllFrom, Boxes, Span
from lineage_arrays.operators.encodings import Encoding, index_of
from lineage_arrays.operators.ranges import RangeTable
from lineage_arrays.operators.regions import Regions

pytestmark = pytest.mark.property

SHAPES = st.lists(st.integers(1, 5) | st.integers(6, 9), max_size=3).map(tuple)
SMALL = st.integers(-3, 3)


def box_of(data: st.DataObject, shape: Shape) -> Box:
    ends = [sorted(data.draw(st.tuples(*[st.integers(0, length - 1)] * 2))) for length in shape]
    return tuple((low, high) for low, high in ends)


def positions_of(shape: Shape, boxes: list[Box]) -> set[int]:
    return {
        position
        for position, cell in enumerate(product(*map(range, shape)))
        for box in boxes
        if all(low <= at <= high for at, (low, high) in zip(cell, box, strict=True))
    }


def some_cells(data: st.DataObject, shape: Shape) -> tuple[Cells, set[int]]:
    """Cells in any of their forms, and their positions."""
    boxes = [box_of(data, shape) for _ in range(data.draw(st.integers(0, FEW + 2)))]
    positions = positions_of(shape, boxes)
    listed = sorted(positions)
    mask = np.zeros(int(np.prod(shape)), np.bool_)
    mask[listed] = True
    forms: list[Callable[[], Cells]] = [
        lambda: Cells.in_boxes(shape, boxes),
        lambda: Cells.at(shape, listed),
        lambda: Cells.masked(mask.reshape(shape)),
        lambda: Cells.of_any(
            shape, [tuple(slice(low, high + 1) for low, high in box) for box in boxes]
        ),
        lambda: Cells.of_any(shape, [np.unravel_index(listed, shape) if shape else ...] if listed else []),
    ]  # fmt: skip
    return data.draw(st.sampled_from(forms))(), positions


@settings(max_examples=70, deadline=None)
@given(SHAPES, st.data())
def test_sets_are_those_of_their_positions(shape: Shape, data: st.DataObject) -> None:
    (one, mine), (other, theirs) = some_cells(data, shape), some_cells(data, shape)
    size = int(np.prod(shape))
    everything = np.arange(size)
    for cells, wanted in (
        (one, mine),
        (one | other, mine | theirs),
        (one.split(other)[0], mine & theirs),
        (one.split(other)[1], mine - theirs),
        (Cells.union(shape, [one, other, one]), mine | theirs),
    ):
        assert cells.has(everything).tolist() == [at in wanted for at in range(size)]
        assert (cells.count, bool(cells), cells.is_whole) == (len(wanted), bool(wanted), len(wanted) == size)  # fmt: skip
        assert cells == Cells.at(shape, sorted(wanted))
        assert cells.region().positions().tolist() == sorted(wanted)
        assert np.flatnonzero(cells.mask()).tolist() == sorted(wanted)
        assert cells.positions().tolist() == sorted(wanted)
        if cells.boxes is not None:
            assert apart(cells.boxes) == cells.boxes
            assert positions_of(shape, list(cells.boxes)) == wanted
    assert (one == other) == (mine == theirs)


def is_needed(mapping: Boxes, output: tuple[int, ...], cell: tuple[int, ...]) -> bool:
    for span, coordinate in zip(mapping.spans, cell, strict=True):
        at = 0 if span.axis is None else output[span.axis]
        if not (span.low + span.low_scale * at <= coordinate <= span.high + span.high_scale * at):
            return False
    return True


@settings(max_examples=120, deadline=None)
@given(SHAPES, SHAPES, st.data())
def test_boxes_of_cells_go_through_spans_as_their_cells_do(
    source: Shape, target: Shape, data: st.DataObject
) -> None:
    axes = st.none() | st.integers(0, len(target) - 1) if target else st.none()
    steps = st.builds(Span.point, axes, st.sampled_from([1, -1, 2]), st.integers(-2, 8))
    spans = st.builds(Span, SMALL, SMALL, axes, SMALL, SMALL) | steps
    mapping = Boxes(source, target, tuple(data.draw(spans) for _ in source))
    outputs, inputs = list(product(*map(range, target))), list(product(*map(range, source)))
    cells, positions = some_cells(data, target)
    needed = {
        at for at, cell in enumerate(inputs)
        if any(is_needed(mapping, outputs[output], cell) for output in positions)
    }  # fmt: skip
    assert set(mapping.backward(cells).positions().tolist()) == needed
    cells, positions = some_cells(data, source)
    made = {
        at for at, output in enumerate(outputs)
        if any(is_needed(mapping, output, inputs[cell]) for cell in positions)
    }  # fmt: skip
    assert set(mapping.forward(cells).positions().tolist()) == made


@settings(max_examples=45, deadline=None)
@given(SHAPES, SHAPES, st.data())
def test_ranges_and_regions_answer_boxes_as_their_cells(
    source: Shape, target: Shape, data: st.DataObject
) -> None:
    pairs = [
        (positions_of(target, [box_of(data, target)]), some_cells(data, source)[1])
        for _ in range(data.draw(st.integers(0, 5)))
    ]
    outputs, inputs = Regions(target), Regions(source)
    for out, into in pairs:
        outputs.append(Cells.at(target, sorted(out)))
        inputs.append(Cells.at(source, sorted(into)))
    table = RangeTable.of_regions(outputs, inputs)
    asked, given = some_cells(data, target)
    came = [set[int](), *(into for out, into in pairs if out & given)]
    assert table.backward(asked) == Cells.at(source, sorted(set.union(*came)))
    for encoding in (Encoding.ONE, Encoding.MANY):
        numbers = index_of(outputs, encoding).touching(asked)
        assert numbers.tolist() == [at for at, (out, _) in enumerate(pairs) if out & given]
        assert inputs.of(numbers) == Cells.at(source, sorted(set.union(*came)))
    asked, given = some_cells(data, source)
    went = [set[int](), *(out for out, into in pairs if into & given)]
    assert table.forward(asked) == Cells.at(target, sorted(set.union(*went)))
    numbers = index_of(inputs, Encoding.MANY).touching(asked)
    assert numbers.tolist() == [at for at, (_, into) in enumerate(pairs) if into & given]


@settings(max_examples=15, deadline=None)
@given(SHAPES, SHAPES, st.data())
def test_all_of_an_output_may_be_from_the_same_cells(
    source: Shape, target: Shape, data: st.DataObject
) -> None:
    same, positions = some_cells(data, source)
    mapping = AllFrom(source, target, same)
    asked, given = some_cells(data, target)
    assert set(mapping.backward(asked).positions().tolist()) == (positions if given else set())
    asked, given = some_cells(data, source)
    everything = set(range(int(np.prod(target))))
    assert set(mapping.forward(asked).positions().tolist()) == (everything if positions & given else set())  # fmt: skip
