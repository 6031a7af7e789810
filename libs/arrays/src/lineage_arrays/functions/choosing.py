"""Functions whose values say which cell goes where: sorts, masks, places, groups of equal cells.

The witness is the cell that was chosen, the influence all that took part. Who chose is computed again, from the operand
as it was, when a trace requests it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lineage_arrays.calls import Call, Handler, Result, Results, frozen, no_operands
from lineage_arrays.cells import Shape
from lineage_arrays.functions import elementwise
from lineage_arrays.functions.reductions import only_operand
from lineage_arrays.mappings import (
    AllToAll,
    Choice,
    Gather,
    Inverse,
    Mapping,
    SamePositions,
    Span,
    along_axis,
    cell_by_cell,
)
from lineage_arrays.workflow import FIRST_AXIS, NO_AXES, AnyArray, Input, Operand


def gather_by_choice(source: Shape, target: Shape, index: Callable[[], AnyArray]) -> Choice:
    """The cells that an index of positions plus one chose, among all."""
    return Choice(Gather(source, target, index), AllToAll(source, target))


def sorting(call: Call) -> Result | Results:
    """``sort`` and ``argsort``: the cell that came to this place on the axis (of equal ones in their order)."""
    operand = only_operand(call, call.argument(0, "a"))
    if call.argument(3, "order") is not None:
        raise call.refuse("order= is not traced", "np.lexsort over the fields says the same")
    axis = call.argument(1, "axis", -1)
    no_operands(call, axis)
    values = operand.current
    if values.dtype.names is not None:
        raise call.refuse("structured cells", "np.argsort of one field, then x[order]")
    value = call.array()
    # The permutation itself is the result of argsort: equal cells stand as NumPy put them.
    order = value if call.function is np.argsort else None
    if axis is None:
        flat = (values.size,)

        def flat_index() -> AnyArray:
            chosen = np.argsort(values, axis=None, kind="stable") if order is None else order
            return chosen + 1

        return Result(value, [Input(operand, gather_by_choice(values.shape, flat, flat_index))])
    if not values.ndim:
        return Result(value, [Input(operand, AllToAll((), value.shape))])
    at = int(axis) % values.ndim

    def index() -> AnyArray:
        chosen = np.argsort(values, axis=at, kind="stable") if order is None else order
        positions = np.arange(1, values.size + 1).reshape(values.shape)
        return np.take_along_axis(positions, chosen, at)

    lane = along_axis(values.shape, value.shape, {at: Span.all(values.shape[at])})
    return Result(value, [Input(operand, Choice(Gather(values.shape, value.shape, index), lane))])


def where(call: Call) -> Result | Results:
    """``where``: of one argument it is ``nonzero``."""
    if len(call.args) == 1 and not call.kwargs:
        return places(Call(np.nonzero, call.args, {}))
    return elementwise.where(call)


def places(call: Call) -> Result | Results:
    """``nonzero``, ``flatnonzero`` and ``argwhere``: the cell whose place it is."""
    operand = only_operand(call, call.argument(0, "a"))
    result = call.run()
    values = operand.current

    def index() -> AnyArray:
        return np.flatnonzero(values) + 1

    if call.function is np.argwhere:
        value = np.asarray(result)
        wide = gather_by_choice(
            values.shape, value.shape, lambda: np.repeat(index()[:, None], value.shape[1], axis=1)
        )
        return Result(value, [Input(operand, wide)], FIRST_AXIS)
    parts = result if isinstance(result, tuple) else (result,)
    results = [
        Result(
            part, [Input(operand, gather_by_choice(values.shape, part.shape, index))], FIRST_AXIS
        )
        for part in parts
    ]
    return Results(results) if isinstance(result, tuple) else results[0]


def distinct(call: Call) -> Result | Results:
    """``unique`` of all cells, without further results: all cells that have the value."""
    operand = only_operand(call, call.argument(0, "ar" if "ar" in call.kwargs else "x"))
    wider = {"return_index", "return_inverse", "return_counts", "axis"} & {
        name for name, option in call.kwargs.items() if option not in (False, None)
    }
    if wider or len(call.args) > 1:
        raise call.refuse(
            "further results, or an axis", "np.unique(x) alone; counts are np.bincount's"
        )
    value = call.array()
    values = operand.current

    def index() -> AnyArray:
        again, inverse = np.unique(values, return_inverse=True)
        if again.shape != value.shape:
            raise AssertionError("unique gives other values than before")
        return inverse.reshape(values.shape) + 1

    # Each input cell goes to one output cell: the other way round.
    groups = Inverse(Gather(value.shape, values.shape, index))
    choice = Choice(groups, AllToAll(values.shape, value.shape))
    return Result(value, [Input(operand, choice)], FIRST_AXIS)


def counting(call: Call) -> Result | Results:
    """``bincount``: all cells that have the number, and their weights."""
    operand, weights = call.argument(0, "x"), call.argument(1, "weights")
    value = call.array()
    numbers = operand.current if isinstance(operand, Operand) else np.array(operand)
    inputs = []
    for argument, chooses in ((operand, True), (weights, False)):
        if isinstance(argument, Operand):
            groups: Mapping = Inverse(
                Gather(
                    value.shape, argument.current.shape, lambda: np.asarray(numbers, np.int64) + 1
                )
            )
            if chooses:
                groups = Choice(groups, AllToAll(argument.current.shape, value.shape))
            inputs.append(Input(argument, groups))
        else:
            no_operands(call, argument)
    return Result(value, inputs, FIRST_AXIS if isinstance(operand, Operand) else NO_AXES)


def taking(call: Call) -> Result | Results:
    """``take`` and ``take_along_axis``: the cell that the index names, and the index's own."""
    along = call.function is np.take_along_axis
    array = call.argument(0, "arr" if along else "a")
    indices = call.argument(1, "indices")
    axis = call.argument(2, "axis", -1 if along else None)
    if call.kwargs.get("out") is not None or call.kwargs.get("mode", "raise") != "raise":
        raise call.refuse("out= and mode= are not traced", "index: x[indices]")
    if not along and len(call.args) > 3:
        raise call.refuse("out= and mode= are not traced", "index: x[indices]")
    no_operands(call, axis)
    value = call.array()
    numbers = indices.current if isinstance(indices, Operand) else frozen(indices)
    inputs = []
    if isinstance(array, Operand):
        shape, size = array.current.shape, array.current.size

        def index() -> AnyArray:
            positions = np.arange(1, size + 1).reshape(shape)
            function = np.take_along_axis if along else np.take
            return np.asarray(function(positions, numbers, axis))

        inputs.append(Input(array, Gather(shape, value.shape, index)))
    else:
        no_operands(call, array)
    if isinstance(indices, Operand):
        inputs.append(Input(indices, _of_indices(call, indices, axis, along, value.shape)))
    else:
        no_operands(call, indices)
    return Result(value, inputs)


