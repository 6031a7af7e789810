"""What workloads of operator graphs have in common: their arrays without lineage, and questions about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lineage_arrays import CellTrace
from lineage_arrays.operators import OperatorGraph, Step, Version
from lineage_arrays.operators.query_time import By


@dataclass(frozen=True)
class Question:
    """Cells that a trace begins at: of a step's array backward, or of a source's forward to the step."""

    name: str
    step: Step
    where: Any
    source: Step | None = None

    def ask(self, version: Version, by: By = "stored") -> CellTrace:
        """Ask a run; by what is kept of its operators' lineage, where something is."""
        if self.source is not None:
            return version.forward(self.source, self.step, self.where, by=by)
        return version.back(self.step, self.where, by=by)


@dataclass(frozen=True)
class Workload:
    """A graph, the arrays of its sources, and the questions about the arrays of its steps."""

    graph: OperatorGraph
    sources: Callable[[], dict[str, Any]]
    questions: Callable[[dict[Step, Any]], Sequence[Question]]

    @property
    def udfs(self) -> list[Step]:
        return [step for step in self.graph.steps if step.operator is not None]


def part_behind(graph: OperatorGraph, step: Step) -> OperatorGraph:
    """The steps that a step's array is made by."""
    behind = {step}
    for before in reversed(graph.steps):
        if before in behind:
            behind.update(before.inputs)
    part = OperatorGraph()
    part.steps = [before for before in graph.steps if before in behind]
    return part


def without_lineage(graph: OperatorGraph, sources: dict[str, Any]) -> dict[Step, Any]:
    """The arrays of all steps, as a program without lineage computes them."""
    arrays: dict[Step, Any] = {}
    for step in graph.steps:
        operands = [arrays[before] for before in step.inputs]
        if step.operator is not None:
            arrays[step] = step.operator.run_with(None, tuple(operands), frozenset())
        elif step.function is not None:
            arrays[step] = step.function(*operands)
        else:
            arrays[step] = sources[step.name]
    return arrays
