"""Why the optimiser chose what it chose: what each alternative of each step would cost, and what larger limits would buy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as ReadOnly
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, TypeVar

from lineage_arrays.errors import NoChoiceError
from lineage_arrays.operators.costs import Costs
from lineage_arrays.operators.graph import Step
from lineage_arrays.operators.operator import Mode
from lineage_arrays.operators.optimiser import GAP, Alternative, Choice, Limits, choose
from lineage_arrays.operators.plan_files import PlannedStep
from lineage_arrays.operators.strategies import Strategy
from lineage_core.tracing.budget import current_budget

FACTORS = (2, 10, 100)
"""Multiples of a limit that are tried beside none."""

Cost = TypeVar("Cost", int, float)
Why: TypeAlias = Literal["chosen", "pinned", "slower", "beaten", "over the limit", "as good"]


@dataclass(frozen=True)
class Explained:
    """An alternative of a step, and why it is kept or not.

    ``why``: *chosen* or *pinned*; *slower*: a question takes longer than with what is chosen; *beaten*: another one is no worse at
    anything (``detail`` names it); *over the limit*: in the place of what is chosen it would cost more than is left
    (``detail``: of what, and how much); *as good*: it would save less than the choice is exact to, or nothing.
    """

    alternative: Alternative
    why: Why
    detail: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether the plan has it."""
        return self.why in {"chosen", "pinned"}


@dataclass(frozen=True)
class ExplainedStep:
    """A step of the plan; ``frequency``: how often queries meet it, beside others. ``operator``: its identity, where it is known.

    ``writing_s``: as of :class:`PlannedStep`.
    """

    name: str
    frequency: float
    alternatives: tuple[Explained, ...]
    operator: str = ""
    writing_s: ReadOnly[Mode, float] = field(default_factory=dict)

    @property
    def rerun_s(self) -> float | None:
        """Seconds of a question that runs the operator again; None: that was not measured."""
        reruns = [
            one.alternative.run_s + one.alternative.query_s
            for one in self.alternatives
            if one.alternative.strategy.mode == "blackbox"
        ]
        return min(reruns, default=None)

    def reruns(self, one: Explained) -> bool:
        """Whether a question with `by="auto"` runs the operator again, as it would read longer by a strategy."""
        return self.rerun_s is not None and one.alternative.query_s > self.rerun_s


@dataclass(frozen=True)
class Larger:
    """What the plan would be with a larger limit (of one, the other one as it is)."""

    limits: Limits
    choice: Choice


@dataclass(frozen=True)
class Plan:
    """A choice within limits, explained."""

    limits: Limits
    choice: Choice
    steps: tuple[ExplainedStep, ...]
    larger: tuple[Larger, ...]

    def planned(self) -> list[PlannedStep]:
        """What a file of the plan holds."""
        return [
            PlannedStep(
                step.name,
                step.operator,
                tuple(one.alternative.strategy for one in step.alternatives if one.is_kept),
                step.writing_s,
            )
            for step in self.steps
        ]


def explain(costs: Costs, limits: Limits) -> Plan:
    """Choose strategies, and say why these.

    Raises:
        NoChoiceError: no choice is within the limits; the message says the least that is needed.
        ArrayLineageError: as `choose`.
        BudgetError: the question has no time left.
    """
    try:
        choice = choose(costs.alternatives, costs.workload, limits, costs.pinned)
    except NoChoiceError as error:
        disk, run = _least(costs)
        raise NoChoiceError(
            f"{error} The least that can be kept takes {disk:,} bytes of disk, and the least run time is {run:.3g} s."
        ) from error
    by_step = {step: tuple(_explained(costs, limits, choice, step)) for step in costs.alternatives}
    steps = [
        ExplainedStep(
            step.name,
            costs.workload.get(step, 0.0),
            explained,
            costs.operator_of(step),
            costs.writing_s[step],
        )
        for step, explained in by_step.items()
    ]
    return Plan(limits, choice, tuple(steps), tuple(_larger(costs, limits)))


