"""Traces of cells as notebooks show them: counts, where the cells lie, and a picture of each array."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lineage_arrays.cells import Cells, Shape
from lineage_arrays.claims import TraceClaims
from lineage_arrays.errors import NoPictureError
from lineage_arrays.pictures import CellPicture, ValuesOf, box_of, draw_cells, shading_of
from lineage_arrays.planes import Plane
from lineage_arrays.workflow import AnyArray
from lineage_core.html_parts import block, code, heading, mime_bundle, note, picture, table, text

SIDE = 384
"""Pixels of a picture each way, at most."""
PICTURES_MAX = 6
"""Arrays with cells that are drawn."""
ARRAYS_MAX = 50
REASONS_MAX = 20
"""Reasons of each kind that are shown."""
TEXT_MAX = 300
"""Characters of a name or of a reason."""
Remark: TypeAlias = tuple[str, str, str]
"""A word of what a trace says about itself, its explanation, and its tone."""


@dataclass(frozen=True)
class DisplayedCells:
    """Cells of an array, as they are shown. ``values_of``: its values; it says by an error that there are none."""

    name: str
    cells: Cells
    values_of: ValuesOf


def values_in(array: AnyArray | None, shape: Shape) -> ValuesOf:
    """Gives the values of an array, where there is one of the shape."""

    def values_of(plane: Plane) -> AnyArray:
        if array is None or array.shape != shape:
            raise NoPictureError("the trace has none of this array")
        return plane.values(array)

    return values_of


@dataclass(frozen=True, kw_only=True)
class CellsDisplay(TraceClaims):
    """A trace that shows itself in notebooks with pictures of cells, and as text where there is no HTML."""

    @abstractmethod
    def _displayed(self) -> Sequence[DisplayedCells]:
        """The cells of each array."""

    def _repr_html_(self) -> str:
        # Those with cells first; sorted keeps the order of the others.
        arrays = sorted(self._displayed(), key=lambda one: not one.cells)
        rows = [
            (code(_cut(one.name)), text(_amount(one.cells)), code(_box_text(one)))
            for one in arrays[:ARRAYS_MAX]
        ]
        parts = [table(("array", "cells", "within"), rows)] if rows else [note("no cells")]
        parts += _more(len(arrays) - ARRAYS_MAX, "arrays")
        with_cells = [one for one in arrays if one.cells]
        for one in with_cells[:PICTURES_MAX]:
            parts += _picture_parts(one)
        parts += _more(len(with_cells) - PICTURES_MAX, "arrays with cells, without a picture here")
        return block([*parts, *self._claims()])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return mime_bundle(self._repr_html_(), self._text())

    def _text(self) -> str:
        arrays = self._displayed()
        lines = [f"{_box_text(one)}: {_amount(one.cells)}" for one in arrays[:ARRAYS_MAX]]
        lines += [f"and {len(arrays) - ARRAYS_MAX:,} more arrays"] if arrays[ARRAYS_MAX:] else []
        lines += [f"{word}: {reason}" if reason else word for word, reason, _ in self._remarks()]
        return "\n".join(lines or ["no cells"])

    def _claims(self) -> list[str]:
        return [note(word, reason, tone) for word, reason, tone in self._remarks()]

    def _remarks(self) -> Iterator[Remark]:
        """What the trace says about itself."""
        if not self.superset_reasons:
            yield "exact", "", "good"
        if not self.incomplete_reasons:
            yield "complete", "", "good"
        for word, reasons, tone in (
            ("superset", self.superset_reasons, "doubtful"),
            ("incomplete", self.incomplete_reasons, "bad"),
            ("chosen by", self.chosen_by, "none"),
        ):
            for reason in reasons[:REASONS_MAX]:
                yield word, _cut(reason), tone
            if reasons[REASONS_MAX:]:
                yield word, f"and {len(reasons) - REASONS_MAX:,} more reasons", tone


def _picture_parts(one: DisplayedCells) -> list[str]:
    try:
        drawn = draw_cells(one.cells, shading_of(one.values_of), SIDE)
    except NoPictureError as reason:
        return [note("no picture", f"{_cut(one.name)}: {_cut(str(reason))}")]
    words = picture_text(drawn, one.cells)
    title = heading(f"{_cut(one.name)}[{drawn.plane}]")
    return [title, picture(drawn.png, f"{_cut(one.name)}: {words}"), note("picture", words)]


def picture_text(drawn: CellPicture, cells: Cells) -> str:
    """What a picture shows: how many of the cells, of which values, and what a pixel is."""
    words = "all cells" if drawn.count == cells.count else f"{drawn.count:,} of the cells"
    words = words if cells else "no cells"
    parts = [f"{words} are in the plane {drawn.plane}"]
    if drawn.steps != (1, 1):
        parts.append(f"a pixel is {drawn.steps[0]:,} x {drawn.steps[1]:,} cells")
    if drawn.enlarged != (1, 1):
        parts.append(f"each is drawn as {drawn.enlarged[0]} x {drawn.enlarged[1]} pixels")
    if drawn.scale is None:
        parts.append(f"no values: {_cut(drawn.missing)}")
    elif drawn.scale.low is None or drawn.scale.high is None:
        parts.append("no value is finite")
    else:
        parts.append(f"black is {drawn.scale.low:.6g}, white is {drawn.scale.high:.6g}")
    return ", ".join(parts)


def _amount(cells: Cells) -> str:
    return f"{'all' if cells.is_whole else f'{cells.count:,} of'} {cells.size:,}"


def _box_text(one: DisplayedCells) -> str:
    """An address of the least box that has all the cells."""
    if not one.cells:
        return _cut(one.name)
    return f"{_cut(one.name)}[{box_text(one.cells)}]"


def box_text(cells: Cells) -> str:
    """The least box that has all of some cells, as an index of NumPy."""
    return ",".join(
        str(first) if behind == first + 1 else f"{first}:{behind}"
        for first, behind in box_of(cells)
    )


def _cut(words: str) -> str:
    return words if len(words) <= TEXT_MAX else f"{words[: TEXT_MAX - 1]}…"


def _more(count: int, what: str) -> list[str]:
    return [note(f"and {count:,} more {what}")] if count > 0 else []
