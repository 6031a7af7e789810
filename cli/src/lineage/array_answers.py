"""Answers about cells of arrays as commands show them, of a store or of a server."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lineage.served import UNREADABLE, ServedAccess, ServerError
from lineage_arrays.cells import Cells
from lineage_arrays.claims import TraceClaims
from lineage_arrays.formats.names import is_tree, split_name
from lineage_arrays.saved.address import parse_address
from lineage_arrays.saved.linking import version_of
from lineage_arrays.saved.plain_values import claims_of, file_of
from lineage_arrays.saved.reading import listed_arrays
from lineage_arrays.saved.row_tracing import claims_with, groups_beyond
from lineage_arrays.saved.tracing import StoredTrace
from lineage_arrays.workflow import ArrayFile
from lineage_core.contract.region import Region
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group
from lineage_store.port import GraphStore

CELLS_LISTED = 20
RUNS_AT_ONCE = 100_000
"""Runs of positions that a server is asked for at once."""


@dataclass(frozen=True)
class ListedName:
    """A named array of an application; ``type``: its type and shape."""

    name: str
    type: str
    path: str | None


@dataclass(frozen=True)
class ListedApplication:
    """An application and its named arrays."""

    app: str
    name: str
    started_at: float
    arrays: list[ListedName]


@dataclass(frozen=True)
class ShownCells:
    """Cells of one array, or the first of them. ``file_status``: *same*, *changed*, *gone* or *unknown*; None: it is in no file."""

    app: str
    name: str
    shape: tuple[int, ...]
    count: int
    is_whole: bool
    first: Region = field(repr=False)
    file: ArrayFile | None = None
    file_status: str | None = None
    served_id: str = ""
    """Of the array with a server."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def coordinates(self, limit: int | None) -> list[list[int]]:
        """The coordinates of the first cells in order, at most ``limit`` of them."""
        positions = self.first.positions(limit)
        few = Cells(self.shape, positions=positions.astype("int64"))
        found: list[list[int]] = few.coordinates().tolist()
        return found


@dataclass(frozen=True)
class ShownTrace:
    """A trace of cells. ``left_out``: arrays that the answer has not. ``asked_shape``: of the array that it is about.

    ``rows``: where it goes on to from rows that arrays were made of, or written to; without the arrays that it has itself.
    """

    app: str
    direction: Direction
    name: str
    asked_count: int
    found: list[ShownCells]
    claims: TraceClaims
    warnings: tuple[str, ...] = ()
    left_out: int = 0
    asked_shape: tuple[int, ...] = ()
    served_id: str = ""
    """Of the array that it is about, with a server."""
    rows: tuple[Group, ...] = ()


def listed_of_store(store: GraphStore, limit: int) -> tuple[list[ListedApplication], int]:
    """The latest ``limit`` applications that recorded arrays, and how many others were not searched: older ones, and damaged ones."""
    records = store.applications()
    latest = [record for record in records[:limit] if not record.damage]
    listed = [
        ListedApplication(
            record.app,
            record.name,
            record.started_at,
            [ListedName(one.name, one.description, one.path) for one in arrays],
        )
        for record, arrays in listed_arrays(store, latest)
    ]
    return listed, len(records) - len(latest)


def listed_of_server(server: ServedAccess, limit: int) -> tuple[list[ListedApplication], int]:
    """As :func:`listed_of_store`, of a server."""
    with _readable():
        page = server.array_applications(limit)
        listed = [
            ListedApplication(
                one["app"],
                one["name"],
                one["started_at"],
                [ListedName(of["name"], of["type"], of["path"]) for of in one["arrays"]],
            )
            for one in page["items"]
        ]
        return listed, page["left_out"]


def ends_at_rows(trace: StoredTrace) -> bool:
    """Whether some of the arrays at which a trace ends were made of rows, or written to a file of rows."""
    return any(one.holds_rows and one.cells for one in trace.found)


