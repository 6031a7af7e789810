"""The smallest set of input rows that a search found, as commands print it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import typer

from lineage.terminal import echo
from lineage_query.minimising import Minimised
from lineage_query.showing import rows_text

SHARED_SHOWN = 10
"""Rows of which is printed how many failing rows share them."""


@dataclass(frozen=True)
class FoundRows:
    """What was found. ``rows``: place and text of each; ``searched``: how many there were to search.

    ``pushed_down``: how many parts were tested by aggregates of their values, without a run. ``traced``: of how many failing rows is known what they are made
    from; ``sharing``: of how many of these each row is a witness.
    """

    found: Minimised
    rows: Sequence[tuple[str, str]]
    searched: int
    seconds: float
    pushed_down: int = 0
    traced: int = 0
    sharing: Sequence[int] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields that all searches have."""
        return {
            "rows": [
                {"location": place, "text": text, "failing": None if of is None else int(of)}
                for (place, text), of in zip_longest(self.rows, self.sharing)
            ],
            "one_minimal": self.found.one_minimal,
            "stopped": self.found.stopped or None,
            "witnesses": self.searched,
            "runs": self.found.runs,
            "rows_run": self.found.rows_run,
            "pushed_down": self.pushed_down,
            "known": self.found.known,
            "failing_traced": self.traced,
            "seconds": round(self.seconds, 3),
        }

    def of_all(self, which: str) -> str:
        """How many there were to search; ``which``: what tells them from others."""
        return f"{rows_text(self.searched)} that {which}"

    def show(self, which: str, outcome: Iterable[str], more: Iterable[str] = ()) -> None:
        """Print it for people.

        Args:
            which: tells the rows that were searched from others.
            outcome: what the rows alone give.
            more: lines behind it.
        """
        self.show_with(self.found.summary(self.of_all(which)), outcome, more)

    def show_with(self, heading: str, outcome: Iterable[str], more: Iterable[str] = ()) -> None:
        """As :meth:`show`, with a heading of its own."""
        echo(heading, fg=typer.colors.CYAN)
        for place, text in self.rows:
            echo(f"{place}: {text}")
        for said in outcome:
            echo(f"alone they give {said}")
        shared = [
            f"{n:,} from {place}"
            for (place, _), n in zip(self.rows, self.sharing or [0] * len(self.rows), strict=True)
            if n > 1
        ]
        if shared:
            cut = " ..." if len(shared) > SHARED_SHOWN else ""
            listed = ", ".join(shared[:SHARED_SHOWN])
            echo(f"of {self.traced:,} failing rows that were traced: made {listed}{cut}")
        for line in more:
            echo(line)
        runs = "1 run" if self.found.runs == 1 else f"{self.found.runs:,} runs"
        tests = f", {self.pushed_down:,} tests pushed down" if self.pushed_down else ""
        echo(f"{runs} over {self.found.rows_run:,} rows{tests}, {self.seconds:.1f} s", dim=True)
