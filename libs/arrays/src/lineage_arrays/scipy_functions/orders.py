"""Orders of the cells in a window: extremes, medians and morphology of ``scipy.ndimage``."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lineage_arrays.axis_mappings import AlongAxis, Ranges
from lineage_arrays.cells import Shape
from lineage_arrays.mappings import Chain, Mapping, SamePositions
from lineage_arrays.scipy_functions.filters import WINDOW, one_axis
from lineage_arrays.scipy_functions.footprints import (
    axes_of,
    exactly,
    footprint_of,
    of_footprint,
    offsets_of,
    per_axis,
    superset_of,
    whole,
    whole_numbers,
)
from lineage_arrays.scipy_functions.rules import (
    Given,
    Kind,
    Related,
    Row,
    Rule,
    by_rules,
    known_shape,
)
from lineage_arrays.scipy_functions.windows import CONSTANT, Offsets, boxes
from lineage_arrays.workflow import AnyArray

NAN_ORDER = "on one axis SciPy carries the order of NaN on from window to window; as a row, x[None] with a window of (1, size), it is the window"
OUTVOTED = "a cell changes nothing where others that the border repeats, or the border's constant, always decide"
OUTWEIGHED = (
    "near the border a cell changes nothing where what the first filter leaves of it never decides"
)
ITERATIONS_MAX = 32
"""Iterations of a morphology whose windows are put one behind the other."""


def _size(given: Given) -> int:
    return int(given["size"])


def _footprint(given: Given) -> AnyArray:
    """The footprint of an order filter, or of a morphology of grey values: given, of the structure's shape, or of a size."""
    if given["footprint"] is not None:
        return given.array("footprint").astype(np.bool_)
    if given["structure"] is not None:
        return np.ones(given.shape("structure"), np.bool_)
    sizes = [int(size) for size in per_axis(given["size"], len(axes_of(given)))]
    return np.ones(sizes, np.bool_)


def ranked(given: Given, value: AnyArray) -> Related:
    """``median_filter`` and its like."""
    footprint = _footprint(given)
    if carries_on(given.array("input"), footprint):
        return whole(given.shape("input"), value.shape, NAN_ORDER)
    return superset_of(of_footprint(given, footprint), OUTVOTED)


def carries_on(values: AnyArray, footprint: AnyArray) -> bool:
    """Whether SciPy keeps an order from window to window, as on one axis: it stays wrong where NaN, or a window beyond the array, has been."""
    return values.ndim == 1 and (values.dtype.kind not in "biu" or footprint.size > values.size)


def extreme(reverse: bool) -> Rule:
    """``minimum_filter``, ``grey_erosion`` and their like; ``reverse``: dilation, which turns the footprint round."""

    def rule(given: Given, value: AnyArray) -> Related:
        related = of_footprint(given, _footprint(given), reverse)
        modes = per_axis(given["mode"], 1)
        constant = {CONSTANT, "grid-constant"} & set(modes)
        return superset_of(related, OUTVOTED) if constant and _decides(given) else related

    return rule


def _decides(given: Given) -> bool:
    """Whether a constant beyond the border may be the least or greatest number of all: of a type, or infinity."""
    return whole_numbers(given, "input") or not np.isfinite(given["cval"])


def extreme_1d(given: Given, value: AnyArray) -> Related:
    related = one_axis(_size)(given, value)
    constant = given["mode"] in (CONSTANT, "grid-constant")
    return superset_of(related, OUTVOTED) if constant and _decides(given) else related


eroded, dilated = extreme(reverse=False), extreme(reverse=True)


def chained(rules: Sequence[Rule]) -> Rule:
    """One filter on the result of another."""

    def rule(given: Given, value: AnyArray) -> Related:
        mappings = [mapping for of_step in rules for mapping, _ in of_step(given, value)]
        return [(functools.reduce(Chain, mappings), OUTWEIGHED)]

    return rule


def together(rules: Sequence[Rule]) -> Rule:
    """Several filters of one array, combined cell by cell."""

    def rule(given: Given, value: AnyArray) -> Related:
        return [part for of_part in rules for part in of_part(given, value)]

    return rule


def itself(given: Given, value: AnyArray) -> Related:
    return exactly(SamePositions(value.shape, value.shape))


