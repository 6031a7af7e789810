"""Rows of sources that watched records were made from, as soon as that is known.

A row of a source is known at once. What lies behind a shuffle is known when the job has ended and all of its lineage is linked: an action
that runs says nothing of how much is still to come, so that some of the rows would look like all of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lineage_core.contract.address import parse_space
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Group
from lineage_query.record_trace import RecordTrace
from lineage_query.snapshot import ApplicationSnapshot
from lineage_query.trace_query import TraceQuery
from lineage_query.watching.reports import Candidate

SOURCES_SHOWN = 10
"""Rows of each source of one record, for people."""
SOURCES_MAX = 1_000
"""The same for tools."""
ON_DEMAND = "the rows of sources are computed on demand, once the action has returned (of one that fails nothing is kept)"
NO_VALUES = "no values of the row are kept (LINEAGE_VALUES, LINEAGE_REDACT, LINEAGE_RULES), or too long ones, by which it could be traced"
NOT_LINKED = "its lineage is not stored: no attempt of its task has ended, or the job did not end, or its lineage is not linked"


@dataclass(frozen=True, slots=True)
class Sources:
    """``groups``: rows by source. ``reasons``: why there may be more or fewer of them. ``place``: what to trace for them; empty: they are here."""

    groups: tuple[Group, ...]
    reasons: tuple[str, ...]
    place: str = ""

    def rows(self) -> Iterator[tuple[str, str | None]]:
        """Places and texts of those that are listed."""
        for group in self.groups:
            yield from group.shown("", SOURCES_SHOWN).rows

    @property
    def hidden(self) -> int:
        """How many are not listed."""
        return sum(group.shown("", SOURCES_SHOWN).hidden for group in self.groups)

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {
            "sources": [group.to_json() for group in self.groups],
            "exact": not self.reasons,
            "reasons": list(self.reasons),
            **({"place": self.place} if self.place else {}),
        }


def row_sources(app: str, place: str, unnamed: str = "") -> Sources:
    """Of a row of a DataFrame: what finds them. ``place``: its name; empty: it has none, ``unnamed`` says why, where that is known."""
    if not place:
        return Sources((), (unnamed or NO_VALUES,))
    command = shlex.join(["lineage", "back", place, "--app", app])
    return Sources((), (f"{ON_DEMAND}: {command}",), place)


class SourceTracer(Protocol):
    """Traces records of a job."""

    def opened(self, name: str) -> ApplicationSnapshot:
        """The application of an id; raises a `LineageError` or `KeyError` where it is not stored yet."""

    def trace(self, query: TraceQuery) -> RecordTrace:
        """The trace of a query; raises a `LineageError`."""


def find_sources(
    tracer: SourceTracer, app: str, candidates: Sequence[Candidate], items_max: int = SOURCES_MAX
) -> Sources | None:
    """The sources of a record.

    Args:
        tracer: of the store that the job is linked into.
        app: the job's application.
        candidates: what runs say of the record, the most trustworthy first.
        items_max: rows of each source that are listed.

    Returns:
        None: they are not known yet.
    """
    try:
        opened = tracer.opened(app)
    except (KeyError, LineageError):
        return None
    for candidate in candidates:
        found = _sources(tracer, opened, candidate, items_max)
        if found is not None:
            return found
    return None


def _sources(
    tracer: SourceTracer, opened: ApplicationSnapshot, candidate: Candidate, items_max: int
) -> Sources | None:
    nodes = [opened.record(parse_space(space).name) for space, _, _ in candidate.made_from]
    are_rows = all(node is not None and node.kind == "source" for node in nodes)
    if not (are_rows or opened.verdict.final):
        return None
    if not candidate.made_from:
        return Sources((), ())
    regions: dict[str, Region] = {}
    for space, first, last in candidate.made_from:
        run = Region.of_runs(np.array([first], np.uint64), np.array([last], np.uint64))
        regions[space] = Region.union([regions[space], run]) if space in regions else run
    try:
        traced = tracer.trace(TraceQuery(Direction.BACKWARD, (), app=opened.app, regions=regions))
    except LineageError:
        # Of an attempt that was not accepted, or whose source is not known yet.
        return None
    if traced.result.dead_ends:
        return None
    answer = traced.answer(items_max, texts=True)
    inexact = () if answer.exact else answer.reasons
    prefix = ("a function before may have kept records",) if candidate.superset else ()
    missing = () if are_rows else opened.verdict.reasons
    return Sources(answer.groups, tuple(dict.fromkeys((*prefix, *inexact, *missing))))
