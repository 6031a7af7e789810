"""Traces along one path of operators, as the paper's queries name them: each with the number of the operand by which the path goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lineage_arrays.cells import Cells
from lineage_arrays.querying import (
    CellTrace,
    Cross,
    across,
    backward,
    forward,
    is_made_from,
    unreached,
)
from lineage_arrays.workflow import Node, Workflow


@dataclass(frozen=True)
class Hop:
    """A step on a path: the node of its array, and the number of an operand. ``entries``: of a function, the nodes of its copies of all operands."""

    node: Node
    operand: int
    entries: tuple[Node, ...] = ()


def along(
    flow: Workflow, hops: Sequence[Hop], cells: Cells, *, back: bool, choices: bool, cross: Cross
) -> CellTrace:
    """Trace cells along a path, and along no other.

    Args:
        flow: the workflow.
        hops: one or more, in the order of the trace.
        cells: of the first hop's array, or (forward) of its operand's.
        back: towards the operands.
        choices: as in :func:`lineage_arrays.querying.backward`.
        cross: as there.

    Returns:
        The cells at the end of the path, under the name of the array there, and what is to be said of each hop.
    """
    traces: list[CellTrace] = []
    for hop in hops:
        over = _over_function if hop.entries else _over_operator
        traces.append(over(flow, hop, cells, back=back, choices=choices, cross=cross))
        (cells,) = traces[-1].cells.values()
    return _with_all_claims(traces)


def _with_all_claims(traces: Sequence[CellTrace]) -> CellTrace:
    """The last one of several traces one behind the other, with what is to be said of all."""
    return replace(
        traces[-1],
        superset_reasons=_each_once(trace.superset_reasons for trace in traces),
        incomplete_reasons=_each_once(trace.incomplete_reasons for trace in traces),
        chosen_by=_each_once(trace.chosen_by for trace in traces),
    )


def _each_once(several: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(several)))


def _over_operator(
    flow: Workflow, hop: Hop, cells: Cells, *, back: bool, choices: bool, cross: Cross
) -> CellTrace:
    return across(flow, hop.node, hop.operand, cells, back=back, choices=choices, cross=cross)


def _over_function(
    flow: Workflow, hop: Hop, cells: Cells, *, back: bool, choices: bool, cross: Cross
) -> CellTrace:
    """By all ways within the function."""
    entry = hop.entries[hop.operand]
    if not back:
        if not is_made_from(flow, entry, hop.node):
            return unreached(flow, hop.node, choices)
        return forward(flow, entry, cells, hop.node, choices=choices, cross=cross)
    ends = {one.number: str(at) for at, one in enumerate(hop.entries)}
    trace = backward(flow, hop.node, cells, choices=choices, until=ends, cross=cross)
    found = trace.cells.get(str(hop.operand), Cells.empty(entry.shape))
    # What the function got is a copy of the operand.
    operand = across(flow, entry, 0, found, back=True, choices=choices, cross=cross)
    return _with_all_claims([trace, operand])
