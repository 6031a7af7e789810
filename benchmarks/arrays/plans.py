"""Which strategies the optimiser chooses for a workload, by the statistics of a run before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from benchmarks.arrays.workloads import Question, Workload
from lineage_arrays import Cells
from lineage_arrays.operators import Mode, Orientation, Step, Strategy, Version
from lineage_arrays.operators.costs import Costs
from lineage_arrays.operators.measuring import Sample, measured
from lineage_arrays.operators.optimiser import Choice, Limits, choose
from lineage_arrays.querying import backward, forward, is_made_from

Plan: TypeAlias = Mapping[Step, tuple[Strategy, ...]]

LIMITS_MB = (1, 10, 50, 100)
"""Of disk, as the paper has them for genomics."""


def limits_of(plain_s: float, disk_mb: Sequence[int]) -> dict[str, Limits]:
    """Limits by the name of the plan: of disk, of twice the run time without lineage, and none."""
    plans = {f"plan-{most}": Limits(disk_bytes=most * 1_000_000) for most in disk_mb}
    return {**plans, "plan-quick": Limits(run_s=plain_s), "plan-any": Limits()}


def costs_of(
    workload: Workload,
    arrays: Mapping[Step, Any],
    asked: Sequence[Question],
    among: Sequence[Strategy],
) -> Costs:
    """What strategies cost: each UDF runs with each of those ``among`` some, and answers the parts of the workload's questions that meet it."""
    samples = samples_of(workload, asked)
    costs = {
        step: measured(
            step.operator,
            tuple(arrays[before] for before in step.inputs),
            samples[step],
            among=[Strategy(Mode.MAP), *among],
        )
        for step in workload.udfs
        if step.operator is not None
    }
    return Costs(costs, {step: float(len(of_step)) for step, of_step in samples.items()})


def planned(costs: Costs, limits: Mapping[str, Limits]) -> dict[str, Choice]:
    """The optimiser's choice within each limit, by the limit's name."""
    return {name: choose(costs.alternatives, costs.workload, most) for name, most in limits.items()}


def samples_of(workload: Workload, asked: Sequence[Question]) -> dict[Step, list[Sample]]:
    """The cells with which the questions meet each UDF, by traces that end there."""
    version = workload.graph.run(workload.sources())
    samples: dict[Step, list[Sample]] = {step: [] for step in workload.udfs}
    for question in asked:
        for step in workload.udfs:
            met = _met(version, question, step)
            samples[step] += met
    return samples


def _met(version: Version, question: Question, step: Step) -> list[Sample]:
    flow = version.flow
    nodes = {output.name: output.node for output in flow.outputs}
    start, target = nodes[step.name], nodes[question.step.name]
    if question.source is None:
        if not is_made_from(flow, start, target):
            return []
        # The step's array by a name, as a source has one: traces say which of its cells they reach.
        named = [replace(node, name=step.name) if node is start else node for node in flow.nodes]
        where = Cells.of(target.shape, question.where)
        cells = backward(replace(flow, nodes=named), named[target.number], where).cells[step.name]
        return [
            Sample(Orientation.BACKWARD, operand, cells)
            for operand in range(len(step.inputs))
            if cells
        ]
    source = nodes[question.source.name]
    if not is_made_from(flow, source, start) or not is_made_from(flow, start, target):
        return []
    where = Cells.of(source.shape, question.where)
    met = []
    for operand, before in enumerate(step.inputs):
        node = nodes[before.name]
        if is_made_from(flow, source, node):
            (cells,) = forward(flow, source, where, node).cells.values()
            if cells:
                met.append(Sample(Orientation.FORWARD, operand, cells))
    return met
