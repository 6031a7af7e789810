"""The way of a trace of cells through recordings, and on through the files that programs gave each other.

Generic in sets of cells: those of a program's own process, or those that a confined process answers with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from lineage_arrays.claims import TraceClaims
from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.formats.names import holds_rows
from lineage_arrays.saved.linking import FileLink, FileLinks, NotLinked, Recordings
from lineage_arrays.saved.reading import ArrayRecording, NamedArray
from lineage_core.tracing.budget import current_budget


class _Cells(Protocol):
    """A set of cells of one array."""

    def __bool__(self) -> bool: ...

    def __or__(self: C, other: C, /) -> C: ...


C = TypeVar("C", bound=_Cells)


class TraceableRecording(ArrayRecording, Protocol[C]):
    """A recording whose cells can be traced."""

    def back_to_sources(
        self, number: int, cells: C, *, choices: bool
    ) -> tuple[Sequence[tuple[NamedArray, C]], TraceClaims]:
        """The sources that an array (by its number) was made from, and the cells of them that some cells were made from."""

    def forward_to_outputs(
        self, number: int, cells: C, to: str | None, *, choices: bool
    ) -> Sequence[tuple[NamedArray, C, TraceClaims]]:
        """The outputs that were made from an array (``to``: of that name alone), and the cells of them that some cells went into."""


@dataclass
class Followed(Generic[C]):
    """Where a trace that began in ``app`` ended, by application, number and name of the array, and what it says of itself."""

    app: str
    found: dict[tuple[str, int, str], tuple[NamedArray, C]] = field(default_factory=dict)
    superset: dict[str, None] = field(default_factory=dict)
    incomplete: dict[str, None] = field(default_factory=dict)
    chosen: dict[str, None] = field(default_factory=dict)

    def add(self, app: str, array: NamedArray, cells: C) -> None:
        key = app, array.node.number, array.name
        known = self.found.get(key)
        self.found[key] = array, cells if known is None else known[1] | cells

    def remark(self, app: str, claims: TraceClaims) -> None:
        """Take what a trace of one recording says about itself."""
        prefix = "" if app == self.app else f"{app}: "
        for texts, of_trace in (
            (self.superset, claims.superset_reasons),
            (self.incomplete, claims.incomplete_reasons),
            (self.chosen, claims.chosen_by),
        ):
            texts.update(dict.fromkeys(f"{prefix}{text}" for text in of_trace))

    def stop_at_rows(self) -> None:
        """Say that it does not go on through the rows that it ends at."""
        for (app, _, name), (array, cells) in self.found.items():
            if cells and array.holds_rows:
                reason = (
                    f"{name} of {app} has rows of other programs: `lineage arrays` with --all-jobs, and without --to, "
                    "goes on through them"
                )
                self.incomplete[reason] = None

    @property
    def claims(self) -> TraceClaims:
        """What it says of itself."""
        return TraceClaims(
            superset_reasons=tuple(self.superset),
            incomplete_reasons=tuple(self.incomplete),
            chosen_by=tuple(self.chosen),
        )

    @property
    def ends_at_rows(self) -> bool:
        """Whether it ends at rows that other programs may go on with."""
        return any(cells and array.holds_rows for array, cells in self.found.values())

    def note_copy(self, link: FileLink) -> None:
        if link.superset:
            self.superset[link.superset] = None


class _Pending(Generic[C]):
    """Cells of arrays that the trace has yet to go on from, each array with all that reaches it."""

    def __init__(self) -> None:
        self._reached: dict[tuple[str, int], C] = {}
        self._queue: deque[tuple[str, int]] = deque()

    def add(self, app: str, number: int, cells: C) -> None:
        key = app, number
        known = self._reached.get(key)
        together = cells if known is None else known | cells
        if known is None or together != known:
            self._reached[key] = together
            if key not in self._queue:
                self._queue.append(key)

    def next(self) -> tuple[str, int, C] | None:
        current_budget().check()
        if not self._queue:
            return None
        app, number = self._queue.popleft()
        return app, number, self._reached[app, number]


def follow_back(
    recordings: Recordings[TraceableRecording[C]],
    links: FileLinks | None,
    start: tuple[str, NamedArray],
    cells: C,
    *,
    choices: bool,
) -> Followed[C]:
    """Trace cells of an array back.

    Args:
        recordings: of the store.
        links: goes on through the programs that wrote the files which were read; None: the trace ends at these.
        start: an application, and an array of it.
        cells: of the array.
        choices: all cells that took part in choices, not the chosen ones alone.

    Raises:
        ArrayLineageError: a recording can't be read, or has no such cells.
        BudgetError: the question has no time left.
    """
    app, array = start
    followed, pending = Followed[C](app), _Pending[C]()
    pending.add(app, array.node.number, cells)
    while (step := pending.next()) is not None:
        of_app, number, reached = step
        sources, claims = recordings.of(of_app).back_to_sources(number, reached, choices=choices)
        followed.remark(of_app, claims)
        for source, source_cells in sources:
            link = None
            if links is not None and source.file is not None and source_cells:
                if holds_rows(source.file.path):
                    # Whoever wrote its rows is found by these.
                    followed.add(of_app, source, source_cells)
                    continue
                link = links.writer(of_app, source.file)
            if isinstance(link, FileLink):
                followed.note_copy(link)
                pending.add(link.app, link.array.node.number, source_cells)
                if not link.superset:
                    continue
            if isinstance(link, NotLinked):
                followed.incomplete[link.reason] = None
            followed.add(of_app, source, source_cells)
    return followed


def follow_forward(
    recordings: Recordings[TraceableRecording[C]],
    links: FileLinks | None,
    start: tuple[str, NamedArray],
    cells: C,
    *,
    to: str | None,
    choices: bool,
    of_rows: bool = False,
) -> Followed[C]:
    """Trace cells of an array forward, to the outputs of the name ``to`` alone, or to all.

    ``links``: goes on through the programs that read the files which were written, and through all that read this one.
    ``of_rows``: the cells are those of rows, which the caller looks up in all programs. Else as :func:`follow_back`.

    Raises:
        ArrayLineageError: as :func:`follow_back`, or no output ``to`` was made from the array.
        BudgetError: as :func:`follow_back`.
    """
    app, array = start
    followed, pending = Followed[C](app), _Pending[C]()
    pending.add(app, array.node.number, cells)
    if links is not None and array.file is not None:
        if not holds_rows(array.file.path):
            _follow(followed, pending, links.other_readers(app, array.file), cells)
        elif not of_rows:
            for other in links.apps_that_read(app, array.file):
                reason = f"{other} read rows of {array.file.path}, too: `lineage forward PATH#ROW --all-jobs` goes on there"
                followed.incomplete[reason] = None
    while (step := pending.next()) is not None:
        of_app, number, reached = step
        outputs = recordings.of(of_app).forward_to_outputs(
            number, reached, to if links is None else None, choices=choices
        )
        for output, output_cells, claims in outputs:
            followed.remark(of_app, claims)
            is_read = False
            file = output.file
            # Whoever read rows of a file is found by these.
            is_followed = file is not None and not holds_rows(file.path) and output.name != to
            if links is not None and file is not None and is_followed and output_cells:
                readers = links.readers(of_app, file)
                is_read = _follow(followed, pending, readers, output_cells)
            if not is_read and to in (None, output.name):
                followed.add(of_app, output, output_cells)
    if to is not None and not any(name == to for _, _, name in followed.found):
        raise ArrayLineageError(
            f"no output {to!r} was made from {array.name} of {app}"
            + (", or from what was made of it" if links else "; --all-jobs goes on through files")
        )
    return followed


def _follow(
    followed: Followed[C], pending: _Pending[C], links: Iterable[FileLink | NotLinked], cells: C
) -> bool:
    """Go on to all programs that read a file, or what may be its copy; whether any read the file itself."""
    is_read = False
    for link in links:
        if isinstance(link, NotLinked):
            followed.incomplete[link.reason] = None
            continue
        followed.note_copy(link)
        pending.add(link.app, link.array.node.number, cells)
        is_read = is_read or not link.superset
    return is_read
