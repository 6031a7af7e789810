"""Questions about a stored recording, answered by plain values: a server has them answered in a confined process.

Nothing that a recording says is believed, and none of the files is opened that it names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import IO, Any, TypedDict

import numpy as np

from lineage_arrays.cells import Cells
from lineage_arrays.errors import ArrayLineageError, RecordingError
from lineage_arrays.planes import Picture, Plane, marked
from lineage_arrays.querying import CellTrace
from lineage_arrays.saved.address import parse_address, parse_index
from lineage_arrays.saved.reading import (
    NamedArray,
    RecordingPart,
    StoredRecording,
    recording_of_parts,
)
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import BudgetError

OPERATIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "arrays": ("lineage_arrays.saved.questions", "list_arrays"),
        "array": ("lineage_arrays.saved.questions", "describe_array"),
        "trace": ("lineage_arrays.saved.questions", "trace_cells"),
        "names": ("lineage_arrays.saved.step_questions", "list_whole_names"),
        "cells": ("lineage_arrays.saved.step_questions", "cells_at"),
        "back": ("lineage_arrays.saved.step_questions", "back_to_sources"),
        "forward": ("lineage_arrays.saved.step_questions", "forward_to_outputs"),
    }
)
"""Functions of a file and of arguments, as :class:`lineage_query.rows.confined.ConfinedFormats` calls them."""
TEXT_MAX = 200
"""Characters of a value, or of a description, at most."""
NAME_MAX = 4_096
"""Characters of a name, of a path or of a reason, at most."""
ARRAYS_MAX = 200
"""Arrays that an answer lists."""
PICTURES_MAX = 20
"""Arrays among them of which it has a picture."""
REASONS_MAX = 200
"""Reasons of each kind that it lists."""
Parts = Sequence[RecordingPart]


class Question(TypedDict):
    """A question about cells: of ``array`` (its id) at ``index``, or at an address ``cells``.

    ``to``: forward, the outputs of that name alone. ``side``: pixels of the pictures each way, 0: none. ``planes``: by id of
    an array the plane that its picture shows. ``limit``: runs of positions of each array; ``after``: by id of an array the
    position behind which they begin. ``only``: ids of the arrays that the answer has, and no others; empty: all.
    """

    backward: bool
    array: str | None
    index: str
    cells: str | None
    to: str | None
    choices: bool
    limit: int
    after: Mapping[str, int]
    side: int
    planes: Mapping[str, str]
    only: Sequence[str]


def refusing(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return what is refused as a value: the process stays as it is, and answers the next question."""

    @functools.wraps(function)
    def answer(file: IO[bytes], *arguments: Any) -> dict[str, Any]:
        try:
            return function(file, *arguments)
        except (MemoryError, BudgetError, EOFError, OSError):
            raise
        except LineageError as error:
            return {"refused": str(error)[:NAME_MAX]}
        except Exception as error:
            # Forged bytes may fail anywhere in NumPy and in libraries of formats.
            problem = f"what is stored can't be read: {type(error).__name__}: {error}"
            return {"refused": problem[:NAME_MAX]}

    return answer


@refusing
def list_arrays(_: IO[bytes], app: str, parts: Parts, first: int, limit: int) -> dict[str, Any]:
    """Named arrays of a recording, from the ``first`` one on."""
    named = ids_of(recording_of_parts(app, parts))
    page = list(named.items())[first : first + limit]
    return {"arrays": [described(key, one) for key, one in page], "total": len(named)}


@refusing
def trace_cells(_: IO[bytes], app: str, parts: Parts, question: Question) -> dict[str, Any]:
    """The cells that some cells were made from, or went into, within one recording."""
    recording = recording_of_parts(app, parts)
    check_names(recording)
    named = ids_of(recording)
    key, cells = _asked(named, question)
    found, claims = (_back if question["backward"] else _forward)(
        recording, named, key, cells, question
    )
    # Those with cells first.
    listed = sorted(found, key=lambda at: not found[at])
    if question["only"]:
        listed = [at for at in listed if at in question["only"]]
    undrawn = Question(**{**question, "side": 0})
    return {
        "asked": _cells_plain(key, named[key], cells, question),
        "arrays": [
            _cells_plain(at, named[at], found[at], question if drawn < PICTURES_MAX else undrawn)
            for drawn, at in enumerate(listed[:ARRAYS_MAX])
        ],
        "arrays_total": len(listed),
        "exact": all(claim.exact for claim in claims),
        "complete": all(claim.complete for claim in claims),
        "superset_reasons": distinct(claim.superset_reasons for claim in claims),
        "incomplete_reasons": distinct(claim.incomplete_reasons for claim in claims),
        "chosen_by": distinct(claim.chosen_by for claim in claims),
    }


@refusing
def describe_array(_: IO[bytes], app: str, parts: Parts, key: str) -> dict[str, Any]:
    """The named array of an id."""
    named = ids_of(recording_of_parts(app, parts))
    if key not in named:
        raise ArrayLineageError(
            f"{app} has no array {key!r:.80}: the list of its arrays has their ids"
        )
    return described(key, named[key])


def ids_of(recording: StoredRecording) -> dict[str, NamedArray]:
    """The named arrays of a recording by ids, which are always the same: by their order in it."""
    sources = {f"source-{at}": one for at, one in enumerate(recording.sources)}
    return sources | {f"output-{at}": one for at, one in enumerate(recording.outputs)}