def _least(costs: Costs) -> tuple[int, float]:
    """The least disk and the least run time, each by itself, that any choice takes."""
    disk, run = 0, 0.0
    for step, alternatives in costs.alternatives.items():
        pins = [one for one in alternatives if one.strategy in costs.pinned.get(step, ())]
        disk += _sum_or_least(
            [one.disk_bytes for one in pins], [one.disk_bytes for one in alternatives]
        )
        run += _sum_or_least([one.run_s for one in pins], [one.run_s for one in alternatives])
    return disk, run


def _sum_or_least(pinned: Sequence[Cost], all_costs: Sequence[Cost]) -> Cost:
    return type(all_costs[0])(sum(pinned)) if pinned else min(all_costs)


def _explained(costs: Costs, limits: Limits, choice: Choice, step: Step) -> Iterator[Explained]:
    alternatives = costs.alternatives[step]
    pinned = costs.pinned.get(step, ())
    kept = {one.strategy: one for one in alternatives if one.strategy in choice.strategies[step]}
    used = min(kept.values(), key=lambda one: one.query_s)
    for one in alternatives:
        if one.strategy in kept:
            yield Explained(one, "pinned" if one.strategy in pinned else "chosen")
        elif one.query_s > used.query_s:
            yield Explained(one, "slower")
        elif (better := _better(one, alternatives)) is not None:
            yield Explained(one, "beaten", name_of(better.strategy))
        else:
            over = _over(one, kept, pinned, limits, choice)
            yield Explained(one, "over the limit" if over else "as good", over)


def _better(one: Alternative, alternatives: Sequence[Alternative]) -> Alternative | None:
    """An alternative that is no worse at anything, and better at something or listed before."""
    at = alternatives.index(one)
    for other_at, other in enumerate(alternatives):
        theirs = other.query_s, other.disk_bytes, other.run_s
        ours = one.query_s, one.disk_bytes, one.run_s
        is_no_worse = all(their <= our for their, our in zip(theirs, ours, strict=True))
        if other is not one and is_no_worse and (theirs != ours or other_at < at):
            return other
    return None


def _over(
    one: Alternative,
    kept: ReadOnly[Strategy, Alternative],
    pinned: Sequence[Strategy],
    limits: Limits,
    choice: Choice,
) -> str:
    """How much a plan would be over its limits that has an alternative in the place of what is chosen at its step."""
    given_up = [other for strategy, other in kept.items() if strategy not in pinned]
    disk = choice.disk_bytes + one.disk_bytes - sum(other.disk_bytes for other in given_up)
    run = choice.run_s + one.run_s - sum(other.run_s for other in given_up)
    over = []
    if limits.disk_bytes is not None and disk > limits.disk_bytes:
        over.append(f"{disk - limits.disk_bytes:,} bytes of disk")
    if limits.run_s is not None and run > limits.run_s:
        over.append(f"{run - limits.run_s:.3g} s of run time")
    return ", ".join(over)


def _larger(costs: Costs, limits: Limits) -> Iterator[Larger]:
    """Plans with larger limits, up to the first of each that has no use for more."""
    tried: list[list[Limits]] = []
    if limits.disk_bytes is not None:
        most = limits.disk_bytes
        of_disk = [replace(limits, disk_bytes=most * factor) for factor in FACTORS if most]
        tried.append([*of_disk, replace(limits, disk_bytes=None)])
    if limits.run_s is not None:
        longest = limits.run_s
        of_run = [replace(limits, run_s=longest * factor) for factor in FACTORS if longest]
        tried.append([*of_run, replace(limits, run_s=None)])
    for several in tried:
        best = choose(costs.alternatives, costs.workload, several[-1], costs.pinned)
        for larger in several[:-1]:
            current_budget().check()
            choice = choose(costs.alternatives, costs.workload, larger, costs.pinned)
            yield Larger(larger, choice)
            if choice.query_s <= best.query_s * (1 + GAP):
                break
        else:
            yield Larger(several[-1], best)


def name_of(strategy: Strategy) -> str:
    """A strategy in words: ``full-many-forward``, ``map``."""
    if strategy.mode in {"map", "blackbox"}:
        return str(strategy.mode)
    backward = strategy.mode != "full" or strategy.encoding == "ranges"
    return f"{strategy.mode}-{strategy.encoding}" + ("" if backward else f"-{strategy.orientation}")
