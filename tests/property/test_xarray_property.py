"""Calls of xarray and of Dask over drawn arrays, one behind the other, against what changes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_arrays import Cells, Recording
from lineage_arrays.traced import TracedArray
from tests.support.cell_oracle import dependences, same

pytestmark = pytest.mark.property

Step: TypeAlias = Callable[[Any], Any]
AXES = ("t", "y", "x")


def cube(values: Any) -> xr.DataArray:
    labels = {axis: np.arange(n) * 10 for axis, n in zip(AXES, values.shape, strict=False)}
    return xr.DataArray(values, dims=AXES[: values.ndim], coords=labels, name="flux")


def first(a: Any) -> Any:
    """The name of the first axis."""
    return a.dims[0]


def last(a: Any) -> Any:
    return a.dims[-1]


def groups(a: Any) -> xr.DataArray:
    return xr.DataArray(np.arange(a.sizes[last(a)]) % 2, dims=last(a), name="group")


def weights(a: Any) -> xr.DataArray:
    return xr.DataArray(np.arange(a.sizes[last(a)]) + 1.0, dims=last(a))


NAMED: dict[str, Step] = {
    "arithmetic": lambda a: 2 * a - 1,
    "broadcasting": lambda a: a * weights(a) + a.isel({first(a): 0}, drop=True),
    "anomaly": lambda a: a - a.mean(first(a)),
    "isel": lambda a: a.isel({last(a): slice(None, None, -1), first(a): [0, 0]}),
    "points": lambda a: a.isel({axis: xr.DataArray([0, -1], dims="point") for axis in a.dims}),
    "sel": lambda a: a.sel({last(a): slice(0, 15)}),
    "mean": lambda a: a.mean(last(a)),
    "sum of all": lambda a: a.sum(),
    "standard deviation": lambda a: a.std(last(a)),
    "maximum": lambda a: a.max(last(a)),
    "median": lambda a: a.median(first(a)),
    "count": lambda a: a.where(a > 0).count(last(a)),
    "quantile": lambda a: a.quantile([0.2, 0.5], last(a)),
    "cumulative sum": lambda a: a.cumsum(last(a)),
    "differences": lambda a: a.diff(last(a)),
    "where": lambda a: a.where(a > 0),
    "otherwise": lambda a: a.where(a > 0, -a),
    "fill": lambda a: a.where(a > 0).fillna(a * 2),
    "transpose": lambda a: a.transpose(*a.dims[::-1]),
    "stack": lambda a: a.stack(all=a.dims),
    "unstack": lambda a: a.stack(all=a.dims).unstack("all"),
    "concatenate": lambda a: xr.concat([a, a * 2], first(a)),
    "new axis": lambda a: xr.concat([a, a + 1], "new"),
    "aligned": lambda a: a.isel({last(a): slice(1, None)}) - a.isel({last(a): slice(-1)}),
    "outer": lambda a: xr.align(a, a.isel({last(a): slice(1)}), join="outer")[1],
    "reindex": lambda a: a.reindex({last(a): [10, 5, 0]}),
    "sorted by labels": lambda a: a.sortby(last(a), ascending=False),
    "groups": lambda a: a.groupby(groups(a)).mean(),
    "groups of all": lambda a: a.groupby(groups(a)).sum(...),
    "groups mapped": lambda a: a.groupby(groups(a)).map(lambda g: g - g.mean(last(a))),
    "bins": lambda a: a.groupby_bins(last(a), [-1, 5, 25]).sum(),
    "rolling": lambda a: a.rolling({last(a): 2}).mean(),
    "rolling in the middle": lambda a: a.rolling({last(a): 3}, center=True, min_periods=1).sum(),
    "rolling maximum": lambda a: a.rolling({last(a): 2}).max(),
    "coarsen": lambda a: a.coarsen({last(a): 2}, boundary="pad").mean(),
    "shift": lambda a: a.shift({last(a): 1}),
    "roll": lambda a: a.roll({last(a): 1}),
    "pad": lambda a: a.pad({last(a): 1}, mode="edge"),
    "integrate": lambda a: a.integrate(last(a)),
    "product": lambda a: a @ weights(a),
    "dot": lambda a: xr.dot(a, a, dim=last(a)),
    "weighted": lambda a: a.weighted(weights(a)).mean(last(a)),
    "covariance": lambda a: xr.cov(a, a**2, last(a)),
    "function": lambda a: xr.apply_ufunc(np.hypot, a, 1.0),
    "over an axis": lambda a: xr.apply_ufunc(lambda v: v.mean(-1), a, input_core_dims=[[last(a)]]),
    "dataset": lambda a: (a.to_dataset(name="flux") * 2).mean(first(a))["flux"],
    "variables": lambda a: xr.Dataset({"a": a, "b": a * 2}).to_array(),
    "broadcast": lambda a: a.isel({first(a): 0}, drop=True).broadcast_like(a),
    "written": lambda a: written(a * 1),
}  # fmt: skip


def written(a: Any) -> Any:
    a[{last(a): 0}] = 5.0
    return a


CHUNKED: dict[str, Step] = {
    "arithmetic": lambda d: 2 * d - d[::-1],
    "mean": lambda d: d.mean(axis=-1),
    "standard deviation": lambda d: d.std(axis=0),
    "maximum": lambda d: d.max(axis=0),
    "cumulative sum": lambda d: d.cumsum(axis=0),
    "transpose": lambda d: d.T,
    "slice": lambda d: d[1:, ..., ::2],
    "picked": lambda d: d[[0, 0, -1]],
    "rechunk": lambda d: d.rechunk(2),
    "concatenate": lambda d: da.concatenate([d, d + 1], axis=-1),
    "stack": lambda d: da.stack([d, d * 2]),
    "where": lambda d: da.where(d > 0, d, 2 * d),
    "product": lambda d: da.tensordot(d, d, axes=((0,), (0,))),
    "windows": lambda d: da.lib.stride_tricks.sliding_window_view(d, 2, axis=0).sum(axis=-1),
    "neighbours": lambda d: d.map_overlap(lambda b: b + np.roll(b, 1, 0), depth={0: 1}),
    "flat": lambda d: d.ravel(),
    "blocks": lambda d: d.map_blocks(np.abs),
    "pad": lambda d: da.pad(d, 1, mode="constant"),
    "differences": lambda d: da.diff(d, axis=0),
    "plain": lambda d: d * da.ones(d.shape, chunks=1),
}  # fmt: skip

shapes = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)


@st.composite
def programs(draw: st.DrawFn, steps: dict[str, Step]) -> tuple[list[str], npt.NDArray[Any]]:
    names = draw(st.lists(st.sampled_from(sorted(steps)), min_size=1, max_size=3))
    random = np.random.default_rng(draw(st.integers(0, 9)))
    dtype = draw(st.sampled_from([np.float64, np.float64, np.int64]))
    return names, random.normal(0, 3, draw(shapes)).astype(dtype)


def check(names: list[str], call: Callable[[Any], Any], array: npt.NDArray[Any]) -> None:
    """Values are those of a run without lineage; what changes is in the trace, and what is called exact changes."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            plain = np.asarray(call(array.copy()))
        except (ValueError, IndexError, KeyError, NotImplementedError, TypeError):
            return  # Not of such arrays.
        recording = Recording()
        result = call(recording.source("flux", array))
        if not isinstance(result, TracedArray):
            # Made of no cell: what is filled in where an array without cells is aligned.
            assert not recording.flow.leaks
            assert not dependences(call, [array])[0].any(), f"{names}: lineage is lost"
            return
        assert plain.dtype == result.dtype
        assert plain.shape == result.shape
        assert same(plain, result.current).all(), names
        (changed,) = dependences(call, [array])
        changed = changed.reshape(array.size, plain.size)
        traces = [
            recording.forward("flux", result, Cells.at(array.shape, [at]), choices=True)
            for at in range(array.size)
        ]
    masks = [next(iter(trace.cells.values())).mask().reshape(-1) for trace in traces]
    said = np.array(masks).reshape(changed.shape)
    assert not (changed & ~said).any() or not all(trace.complete for trace in traces), (
        f"{names}: a change outside of the lineage of {array!r} was seen"
    )
    for at in range(plain.size):
        trace = recording.back(result, Cells.at(plain.shape, [at]), choices=True)
        backward = next(iter(trace.cells.values()), Cells.empty(array.shape)).mask().reshape(-1)
        assert (backward == said[:, at]).all(), f"{names}: forward is not the inverse of backward"


