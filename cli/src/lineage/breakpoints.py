"""Where ``lineage step`` stops: at an operator, or at the first record that fulfils a condition; and the records in hand there.

The job is not stopped, and nor is a program that runs again: what its operators gave is looked at when it has ended, as the simulated breakpoints of
Gulzar et al., BigDebug (ICSE 2016) do.
"""

from __future__ import annotations

import ast
import code
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

import typer

from lineage.steps import AnyStep
from lineage.terminal import echo
from lineage_core.contract.record_conditions import Test, read_condition, test_record
from lineage_core.tracing.trace_result import TraceError

TESTED_MAX = 10_000
"""Records of a step that are tested, and that a prompt has."""
MaybeTest: TypeAlias = Test | None
"""Whether a record fulfils a condition; None: it was not tested."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """``when``: a condition on records, as ``lineage watch`` takes it. ``until``: the number of a step, or an operator. Empty: none.

    ``one_by_one``: a person goes through the steps up to there by keys.

    Raises:
        RecordConditionError: the condition can't be read.
    """

    when: str = ""
    until: str = ""
    one_by_one: bool = False

    def __post_init__(self) -> None:
        if self.when:
            read_condition(self.when)

    @property
    def listed_min(self) -> int:
        """Records of a step that have to be there, however few of them are shown."""
        return TESTED_MAX if self.when or self.until else 0

    def stops_at(self, step: StepRecords[Any]) -> bool:
        """Whether steps stop at one."""
        return bool(step.fulfilling) or bool(self.until and step.step.fits(self.until))

    def tests(self, records: Sequence[Any]) -> tuple[MaybeTest, ...]:
        """Test records that are in hand as they are."""
        if not self.when:
            return (None,) * len(records)
        condition = read_condition(self.when)
        return tuple(test_record(condition, record) for record in records)


class RowInHand(tuple[Any, ...]):
    """A row of a DataFrame: its values by place, and by the names of columns.

    A name that several columns have names none of them.
    """

    columns: tuple[str, ...]

    @classmethod
    def of(cls, columns: Sequence[str], values: Sequence[Any]) -> RowInHand:
        """A row of these values."""
        row = cls(values)
        row.columns = tuple(columns)
        return row

    def __getitem__(self, part: Any) -> Any:
        """A value, or several.

        Raises:
            KeyError: not one column has this name.
        """
        if not isinstance(part, str):
            return super().__getitem__(part)
        if self.columns.count(part) != 1:
            raise KeyError(part)
        return super().__getitem__(self.columns.index(part))

    def __repr__(self) -> str:
        return f"({', '.join(f'{name}={value!r}' for name, value in zip(self.columns, self, strict=True))})"


@dataclass(frozen=True, slots=True)
class StepRecords(Generic[AnyStep]):
    """A step, its first records, and what they are by a condition."""

    step: AnyStep
    records: tuple[Any, ...]
    tests: tuple[MaybeTest, ...]

    @property
    def fulfilling(self) -> tuple[int, ...]:
        """The places of the records that fulfil it."""
        return tuple(n for n, test in enumerate(self.tests) if test == "yes")

    @property
    def count(self) -> int:
        """Of the records to be shown: those that fulfil it, where there are any, else all."""
        return len(self.fulfilling) or self.step.count

    def shown(self, limit: int) -> tuple[int, ...]:
        """The places of the first of them."""
        return (self.fulfilling or tuple(range(len(self.records))))[:limit]

    def notes(self) -> Iterator[str]:
        """What is not known of the step's records."""
        where = f"step {self.step.number} ({self.step.name})"
        if failed := self.tests.count("failed"):
            yield f"{where}: the condition failed on {failed:,} of {self.step.count:,} records, which does not count as fulfilled"
        if unknown := self.tests.count(None):
            yield f"{where}: {unknown:,} of {self.step.count:,} records were not tested, as no value of theirs was kept"
        if self.step.count > len(self.records):
            yield f"{where}: the first {len(self.records):,} of {self.step.count:,} records were tested"


@dataclass(frozen=True, slots=True)
class Stopped(Generic[AnyStep]):
    """``steps`` up to where it stopped, ``at`` the last one (None: it did not stop), and ``notes``: what of them was not tested."""

    breakpoint: Breakpoint
    steps: tuple[StepRecords[AnyStep], ...]
    at: StepRecords[AnyStep] | None
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As tools read it."""
        where = self.at and {"step": self.at.step.number, "fulfilling": len(self.at.fulfilling)}
        return {"stopped": where, "not_tested": list(self.notes)}

    def show(self) -> None:
        """Print where it stopped, for people."""
        if self.at is not None and self.at.fulfilling:
            step = self.at.step
            tested = f"{len(self.at.fulfilling):,} of {len(self.at.records):,}"
            echo(
                f"stopped at step {step.number}: {tested} records fulfil the condition",
                fg=typer.colors.CYAN,
            )
        elif self.breakpoint.when:
            echo("lineage: no record of these steps fulfils the condition", err=True)
        for note in self.notes:
            echo(f"lineage: {note}", err=True)


def stop(steps: Sequence[StepRecords[AnyStep]], breakpoint: Breakpoint) -> Stopped[AnyStep]:
    """Steps up to the first whose records fulfil the condition, or to the operator, whichever comes first.

    Raises:
        TraceError: no step is the operator's.
    """
    places = [n for n, step in enumerate(steps) if breakpoint.stops_at(step)]
    if breakpoint.until and not places:
        names = ", ".join(f"{step.step.number} {step.step.name}" for step in steps)
        raise TraceError(f"no step is {breakpoint.until}: there are {names}")
    passed = tuple(steps[: places[0] + 1] if places else steps)
    notes = [note for step in passed for note in step.notes()] if breakpoint.when else []
    return Stopped(breakpoint, passed, passed[-1] if places else None, tuple(notes))


def value_of(text: str, characters: int) -> Any:
    """The value that `repr` shows, where it is one of Python's own; else the text.

    Args:
        text: of at most ``characters``, beyond which strings are shortened in it.
        characters: the most that are kept of a value.
    """
    try:
        tree = ast.parse(text, mode="eval")
        # Shortened containers hold an ellipsis.
        parts = (part.value for part in ast.walk(tree) if isinstance(part, ast.Constant))
        is_whole = len(text) < characters and not any(part is ... for part in parts)
        return ast.literal_eval(tree) if is_whole else text
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def is_prompted() -> bool:
    """Whether a person can be prompted."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def prompt(step: StepRecords[Any]) -> None:
    """A Python prompt with the records of a step in hand, until its end."""
    of = step.step
    first = "" if of.count <= len(step.records) else f" (the first of {of.count:,})"
    names = {"records": list(step.records), "step": of}
    records = "1 record" if len(step.records) == 1 else f"{len(step.records):,} records"
    is_in = "is" if len(step.records) == 1 else "are"
    banner = f"{records} of step {of.number} ({of.name}) {is_in} in records{first}, and the step in step; Ctrl-D ends"
    code.InteractiveConsole(names).interact(banner, exitmsg="")
