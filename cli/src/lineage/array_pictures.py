"""Pictures of traces of cells, as ``lineage arrays back --png`` writes them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineage.array_answers import ShownCells, ShownTrace
from lineage.array_shading import PictureServer, served_shading
from lineage.exporting import output_stream
from lineage.terminal import echo
from lineage_arrays.cells import Cells, Shape
from lineage_arrays.display import picture_text
from lineage_arrays.errors import NoPictureError
from lineage_arrays.pictures import (
    LISTED_MAX,
    CellPicture,
    Shading,
    beside,
    draw_cells,
    shading_of,
)
from lineage_arrays.planes import SIGNATURE, png_of
from lineage_arrays.saved.address import parse_address
from lineage_arrays.saved.current_values import values_of_file
from lineage_arrays.saved.tracing import StoredTrace
from lineage_core.errors import LineageError

PICTURES_MAX = 8
"""Arrays that are beside each other in a file."""
SIZE_MAX = 1 << 40
"""Cells of an array of which a server may speak."""

ASKED_SIZE_MAX = 1 << 27
"""Cells of the array that a question to a server is about."""
AXES_MAX = 64
"""Axes of an array of NumPy."""


@dataclass(frozen=True)
class PictureSource:
    """An array of a trace, as it is to be drawn. ``cells``: None: ``missing`` says why they are not known."""

    app: str
    name: str
    is_asked: bool
    cells: Cells | None
    shading: Shading
    missing: str = ""


@dataclass(frozen=True)
class ArrayPicture:
    """The picture of one array in a file. ``left``: its first column there; ``drawn``: None: ``missing`` says why there is none."""

    source: PictureSource
    drawn: CellPicture | None
    left: int = 0
    missing: str = ""


@dataclass(frozen=True)
class SavedPicture:
    """A picture of a trace. ``file``: None: none of its arrays has a picture, and none was written."""

    file: str | None
    arrays: list[ArrayPicture]
    left_out: int = 0


def check_target(path: Path) -> None:
    """See that a picture may be written to a file.

    Raises:
        LineageError: it is something else than a PNG, or there is no such folder.
    """
    if not path.parent.is_dir():
        raise LineageError(f"{path.parent} is no folder: make it, or give --png another file")
    try:
        if not path.exists():
            return
        # What is no file, a pipe or a device, is not opened.
        is_png = stat.S_ISREG(path.stat().st_mode) and _beginning(path) == SIGNATURE
    except OSError as error:
        raise LineageError(f"{path} can't be looked at: {error}; give --png another file") from error  # fmt: skip
    if not is_png:
        raise LineageError(f"{path} is no PNG, and is not overwritten: give --png another file")


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(SIGNATURE))


def sources_of_store(trace: StoredTrace) -> list[PictureSource]:
    """The arrays of a trace in a store: the one that it is about, and those with cells that were found."""
    shading = shading_of(values_of_file(trace.file))
    asked = PictureSource(trace.app, trace.name, True, trace.asked, shading)
    return [
        asked,
        *(
            PictureSource(one.app, one.name, False, one.cells, shading_of(values_of_file(one.file)))
            for one in trace.found
            if one.cells
        ),
    ]


def sources_of_server(
    trace: ShownTrace, address: str, server: PictureServer
) -> list[PictureSource]:
    """As :func:`sources_of_store`, of the answer of a server, which draws the values.

    Args:
        trace: with all its cells.
        address: of the cells that the question was about.
        server: the server.
    """
    asked = _sized(trace.asked_shape, trace.asked_count)
    if isinstance(asked, Cells) and asked.count != trace.asked_count:
        # What an index names is counted by taking it: an array that the server makes larger than it is would fill the memory.
        asked = (
            Cells.of(trace.asked_shape, parse_address(address).where)
            if asked.size <= ASKED_SIZE_MAX
            else f"cells of arrays of more than {ASKED_SIZE_MAX:,} are not drawn of a server's answer"
        )
    shading = served_shading(server, trace.app, trace.served_id)
    return [
        _source(trace.app, trace.name, True, asked, shading),
        *(
            _source(
                *(one.app, one.name, False, _cells_of(one)),
                served_shading(server, one.app, one.served_id),
            )
            for one in trace.found
            if one.count
        ),
    ]


def _source(
    app: str, name: str, is_asked: bool, cells: Cells | str, shading: Shading
) -> PictureSource:
    if isinstance(cells, str):
        return PictureSource(app, name, is_asked, None, shading, cells)
    return PictureSource(app, name, is_asked, cells, shading)


def _cells_of(shown: ShownCells) -> Cells | str:
    """The cells of a server's answer, or why they are not known."""
    sized = _sized(shown.shape, shown.count)
    if isinstance(sized, str) or shown.is_whole:
        return sized
    if shown.first.count != shown.count:
        return "the server lists only some of the cells"
    return Cells.of_region(shown.shape, shown.first)