def of_xarray(names: list[str], values: Any) -> Any:
    array = cube(values)
    for name in names:
        array = NAMED[name](array)
    return array.data


def of_dask(names: list[str], scheduler: str, values: Any) -> Any:
    chunked = da.from_array(values, chunks=2)
    for name in names:
        chunked = CHUNKED[name](chunked)
    return chunked.compute(scheduler=scheduler)


@settings(max_examples=25)
@given(programs(NAMED))
def test_calls_of_xarray_are_held_against_what_changes(
    program: tuple[list[str], npt.NDArray[Any]],
) -> None:
    names, array = program
    check(names, lambda values: of_xarray(names, values), array)


@pytest.mark.long
@settings(max_examples=1_000)
@given(programs(NAMED))
def test_many_calls_of_xarray_are_held_against_what_changes(
    program: tuple[list[str], npt.NDArray[Any]],
) -> None:
    names, array = program
    check(names, lambda values: of_xarray(names, values), array)


@settings(max_examples=3)
@given(programs(CHUNKED), st.sampled_from(["sync", "threads"]))
def test_calls_of_dask_are_held_against_what_changes(
    program: tuple[list[str], npt.NDArray[Any]], scheduler: str
) -> None:
    names, array = program
    check(names, lambda values: of_dask(names, scheduler, values), array)


