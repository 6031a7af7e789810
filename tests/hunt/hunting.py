"""The loop: programs are drawn from a seed and tried until the time is over; what breaks a sentence is shrunk.

Each batch has a seed of its own, so `--seed` of a line of the log draws just that batch again. Hypothesis draws and
shrinks. A run under harm need not fail a second time in the same way: what failed once counts as failing while it
is shrunk, and shrinking ends after a time, too.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from tests.hunt.claims import Finding, ViolationError
from tests.hunt.striking import is_emptied, is_kill

FAULTS_SHOWN = 3


@dataclass(frozen=True)
class Kind:
    """One sort of prey.

    ``opened``: gives what tries an example, in a folder that it may use. ``batch``: examples of one seed.
    """

    name: str
    examples: Callable[[], SearchStrategy[Any]]
    opened: Callable[[Path], AbstractContextManager[Callable[[Any], Finding]]]
    batch: int = 20


@dataclass
class Tally:
    """What came of a kind. ``found``: the shrunk programs that broke a sentence; ``again``: how often one of them did."""

    kind: str
    programs: int = 0
    harmed: int = 0
    rows: int = 0
    exact: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    found: list[dict[str, Any]] = field(default_factory=list)
    again: int = 0
    seconds: float = 0.0

    def add(self, finding: Finding) -> None:
        """Count what came of an example."""
        self.programs += finding.programs
        self.harmed += finding.harmed
        self.rows += finding.rows
        self.exact += finding.exact
        self.struck += finding.struck
        self.verdicts[finding.verdict] += finding.programs

    def __str__(self) -> str:
        verdicts = ", ".join(f"{count:,} {name}" for name, count in sorted(self.verdicts.items()))
        rate = self.programs / max(self.seconds, 0.001)
        lines = [
            f"{self.kind}: {self.programs:,} programs in {self.seconds:.0f} s ({rate:.1f} a second), "
            f"{self.programs - self.harmed:,} without harm and {self.harmed:,} with; {verdicts or 'no verdicts'}; "
            f"{self.rows:,} claims, {self.exact:,} exact and {self.rows - self.exact:,} superset; "
            f"{len(self.found)} found"
        ]
        lines += [f"  {count:,} x {name}" for name, count in sorted(self.struck.items())]
        return "\n".join(lines)


def summary(tallies: Sequence[Tally]) -> str:
    """The whole of a run in one line: what was tried, what was claimed, what struck, and what broke a sentence."""
    programs, harmed = (
        sum(getattr(one, name) for one in tallies) for name in ("programs", "harmed")
    )
    rows, exact = (sum(getattr(one, name) for one in tallies) for name in ("rows", "exact"))
    struck: Counter[str] = sum((one.struck for one in tallies), Counter())
    kills = sum(count for name, count in struck.items() if is_kill(name))
    emptied = sum(count for name, count in struck.items() if is_emptied(name))
    return (
        f"hunted: {programs - harmed:,} programs without harm and {harmed:,} with; "
        f"{rows:,} claims, {exact:,} exact and {rows - exact:,} superset; "
        f"{kills:,} kills, {emptied:,} states emptied or put back; {sum(len(one.found) for one in tallies)} found"
    )


@dataclass
class Hunt:
    """The bounds of a hunt, and its log. ``found_max``: after so many violations a kind has enough."""

    seed: int
    seconds: float
    log: TextIO
    shrink_s: float = 60.0
    programs_max: int | None = None
    found_max: int = 5

    def over(self, tally: Tally, begun: float) -> bool:
        """Whether a kind has had its time, its programs or its violations."""
        enough = self.programs_max is not None and tally.programs >= self.programs_max
        enough = enough or len(tally.found) + tally.again >= self.found_max
        return enough or time.monotonic() - begun > self.seconds

    def note(self, line: dict[str, Any]) -> None:
        """One line of the log."""
        self.log.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.log.flush()


def hunt(kind: Kind, bounds: Hunt, folder: Path) -> Tally:
    """Try programs of one kind until its time is over."""
    tally, begun, number = Tally(kind.name), time.monotonic(), bounds.seed
    with kind.opened(folder) as attempt:
        while not bounds.over(tally, begun):
            _Batch(kind, bounds, tally, attempt, number, begun).run()
            number += 1
    tally.seconds = time.monotonic() - begun
    return tally


@dataclass
class _Batch:
    """The examples of one seed. ``failed``: the faults of examples, by their text, from the first that failed on."""

    kind: Kind
    bounds: Hunt
    tally: Tally
    attempt: Callable[[Any], Finding]
    number: int
    begun: float
    failed: dict[str, list[str]] = field(default_factory=dict)
    failed_at: float = 0.0
    smallest: str = ""

    def run(self) -> None:
        phases = (Phase.generate, Phase.shrink)
        bounded = settings(
            max_examples=self.kind.batch,
            phases=phases,
            database=None,
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
        )
        try:
            seed(self.number)(bounded(given(self.kind.examples())(self._try)))()
        except ViolationError:
            self._found()

    def _try(self, example: Any) -> None:
        text = str(example)
        if text in self.failed:
            self._fail(text)
        if self._is_over():
            return
        finding = self._attempted(example, text)
        if finding.faults:
            self.failed_at = self.failed_at or time.monotonic()
            self.failed[text] = finding.faults
            self._fail(text)

    def _is_over(self) -> bool:
        if self.failed:
            return time.monotonic() - self.failed_at > self.bounds.shrink_s
        return self.bounds.over(self.tally, self.begun)

    def _attempted(self, example: Any, text: str) -> Finding:
        before = time.monotonic()
        finding = self._finding(example)
        if not self.failed:
            self.tally.add(finding)
        self.bounds.note(self._line(finding, text, time.monotonic() - before))
        return finding

    def _finding(self, example: Any) -> Finding:
        """What came of an example; a question that is not answered, nor refused, is a fault as well."""
        try:
            return self.attempt(example)
        except Exception as problem:
            return Finding(complete=False, faults=[f"raised {type(problem).__name__}: {problem}"])

    def _line(self, finding: Finding, text: str, seconds: float) -> dict[str, Any]:
        return {
            "kind": self.kind.name,
            "seed": self.number,
            "verdict": finding.verdict,
            "programs": finding.programs,
            "harmed": finding.harmed,
            "struck": dict(finding.struck),
            "rows": finding.rows,
            "exact": finding.exact,
            "seconds": round(seconds, 3),
            "note": finding.note,
            "faults": finding.faults[:FAULTS_SHOWN],
            "shrinking": bool(self.failed),
            "program": text,
        }

    def _fail(self, text: str) -> None:
        self.smallest = text
        raise ViolationError(self.failed[text][0])

    def _found(self) -> None:
        found = {
            "kind": self.kind.name,
            "seed": self.number,
            "found_after_s": round(self.failed_at - self.begun, 1),
            "program": self.smallest,
            "faults": self.failed[self.smallest][:FAULTS_SHOWN],
        }
        if any(one["program"] == self.smallest for one in self.tally.found):
            self.tally.again += 1
            return
        self.tally.found.append(found)
        self.bounds.note({"found": True, **found})
