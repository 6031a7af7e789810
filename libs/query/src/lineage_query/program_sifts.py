"""Searches for the smallest set of rows of a program's sources with which it still fails: where they begin, and what runs read.

A search begins at the rows that an output row, or the failure of a task, is made from. That may be too few: each set that is found
has failed in a run of its own, so lineage saves runs and proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction, NodeItems, TraceError
from lineage_query.answers import Composer
from lineage_query.overlaps import Witnesses, sharing, traced_each
from lineage_query.record_tracing import RecordTracer
from lineage_query.reruns import (
    ProgramOfRdds,
    Rows,
    check_sources,
    plan_rerun,
    rows_united,
    trace_of_records,
)
from lineage_query.trace_query import TraceQuery
from lineage_store.rerun_plan import RerunSource

CRASH = "crash"
"""What sinks of items are that tasks died on."""
ROWS_MAX = 1_000_000
"""Rows that are searched."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row of a program's source: the source's number, its split, its place there."""

    source: int
    split: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class ProgramSift:
    """A program, and the rows of its sources that are searched.

    ``output``: the output of the failing row; None: the program as a whole fails. ``cut``: the numbers of the sources that give rows of the
    search alone; others give all of theirs.
    """

    app: str
    program: ProgramOfRdds
    output: NodeRecord | None
    rows: Sequence[SourceRow]
    cut: frozenset[int]

    def sources(self, chosen: Sequence[int]) -> list[RerunSource]:
        """What each source gives in a run on some of the rows, which are named by their place among all."""
        splits: dict[tuple[int, int], list[int]] = {}
        for at in chosen:
            row = self.rows[at]
            splits.setdefault((row.source, row.split), []).append(row.ordinal)
        return [
            RerunSource(
                kept={
                    split: Region.from_positions(ordinals)
                    for (source, split), ordinals in splits.items()
                    if source == number
                }
            )
            if number in self.cut
            else RerunSource()
            for number in range(len(self.program.sources))
        ]

    def sharing(self, traced: Sequence[Witnesses]) -> NDArray[np.int64]:
        """Of how many rows that were traced each of the rows is a witness."""
        return sharing(traced, [((row.source, row.split), row.ordinal) for row in self.rows])

    def check_files(self, tracer: RecordTracer) -> None:
        """See that the sources are what they were.

        Raises:
            TraceError: a file is not.
        """
        read = {source.node for source in self.program.sources}
        check_sources(self.program, tracer.locations(self.app), read)


def sift_of_row(tracer: RecordTracer, place: str, app: str | None) -> ProgramSift:
    """The search among the rows that a saved row is made from.

    Raises:
        TraceError: it is no such row, or the program can't be run again on its witnesses.
        LineageError: there is no such row, or lineage or files are not what they were.
    """
    rerun = plan_rerun(tracer, [place], [], app)
    above = {record.node for record in rerun.program.upstream(rerun.output.node)}
    return _sift(rerun.app, rerun.program, rerun.output, rerun.witnesses, above)


def traced_rows(
    tracer: RecordTracer,
    places: Sequence[str],
    app: str | None,
    stop: Callable[[int], str] = lambda _: "",
) -> list[Witnesses]:
    """What some saved rows are made from, by source and split, as `traced_each`; nothing of one whose trace may have too many rows."""

    def witnesses_of(place: str) -> Witnesses:
        rerun = plan_rerun(tracer, [place], [], app)
        rows = {} if rerun.superset else rerun.witnesses
        return {(of, split): r for of, splits in rows.items() for split, r in splits.items()}

    return traced_each(places, witnesses_of, stop)


def sift_of_failure(tracer: RecordTracer, app: str) -> ProgramSift | None:
    """The search among the rows that tasks died on; None: none are known.

    Raises:
        TraceError: the program reads no rows that could be left out.
    """
    opened = tracer.opened(app)
    program = ProgramOfRdds(opened.graph, opened.nodes)
    crashes = [node.node for node in program.nodes.values() if node.op == CRASH]
    parts: list[Rows] = []
    for node in crashes:
        query = TraceQuery(Direction.BACKWARD, (f"{node}#0#0",), app=app, limit=1)
        try:
            parts.append(program.rows_of(trace_of_records(tracer, query).result.found))
        except TraceError:
            # These are of no source that can be cut down.
            return None
    if not any(parts):
        return None
    above = {record.node for node in crashes for record in program.upstream(node)}
    return _sift(app, program, None, rows_united(parts), above)


def sift_of_all(
    tracer: RecordTracer, app: str, counts: Sequence[Mapping[int, int] | None]
) -> ProgramSift:
    """The search among all rows of all sources that can be cut down.

    Args:
        tracer: traces the job.
        app: the job.
        counts: how many rows the splits of its sources have, by source; None: one can't be cut down.

    Raises:
        TraceError: there are too many.
    """
    opened = tracer.opened(app)
    total = sum(sum(of.values()) for of in counts if of is not None)
    if total > ROWS_MAX:
        raise TraceError(
            f"the program reads {total:,} rows: more than {ROWS_MAX:,} are not searched"
        )
    rows = [
        SourceRow(source, split, ordinal)
        for source, of in enumerate(counts)
        for split, count in sorted((of or {}).items())
        for ordinal in range(count)
    ]
    cut = frozenset(source for source, of in enumerate(counts) if of is not None)
    return ProgramSift(app, ProgramOfRdds(opened.graph, opened.nodes), None, rows, cut)


def _sift(
    app: str, program: ProgramOfRdds, output: NodeRecord | None, rows: Rows, above: set[str]
) -> ProgramSift:
    total = sum(region.count for splits in rows.values() for region in splits.values())
    if total > ROWS_MAX:
        raise TraceError(f"it is made from {total:,} rows: more than {ROWS_MAX:,} are not searched")
    listed = [
        SourceRow(source, split, ordinal)
        for source, splits in sorted(rows.items())
        for split, region in sorted(splits.items())
        for ordinal in region.positions().tolist()
    ]
    cut = frozenset(n for n, source in enumerate(program.sources) if source.node in above)
    return ProgramSift(app, program, output, listed, cut)


def places_and_texts(
    tracer: RecordTracer, sift: ProgramSift, chosen: Sequence[int]
) -> list[tuple[str, str]]:
    """Where some of the rows stand, and what they look like."""
    composer = tracer.opened(sift.app).composer()
    rows = [sift.rows[at] for at in chosen]
    nodes = [sift.program.sources[row.source].node for row in rows]
    return [
        place_and_text(composer, node, row.split, row.ordinal)
        for node, row in zip(nodes, rows, strict=True)
    ]


def place_and_text(composer: Composer, node: str, split: int, ordinal: int) -> tuple[str, str]:
    """Where a row of a split of a source's node stands, and what it looks like."""
    items = NodeItems(node, {f"{node}#{split}": Region.from_positions([ordinal])})
    (item,) = composer.group(items, 1, texts=True).items
    return item.location or item.address, item.text or ""
