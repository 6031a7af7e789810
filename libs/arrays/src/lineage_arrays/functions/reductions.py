"""Functions that combine the cells along axes: sums, means, orders, extremes, running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lineage_arrays.calls import Call, Handler, Result, Results, axes_of, no_operands
from lineage_arrays.cells import Shape
from lineage_arrays.functions.rearranging import Layout
from lineage_arrays.mappings import (
    AllToAll,
    Boxes,
    Chain,
    Choice,
    Gather,
    Mapping,
    SamePositions,
    Span,
    along_axis,
    over_axes,
)
from lineage_arrays.workflow import AnyArray, Input, Operand


def only_operand(call: Call, argument: Any) -> Operand:
    """The one array of a call that may be traced.

    Raises:
        UntracedError: it is not.
    """
    if not isinstance(argument, Operand):
        raise call.refuse("the array itself is not traced", "trace it: flow.source(name, array)")
    return argument


def _refuse_parts(call: Call) -> None:
    if call.kwargs.get("out") is not None:
        raise call.refuse("out= is not traced", "assign the result: out[...] = ...")
    where = call.kwargs.get("where", True)
    if where is not True and where is not np._NoValue:
        raise call.refuse("where= is not traced", "np.where(...) first, or x[mask]")


def reduction(at: int = 1) -> Handler:
    """A function over ``axis``, its ``at``-th argument, with ``keepdims``."""

    def handler(call: Call) -> Result | Results:
        _refuse_parts(call)
        operand = only_operand(call, call.argument(0, "a" if "a" in call.kwargs else "x"))
        no_operands(
            call, call.args[1:], {k: v for k, v in call.kwargs.items() if k not in ("a", "x")}
        )
        value = call.array()
        return Result(value, [Input(operand, lanes(call, operand, value.shape, at))])

    return handler


def lanes(call: Call, operand: Operand, target: Shape, at: int) -> Boxes:
    """The cells along the axes of a call, for each cell of its result."""
    source = operand.current.shape
    axes = axes_of(call, call.argument(at, "axis"), len(source))
    keeps_axes = len(target) == len(source) and bool(axes)
    return over_axes(source, axes, target, keepdims=keeps_axes)


def quantiles(call: Call) -> Result | Results:
    """``quantile`` and its like: the requested quantiles come first among the axes of the result."""
    _refuse_parts(call)
    if call.kwargs.get("weights") is not None:
        raise call.refuse("weights= is not traced", "without weights it is")
    operand = only_operand(call, call.argument(0, "a"))
    fractions = call.argument(1, "q")
    no_operands(call, fractions)
    value = call.array()
    before = np.ndim(fractions)
    inner = lanes(call, operand, value.shape[before:], 2)
    spans = tuple(
        span if span.axis is None else Span.point(span.axis + before) for span in inner.spans
    )
    return Result(value, [Input(operand, Boxes(operand.current.shape, value.shape, spans))])


def weighted(call: Call) -> Result | Results:
    """``average``, with weights or without."""
    if call.kwargs.get("returned") or len(call.args) > 3:
        raise call.refuse("returned=True is not traced", "sum the weights by itself")
    operand = only_operand(call, call.argument(0, "a"))
    weights = call.argument(2, "weights")
    value = call.array()
    mapping = lanes(call, operand, value.shape, 1)
    inputs = [Input(operand, mapping)]
    if isinstance(weights, Operand):
        if weights.current.shape != operand.current.shape:
            raise call.refuse(
                "weights of another shape", "np.broadcast_to them to the array's shape"
            )
        inputs.append(Input(weights, mapping))
    else:
        no_operands(call, weights)
    return Result(value, inputs)


def extreme(argwinner: Callable[..., Any]) -> Handler:
    """``max`` and its like: the first cell along the axes that has the value, of all those that were compared.

    Args:
        argwinner: the function that returns its index, such as ``argmax``.
    """

    def handler(call: Call) -> Result | Results:
        _refuse_parts(call)
        if call.argument(4, "initial", np._NoValue) is not np._NoValue:
            raise call.refuse("initial= may win over every cell", "np.maximum(x.max(), initial)")
        operand = only_operand(call, call.argument(0, "a"))
        value = call.array()
        compared = lanes(call, operand, value.shape, 1)
        axes = axes_of(call, call.argument(1, "axis"), operand.current.ndim)
        winner = _winner(operand.current, axes, argwinner, value.shape)
        return Result(value, [Input(operand, Choice(winner, compared))])

    return handler


def _winner(
    values: AnyArray, axes: Sequence[int], argwinner: Callable[..., Any], target: Shape
) -> Gather:
    def index() -> AnyArray:
        last_axes = range(-len(axes), 0)

        def laned(array: AnyArray) -> AnyArray:
            moved = np.moveaxis(array, axes, last_axes)
            return moved.reshape(*moved.shape[: moved.ndim - len(axes)], -1)

        if not axes:
            return np.arange(1, values.size + 1).reshape(target)
        lane = laned(values)
        at = np.expand_dims(argwinner(lane, axis=-1), -1)
        positions = laned(np.arange(1, values.size + 1).reshape(values.shape))
        return np.take_along_axis(positions, at, -1).reshape(target)

    return Gather(values.shape, target, index)


def nan_argwinner(argwinner: Callable[..., Any]) -> Callable[..., Any]:
    """As ``nanargmax``, but the first cell where all of them are NaN."""

    def first(lane: AnyArray, axis: int) -> AnyArray:
        nothing = np.isnan(lane).all(axis=axis, keepdims=True)
        return np.asarray(argwinner(np.where(nothing, 0, lane), axis=axis))

    return first


def running(flatten: bool = True) -> Handler:
    """``cumsum`` and its like: every cell up to this one on the axis. ``flatten``: over all cells where no axis is given."""

    def handler(call: Call) -> Result | Results:
        _refuse_parts(call)
        operand = only_operand(call, call.argument(0, "a" if flatten else "x"))
        value = call.array()
        source = operand.current.shape
        axis = call.argument(1, "axis") if flatten else call.kwargs.get("axis")
        no_operands(call, axis)
        begins = 0 if not call.kwargs.get("include_initial") else -1
        span = _up_to(begins)
        if axis is None and flatten:
            flat = (operand.current.size,)
            inner = along_axis(flat, value.shape, {0: _moving(span, 0)})
            return Result(value, [Input(operand, Chain(SamePositions(source, flat), inner))])
        if not source:
            return Result(value, [Input(operand, AllToAll(source, value.shape))])
        at = (0 if axis is None else int(axis)) % len(source)
        return Result(
            value, [Input(operand, along_axis(source, value.shape, {at: _moving(span, at)}))]
        )

    return handler


def _up_to(offset: int) -> Span:
    """0 to ``o + offset``."""
    return Span(0, offset, 0, 0, 1)


def _moving(span: Span, axis: int) -> Span:
    return Span(span.low, span.high, axis, span.low_scale, span.high_scale)


def differences(call: Call) -> Result | Results:
    """``diff``: of each cell and those behind it."""
    operand = only_operand(call, call.argument(0, "a"))
    no_operands(call, call.args[1:], {k: v for k, v in call.kwargs.items() if k != "a"})
    options = {"prepend", "append"} & set(call.kwargs)
    if len(call.args) > 3 or any(call.kwargs[name] is not np._NoValue for name in options):
        raise call.refuse("prepend= and append= are not traced", "np.concatenate them first")
    order = int(call.argument(1, "n", 1))
    axis = int(call.argument(2, "axis", -1)) % operand.current.ndim
    value = call.array()
    span = Span(0, order, axis, 1, 1)
    superset = (
        "of truth values only the ends are known to count"
        if order > 1 and operand.current.dtype == np.bool_
        else ""
    )
    return Result(
        value,
        [Input(operand, along_axis(operand.current.shape, value.shape, {axis: span}), superset)],
    )


def trace(call: Call) -> Result | Results:
    """``trace``: the sum over a diagonal."""
    operand = only_operand(call, call.argument(0, "a" if "a" in call.kwargs else "x"))
    if call.kwargs.get("out") is not None:
        raise call.refuse("out= is not traced", "assign the result: out[...] = ...")
    value = call.array()
    in_linalg = call.function is np.linalg.trace
    words = (
        {"offset": call.kwargs.get("offset", 0), "axis1": -2, "axis2": -1}
        if in_linalg
        else {
            name: call.argument(at, name, default)
            for at, (name, default) in enumerate(
                (("offset", 0), ("axis1", 0), ("axis2", 1)), start=1
            )
        }
    )
    no_operands(call, words)
    diagonal = operand.current.diagonal(**words).shape
    layout = Layout.of(operand.current)
    first = Gather(layout.shape, diagonal, lambda: layout.positions().diagonal(**words))
    mapping: Mapping = Chain(
        first, over_axes(diagonal, (len(diagonal) - 1,), value.shape, keepdims=False)
    )
    return Result(value, [Input(operand, mapping)])


TABLE: dict[Callable[..., Any], Handler] = {
    **dict.fromkeys(
        (
            np.sum, np.prod, np.mean, np.std, np.var, np.any, np.all, np.ptp, np.median, np.count_nonzero, np.nansum,
            np.nanprod, np.nanmean, np.nanstd, np.nanvar, np.nanmedian,
        ),
        reduction(),
    ),
    np.linalg.norm: reduction(2),
    np.linalg.vector_norm: reduction(),
    **dict.fromkeys((np.quantile, np.percentile, np.nanquantile, np.nanpercentile), quantiles),
    np.average: weighted,
    **dict.fromkeys((np.max, np.amax, np.argmax), extreme(np.argmax)),
    **dict.fromkeys((np.min, np.amin, np.argmin), extreme(np.argmin)),
    **dict.fromkeys((np.nanmax, np.nanargmax), extreme(nan_argwinner(np.nanargmax))),
    **dict.fromkeys((np.nanmin, np.nanargmin), extreme(nan_argwinner(np.nanargmin))),
    **dict.fromkeys((np.cumsum, np.cumprod, np.nancumsum, np.nancumprod), running()),
    **dict.fromkeys((np.cumulative_sum, np.cumulative_prod), running(flatten=False)),
    np.diff: differences,
    np.trace: trace,
    np.linalg.trace: trace,
}  # fmt: skip
