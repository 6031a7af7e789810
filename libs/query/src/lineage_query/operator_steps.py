"""The steps of an output row: what each operator gave on the way to it, in order, from a rerun that kept the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lineage_core.contract.graph import LinkRecord, NodeRecord
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction, NodeItems, TraceError
from lineage_query.answers import Item
from lineage_query.record_trace import FOUND, IN_BETWEEN, START
from lineage_query.record_tracing import RecordTracer
from lineage_query.trace_query import TraceQuery

CUT_SOURCE = "replay"
"""The operator of a rerun that cuts a source down: no step of the program."""


@dataclass(frozen=True, slots=True)
class OperatorStep:
    """What one operator gave on the way to a row.

    ``inputs``: the numbers of the steps whose values it got. ``items``: the first ones of ``count``.
    """

    number: int
    node: str
    name: str
    op: str
    call_site: str
    inputs: tuple[int, ...]
    count: int
    items: tuple[Item, ...]

    def fits(self, named: str) -> bool:
        """Whether it is named so: by its number, its operator, or the line of the program."""
        return named in {str(self.number), self.name, self.call_site}

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {
            "step": self.number,
            "name": self.name,
            "call_site": self.call_site,
            "inputs": list(self.inputs),
            "count": self.count,
            "items": [{"location": item.location, "text": item.text} for item in self.items],
        }


@dataclass(frozen=True, slots=True)
class OperatorSteps:
    """All steps. ``superset``: why operators may have got fewer values than are listed; none: they got these."""

    steps: tuple[OperatorStep, ...]
    superset: tuple[str, ...]


def steps_to(
    tracer: RecordTracer, app: str, space: str, position: int, limit: int
) -> OperatorSteps:
    """The steps to an item of an application that was captured in detailed mode, sources first.

    ``limit``: how many values of a step are listed.

    Raises:
        TraceError: not all lineage of the application is there.
    """
    item = {space: Region.from_positions([position])}
    trace = tracer.trace(TraceQuery(Direction.BACKWARD, (), app=app, regions=item))
    if not trace.complete:
        raise TraceError(f"not all steps are known: {'; '.join(trace.warnings) or app}")
    composer = trace.composer(at_once=True)
    nodes = {node.node: node for node in trace.node_records()}
    passed: dict[str, dict[str, Region]] = {}
    for _, items in trace.roles(FOUND, START, IN_BETWEEN):
        if items.node in nodes and nodes[items.node].op != CUT_SOURCE:
            spaces = passed.setdefault(items.node, {})
            for at, region in items.spaces.items():
                spaces[at] = spaces.get(at, Region()) | region
    links = trace.graph.links()
    groups = {
        node: (composer.group(items, limit, texts=True).items, items.count)
        for node in passed
        for items in [NodeItems(node, passed[node]).once()]
    }
    listed = [
        node
        for node, (items, _) in groups.items()
        if any(item.text is not None for item in items) or not _goes_on(nodes, node, links)
    ]
    numbers = {node: number for number, node in enumerate(listed, 1)}
    steps = tuple(_step(nodes[node], numbers, links, *groups[node]) for node in listed)
    return OperatorSteps(steps, trace.result.reasons)


def _goes_on(nodes: Mapping[str, NodeRecord], node: str, links: Sequence[LinkRecord]) -> bool:
    """Whether a node is a part of an operator that has further ones, as the map side of a shuffle is."""
    own = nodes[node]
    below = [nodes[link.dest] for link in links if link.src == node and link.dest in nodes]
    return any(
        (after.name or after.op, after.call_site) == (own.name or own.op, own.call_site)
        for after in below
    )


def _step(
    node: NodeRecord,
    numbers: Mapping[str, int],
    links: Sequence[LinkRecord],
    items: tuple[Item, ...],
    count: int,
) -> OperatorStep:
    return OperatorStep(
        number=numbers[node.node],
        node=node.node,
        name=node.name or node.op,
        op=node.op,
        call_site=node.call_site or "",
        inputs=tuple(sorted(_inputs(node.node, numbers, links))),
        count=count,
        items=items,
    )


def _inputs(node: str, numbers: Mapping[str, int], links: Sequence[LinkRecord]) -> set[int]:
    """The steps before one; nodes that keep no items of their own lie between."""
    found: set[int] = set()
    seen: set[str] = set()
    below = [node]
    while below:
        current = below.pop()
        for source in {link.src for link in links if link.dest == current} - seen:
            seen.add(source)
            if source in numbers:
                found.add(numbers[source])
            else:
                below.append(source)
    return found
