"""What a trace goes through of NumPy's public functions, and how: the table of docs/reference/arrays-numpy.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lineage_arrays.functions import (
    choosing,
    elementwise,
    products,
    rearranging,
    reductions,
    texts,
    transforms,
)
from lineage_arrays.functions.submodules import LAID, LEAVING, SUBMODULES, Coverage
from lineage_arrays.functions.table import HANDLERS, LEAKING, WITHOUT_VALUES

_AMONG = Coverage("superset", "the cell, and all cells that it is looked up among")
_ALL = Coverage("superset", "all cells of each operand")
_LANES = Coverage("exact", "all cells along the axes")
_RUNNING = Coverage("exact", "the cells up to it on the axis")
_WINNER = Coverage("chosen", "the first cell with the value; chosen among all along the axes")

_COVERAGE_BY_FUNCTION: dict[Callable[..., Any], Coverage] = {
    **dict.fromkeys((np.isin, np.interp, np.digitize, np.searchsorted), _AMONG),
    np.where: Coverage("exact", "the condition's cell, and the cell that it chose"),
    **dict.fromkeys((np.cumsum, np.cumprod, np.nancumsum, np.nancumprod), _RUNNING),
    **dict.fromkeys((np.cumulative_sum, np.cumulative_prod), _RUNNING),
    **dict.fromkeys((np.max, np.amax, np.min, np.amin, np.nanmax, np.nanmin), _WINNER),
    **dict.fromkeys((np.argmax, np.argmin, np.nanargmax, np.nanargmin), _WINNER),
    np.diff: Coverage("exact", "the cells whose difference it is (of truth values over several steps: superset)"),
    np.trace: Coverage("exact", "the cells of the diagonal"),
    np.linalg.trace: Coverage("exact", "the cells of the diagonal"),
    np.vdot: Coverage("exact", "all cells of both operands"),
    np.kron: Coverage("exact", "one cell of each operand"),
    np.outer: Coverage("exact", "one cell of each operand"),
    np.linalg.outer: Coverage("exact", "one cell of each operand"),
    np.einsum: Coverage("exact", "the cells that are multiplied and summed (with a diagonal that is summed over: superset)"),
    np.convolve: Coverage("exact", "the window of either operand"),
    np.correlate: Coverage("exact", "the window of either operand"),
    np.sort: Coverage("chosen", "the cell that came there, of equal ones in their order; chosen among all on the axis"),
    np.argsort: Coverage("chosen", "the cell that came there; chosen among all on the axis"),
    **dict.fromkeys((np.nonzero, np.flatnonzero, np.argwhere), Coverage("chosen", "the cell whose place it is; chosen among all")),
    **dict.fromkeys((np.unique, np.unique_values), Coverage("chosen", "all cells that have the value; chosen among all")),
    np.bincount: Coverage("chosen", "all cells that have the number, and their weights; chosen among all"),
    **dict.fromkeys((np.extract, np.compress), Coverage("chosen", "the cell, and the mask's cell that chose it")),
    **dict.fromkeys((np.take, np.take_along_axis), Coverage("exact", "the cell, and the index's cell that named it")),
    **dict.fromkeys(
        (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.ihfft, np.fft.irfft, np.fft.hfft),
        Coverage("exact", "all cells on the axis that the length takes in"),
    ),
}  # fmt: skip

_OF_TABLES: tuple[tuple[dict[Callable[..., Any], Any], Coverage], ...] = (
    (rearranging.TABLE, Coverage("exact", "the one cell that it is; none where it is filled in")),
    (elementwise.TABLE, LAID),
    (texts.TABLE, LAID),
    (reductions.TABLE, _LANES),
    (products.TABLE, Coverage("exact", "the row, column or axis that is summed over")),
    (choosing.TABLE, Coverage("chosen", "the cell that was chosen")),
    (transforms.TABLE, _ALL),
)

_WAYS_OUT: dict[str, str] = {
    "apply_along_axis": "a function of yours decides: np.asarray(x), and flow.source what it gives",
    "put": "x[indices] = values", "place": "x[mask] = values", "putmask": "x[mask] = values",
    "put_along_axis": "x[indices] = values", "fill_diagonal": "np.where(np.eye(n, dtype=bool), value, x)",
    "copyto": "x[...] = values", "full_like": "of a traced value: np.broadcast_to(value, x.shape)",
}  # fmt: skip

_ENDS = "np.asarray(x) ends its lineage; name what comes back by recording.source(name, array)"
_CONVERTING = frozenset(
    {
        np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.asarray_chkfinite, np.require,
        np.from_dlpack, np.fromiter, np.asmatrix, np.bmat,
    }
)  # fmt: skip


def coverage_of(function: Callable[..., Any]) -> Coverage:
    """How a function of NumPy is traced."""
    if isinstance(function, np.ufunc):
        if function.signature is None:
            return LAID
        if function in (np.matmul, np.vecdot, np.matvec, np.vecmat):
            return Coverage("exact", "the row, column or axis that is summed over")
        return Coverage("refused", _ENDS)
    if function in _COVERAGE_BY_FUNCTION:
        return _COVERAGE_BY_FUNCTION[function]
    if function in HANDLERS:
        return next(coverage for table, coverage in _OF_TABLES if function in table)
    if function in WITHOUT_VALUES:
        return Coverage("no lineage", "it looks at shapes and types alone")
    if function in LEAKING or function in _CONVERTING:
        return LEAVING
    if function is np.copyto:
        return Coverage("exact", "into a traced array: the one cell that it is")
    if not hasattr(function, "__wrapped__") or function is np.printoptions:
        return Coverage("no lineage", "it takes no arrays, or makes plain ones")
    return Coverage("refused", _WAYS_OUT.get(getattr(function, "__name__", ""), _ENDS))


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions of ``numpy``, ``numpy.linalg`` and ``numpy.fft``, by name."""
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name in sorted(module.__all__):
            function = getattr(module, name)
            if callable(function) and not isinstance(function, type):
                yield prefix + name, function


