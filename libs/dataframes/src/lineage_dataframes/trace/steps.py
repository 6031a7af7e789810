"""A part of the way of rows of DataFrames: up to one node, or so many steps.

A query tells of the two ends of a DataFrame's lineage, its outputs and its sources: these are one step from each other.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lineage_core.contract.graph import FlowGraph
from lineage_core.tracing.topology import Topology
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer
from lineage_query.names import Names
from lineage_query.trace_query import TraceQuery


def narrow(answer: Answer, query: TraceQuery, graph: FlowGraph, starts: Collection[str]) -> Answer:
    """What of an answer a query requests by ``until`` and ``steps``.

    Args:
        answer: to the whole way.
        query: what was asked.
        graph: of the application.
        starts: ids of the nodes whose rows were requested.

    Raises:
        AddressError: ``until`` names no node.
        TraceError: ``until`` does not lie that way, or rows are not kept there.
    """
    if query.until is None and query.steps is None:
        return answer
    nodes = graph.nodes()
    names, topology = Names(nodes), Topology(nodes, graph.links())
    upstream = query.direction is Direction.BACKWARD
    steps = topology.steps_from(starts, upstream=upstream)
    if query.steps is not None:
        far = [group.node for group in answer.groups if steps.get(group.node, 0) > query.steps]
        if far:
            raise TraceError(
                f"{names.label(far[0])} is {steps[far[0]]} steps away, and rows of DataFrames on the way are not kept: "
                f"leave out --step"
            )
    if query.until is None:
        return answer
    until = names.node(query.until)
    if until not in steps or until in starts:
        side = "before" if upstream else "behind"
        raise TraceError(f"{names.label(until)} does not lie {side} these rows")
    groups = tuple(group for group in answer.groups if group.node == until)
    if not groups and not (steps[until] == 1 and not topology.has_link(until, upstream=upstream)):
        raise TraceError(
            f"rows of {names.label(until)} are not kept on the way through DataFrames: leave out --to"
        )
    pairs = answer.pairs and answer.pairs.among({until})
    return replace(answer, groups=groups, pairs=pairs)