def binary(reverse: bool) -> Rule:
    """Erosion (``reverse``: dilation) by a structure, so many times."""

    def rule(given: Given, value: AnyArray) -> Related:
        shape, axes = value.shape, axes_of(given)
        times = int(given["iterations"])
        if given["mask"] is not None or not 1 <= times <= ITERATIONS_MAX:
            return whole(shape, shape, "how far it goes depends on the cells")
        footprint = _structure(given["structure"], len(axes))
        origins = [int(at) for at in per_axis(given["origin"], len(axes))]
        found = offsets_of(shape, axes, footprint, origins, reverse)
        if found is None or not found[0]:
            return whole(shape, shape)
        offsets, superset = found
        step = boxes(shape, offsets, [CONSTANT] * len(shape))
        mapping = functools.reduce(Chain, [step] * times)
        # False beyond the border erodes, true beyond it dilates: whatever the cells are.
        if bool(given["border_value"]) == reverse:
            mapping = functools.reduce(Chain, _inside(shape, offsets, times), mapping)
        return [(mapping, superset)]

    return rule


def _inside(shape: Shape, offsets: Sequence[Offsets], times: int) -> Iterator[Mapping]:
    """For each axis the output cells whose windows lie within the array, each by itself."""
    for axis, length in enumerate(shape):
        before = max(0, *(-box[axis][0] for box in offsets)) * times
        after = max(0, *(box[axis][1] for box in offsets)) * times
        inside = np.arange(before, max(length - after, before))
        if before or after:
            yield AlongAxis(
                shape, shape, axis, functools.partial(Ranges.of, inside, inside, inside)
            )


def _structure(structure: Any, count: int) -> AnyArray:
    """A structuring element; by default the cell and its neighbours on each axis."""
    if structure is not None:
        return np.asarray(structure).astype(np.bool_)
    middle = np.abs(np.indices((3,) * count) - 1).sum(axis=0)
    return np.asarray(middle <= 1)


def hit_or_miss(given: Given, value: AnyArray) -> Related:
    shape, axes = value.shape, axes_of(given)
    first = _structure(given["structure1"], len(axes))
    second = ~first if given["structure2"] is None else _structure(given["structure2"], len(axes))
    origins = per_axis(given["origin1"], len(axes))
    others = origins if given["origin2"] is None else per_axis(given["origin2"], len(axes))
    modes = [CONSTANT] * len(axes)
    related = [
        *footprint_of(shape, axes, first, origins, modes),
        *footprint_of(shape, axes, second, others, modes),
    ]
    return superset_of(related, "a structure that does not fit decides alone")


_EXTREME = f"{WINDOW} (of whole numbers beside a constant: superset)"
_WINDOWS = "the cells of both windows, one behind the other"
_TIMES = f"{WINDOW} (with a mask, or until nothing changes: superset, all cells)"
_OUTVOTED = f"{WINDOW}, some of which the border may outvote (of floats on one axis: all cells)"


def _row(rule: Rule, cells: str, kind: Kind = "exact") -> Row:
    return Row(by_rules(input=rule), kind, cells)


_OPENED, _CLOSED = chained((eroded, dilated)), chained((dilated, eroded))
_ERODED, _DILATED = binary(reverse=False), binary(reverse=True)
_SPREADING = Row(known_shape, "superset", "all cells: how far it goes depends on them")

TABLE: dict[str, Row] = {
    **dict.fromkeys(["minimum_filter1d", "maximum_filter1d"], _row(extreme_1d, _EXTREME)),
    **dict.fromkeys(["minimum_filter", "maximum_filter", "grey_erosion"], _row(eroded, _EXTREME)),
    "grey_dilation": _row(dilated, _EXTREME),
    **dict.fromkeys(["median_filter", "rank_filter", "percentile_filter"], _row(ranked, _OUTVOTED, "superset")),
    "grey_opening": _row(_OPENED, _WINDOWS, "superset"),
    "grey_closing": _row(_CLOSED, _WINDOWS, "superset"),
    "white_tophat": _row(together((_OPENED, itself)), f"{_WINDOWS}, and the cell itself", "superset"),
    "black_tophat": _row(together((_CLOSED, itself)), f"{_WINDOWS}, and the cell itself", "superset"),
    "morphological_gradient": _row(together((eroded, dilated)), "the cells of both windows (of whole numbers beside a constant: superset)"),
    "morphological_laplace": _row(together((eroded, dilated, itself)), "the cells of both windows, and the cell itself (of whole numbers beside a constant: superset)"),
    "binary_erosion": _row(_ERODED, _TIMES),
    "binary_dilation": _row(_DILATED, _TIMES),
    "binary_opening": _row(chained((_ERODED, _DILATED)), _WINDOWS, "superset"),
    "binary_closing": _row(chained((_DILATED, _ERODED)), _WINDOWS, "superset"),
    "binary_hit_or_miss": _row(hit_or_miss, "the cells of both structures", "superset"),
    **dict.fromkeys(["binary_propagation", "binary_fill_holes", "watershed_ift"], _SPREADING),
}  # fmt: skip
