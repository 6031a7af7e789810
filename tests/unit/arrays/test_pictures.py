"""Pictures of cells against their positions, pixel by pixel, as Pillow reads them; and what notebooks show of traces."""

from __future__ import annotations

import base64
import io
import re
from collections import Counter
from html import unescape
from itertools import product
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lineage_arrays import Cells, CellTrace, Recording, display, pictures
from lineage_arrays.cells import Shape
from lineage_arrays.errors import ArrayLineageError, NoPictureError
from lineage_arrays.operators import OperatorGraph
from lineage_arrays.pictures import (
    BACKGROUND,
    CELLS_COLOUR,
    CellPicture,
    ValuesOf,
    beside,
    box_of,
    shading_of,
)
from lineage_arrays.planes import PIXELS_MAX, Plane
from tests.support.cell_operators import BrightSpots

pytestmark = pytest.mark.unit

Pixel = tuple[int, int]
RGBA = npt.NDArray[np.uint8]
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
NUMBERS = st.sampled_from(["f8", "f4", "i4", "u1", "?", "c16", "m8[s]"])


def draw_cells(cells: Cells, values_of: ValuesOf, side: int = PIXELS_MAX) -> CellPicture:
    return pictures.draw_cells(cells, shading_of(values_of), side)


def rgba(png: bytes) -> RGBA:
    image = Image.open(io.BytesIO(png))
    assert image.mode == "RGBA"
    return np.asarray(image)


def shown_axes(shape: Shape) -> list[int]:
    channels = len(shape) > 2 and shape[-1] <= 4
    last = len(shape) - 1 if channels else len(shape)
    return [axis for axis in range(last - 2, last) if axis >= 0]


def pixel_of(drawn: CellPicture, cell: tuple[int, ...]) -> Pixel:
    """The pixel of a cell of the plane, before pixels are enlarged."""
    inside = [cell[axis] for axis in shown_axes(drawn.plane.shape)]
    row, column = [0, *inside][-2:]
    return row // drawn.steps[0], column // drawn.steps[1]


def unlarged(drawn: CellPicture) -> RGBA:
    """One pixel of each block of equal ones."""
    pixels = rgba(drawn.png)
    rows, columns = drawn.enlarged
    few = pixels[::rows, ::columns]
    assert np.array_equal(np.repeat(np.repeat(few, rows, axis=0), columns, axis=1), pixels)
    return few


def in_plane(drawn: CellPicture, cell: tuple[int, ...]) -> bool:
    shown = shown_axes(drawn.plane.shape)
    return all(at == drawn.plane.index[axis] for axis, at in enumerate(cell) if axis not in shown)


def is_marked(pixel: npt.NDArray[np.uint8], *, over_values: bool) -> bool:
    red, green, blue, alpha = pixel.tolist()
    if over_values and (red, green, blue) != CELLS_COLOUR:
        assert alpha in {0, 255}
        return bool(alpha and red - green == 94 and blue - green == 29)
    return (red, green, blue, alpha) == (*CELLS_COLOUR, 255)


def random_values(shape: Shape, dtype: str, seed: int) -> npt.NDArray[Any]:
    random = np.random.default_rng(seed)
    values = np.asarray(random.normal(0, 50, shape)).astype(dtype)
    missing = random.random(shape) < random.choice([0, 0.3, 1])
    if values.dtype.kind in "fcm":
        values[missing] = np.timedelta64("NaT") if values.dtype.kind == "m" else np.nan
    return values


