"""Ranges of the kinds of operators that ProvRC was measured over (arXiv 2405.17701), and range queries over 10^8 associations."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.arrays.microbenchmark import timed
from lineage_arrays import Cells, Recording
from lineage_arrays.cells import I64, Mask, Shape
from lineage_arrays.operators import Encoding, Orientation, Regions
from lineage_arrays.operators.encodings import PairStore, RangeStore
from lineage_arrays.operators.ranges import RangeTable

SAMPLES = 20
"""Cells of each side whose answers are held against the pairs."""
QUERY_WIDTH = 100
"""Cells of a range query on each axis."""
WINDOW = 10
"""Of the large convolution, on both axes; and of the boxes that are scattered."""


@dataclass(frozen=True)
class Kind:
    """An operator as pairs of positions.

    ``allows``: whether one range relative to the output cell says all of it.
    """

    name: str
    source: Shape
    target: Shape
    outputs: I64
    inputs: I64
    allows: bool = True


def kinds(size: int) -> Iterator[Kind]:
    """Each over arrays of ``size`` x ``size`` cells, the product and the sort over fewer."""
    square, cells = (size, size), np.arange(size * size)
    yield Kind("element-wise", square, square, cells, cells)
    yield Kind("aggregation", square, (size,), cells // size, cells)
    inner = (size - 2, size - 2)
    yield _windows("convolution", square, inner, 0)
    yield _windows("convolution, mode same", square, square, -1)
    side = max(int(size ** (2 / 3)), 2)
    row, column, at = (part.reshape(-1) for part in np.indices((side, side, side)))
    product = row * side + column
    yield Kind("matrix product, left", (side, side), (side, side), product, row * side + at)
    yield Kind("matrix product, right", (side, side), (side, side), product, at * side + column)
    drawn = np.random.default_rng(5).random(size * size)
    yield Kind("sort", (size * size,), (size * size,), cells, np.argsort(drawn), allows=False)


def _windows(name: str, source: Shape, target: Shape, offset: int) -> Kind:
    """Windows of 3 x 3 cells, cut off at the edges where they reach beyond them."""
    row, column, down, right = (part.reshape(-1) for part in np.indices((*target, 3, 3)))
    into = row + down + offset, column + right + offset
    inside = (into[0] >= 0) & (into[0] < source[0]) & (into[1] >= 0) & (into[1] < source[1])
    outputs, inputs = row * target[1] + column, into[0] * source[1] + into[1]
    return Kind(name, source, target, outputs[inside], inputs[inside], allows=not offset)


def kind_of(kind: Kind) -> dict[str, Any]:
    """How many ranges an operator takes, and how many bytes; ``same``: sampled answers are those of its pairs."""
    begin = time.process_time()
    table = RangeTable.of_pairs(kind.source, kind.target, kind.outputs, kind.inputs)
    write_s = time.process_time() - begin
    random = np.random.default_rng(6)
    same = True
    for shape, given, wanted, ask in (
        (kind.target, kind.outputs, kind.inputs, table.backward),
        (kind.source, kind.inputs, kind.outputs, table.forward),
    ):
        for some in (1, SAMPLES):
            cells = Cells.at(shape, random.choice(given, some))
            expected = np.unique(wanted[np.isin(given, cells.positions())])
            same &= np.array_equal(ask(cells).positions(), expected)
    return {
        "associations": len(kind.outputs),
        "ranges": len(table.rows),
        "allows": kind.allows,
        "bytes": table.nbytes,
        "write_s": round(write_s, 4),
        "same": bool(same),
    }


Box = tuple[slice, ...]


@dataclass(frozen=True)
class Large:
    """Associations as something that answers, and by definition the cells that a box of cells is made from, or goes into."""

    name: str
    associations: int
    backward: Callable[[Cells], Cells]
    forward: Callable[[Cells], Cells]
    source: Shape
    target: Shape
    made_from: Callable[[Box], Mask]
    goes_into: Callable[[Box], Mask]


def large(associations: int) -> Iterator[Large]:
    """As many associations, about, of each kind that has so many: from 4 x ``WINDOW`` ** 4 on."""
    wide = int(associations**0.5)
    yield _element_wise(wide)
    yield _aggregation(wide)
    yield _convolution(int((associations / WINDOW**2) ** 0.5))
    yield _product(round(associations ** (1 / 3)))
    yield from _scattered(associations // WINDOW**2)


def _element_wise(wide: int) -> Large:
    """As plain NumPy code records it."""
    recording = Recording()
    result = -recording.source("x", np.zeros((wide, wide), np.int8))
    (edge,) = result.node.inputs
    shape = (wide, wide)
    return Large(
        "element-wise, recorded", wide * wide, edge.mapping.backward, edge.mapping.forward,
        shape, shape, lambda box: _marked(shape, box), lambda box: _marked(shape, box),
    )  # fmt: skip


def _aggregation(wide: int) -> Large:
    store = RangeStore((wide, wide), (wide,))
    each = np.arange(wide)
    low = np.stack([each, np.zeros_like(each)], axis=1)
    high = np.stack([each, np.full_like(each, wide - 1)], axis=1)
    store.extend(Regions.of_rows((wide,), each), Regions.of_boxes((wide, wide), low, high))
    return _of_store(
        "aggregation", wide * wide, store,
        lambda box: _marked((wide, wide), (box[0],)),
        lambda box: _marked((wide,), (box[0],)),
    )  # fmt: skip


def _convolution(wide: int) -> Large:
    source, target = (wide + WINDOW - 1,) * 2, (wide, wide)
    store = RangeStore(source, target)
    low = np.argwhere(np.ones(target, np.bool_))
    outputs, inputs = Regions.of_rows(target, np.arange(wide * wide)), Regions.of_boxes(source, low, low + WINDOW - 1)  # fmt: skip
    store.extend(outputs, inputs)

    def made_from(box: Box) -> Mask:
        return _marked(source, tuple(slice(at.start, at.stop + WINDOW - 1) for at in box))

    def goes_into(box: Box) -> Mask:
        return _marked(target, tuple(slice(max(at.start - WINDOW + 1, 0), at.stop) for at in box))

    return _of_store("convolution", wide * wide * WINDOW**2, store, made_from, goes_into)


def _product(side: int) -> Large:
    shape = (side, side)
    store = RangeStore(shape, shape)
    row = np.repeat(np.arange(side), side)
    low = np.stack([row, np.zeros_like(row)], axis=1)
    high = np.stack([row, np.full_like(row, side - 1)], axis=1)
    store.extend(Regions.of_rows(shape, np.arange(side * side)), Regions.of_boxes(shape, low, high))

    def rows_of(box: Box) -> Mask:
        return _marked(shape, (box[0],))

    return _of_store("matrix product, left", side**3, store, rows_of, rows_of)


def _scattered(count: int) -> Iterator[Large]:
    """Cells of which each is made from a box somewhere: no range says more than one of them. By ``many``, which finds boxes, for either direction."""
    wide = max(int(count**0.5), 2 * WINDOW)
    shape = (wide, wide)
    random = np.random.default_rng(7)
    cells = random.permutation(wide * wide)[:count]
    low = random.integers(0, wide - WINDOW + 1, (len(cells), 2))
    outputs = Regions.of_rows(shape, cells)
    inputs = Regions.of_boxes(shape, low, low + WINDOW - 1)
    stores = []
    for orientation in Orientation:
        store = PairStore(shape, shape, Encoding.MANY, orientation)
        store.extend(outputs, inputs)
        stores.append(store)
    backward, forward = stores

    def made_from(box: Box) -> Mask:
        asked = _marked(shape, box).reshape(-1)
        mask = np.zeros(shape, np.bool_)
        for top, left in low[asked[cells]].tolist():
            mask[top : top + WINDOW, left : left + WINDOW] = True
        return mask

    def goes_into(box: Box) -> Mask:
        first = np.array([at.start for at in box])
        stop = np.array([at.stop for at in box])
        mask = np.zeros(wide * wide, np.bool_)
        mask[cells[((low < stop) & (low + WINDOW > first)).all(axis=1)]] = True
        return mask.reshape(shape)

    associations = len(cells) * WINDOW**2
    yield Large(
        "scattered boxes", associations, backward.backward, forward.forward, shape, shape, made_from, goes_into
    )  # fmt: skip


def _of_store(
    name: str,
    associations: int,
    store: RangeStore,
    made_from: Callable[[Box], Mask],
    goes_into: Callable[[Box], Mask],
) -> Large:
    table = store.table
    return Large(
        name, associations, table.backward, table.forward, table.source, table.target, made_from, goes_into
    )  # fmt: skip


def _marked(shape: Shape, box: Box) -> Mask:
    mask = np.zeros(shape, np.bool_)
    mask[box] = True
    return mask


def queried(of: Large, times: int) -> dict[str, Any]:
    """What a range query takes in either direction, first asked and again; ``same``: the answer is that of the definition."""
    row: dict[str, Any] = {"associations": of.associations, "same": True}
    for direction, shape, ask, expected in (
        ("backward", of.target, of.backward, of.made_from),
        ("forward", of.source, of.forward, of.goes_into),
    ):
        box = tuple(
            slice(size // 3, size // 3 + min(QUERY_WIDTH, max(size // 3, 1))) for size in shape
        )
        cells = Cells.of(shape, box)
        answer, seconds = timed(functools.partial(ask, cells), times + 1)
        row["same"] = row["same"] and np.array_equal(answer.mask(), expected(box))
        row[direction] = {
            "cells": cells.count,
            "first_s": round(seconds[0], 5),
            "s": round(float(np.median(seconds[1:])), 6),
        }
    return row


def kinds_row(size: int, associations: int, times: int) -> dict[str, Any]:
    """A row with all of it; ``ranges_max``: of the operators of which one range can say all."""
    found = {kind.name: kind_of(kind) for kind in kinds(size)}
    asked = {of.name: queried(of, times) for of in large(associations)}
    return {
        "size": size,
        "kinds": found,
        "ranges_max": max(row["ranges"] for row in found.values() if row["allows"]),
        "associations": associations,
        "queries": asked,
        "query_ms_max": round(
            1e3 * max(row[direction]["s"] for row in asked.values() for direction in ("backward", "forward")), 3
        ),
        "same": all(row["same"] for row in (*found.values(), *asked.values())),
    }  # fmt: skip