def _sized(shape: Shape, count: int) -> Cells | str:
    """All cells of an array, or why its cells are not put together: a server may say any size."""
    if len(shape) > AXES_MAX or not all(type(length) is int and length >= 0 for length in shape):
        return "the server's answer has no shape that an array can have"
    whole = Cells.whole(shape)
    if whole.size > SIZE_MAX or (count > LISTED_MAX and count != whole.size):
        return (
            f"{count:,} of {whole.size:,} cells are too many for a picture: ask about fewer of them"
        )
    return whole


def save_picture(path: Path, sources: Sequence[PictureSource]) -> SavedPicture:
    """Write one picture of the arrays of a trace, beside each other.

    Raises:
        LineageError: the file can't be written, or is something else than a PNG by now.
        BudgetError: the question takes too long.
    """
    pictures = [_drawn(one) for one in sources[:PICTURES_MAX]]
    drawn = [one.drawn for one in pictures if one.drawn is not None]
    left_out = len(sources) - len(pictures)
    if not drawn:
        return SavedPicture(None, pictures, left_out)
    pixels, lefts = beside(drawn)
    check_target(path)
    try:
        with output_stream(os.path.abspath(path)) as file:
            file.write(png_of(pixels))
    except OSError as error:
        raise LineageError(f"{path} can't be written: {error}") from error
    at = iter(lefts)
    placed = [
        one if one.drawn is None else ArrayPicture(one.source, one.drawn, next(at))
        for one in pictures
    ]
    return SavedPicture(str(path), placed, left_out)


def _drawn(source: PictureSource) -> ArrayPicture:
    if source.cells is None:
        return ArrayPicture(source, None, missing=source.missing)
    try:
        return ArrayPicture(source, draw_cells(source.cells, source.shading))
    except NoPictureError as reason:
        return ArrayPicture(source, None, missing=str(reason))


def show_picture(saved: SavedPicture) -> None:
    """Say what a picture has, from left to right."""
    if saved.file is None:
        echo("no picture was written")
    else:
        echo(f"picture {saved.file}, from left to right:")
    for one in saved.arrays:
        name = f"{one.source.name} of {one.source.app}{', asked' if one.source.is_asked else ''}"
        if one.drawn is None or one.source.cells is None:
            echo(f"  no picture of {name}: {one.missing}")
        else:
            echo(f"  {name}: {picture_text(one.drawn, one.source.cells)}")
    if saved.left_out:
        echo(f"  and {saved.left_out:,} more arrays without a picture")


def picture_json(saved: SavedPicture) -> dict[str, Any]:
    """The same for tools."""
    return {
        "file": saved.file,
        "left_out": saved.left_out,
        "arrays": [
            {"app": one.source.app, "array": one.source.name, "asked": one.source.is_asked}
            | ({"missing": one.missing} if one.drawn is None else _drawn_json(one.drawn, one.left))
            for one in saved.arrays
        ],
    }


def _drawn_json(drawn: CellPicture, left: int) -> dict[str, Any]:
    scale = drawn.scale
    return {
        "plane": str(drawn.plane),
        "cells_in_plane": drawn.count,
        "cells_of_pixel": list(drawn.steps),
        "pixels_of_pixel": list(drawn.enlarged),
        "left": left,
        "height": drawn.pixels.shape[0],
        "width": drawn.pixels.shape[1],
        "black": None if scale is None else scale.low,
        "white": None if scale is None else scale.high,
        "missing": drawn.missing,
    }
