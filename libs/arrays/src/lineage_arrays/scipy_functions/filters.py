"""Linear filters of ``scipy.ndimage``: windows around each cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lineage_arrays.axis_mappings import union_of
from lineage_arrays.mappings import Chain, Mapping, SamePositions, Span, along_axis
from lineage_arrays.scipy_functions.footprints import (
    axes_of,
    exactly,
    linear,
    of_footprint,
    per_axis,
)
from lineage_arrays.scipy_functions.rules import Given, Related, Row, Rule, by_rules, known_shape
from lineage_arrays.scipy_functions.windows import box_around, extended, windows
from lineage_arrays.workflow import AnyArray

RUNNING_SUM = "a running sum carries rounding, and NaN, on along the axis; ndimage.convolve1d with equal weights is exact"
EPSILON = float(np.finfo(np.float64).eps)
"""Weights of ``correlate`` up to which SciPy leaves a cell out."""


def _one_sign(given: Given) -> bool:
    weights = given.array("weights")
    return not np.iscomplexobj(weights) and bool((weights > 0).all() or (weights < 0).all())


def _smooths(given: Given) -> bool:
    return not np.any(given["order"])


def _weights(given: Given) -> int:
    return len(given.array("weights"))


def one_axis(size: Callable[[Given], int], reverse: bool = False) -> Rule:
    """A filter of so many cells along ``axis``; ``reverse``: a convolution, whose weights are turned round."""

    def rule(given: Given, value: AnyArray) -> Related:
        length, origin = size(given), int(given["origin"] or 0)
        if reverse:
            origin = -origin - (length % 2 == 0)
        axis = given.axis("input")
        return exactly(windows(value.shape, [(axis, length, origin, given["mode"])]))

    return rule


def weighted(reverse: bool) -> Rule:
    """``correlate`` and ``convolve``: the cells whose weight is not zero."""

    def rule(given: Given, value: AnyArray) -> Related:
        weights = given.array("weights")
        parts = (weights.real, weights.imag) if np.iscomplexobj(weights) else (weights,)
        footprint = np.logical_or.reduce([np.abs(part) > EPSILON for part in parts])
        return of_footprint(given, footprint, reverse)

    return rule


def _gaussian_sizes(given: Given, mode: Sequence[str]) -> list[tuple[int, int, int, str]]:
    axes = axes_of(given)
    sigmas = per_axis(given["sigma"], len(axes))
    radii = per_axis(given["radius"], len(axes))
    truncate = 4.0 if given["truncate"] is None else float(given["truncate"])
    sizes = []
    for axis, sigma, radius, of_axis in zip(axes, sigmas, radii, mode, strict=True):
        if sigma > 1e-15:
            reach = int(truncate * float(sigma) + 0.5) if radius is None else int(radius)
            sizes.append((axis, 2 * reach + 1, 0, of_axis))
    return sizes


def gaussian(given: Given, value: AnyArray) -> Related:
    modes = per_axis(given["mode"], len(axes_of(given)))
    return exactly(windows(value.shape, _gaussian_sizes(given, modes)))


def _gaussian_size(given: Given) -> int:
    if given["radius"] is not None:
        return 2 * int(given["radius"]) + 1
    return 2 * int(float(given["truncate"]) * float(given["sigma"]) + 0.5) + 1


def gaussian_derivatives(given: Given, value: AnyArray) -> Related:
    """``gaussian_laplace`` and ``gaussian_gradient_magnitude``: a filter for each axis, with the mode of this axis on all."""
    axes = axes_of(given)
    if not axes:
        return exactly(SamePositions(value.shape, value.shape))
    return exactly(
        union_of(
            [
                windows(value.shape, _gaussian_sizes(given, [mode] * len(axes)))
                for mode in dict.fromkeys(per_axis(given["mode"], len(axes)))
            ]
        )
    )


def cross(given: Given, value: AnyArray) -> Related:
    """``laplace``: the cell and its neighbours on each axis."""
    axes = axes_of(given)
    modes = per_axis(given["mode"], len(axes))
    parts = [
        windows(value.shape, [(axis, 3, 0, mode)]) for axis, mode in zip(axes, modes, strict=True)
    ]
    return exactly(union_of(parts or [SamePositions(value.shape, value.shape)]))


def threes(given: Given, value: AnyArray) -> Related:
    """``prewitt`` and ``sobel``: three cells on each axis."""
    modes = per_axis(given["mode"], value.ndim)
    return exactly(windows(value.shape, [(axis, 3, 0, mode) for axis, mode in enumerate(modes)]))


def uniform(given: Given, value: AnyArray) -> Related:
    axes = axes_of(given)
    parts = (per_axis(given[name], len(axes)) for name in ("size", "origin", "mode"))
    return _uniform(given, value, [part for part in zip(axes, *parts, strict=True) if part[1] > 1])


def uniform_1d(given: Given, value: AnyArray) -> Related:
    sizes = (given.axis("input"), int(given["size"]), int(given["origin"]), given["mode"])
    return _uniform(given, value, [sizes])


def _uniform(given: Given, value: AnyArray, sizes: Sequence[tuple[int, int, int, str]]) -> Related:
    """Windows; of numbers whose sum is rounded, all cells that the sum has run over."""
    shape = value.shape
    small = all(
        dtype.kind in "biu" and dtype.itemsize <= 4
        for dtype in (given.array("input").dtype, *([value.dtype] if len(sizes) > 1 else []))
    )
    if small or not sizes:
        return exactly(windows(shape, sizes))
    mapping: Mapping = SamePositions(shape, shape)
    for axis, size, origin, mode in sizes:
        low, high = box_around(int(size), int(origin))
        step = extended(shape, axis, max(-low, 0), max(high, 0), mode)
        reached = Span(0, high + max(-low, 0), axis, 0, 1)
        mapping = Chain(mapping, Chain(step, along_axis(step.target, shape, {axis: reached})))
    return [(mapping, RUNNING_SUM)]


WINDOW = "the cells of the window, and at the border those that the mode puts there"
_RUNNING = f"{WINDOW} (of floats, or of 64 bits: superset, the cells before it on its line, too: a running sum rounds)"
_OF_FUNCTION = Row(known_shape, "superset", "all cells: a function of yours decides which it uses")


def _sums(
    rule: Rule, cells: str = WINDOW, one_sign: Callable[[Given], bool] = lambda _: False
) -> Row:
    lost = "of whole numbers with weights of both signs: superset"
    return Row(by_rules(input=linear("input", rule, one_sign)), "exact", f"{cells} ({lost})")


TABLE: dict[str, Row] = {
    "correlate1d": _sums(one_axis(_weights), one_sign=_one_sign),
    "convolve1d": _sums(one_axis(_weights, reverse=True), one_sign=_one_sign),
    "gaussian_filter1d": _sums(one_axis(_gaussian_size), one_sign=_smooths),
    "correlate": _sums(weighted(reverse=False), f"{WINDOW}, but for weights of zero", _one_sign),
    "convolve": _sums(weighted(reverse=True), f"{WINDOW}, but for weights of zero", _one_sign),
    "gaussian_filter": _sums(gaussian, one_sign=_smooths),
    **dict.fromkeys(["gaussian_laplace", "gaussian_gradient_magnitude"], _sums(gaussian_derivatives)),
    "laplace": _sums(cross, "the cell and its neighbours on each axis"),
    **dict.fromkeys(["prewitt", "sobel"], _sums(threes)),
    "uniform_filter": Row(by_rules(input=uniform), "exact", _RUNNING),
    "uniform_filter1d": Row(by_rules(input=uniform_1d), "exact", _RUNNING),
    **dict.fromkeys(
        [
            "generic_filter", "generic_filter1d", "generic_laplace", "generic_gradient_magnitude", "vectorized_filter",
            "geometric_transform", "labeled_comprehension",
        ],
        _OF_FUNCTION,
    ),
}  # fmt: skip
