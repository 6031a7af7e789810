"""Steps that ``lineage step`` shows: of a program's operators, or of those of a DataFrame's plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


def show_steps(numbers: Sequence[int], show: Callable[[int], None], *, one_by_one: bool) -> None:
    """Show steps, all of them, or one by one as a person goes through them, forward and back.

    Args:
        numbers: of the steps.
        show: shows a step by its place among them.
        one_by_one: read what to show next from standard input, until its end.
    """
    if not one_by_one:
        for place in range(len(numbers)):
            show(place)
        return
    place, is_shown = 0, False
    while numbers:
        if not is_shown:
            show(place)
        words = f"step {numbers[place]}, {place + 1} of {len(numbers)} (Enter: next, b: back, a number: that step, q: end)"
        try:
            said = typer.prompt(words, default="", show_default=False, err=True).strip()
        except typer.Abort:
            # The end of what is read, or Ctrl-C.
            return
        if said == "q":
            return
        other = _next_place(numbers, place, said)
        problem = ""
        if other is None:
            problem = f"there is no step {said}"
        elif other == place and not said.isdecimal():
            problem = f"this is the {'first' if said == 'b' else 'last'} step"
        else:
            place = other
        is_shown = bool(problem)
        if problem:
            echo(f"lineage: {problem}", err=True)


def _next_place(numbers: Sequence[int], place: int, said: str) -> int | None:
    """The place of the step that is meant; None: there is no such step."""
    if said in {"", "n"}:
        return min(place + 1, len(numbers) - 1)
    if said == "b":
        return max(place - 1, 0)
    named = [n for n, number in enumerate(numbers) if str(number) == said]
    return named[0] if named else None
