"""Reads stored recordings, and finds arrays in them by name."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lineage_arrays.cells import Cells
from lineage_arrays.errors import ArrayLineageError, RecordingError
from lineage_arrays.formats.names import array_name, holds_rows
from lineage_arrays.operators.costs import Costs, costs_of
from lineage_arrays.operators.operator import Operator
from lineage_arrays.querying import CellTrace, backward, forward, is_made_from
from lineage_arrays.saved.document import CONTENT_BYTES_MAX, unpack_recording
from lineage_arrays.workflow import ArrayFile, Node, Output, Workflow
from lineage_core.codec.zstd import decompress
from lineage_core.contract.collected import CollectedRows
from lineage_core.contract.message import Arrays, Message
from lineage_core.contract.verdict import ARRAY
from lineage_core.errors import RecordBatchError
from lineage_core.tracing.budget import current_budget
from lineage_query.showing import names_text
from lineage_store.port import ApplicationRecord, GraphStore

APPLICATIONS_SEARCHED = 200
"""Latest applications that are searched for what is not named."""
NAMES_LISTED = 20
"""Names of arrays that an error lists."""
RecordingPart: TypeAlias = tuple[int, int, str]
"""A part of a stored recording: its number, of how many, and its text."""


@dataclass(frozen=True)
class NamedArray:
    """An array of a recording that has a name. ``is_source``: it came from outside. ``rows``: it was made of these."""

    name: str
    node: Node
    is_source: bool
    file: ArrayFile | None = None
    rows: CollectedRows | None = None

    @property
    def holds_rows(self) -> bool:
        """Whether rows of other programs are those along its first axis: they made it, or lie in its file."""
        return self.rows is not None or (self.file is not None and holds_rows(self.file.path))


class ArrayRecording(Protocol):
    """The named arrays of a recording."""

    @property
    def sources(self) -> Sequence[NamedArray]: ...

    @property
    def outputs(self) -> Sequence[NamedArray]: ...


@dataclass(frozen=True)
class StoredRecording:
    """A recording as it was stored: all that was recorded, without the values of its arrays."""

    app: str
    flow: Workflow
    packed_costs: object = None

    @property
    def is_measured(self) -> bool:
        """Whether the costs of the strategies of its operators were stored with it."""
        return self.packed_costs is not None

    def costs(self) -> Costs:
        """What the strategies of its operators cost; their steps have names alone.

        Raises:
            ArrayLineageError: they were not measured, or can't be read.
        """
        if not self.is_measured:
            raise ArrayLineageError(
                f"{self.app} was stored without costs of strategies: the program gives them, "
                "store_recording(version, name, costs=measured_run(version, questions))"
            )
        return costs_of(self.packed_costs, self.app)

    @property
    def sources(self) -> list[NamedArray]:
        """Arrays that came from outside."""
        files, rows = self.flow.files_read, self.flow.rows_collected
        named = [node for node in self.flow.nodes if node.name]
        return [
            NamedArray(node.name, node, True, files.get(node.number), rows.get(node.number))
            for node in named
        ]

    @property
    def outputs(self) -> list[NamedArray]:
        """Arrays that were named or saved; of several of one name the last one has it."""
        named: dict[tuple[str, ArrayFile | None], Output] = {}
        for output in self.flow.outputs:
            named[output.name, output.file] = output
        return [
            NamedArray(output.name, output.node, False, output.file) for output in named.values()
        ]

    def find(self, name: str, *, sources: bool) -> NamedArray:
        """The output of a name, or the source; of an array in a file, its file's path may stand for it.

        Raises:
            ArrayLineageError: there is none, or several.
        """
        return find_array(self.app, self, name, sources=sources)

    def back(self, output: str, where: object = ..., *, choices: bool = False) -> CellTrace:
        """Which cells of the sources some cells of an output were made from, as :meth:`lineage_arrays.Recording.back`.

        Raises:
            ArrayLineageError: there is no such output.
            CellError: it has no such cells.
            RecordingError: what is stored can't be read, or needs an operator that is not at hand.
        """
        node = self.find(output, sources=False).node
        return self.back_from(node, Cells.of(node.shape, where), choices=choices)

    def back_from(self, node: Node, cells: Cells, *, choices: bool = False) -> CellTrace:
        """As :meth:`back`, of an array by its node."""
        return backward(self.flow, node, cells, choices=choices)

    def forward(
        self, source: str, output: str, where: object = ..., *, choices: bool = False
    ) -> CellTrace:
        """Which cells of an output some cells of a source went into, as :meth:`lineage_arrays.Recording.forward`.

        Raises:
            ArrayLineageError: there is no such array, or the output was not made from the source.
            CellError, RecordingError: as :meth:`back`.
        """
        start = self.find(source, sources=True).node
        target = self.find(output, sources=False).node
        cells = Cells.of(start.shape, where)
        return forward(self.flow, start, cells, target, choices=choices)

    def outputs_of(self, source: Node) -> list[NamedArray]:
        """The outputs that were made from a source."""
        return [one for one in self.outputs if is_made_from(self.flow, source, one.node)]

    def traces_to_outputs(
        self, number: int, cells: Cells, to: str | None, choices: bool
    ) -> list[tuple[NamedArray, CellTrace]]:
        """The outputs that were made from an array (``to``: of that name alone), each with the trace of some cells to it."""
        start = self.flow.nodes[number]
        traces: dict[int, CellTrace] = {}
        reached = []
        for output in self.outputs_of(start):
            if to not in (None, output.name):
                continue
            at = output.node.number
            if at not in traces:
                traces[at] = forward(self.flow, start, cells, output.node, choices=choices)
            reached.append((output, traces[at]))
        return reached

    def back_to_sources(
        self, number: int, cells: Cells, *, choices: bool
    ) -> tuple[list[tuple[NamedArray, Cells]], CellTrace]:
        """As `lineage_arrays.saved.following.TraceableRecording.back_to_sources`."""
        trace = self.back_from(self.flow.nodes[number], cells, choices=choices)
        found = [(one, trace.cells[one.name]) for one in self.sources if one.name in trace.cells]
        return found, trace

    def forward_to_outputs(
        self, number: int, cells: Cells, to: str | None, *, choices: bool
    ) -> list[tuple[NamedArray, Cells, CellTrace]]:
        """As `lineage_arrays.saved.following.TraceableRecording.forward_to_outputs`."""
        return [
            (output, next(iter(trace.cells.values())), trace)
            for output, trace in self.traces_to_outputs(number, cells, to, choices)
        ]


def find_array(app: str, recording: ArrayRecording, name: str, *, sources: bool) -> NamedArray:
    """The output of a name, or the source; of an array in a file, its file's path may stand for it.

    Raises:
        ArrayLineageError: there is none, or several.
    """
    candidates = recording.sources if sources else recording.outputs
    named = [one for one in candidates if one.name == name]
    if not named:
        named = [
            one
            for one in candidates
            if one.file is not None and array_name(one.file.path, one.file.member) == name
        ]
    if named:
        return named[-1]
    names = list(dict.fromkeys(one.name for one in candidates))
    kind = "source" if sources else "output"
    raise ArrayLineageError(
        f"{app} has no {kind} {name!r}: {names_text(names, NAMES_LISTED) or 'none'}"
    )


def read_recording(
    store: GraphStore, app: str, operators: Sequence[Operator] = ()
) -> StoredRecording:
    """The recording of an application.

    Args:
        store: the store.
        app: the application's whole id.
        operators: those of the program whose own functions may be called; of others cells may be unknown.

    Raises:
        KeyError: there is no such application.
        RecordingError: it has no recording of arrays, or one that is damaged, not whole, or of a later version.
    """
    messages = store.messages(app, "arrays")
    return recording_of_parts(app, _parts(messages), operators)


def recording_of_parts(
    app: str, parts: Iterable[RecordingPart], operators: Sequence[Operator] = ()
) -> StoredRecording:
    """The recording whose parts are those of an application, in any order; raises as :func:`read_recording`."""
    texts: dict[int, str] = {}
    totals = set[int]()
    for part, total, text in parts:
        totals.add(total)
        if texts.setdefault(part, text) != text:
            raise RecordingError(f"{app} has two recordings of arrays: delete it, and record again")
    if not totals:
        raise RecordingError(
            f"{app} has no recording of arrays; `lineage arrays list` lists those that have"
        )
    missing = set(range(max(totals))) - texts.keys()
    if missing or len(totals) > 1:
        raise RecordingError(
            f"of the recording of arrays of {app} {len(missing):,} of {max(totals):,} parts are missing: it can't be read"
        )
    try:
        packed = base64.b64decode("".join(texts[part] for part in sorted(texts)), validate=True)
        content = decompress(packed, CONTENT_BYTES_MAX + 64)
    except (RecordBatchError, binascii.Error) as error:
        raise RecordingError(f"the recording of arrays of {app} is damaged: {error}") from error
    unpacked = unpack_recording(content, operators)
    return StoredRecording(app, unpacked.flow, unpacked.costs)


def latest_measured(store: GraphStore) -> StoredRecording:
    """The latest recording that can be read and was stored with costs of strategies, among the latest applications.

    Raises:
        ArrayLineageError: there is none.
        BudgetError: the question has no time left.
    """
    latest = store.applications()[:APPLICATIONS_SEARCHED]
    searched = readable(latest)
    for application, _ in listed_arrays(store, searched):
        current_budget().check()
        try:
            recording = read_recording(store, application.app)
        except RecordingError:
            continue
        if recording.is_measured:
            return recording
    damaged = len(latest) - len(searched)
    unread = f" that can be read ({damaged:,} more are damaged)" if damaged else ""
    raise ArrayLineageError(
        f"of the latest {len(searched):,} applications{unread} none was stored with costs of strategies: the program gives them, "
        "store_recording(version, name, costs=measured_run(version, questions)); name an older one by --app"
    )


def _parts(messages: Iterable[Message]) -> Iterator[RecordingPart]:
    for message in messages:
        assert isinstance(message, Arrays)
        yield message.part, message.parts, message.recording


@dataclass(frozen=True)
class ListedArray:
    """An array of an application, as the list of them shows it; ``path`` is None where it is in no file."""

    app: str
    node: str
    name: str
    description: str
    path: str | None


def readable(applications: Sequence[ApplicationRecord]) -> list[ApplicationRecord]:
    """Those applications that are not damaged."""
    return [application for application in applications if not application.damage]


def listed_arrays(
    store: GraphStore, applications: Sequence[ApplicationRecord]
) -> Iterator[tuple[ApplicationRecord, list[ListedArray]]]:
    """The applications among some that have arrays, and the named arrays of each.

    Raises:
        DamagedError: one of them is damaged; `readable` leaves these out.
    """
    for application in applications:
        arrays = [
            ListedArray(application.app, node.node, node.name, node.description, node.path)
            for node in store.graph(application.app).nodes()
            if node.op == ARRAY and node.kind == "unknown"
        ]
        if arrays:
            yield application, arrays
