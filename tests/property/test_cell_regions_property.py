"""Region pairs written one by one and in bulk, in every encoding, against a search of all pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.arrays.paper_stores import PaperStore
from lineage_arrays import Cells, boxes
from lineage_arrays.operators import (
    Encoding,
    Mode,
    Operator,
    OperatorGraph,
    Orientation,
    Regions,
    Strategy,
    region_index,
)
from lineage_arrays.operators.encodings import PairStore, PayloadStore, RangeStore

pytestmark = pytest.mark.property

Shape = tuple[int, ...]
Pair = tuple[list[int], list[int]]
shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)


@st.composite
def regions_of(draw: st.DrawFn, shape: Shape) -> list[int]:
    """Cells of a box, of a box that lacks some, or any, in any order, repeated or not."""
    size = math.prod(shape)
    if not size:
        return []
    positions = np.arange(size).reshape(shape)
    ends = [sorted((draw(st.integers(0, n)), draw(st.integers(0, n)))) for n in shape]
    box = positions[tuple(slice(a, b) for a, b in ends)].reshape(-1).tolist()
    kind = draw(st.sampled_from(("box", "lacking", "any")))
    if kind == "box":
        return [int(one) for one in box]
    if kind == "lacking":
        return [int(one) for one in box if draw(st.booleans())]
    return draw(st.lists(st.integers(0, size - 1), max_size=8))


@st.composite
def pairs_of(draw: st.DrawFn) -> tuple[Shape, Shape, list[Pair]]:
    source, target = draw(shapes), draw(shapes)
    pair = st.tuples(regions_of(target), regions_of(source))
    return source, target, draw(st.lists(pair, max_size=8))


def in_columns(shape: Shape, regions: Sequence[list[int]]) -> Regions:
    lengths = np.array([len(one) for one in regions], np.int64)
    return Regions.of_columns(
        shape, lengths, np.array([c for one in regions for c in one], np.int64)
    )


def one_by_one(shape: Shape, regions: Sequence[list[int]]) -> Regions:
    made = Regions(shape)
    for one in regions:
        made.append(Cells.at(shape, one))
    return made


def by_rows(shape: Shape, regions: Sequence[list[int]]) -> Regions:
    """Runs of equal lengths in bulk, one behind the other."""
    made = Regions(shape)
    begin = 0
    while begin < len(regions):
        end = begin + 1
        while end < len(regions) and len(regions[end]) == len(regions[begin]):
            end += 1
        rows = np.array(regions[begin:end], np.int32).reshape(end - begin, -1)
        made.extend(Regions.of_rows(shape, rows))
        begin = end
    return made


FORMS = (in_columns, one_by_one, by_rows)


@given(pairs_of(), st.data())
def test_forms_of_regions_are_the_same(
    drawn: tuple[Shape, Shape, list[Pair]], data: st.DataObject
) -> None:
    _, shape, pairs = drawn
    wanted = [sorted(set(out)) for out, _ in pairs]
    some = data.draw(st.sets(st.integers(0, math.prod(shape) - 1))) if math.prod(shape) else set()
    few = data.draw(st.lists(st.integers(0, len(pairs) - 1), unique=True)) if pairs else []
    for form in FORMS:
        regions = form(shape, [out for out, _ in pairs])
        numbers = np.array(sorted(few), np.int64)
        assert len(regions) == len(pairs)
        assert [part.tolist() for part in np.split(regions.cells, regions.pointer[1:-1])] == (
            wanted or [[]]
        )
        owner, positions = regions.written_out(numbers)
        assert list(zip(owner.tolist(), positions.tolist(), strict=True)) == [
            (at, cell) for at, number in enumerate(numbers.tolist()) for cell in wanted[number]
        ]
        assert set(regions.of(numbers).positions().tolist()) == {c for n in few for c in wanted[n]}
        counts, low, high = regions.as_boxes()
        assert counts.sum() == len(low) == len(high)
        boxed = Regions.of_boxes(shape, low, high)
        owners = np.repeat(np.arange(len(pairs)), counts)[boxed.written_out(np.arange(len(low)))[0]]
        assert sorted(zip(owners.tolist(), boxed.cells.tolist(), strict=True)) == [
            (number, cell) for number, region in enumerate(wanted) for cell in region
        ]
        assert regions.touching(Cells.at(shape, some)).tolist() == [
            number for number, region in enumerate(wanted) if some & set(region)
        ]


@given(pairs_of(), st.data())
def test_stores_are_a_search_of_all_pairs(
    drawn: tuple[Shape, Shape, list[Pair]], data: st.DataObject
) -> None:
    source, target, pairs = drawn
    form = data.draw(st.sampled_from(FORMS))
    sides = form(target, [out for out, _ in pairs]), form(source, [into for _, into in pairs])
    stores: list[Any] = [
        PairStore(source, target, one, way)
        for one in (Encoding.ONE, Encoding.MANY)
        for way in Orientation
    ]
    stores.append(RangeStore(source, target))
    for store in stores:
        store.extend(*sides)
    for encoding in (Encoding.ONE, Encoding.MANY):
        payloads = PayloadStore(
            source,
            target,
            encoding,
            lambda at, payload: Cells.at(source, np.frombuffer(payload, "<i4")),
        )
        payloads.extend(sides[0], [np.array(into, "<i4").tobytes() for _, into in pairs])
        stores.append(payloads)
    for _ in range(1 + (len(pairs) > 4)):
        some = (
            data.draw(st.sets(st.integers(0, math.prod(target) - 1)))
            if math.prod(target)
            else set()
        )
        back = {cell for out, into in pairs if some & set(out) for cell in into}
        others = (
            data.draw(st.sets(st.integers(0, math.prod(source) - 1)))
            if math.prod(source)
            else set()
        )
        forth = {cell for out, into in pairs if others & set(into) for cell in out}
        for store in stores:
            assert store.backward(Cells.at(target, some)).positions().tolist() == sorted(back)
            assert store.forward(Cells.at(source, others)).positions().tolist() == sorted(forth)
    assert all(store.nbytes == sum(map(len, store.packed())) for store in stores)


LOOKUPS = {
    "each box with each cell": (1 << 20, 1 << 22),
    "cells are counted": (-1, 1 << 22),
    "cells are read": (-1, 0),
}
"""Comparisons from which on boxes are not compared with cells one by one, and cells of a window in which they are counted."""


@pytest.mark.parametrize("lookup", LOOKUPS)
@settings(max_examples=40)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_regions_of_any_sizes_are_found_in_each_way(
    lookup: str, data: st.DataObject, seed: int
) -> None:
    """Against masks: boxes of all sizes up to the array's, and regions that lack cells of theirs."""
    shape = tuple(data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3)))
    random = np.random.default_rng(seed)
    count, share = data.draw(st.integers(1, 30)), data.draw(st.sampled_from((1.0, 0.6)))
    masks = np.zeros((count, *shape), np.bool_)
    for mask in masks:
        ends = [sorted(random.integers(0, length, 2)) for length in shape]
        box = mask[tuple(slice(first, last + 1) for first, last in ends)]
        box[...] = random.random(box.shape) < share
    regions = one_by_one(shape, [np.flatnonzero(mask).tolist() for mask in masks])
    rows = masks.reshape(count, -1)
    asked = [random.integers(0, rows.shape[1], data.draw(st.integers(1, 6)))]
    near = np.zeros(shape, np.bool_)
    near[tuple(slice(at, at + 7) for at in (random.integers(0, length) for length in shape))] = True
    asked.append(np.flatnonzero(near))
    chunk, counted = LOOKUPS[lookup]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(region_index, "CHUNK", chunk)
        patch.setattr(boxes, "COUNTED_MAX", counted)
        index = region_index.ByBox(regions)
        for positions in asked:
            cells = Cells.at(shape, positions)
            wanted = np.flatnonzero(rows[:, positions].any(axis=1)).tolist()
            assert regions.touching(cells).tolist() == wanted
            if cells.count < count:
                assert index.touching(cells).tolist() == wanted


