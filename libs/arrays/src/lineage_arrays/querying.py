"""Backward and forward traces of cells through a workflow.

Sets of cells travel from operator to operator; each operator is asked once, with all cells that reach it. An input
of which all cells are there already is not requested again, and a whole array goes through a mapping without its
cells being looked at where the mapping itself says what comes of it, or the operator says that it goes through as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Mapping as ReadOnly
from dataclasses import dataclass, field
from typing import TypeAlias

from lineage_arrays.cells import Cells
from lineage_arrays.claims import StepWay
from lineage_arrays.display import CellsDisplay, DisplayedCells, Remark, values_in
from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.mappings import AllToAll, Choice, Mapping
from lineage_arrays.workflow import AnyArray, Node, Workflow

Cross: TypeAlias = Callable[[Node, int, Mapping], Mapping]
"""What a trace asks in the place of the mapping to follow: of a node, and the number of an input."""


@dataclass(frozen=True)
class CellTrace(CellsDisplay):
    """Cells that a trace found, and its claims; a notebook shows it with pictures.

    ``values``: arrays of the cells, by name, as far as they are known: for the pictures alone. ``ways``: how it crossed the operators of a graph
    that keep lineage or can run again, in order.
    """

    cells: ReadOnly[str, Cells]
    values: ReadOnly[str, AnyArray] = field(default_factory=dict, repr=False, compare=False)
    ways: tuple[StepWay, ...] = field(default=(), repr=False, compare=False)

    def _displayed(self) -> list[DisplayedCells]:
        return [
            DisplayedCells(name, cells, values_in(self.values.get(name), cells.shape))
            for name, cells in self.cells.items()
        ]

    def _remarks(self) -> Iterator[Remark]:
        yield from super()._remarks()
        for way in self.ways:
            if way.by == "rerun":
                yield "run again", str(way), "none"


def _as_it_is(node: Node, operand: int, mapping: Mapping) -> Mapping:
    return mapping


def takes_places_alone(node: Node) -> bool:
    """Whether values without lineage that a node takes are places of cells: ``x[places]`` is made of the cells there."""
    return node.operator == "getitem"


@dataclass
class _Remarks:
    """What a trace of a workflow must report about what it crosses and enters. ``choices``: whether it follows all cells that took part in a choice."""

    flow: Workflow
    choices: bool
    superset: dict[str, None] = field(default_factory=dict)
    incomplete: dict[str, None] = field(default_factory=dict)
    chosen: dict[str, None] = field(default_factory=dict)

    def crossing(self, node: Node, operand: int, cells: Cells, cross: Cross) -> Mapping:
        """What some cells at one end of an edge from a node to one of its inputs are traced by. Where there are some the edge is reported."""
        edge = node.inputs[operand]
        mapping = edge.mapping
        if cells:
            if edge.superset:
                self.superset[f"{node.operator} at {node.call_site}: {edge.superset}"] = None
            if isinstance(mapping, Choice):
                mapping = self._followed(node, mapping)
        if node.entire_array and cells.is_whole:
            return AllToAll(mapping.source, mapping.target)
        return cross(node, operand, mapping)

    def _followed(self, node: Node, choice: Choice) -> Mapping:
        if self.choices:
            return choice.influence
        self.chosen[f"{node.operator} at {node.call_site}"] = None
        return choice

    def entering(self, node: Node) -> None:
        """Records that values without lineage took part in a node: they may be values that left the workflow before, or rows that an action gave."""
        if node.constants and node.after_leaks:
            self.incomplete[
                f"{node.operator} at {node.call_site} takes values without lineage; before, values left by {self._leak_sites(node)}"
            ] = None
        if node.may_hold and (self.choices or not takes_places_alone(node)):
            where = f"{node.name or node.operator} at {node.call_site}"
            what = "comes from outside" if node.name else "takes values without lineage"
            self.incomplete[
                f"{where} {what}; before, {node.may_hold} gave rows: they may be in it"
            ] = None

    def leaking_into(self, before: set[int]) -> None:
        """Records where values that left the workflow may have come back into what an array was made from (by the numbers of its nodes): as constants, or among an array from outside."""
        nodes = self.flow.nodes
        for number in sorted(before):
            node = nodes[number]
            if not (node.after_leaks or node.may_hold):
                continue
            self.entering(node)
            if node.name and node.after_leaks:
                self.incomplete[
                    f"{node.name} at {node.call_site} comes from outside; before, values left by {self._leak_sites(node)}: they may be in it"
                ] = None

    def _leak_sites(self, node: Node) -> str:
        return "; ".join(self.flow.leaks[: node.after_leaks][-3:])

    def trace(self, cells: dict[str, Cells]) -> CellTrace:
        return CellTrace(
            cells,
            superset_reasons=tuple(self.superset),
            incomplete_reasons=tuple(self.incomplete),
            chosen_by=tuple(self.chosen),
        )


def backward(
    flow: Workflow,
    start: Node,
    cells: Cells,
    *,
    choices: bool = False,
    until: ReadOnly[int, str] | None = None,
    cross: Cross = _as_it_is,
) -> CellTrace:
    """Trace cells of an array back to the named arrays of its workflow.

    Args:
        flow: the workflow.
        start: the array's node.
        cells: of this array.
        choices: follow all cells that took part in a choice, not the chosen ones alone.
        until: names of nodes, by their numbers, at which the trace ends as at named arrays.
        cross: gives what is asked in the place of each mapping.

    Returns:
        The cells of each named array that ``start`` was made from.
    """
    reached = {start.number: cells}
    source_cells: dict[str, Cells] = {}
    ends = until or {}
    remarks = _Remarks(flow, choices)
    while reached:
        # The highest number first: all nodes made from it are already visited.
        node = flow.nodes[max(reached)]
        node_cells = reached.pop(node.number)
        name = ends.get(node.number, node.name)
        if name:
            source_cells[name] = (
                source_cells[name] | node_cells if name in source_cells else node_cells
            )
        if node.number in ends:
            continue
        if node_cells:
            remarks.entering(node)
        for operand, edge in enumerate(node.inputs):
            # Even where there is nothing to add, the edge may make the answer a superset.
            mapping = remarks.crossing(node, operand, node_cells, cross)
            reached_cells = reached.get(edge.node.number)
            if reached_cells is None:
                reached[edge.node.number] = mapping.backward(node_cells)
            elif not reached_cells.is_whole:
                reached[edge.node.number] = reached_cells | mapping.backward(node_cells)
    return remarks.trace(source_cells)


def forward(
    flow: Workflow,
    start: Node,
    cells: Cells,
    target: Node,
    *,
    choices: bool = False,
    cross: Cross = _as_it_is,
) -> CellTrace:
    """Trace cells of an array forward to another array of its workflow.

    Args:
        flow: the workflow.
        start: the array's node.
        cells: of this array.
        target: the node of the array to trace to.
        choices: as in :func:`backward`.
        cross: as in :func:`backward`.

    Returns:
        The cells of the target, under its operator's name.

    Raises:
        ArrayLineageError: the target was not made from the array.
    """
    before = _before(flow, target)
    between = _after(flow, start, before)
    if target.number not in between:
        raise ArrayLineageError(
            f"{target.operator} at {target.call_site} was not made from {start.name or start.operator}"
        )
    reached = {start.number: cells} if cells else {}
    remarks = _Remarks(flow, choices)
    for number in between[1:]:
        node = flow.nodes[number]
        target_cells: Cells | None = None
        for operand, edge in enumerate(node.inputs):
            edge_cells = reached.get(edge.node.number)
            if edge_cells is None:
                continue
            mapping = remarks.crossing(node, operand, edge_cells, cross)
            if target_cells is None:
                target_cells = mapping.forward(edge_cells)
            elif not target_cells.is_whole:
                target_cells = target_cells | mapping.forward(edge_cells)
        if target_cells:
            reached[number] = target_cells
    remarks.leaking_into(before)
    found = reached.get(target.number) or Cells.empty(target.shape)
    return remarks.trace({target.name or target.operator: found})


def across(
    flow: Workflow,
    node: Node,
    operand: int,
    cells: Cells,
    *,
    back: bool,
    choices: bool = False,
    cross: Cross = _as_it_is,
) -> CellTrace:
    """Trace cells from an array to that of one of its inputs, or from there to the array, and no further.

    Args:
        flow: the workflow.
        node: the array's node.
        operand: the number of the input.
        cells: of the array, or (not ``back``) of the input's.
        back: to the input.
        choices: as in :func:`backward`.
        cross: as in :func:`backward`.

    Returns:
        The cells at the other end, under the name of the array or its operator's.
    """
    remarks = _Remarks(flow, choices)
    mapping = remarks.crossing(node, operand, cells, cross)
    if not back:
        remarks.leaking_into(_before(flow, node))
        return remarks.trace({node.operator: mapping.forward(cells)})
    source, reached = node.inputs[operand].node, mapping.backward(cells)
    if cells:
        remarks.entering(node)
    if reached and source.name:
        remarks.entering(source)
    return remarks.trace({source.name or source.operator: reached})


def unreached(flow: Workflow, target: Node, choices: bool) -> CellTrace:
    """The trace forward to an array that was not made from another one: no cells, but for values that left and came back."""
    remarks = _Remarks(flow, choices)
    remarks.leaking_into(_before(flow, target))
    return remarks.trace({target.name or target.operator: Cells.empty(target.shape)})


def is_made_from(flow: Workflow, start: Node, target: Node) -> bool:
    """Whether an array was made from another one, or is it."""
    return start.number in _before(flow, target)


def _after(flow: Workflow, start: Node, before: set[int]) -> list[int]:
    """Of the numbers of nodes those of one of them and of all that are made from it, in order; none where it is not among them."""
    if start.number not in before:
        return []
    after = {start.number}
    for number in sorted(before):
        if number > start.number:
            for edge in flow.nodes[number].inputs:
                if edge.node.number in after:
                    after.add(number)
                    break
    return sorted(after)


def _before(flow: Workflow, target: Node) -> set[int]:
    """Numbers of a node and of all that it was made from."""
    before, left = {target.number}, [target.number]
    while left:
        for edge in flow.nodes[left.pop()].inputs:
            number = edge.node.number
            if number not in before:
                before.add(number)
                left.append(number)
    return before
