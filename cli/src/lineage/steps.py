"""Steps that ``lineage step`` shows: of a program's operators, or of those of a DataFrame's plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import typer

from lineage.terminal import echo
from lineage_core.tracing.trace_result import TraceError


class Step(Protocol):
    """What one operator gave; ``inputs``: the numbers of the steps before it."""

    @property
    def number(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> tuple[int, ...]: ...
    @property
    def count(self) -> int: ...
    def fits(self, named: str) -> bool: ...


AnyStep = TypeVar("AnyStep", bound=Step)


def chosen_steps(steps: Sequence[AnyStep], at: str) -> list[AnyStep]:
    """The steps of a number, or of an operator; empty text: all.

    Raises:
        TraceError: there are none.
    """
    chosen = [step for step in steps if not at or step.fits(at)]
    if not chosen:
        raise TraceError(
            f"no step is {at}: there are {len(steps)}, the last one is {steps[-1].name}"
        )
    return chosen


def show_step(step: Step, about: str, lines: Iterable[str], count: int | None = None) -> None:
    """Print a step for people.

    ``about``: what else is said of its operator. ``lines``: one for each value that is listed, of ``count`` (None: of all).
    """
    inputs = f", of {' and '.join(map(str, step.inputs))}" if step.inputs else ""
    echo(f"{step.number}. {step.name}{about}{inputs}", fg=typer.colors.CYAN)
    listed = list(lines)
    for line in listed:
        echo(f"   {line}")
    count = step.count if count is None else count
    if count > len(listed):
        echo(f"   ... and {count - len(listed):,} more (--limit N lists more)", dim=True)
