"""Convolutions of ``scipy.signal``: windows of either operand."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from lineage_arrays.cells import Shape
from lineage_arrays.mappings import Boxes, Chain, Mapping, Span
from lineage_arrays.scipy_functions.footprints import (
    WEIGHTS,
    footprint_of,
    superset_of,
    whole,
    whole_numbers,
)
from lineage_arrays.scipy_functions.orders import NAN_ORDER, OUTVOTED, carries_on
from lineage_arrays.scipy_functions.rules import Given, Related, Row, Rule, by_rules
from lineage_arrays.scipy_functions.windows import CONSTANT, boxes
from lineage_arrays.workflow import AnyArray

KERNEL = "SciPy multiplies the kernel with zeros beyond the border, and NaN shows through them"
BY_FFT = "a Fourier transform spreads rounding, and NaN, over all cells; method='direct' is exact"


def convolved(side: int, reverse: bool) -> Rule:
    """One operand of ``convolve``; of ``correlate`` with ``reverse``, where the second one is turned round."""

    def rule(given: Given, value: AnyArray) -> Related:
        source = given.shape(("in1", "in2")[side])
        if not _directly(given, reverse):
            return whole(source, value.shape, BY_FFT)
        return _windows(given, side, reverse, value.shape)

    return rule


def _directly(given: Given, reverse: bool) -> bool:
    """Whether SciPy computes by the definition, and not by a Fourier transform."""
    if given["method"] != "auto":
        return bool(given["method"] == "direct")
    choose = import_module("scipy.signal").choose_conv_method
    first, second = given.array("in1"), given.array("in2")
    if not first.ndim:
        return True
    # SciPy exchanges the operands where the second one is larger: either way it must choose the same.
    chosen = {choose(first, second, given["mode"]), choose(second, first, given["mode"])}
    return chosen == {"direct"}


def _windows(given: Given, side: int, reverse: bool, target: Shape) -> Related:
    shapes = given.shape("in1"), given.shape("in2")
    mode = given["mode"]
    source, other = shapes[side], shapes[1 - side]
    if mode not in ("full", "same", "valid") or len(source) != len(target):
        return whole(source, target)
    if side == _kernel(given) and given.array(("in1", "in2")[side]).dtype.kind not in "biu":
        return whole(source, target, KERNEL)
    spans = []
    for axis, (length, size) in enumerate(zip(source, other, strict=True)):
        # The full result begins where the operands touch.
        middle = _middle(given, shapes[1][axis])
        skipped = {"full": 0, "same": middle, "valid": min(length, size) - 1}[mode]
        spans.append(Span(skipped - size + 1, skipped, axis, 1, 1))
    mapping: Mapping = Boxes(source, target, tuple(spans))
    other_values = given.array(("in1", "in2")[1 - side])
    lost = whole_numbers(given, ("in1", "in2")[side]) and not other_values.all()
    if reverse and side == 1:
        turned = [Span.point(axis, -1, length - 1) for axis, length in enumerate(source)]
        mapping = Chain(Boxes(source, source, tuple(turned)), mapping)
    return [(mapping, WEIGHTS if lost else "")]


def _middle(given: Given, size: int) -> int:
    """How far the result of mode ``same`` begins behind the full one."""
    return size // 2 if given.call.name == "signal.correlate2d" else (size - 1) // 2


def _kernel(given: Given) -> int | None:
    """Which operand SciPy takes for the kernel, and lays over zeros beyond the border of the other; None where NumPy computes."""
    first, second = given.shape("in1"), given.shape("in2")
    mode = given["mode"]
    if len(first) == 1 and (mode != "same" or first >= second):
        return None
    if mode == "same":
        return 1
    larger = (
        np.prod(second) > np.prod(first) if mode == "full" else any(map(int.__lt__, first, second))
    )
    return 0 if larger else 1


def convolved_2d(reverse: bool) -> Rule:
    """The first operand of ``convolve2d`` and ``correlate2d``, at whose border the array is continued."""

    def rule(given: Given, value: AnyArray) -> Related:
        image, kernel = given.shape("in1"), given.shape("in2")
        if given["boundary"] == "fill":
            return _windows(given, 0, reverse, value.shape)
        if any(size > length for length, size in zip(image, kernel, strict=True)):
            return whole(image, value.shape)
        return _continued(given, image, kernel, value.shape)

    return rule


def _continued(given: Given, image: Shape, kernel: Shape, target: Shape) -> Related:
    mode = given["mode"]
    offsets = []
    for size in kernel:
        skipped = {"full": 0, "same": _middle(given, size), "valid": size - 1}[mode]
        offsets.append((skipped - size + 1, skipped))
    modes = ["wrap" if given["boundary"] in ("wrap", "circular") else "reflect"] * 2
    lost = whole_numbers(given, "in1") and not (given.array("in2") > 0).all()
    return [(boxes(image, [tuple(offsets)], modes, target), WEIGHTS if lost else "")]


def medians(name: str) -> Rule:
    """``medfilt`` and ``medfilt2d``: windows that are filled with zeros at the border."""

    def rule(given: Given, value: AnyArray) -> Related:
        values = given.array(name)
        size: Any = 3 if given["kernel_size"] is None else given["kernel_size"]
        sizes = [int(number) for number in np.broadcast_to(size, (values.ndim,))]
        return _windows_in_zeros(values, value, np.ones(sizes, np.bool_))

    return rule


def of_domain(given: Given, value: AnyArray) -> Related:
    """``order_filter``: the cells where the domain is not zero."""
    return _windows_in_zeros(given.array("a"), value, given.array("domain").astype(np.bool_))


def _windows_in_zeros(values: AnyArray, value: AnyArray, footprint: AnyArray) -> Related:
    if carries_on(values, footprint):
        return whole(values.shape, value.shape, NAN_ORDER)
    if not values.ndim or footprint.ndim != values.ndim:
        return whole(values.shape, value.shape)
    axes = range(values.ndim)
    modes = [CONSTANT] * values.ndim
    return superset_of(
        footprint_of(values.shape, axes, footprint, [0] * values.ndim, modes), OUTVOTED
    )


_WINDOW = "the window of either operand"
_DIRECT = f"{_WINDOW} (of the kernel over several axes: superset, all cells; by Fourier transform, which method='auto' may choose: superset, all cells)"

TABLE: dict[str, Row] = {
    "convolve": Row(by_rules(in1=convolved(0, False), in2=convolved(1, False)), "exact", _DIRECT),
    "correlate": Row(by_rules(in1=convolved(0, True), in2=convolved(1, True)), "exact", _DIRECT),
    "convolve2d": Row(by_rules(in1=convolved_2d(False)), "exact", "the window; of the second operand superset, all cells"),
    "correlate2d": Row(by_rules(in1=convolved_2d(True)), "exact", "the window; of the second operand superset, all cells"),
    "medfilt": Row(by_rules(volume=medians("volume")), "superset", "the cells of the window, some of which the zeros at the border may outvote (of floats on one axis: all cells)"),
    "medfilt2d": Row(by_rules(input=medians("input")), "superset", "the cells of the window, some of which the zeros at the border may outvote"),
    "order_filter": Row(by_rules(a=of_domain), "superset", "the cells of the domain, some of which the zeros at the border may outvote (of floats on one axis: all cells)"),
}  # fmt: skip
