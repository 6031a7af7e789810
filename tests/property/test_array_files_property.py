"""Arrays of any order, type and chunks that go through files: the value at a coordinate says which cell it was."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import h5py
import netCDF4
import numpy as np
import numpy.typing as npt
import pytest
import zarr
from astropy.io import fits
from hypothesis import given
from hypothesis import strategies as st

from lineage_arrays import Recording

pytestmark = pytest.mark.property

Array = npt.NDArray[Any]
DTYPES = ("<i2", ">i2", "<i4", ">f4", "<f8", ">f8")
SIZE_MAX = 5


def of_hdf5(folder: str, values: Array, chunks: tuple[int, ...]) -> str:
    with h5py.File(f"{folder}/x.h5", "w") as file:
        file.create_dataset("flux", data=values, chunks=chunks, compression="gzip")
        file["other"] = 1
    return f"{folder}/x.h5/flux"


def of_netcdf(folder: str, values: Array, chunks: tuple[int, ...]) -> str:
    with netCDF4.Dataset(f"{folder}/x.nc", "w") as file:
        for axis, size in enumerate(values.shape):
            file.createDimension(f"d{axis}", None if axis == 0 else size)
        names = tuple(f"d{axis}" for axis in range(values.ndim))
        order: Any = "big" if values.dtype.str[0] == ">" else "little"
        how: Any = {"chunksizes": chunks, "zlib": True, "endian": order}
        flux: Any = file.createVariable("flux", values.dtype, names, **how)
        flux[...] = values
    return f"{folder}/x.nc/flux"


def of_fits(folder: str, values: Array, chunks: tuple[int, ...]) -> str:
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(values)]).writeto(f"{folder}/x.fits")
    return f"{folder}/x.fits[1]"


def of_zarr(folder: str, values: Array, chunks: tuple[int, ...]) -> str:
    array: Any = zarr.create_array(
        f"{folder}/x.zarr", shape=values.shape, dtype=values.dtype, chunks=chunks, order="F", zarr_format=2
    )  # fmt: skip
    array[...] = values
    return f"{folder}/x.zarr"


def of_numpy(folder: str, values: Array, chunks: tuple[int, ...]) -> str:
    np.save(f"{folder}/x.npy", values)
    return f"{folder}/x.npy"


@st.composite
def programs(draw: st.DrawFn) -> tuple[Array, list[int], tuple[slice, ...], tuple[int, ...]]:
    """An array, an order of its axes, a slice of each, and chunks of what comes of it."""
    shape = draw(st.lists(st.integers(1, SIZE_MAX), min_size=1, max_size=3))
    values = np.arange(np.prod(shape)).reshape(shape).astype(draw(st.sampled_from(DTYPES)))
    laid_out = values.copy(order=draw(st.sampled_from("CF")))
    axes = draw(st.permutations(range(len(shape))))
    steps = st.sampled_from([slice(None), slice(None, None, -1), slice(None, None, 2)])
    slices = tuple(draw(steps) for _ in shape)
    sizes = values.transpose(axes)[slices].shape
    return laid_out, axes, slices, tuple(draw(st.integers(1, size)) for size in sizes)


@pytest.mark.parametrize("write", [of_hdf5, of_netcdf, of_fits, of_zarr, of_numpy])
@given(program=programs())
def test_cells_stay_what_they_are(
    write: Callable[[str, Array, tuple[int, ...]], str],
    program: tuple[Array, list[int], tuple[slice, ...], tuple[int, ...]],
) -> None:
    values, axes, slices, chunks = program
    with tempfile.TemporaryDirectory() as folder:
        recording = Recording()
        source = recording.source("source", values)
        moved = source.transpose(axes)[slices]
        name = write(folder, np.asarray(moved), chunks)
        recording.saved(name, moved)
        loaded = recording.load(name)
        again = Recording()
        whole = again.load(os.fspath(name))
        [read_as] = again.back(whole).cells
        for cell in np.ndindex(loaded.shape):
            trace = recording.back(loaded, cell)
            [origin] = trace.cells["source"].coordinates().tolist()
            assert trace.exact
            assert values[tuple(origin)] == loaded.current[cell] == whole.current[cell]
            assert again.back(whole, cell).cells[read_as].coordinates().tolist() == [list(cell)]
