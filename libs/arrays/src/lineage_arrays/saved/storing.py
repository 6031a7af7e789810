"""Writes a recorded workflow into a store of lineage: one application, in one transaction."""

from __future__ import annotations

import base64
import getpass
import os
import re
import sys
import time
import uuid
from collections.abc import Collection, Iterator
from typing import Protocol

from lineage_arrays.errors import RecordingError
from lineage_arrays.operators.costs import Costs, packed_costs
from lineage_arrays.querying import takes_places_alone
from lineage_arrays.saved.document import pack_workflow
from lineage_arrays.workflow import ArrayFile, Node, Output, Workflow
from lineage_core.codec.zstd import compress
from lineage_core.contract.message import (
    ARRAYS_PARTS_MAX,
    ARRAYS_TEXT_MAX,
    TEXT_MAX,
    Arrays,
    Begin,
    End,
    Link,
    Message,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    Register,
    SinkFile,
    Totals,
    Unknown,
)
from lineage_core.contract.verdict import ARRAY
from lineage_core.environment.redaction import redact_arguments
from lineage_store.dataset_paths import rows_of_action
from lineage_store.url import DEFAULT_STORE, open_store

NAMED_MAX = 10_000
"""Named arrays of a recording, at most: each is a node of the application."""
LEVEL = 6
"""Of zstd: a recording is written once."""
BY_CELLS = "its cells are traced by `lineage arrays`, not its rows"
GAPS_MAX = 100
"""Places that the verdict lists where values came back without lineage."""


def node_of(number: int) -> str:
    """The node of the application that an array of the workflow is."""
    return f"array-{number}"


def is_array(node: str) -> bool:
    """Whether a node is named as those are that :func:`node_of` names."""
    return re.fullmatch(r"array-\d+", node) is not None


class Recorded(Protocol):
    """What can be stored: a ``Recording``, or a ``Version`` of an operator graph, whose steps are its outputs."""

    @property
    def flow(self) -> Workflow: ...


def store_recording(
    recording: Recorded, name: str, url: str = "", *, costs: Costs | None = None
) -> str:
    """Keep a recording in a store of lineage, as an application of its own, for questions by any program and by ``lineage arrays``.

    Args:
        recording: what was recorded so far; what is recorded later is not stored with it.
        name: what people call the program.
        url: the store; by default `LINEAGE_STORE`, else `.lineage/lineage.db`.
        costs: of the strategies of its operators (`lineage_arrays.saved.measuring.measured_run`): then `lineage arrays plan` chooses among them.

    Returns:
        The application's id.

    Raises:
        RecordingError: the recording is too large, or can't be stored.
        ModeError: an operator that must be run for its lineage gives another output.
        StoreError: the store can't be written.
    """
    app = f"app-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"
    messages = list(messages_of(recording.flow, app, name, costs))
    with open_store(url or os.environ.get("LINEAGE_STORE") or DEFAULT_STORE, create=True) as store:
        store.write(app, messages)
    return app


def messages_of(
    flow: Workflow, app: str, name: str, costs: Costs | None = None
) -> Iterator[Message]:
    """The messages of the application that a workflow becomes.

    Raises:
        RecordingError, ModeError: as :func:`store_recording`.
    """
    yield Begin(
        app=app,
        name=name[:TEXT_MAX],
        started_at=time.time(),
        user=_user(),
        cwd=os.getcwd(),
        argv=redact_arguments(sys.argv, _secret_words()),
    )
    sources = {node.number: node for node in flow.nodes if node.name}
    outputs: dict[int, list[Output]] = {}
    for output in flow.outputs:
        outputs.setdefault(output.node.number, []).append(output)
    numbers = sorted(sources.keys() | outputs.keys())
    if len(numbers) > NAMED_MAX:
        raise RecordingError(f"{len(numbers):,} named arrays; at most {NAMED_MAX:,} are stored")
    for number in numbers:
        yield from _node_messages(app, flow, number, outputs.get(number, ()))
    links = 0
    for number in outputs:
        for source in sorted(_sources_above(flow, flow.nodes[number], sources.keys()) - {number}):
            links += 1
            yield Link(app=app, src=node_of(source), dest=node_of(number))
    gaps = list(_gaps(flow, app))
    yield from gaps
    packed = pack_workflow(flow, None if costs is None else packed_costs(costs))
    yield from _parts(app, compress(packed, LEVEL))
    totals = Totals(nodes=len(numbers), unknown=len(set(gaps)))
    yield End(app=app, ended_at=time.time(), status="ok", totals=totals)


