"""Universal functions (``add``, ``sin``, ``matmul``) and their methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineage_arrays.calls import Call, Result, Results, as_array
from lineage_arrays.functions.products import matmul_core, signature
from lineage_arrays.functions.reductions import extreme, reduction, running
from lineage_arrays.mappings import Boxes, Span, cell_by_cell
from lineage_arrays.workflow import Input, Operand

_PRODUCTS: dict[np.ufunc, str] = {
    np.matmul: "",
    np.vecdot: "k,k->",
    np.matvec: "ik,k->i",
    np.vecmat: "k,kj->j",
}


def universal(
    ufunc: np.ufunc, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Result | Results:
    """The outcome of a universal function's call, or of one of its methods.

    Args:
        ufunc: the function.
        method: ``__call__``, ``reduce``, ``accumulate``, ``outer`` or another of its methods.
        args: its operands.
        kwargs: what else it was given; no ``out``.

    Raises:
        UntracedError: the lineage of this call is not known.
    """
    function = ufunc if method == "__call__" else getattr(ufunc, method)
    call = Call(function, args, kwargs)
    if kwargs.get("where", True) is not True:
        raise call.refuse("where= is not traced", "np.where(mask, f(x), x)")
    if method == "__call__":
        return _called(ufunc, call)
    if ufunc.signature is not None or ufunc.nin != 2:
        raise call.refuse("not a function of two cells", "call it by itself")
    if method == "reduce":
        return _reduced(ufunc, call)
    if method == "accumulate":
        axis = call.argument(1, "axis", 0)
        return running()(Call(function, args[:1], {**kwargs, "axis": axis}))
    if method == "outer":
        return _outer(call)
    raise call.refuse("not traced", "np.add.reduce over slices, or x[indices] = ... say the same")


def _called(ufunc: np.ufunc, call: Call) -> Result | Results:
    if ufunc.signature is not None:
        core = _PRODUCTS.get(ufunc)
        if core is None or set(call.kwargs) - {"dtype", "casting"}:
            raise call.refuse(
                "a generalised function, or axes=, of which no mapping is known",
                "np.asarray the operands, and name what it gives by flow.source",
            )
        dims = [
            np.ndim(argument.value if isinstance(argument, Operand) else argument)
            for argument in call.args
        ]
        value = call.array()
        return signature(call, core or matmul_core(*dims), call.args, value)
    result = call.run()
    parts = [
        Result(
            as_array(value),
            [
                Input(argument, cell_by_cell(argument.value.shape, np.shape(value)))
                for argument in call.args
                if isinstance(argument, Operand)
            ],
        )
        for value in (result if isinstance(result, tuple) else (result,))
    ]
    return Results(parts) if isinstance(result, tuple) else parts[0]


def _reduced(ufunc: np.ufunc, call: Call) -> Result | Results:
    axis = call.argument(1, "axis", 0)
    words = {key: value for key, value in call.kwargs.items() if key != "axis"}
    if len(call.args) > 2:
        raise call.refuse("arguments by place", "name them: dtype=, keepdims=")
    narrow = Call(call.function, call.args[:1], {**words, "axis": axis})
    if ufunc in (np.maximum, np.minimum):
        return extreme(np.argmax if ufunc is np.maximum else np.argmin)(narrow)
    return reduction()(narrow)


def _outer(call: Call) -> Result | Results:
    left, right = call.args
    value = call.array()
    before = value.ndim - np.ndim(right.value if isinstance(right, Operand) else right)
    inputs = []
    for argument, offset in ((left, 0), (right, before)):
        if isinstance(argument, Operand):
            spans = tuple(Span.point(offset + at) for at in range(argument.value.ndim))
            inputs.append(Input(argument, Boxes(argument.value.shape, value.shape, spans)))
    return Result(value, inputs)