def shown_trace(
    trace: StoredTrace, direction: Direction, beyond: Answer | None = None
) -> ShownTrace:
    """A trace in a store. ``beyond``: as it goes on from rows."""
    found = [
        ShownCells(
            one.app,
            one.name,
            one.cells.shape,
            one.cells.count,
            one.cells.is_whole,
            one.cells.region(),
            one.file,
            one.file_status,
        )
        for one in trace.found
    ]
    nodes = {(one.app, one.node) for one in trace.found}
    return ShownTrace(
        trace.app,
        direction,
        trace.name,
        trace.asked.count,
        found,
        trace if beyond is None else claims_with(trace.app, trace, beyond),
        trace.warnings,
        asked_shape=trace.asked.shape,
        rows=() if beyond is None else groups_beyond(beyond, nodes),
    )


def trace_of_server(
    server: ServedAccess, question: dict[str, Any], limit: int | None
) -> ShownTrace:
    """A trace that a server follows.

    Args:
        server: the server.
        question: without the number of runs.
        limit: cells of each array that are shown, at most; None: all.

    Raises:
        ServerError: it refuses, its answer can't be read, or it answers otherwise when it is asked for the rest.
    """
    question = question | {"cells": _seen_from_anywhere(question["cells"])}
    runs = RUNS_AT_ONCE if limit is None else min(limit, RUNS_AT_ONCE)
    with _readable():
        first = server.trace_cells(question | {"limit": runs})
        ranges = {_key(one): [one["ranges"]] for one in first["arrays"]}
        answer = first
        while limit is None or limit > RUNS_AT_ONCE:
            current_budget().check()
            after = {_key(one): one["next"] for one in answer["arrays"] if one["next"] is not None}
            if not after:
                break
            answer = server.trace_cells(question | {"limit": runs, "after": after})
            if _claims_of(answer) != _claims_of(first):
                raise ServerError("the lineage has changed meanwhile: ask again")
            for one in answer["arrays"]:
                if _key(one) in after:
                    ranges[_key(one)].append(one["ranges"])
            answer["arrays"] = [one for one in answer["arrays"] if _key(one) in after]
        return _served_trace(first, ranges)


def _claims_of(answer: dict[str, Any]) -> list[Any]:
    counts = {_key(one): one["count"] for one in answer["arrays"]}
    return [counts, *(answer[key] for key in ("exact", "complete", "arrays_total", "rows"))]


def _key(one: dict[str, Any]) -> str:
    return f"{one['app']}/{one['array']['id']}"


def _served_trace(answer: dict[str, Any], ranges: dict[str, list[str]]) -> ShownTrace:
    found = [_served_cells(one, ranges[_key(one)]) for one in answer["arrays"]]
    asked = _served_cells(answer["asked"], [])
    warnings = list(answer["warnings"])
    if asked.file is not None and asked.file_status in {"gone", "changed"}:
        happened = "is gone" if asked.file_status == "gone" else "has changed since"
        warnings.insert(
            0,
            f"{asked.file.path} {happened}: the answer is about {version_of(asked.file)}, which {asked.app} recorded",
        )
    claims = claims_of(answer)
    if (claims.exact, claims.complete) != (answer["exact"], answer["complete"]):
        raise ServerError(UNREADABLE)
    left_out = answer["arrays_total"] - len(found)
    return ShownTrace(
        answer["app"],
        Direction(answer["direction"]),
        asked.name,
        asked.count,
        found,
        claims,
        tuple(warnings),
        left_out,
        asked.shape,
        asked.served_id,
        tuple(map(Group.from_json, answer["rows"])),
    )


def _served_cells(plain: dict[str, Any], ranges: list[str]) -> ShownCells:
    array, file = plain["array"], plain["array"]["file"]
    return ShownCells(
        plain["app"],
        array["name"],
        tuple(array["shape"]),
        plain["count"],
        plain["whole"],
        Region.union(Region.from_text(text) for text in ranges),
        file_of(file),
        None if file is None else file["standing"],
        array["id"],
    )


@contextmanager
def _readable() -> Iterator[None]:
    """Reports an answer that lacks something.

    Raises:
        ServerError: it does.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise ServerError(UNREADABLE) from error


def _seen_from_anywhere(cells: str) -> str:
    """An address whose file is one of this machine, by its whole path: a server has another folder."""
    name = parse_address(cells).name
    path, _ = split_name(name)
    # Other folders are no arrays: an array may have such a name by itself.
    if os.path.isabs(path) or not (os.path.isfile(path) or (is_tree(path) and os.path.isdir(path))):
        return cells
    return os.path.realpath(path) + cells[len(path) :]
