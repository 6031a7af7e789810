"""Workflows of operators, and their runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from collections.abc import Mapping as ReadOnly
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lineage_arrays import sharing
from lineage_arrays.cells import Cells
from lineage_arrays.constants import attributes, rows_in
from lineage_arrays.errors import ArrayLineageError, ModeError
from lineage_arrays.mappings import Choice, Mapping, SamePositions
from lineage_arrays.operators.operator import Mode, Operator, Shapes
from lineage_arrays.operators.paths import Hop, along
from lineage_arrays.operators.plan_files import PlannedStep, planned_steps
from lineage_arrays.operators.query_time import (
    By,
    Crossings,
    StepRun,
    StepTimes,
    check_by,
    written_by,
)
from lineage_arrays.operators.strategies import (
    OPAQUE,
    Again,
    Options,
    ReExecution,
    Strategy,
    all_to_all,
    opaque,
    run_once,
    stored_bytes,
)
from lineage_arrays.querying import CellTrace, backward, forward
from lineage_arrays.traced import TracedArray
from lineage_arrays.workflow import (
    NO_AXES,
    AnyArray,
    Input,
    Node,
    Operand,
    Output,
    Workflow,
    all_axes,
)


@dataclass(frozen=True, eq=False)
class Step:
    """An operator or a function in a graph, or (with neither) a source; ``inputs``: the steps whose arrays it takes."""

    name: str
    operator: Operator | None = None
    inputs: tuple[Step, ...] = ()
    function: Callable[..., Any] | None = None

    @property
    def is_source(self) -> bool:
        return self.operator is None and self.function is None


class OperatorGraph:
    """A workflow of operators, to be run over arrays."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._times: dict[Step, StepTimes] = {}

    def source(self, name: str) -> Step:
        """An array that comes from outside.

        Raises:
            ArrayLineageError: the name is taken.
        """
        return self._add(Step(name))

    def add(self, operator: Operator, *inputs: Step, name: str = "") -> Step:
        """Add an operator after others.

        Args:
            operator: the operator.
            inputs: steps of this graph, in the order of its operands.
            name: of the step; by default that of the operator and a number.

        Raises:
            ArrayLineageError: the name is taken, or an input stands in another graph.
        """
        step_name = name or f"{operator.name or type(operator).__name__}.{len(self.steps)}"
        return self._add(Step(step_name, operator, inputs))

    def apply(self, function: Callable[..., Any], *inputs: Step, name: str = "") -> Step:
        """Add a function of plain NumPy code after others: each call in it records its own mapping.

        Args:
            function: takes traced arrays, and returns one; its calls are traced as those of a recording are.
            inputs: steps of this graph, in the order of its arguments.
            name: of the step; by default that of the function and a number.

        Raises:
            ArrayLineageError: the name is taken, or an input stands in another graph.
        """
        function_name = getattr(function, "__name__", "function")
        step_name = name or f"{function_name}.{len(self.steps)}"
        return self._add(Step(step_name, None, inputs, function))

    def _add(self, step: Step) -> Step:
        if any(before not in self.steps for before in step.inputs):
            raise ArrayLineageError("an input stands in another graph")
        if any(other.name == step.name for other in self.steps):
            raise ArrayLineageError(f"{step.name!r} is taken: each step has a name of its own")
        self.steps.append(step)
        return step

    def run(
        self,
        sources: ReadOnly[str, npt.ArrayLike],
        strategies: ReadOnly[Step, Sequence[Strategy]] | None = None,
        *,
        apart: bool = False,
    ) -> Version:
        """Run all operators over arrays.

        Args:
            sources: the array of each source, by name; copied.
            strategies: how the lineage of a step is stored; None: by the plan that `LINEAGE_ARRAYS_PLAN` names. A step of which neither says
                anything is stored by its mapping functions where it has some, else not at all: a query runs the step again. The
                steps of functions have none.
            apart: of the sources and of what operators hold, as in :meth:`lineage_arrays.recording.Recording.source`.

        Raises:
            ArrayLineageError: a source is missing, a function returns something else than a traced array, or the plan can't be read.
            ModeError: the operator does not support a strategy, or writes lineage that is not valid.
            UntracedError: a function makes a call whose lineage is not known.
        """
        missing = [step.name for step in self.steps if step.is_source and step.name not in sources]
        if missing:
            raise ArrayLineageError(f"no array for {', '.join(missing)}")
        flow = Workflow()
        arrays: dict[Step, Operand] = {}
        entries: dict[Step, tuple[Node, ...]] = {}
        runs: dict[int, StepRun] = {}
        chosen = self._planned() if strategies is None else strategies
        for step in self.steps:
            operands = tuple(arrays[before] for before in step.inputs)
            if step.operator is not None:
                how = chosen.get(step, default_of(step.operator))
                ran = run_operator(step.operator, operands, how)
                axes = decided_axes(step.operator, ran.output)
                may_hold = "" if apart else rows_in(flow, attributes(step.operator))
                node = flow.add(
                    step.name,
                    ran.output,
                    ran.inputs,
                    decided_axes=axes,
                    decided_width=True,
                    may_hold=may_hold,
                    entire_array=step.operator.entire_array,
                )
                arrays[step] = Operand(flow, node, ran.output)
                times = self._times.setdefault(step, StepTimes())
                runs[node.number] = StepRun(
                    step.name, ran.again, ran.seconds, written_by(how), times
                )
            elif step in chosen:
                raise ModeError(f"{step.name} has no strategies: its calls map their cells")
            elif step.function is not None:
                given = [_traced(flow, operand) for operand in operands]
                entries[step] = tuple(array.node for array in given)
                arrays[step] = _applied(step.name, step.function, flow, given)
            else:
                value = np.array(sources[step.name])
                value.flags.writeable = False
                may_hold = "" if apart else flow.rows_before
                node = flow.add("source", value, name=step.name, may_hold=may_hold)
                arrays[step] = Operand(flow, node, value)
        return Version(flow, arrays, runs, entries)

    def learn(self, writing_s: ReadOnly[Step, ReadOnly[Mode, float]]) -> None:
        """Take what strategies were measured to cost, for questions about runs from now on: these then know how long it takes to run a step again.

        Args:
            writing_s: of a step's modes that write lineage, how many seconds more a run takes; `Costs.writing_s` has them.
        """
        for step, of_step in writing_s.items():
            self._times.setdefault(step, StepTimes()).writing_s.update(of_step)

    def _planned(self) -> dict[Step, tuple[Strategy, ...]]:
        steps = {step.name: step for step in self.steps}
        operators = {
            name: step.operator for name, step in steps.items() if step.operator is not None
        }
        planned: dict[Step, PlannedStep] = {
            steps[one.name]: one for one in planned_steps(operators)
        }
        self.learn({step: one.writing_s for step, one in planned.items()})
        return {step: one.strategies for step, one in planned.items()}