def numbers_of(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    if values.dtype.kind == "m":
        return np.where(np.isnat(values), np.nan, values.astype("i8").astype("f8"))
    return np.abs(values).astype("f8") if values.dtype.kind == "c" else values.astype("f8")


@settings(max_examples=70, deadline=None)
@given(SHAPES, NUMBERS, st.floats(0, 1), st.integers(1, 6), st.integers(0, 9999), st.booleans())
def test_pixels_are_those_of_the_cells_and_their_values(
    shape: Shape, dtype: str, share: float, side: int, seed: int, has_values: bool
) -> None:
    chosen = np.asarray(np.random.default_rng(seed).random(shape) < share)
    values = random_values(shape, dtype, seed)

    def values_of(plane: Plane) -> npt.NDArray[Any]:
        if not has_values:
            raise ArrayLineageError("there are none")
        return plane.values(values)

    cells = Cells.masked(chosen)
    drawn = draw_cells(cells, values_of, side)
    listed = Cells(shape, positions=np.flatnonzero(chosen))
    assert draw_cells(listed, values_of, side).png == drawn.png

    planes = Counter(
        tuple(at for axis, at in enumerate(cell) if axis not in shown_axes(shape))
        for cell in product(*map(range, shape))
        if chosen[cell]
    )
    fixed = tuple(part for part in drawn.plane.index if isinstance(part, int))
    most = max(planes.values(), default=0)
    assert drawn.count == planes[fixed] == most
    assert fixed == min(key for key in planes if planes[key] == most) if most else not any(fixed)

    pixels = unlarged(drawn)
    assert max(pixels.shape[:2]) <= side
    assert (drawn.scale is None) is not has_values
    assert drawn.missing == ("" if has_values else "there are none")
    of_pixel: dict[Pixel, list[tuple[int, ...]]] = {}
    for cell in product(*map(range, shape)):
        if in_plane(drawn, cell):
            of_pixel.setdefault(pixel_of(drawn, cell), []).append(cell)
    assert sorted(of_pixel) == list(np.ndindex(pixels.shape[0], pixels.shape[1]))
    numbers = numbers_of(values)
    for at, its_cells in of_pixel.items():
        marked = any(chosen[cell] for cell in its_cells)
        assert is_marked(pixels[at], over_values=has_values) == marked
        finite = [numbers[cell] for cell in its_cells if np.isfinite(numbers[cell])]
        if not has_values:
            assert marked or tuple(pixels[at].tolist()) == BACKGROUND
        elif not finite:
            assert marked or pixels[at][3] == 0
        else:
            check_shade(drawn, pixels[at], float(np.mean(finite)), marked=marked)


def check_shade(drawn: CellPicture, pixel: RGBA, mean: float, *, marked: bool) -> None:
    """A pixel has the grey of its mean on the picture's scale, or half of it under the colour of cells."""
    assert drawn.scale is not None
    assert drawn.scale.low is not None
    assert drawn.scale.high is not None
    low, high = drawn.scale.low, drawn.scale.high
    part = min(max((mean - low) / (high - low), 0), 1) if high > low else 0
    grey = 255 * part
    expected = [grey / 2 + one // 2 for one in CELLS_COLOUR] if marked else [grey] * 3
    assert pixel[3] == 255
    assert np.abs(pixel[:3] - np.array(expected)).max() <= 1.01


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 5), max_size=4).map(tuple), st.floats(0, 1), st.integers(0, 999))
def test_boxes_are_the_least_around_cells(shape: Shape, share: float, seed: int) -> None:
    chosen = np.asarray(np.random.default_rng(seed).random(shape) < share)
    chosen.flat[0] = True
    places = np.argwhere(chosen)
    least = [(int(one.min()), int(one.max()) + 1) for one in places.T]
    for cells in (Cells.masked(chosen), Cells(shape, positions=np.flatnonzero(chosen))):
        assert list(box_of(cells)) == least


def no_values(_: Plane) -> npt.NDArray[Any]:
    raise ArrayLineageError("none")


def test_scales_leave_out_extremes_unless_nothing_else_is_there() -> None:
    stars = np.arange(10_000.0).reshape(100, 100)
    stars[3, 4] = 1e9
    drawn = draw_cells(Cells.empty(stars.shape), lambda plane: plane.values(stars))
    assert drawn.scale is not None
    assert drawn.scale.high is not None
    assert drawn.scale.high < 10_000
    mask = np.zeros((100, 100), np.bool_)
    mask[5, 6] = True
    drawn = draw_cells(Cells.empty(mask.shape), lambda plane: plane.values(mask))
    assert np.argwhere(unlarged(drawn)[:, :, 0] == 255).tolist() == [[5, 6]]


@pytest.mark.parametrize(
    ("shape", "side", "size"),
    [
        ((1000, 2000), 500, (250, 500)),  # the same each way
        ((3, 1000), 500, (3 * 6, 500)),  # thin: each way by itself, and thick enough to be seen
        ((7,), 500, (36, 252)),
        ((1, 1), 1, (256, 256)),
    ],
)
def test_pictures_are_bounded_and_large_enough(shape: Shape, side: int, size: Pixel) -> None:
    assert rgba(draw_cells(Cells.whole(shape), no_values, side).png).shape[:2] == size


def test_arrays_without_a_picture_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape, reason in (((), "without axes"), ((0, 3), "without cells")):
        with pytest.raises(NoPictureError, match=reason):
            draw_cells(Cells.whole(shape), no_values)
    texts = np.array([["a", "b"]])
    drawn = draw_cells(Cells.whole((1, 2)), lambda plane: plane.values(texts))
    assert "no numbers" in drawn.missing
    monkeypatch.setattr(pictures, "LISTED_MAX", 1)
    with pytest.raises(NoPictureError, match="ask about fewer"):
        draw_cells(Cells.at((100, 100), [1, 2]), no_values)
    monkeypatch.setattr(pictures, "PLANE_CELLS_MAX", 3)
    numbers = np.zeros((2, 2))
    drawn = draw_cells(Cells.whole((2, 2)), lambda plane: plane.values(numbers))
    assert "4 cells" in drawn.missing
    assert drawn.scale is None


