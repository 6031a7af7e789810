"""Addresses of cells for people: ``image.npy[12,40]``, ``spectra.npz/flux[3, 12:20, :]``, ``image.fits[1][3,4]``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import EllipsisType
from typing import TypeAlias

from lineage_arrays.errors import CellError
from lineage_arrays.formats.names import member_in_brackets

Index: TypeAlias = "tuple[int | slice | EllipsisType, ...] | EllipsisType"
_NUMBER = r"\s*(-?\d{1,18})?\s*"
_PART = re.compile(rf"{_NUMBER}(:{_NUMBER}(:{_NUMBER})?)?")


@dataclass(frozen=True)
class CellAddress:
    """Cells of an array, by its name; ``where``: an index of NumPy."""

    name: str
    where: Index

    def __str__(self) -> str:
        return self.name


def parse_address(text: str) -> CellAddress:
    """Read ``NAME[INDEX]``, or ``NAME`` for all cells. An index has numbers, slices and ``...``.

    The first brackets after a file of FITS have the number of a unit: ``image.fits[1][3,4]``, ``image.fits[1]`` for all cells of the unit.

    Raises:
        CellError: it is no address.
    """
    if member_in_brackets(text):
        return CellAddress(text, ...)
    name, bracket, rest = text.rpartition("[") if text.endswith("]") else (text, "", "")
    if not name.strip():
        raise CellError(f"{text!r} names no array: give NAME[INDEX], as in image.npy[12,40]")
    if not bracket:
        return CellAddress(name, ...)
    inner = rest.removesuffix("]")
    return CellAddress(name, _index(text, inner))


def parse_index(text: str) -> Index:
    """Read the index of an address by itself: ``3,12:20,:``. An empty one is that of an array without axes.

    Raises:
        CellError: it is none.
    """
    return _index(text, text)


def _index(text: str, inner: str) -> tuple[int | slice | EllipsisType, ...]:
    if not inner.strip():
        return ()
    return tuple(_part(text, part) for part in inner.removesuffix(",").split(","))


def _part(text: str, part: str) -> int | slice | EllipsisType:
    if part.strip() == "...":
        return ...
    match = _PART.fullmatch(part)
    if match is None or not part.strip():
        raise CellError(
            f"{part!r} in {text!r} is no number, slice (12:20) or ...: cells are named as in image.npy[12,40] or image.npy[3,12:20,:]"
        )
    first, colon, last, _, step = match.groups()
    if colon is None:
        return int(first)
    numbers = [None if number is None else int(number) for number in (first, last, step)]
    if numbers[2] == 0:
        raise CellError(f"{part!r} in {text!r}: the step of a slice is not 0")
    return slice(*numbers)