def _applied(
    name: str, function: Callable[..., Any], flow: Workflow, operands: Sequence[TracedArray]
) -> Operand:
    result = function(*operands)
    if not isinstance(result, TracedArray):
        raise ArrayLineageError(
            f"{name} returns {type(result).__name__}, no array of this workflow: its lineage is lost"
        )
    # A node with the name of the step, after those of the function's calls.
    same = Input(result, SamePositions(result.current.shape, result.current.shape))
    return Operand(flow, flow.add(name, result.current, [same]), result.current)


def _traced(flow: Workflow, operand: Operand) -> TracedArray:
    """An operand for plain NumPy code, which may write to it: the step's array stays, and functions of other steps do not see what one writes."""
    same = Input(operand, SamePositions(operand.current.shape, operand.current.shape))
    return TracedArray(flow, sharing.lent(operand.current), "operand", [same])


def default_of(operator: Operator) -> tuple[Strategy, ...]:
    """The default strategy of a step."""
    return (Strategy(Mode.MAP if Mode.MAP in operator.supported_modes() else Mode.BLACKBOX),)


def decided_axes(operator: Operator, output: AnyArray) -> frozenset[int]:
    """The axes of an operator's output whose lengths values may have decided."""
    by_values = operator.chooses or opaque(operator)
    return all_axes(output) if by_values else NO_AXES