def test_pictures_stand_beside_each_other() -> None:
    parts = [
        draw_cells(Cells.at((2, 3), [1]), no_values),
        draw_cells(Cells.whole((300, 40)), no_values),
    ]
    together, lefts = beside(parts)
    for one, left in zip(parts, lefts, strict=True):
        rows, columns = one.pixels.shape[:2]
        assert np.array_equal(together[:rows, left : left + columns], one.pixels)
        together[:rows, left : left + columns] = 0
    assert not together.any()


# In notebooks.


def pictures_of(shown: Any) -> list[RGBA]:
    found = re.findall(r'src="data:image/png;base64,([^"]*)"', shown._repr_html_())
    return [rgba(base64.b64decode(one)) for one in found]


def marked_cells(pixels: RGBA, enlarged: int) -> list[list[int]]:
    few = pixels[::enlarged, ::enlarged].astype(int)
    found: list[list[int]] = np.argwhere(few[:, :, 0] - few[:, :, 1] > 90).tolist()
    return found


def test_traces_of_a_program_show_their_cells_over_what_was_read() -> None:
    recording = Recording()
    image = recording.source("image", np.arange(12.0).reshape(3, 4))
    smooth = image[:, 1:] + image[:, :-1]
    before = pictures_of(recording.back(smooth, np.s_[1, 2]))
    assert [marked_cells(one, 64) for one in before] == [[[1, 2], [1, 3]]]
    forward = recording.forward("image", smooth, np.s_[0, 1])
    shown = pictures_of(forward)
    assert [marked_cells(one, 85) for one in shown] == [[[0, 0], [0, 1]]]
    assert "black is 1, white is 21" in forward._repr_html_()
    # What the program writes later is another version: it is not shown as what was read, or computed.
    image *= -1
    smooth[...] = image[:, 1:]
    later = recording.forward("image", smooth, np.s_[0, 1])
    assert np.array_equal(pictures_of(forward)[0], shown[0])
    assert "black is -11, white is -1" in later._repr_html_()
    assert not np.array_equal(pictures_of(later)[0], shown[0])
    assert np.array_equal(
        marked_cells(pictures_of(recording.back(smooth, np.s_[0, 0]))[0], 64), [[0, 1]]
    )
    again = CellTrace({"image": Cells.at((3, 4), [6, 7])}, {"image": np.arange(12.0).reshape(3, 4)})
    assert np.array_equal(pictures_of(again)[0], before[0])


def test_runs_of_operators_show_their_cells() -> None:
    graph = OperatorGraph()
    source = graph.source("image")
    spots = graph.add(BrightSpots(), source, name="spots")
    version = graph.run({"image": np.random.default_rng(3).random((4, 5))})
    for trace in (version.back(spots, np.s_[0, 0]), version.forward(source, spots, np.s_[0, 0])):
        [(name, cells)] = trace.cells.items()
        [shown] = pictures_of(trace)
        assert marked_cells(shown, 51) == cells.coordinates().tolist()
        assert "black is" in trace._repr_html_()
        assert name in {"image", "spots"}


def test_names_and_reasons_are_text_and_bounded() -> None:
    evil = '<script>alert("x")</script>\u202e\x1b[2J$a$'
    arrays = {f"{evil}{at}": Cells.whole((2, 2)) for at in range(60)}
    arrays["x" * 9999] = Cells.empty((2, 2))
    trace = CellTrace(arrays, superset_reasons=(evil,) * 50, incomplete_reasons=(evil,))
    bundle = trace._repr_mimebundle_()
    html = bundle["text/html"]
    assert html == trace._repr_html_()
    assert len(html) < 80_000
    root = ET.fromstring(html)
    assert {one.tag for one in root.iter()} <= {
        "div",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "code",
        "img",
        "b",
    }
    assert len(root.findall(".//img")) == display.PICTURES_MAX
    assert len(root.findall(".//tbody/tr")) == display.ARRAYS_MAX
    for content in (unescape("".join(root.itertext())), bundle["text/plain"]):
        assert not re.search("[\u202e\x1b]", content)
        for part in ("and 11 more arrays", "and 30 more reasons", "incomplete: "):
            assert part in content
    # Without values it is said that there are none, never drawn as if they were zero.
    assert "no values: the trace has none of this array" in html
    wrong = CellTrace({"a": Cells.whole((2, 2))}, {"a": np.zeros((4, 4))})
    assert "no values" in wrong._repr_html_()


def test_traces_without_cells_or_pictures_show_themselves() -> None:
    empty = CellTrace({})
    assert empty._repr_mimebundle_()["text/plain"] == "exact\ncomplete"
    number = CellTrace({"n": Cells.whole(()), "none": Cells.empty((3,))})
    assert "an array without axes has no picture" in number._repr_html_()
    assert "<img" not in number._repr_html_()
    assert number._repr_mimebundle_()["text/plain"].startswith("n[]: all 1\nnone: 0 of 3\n")
