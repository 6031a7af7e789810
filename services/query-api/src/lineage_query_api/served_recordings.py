"""Recordings whose cells are traced in confined processes, within the bounds of one question.

Nothing that a recording says is decoded here, but names and runs of positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from lineage_arrays.cells import Shape
from lineage_arrays.claims import TraceClaims
from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.saved.linking import Recordings
from lineage_arrays.saved.plain_values import claims_of, file_of, rows_of
from lineage_arrays.saved.reading import NamedArray
from lineage_arrays.saved.row_tracing import RowTracing
from lineage_arrays.workflow import ArrayFile, Node
from lineage_core.contract.region import Region
from lineage_query.rows.file_status import FileStatus
from lineage_query_api.array_standings import standing_of
from lineage_query_api.lineages import Lineages

PROGRAMS_MAX = 100
"""Recordings that one question reads, at most."""
RUNS_MAX = 4_000_000
"""Runs of positions that the steps of one question answer with, at most: 64 MB."""
Ask: TypeAlias = Callable[..., dict[str, Any]]
"""Has an operation of `lineage_arrays.saved.questions` answered, of an application and with arguments."""


class _Room:
    """How many runs the steps of one question may still answer with."""

    def __init__(self, runs: int) -> None:
        self._left = runs

    def cells(self, runs: tuple[bytes, bytes]) -> Region:
        """Cells of an answer.

        Raises:
            ArrayLineageError: they are too many.
        """
        first, last = (np.frombuffer(side, np.uint64) for side in runs)
        self._left -= len(first)
        if self._left < 0:
            raise ArrayLineageError(
                f"the trace leads through more than {RUNS_MAX:,} runs of cells: ask for fewer cells"
            )
        return Region(first, last)


class ServedRecording:
    """A recording whose cells are traced in confined processes: a `lineage_arrays.saved.following.TraceableRecording`."""

    def __init__(self, ask: Ask, app: str, room: _Room) -> None:
        self._ask = ask
        self._app = app
        self._room = room
        self._described: dict[int, dict[str, Any]] = {}
        self.sources: list[NamedArray] = []
        self.outputs: list[NamedArray] = []
        for plain in ask("names", app)["arrays"]:
            array = _named_array(plain)
            self._described[id(array)] = plain
            (self.sources if array.is_source else self.outputs).append(array)

    def described(self, array: NamedArray) -> dict[str, Any]:
        """One of its arrays by plain values."""
        return self._described[id(array)]

    def cells_at(self, array: NamedArray, address: str) -> Region:
        """The cells of an array that an address names.

        Raises:
            ArrayLineageError: it has no such cells.
        """
        return self._room.cells(self._ask("cells", self._app, array.node.number, address)["cells"])

    def back_to_sources(
        self, number: int, cells: Region, *, choices: bool
    ) -> tuple[Sequence[tuple[NamedArray, Region]], TraceClaims]:
        answer = self._ask("back", self._app, number, _runs(cells), choices)
        found = [(self.sources[at], self._room.cells(runs)) for at, runs in answer["found"]]
        return found, claims_of(answer)

    def forward_to_outputs(
        self, number: int, cells: Region, to: str | None, *, choices: bool
    ) -> Sequence[tuple[NamedArray, Region, TraceClaims]]:
        answer = self._ask("forward", self._app, number, _runs(cells), to, choices)
        return [
            (self.outputs[one["place"]], self._room.cells(one["cells"]), claims_of(one))
            for one in answer["found"]
        ]


class ServedCells(RowTracing[Region]):
    """Traces rows through the recordings that a caller may trace, within the bounds of one question.

    Args:
        lineages: of the applications that the caller may trace, and no others.
        read: has an operation answered; refusals are `{"refused": ...}`.
        choices: all cells that took part in choices, not the chosen ones alone.
    """

    def __init__(self, lineages: Lineages, read: Ask, *, choices: bool = False) -> None:
        self.store = lineages.store
        self.choices = choices
        self._lineages = lineages
        room, accepted = _Room(RUNS_MAX), partial(_accepted, read)
        self._recordings = Recordings[ServedRecording](
            lambda app: ServedRecording(accepted, app, room), PROGRAMS_MAX
        )

    def recordings(self) -> Recordings[ServedRecording]:
        return self._recordings

    def cells(self, shape: Shape, region: Region) -> Region:
        return region

    def region(self, cells: Region) -> Region:
        return cells

    def file_status(self, app: str, file: ArrayFile) -> FileStatus:
        return standing_of(self._lineages.reader_of(app), file.path, file.size, file.mtime)


def _accepted(read: Ask, *arguments: Any) -> dict[str, Any]:
    """An answer that is no refusal.

    Raises:
        ArrayLineageError: it is one.
    """
    found = read(*arguments)
    if "refused" in found:
        raise ArrayLineageError(found["refused"])
    return found


def _named_array(plain: Mapping[str, Any]) -> NamedArray:
    node = Node(
        number=plain["number"],
        operator="",
        shape=tuple(plain["shape"]),
        # Shown as the text that came.
        dtype=np.dtype(np.void),
        call_site=plain["call_site"],
    )
    return NamedArray(
        plain["name"], node, plain["is_source"], file_of(plain["file"]), rows_of(plain["rows"])
    )


def _runs(cells: Region) -> tuple[bytes, bytes]:
    return cells.first.tobytes(), cells.last.tobytes()
