"""Functions in which every cell counts for every other: transforms, decompositions, and what has no narrower mapping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lineage_arrays.calls import Call, Handler, Result, Results, as_array, no_operands, operands
from lineage_arrays.functions.reductions import only_operand
from lineage_arrays.mappings import AllToAll, Boxes, Span
from lineage_arrays.workflow import NO_AXES, Input, all_axes

NO_NARROWER = "no narrower mapping is known than all cells of each operand"


def fourier(call: Call) -> Result | Results:
    """``fft`` and its like over one axis: every cell of it that the length takes in."""
    operand = only_operand(call, call.argument(0, "a"))
    if call.kwargs.get("out") is not None:
        raise call.refuse("out= is not traced", "assign the result: out[...] = ...")
    length, axis = call.argument(1, "n"), call.argument(2, "axis", -1)
    no_operands(call, length, axis)
    value = call.array()
    source = operand.current.shape
    at = int(axis) % len(source)
    halved = call.function in (np.fft.irfft, np.fft.hfft)
    used_length = source[at]
    if length is not None:
        used_length = min(used_length, int(length) // 2 + 1 if halved else int(length))
    spans = tuple(
        Span(0, used_length - 1) if other == at else Span.point(other)
        for other in range(len(source))
    )
    return Result(value, [Input(operand, Boxes(source, value.shape, spans))])


def everything(superset: str, decides: Callable[[Call, int], bool] = lambda *_: False) -> Handler:
    """Every output cell from every cell of every operand.

    Args:
        superset: why cells may be among them that count for nothing.
        decides: whether values decide how long a result is, of several the one of a number; they do as well where a whole
            number among the operands may be a length.
    """

    def handler(call: Call) -> Result | Results:
        if call.kwargs.get("out") is not None:
            raise call.refuse("out= is not traced", "assign the result: out[...] = ...")
        result = call.run()
        several = isinstance(result, list | tuple)
        distinct = {id(operand): operand for operand in operands([*call.args, call.kwargs])}
        numbers = any(
            not one.current.ndim and one.current.dtype.kind in "iu" for one in call.operands
        )
        parts = [
            Result(
                as_array(value),
                [
                    Input(operand, AllToAll(operand.current.shape, np.shape(value)), superset)
                    for operand in distinct.values()
                ],
                all_axes(value) if numbers or decides(call, at) else NO_AXES,
            )
            for at, value in enumerate(result if several else [result])
        ]
        container = getattr(type(result), "_make", type(result))
        return Results(parts, container) if several else parts[0]

    return handler


def beside(call: Call, _: int) -> bool:
    """Lengths may be traced beside the one array."""
    return len(call.operands) > 1


def by_name(call: Call, _: int) -> bool:
    """Bins by a rule with a name, which looks at values."""
    return isinstance(call.argument(1, "bins"), str)


def of_lengths(call: Call, _: int) -> bool:
    """Bins over several axes may be how many there are on each."""
    bins = call.argument(2 if call.function is np.histogram2d else 1, "bins")
    return next(operands(bins), None) is not None


TABLE: dict[Callable[..., Any], Handler] = {
    **dict.fromkeys(
        (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.ihfft, np.fft.irfft, np.fft.hfft), fourier
    ),
    **dict.fromkeys(
        (
            np.fft.fft2, np.fft.ifft2, np.fft.fftn, np.fft.ifftn, np.fft.rfft2, np.fft.irfft2, np.fft.rfftn,
            np.fft.irfftn,
        ),
        everything(NO_NARROWER, beside),
    ),
    **dict.fromkeys(
        (np.histogram, np.histogram_bin_edges), everything(NO_NARROWER, by_name)
    ),
    **dict.fromkeys(
        (np.histogram2d, np.histogramdd), everything(NO_NARROWER, of_lengths)
    ),
    **dict.fromkeys((np.linalg.lstsq, np.polydiv, np.polyfit), everything(NO_NARROWER, lambda _, at: at == 1)),
    # The inverse has the size of what is looked through.
    np.unique_all: everything(NO_NARROWER, lambda _, at: at != 2),
    np.unique_inverse: everything(NO_NARROWER, lambda _, at: at != 1),
    **dict.fromkeys(
        (
            np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d, np.trim_zeros, np.roots, np.polymul,
            np.unique_counts,
        ),
        everything(NO_NARROWER, lambda *_: True),
    ),
    **dict.fromkeys(
        (
            np.linalg.inv, np.linalg.pinv, np.linalg.det, np.linalg.slogdet, np.linalg.solve, np.linalg.svd,
            np.linalg.svdvals, np.linalg.qr, np.linalg.eig, np.linalg.eigh, np.linalg.eigvals, np.linalg.eigvalsh,
            np.linalg.cholesky, np.linalg.cond, np.linalg.matrix_rank, np.linalg.matrix_power, np.linalg.multi_dot,
            np.linalg.tensorinv, np.linalg.tensorsolve, np.linalg.matrix_norm, np.linalg.cross, np.cov, np.corrcoef,
            np.polyval, np.poly, np.vander, np.cross, np.gradient, np.unwrap, np.trapezoid, np.ediff1d,
            np.lexsort, np.partition, np.argpartition, np.choose, np.select,
            np.packbits, np.unpackbits, np.unravel_index, np.ravel_multi_index, np.sort_complex, np.polyadd,
            np.polysub, np.polyder, np.polyint, np.real_if_close,
        ),
        everything(NO_NARROWER),
    ),
}  # fmt: skip
