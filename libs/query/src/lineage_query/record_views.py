"""Record-level views: request and result, shared by commands and servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from lineage_core.contract.graph import FlowGraph
from lineage_core.tracing.trace_result import Direction
from lineage_query.record_flows import FLOWS_MAX, flows_of_application, flows_of_trace
from lineage_query.record_trace import RecordTrace
from lineage_query.rows.locations import Locations
from lineage_query.trace_query import TraceQuery
from lineage_store.record_flow import RecordFlows


@dataclass(frozen=True, slots=True)
class ViewSelection:
    """The content of a view: the flows along traces from ``places``, or all flows without places."""

    places: tuple[str, ...] = ()
    direction: Direction = Direction.BACKWARD
    limit: int = FLOWS_MAX
    texts: bool = True


@dataclass(frozen=True, slots=True)
class ViewSummary:
    """A built view. ``example``: the hashOut of a flow without successors, if there is one."""

    app: str
    nodes: int
    flows: int
    links: int
    example: str
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, flows: RecordFlows, warnings: Sequence[str]) -> ViewSummary:
        """The parts that are built from flows."""
        ends = (flow.hash_out for flow in flows.flows if flow.hash_out not in flows.middles)
        example = next(ends, "write#0#0")
        count = len(flows.flows)
        return cls(flows.app, len(flows.nodes), count, flows.links, example, tuple(warnings))

    def to_json(self) -> dict[str, Any]:
        """The shape that tools rely on; keys are only ever added."""
        return asdict(self) | {"warnings": list(self.warnings)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ViewSummary:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        values = {field.name: document[field.name] for field in fields(cls)}
        return cls(**values | {"warnings": tuple(document["warnings"])})


def requested_flows(
    app: str,
    graph: FlowGraph,
    request: ViewSelection,
    trace: Callable[[TraceQuery], RecordTrace],
    locations: Callable[[str], Locations],
) -> tuple[RecordFlows, tuple[str, ...]]:
    """The flows of a view, and the warnings.

    ``trace`` and ``locations`` are ``trace_records`` and ``locations`` of a :class:`lineage_query.engine.QueryEngine`, or bounded.

    Raises:
        TooManyFlowsError: there are more than wanted.
        LineageError: a place names no row.
    """
    if request.places:
        traced = trace(TraceQuery(request.direction, request.places, app=app))
        flows = flows_of_trace(traced, limit=request.limit, texts=request.texts)
        return flows, (*traced.warnings, *flows.warnings)
    flows = flows_of_application(
        app, graph, locations(app), limit=request.limit, texts=request.texts
    )
    return flows, flows.warnings