@dataclass(frozen=True)
class Ran:
    """A run of an operator: its output, how the cells of each operand belong to it, how it runs again, and the seconds that it took."""

    output: AnyArray
    inputs: list[Input]
    again: ReExecution = field(repr=False)
    seconds: float


def run_operator(
    operator: Operator, operands: tuple[Operand, ...], strategies: Sequence[Strategy]
) -> Ran:
    """Run an operator over arrays of a workflow.

    Raises:
        ModeError: it does not support a strategy, or writes lineage that is not valid.
    """
    for strategy in strategies:
        strategy.check(operator)
    if operator.entire_array and operator.chooses:
        raise ModeError(
            f"{operator.name or type(operator).__name__} chooses cells by values, so all of its output may be made from some: it has no entire_array"
        )
    inputs = tuple(operand.current for operand in operands)
    begin = time.perf_counter()
    output, ways = run_once(
        operator, inputs, [how for how in strategies if how.mode is not Mode.BLACKBOX]
    )
    seconds = time.perf_counter() - begin
    shapes = Shapes(tuple(array.shape for array in inputs), output.shape)
    again = ReExecution(operator, inputs, output)
    if opaque(operator):
        whole = [Input(one, all_to_all(shapes, n), OPAQUE) for n, one in enumerate(operands)]
        return Ran(output, whole, again, seconds)
    mapped_inputs = []
    for n, operand in enumerate(operands):
        options: list[Mapping] = ways[n] or [Again(shapes, n, again)]
        mapping: Mapping = options[0] if len(options) == 1 else Options(tuple(options))
        if operator.chooses:
            mapping = Choice(mapping, all_to_all(shapes, n))
        mapped_inputs.append(Input(operand, mapping))
    return Ran(output, mapped_inputs, again, seconds)


