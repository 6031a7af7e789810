"""Records that a job set aside because a function failed on them: where, of what, and which rows they were made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lineage_core.contract.address import parse_space
from lineage_core.contract.region import Region
from lineage_core.contract.verdict import QUARANTINE, REPAIRED
from lineage_core.tracing.trace_result import Direction, NodeItems, TraceError
from lineage_query.answers import Group, Item
from lineage_query.listing import Listing
from lineage_query.record_trace import RecordTrace
from lineage_query.record_tracing import RecordTracer
from lineage_query.snapshot import ApplicationSnapshot
from lineage_query.trace_query import TraceQuery

ITEMS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class SetAsideRecord:
    """A record: ``what`` failed on it (the operator, its call, the error), and the rows of sources that it was made from.

    ``is_repaired``: another one was given in its place.
    """

    address: str
    what: str
    sources: tuple[Group, ...]
    exact: bool
    reasons: tuple[str, ...]

    @property
    def is_repaired(self) -> bool:
        return self.what.startswith(REPAIRED)

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {
            "address": self.address,
            "what": self.what.removeprefix(REPAIRED),
            "repaired": self.is_repaired,
            "exact": self.exact,
            "reasons": list(self.reasons),
            "sources": [group.to_json() for group in self.sources],
        }


@dataclass(frozen=True, slots=True)
class SetAsideRecords:
    """``operators``: what set how many records aside, ``repaired``: what went on with others. ``records``: each once, though a partition was computed several times.

    ``is_cut``: there may be more than the first ones. ``complete``: all lineage of the application was received.
    """

    app: str
    operators: tuple[tuple[str, int], ...]
    records: tuple[SetAsideRecord, ...]
    is_cut: bool
    complete: bool
    repaired: tuple[tuple[str, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {
            "app": self.app,
            "complete": self.complete,
            "operators": [{"operator": what, "records": count} for what, count in self.operators],
            "repaired": [{"operator": what, "records": count} for what, count in self.repaired],
            "records": [record.to_json() for record in self.records],
            "more": self.is_cut,
        }


def operators_of(
    opened: ApplicationSnapshot, *, repaired: bool = False
) -> tuple[tuple[str, int], ...]:
    """What set records aside, or ``repaired`` some, and how many, as people read it."""
    nodes = {node.node: node for node in opened.nodes}
    counts: list[tuple[str, int]] = []
    verdict = opened.verdict
    for name, count in (verdict.repaired if repaired else verdict.set_aside).items():
        node = nodes.get(name)
        site = f" at {node.call_site}" if node is not None and node.call_site else ""
        counts.append((f"{name if node is None else node.name or node.op}{site}", count))
    return tuple(counts)


def set_aside_records(tracer: RecordTracer, app: str, limit: int, rows: int) -> SetAsideRecords:
    """The first records that an application set aside.

    Args:
        tracer: traces the application.
        app: its whole id.
        limit: of the records.
        rows: of sources, of each record.

    Raises:
        LineageError: their lineage can't be read.
    """
    opened = tracer.opened(app)
    records: dict[tuple[Any, ...], SetAsideRecord] = {}
    times = Counter[tuple[Any, ...]]()
    is_cut = False
    for space, position, item in _items(opened):
        if len(records) >= limit:
            is_cut = True
            break
        traced = _made_from(tracer, app, {space: Region.from_positions([position])})
        answer = traced.answer(rows, texts=True)
        what = item.text or ""
        found = {
            name: region.to_text()
            for items in traced.result.found.values()
            for name, region in items.spaces.items()
        }
        # A partition that is computed several times sets the same records aside each time.
        name = (parse_space(space).partition, what, *sorted(found.items()))
        times[space, name] += 1
        records.setdefault(
            (name, times[space, name]),
            SetAsideRecord(item.address, what, answer.groups, answer.exact, answer.reasons),
        )
    return SetAsideRecords(
        app=app,
        operators=operators_of(opened),
        records=tuple(records.values()),
        is_cut=is_cut,
        complete=opened.verdict.complete,
        repaired=operators_of(opened, repaired=True),
    )


def rows_of_set_aside(tracer: RecordTracer, app: str) -> RecordTrace:
    """The trace to the rows of sources that all set-aside records of an application were made from.

    Raises:
        TraceError: there are none, or not all is known of them.
        LineageError: their lineage can't be read.
    """
    opened = tracer.opened(app)
    if not any(node.op == QUARANTINE and node.kind == "sink" for node in opened.nodes):
        frames = " of RDDs, only rows of DataFrames: these are repaired without --program"
        raise TraceError(f"{app} set no records aside{frames if opened.verdict.set_aside else ''}")
    regions = {
        space: region
        for items in _sinks(opened)
        for space, region in items.spaces.items()
        if region
    }
    traced = _made_from(tracer, app, regions)
    if not traced.complete:
        raise TraceError(
            f"not all that {app} set aside may be known: {'; '.join(traced.warnings) or 'its lineage is not complete'}"
        )
    return traced


def _made_from(tracer: RecordTracer, app: str, regions: Mapping[str, Region]) -> RecordTrace:
    return tracer.trace(TraceQuery(Direction.BACKWARD, (), app=app, regions=regions))


def _sinks(opened: ApplicationSnapshot) -> Iterator[NodeItems]:
    listing = Listing(opened)
    for node in opened.nodes:
        if node.kind == "sink" and node.op == QUARANTINE:
            yield listing.items(node.node)


def _items(opened: ApplicationSnapshot) -> Iterator[tuple[str, int, Item]]:
    """Items with their space and position."""
    composer = opened.composer()
    for sink in _sinks(opened):
        for space, region in sink.spaces.items():
            for start in range(0, region.count, ITEMS_AT_ONCE):
                part = region.slice(start, ITEMS_AT_ONCE)
                group = composer.group(NodeItems(sink.node, {space: part}), None, texts=True)
                for position, item in zip(part.positions().tolist(), group.items, strict=True):
                    yield space, position, item
