"""Arrays of files as the libraries of their formats give them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from lineage_arrays.errors import ArrayLineageError, UntracedError
from lineage_arrays.formats.names import HDF5, IMAGES, NETCDF, ROWS, is_fits
from lineage_arrays.formats.rows import read_rows
from lineage_arrays.workflow import AnyArray
from lineage_core.environment.extras import needed

_DAMAGED = (OSError, ValueError, KeyError, IndexError, TypeError, RuntimeError, EOFError, SyntaxError, AttributeError)  # fmt: skip
"""What libraries raise for a file that is none of theirs, or is damaged."""


@dataclass(frozen=True)
class Decoded:
    """An array of a file. Its cells have the coordinates that the format's library gives them, in whatever order they lie in the file.

    ``member``: its one name in the file; empty where the file has one array. ``step``: where the file has whole numbers in
    place of values (``scale_factor``, ``BSCALE``), how far apart the values of two such numbers are; else 0.
    """

    values: AnyArray
    member: str
    step: float = 0.0


def decoded(path: str, file: IO[bytes], member: str) -> list[Decoded]:
    """The array of a file that has a name in it; without a name the only one, of an ``.npz`` file all.

    Args:
        path: of the file; its ending says the format.
        file: the file, open at its beginning.
        member: the array's name in it, or empty.

    Raises:
        ArrayLineageError: it is no such file, has no such array, or the format's library is missing.
        UntracedError: the array's cells are no values, or lie in other files.
    """
    try:
        return _reader(path)(file, member)
    except UntracedError as error:
        raise UntracedError(f"{path}: {error.detail}", error.way_out) from error
    except ArrayLineageError as error:
        raise ArrayLineageError(f"{path}: {error}") from error
    except (*_DAMAGED, zipfile.BadZipFile) as error:
        raise ArrayLineageError(f"{path} can't be read: {error}") from error


def _reader(path: str) -> Callable[[IO[bytes], str], list[Decoded]]:
    ending = path.lower()
    if ending.endswith(HDF5):
        return _of_hdf5
    if ending.endswith(NETCDF):
        return _of_netcdf
    if ending.endswith(IMAGES):
        return _of_image
    if ending.endswith(ROWS):
        return _of_rows
    return _of_fits if is_fits(path) else _of_numpy


def _of_numpy(file: IO[bytes], member: str) -> list[Decoded]:
    begin = file.read(len(np.lib.format.MAGIC_PREFIX))
    if not begin.startswith((np.lib.format.MAGIC_PREFIX, b"PK")):
        raise ArrayLineageError("it is no .npy or .npz file, and its name has the ending of no other format")  # fmt: skip
    file.seek(0)
    try:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return [Decoded(loaded, "")]
        names = [member] if member else loaded.files
        return [Decoded(loaded[name], name) for name in names]
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise UntracedError(
                "it holds objects", "np.load it, and name its numbers by recording.source"
            ) from error
        raise


def _of_hdf5(file: IO[bytes], member: str) -> list[Decoded]:
    h5py = needed("h5py", "HDF5", error=ArrayLineageError)
    with h5py.File(file, "r") as content:
        datasets = _datasets(h5py, content)
        name = member or only(list(datasets.values()))
        dataset = _own_dataset(h5py, content, name)
        one_name = datasets.get(h5py.h5o.get_info(dataset.id).addr, name)
        if dataset.shape is None:
            raise ArrayLineageError(f"{name!r} has no cells")
        if dataset.dtype.hasobject:
            raise _objects_error(name, "h5py")
        return [Decoded(np.asarray(dataset[()]), one_name)]


def _objects_error(name: str, library: str) -> UntracedError:
    return UntracedError(
        f"{name!r} holds texts or arrays of any length, which are objects in Python",
        f"read it by {library}, and name its numbers by recording.source",
    )


def _datasets(h5py: Any, content: Any) -> dict[int, str]:
    """The datasets of a file, each by its address and the first of its names: several links may lead to one."""
    datasets: dict[int, str] = {}

    def note(name: str, part: Any) -> None:
        if isinstance(part, h5py.Dataset):
            datasets.setdefault(h5py.h5o.get_info(part.id).addr, name)

    content.visititems(note)
    return datasets


def _own_dataset(h5py: Any, content: Any, name: str) -> Any:
    """A dataset whose cells lie in the file itself.

    Raises:
        KeyError: the file has none of that name.
        UntracedError: its cells, or the dataset itself, lie in another file, which no checksum binds.
    """
    parts = name.split("/")
    groups = ("/".join(parts[: at + 1]) for at in range(len(parts)))
    is_outside = any(isinstance(content.get(path, getlink=True), h5py.ExternalLink) for path in groups)  # fmt: skip
    dataset = None if is_outside else content[name]
    if isinstance(dataset, h5py.Group):
        raise ArrayLineageError(f"{name!r} is a group: name an array of it")
    if dataset is None or dataset.is_virtual or dataset.external or dataset.file != content:
        raise UntracedError(
            f"cells of {name!r} lie in other files", "load these, and put them together by NumPy"
        )
    return dataset


def _of_netcdf(file: IO[bytes], member: str) -> list[Decoded]:
    library = needed("netCDF4", "NetCDF", error=ArrayLineageError)
    content = file.read()
    with library.Dataset("in-memory.nc", memory=content) as dataset:
        # A dimension's values are a variable, too: it is named.
        name = member or only(list(dataset.variables))
        variable = dataset[name]
        if not isinstance(variable, library.Variable):
            raise ArrayLineageError(f"{name!r} is a group: name a variable of it")
        if dataset.data_model.startswith("NETCDF4"):
            _check_own_cells(content, variable)
        if not isinstance(variable.dtype, np.dtype) or variable.dtype.hasobject:
            raise _objects_error(name, "netCDF4")
        # Else characters become texts, and have one dimension less.
        variable.set_auto_chartostring(False)
        variable.set_always_mask(False)
        values = variable[...]
        step = abs(float(getattr(variable, "scale_factor", 0.0)))
        is_packed = np.dtype(variable.dtype).kind in "iu"
        if isinstance(values, np.ma.MaskedArray):
            if values.dtype.kind in "fc":
                values = values.filled(np.nan)
            else:
                # As they are stored: which value stands for none is the program's business.
                variable.set_auto_mask(False)
                values = variable[...]
        group = variable.group().path.strip("/")
        one_name = f"{group}/{variable.name}" if group else variable.name
        return [Decoded(np.asarray(values), one_name, step if is_packed else 0.0)]


def _check_own_cells(content: bytes, variable: Any) -> None:
    """See that cells of a NetCDF variable lie in the file itself: its library follows links of HDF5 without a word."""
    h5py = needed("h5py", "NetCDF", error=ArrayLineageError)
    path = f"{variable.group().path.strip('/')}/{variable.name}".strip("/")
    with h5py.File(io.BytesIO(content), "r") as below:
        folder, _, name = path.rpartition("/")
        # So the library names a variable that is called as a dimension that is not its own.
        hidden = f"{folder}/_nc4_non_coord_{name}".strip("/")
        _own_dataset(h5py, below, hidden if hidden in below else path)


def _of_fits(file: IO[bytes], member: str) -> list[Decoded]:
    fits = needed("astropy.io.fits", "FITS", error=ArrayLineageError)
    with fits.open(file, memmap=False) as units:
        images = [
            str(number)
            for number, unit in enumerate(units)
            if unit.is_image and not isinstance(unit, fits.GroupsHDU) and unit.header.get("NAXIS")
        ]
        number = member or only(images)
        if number not in images:
            raise ArrayLineageError(f"unit {number} is no image; these are: {', '.join(images) or 'none'}")  # fmt: skip
        unit = units[int(number)]
        is_packed = not isinstance(unit, fits.CompImageHDU) and unit.header["BITPIX"] > 0
        step = abs(float(unit.header.get("BSCALE", 1.0))) if is_packed else 0.0
        values = np.asarray(unit.data)
        return [Decoded(values, number, step if values.dtype.kind == "f" else 0.0)]


def _of_image(file: IO[bytes], member: str) -> list[Decoded]:
    pillow = needed("PIL.Image", "images", error=ArrayLineageError)
    try:
        return _frame(pillow, file, member)
    except pillow.DecompressionBombError as error:
        raise ArrayLineageError(str(error)) from error


def _frame(pillow: Any, file: IO[bytes], member: str) -> list[Decoded]:
    with pillow.open(file) as image:
        frames = [str(number) for number in range(getattr(image, "n_frames", 1))]
        number = member or only(frames)
        if number not in frames:
            raise ArrayLineageError(f"the image has no frame {number!r}: they are from 0 to {frames[-1]}")  # fmt: skip
        image.seek(int(number))
        return [Decoded(np.array(image), number if len(frames) > 1 else "")]


def _of_rows(file: IO[bytes], member: str) -> list[Decoded]:
    if member:
        raise ArrayLineageError("the columns of a file of rows are those of one array")
    return [Decoded(read_rows(file), "")]


def only(names: list[str]) -> str:
    """The one array that a file has.

    Raises:
        ArrayLineageError: it has none, or several.
    """
    if len(names) == 1:
        return names[0]
    listed = f"{', '.join(names[:20])}{' and more' if len(names) > 20 else ''}"
    raise ArrayLineageError(f"it has several arrays, name one: {listed}" if names else "it has no array")  # fmt: skip
