"""Functions whose result has a cell for each cell of their operands, as broadcasting lays them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lineage_arrays.calls import Call, Handler, Result, Results, as_array, no_operands
from lineage_arrays.mappings import AllToAll, Gather, cell_by_cell, leading_axes
from lineage_arrays.workflow import AnyArray, Input, Operand


def by_cell(count: int, names: tuple[str, ...], superset: str = "") -> Handler:
    """A function of at most ``count`` arrays in front; the rest is constant."""

    def handler(call: Call) -> Result | Results:
        if call.kwargs.get("out") is not None or call.kwargs.get("where", True) is not True:
            raise call.refuse("out= and where= are not traced", "assign the result: out[...] = ...")
        arrays = [*call.args[:count], *(call.kwargs[name] for name in names if name in call.kwargs)]
        rest = {key: value for key, value in call.kwargs.items() if key not in names}
        no_operands(call, call.args[count:], rest)
        result = call.run()
        if isinstance(result, tuple):
            return Results([_laid(arrays, as_array(value), superset) for value in result])
        return _laid(arrays, as_array(result), superset)

    return handler


def _laid(arrays: Sequence[Any], value: AnyArray, superset: str) -> Result:
    return Result(
        value,
        [
            Input(operand, cell_by_cell(operand.current.shape, value.shape), superset)
            for operand in arrays
            if isinstance(operand, Operand)
        ],
    )


def where(call: Call) -> Result | Results:
    """``where`` of three arguments: each cell from the condition's and from the one that it chose."""
    if call.kwargs or len(call.args) != 3:
        raise call.refuse("two arguments, or named ones", "np.where(condition, x, y)")
    condition, if_true, if_false = call.args
    value = call.array()
    inputs = []
    if isinstance(condition, Operand):
        inputs.append(Input(condition, cell_by_cell(condition.current.shape, value.shape)))
    # Values are never written to, and a constant condition may be, by the program.
    condition_values = condition.current if isinstance(condition, Operand) else np.array(condition)
    for side, chosen in ((if_true, True), (if_false, False)):
        if isinstance(side, Operand):
            inputs.append(Input(side, _where_chosen(side, condition_values, value.shape, chosen)))
    return Result(value, inputs)


def _where_chosen(
    side: Operand, condition_values: AnyArray, shape: tuple[int, ...], chosen: bool
) -> Gather:
    source = side.current.shape

    def index() -> AnyArray:
        positions = np.arange(1, side_size + 1).reshape(source)
        is_chosen = np.broadcast_to(condition_values.astype(np.bool_) == chosen, shape)
        return np.where(is_chosen, np.broadcast_to(positions, shape), 0)

    side_size = side.current.size
    return Gather(source, shape, index)


def lookup(first: str, superset: str = "") -> Handler:
    """A function that looks each cell of one array up among all of others: ``isin``, ``interp``, ``digitize``."""

    def handler(call: Call) -> Result | Results:
        values = call.argument(0, first)
        others = [*call.args[1:], *(value for key, value in call.kwargs.items() if key != first)]
        value = call.array()
        inputs = []
        if isinstance(values, Operand):
            inputs.append(Input(values, cell_by_cell(values.current.shape, value.shape)))
        for argument in others:
            if isinstance(argument, Operand):
                inputs.append(
                    Input(argument, AllToAll(argument.current.shape, value.shape), superset)
                )
            else:
                no_operands(call, argument)
        return Result(value, inputs)

    return handler


def in_sorted(call: Call) -> Result | Results:
    """``searchsorted``: each value, among all cells of the sorted array."""
    array, values = call.argument(0, "a"), call.argument(1, "v")
    no_operands(call, call.args[2:], call.kwargs.get("side"), call.kwargs.get("sorter"))
    value = call.array()
    inputs = []
    if isinstance(array, Operand):
        inputs.append(Input(array, AllToAll(array.current.shape, value.shape), AMONG_ALL))
    if isinstance(values, Operand):
        inputs.append(Input(values, cell_by_cell(values.current.shape, value.shape)))
    return Result(value, inputs)


AMONG_ALL = "all cells that a value is looked up among"


def cast(call: Call) -> Result:
    """``astype``: cells of the new type may be arrays themselves."""
    value = call.array()
    return Result(
        value, [Input(one, leading_axes(one.current.shape, value.shape)) for one in call.operands]
    )


TABLE: dict[Callable[..., Any], Handler] = {
    **{
        function: by_cell(1, ("a", "x", "val", "z", "p", "m"))
        for function in (
            np.real, np.imag, np.angle, np.round, np.around, np.fix, np.nan_to_num, np.isposinf, np.isneginf, np.isreal,
            np.iscomplex, np.sinc, np.i0,
        )
    },
    np.astype: cast,
    np.clip: by_cell(3, ("a", "a_min", "a_max", "min", "max")),
    np.isclose: by_cell(2, ("a", "b")),
    np.isin: lookup("element", AMONG_ALL),
    np.interp: lookup("x", AMONG_ALL),
    np.digitize: lookup("x", AMONG_ALL),
    np.searchsorted: in_sorted,
}  # fmt: skip
