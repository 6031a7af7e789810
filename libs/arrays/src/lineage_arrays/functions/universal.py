"""Universal functions (``add``, ``sin``, ``matmul``) and their methods."""

from __future__ import annotations

import re

import numpy as np

from lineage_arrays.calls import Call, Result, Results, as_array, plain
from lineage_arrays.functions.products import matmul_core, signature
from lineage_arrays.functions.reductions import extreme, reduction, running
from lineage_arrays.mappings import Boxes, Span, cell_by_cell
from lineage_arrays.workflow import AnyArray, Input, Operand

_PRODUCTS: dict[np.ufunc, str] = {
    np.matmul: "",
    np.vecdot: "k,k->",
    np.matvec: "ik,k->i",
    np.vecmat: "k,kj->j",
}

_OTHER_AXES = "a generalised function over other axes than the last ones"
_LAST_AXES = "np.moveaxis the operands first"
_CORES = "all cells of the axes that a generalised function combines: it may not look at each"


def universal(called: Call, ufunc: np.ufunc, method: str) -> Result | Results:
    """The outcome of a universal function's call, or of one of its methods.

    Args:
        called: the call, as one of the function itself; without ``out``.
        ufunc: the function.
        method: ``__call__``, ``reduce``, ``accumulate``, ``outer`` or another of its methods.

    Raises:
        UntracedError: the lineage of this call is not known.
    """
    args, kwargs = called.args, called.kwargs
    function = ufunc if method == "__call__" else getattr(ufunc, method)
    call = called if method == "__call__" else Call(function, args, kwargs)
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
        if core is None:
            return _generalised(ufunc, call)
        if set(call.kwargs) - {"dtype", "casting"}:
            raise call.refuse(_OTHER_AXES, _LAST_AXES)
        dims = [
            np.ndim(argument.current if isinstance(argument, Operand) else argument)
            for argument in call.args
        ]
        value = call.array()
        return signature(call, core or matmul_core(*dims), call.args, value)
    result = call.run()
    if isinstance(result, tuple):
        return Results([_by_cell(call, as_array(value)) for value in result])
    return _by_cell(call, as_array(result))


def _by_cell(call: Call, value: AnyArray) -> Result:
    shape = value.shape
    return Result(
        value,
        [
            Input(argument, cell_by_cell(argument.current.shape, shape))
            for argument in call.args
            if isinstance(argument, Operand)
        ],
    )


def _generalised(ufunc: np.ufunc, call: Call) -> Result | Results:
    """A function of a library's own: a cell is made from the core axes of its place in the loop, as its signature says."""
    axis = call.kwargs.get("axis", -1)
    if not isinstance(axis, int):
        raise call.refuse(_OTHER_AXES, _LAST_AXES)
    dims = {np.ndim(plain(argument)) for argument in call.args}
    last = axis == -1 or (max(dims) == axis + 1 and dims <= {0, axis + 1})
    if set(call.kwargs) - {"dtype", "casting", "axis"} or not last:
        raise call.refuse(_OTHER_AXES, _LAST_AXES)
    letters: dict[str, str] = {}
    cores = [
        "".join(
            letters.setdefault(name, chr(ord("a") + len(letters)))
            for name in re.findall(r"\w+", core)
        )
        for core in re.findall(r"\(([^()]*)\)", str(ufunc.signature))
    ]
    if set("?|") & set(str(ufunc.signature)) or len(letters) > 26:
        raise call.refuse(_OTHER_AXES, _LAST_AXES)
    words = ",".join(cores[: ufunc.nin])
    result = call.run()
    # Axes of a result have names of their own: each of its cells may be made from all of the core.
    parts = [
        _superset(signature(call, f"{words}->{core.upper()}", call.args, as_array(value)))
        for core, value in zip(
            cores[ufunc.nin :], result if ufunc.nout > 1 else (result,), strict=True
        )
    ]
    return Results(parts) if ufunc.nout > 1 else parts[0]


def _superset(result: Result) -> Result:
    return Result(result.value, [part._replace(superset=_CORES) for part in result.inputs])


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
    before = value.ndim - np.ndim(right.current if isinstance(right, Operand) else right)
    inputs = []
    for argument, offset in ((left, 0), (right, before)):
        if isinstance(argument, Operand):
            spans = tuple(Span.point(offset + at) for at in range(argument.current.ndim))
            inputs.append(Input(argument, Boxes(argument.current.shape, value.shape, spans)))
    return Result(value, inputs)
