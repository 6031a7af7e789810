"""Questions about a run of a graph, and how each step meets them: the workload that a choice of strategies is made for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lineage_arrays.cells import Cells
from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.mappings import Mapping
from lineage_arrays.operators.asking import Answered, ask
from lineage_arrays.operators.encodings import Orientation
from lineage_arrays.operators.graph import Step, Version
from lineage_arrays.operators.measuring import Sample
from lineage_arrays.querying import backward, forward
from lineage_arrays.workflow import Node


@dataclass(frozen=True)
class BackQuestion:
    """Which cells of the sources some cells of a step's array were made from; as :meth:`Version.back`."""

    step: Step
    where: Any = ...


@dataclass(frozen=True)
class ForwardQuestion:
    """Which cells of a step's array some cells of a source went into; as :meth:`Version.forward`."""

    source: Step
    step: Step
    where: Any = ...


Question: TypeAlias = BackQuestion | ForwardQuestion


def samples_of(version: Version, questions: Sequence[Question]) -> dict[Step, list[Sample]]:
    """The queries by which questions meet the operators of a run, in order.

    Raises:
        ArrayLineageError: a question is about a step of another graph, or about one that was not made from the other.
        CellError, ModeError: as :meth:`Version.back`.
    """
    nodes = {step: version.node(step) for step in version.steps}
    steps = {node.number: step for step, node in nodes.items() if step.operator is not None}
    samples: dict[Step, list[Sample]] = {step: [] for step in steps.values()}

    def observed(node: Node, operand: int, mapping: Mapping) -> Mapping:
        step = steps.get(node.number)
        if step is None:
            return mapping

        def answer(direction: Orientation, cells: Cells) -> Cells:
            samples[step].append(Sample(direction, operand, cells))
            return ask(mapping, direction, cells)

        return Answered(mapping, answer)

    for question in questions:
        ends = (
            (question.step,)
            if isinstance(question, BackQuestion)
            else (question.source, question.step)
        )
        foreign = [step.name for step in ends if step not in nodes]
        if foreign:
            raise ArrayLineageError(
                f"{', '.join(foreign)}: a step of another graph than that which ran"
            )
        first, last = nodes[ends[0]], nodes[ends[-1]]
        cells = Cells.of(first.shape, question.where)
        if isinstance(question, BackQuestion):
            backward(version.flow, first, cells, cross=observed)
        else:
            forward(version.flow, first, cells, last, cross=observed)
    return samples
