"""Names of arrays in files: ``spectra.npz/flux``, ``data.h5/group/flux``, ``image.fits[1]``, ``cube.zarr/flux``."""

from __future__ import annotations

import os
import re

SEVERAL = ".npz"
"""Of NumPy's files of several arrays."""
NUMPY = (".npy", SEVERAL)
HDF5 = (".h5", ".hdf5", ".he5")
NETCDF = (".nc", ".nc4", ".cdf")
IMAGES = (".png", ".tif", ".tiff", ".jpg", ".jpeg")
ROWS = ".parquet"
"""Of files of rows, whose columns make an array: other programs read and write their rows."""
TREE = ".zarr"
"""Of a folder in which each array is a folder of chunks."""
_SLASHED = re.compile(
    rf"({'|'.join(map(re.escape, (SEVERAL, *HDF5, *NETCDF, *IMAGES)))})/", re.IGNORECASE
)
_FITS = r"\.(?:fits|fit|fts)(?:\.gz)?"
_FITS_FILE = re.compile(rf".*{_FITS}", re.IGNORECASE | re.DOTALL)
_FITS_NAME = re.compile(rf"(.*{_FITS})\[(\d{{1,9}})\]", re.IGNORECASE | re.DOTALL)


def is_fits(path: str) -> bool:
    """Whether a file is named as those of FITS are."""
    return _FITS_FILE.fullmatch(path) is not None


def is_numpy(path: str) -> bool:
    """Whether a file is NumPy's: its name has the ending of no other format."""
    return not (
        path.lower().endswith((*HDF5, *NETCDF, *IMAGES, ROWS)) or is_fits(path) or is_tree(path)
    )


def holds_rows(path: str) -> bool:
    """Whether a file is one of rows, with one along its array's first axis each."""
    return path.lower().endswith(ROWS)


def grows(path: str, member: str) -> bool:
    """Whether programs add arrays to a file that has some, and leave these as they are: all files of several, but those that NumPy writes."""
    return bool(member) and not path.lower().endswith(SEVERAL)


def is_tree(path: str) -> bool:
    """Whether a path lies in a folder of chunks, and is not a file of NumPy's that was put there."""
    if f"{TREE}/" not in f"{path}/".lower():
        return False
    # An array of Zarr may have any name: then it is a folder.
    return not path.lower().endswith(NUMPY) or os.path.isdir(path)


def member_in_brackets(name: str) -> bool:
    """Whether a name ends with the number of an array in its file, which looks like an index: ``image.fits[1]``."""
    return _FITS_NAME.fullmatch(name) is not None


def array_name(path: str, member: str) -> str:
    """How people call an array in a file."""
    if not member:
        return path
    return f"{path}[{member}]" if is_fits(path) else f"{path}/{member}"


def split_name(name: str) -> tuple[str, str]:
    """The path and the member of an array's name; the member is empty where the file has one array, or the name is of no file.

    Folders may be named as files are: the path ends where no folder of that name is.
    """
    if in_fits := _FITS_NAME.fullmatch(name):
        return in_fits[1], str(int(in_fits[2]))
    for ending in _SLASHED.finditer(name):
        path, member = name[: ending.end() - 1], name[ending.end() :].strip("/")
        if member and not os.path.isdir(path):
            return path, member
    return name, ""
