"""Parameters for each axis, and footprints over some axes, as ``scipy.ndimage`` takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lineage_arrays.cells import Shape
from lineage_arrays.functions.transforms import NO_NARROWER
from lineage_arrays.mappings import AllToAll, Boxes, Mapping, Span, cell_by_cell
from lineage_arrays.scipy_functions.rules import Given, Related, Rule
from lineage_arrays.scipy_functions.windows import CONSTANT, Offsets, around, boxes
from lineage_arrays.workflow import AnyArray

WEIGHTS = "of whole numbers a cell changes nothing whose weights are zero, or cancel"


def per_axis(value: Any, count: int) -> list[Any]:
    """A parameter for each axis, as ``ndimage`` takes it: one for all, or one for each."""
    if isinstance(value, str) or np.ndim(value) == 0:
        return [value] * count
    return list(value)


def axes_of(given: Given) -> tuple[int, ...]:
    """The axes that a filter goes over; all, unless ``axes`` names them."""
    ndim, axes = given.array("input").ndim, given["axes"]
    if axes is None:
        return tuple(range(ndim))
    return tuple(int(axis) % ndim for axis in np.atleast_1d(axes))


def exactly(mapping: Mapping) -> Related:
    return [(mapping, "")]


def same_cell(name: str) -> Rule:
    """The cell of an argument that stands where the cell of the result does."""

    def rule(given: Given, value: AnyArray) -> Related:
        return exactly(cell_by_cell(given.shape(name), value.shape))

    return rule


def whole(source: Shape, target: Shape, superset: str = NO_NARROWER) -> Related:
    return [(AllToAll(source, target), superset)]


def superset_of(related: Related, reason: str) -> Related:
    """What a rule says, with a reason why there may be cells that count for nothing."""
    return [(mapping, superset or reason) for mapping, superset in related]


def whole_numbers(given: Given, name: str) -> bool:
    """Whether an argument has whole numbers or truth values: no NaN among them shows a weight of zero."""
    return given.array(name).dtype.kind in "biu"


def linear(name: str, rule: Rule, one_sign: Callable[[Given], bool] = lambda _: False) -> Rule:
    """A rule for sums with weights.

    Args:
        name: of the argument.
        rule: for it, weights of zero among them.
        one_sign: whether all weights are above zero, or all below: none is lost where the border repeats a cell.
    """

    def checked(given: Given, value: AnyArray) -> Related:
        related = rule(given, value)
        if not whole_numbers(given, name) or one_sign(given):
            return related
        return superset_of(related, WEIGHTS)

    return checked


def of_footprint(given: Given, footprint: AnyArray, reverse: bool = False) -> Related:
    shape, axes = given.shape("input"), axes_of(given)
    origins = [int(origin) for origin in per_axis(given["origin"] or 0, len(axes))]
    modes = per_axis(given["mode"] or CONSTANT, len(axes))
    return footprint_of(shape, axes, footprint, origins, modes, reverse)


def footprint_of(
    shape: Shape,
    axes: Sequence[int],
    footprint: AnyArray,
    origins: Sequence[int],
    modes: Sequence[str],
    reverse: bool = False,
) -> Related:
    """The cells of a footprint over some axes; ``reverse``: of the footprint turned round, as dilation and convolution have it."""
    found = offsets_of(shape, axes, footprint, origins, reverse)
    if found is None:
        return whole(shape, shape)
    offsets, superset = found
    if not offsets:
        return exactly(Boxes(shape, shape, (Span(0, -1),) * len(shape)))
    all_modes = [CONSTANT] * len(shape)
    for axis, mode in zip(axes, modes, strict=True):
        all_modes[axis] = mode
    return [(boxes(shape, offsets, all_modes), superset)]


def offsets_of(
    shape: Shape, axes: Sequence[int], footprint: AnyArray, origins: Sequence[int], reverse: bool
) -> tuple[list[Offsets], str] | None:
    """The boxes of a footprint over some axes of an array, and why they may have more than it; None for axes in another order."""
    if list(axes) != sorted(axes) or footprint.ndim != len(axes):
        return None
    if reverse:
        footprint = np.flip(footprint)
        origins = [
            -origin - (length % 2 == 0)
            for origin, length in zip(origins, footprint.shape, strict=True)
        ]
    if not footprint.any():
        return [], ""
    pieces, superset = around(footprint.astype(np.bool_), origins)
    offsets: list[Offsets] = []
    for piece in pieces:
        box = [(0, 0)] * len(shape)
        for axis, ends in zip(axes, piece, strict=True):
            box[axis] = ends
        offsets.append(tuple(box))
    return offsets, superset
