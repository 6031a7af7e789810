"""Filters and transforms of signals along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineage_arrays.axis_mappings import AlongAxis, Ranges
from lineage_arrays.functions.transforms import NO_NARROWER
from lineage_arrays.mappings import SamePositions, Span, along_axis
from lineage_arrays.scipy_functions.footprints import exactly, linear, whole
from lineage_arrays.scipy_functions.interpolating import over
from lineage_arrays.scipy_functions.rules import (
    Given,
    Related,
    Row,
    Rule,
    by_rules,
    inputs_of,
)
from lineage_arrays.scipy_functions.windows import windows
from lineage_arrays.workflow import AnyArray, Input


def line(name: str, superset: str = NO_NARROWER) -> Rule:
    """All cells on the axis."""

    def rule(given: Given, value: AnyArray) -> Related:
        source = given.shape(name)
        axis = -1 if given["axis"] is None else given["axis"]
        at = int(axis) % max(len(source), 1)
        aside = [(*shape[:at], *shape[at + 1 :]) for shape in (source, value.shape)]
        if len(source) != value.ndim or aside[0] != aside[1]:
            return whole(source, value.shape)
        return [(over(source, value.shape, {at}), superset)]

    return rule


def recursive(given: Given, value: AnyArray) -> Related:
    """``lfilter`` and ``sosfilt``: all cells up to this one; without feedback those of the window."""
    source, axis = given.shape("x"), given.axis("x")
    if given["a"] is not None and np.size(given["a"]) == 1:
        span = Span(1 - np.size(given["b"]), 0, axis, 1, 1)
        return exactly(along_axis(source, value.shape, {axis: span}))
    return exactly(along_axis(source, value.shape, {axis: Span(0, 0, axis, 0, 1)}))


def smoothed(given: Given, value: AnyArray) -> Related:
    """``savgol_filter``: the window; in mode ``interp`` near the ends the first, or last, window."""
    source, axis = given.shape("x"), given.axis("x")
    size, mode = int(given["window_length"]), given["mode"]
    origin = -(size % 2 == 0)
    if mode != "interp":
        return exactly(windows(source, [(axis, size, origin, mode)]))
    half, length = size // 2, source[axis]

    def ranges() -> Ranges:
        outputs = np.arange(length)
        first = np.maximum(outputs - half - origin, 0)
        first = np.where(
            outputs < half, 0, np.where(outputs >= length - half, length - size, first)
        )
        return Ranges.of(outputs, first, first + size - 1)

    return exactly(AlongAxis(source, value.shape, axis, ranges))


def resampled(given: Given, value: AnyArray) -> Related:
    """``upfirdn``: the cells that the filter lies over."""
    if given["mode"] != "constant":
        return line("x")(given, value)
    return _under_filter(
        given, value, given.shape("h")[-1], int(given["up"]), int(given["down"]), 0, 0
    )


def resampled_by_ratio(given: Given, value: AnyArray) -> Related:
    """``resample_poly``, whose filter's middle lies over the cell."""
    up, down = int(given["up"]), int(given["down"])
    up, down = up // np.gcd(up, down), down // np.gcd(up, down)
    if up == down == 1:
        return exactly(SamePositions(given.shape("x"), value.shape))
    if given["padtype"] != "constant":
        return line("x")(given, value)
    window: Any = given["window"]
    is_filter = isinstance(window, list | np.ndarray)
    size = len(window) if is_filter else 20 * max(up, down) + 1
    half = (size - 1) // 2
    before = down - half % down
    removed = (half + before) // down
    return _under_filter(given, value, size, up, down, before, removed)


def _under_filter(
    given: Given, value: AnyArray, size: int, up: int, down: int, before: int, removed: int
) -> Related:
    """The output cell ``o`` is the filter over the cells ``i`` with ``0 <= (o + removed) * down - before - i * up < size``.

    For floats it is filled with zeros before it, up to the last output, and up to a multiple of ``up``: NaN shows through these.
    """
    source, axis = given.shape("x"), given.axis("x")
    through_zeros = given.array("x").dtype.kind not in "biu"
    count = value.shape[axis]

    def ranges() -> Ranges:
        outputs = np.arange(count)
        at = (outputs + removed) * down - (0 if through_zeros else before)
        longest = (count + removed - 1) * down + 1 - (source[axis] - 1) * up
        taps = -(-max(size + before, longest) // up) * up if through_zeros else size
        first = np.maximum(-((taps - 1 - at) // up), 0)
        return Ranges.of(outputs, first, np.minimum(at // up, source[axis] - 1))

    return exactly(AlongAxis(source, value.shape, axis, ranges))


def detrended(given: Given, value: AnyArray) -> Related:
    constant = str(given["type"]) in ("constant", "c")
    return line("data", "" if constant else NO_NARROWER)(given, value)


def _spectrum(of_call: Given, value: AnyArray) -> list[Input]:
    """Frequencies: not of the signal."""
    return inputs_of(of_call, {"x": lambda *_: [], "y": lambda *_: []}, value)


_LINE = "all cells on the axis"

TABLE: dict[str, Row] = {
    "lfilter": Row(by_rules(x=linear("x", recursive)), "exact", "the cells up to it on the axis, without feedback those of the window (of whole numbers: superset)"),
    "sosfilt": Row(by_rules(x=linear("x", recursive)), "exact", "the cells up to it on the axis (of whole numbers: superset)"),
    "savgol_filter": Row(by_rules(x=linear("x", smoothed)), "exact", "the cells of the window, at the ends of the axis of the first or last one (of whole numbers: superset)"),
    "upfirdn": Row(by_rules(x=linear("x", resampled)), "exact", "the cells that the filter lies over (of whole numbers: superset; of another mode than constant all cells on the axis)"),
    "resample_poly": Row(by_rules(x=linear("x", resampled_by_ratio)), "exact", "the cells that the filter lies over (of whole numbers: superset; of another padtype than constant all cells on the axis)"),
    "detrend": Row(by_rules(data=linear("data", detrended)), "exact", f"{_LINE} (of type linear, or of whole numbers: superset)"),
    **dict.fromkeys(["filtfilt", "sosfiltfilt", "decimate", "hilbert", "resample", "czt", "zoom_fft"], Row(by_rules(x=line("x")), "superset", _LINE)),
    **dict.fromkeys(["cspline1d", "qspline1d", "symiirorder1"], Row(by_rules(signal=line("signal")), "superset", _LINE)),
    "symiirorder2": Row(by_rules(input=line("input")), "superset", _LINE),
    **dict.fromkeys(
        ["periodogram", "welch", "csd", "coherence"],
        Row(by_rules(of_part=1, others=_spectrum, x=line("x"), y=line("y")), "superset", f"{_LINE}; of the frequencies none"),
    ),
}  # fmt: skip