_HEADS = ("| function | lineage | cells, or what to do instead |", "|---|---|---|")


def page() -> str:
    """The reference page."""
    lines = [
        "# NumPy's functions",
        "",
        "How [traces of cells](../guide/arrays.md) go through the public functions of NumPy, and which cells of its operands a cell of the",
        "result has. *Exact*: the cells that the function's definition combines. *Chosen*: values say which cells; a trace has the chosen",
        "ones and names the function, with `choices=True` all that took part. *Superset*: these cells and perhaps more; the trace says so.",
        "*Refused*: an error that says what to do instead. *Leaves*: values leave the recording. `out=` and `where=` are refused, but for",
        "`out=` of a traced array (by name, of the result's shape and type; a universal function casts). `python -m lineage_arrays.functions.coverage` writes this page.",
        "",
        *_HEADS,
    ]
    for name, function in public_functions():
        coverage = coverage_of(function)
        lines.append(coverage.line(name))
    for submodule in SUBMODULES:
        lines += ["", f"## {submodule.title}", "", submodule.text, "", *_HEADS]
        lines += [
            submodule.coverage(name).line(submodule.prefix + name) for name in submodule.names()
        ]
    lines += [
        "",
        "## Beside functions",
        "",
        "| what | lineage | cells, or what to do instead |",
        "|---|---|---|",
        "| `x[3, 1:5, None, ::2]` | exact | the one cell that it is |",
        "| `x[mask]` | exact; the mask: chosen | the cell, and the mask's cell that chose it |",
        "| `x[indices]` | exact | the cell, and the index's cell that named it |",
        "| `x[i] = y`, `x += y`, `np.add(x, y, out=x)`, `x.sort()` | exact | a new version, which views over the same memory have, too |",
        "| `x[mask] = y` | exact | the cell of before or of `y`, and the mask's cell |",
        "| `x[indices] = y` with traced `indices` | superset | the cell of before or of `y`, and all indices |",
        "| `ufunc.reduce`, `ufunc.accumulate`, `ufunc.outer` | exact | as `sum`, `cumsum`, `outer` |",
        "| `ufunc.at`, `ufunc.reduceat` | refused | `np.bincount`, slices |",
        "| `np.full_like(x, 3)`, `np.asarray(y, like=x)` of plain values | no lineage | it makes plain arrays |",
        "| `x.flat` | exact | of an array in one piece, as `x.ravel()`; of others refused |",
        "| `x.view(dtype)`, `x.data`, `x.ctypes` | refused | `np.asarray(x)` ends its lineage |",
        "| other generalised functions, over the last axes | superset | all cells of the axes that the signature names |",
        "| `float(x)`, `if x:`, `x.item()`, `x.tolist()`, `np.asarray(x)` | leaves | traces of what is made of them say so |",
        "| `len`, `.shape`, `.size`, loops, `np.zeros_like` of `x[mask]`, `np.unique(x)` and their like | leaves | a size that values decided: traces of what is made of plain values afterwards say so |",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
