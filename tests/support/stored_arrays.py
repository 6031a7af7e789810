"""Recordings of arrays that are packed and read again, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from lineage_arrays.cells import Cells
from lineage_arrays.operators import Operator
from lineage_arrays.querying import backward, forward, is_made_from
from lineage_arrays.saved.document import pack_workflow, unpack_workflow
from lineage_arrays.workflow import Node, Workflow


def reloaded(flow: Workflow, operators: Sequence[Operator] = ()) -> Workflow:
    """The workflow as another process reads it."""
    return unpack_workflow(pack_workflow(flow), operators)


def assert_same_answers(flow: Workflow, again: Workflow, targets: Sequence[Node]) -> None:
    """Each cell of some arrays, backward, and each cell of their sources, forward: cells and all that is said of them."""
    for target in targets:
        twin = again.nodes[target.number]
        for cells in parts(target):
            for choices in (False, True):
                before = backward(flow, target, cells, choices=choices)
                assert backward(again, twin, cells, choices=choices) == before
        for source in [node for node in flow.nodes if node.name]:
            if not is_made_from(flow, source, target):
                continue
            for cells in parts(source):
                for choices in (False, True):
                    before = forward(flow, source, cells, target, choices=choices)
                    source_again = again.nodes[source.number]
                    assert forward(again, source_again, cells, twin, choices=choices) == before


def parts(node: Node) -> list[Cells]:
    """Each cell by itself, none, and all of them."""
    whole = Cells.whole(node.shape)
    singles = [Cells.at(node.shape, [at]) for at in range(whole.size)]
    return [*singles, Cells.empty(node.shape), whole]
