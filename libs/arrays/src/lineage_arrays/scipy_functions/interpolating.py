"""Interpolation of ``scipy.ndimage``: which cells a spline takes is found out from SciPy itself."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from lineage_arrays.axis_mappings import AlongAxis, Ranges
from lineage_arrays.calls import Call, Result, Results, as_array, frozen, plain
from lineage_arrays.cells import Shape
from lineage_arrays.mappings import Boxes, Chain, Gather, Mapping, SamePositions, Span, along_axis
from lineage_arrays.scipy_functions.footprints import exactly, per_axis, whole
from lineage_arrays.scipy_functions.rules import (
    Given,
    Related,
    Row,
    by_rules,
    given,
    inputs_of,
    known_shape,
)
from lineage_arrays.workflow import AnyArray

PREFILTER = "the spline's filter reaches all cells, the far ones ever less; order=1, or prefilter=False, reaches few"
NEARBY = "which of the cells nearby a spline takes is not followed; order=0 is exact"
LONG_AXIS = "which cells of so long an axis a spline takes is not followed; order=0 is exact"
PROBED_MAX = 4096
"""Cells of an axis up to which each is tried."""


def moved(of_call: Given, value: AnyArray) -> Related:
    """Of order 0: the one cell that it is, by the same call over positions."""
    source = of_call.shape("input")
    function = of_call.call.function
    arguments = frozen(
        {
            name: plain(argument)
            for name, argument in of_call.raw.items()
            if name not in ("input", "output", "cval") and argument is not None
        }
    )

    def index() -> AnyArray:
        positions = np.arange(1.0, np.prod(source) + 1).reshape(source)
        again = function(positions, output=np.float64, cval=0.0, **arguments)
        return np.asarray(np.rint(again), np.int64)

    return exactly(Gather(source, value.shape, index))


def _prefiltered(of_call: Given) -> bool:
    return int(of_call["order"]) > 1 and bool(of_call["prefilter"])


def separable(name: str) -> Callable[[Given, AnyArray], Related]:
    """``zoom`` and ``shift``: each axis by itself.

    Args:
        name: of the parameter that has a number for each axis.
    """

    def rule(of_call: Given, value: AnyArray) -> Related:
        source = of_call.shape("input")
        if int(of_call["order"]) == 0:
            return moved(of_call, value)
        if _prefiltered(of_call):
            return whole(source, value.shape, PREFILTER)
        if max(source) > PROBED_MAX:
            return whole(source, value.shape, LONG_AXIS)
        numbers = [float(number) for number in per_axis(of_call[name], len(source))]
        options = {
            option: of_call[option]
            for option in ("order", "mode", "grid_mode")
            if of_call[option] is not None
        }
        # SciPy copies where all numbers are one, unless it is told that a prefilter went before.
        options["prefilter"] = all(number == 1 for number in numbers) and bool(of_call["prefilter"])
        mark = 1.0 if of_call.array("input").dtype.kind in "biu" else np.nan
        mapping: Mapping = SamePositions(source, source)
        for axis, number in enumerate(numbers):
            inner = mapping.target
            target = (*inner[:axis], value.shape[axis], *inner[axis + 1 :])
            line = functools.partial(of_call.call.function, **{name: number, **options}, cval=0.0)
            ranges = functools.partial(probed, line, source[axis], mark)
            mapping = Chain(mapping, AlongAxis(inner, target, axis, ranges))
        return exactly(mapping)

    return rule


def probed(function: Callable[[AnyArray], AnyArray], length: int, mark: float) -> Ranges:
    """Which cells of a line a linear function combines: each is marked in turn, and where the mark shows is seen.

    Args:
        function: of a line.
        length: of the line.
        mark: NaN, which shows through a weight of zero, too; or a number, which does not.
    """
    outputs, inputs = [], []
    for at in range(length):
        line = np.zeros(length)
        line[at] = mark
        seen = function(line)
        outputs.append(np.flatnonzero(np.isnan(seen) | (seen != 0)))
        inputs.append(np.full(len(outputs[-1]), at))
    at_outputs = np.concatenate(outputs) if outputs else np.empty(0, np.int64)
    at_inputs = np.concatenate(inputs) if inputs else np.empty(0, np.int64)
    return Ranges.of(at_outputs, at_inputs, at_inputs)


def warped(of_call: Given, value: AnyArray) -> Related:
    """``rotate`` and ``affine_transform``."""
    if int(of_call["order"]) == 0:
        return moved(of_call, value)
    reason = PREFILTER if _prefiltered(of_call) else NEARBY
    source = of_call.shape("input")
    if of_call["axes"] is None or len(source) == 2:
        return whole(source, value.shape, reason)
    plane = {int(axis) % len(source) for axis in of_call["axes"]}
    if _prefiltered(of_call):
        # The filter goes over all axes.
        return whole(source, value.shape, reason)
    return [(over(source, value.shape, plane), reason)]


def over(source: Shape, target: Shape, axes: set[int]) -> Mapping:
    """All cells along some axes, at the same coordinate on the others."""
    return along_axis(source, target, {axis: Span.all(source[axis]) for axis in axes})


def mapped(call: Call) -> Result | Results:
    """``map_coordinates``: the cells at the coordinates, and the coordinates' own."""
    of_call = given(call)
    value = as_array(of_call.result)

    def of_coordinates(of_call: Given, value: AnyArray) -> Related:
        shape = of_call.shape("coordinates")
        spans = (Span.all(shape[0]), *(Span.point(axis) for axis in range(value.ndim)))
        return exactly(Boxes(shape, value.shape, spans))

    rules = {"input": warped, "coordinates": of_coordinates}
    return Result(value, inputs_of(of_call, rules, value))


def spline(of_call: Given, value: AnyArray) -> Related:
    """``spline_filter1d``: the line."""
    source = of_call.shape("input")
    if int(of_call["order"]) < 2:
        return exactly(SamePositions(source, value.shape))
    return [(over(source, value.shape, {of_call.axis("input")}), PREFILTER)]


_LOCAL = "all cells, as the prefilter reaches them (exact of order 0: the one cell that it is; of order 1, or without a prefilter: the cells of the spline on each axis)"
_NEAREST = "all cells (exact of order 0: the one cell that it is)"

TABLE: dict[str, Row] = {
    "zoom": Row(by_rules(input=separable("zoom")), "superset", _LOCAL),
    "shift": Row(by_rules(input=separable("shift")), "superset", _LOCAL),
    "rotate": Row(by_rules(input=warped), "superset", "all cells, of order 1 the plane of the two axes (exact of order 0: the one cell that it is)"),
    "affine_transform": Row(by_rules(input=warped), "superset", _NEAREST),
    "map_coordinates": Row(mapped, "superset", f"{_NEAREST}; of the coordinates those of the cell, exact"),
    "spline_filter1d": Row(by_rules(input=spline), "superset", "the cells on the axis (of order 0 and 1: exact, the cell itself)"),
    **dict.fromkeys(
        ["distance_transform_bf", "distance_transform_cdt", "distance_transform_edt"],
        Row(known_shape, "superset", "all cells: the nearest of them decides"),
    ),
    "spline_filter": Row(known_shape, "superset", "all cells"),
}  # fmt: skip