@settings(max_examples=40)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_cells_are_counted_in_boxes_wherever_these_lie(data: st.DataObject, seed: int) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=3)))
    random = np.random.default_rng(seed)
    positions = random.integers(0, math.prod(shape), data.draw(st.integers(1, 9)))
    cells = Cells.at(shape, positions)
    low = np.stack([random.integers(0, length, 20) for length in shape], axis=1)
    high = np.stack([random.integers(first, length) for first, length in zip(low.T, shape, strict=True)], axis=1)  # fmt: skip
    mask = cells.mask()
    assert boxes.Window.around(cells).counts(low, high).tolist() == [
        np.count_nonzero(mask[tuple(map(slice, first, last + 1))])
        for first, last in zip(low, high, strict=True)
    ]


@pytest.mark.parametrize("count", [1_000, pytest.param(30_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("fans", [(1, 1), (7, 4), (20, 1)])
def test_many_regions_are_found_by_few_cells(count: int, fans: tuple[int, int]) -> None:
    shape = (90, 110)
    random = np.random.default_rng(count)
    ends = []
    for fan in fans:
        low = np.stack([random.integers(0, length, count) for length in shape], axis=1)
        size = random.integers(1, fan + 1, (count, 2))
        high = np.minimum(low + size - 1, np.array(shape) - 1)
        ends.append((low, high))
    outputs, inputs = (Regions.of_boxes(shape, *corners) for corners in ends)
    owner, cells = outputs.written_out(np.arange(count))
    hit = np.array([7, 8, 500, 2_345, 2_346, 9_899])
    numbers = np.unique(owner[np.isin(cells, hit)])
    in_owner, in_cells = inputs.written_out(np.arange(count))
    wanted = np.unique(in_cells[np.isin(in_owner, numbers)])
    assert len(numbers) or fans == (1, 1)
    for encoding in Encoding:
        store: Any = (
            RangeStore(shape, shape)
            if encoding is Encoding.RANGES
            else PairStore(shape, shape, encoding, Orientation.BACKWARD)
        )
        store.extend(outputs, inputs)
        assert np.array_equal(store.backward(Cells.at(shape, hit)).positions(), wanted)
        went = np.unique(cells[np.isin(owner, np.unique(in_owner[np.isin(in_cells, hit)]))])
        assert np.array_equal(store.forward(Cells.at(shape, hit)).positions(), went)


@settings(max_examples=12)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_papers_encodings_are_a_search_of_all_pairs(
    count: int, out: int, into: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    shape = (5, 7)
    outputs, inputs = random.integers(0, 35, (count, out)), random.integers(0, 35, (count, into))
    some = random.integers(0, 35, 3)
    back = np.unique(inputs[np.isin(outputs, some).any(axis=1)])
    forth = np.unique(outputs[np.isin(inputs, some).any(axis=1)])
    with TemporaryDirectory() as folder:
        for encoding in (Encoding.ONE, Encoding.MANY):
            store = PaperStore(Path(folder) / encoding, shape, encoding, outputs, inputs)
            assert np.array_equal(store.backward(Cells.at(shape, some)).positions(), back)
            assert np.array_equal(store.forward(Cells.at(shape, some)).positions(), forth)


class Writing(Operator):
    """Writes pairs one by one or in bulk: output cells are made from the same cells of the first operand, and from others of the second."""

    name = "writing"

    def __init__(self, pairs: Sequence[Pair], form: Any) -> None:
        super().__init__()
        self.pairs, self.form = pairs, form

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.FULL, Mode.PAY})

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        target, source = inputs[0].shape, inputs[1].shape
        payloads = [np.array(into, "<i4").tobytes() for _, into in self.pairs]
        if self.form is None:
            for (out, into), payload in zip(self.pairs, payloads, strict=True):
                cells = Cells.at(target, out)
                of = (cells, Cells.at(source, into)) if Mode.FULL in modes else (payload,)
                self.lwrite(cells, *of)
            return inputs[0].copy()
        outcells = self.form(target, [out for out, _ in self.pairs])
        if Mode.FULL in modes:
            self.lwrite_many(
                outcells, outcells, self.form(source, [into for _, into in self.pairs])
            )
        else:
            self.lwrite_many(outcells, payloads)
        outcells.append(Cells.whole(target))  # after the call: part of nothing
        return inputs[0].copy()

    def map_p(self, cell: Any, payload: bytes, operand: int, shapes: Any) -> Any:
        return Cells.at(shapes.inputs[1], np.frombuffer(payload, "<i4")) if operand else cell


@given(st.sampled_from((None, *FORMS)), pairs_of(), st.data())
def test_an_operator_writes_in_bulk_as_one_by_one(
    form: Any, drawn: tuple[Shape, Shape, list[Pair]], data: st.DataObject
) -> None:
    source, target, pairs = drawn
    graph = OperatorGraph()
    steps = graph.source("values"), graph.source("others")
    step = graph.add(Writing(pairs, form), *steps)
    some = data.draw(st.sets(st.integers(0, math.prod(target) - 1))) if math.prod(target) else set()
    met = [(set(out), set(into)) for out, into in pairs if some & set(out)]
    for strategy in (Strategy(Mode.FULL, Encoding.MANY), Strategy(Mode.PAY, Encoding.ONE)):
        version = graph.run(
            {"values": np.zeros(target), "others": np.ones(source)}, {step: [strategy]}
        )
        trace = version.back(step, Cells.at(target, some)).cells
        same = (
            set().union(*(out for out, _ in met))
            if strategy.mode is Mode.FULL
            else some & set().union(*(out for out, _ in met))
        )
        assert trace["values"].positions().tolist() == sorted(same)
        assert trace["others"].positions().tolist() == sorted(
            set().union(*(into for _, into in met))
        )