def _node_messages(
    app: str, flow: Workflow, number: int, outputs: list[Output] | tuple[()]
) -> Iterator[Message]:
    node, read = flow.nodes[number], flow.files_read.get(number)
    files = [output.file for output in outputs if output.file is not None]
    names = [node.name] if node.name else []
    names += [output.name for output in outputs]
    yield Register(
        app=app,
        node=node_of(number),
        # Rows of it are not known: a trace of rows that comes here says so.
        kind="unknown",
        op=ARRAY,
        name=names[-1][:TEXT_MAX],
        description=f"{node.dtype} {'x'.join(map(str, node.shape)) or 'number'}"[:TEXT_MAX],
        call_site=node.call_site[:TEXT_MAX],
        exact=False,
        reason=BY_CELLS,
        path=(files[-1].path if files else None if read is None else read.path),
    )
    if read is not None:
        split = RecordSplit(
            partition=0, path=read.path, start=0, length=read.size, file_size=read.size, mtime=read.mtime,
            checksum=read.checksum,
        )  # fmt: skip
        yield RecordSplits(app=app, node=node_of(number), whole=True, splits=(split,))
    if (rows := flow.rows_collected.get(number)) is not None:
        place = rows_of_action(rows.app, rows.node)
        given = RecordSplit(partition=0, path=place.path, start=0, length=0, file_size=0, mtime=time.time())  # fmt: skip
        yield RecordSplits(app=app, node=node_of(number), whole=True, splits=(given,))
    for file in files:
        yield RecordFiles(app=app, node=node_of(number), path=file.path, files=(_sink_file(file),))


def _sink_file(file: ArrayFile) -> SinkFile:
    return SinkFile(
        partition=0,
        path=file.path,
        size=file.size,
        mtime=file.mtime,
        rows=1,
        checksum=file.checksum,
    )


def _sources_above(flow: Workflow, node: Node, sources: Collection[int]) -> set[int]:
    """Numbers of the named arrays that an array was made from."""
    needed, met = {node.number}, set[int]()
    for number in range(node.number, -1, -1):
        if number in needed:
            if number in sources:
                met.add(number)
            needed.update(edge.node.number for edge in flow.nodes[number].inputs)
    return met


def _gaps(flow: Workflow, app: str) -> Iterator[Unknown]:
    """Where values came into the workflow that may have left it before, or that may be rows of an engine that is captured."""
    holding = {
        (node.name, node.operator, node.call_site): node.may_hold
        for node in flow.nodes
        if node.may_hold and not takes_places_alone(node)
    }
    for (name, operator, site), given in list(holding.items())[:GAPS_MAX]:
        what = f"{name} comes from outside" if name else f"{operator} takes values without lineage"
        yield Unknown(
            app=app,
            what=what[:TEXT_MAX],
            reason=f"it may hold rows that {given} gave before"[:TEXT_MAX],
            call_site=site[:TEXT_MAX],
        )
    places: dict[tuple[str, str], int] = {}
    for node in flow.nodes:
        if node.constants and node.after_leaks:
            places.setdefault((node.operator, node.call_site), node.after_leaks)
    for (operator, site), leaks in list(places.items())[:GAPS_MAX]:
        left = flow.leaks[leaks - 1]
        yield Unknown(
            app=app,
            what=f"{operator} takes values without lineage"[:TEXT_MAX],
            reason=f"they may be those that left before, by {left}"[:TEXT_MAX],
            call_site=site[:TEXT_MAX],
        )


def _parts(app: str, packed: bytes) -> Iterator[Arrays]:
    text = base64.b64encode(packed).decode()
    starts = range(0, len(text), ARRAYS_TEXT_MAX)
    if len(starts) > ARRAYS_PARTS_MAX:
        raise RecordingError(
            f"the recording takes {len(packed) >> 20:,} MiB compressed, more than a store keeps of one: make several of the program"
        )
    for part, start in enumerate(starts):
        recording = text[start : start + ARRAYS_TEXT_MAX]
        yield Arrays(app=app, part=part, parts=len(starts), recording=recording)


def _secret_words() -> list[str]:
    """Words of secrets beside those that are known, as capture takes them."""
    words = os.environ.get("LINEAGE_SECRET_WORDS", "").split(",")
    return [word.strip().lower() for word in words if word.strip()]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