def _of_indices(
    call: Call, indices: Operand, axis: int | None, along: bool, target: Shape
) -> Mapping:
    shape = indices.current.shape
    if along:
        if axis is None:
            return SamePositions(shape, target)
        return cell_by_cell(shape, target)
    array = call.argument(0, "a")
    ndim = np.ndim(array.current if isinstance(array, Operand) else array)
    if axis is None or not ndim:
        return SamePositions(shape, target)
    at, size = int(axis) % ndim, indices.current.size

    def index() -> AnyArray:
        positions = np.arange(1, size + 1).reshape(shape)
        trailing_axes = len(target) - at - len(shape)
        return np.broadcast_to(positions.reshape(shape + (1,) * trailing_axes), target)

    return Gather(shape, target, index)


def extracting(call: Call) -> Result | Results:
    """``extract`` and ``compress`` without an axis: the cell of the array, and the one of the mask that chose it."""
    condition, array = call.args[:2]
    if len(call.args) > 2 or any(value is not None for value in call.kwargs.values()):
        raise call.refuse("an axis, or out=", "x[:, mask] on the axis")
    value = call.array()
    mask = condition.current if isinstance(condition, Operand) else np.array(condition)

    def index() -> AnyArray:
        return np.flatnonzero(mask) + 1

    inputs = []
    if isinstance(array, Operand):
        inputs.append(Input(array, Gather(array.current.shape, value.shape, index)))
    if isinstance(condition, Operand):
        inputs.append(Input(condition, gather_by_choice(mask.shape, value.shape, index)))
    return Result(value, inputs, FIRST_AXIS if isinstance(condition, Operand) else NO_AXES)


_COMPLEX = (np.complex64, np.complex128)
"""Types that ``numpy.emath`` leaves as they are, whatever the values."""


def real_or_complex(count: int, names: tuple[str, ...]) -> Handler:
    """A function of ``numpy.emath``, cell by cell: one cell outside of the real function's domain makes all cells complex, and their last digits others.

    Args:
        count: of arrays in front.
        names: of the parameters that take them.
    """
    lay = elementwise.by_cell(count, names)

    def handler(call: Call) -> Result | Results:
        laid = lay(call)
        if isinstance(laid, Results):
            raise AssertionError("one array is the result")
        return Result(
            laid.value, [_typed_by_values(part, laid.value.shape) for part in laid.inputs]
        )

    return handler


def _typed_by_values(part: Input, target: Shape) -> Input:
    array = part.operand.current
    if array.dtype.type in _COMPLEX:
        return part
    return part._replace(mapping=Choice(part.mapping, AllToAll(array.shape, target)))


TABLE: dict[Callable[..., Any], Handler] = {
    **dict.fromkeys(
        (
            np.emath.sqrt, np.emath.log, np.emath.log2, np.emath.log10, np.emath.arccos, np.emath.arcsin,
            np.emath.arctanh,
        ),
        real_or_complex(1, ("x",)),
    ),
    np.emath.power: real_or_complex(2, ("x", "p")),
    np.emath.logn: real_or_complex(2, ("n", "x")),
    np.sort: sorting,
    np.argsort: sorting,
    np.where: where,
    np.nonzero: places,
    np.flatnonzero: places,
    np.argwhere: places,
    np.unique: distinct,
    np.unique_values: distinct,
    np.bincount: counting,
    np.take: taking,
    np.take_along_axis: taking,
    np.extract: extracting,
    np.compress: extracting,
}  # fmt: skip