@pytest.mark.long
@settings(max_examples=300)
@given(programs(CHUNKED), st.sampled_from(["sync", "threads"]))
def test_many_calls_of_dask_are_held_against_what_changes(
    program: tuple[list[str], npt.NDArray[Any]], scheduler: str
) -> None:
    names, array = program
    check(names, lambda values: of_dask(names, scheduler, values), array)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_each_call_of_xarray_is_followed(name: str) -> None:
    """Without a leak."""
    followed(name, lambda values: of_xarray([name], values))


@pytest.mark.parametrize("name", sorted(CHUNKED))
def test_each_call_of_dask_is_followed(name: str) -> None:
    """Without a leak."""
    followed(name, lambda values: of_dask([name], "sync", values))


NEVER_SHOWN = ("rolling", "rolling maximum", "maximum")
"""A cell in a window that is not full goes into a sum, and NaN is put in its place; hardly a draw is the greatest."""


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(NAMED) - set(NEVER_SHOWN)))
def test_each_cell_of_a_trace_changes_the_result(name: str) -> None:
    followed(name, lambda values: of_xarray([name], values), draws=8)


def followed(name: str, call: Step, draws: int = 0) -> None:
    array = np.random.default_rng(3).normal(0, 3, (2, 3))
    recording = Recording()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        result = call(recording.source("flux", array))
        plain = call(array.copy())
        assert same(plain, result.current).all()
        trace = recording.back(result, choices=True)
        assert (trace.exact, trace.complete) == (True, True)
        assert recording.flow.leaks == []
        shown = np.zeros((array.size, plain.size), np.bool_)
        said = np.ones_like(shown)
        for at in range(plain.size if draws else 0):
            cells = recording.back(result, Cells.at(plain.shape, [at]), choices=True).cells
            said[:, at] = cells["flux"].mask().reshape(-1) if "flux" in cells else False
        for seed in range(draws):
            shown |= dependences(call, [array], seed)[0].reshape(shown.shape)
            if (shown == said).all():
                return
    assert not draws, f"{name}: a cell of exact lineage changes nothing"
