"""Boxes of cells against cells one by one: of whole arrays, of parts, and of parts that are looked at few at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_arrays import cells as cells_module
from lineage_arrays import few_boxes, mappings
from lineage_arrays.boxes import REFILLED, union_of_boxes
from lineage_arrays.cells import Cells, Mask, Shape
from lineage_arrays.mappings import Boxes, Span
from lineage_arrays.planes import Plane, marked
from lineage_core.contract.region import Region

pytestmark = pytest.mark.unit

SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)
SMALL = st.integers(-2, 3)


@pytest.fixture(scope="module", autouse=True)
def few_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mappings, "PART_CELLS", 3)
        yield


@st.composite
def boxes(draw: st.DrawFn) -> Boxes:
    source, target = draw(SHAPES), draw(SHAPES)
    axes = st.none() | st.integers(0, len(target) - 1) if target else st.none()
    spans = st.builds(Span, SMALL, SMALL, axes, SMALL, SMALL)
    return Boxes(source, target, tuple(draw(spans) for _ in source))


def related(mapping: Boxes) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """For each output cell (rows) and input cell (columns) whether the box has it."""
    pairs = np.zeros((int(np.prod(mapping.target)), int(np.prod(mapping.source))), np.bool_)
    for row, output in enumerate(product(*map(range, mapping.target))):
        for column, cell in enumerate(product(*map(range, mapping.source))):
            pairs[row, column] = all(
                span.low + span.low_scale * at <= coordinate <= span.high + span.high_scale * at
                for span, coordinate in zip(mapping.spans, cell, strict=True)
                for at in [0 if span.axis is None else output[span.axis]]
            )
    return pairs


@settings(max_examples=150, deadline=None)
@given(boxes(), st.data())
def test_boxes_are_those_of_cells_one_by_one(mapping: Boxes, data: st.DataObject) -> None:
    pairs = related(mapping)
    for shape, follow, axis in (
        (mapping.target, mapping.backward, 0),
        (mapping.source, mapping.forward, 1),
    ):
        along = pairs if axis == 0 else pairs.T
        size = len(along)
        some = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
        for chosen in (np.array(some, np.bool_), np.ones(size, np.bool_)):
            found = follow(Cells.masked(chosen.reshape(shape)))
            assert found.positions().tolist() == np.flatnonzero(along[chosen].any(axis=0)).tolist()


def test_boxes_that_meet_are_not_filled_in_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a cumulative sum: each output cell needs all input cells up to it."""
    filled: list[int] = []

    def mask_of(shape: Shape, boxes: Sequence[few_boxes.Box]) -> Mask:
        filled.append(few_boxes.cells_in(boxes))
        return few_boxes.mask_of(shape, boxes)

    monkeypatch.setattr(cells_module, "mask_of", mask_of)
    size = 1 << 13
    last = np.arange(1, size - 1, 2)[:, None]
    assert union_of_boxes((size,), np.zeros_like(last), last).count == size - 2
    assert sum(filled) <= REFILLED * size


@settings(max_examples=100, deadline=None)
@given(SHAPES, st.floats(0, 1), st.integers(1, 5), st.integers(0, 99))
def test_masks_have_the_runs_and_pictures_of_their_positions(
    shape: Shape, share: float, side: int, seed: int
) -> None:
    mask: Mask = np.asarray(np.random.default_rng(seed).random(shape) < share)
    cells, listed = Cells.masked(mask), Cells(shape, positions=np.flatnonzero(mask))
    assert cells.region() == Region.from_positions(listed.positions())
    plane = Plane.of(shape, ...)
    assert marked(plane, cells, side) == marked(plane, listed, side)