class Version:
    """One run of a graph: all arrays, none of them overwritten, and how they were made."""

    def __init__(
        self,
        flow: Workflow,
        arrays: ReadOnly[Step, Operand],
        runs: ReadOnly[int, StepRun],
        entries: ReadOnly[Step, tuple[Node, ...]],
    ) -> None:
        self._flow = flow
        self._arrays = arrays
        self._runs = runs
        self._entries = entries

    @property
    def steps(self) -> list[Step]:
        """The steps that ran, in order."""
        return list(self._arrays)

    def array(self, step: Step) -> AnyArray:
        """The array that a step returned; read-only."""
        return self._arrays[step].current

    def node(self, step: Step) -> Node:
        """The node of the workflow that a step's array is."""
        return self._arrays[step].node

    @property
    def stored_bytes(self) -> int:
        """Bytes that what operators wrote takes where it is stored, indexes included; mapping functions take none."""
        return sum(stored_bytes(edge.mapping) for node in self._flow.nodes for edge in node.inputs)

    @property
    def flow(self) -> Workflow:
        """The run as a workflow whose outputs are the steps, by their names."""
        outputs = [Output(step.name, array.node) for step, array in self._arrays.items()]
        return replace(self._flow, outputs=outputs)

    def back(
        self,
        step: Step,
        where: Any = ...,
        *,
        by: By = "stored",
        choices: bool = False,
        until: Sequence[Step] = (),
    ) -> CellTrace:
        """Which cells of the sources some cells of a step's array were made from.

        Args:
            step: the step.
            where: cells of its array.
            by: how operators are crossed: by what is kept of their lineage, and black boxes by another run (``stored``), in the way that is estimated to take
                less time (``auto``), or by running each one again (``rerun``). The trace's ``ways`` say what was done, and why. Where another run
                answered whose lineage was not compared in full with what is kept the trace is neither exact nor complete, and says so.
            choices: where values chose among cells, all that took part and not the chosen ones alone.
            until: steps at whose arrays the trace ends as at sources. What the trace says of itself is about the way from there.

        Raises:
            ArrayLineageError: a step is none of this run.
            CellError: the array has no such cells.
            ModeError: an operator that must be run again gives another output.
        """
        array = self._of(step)
        cells = Cells.of(array.current.shape, where)
        ends = {self._of(end).node.number: end.name for end in until}
        crossings = self._crossings(by)
        trace = backward(
            self._flow, array.node, cells, choices=choices, until=ends, cross=crossings
        )
        return crossings.claimed(self._with_values(trace))

    def along(
        self,
        path: Sequence[tuple[Step, int]],
        where: Any = ...,
        *,
        forward: bool = False,
        by: By = "stored",
        choices: bool = False,
    ) -> CellTrace:
        """Trace cells along one path of steps, and by no other way.

        Args:
            path: the steps in the order of the trace, each with the number of an operand, from 0. Backward the trace leaves a step by this operand, whose
                step comes next on the path; forward it enters it by the operand, which is the step before.
            where: cells of the first step's array; forward of the array of its operand.
            forward: from operands to outputs.
            by: as for :meth:`back`.
            choices: as for :meth:`back`.

        Returns:
            The cells of the array at the end of the path.

        Raises:
            ArrayLineageError: the steps are none of this run, have no such operands, or do not follow each other.
            CellError, ModeError: as :meth:`back`.
        """
        hops = [self._hop(step, operand) for step, operand in path]
        if not hops:
            raise ArrayLineageError("a path has one step or more")
        for (step, operand), (after, entered) in pairwise(path):
            before, behind = (step, after.inputs[entered]) if forward else (after, step.inputs[operand])  # fmt: skip
            if before is not behind:
                raise ArrayLineageError(
                    f"{after.name} does not follow {step.name} on a path: the operand is {behind.name}"
                )
        first, operand = path[0]
        start = self._of(first.inputs[operand] if forward else first)
        cells = Cells.of(start.current.shape, where)
        crossings = self._crossings(by)
        trace = along(self._flow, hops, cells, back=not forward, choices=choices, cross=crossings)
        return crossings.claimed(self._with_values(trace))

    def _hop(self, step: Step, operand: int) -> Hop:
        node = self._of(step).node
        if not 0 <= operand < len(step.inputs):
            raise ArrayLineageError(f"{step.name} has {len(step.inputs)} operands, from 0")
        return Hop(node, operand, self._entries.get(step, ()))

    def _of(self, step: Step) -> Operand:
        if step not in self._arrays:
            raise ArrayLineageError(f"{step.name}: a step of another graph than that which ran")
        return self._arrays[step]

    def _with_values(self, trace: CellTrace) -> CellTrace:
        arrays = {step.name: made.current for step, made in self._arrays.items()}
        return replace(trace, values={name: arrays[name] for name in trace.cells if name in arrays})

    @property
    def runs(self) -> ReadOnly[int, StepRun]:
        """What is known of the run of each operator, by the number of its node."""
        return self._runs

    def _crossings(self, by: By) -> Crossings:
        check_by(by)
        return Crossings(self._runs, by)

    def forward(
        self,
        source: Step,
        step: Step,
        where: Any = ...,
        *,
        by: By = "stored",
        choices: bool = False,
    ) -> CellTrace:
        """Which cells of a step's array some cells of another step's array went into.

        Args:
            source: the other step.
            step: the step.
            where: cells of the other step's array.
            by: as for :meth:`back`.
            choices: as for :meth:`back`.

        Raises:
            ArrayLineageError: it was not made from it, or a step is none of this run.
            CellError, ModeError: as :meth:`back`.
        """
        start, target = self._of(source), self._of(step)
        cells = Cells.of(start.current.shape, where)
        crossings = self._crossings(by)
        trace = forward(
            self._flow, start.node, cells, target.node, choices=choices, cross=crossings
        )
        return crossings.claimed(self._with_values(trace))
