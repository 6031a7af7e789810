"""Every function of the table, held against what changes when cells are changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from lineage_arrays import CellTrace, Recording
from lineage_arrays.cells import Cells
from lineage_arrays.functions.table import HANDLERS
from tests.support.cell_oracle import dependences, same

pytestmark = pytest.mark.unit


@dataclass(frozen=True)
class Case:
    """A call over arrays of some shapes.

    ``covers``: the functions that it is there for. ``exact``: the mapping is, and random changes show every cell of it.
    """

    covers: tuple[Any, ...]
    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...] = ()
    exact: bool = True

    def arrays(self) -> list[Any]:
        random = np.random.default_rng(11)
        made = []
        for at, shape in enumerate(self.shapes):
            dtype = np.dtype(self.dtypes[at] if self.dtypes else float)
            if dtype.kind == "b":
                made.append(random.random(shape) < 0.5)
            elif dtype.kind in "iu":
                made.append(random.integers(0, 3, shape).astype(dtype))
            elif dtype.kind in "US":
                made.append(random.choice(["ab", "B.", "7", "a.b"], shape).astype(dtype))
            else:
                made.append(random.normal(0, 2, shape).astype(dtype))
        return made


def each(functions: Any, call: Any, *shapes: Any, dtypes: Any = (), exact: bool = True) -> Any:
    """The same call for several functions."""
    return [Case((f,), lambda *a, f=f: call(f, *a), shapes, dtypes, exact) for f in functions]


def of(function: Any, call: Any, *shapes: Any, dtypes: Any = (), exact: bool = True) -> Any:
    return [Case((function,), call, shapes, dtypes, exact)]


S = (3, 4)
CUBE = (2, 3, 2)
A = np.array

PLAIN: list[Case] = [
    # Cells that move.
    *of(np.reshape, lambda x: np.reshape(x, (4, 3)), S),
    *of(np.reshape, lambda x: np.reshape(x, (2, 6), order="F"), S),
    *of(np.ravel, np.ravel, S),
    *of(np.ravel, lambda x: np.ravel(x, order="K"), S),
    *of(np.swapaxes, lambda x: np.swapaxes(x, 0, 2), CUBE),
    *each((np.moveaxis, np.rollaxis), lambda f, x: f(x, 2, 0), CUBE),
    *each((np.transpose, np.permute_dims), lambda f, x: f(x, (2, 0, 1)), CUBE),
    *of(np.squeeze, np.squeeze, (1, 3, 1)),
    *of(np.expand_dims, lambda x: np.expand_dims(x, 1), S),
    *of(np.repeat, lambda x: np.repeat(x, [2, 0, 1], axis=0), S),
    *of(np.repeat, lambda x: np.repeat(x, 2), S),
    *of(np.roll, lambda x: np.roll(x, 1, axis=1), S),
    *each((np.diagonal,), lambda f, x: f(x, 1), S),
    *of(np.linalg.diagonal, np.linalg.diagonal, CUBE),
    *of(np.resize, lambda x: np.resize(x, (4, 4)), S),
    *of(np.copy, lambda x: np.copy(x.T, order="K"), S),
    *of(np.copy, lambda x: np.copy(x[:, ::2], order="K"), S),
    *of(np.copy, lambda x: np.copy(np.swapaxes(x, 1, 2)[::-1], order="A"), CUBE),
    *of(np.tile, lambda x: np.tile(x, (2, 1)), S),
    *each((np.matrix_transpose, np.linalg.matrix_transpose), lambda f, x: f(x), CUBE),
    *of(np.unstack, lambda x: np.unstack(x)[1], S),
    *each((np.fft.fftshift, np.fft.ifftshift), lambda f, x: f(x), S),
    *each((np.flip, np.flipud, np.fliplr, np.rot90, np.tril, np.triu), lambda f, x: f(x), S),
    *each((np.diag, np.diagflat), lambda f, x: f(x, 1), (3,)),
    *of(np.broadcast_to, lambda x: np.broadcast_to(x, (2, 3, 4)), (3, 1)),
    *each((np.split, np.array_split, np.vsplit), lambda f, x: f(x, 2)[1], (4, 3)),
    *of(np.hsplit, lambda x: np.hsplit(x, 2)[0], S),
    *of(np.dsplit, lambda x: np.dsplit(x, 2)[1], CUBE),
    *of(np.delete, lambda x: np.delete(x, [0, 2], axis=1), S),
    *each((np.concatenate, np.concat), lambda f, x, y: f((x, y), axis=1), S, (3, 2)),
    *of(np.concatenate, lambda x: np.concatenate((x, A([[9.0] * 4]), x)), S),
    *of(np.stack, lambda x, y: np.stack((x, y), axis=-1), S, S),
    *each((np.vstack, np.hstack, np.dstack, np.column_stack), lambda f, x, y: f((x, y)), S, S),
    *each((np.atleast_1d, np.atleast_2d, np.atleast_3d), lambda f, x: f(x), (3,)),
    *of(np.broadcast_arrays, lambda x, y: np.broadcast_arrays(x, y)[1], S, (4,)),
    *of(np.meshgrid, lambda x, y: np.meshgrid(x, y)[0], (3,), (2,)),
    *of(np.append, np.append, S, (2,)),
    *of(np.append, lambda x: np.append(x, [1.0, 2.0]), (3,)),
    *of(np.insert, lambda x, y: np.insert(x, [1, 3], y, axis=1), S, (3, 2)),
    *[
        Case((np.pad,), lambda x, mode=mode: np.pad(x, ((1, 2), (0, 1)), mode=mode), (S,))
        for mode in ("edge", "wrap", "reflect", "symmetric", "constant")
    ],
    *of(np.block, lambda x, y: np.block([[x, y], [y, x]]), (2, 2), (2, 2)),
    # Cell by cell.
    *each((np.add, np.multiply, np.arctan2, np.hypot), lambda f, x, y: f(x, y), S, (4,)),
    *each((np.negative, np.sin, np.exp, np.square), lambda f, x: f(x), CUBE),
    *of(np.divmod, lambda x, y: np.divmod(x, y)[1], (3, 1), (4,)),
    *each((np.around, np.round, np.fix, np.nan_to_num, np.sinc, np.i0), lambda f, x: f(x), S),
    *each((np.real, np.imag), lambda f, x: f(np.multiply(x, 1 + 2j)), S),
    *of(np.angle, lambda x: np.angle(x + 1j), S),
    *each((np.isposinf, np.isneginf), lambda f, x: f(np.where(x > 0, np.inf, x)), (2,), exact=False),
    *each((np.isreal, np.iscomplex), lambda f, x: f(x * 1j), S, exact=False),
    *of(np.astype, lambda x: np.astype(x, np.float32), S),
    *of(np.clip, lambda x, y: np.clip(x, y, 9), S, (4,)),
    *of(np.isclose, lambda x, y: np.isclose(x, y, atol=1), S, (4,), exact=False),
    *of(np.where, np.where, (3, 1), S, (4,), dtypes=(bool, float, float)),
    *of(np.where, lambda x: np.where(A([True, False, True, False]), x, 0), S),
    *of(np.isin, np.isin, (4,), (3,), dtypes=(int, int), exact=False),
    *of(np.interp, lambda x, y: np.interp(x, A([-2.0, 0.0, 2.0]), y), (4,), (3,), exact=False),
    *of(np.digitize, lambda x: np.digitize(x, A([-2, -1, 0, 1, 2])), (4,)),
    *of(np.searchsorted, lambda y: np.searchsorted(A([-1.0, 0.0, 1.0]), y), (4,)),
    # Along axes.
    *each(
        (np.sum, np.prod, np.mean, np.std, np.var, np.median, np.ptp, np.nansum, np.nanprod, np.nanmean, np.nanstd,
         np.nanvar, np.nanmedian),
        lambda f, x: f(x, axis=1), (3, 4, 2),
    ),
    *each((np.sum, np.mean), lambda f, x: f(x), S),
    *each((np.sum, np.std), lambda f, x: f(x, axis=(0, 2), keepdims=True), CUBE),
    *each((np.any,), lambda f, x: f(x > 2.5, axis=0), S, exact=False),
    *each((np.all,), lambda f, x: f(x < 2.5, axis=0), S, exact=False),
    *of(np.count_nonzero, lambda x: np.count_nonzero(x > 0, axis=1), S, exact=False),
    *each((np.linalg.norm, np.linalg.vector_norm), lambda f, x: f(x, axis=0), S),
    *of(np.linalg.norm, np.linalg.norm, S),
    *each((np.quantile, np.nanquantile), lambda f, x: f(x, [0.3, 0.7], axis=1), S),
    *each((np.percentile, np.nanpercentile), lambda f, x: f(x, 40, axis=0), S),
    *of(np.average, lambda x, y: np.average(x, axis=1, weights=y), S, S),
    *each((np.cumsum, np.cumprod, np.nancumsum, np.nancumprod), lambda f, x: f(x, axis=1), S),
    *of(np.cumsum, np.cumsum, S),
    *each((np.cumulative_sum, np.cumulative_prod), lambda f, x: f(x, axis=0), S),
    *of(np.cumulative_sum, lambda x: np.cumulative_sum(x, include_initial=True), (4,)),
    *each((np.cumsum, np.cumprod), lambda f, x: f(x, axis=0), ()),
    *each((np.take,), lambda f, x: f(x, [0, 0], axis=0), ()),
    *each((np.argsort,), lambda f, x: f(x) + x, ()),
    *of(np.diff, lambda x: np.diff(x, 2, axis=0), (5, 2)),
    *of(np.trace, lambda x: np.trace(x, 1, 0, 2), (3, 2, 4)),
    *of(np.linalg.trace, np.linalg.trace, (2, 3, 3)),
    *of(np.add, lambda x: np.add.reduce(x, axis=1), S),
    *of(np.add, np.multiply.accumulate, S),
    *of(np.add, np.subtract.outer, (2, 3), (2,)),
    # Products.
    *of(np.dot, np.dot, S, (4, 2)),
    *of(np.dot, np.dot, CUBE, (2, 2)),
    *of(np.dot, np.dot, (3,), (3,)),
    *of(np.dot, np.dot, (), S),
    *of(np.inner, np.inner, S, (2, 4)),
    *of(np.vdot, np.vdot, S, S),
    *each((np.outer,), lambda f, x, y: f(x, y), (2, 2), (3,)),
    *of(np.linalg.outer, np.linalg.outer, (2,), (3,)),
    *of(np.kron, np.kron, (2, 3), (2, 2)),
    *each((np.tensordot, np.linalg.tensordot), lambda f, x, y: f(x, y, axes=1), CUBE, (2, 3)),
    *of(np.tensordot, lambda x, y: np.tensordot(x, y, axes=([2, 0], [0, 1])), CUBE, (2, 2, 3)),
    *of(np.einsum, lambda x, y: np.einsum("ij,jk->ik", x, y), S, (4, 2)),
    *of(np.einsum, lambda x: np.einsum("ii->i", x), (3, 3)),
    *of(np.einsum, lambda x: np.einsum("ij->ji", x), S),
    *of(np.einsum, lambda x, y: np.einsum("bi,bj", x, y), (2, 3), (2, 2)),
    *of(np.einsum, lambda x: np.einsum("ii", x), (3, 3), exact=False),
    *of(np.einsum, lambda x: np.einsum("...i->...", x), S),
    *of(np.einsum, lambda x, y: np.einsum("i...,...i", x, y), (2, 3, 1), (4, 2)),
    *of(np.einsum, lambda x, y: np.einsum("a...,ab->b...", x, y), (2, 3), (2, 2)),
    *of(np.lib.stride_tricks.sliding_window_view, lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1), S),
    *of(np.lib.stride_tricks.sliding_window_view, lambda x: np.lib.stride_tricks.sliding_window_view(x.T, (1, 2)), S),
    *of(np.linalg.matmul, np.linalg.matmul, S, (4, 2)),
    *of(np.linalg.vecdot, np.linalg.vecdot, S, S),
    *of(np.matmul, lambda x, y: x @ y, (2, 2, 3), (3, 2)),
    *of(np.matmul, lambda x, y: x @ y, (3,), (2, 3, 2)),
    *of(np.vecdot, np.vecdot, S, (4,)),
    *of(np.matvec, np.matvec, (2, 3, 2), (2,)),
    *of(np.vecmat, np.vecmat, (2,), (2, 2, 3)),
    *[
        Case((np.convolve,), lambda x, y, mode=mode: np.convolve(x, y, mode), ((n,), (m,)))
        for mode in ("full", "same", "valid")
        for n, m in ((6, 3), (5, 2), (2, 5), (4, 4), (7, 4))
    ],
    *[
        Case((np.correlate,), lambda x, y, mode=mode: np.correlate(x, y, mode), ((n,), (m,)))
        for mode in ("full", "same", "valid")
        for n, m in ((6, 3), (5, 2), (2, 5), (4, 4), (7, 4))
        if mode != "same" or n >= m
    ],
    # All with all.
    *each((np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.ihfft), lambda f, x: f(x, axis=0), S),
    *each((np.fft.fft,), lambda f, x: f(x, n=3), S),
    *each((np.fft.fft,), lambda f, x: f(x, n=6), S),
    *each((np.fft.irfft, np.fft.hfft), lambda f, x: f(x + 1j), S),
    *each((np.fft.irfft,), lambda f, x: f(x + 1j, n=3), (2, 5)),
    *each((np.linalg.inv, np.linalg.pinv, np.linalg.det, np.linalg.cond, np.linalg.svdvals, np.linalg.cholesky,
           np.linalg.eigvals, np.linalg.eigvalsh, np.linalg.matrix_norm, np.linalg.matrix_rank),
          lambda f, x: f(x @ x.T + 3 * np.eye(3)), S, exact=False),
    *of(np.linalg.slogdet, lambda x: np.linalg.slogdet(x).logabsdet, (3, 3), exact=False),
    *of(np.linalg.svd, lambda x: np.linalg.svd(x)[1], S, exact=False),
    *of(np.linalg.qr, lambda x: np.linalg.qr(x).R, (3, 3), exact=False),
    *of(np.linalg.eig, lambda x: np.linalg.eig(x).eigenvalues, (3, 3), exact=False),
    *of(np.linalg.eigh, lambda x: np.linalg.eigh(x).eigenvalues, (3, 3), exact=False),
    *of(np.linalg.lstsq, lambda x, y: np.linalg.lstsq(x, y)[0], (4, 2), (4,), exact=False),
    *of(np.linalg.solve, np.linalg.solve, (3, 3), (3,), exact=False),
    *of(np.linalg.matrix_power, lambda x: np.linalg.matrix_power(x, 3), (3, 3), exact=False),
    *of(np.linalg.multi_dot, lambda x, y: np.linalg.multi_dot([x, y, y]), (2, 3), (3, 3), exact=False),
    *of(np.linalg.tensorinv, lambda x: np.linalg.tensorinv(x, ind=1), (4, 2, 2), exact=False),
    *of(np.linalg.tensorsolve, np.linalg.tensorsolve, (2, 2, 4), (2, 2), exact=False),
    *each((np.cross, np.linalg.cross), lambda f, x, y: f(x, y), (2, 3), (2, 3), exact=False),
    *each((np.fft.fft2, np.fft.ifft2, np.fft.fftn, np.fft.ifftn, np.fft.rfft2, np.fft.irfft2, np.fft.rfftn, np.fft.irfftn),
          lambda f, x: f(x), S, exact=False),
    *each((np.cov, np.corrcoef), lambda f, x: f(x), S, exact=False),
    *of(np.polyfit, lambda x, y: np.polyfit(x, y, 1), (4,), (4,), exact=False),
    *of(np.polyval, np.polyval, (3,), (4,), exact=False),
    *each((np.poly, np.vander, np.unwrap, np.trapezoid, np.ediff1d, np.histogram_bin_edges, np.sort_complex,
           np.real_if_close, np.polyder, np.polyint, np.trim_zeros),
          lambda f, x: f(x), (4,), exact=False),
    *of(np.roots, np.roots, (4,), exact=False),
    *of(np.gradient, lambda x: np.gradient(x)[0], S, exact=False),
    *of(np.histogram, lambda x: np.histogram(x, bins=3)[0], (5,), exact=False),
    *of(np.histogram2d, lambda x, y: np.histogram2d(x, y, bins=2)[0], (5,), (5,), exact=False),
    *of(np.histogramdd, lambda x: np.histogramdd(x, bins=2)[0], (5, 2), exact=False),
    *each((np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d), lambda f, x, y: f(x, y), (4,), (3,), dtypes=(int, int), exact=False),
    *of(np.lexsort, lambda x, y: np.lexsort((x, y)), (4,), (4,), exact=False),
    *each((np.partition, np.argpartition), lambda f, x: f(x, 2), (4,), exact=False),
    *of(np.choose, lambda x, y: np.choose(x, (y, y, y)), (4,), (4,), dtypes=(int, float), exact=False),
    *of(np.select, lambda x, y: np.select([x > 0, x < -1], [x, y]), (4,), (4,), exact=False),
    *of(np.packbits, np.packbits, (9,), dtypes=(bool,), exact=False),
    *of(np.unpackbits, np.unpackbits, (2,), dtypes=(np.uint8,), exact=False),
    *of(np.unravel_index, lambda x: np.unravel_index(x, (2, 2))[0], (3,), dtypes=(int,), exact=False),
    *of(np.ravel_multi_index, lambda x, y: np.ravel_multi_index((x, y), (4, 4)), (3,), (3,), dtypes=(int, int), exact=False),
    *each((np.unique_all, np.unique_counts, np.unique_inverse), lambda f, x: f(x).values, (4,), dtypes=(int,), exact=False),
    *each((np.polyadd, np.polysub, np.polymul), lambda f, x, y: f(x, y), (3,), (2,), exact=False),
    *of(np.polydiv, lambda x, y: np.polydiv(x, y)[0], (3,), (2,), exact=False),
    # Texts.
    *each((np.strings.capitalize, np.strings.lower, np.strings.upper, np.strings.swapcase, np.strings.title, np.strings.encode),
          lambda f, x: f(x), (2, 2), dtypes=("U3",)),
    *of(np.strings.decode, np.strings.decode, (3,), dtypes=("S3",)),
    *each((np.strings.translate,), lambda f, x: f(x, str.maketrans("ab", "yz")), (3,), dtypes=("U3",)),
    *each((np.strings.expandtabs, np.strings.zfill, np.strings.multiply), lambda f, x, y: f(x, y + 1), (2, 1), (2,), dtypes=("U3", int)),
    *of(np.strings.mod, lambda x, y: np.strings.mod(np.strings.add(x, "%s"), y), (2,), (2,), dtypes=("U3", int)),
    *each((np.strings.partition, np.strings.rpartition), lambda f, x, y: f(x, y)[2], (2, 1), (2,), dtypes=("U3", "U2")),
    *each((np.strings.center, np.strings.ljust, np.strings.rjust), lambda f, x, y: f(x, y + 3, "-"), (3,), (3,), dtypes=("U3", int)),
    *of(np.strings.replace, np.strings.replace, (2, 1), (2,), (2,), dtypes=("U3", "U1", "U2")),
    *of(np.char.join, np.char.join, (2,), (2,), dtypes=("U1", "U3")),
    *each((np.char.equal, np.char.not_equal, np.char.less, np.char.less_equal, np.char.greater, np.char.greater_equal),
          lambda f, x, y: f(x, y), (2, 1), (2,), dtypes=("U3", "U3")),
    # Indexing.
    *of(None, lambda x: x[1:3, ::2], (4, 5)),
    *of(None, lambda x: x[::-2, None, 1], (5, 3)),
    *of(None, lambda x: x[..., -1], CUBE),
    *of(None, lambda x: x[[2, 0, 2], 1:], S),
    *of(None, lambda x: x[[0, 2], :, [1, 0]], (3, 2, 2)),
    *of(None, lambda x: x[A([True, False, True])], S),
    *of(None, lambda x, i: x[i], S, (2, 2), dtypes=(float, int)),
    *of(None, lambda x, i: x[:, i], (2, 3, 2), (2,), dtypes=(float, int)),
    *of(None, lambda x, i, j: x[i, :, j], (3, 2, 3), (2, 1), (2,), dtypes=(float, int, int)),
    *of(None, lambda x, i: x[1, :, i], (3, 2, 3), (2,), dtypes=(float, int)),
    *each((np.take,), lambda f, x, i: f(x, i), S, (3,), dtypes=(float, int)),
    *each((np.take,), lambda f, x, i: f(x, i, axis=1), (2, 3, 2), (2,), dtypes=(float, int)),
    *each((np.take_along_axis,), lambda f, x, i: f(x, i, axis=1), S, (3, 2), dtypes=(float, int)),
    *of(np.bincount, lambda w: np.bincount(A([0, 2, 2, 1]), weights=w), (4,)),
    *of(np.extract, lambda x: np.extract([True, False, True], x), (3,)),
    *of(np.compress, lambda x: np.compress([True, False, True], x), (3,)),
]  # fmt: skip

CHOOSING: list[Case] = [
    *each((np.max, np.amax, np.min, np.amin, np.argmax, np.argmin, np.nanmax, np.nanmin, np.nanargmax, np.nanargmin),
          lambda f, x: f(x, axis=1), (3, 4, 2)),
    *each((np.max, np.argmin), lambda f, x: f(x), S),
    *each((np.max,), lambda f, x: f(x, axis=(0, 2), keepdims=True), CUBE),
    *of(np.max, lambda x: np.maximum.reduce(x, axis=1), S),
    *each((np.emath.sqrt, np.emath.log, np.emath.log2, np.emath.log10, np.emath.arccos, np.emath.arcsin, np.emath.arctanh),
          lambda f, x: f(x), (2, 3)),
    *each((np.emath.power, np.emath.logn), lambda f, x, y: f(x, y), (3, 1), (2,)),
    *each((np.sort, np.argsort), lambda f, x: f(x, axis=0), S),
    *each((np.sort, np.argsort), lambda f, x: f(x, axis=None), S),
    *of(np.nonzero, lambda x: np.nonzero(x > 0)[1], S),
    *of(np.flatnonzero, lambda x: np.flatnonzero(x > 0), S),
    *of(np.argwhere, lambda x: np.argwhere(x > 0), S),
    *each((np.unique, np.unique_values), lambda f, x: f(x), S, dtypes=(int,)),
    *of(np.bincount, lambda x: np.bincount(x, minlength=4), (5,), dtypes=(int,)),
    *each((np.extract, np.compress), lambda f, m, x: f(m, x), (4,), (4,), dtypes=(bool, float)),
    *of(None, lambda x, m: x[m], S, S, dtypes=(float, bool)),
    *of(None, lambda x, m: x[m], S, (3,), dtypes=(float, bool)),
    *of(np.searchsorted, lambda x, y: np.searchsorted(np.sort(x), y), (4,), (3,), exact=False),
]  # fmt: skip


def traces(case: Case, choices: bool) -> tuple[Any, list[Any], list[list[CellTrace]]]:
    """The result, the arrays, and for each of them the trace forward of each cell."""
    recording = Recording()
    arrays = case.arrays()
    sources = [recording.source(f"a{n}", one) for n, one in enumerate(arrays)]
    result = case.call(*sources)
    ways = [
        [
            recording.forward(f"a{n}", result, Cells.at(one.shape, [cell]), choices=choices)
            for cell in range(one.size)
        ]
        for n, one in enumerate(arrays)
    ]
    back = [
        recording.back(result, Cells.at(result.shape, [cell]), choices=choices).cells
        for cell in range(result.size)
    ]
    for n, one in enumerate(arrays):
        inverse = [
            set(found[f"a{n}"].positions().tolist()) if f"a{n}" in found else set()
            for found in back
        ]
        for cell in range(one.size):
            (cells,) = ways[n][cell].cells.values()
            assert cells.positions().tolist() == [
                at for at, came in enumerate(inverse) if cell in came
            ]
    return result, arrays, ways


def matrices(ways: list[list[CellTrace]]) -> list[Any]:
    return [
        np.array([next(iter(way.cells.values())).mask().reshape(-1) for way in of_array])
        for of_array in ways
    ]


@pytest.mark.parametrize("at", range(len(PLAIN)))
def test_mapping_is_what_changes(at: int) -> None:
    case = PLAIN[at]
    result, arrays, ways = traces(case, choices=False)
    with np.errstate(all="ignore"):
        assert same(np.asarray(case.call(*arrays)), result.current).all()
        changed = dependences(case.call, arrays)
    for array, said, seen in zip(arrays, matrices(ways), changed, strict=True):
        assert not (seen.reshape(said.shape) & ~said).any(), (
            "a change outside of the lineage was seen"
        )
        if case.exact and array.dtype.kind == "f":
            assert (said == seen.reshape(said.shape)).all(), (
                "a cell of exact lineage changes nothing"
            )
    exact = all(way.exact for of_array in ways for way in of_array)
    assert exact or not case.exact
    assert not any(way.chosen_by for of_array in ways for way in of_array)


@pytest.mark.parametrize("at", range(len(CHOOSING)))
def test_choice_is_among_what_took_part(at: int) -> None:
    case = CHOOSING[at]
    result, arrays, every = traces(case, choices=True)
    _, _, chosen = traces(case, choices=False)
    with np.errstate(all="ignore"):
        assert same(np.asarray(case.call(*arrays)), result.current).all()
        changed = dependences(case.call, arrays)
    for said, seen, witness in zip(matrices(every), changed, matrices(chosen), strict=True):
        assert not (seen.reshape(said.shape) & ~said).any()
        assert not (witness & ~said).any()
    assert any(way.chosen_by for of_array in chosen for way in of_array)


def test_every_function_of_the_table_is_tried() -> None:
    tried = {one for case in (*PLAIN, *CHOOSING) for one in case.covers}
    assert [one for one in HANDLERS if one not in tried] == []
