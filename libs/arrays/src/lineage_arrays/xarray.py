"""Cells of xarray's arrays by the names of their axes and their labels.

xarray computes with traced arrays as with those of NumPy, by its own functions and methods: what is here gives it some, and asks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, overload

import numpy as np
import xarray as xr

from lineage_arrays.cells import Cells
from lineage_arrays.errors import ArrayLineageError, CellError, UntracedError
from lineage_arrays.querying import CellTrace
from lineage_arrays.recording import Recording
from lineage_arrays.traced import TracedArray

__all__ = ["addresses", "back", "forward", "marked", "source"]

Labels = Mapping[Hashable, Any]


@overload
def source(recording: Recording, name: str, array: xr.DataArray) -> xr.DataArray: ...


@overload
def source(recording: Recording, name: str, array: xr.Dataset) -> xr.Dataset: ...


def source(recording: Recording, name: str, array: Any) -> Any:
    """The same array, or the same variables, with lineage: the values are copied, names, labels and attributes stay.

    Args:
        recording: that follows them.
        name: of the source. Of a dataset each variable is a source: ``name/variable``.
        array: a DataArray or a Dataset. Coordinates have no lineage: they say where cells lie. A coordinate that is computed
            with is made a variable before (``dataset.reset_coords``).

    Returns:
        A DataArray or Dataset around traced arrays.

    Raises:
        ArrayLineageError: a name is taken.
        UntracedError: it is traced already, or holds objects.
    """
    if isinstance(array, xr.Dataset):
        return array.assign(
            {
                variable: source(recording, f"{name}/{variable}", values)
                for variable, values in array.data_vars.items()
            }
        )
    if isinstance(array.data, TracedArray):
        raise ArrayLineageError(f"{name!r} is traced: what it was made from would be lost")
    return array.copy(data=recording.source(name, array.values))


def back(
    recording: Recording,
    array: xr.DataArray,
    where: Labels | None = None,
    *,
    choices: bool = False,
) -> CellTrace:
    """As :meth:`Recording.back`, of cells that labels name.

    Args:
        recording: of the array.
        array: a DataArray around a traced array.
        where: labels by axis, as ``array.sel`` takes them: ``{"time": "2020-01-03", "x": slice(1, 4)}``. Of an axis without
            labels positions. Without any: all cells.
        choices: as there.

    Raises:
        CellError: there are no such labels.
        UntracedError: the array's values have left the recording.
    """
    return recording.back(_traced(recording, array), cells_at(array, where), choices=choices)


def forward(
    recording: Recording,
    name: str,
    like: xr.DataArray,
    array: xr.DataArray,
    where: Labels | None = None,
    *,
    choices: bool = False,
) -> CellTrace:
    """As :meth:`Recording.forward`, of cells of a source that labels name.

    Args:
        recording: of the array.
        name: of the source.
        like: an array with the source's axes and labels, such as what `source` gave.
        array: the cells of which are asked for: a DataArray around a traced array.
        where: cells of the source, as in `back`.
        choices: as there.

    Raises:
        CellError, UntracedError: as `back`.
        ArrayLineageError: there is no such source, or the array was not made from it.
    """
    cells = cells_at(like, where)
    return recording.forward(name, _traced(recording, array), cells, choices=choices)


def cells_at(array: xr.DataArray, where: Labels | None) -> Cells:
    """The cells of an array that labels name.

    Raises:
        CellError: there are no such labels.
    """
    positions = _around(array, np.arange(array.size))
    try:
        selected = positions if where is None else positions.sel(where)
    except (KeyError, ValueError, IndexError, TypeError) as problem:
        raise CellError(f"no cells at {dict(where or {})}: {problem}") from problem
    return Cells.at(array.shape, selected.values.reshape(-1))


def marked(cells: Cells, like: xr.DataArray) -> xr.DataArray:
    """Which cells of an array these are, as truth values with its axes and labels: ``flux.where(marked(cells, flux), drop=True)``.

    Args:
        cells: of a trace.
        like: an array of the same shape, whose axes and labels they have.

    Raises:
        CellError: it is of another shape.
    """
    _check_shape(cells, like)
    return _around(like, cells.mask())


def addresses(name: str, cells: Cells, like: xr.DataArray) -> Iterator[str]:
    """Cells as people write them, by names and labels: ``cube/flux[time=2020-01-03,x=4.0]``; positions where an axis has no labels.

    Args:
        name: of the source.
        cells: of a trace.
        like: as in `marked`.

    Raises:
        CellError: it is of another shape.
    """
    _check_shape(cells, like)
    labels = [(axis, _labels(like, axis)) for axis in like.dims]
    for coordinates in cells.coordinates():
        parts = (
            f"{axis}={texts[at]}" for (axis, texts), at in zip(labels, coordinates, strict=True)
        )
        yield f"{name}[{','.join(parts)}]"


def _labels(like: xr.DataArray, axis: Hashable) -> Any:
    """The labels of an axis as texts: times without the zeros that their unit adds."""
    if axis not in like.indexes:
        return range(like.sizes[axis])
    labels = like.indexes[axis]
    if labels.dtype.kind != "M":
        return labels
    whole_days = bool((labels.normalize() == labels).all())
    return np.datetime_as_string(labels.values, unit="D" if whole_days else "auto")


def _around(like: xr.DataArray, values: Any) -> xr.DataArray:
    """Values with the axes and the labels of an array. Coordinates that label no axis are left out."""
    kept = like.drop_vars([name for name in like.coords if name not in like.indexes])
    return xr.DataArray(values.reshape(like.shape), dims=kept.dims, coords=kept.coords)


def _check_shape(cells: Cells, like: xr.DataArray) -> None:
    if tuple(cells.shape) != like.shape:
        raise CellError(f"cells of {tuple(cells.shape)}, and an array of {like.shape}")


def _traced(recording: Recording, array: xr.DataArray) -> TracedArray:
    """The traced array in a DataArray.

    Raises:
        UntracedError: its values have left the recording, or are not computed yet.
    """
    values = array.data
    if isinstance(values, TracedArray):
        return values
    if hasattr(values, "dask"):
        raise UntracedError("the array is not computed yet", "array.compute()")
    left = recording.flow.leaks[-1] if recording.flow.leaks else "what made it"
    raise UntracedError(
        f"the array has plain values; values left by {left}",
        "another function, or source(recording, name, array)",
    )
