"""Values of arrays as a server draws them."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import Any, Protocol

import numpy as np

from lineage.served import ServerError
from lineage_arrays.pictures import Shading
from lineage_arrays.planes import PIXELS_MAX, SIGNATURE, U8, Plane, Shades

_HEAD = struct.Struct(">IIBBBBB")
_GREY_AND_ALPHA = (8, 4, 0, 0, 0)
"""Eight bits each, without interlacing: how the server writes its pictures."""


class PictureServer(Protocol):
    """A server that draws planes of arrays."""

    def array_picture(self, app: str, array: str, plane: str, side: int) -> dict[str, Any]:
        """The values of a plane as a picture."""


def served_shading(server: PictureServer, app: str, array: str) -> Shading:
    """The greys that a server draws of an array. It refuses where the caller may not see values, and where it has none.

    Args:
        server: the server.
        app: the application that recorded the array.
        array: its id there.
    """

    def shading(plane: Plane, steps: tuple[int, int]) -> tuple[U8, Shades]:
        answer = server.array_picture(app, array, str(plane), PIXELS_MAX)
        rows, columns = (
            math.ceil(length / step) for length, step in zip(plane.table, steps, strict=True)
        )
        try:
            is_asked = (answer["plane"], answer["steps"]) == (str(plane), list(steps))
            shades = greys_of(base64.b64decode(answer["png"], validate=True), rows, columns)
            low, high = (_finite(answer[name]) for name in ("low", "high"))
        except (KeyError, TypeError, ValueError, struct.error, zlib.error) as error:
            raise ServerError("the server's picture of the values can't be read") from error
        if not is_asked:
            raise ServerError("the server draws the values of other cells, or in other pixels")
        return shades, Shades(low, high)

    return shading


def _finite(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("a scale is of numbers")
    return float(value)


def greys_of(png: bytes, rows: int, columns: int) -> U8:
    """Greys and alphas of a picture that :func:`lineage_arrays.planes.png_of` wrote, of shape (rows, columns, 2).

    Raises:
        ValueError, struct.error, zlib.error: it is another one, or of another size.
    """
    head, packed = png[16 : 16 + _HEAD.size], b""
    at = len(SIGNATURE)
    while at < len(png):
        length, name = struct.unpack_from(">I4s", png, at)
        if name == b"IDAT":
            packed += png[at + 8 : at + 8 + length]
        at += 12 + length
    if not png.startswith(SIGNATURE) or _HEAD.unpack(head) != (columns, rows, *_GREY_AND_ALPHA):
        raise ValueError("no picture of greys of this size")
    size = rows * (1 + 2 * columns)
    # Bounded: a few bytes may unpack to any number of them.
    unpacked = zlib.decompressobj().decompress(packed, size + 1)
    if len(unpacked) != size:
        raise ValueError("pixels are missing")
    lines = np.frombuffer(unpacked, np.uint8).reshape(rows, 1 + 2 * columns)
    if lines[:, 0].any():
        raise ValueError("lines are filtered")
    return lines[:, 1:].reshape(rows, columns, 2).copy()