def check_names(recording: StoredRecording) -> None:
    """See that sources of one name have one shape: their cells are put together by name.

    Raises:
        RecordingError: some have not.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for one in recording.sources:
        if shapes.setdefault(one.name, one.node.shape) != one.node.shape:
            raise RecordingError(f"two sources of different shapes are called {one.name!r:.80}")


def _asked(named: Mapping[str, NamedArray], question: Question) -> tuple[str, Cells]:
    """The array that a question is about, by its id, and its cells."""
    is_source = not question["backward"]
    if question["cells"] is not None:
        address = parse_address(question["cells"])
        key = _of_name(named, address.name, is_source=is_source)
        return key, Cells.of(named[key].node.shape, address.where)
    key = question["array"] or ""
    if key not in named or named[key].is_source != is_source:
        kind = "source, to trace forward" if is_source else "output, to trace backward"
        raise ArrayLineageError(f"{key!r:.80} is the id of no {kind}: the list of arrays has them")
    index = parse_index(question["index"]) if question["index"] else ...
    return key, Cells.of(named[key].node.shape, index)


def _of_name(named: Mapping[str, NamedArray], name: str, *, is_source: bool) -> str:
    """The id of the last array of a name, as commands have it."""
    fitting = [key for key, one in named.items() if one.is_source == is_source and one.name == name]
    if not fitting:
        kind = "source" if is_source else "output"
        raise ArrayLineageError(
            f"the recording has no {kind} {name!r:.200}: the list of arrays has their names"
        )
    return fitting[-1]


def _back(
    recording: StoredRecording,
    named: Mapping[str, NamedArray],
    key: str,
    cells: Cells,
    question: Question,
) -> tuple[dict[str, Cells], list[CellTrace]]:
    trace = recording.back_from(named[key].node, cells, choices=question["choices"])
    found = {
        at: trace.cells[one.name]
        for at, one in named.items()
        if one.is_source and one.name in trace.cells
    }
    return found, [trace]


def _forward(
    recording: StoredRecording,
    named: Mapping[str, NamedArray],
    key: str,
    cells: Cells,
    question: Question,
) -> tuple[dict[str, Cells], list[CellTrace]]:
    number, to = named[key].node.number, question["to"]
    traces = recording.traces_to_outputs(number, cells, to, question["choices"])
    if to is not None and not traces:
        raise ArrayLineageError(f"no output {to!r:.200} was made from {named[key].name}")
    ids = {(one.name, one.file): at for at, one in named.items() if not one.is_source}
    found = {
        ids[output.name, output.file]: of_output
        for output, trace in traces
        for of_output in trace.cells.values()
    }
    return found, [trace for _, trace in traces]


def distinct(parts: Iterable[tuple[str, ...]]) -> list[str]:
    """Reasons of several traces, each once, as many as an answer lists."""
    texts = list(dict.fromkeys(text for part in parts for text in part))
    left_out = len(texts) - REASONS_MAX
    listed = [text[:NAME_MAX] for text in texts[:REASONS_MAX]]
    return [*listed, f"and {left_out:,} more"] if left_out > 0 else listed


def described(key: str, one: NamedArray) -> dict[str, Any]:
    """A named array of an id by plain values."""
    file = one.file
    return {
        "id": key,
        "name": one.name[:NAME_MAX],
        "is_source": one.is_source,
        "shape": list(one.node.shape),
        "dtype": str(one.node.dtype)[:TEXT_MAX],
        "call_site": one.node.call_site[:TEXT_MAX],
        "file": None
        if file is None
        else {
            "path": file.path[:NAME_MAX], "member": file.member[:NAME_MAX], "size": file.size, "mtime": file.mtime,
            "checksum": file.checksum[:TEXT_MAX],
        },
    }  # fmt: skip


def _cells_plain(key: str, one: NamedArray, cells: Cells, question: Question) -> dict[str, Any]:
    """Cells of an array: how many, where the first are, and a picture of where they lie."""
    region = cells.region()
    after = question["after"].get(key, -1)
    begin = int(np.searchsorted(region.last, np.uint64(after + 1)))
    behind = begin + question["limit"]
    first, last = region.first[begin:behind].copy(), region.last[begin:behind]
    if len(first):
        first[0] = max(int(first[0]), after + 1)
    plain = {
        "array": described(key, one),
        "count": cells.count,
        "whole": cells.is_whole,
        "ranges": Region(first, last).to_text(),
        "ranges_total": region.runs,
        "next": str(int(last[-1])) if behind < region.runs and len(last) else None,
        "picture": None,
    }
    if question["side"]:
        index = question["planes"].get(key)
        plane = _plane_of(cells, index)
        picture, count = marked(plane, cells, question["side"])
        plain["picture"] = {"plane": str(plane), "count": count, **picture_plain(picture)}
    return plain


def _plane_of(cells: Cells, index: str | None) -> Plane:
    """The plane of an index; without one the first plane in which a cell lies."""
    if index:
        return Plane.of(cells.shape, parse_index(index))
    plane = Plane.of(cells.shape, ...)
    if cells.is_whole or not cells.count:
        return plane
    first = np.unravel_index(int(cells.region().first[0]), cells.shape)
    shown = [
        part if isinstance(part, tuple) else int(at)
        for part, at in zip(plane.index, first, strict=True)
    ]
    return Plane(cells.shape, tuple(shown))


def picture_plain(picture: Picture) -> dict[str, Any]:
    return {"size": list(picture.size), "steps": list(picture.steps), "png": picture.png}
