"""Arrays of xarray and of Dask around traced ones: names and labels, what leaves, what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from lineage_arrays import Recording, UntracedError
from lineage_arrays import xarray as named
from lineage_arrays.errors import ArrayLineageError, CellError
from lineage_arrays.traced import TracedArray

VALUES = np.arange(12.0).reshape(3, 4)
DAYS = pd.date_range("2020-01-01", periods=3)


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def cube() -> xr.Dataset:
    flux = xr.DataArray(VALUES, dims=("time", "x"), coords={"time": DAYS}, attrs={"units": "Jy"})
    return xr.Dataset({"flux": flux, "noise": flux / 10}, attrs={"title": "sky"})


def test_cells_are_named_by_axes_and_labels(recording: Recording, cube: xr.Dataset) -> None:
    traced = named.source(recording, "cube", cube)
    assert isinstance(traced["flux"].data, TracedArray)
    assert (traced.attrs, traced["flux"].attrs) == (cube.attrs, cube["flux"].attrs)
    clean = (traced["flux"] - traced["noise"]).rolling(x=2).mean()
    trace = named.back(recording, clean, {"time": "2020-01-02", "x": 3})
    assert (trace.exact, trace.complete) == (True, True)
    assert sorted(trace.cells) == ["cube/flux", "cube/noise"]
    cells = trace.cells["cube/flux"]
    assert list(named.addresses("cube/flux", cells, traced["flux"])) == [
        "cube/flux[time=2020-01-02,x=2]",
        "cube/flux[time=2020-01-02,x=3]",
    ]
    marked = named.marked(cells, cube["flux"])
    assert cube["flux"].where(marked, drop=True).values.tolist() == [[6.0, 7.0]]
    went = named.forward(recording, "cube/noise", traced["noise"], clean, {"x": slice(3, None)})
    assert next(iter(went.cells.values())).coordinates().tolist() == [[0, 3], [1, 3], [2, 3]]


def test_labels_are_those_of_xarray(recording: Recording, cube: xr.Dataset) -> None:
    flux = named.source(recording, "flux", cube["flux"].assign_coords(area=(("time", "x"), VALUES)))
    hours = flux.assign_coords(time=DAYS + pd.Timedelta(hours=6))
    whole = named.back(recording, flux)
    assert whole.cells["flux"].positions().tolist() == list(range(12))
    months = named.back(recording, flux, {"time": "2020-01"}).cells["flux"]
    assert months.positions().tolist() == list(range(12))
    one = named.back(recording, hours, {"time": "2020-01-03T06", "x": [0, 2]}).cells["flux"]
    assert next(iter(named.addresses("flux", one, hours))) == "flux[time=2020-01-03T06:00,x=0]"
    wrongs: list[dict[Any, Any]] = [{"time": "2021-01-01"}, {"y": 3}, {"x": 9}]
    for wrong in wrongs:
        with pytest.raises(CellError):
            named.back(recording, flux, wrong)
    with pytest.raises(CellError):
        named.marked(one, flux.T)


def test_what_has_left_is_refused_by_name(recording: Recording, cube: xr.Dataset) -> None:
    flux = named.source(recording, "flux", cube["flux"])
    between = flux.interp(x=[0.5])
    with pytest.raises(UntracedError, match=r"np.asarray at test_xarray.py:\d+"):
        named.back(recording, between)
    with pytest.raises(UntracedError, match=r"np.asarray at test_xarray.py:\d+"):
        recording.back(between.data)
    with pytest.raises(UntracedError, match=r"give its \.data"):
        recording.back(flux)  # type: ignore[arg-type]
    with pytest.raises(ArrayLineageError, match="is traced"):
        named.source(recording, "again", flux)
    mixed = named.back(recording, flux.isel(x=0) + between.isel(x=0))
    assert not mixed.complete
    assert "test_xarray.py:" in mixed.incomplete_reasons[0]


LEAVING: list[Callable[[xr.DataArray], Any]] = [
    lambda a: a.values, lambda a: a.to_numpy(), lambda a: a.to_pandas(), lambda a: a.to_dataframe("a"),
    lambda a: a.interp(x=[0.5]), lambda a: a.where(a != 5).interpolate_na("x"), lambda a: float(a[0, 0]), lambda a: a[0, 0].item(),
    lambda a: xr.apply_ufunc(np.mean, a, input_core_dims=[["x"]], vectorize=True), lambda a: a.where(a > 3).dropna("x"),
    lambda a: a.sortby(a[0]), lambda a: a.groupby(a > 5).sum(), lambda a: a.idxmax("time"), lambda a: a.to_dict(),
    lambda a: a.equals(a + 0), lambda a: pd.Series(a.data[0]), np.array,
]  # fmt: skip


@pytest.mark.parametrize("call", LEAVING)
def test_values_that_leave_are_recorded(
    recording: Recording, cube: xr.Dataset, call: Callable[[Any], Any]
) -> None:
    flux = named.source(recording, "flux", cube["flux"])
    before = len(recording.flow.leaks)
    call(flux)
    assert len(recording.flow.leaks) > before


def test_a_file_of_netcdf_is_bound(
    recording: Recording, cube: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cube.to_netcdf("sky.nc", engine="netcdf4")
    with xr.open_dataset("sky.nc", engine="netcdf4") as sky:
        flux = sky["flux"].copy(data=recording.load("sky.nc/flux"))
    mean = flux.mean("time").rename("mean")
    mean.to_netcdf("mean.nc", engine="netcdf4")
    recording.saved("mean.nc/mean", mean.data)
    trace = named.back(recording, mean, {"x": 2})
    assert trace.cells["sky.nc/flux"].coordinates().tolist() == [[0, 2], [1, 2], [2, 2]]


def test_chunks_of_dask_keep_lineage_and_xarray_uses_them(
    recording: Recording, cube: xr.Dataset
) -> None:
    flux = named.source(recording, "flux", cube["flux"])
    chunked = flux.chunk(x=2) * 2
    with pytest.raises(UntracedError, match=r"array\.compute\(\)"):
        named.back(recording, chunked)
    for scheduler in ("synchronous", "threads"):
        total = chunked.sum("time").compute(scheduler=scheduler)
        trace = named.back(recording, total, {"x": 2})
        assert (trace.exact, trace.complete) == (True, True)
        assert trace.cells["flux"].coordinates().tolist() == [[0, 2], [1, 2], [2, 2]]


def test_arrays_of_dask_are_never_taken_for_each_other(recording: Recording) -> None:
    """Dask names an array by its content: two traced ones of the same values have lineage of their own."""
    first, second = recording.source("a", VALUES), recording.source("b", VALUES)
    left, right = (da.from_array(array, chunks=2) for array in (first, second))
    assert left.name != right.name
    named_pair = [xr.DataArray(array, name="same").chunk() for array in (first, second)]
    total = (named_pair[0] + named_pair[1]).compute(scheduler="synchronous")
    assert sorted(named.back(recording, total).cells) == ["a", "b"]
    trace = recording.back((left + right).compute(scheduler="synchronous"), np.s_[0, 0])
    assert {name: c.positions().tolist() for name, c in trace.cells.items()} == {"a": [0], "b": [0]}


def test_chunks_come_home_with_their_lineage(recording: Recording) -> None:
    """Pickled within the process of the recording they are the arrays that they were."""
    chunked = da.from_array(recording.source("a", VALUES), chunks=2) + 1
    for dumps in (pickle.dumps, ForkingPickler.dumps):
        again = pickle.loads(dumps(chunked)).compute(scheduler="synchronous")
        assert recording.back(again, np.s_[1, 2]).cells["a"].positions().tolist() == [6]


def test_nodes_of_many_threads_have_numbers_of_their_own(recording: Recording) -> None:
    array = recording.source("a", VALUES)

    def compute(number: int) -> TracedArray:
        result = array
        for _ in range(50):
            result = result + number
        return result

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(compute, range(8)))
    nodes = recording.flow.nodes
    assert [node.number for node in nodes] == list(range(len(nodes)))
    assert all(edge.node.number < node.number for node in nodes for edge in node.inputs)
    for result in results:
        assert recording.back(result, np.s_[1, 1]).cells["a"].positions().tolist() == [5]
