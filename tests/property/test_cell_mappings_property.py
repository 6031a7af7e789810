"""Mappings of cells against their definition cell by cell, and compositions against what changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_arrays import CellError, Cells, Recording
from lineage_arrays.boxes import union_of_boxes
from lineage_arrays.mappings import Boxes, Chain, Gather, Inverse, Mapping, Span
from lineage_arrays.operators.ranges import RangeTable
from tests.support.cell_oracle import dependences

pytestmark = pytest.mark.property

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
scales = st.integers(-2, 2)


@st.composite
def boxes(draw: st.DrawFn, source: tuple[int, ...] | None = None) -> Boxes:
    source = draw(shapes) if source is None else source
    target = draw(shapes)
    spans = []
    for _ in source:
        axis = draw(st.none() | st.integers(0, len(target) - 1)) if target else None
        low, high = draw(st.integers(-3, 5)), draw(st.integers(-3, 5))
        moving = (0, 0) if axis is None else (draw(scales), draw(scales))
        spans.append(Span(low, high, axis, *moving))
    return Boxes(source, target, tuple(spans))


@st.composite
def gathers(draw: st.DrawFn, source: tuple[int, ...] | None = None) -> Gather:
    source = draw(shapes) if source is None else source
    target = draw(shapes)
    size = math.prod(source)
    count = math.prod(target)
    index = draw(st.lists(st.integers(0, size), min_size=count, max_size=count))
    return Gather(source, target, lambda: np.array(index, np.int64).reshape(target))


@st.composite
def mappings(draw: st.DrawFn) -> Mapping:
    first: Mapping = draw(st.one_of(boxes(), gathers()))
    if draw(st.booleans()):
        first = Chain(first, draw(st.one_of(boxes(first.target), gathers(first.target))))
    return Inverse(first) if draw(st.booleans()) else first


def cell_by_cell(mapping: Mapping) -> set[tuple[int, int]]:
    """The slow reading of a mapping: pairs of an input's and an output's position."""
    if isinstance(mapping, Inverse):
        return {(b, a) for a, b in cell_by_cell(mapping.of)}
    if isinstance(mapping, Chain):
        second = cell_by_cell(mapping.second)
        return {(a, d) for a, b in cell_by_cell(mapping.first) for c, d in second if b == c}
    if isinstance(mapping, Gather):
        return {(int(one) - 1, at) for at, one in enumerate(mapping.index.tolist()) if one}
    assert isinstance(mapping, Boxes)
    pairs = set()
    for output in itertools.product(*map(range, mapping.target)):
        axes = []
        for span, length in zip(mapping.spans, mapping.source, strict=True):
            o = 0 if span.axis is None else output[span.axis]
            low, high = span.low_scale * o + span.low, span.high_scale * o + span.high
            axes.append([i for i in range(length) if low <= i <= high])
        for inputs in itertools.product(*axes):
            pairs.add((position(inputs, mapping.source), position(output, mapping.target)))
    return pairs


def position(coordinates: tuple[int, ...], shape: tuple[int, ...]) -> int:
    at = 0
    for one, length in zip(coordinates, shape, strict=True):
        at = at * length + one
    return at


@given(mappings(), st.data())
def test_a_mapping_is_its_definition_both_ways(mapping: Mapping, data: st.DataObject) -> None:
    pairs = cell_by_cell(mapping)
    outputs, inputs = math.prod(mapping.target), math.prod(mapping.source)
    some = data.draw(st.sets(st.integers(0, outputs - 1))) if outputs else set()
    back = mapping.backward(Cells.at(mapping.target, some))
    assert back.shape == mapping.source
    assert set(back.positions().tolist()) == {a for a, b in pairs if b in some}
    some = data.draw(st.sets(st.integers(0, inputs - 1))) if inputs else set()
    forth = mapping.forward(Cells.at(mapping.source, some))
    assert forth.shape == mapping.target
    assert set(forth.positions().tolist()) == {b for a, b in pairs if a in some}
    for shape, of_whole, side in (
        (mapping.target, mapping.backward, 0),
        (mapping.source, mapping.forward, 1),
    ):
        assert set(of_whole(Cells.whole(shape)).positions().tolist()) == {p[side] for p in pairs}


@given(st.lists(st.tuples(*[st.integers(0, 299)] * 4), max_size=40))
def test_a_union_of_large_boxes_is_counted_as_it_is_written_out(ends: list[Any]) -> None:
    shape = (300, 300)
    wanted = np.zeros(shape, np.bool_)
    for a, b, c, d in ends:
        wanted[a : b + 1, c : d + 1] = True
    corners = np.array(ends, np.int64).reshape(-1, 4)
    assert np.array_equal(union_of_boxes(shape, corners[:, ::2], corners[:, 1::2]).mask(), wanted)


@given(shapes, st.data())
def test_cells_are_sets(shape: tuple[int, ...], data: st.DataObject) -> None:
    size = math.prod(shape)
    one, two = (data.draw(st.sets(st.integers(0, size - 1))) if size else set() for _ in range(2))
    left, right = Cells.at(shape, one), Cells.at(shape, two)
    assert set((left | right).positions().tolist()) == one | two
    assert (left == right) == (one == two)
    assert left.is_whole == (len(one) == size > 0)
    assert Cells.masked(left.mask()) == left == Cells.of_region(shape, left.region())
    assert bool(left) == bool(one)
    back = [position(tuple(at), shape) for at in left.coordinates().tolist()]
    assert back == sorted(one)


@given(mappings(), st.data())
def test_ranges_are_the_pairs_they_were_made_of(mapping: Mapping, data: st.DataObject) -> None:
    pairs = cell_by_cell(mapping)
    ends = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    table = RangeTable.of_pairs(mapping.source, mapping.target, ends[::-1, 1], ends[::-1, 0])
    assert len(table.rows) <= len(pairs)
    outputs, inputs = math.prod(mapping.target), math.prod(mapping.source)
    some = data.draw(st.sets(st.integers(0, outputs - 1))) if outputs else set()
    back = table.backward(Cells.at(mapping.target, some))
    assert back == Cells.at(mapping.source, {a for a, b in pairs if b in some})
    some = data.draw(st.sets(st.integers(0, inputs - 1))) if inputs else set()
    forth = table.forward(Cells.at(mapping.source, some))
    assert forth == Cells.at(mapping.target, {b for a, b in pairs if a in some})
    whole = table.backward(Cells.whole(mapping.target))
    assert whole == Cells.at(mapping.source, {a for a, _ in pairs})


parts = st.integers(-5, 4) | st.slices(4)


@given(shapes, st.lists(parts, max_size=3).map(tuple))
def test_an_index_names_what_numpy_reads(shape: tuple[int, ...], where: tuple[Any, ...]) -> None:
    positions = np.arange(math.prod(shape)).reshape(shape)
    try:
        wanted = np.unique(positions[where]).tolist()
    except IndexError:
        with pytest.raises(CellError):
            Cells.of(shape, where)
    else:
        assert Cells.of(shape, where).positions().tolist() == wanted


STEPS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x[::-1], lambda x: x.T, lambda x: x[1:], lambda x: x[:, ::2], lambda x: np.cumsum(x, axis=-1),
    lambda x: x - x.mean(axis=0), lambda x: np.diff(x, axis=0), lambda x: x.reshape(-1, 2) if x.size % 2 == 0 else x,
    lambda x: x @ x.T, lambda x: np.concatenate((x, x[:1])), lambda x: np.roll(x, 1, axis=1), lambda x: np.pad(x, 1, mode="edge"),
    lambda x: x * x[0], lambda x: x + 1, lambda x: np.repeat(x, 2, axis=1)[:, 1:], lambda x: np.where(x[:1] > 0, x, -x),
)  # fmt: skip


@given(st.lists(st.sampled_from(range(len(STEPS))), min_size=1, max_size=4))
def test_what_lies_outside_of_a_trace_changes_nothing(steps: list[int]) -> None:
    """A change where a choice stays the same: of signs, which ``where`` looks at, by a factor."""

    def program(x: Any) -> Any:
        for step in steps:
            if x.ndim != 2 or 0 in x.shape or x.size > 200:
                break
            x = STEPS[step](x)
        return x

    values = np.random.default_rng(len(steps)).normal(0, 1, (3, 4))
    recording = Recording()
    result = program(recording.source("x", values))
    (changed,) = dependences(program, [values])
    for cell in range(values.size):
        (went,) = recording.forward("x", result, Cells.at(values.shape, [cell])).cells.values()
        assert not (changed[cell] & ~went.mask().reshape(-1)).any()
