"""Questions about daily loads, and what their answers claim."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group
from lineage_query.trace_query import TraceQuery
from tests.hunt.claims import Claim, Finding
from tests.hunt.loads import APPENDED, Loads, Place, Written, named, place_of

LISTED = 1_000
NOTHING = ("no row", "nothing")
"""What a refusal says that claims that there is none."""


class Asked(Protocol):
    """Who answers: a store, or a server."""

    def ask(self, question: TraceQuery) -> Answer:
        """Where rows come from, or where they went."""


@dataclass(frozen=True)
class Answers:
    """Asks about the rows of loads, and holds the answers to what is true.

    ``asked``: who answers. ``strict``: every question must be answered, exact and complete.
    """

    loads: Loads
    asked: Asked
    finding: Finding
    strict: bool = False

    @cached_property
    def rows(self) -> list[Written]:
        """All output rows that are there while questions are asked."""
        return self.loads.written()

    def back(self, row: Written) -> None:
        """Where an output row comes from, by its place."""
        truth = self.loads.witnesses(row)
        is_changed = bool(self.loads.changed(row.app))
        self._hold(Direction.BACKWARD, named(row.place), truth, row.app, is_changed=is_changed)

    def back_by_values(self, row: Written) -> None:
        """Where all rows of an output that have one value of the row's come from."""
        # The ids of groups are collected, in an order that no query can tell anew.
        column = "ids" if os.path.basename(row.output) == APPENDED else "k"
        value = row.values[column]
        alike = [
            one for one in self.rows if one.output == row.output and one.values[column] == value
        ]
        truth = frozenset[Place]().union(*(self.loads.witnesses(one) for one in alike))
        is_changed = any(self.loads.changed(one.app) for one in alike)
        place = f"{row.output}#{column}={value}"
        self._hold(Direction.BACKWARD, place, truth, row.app, is_changed=is_changed)

    def forward(self, source: Place) -> None:
        """What was made of a source row, by its place."""
        self._forward(source, named(source))

    def forward_by_value(self, source: Place, tag: str) -> None:
        """What was made of a source row, by its id."""
        self._forward(source, f"{source[0]}#id={tag}")

    def _forward(self, source: Place, place: str) -> None:
        readers = self.loads.readers(source[0])
        if readers:
            truth = self.loads.made_of(source, self.rows)
            is_changed = any(self.loads.changed(app) for app in readers)
            self._hold(Direction.FORWARD, place, truth, readers[-1], is_changed=is_changed)

    def _hold(
        self,
        direction: Direction,
        place: str,
        truth: frozenset[Place],
        app: str,
        *,
        is_changed: bool,
    ) -> None:
        """Ask, and hold the answer. ``is_changed``: files that the answer needs are not what they were."""
        said = f"{direction.value} {place}"
        try:
            answer = self.asked.ask(TraceQuery(direction, (place,), limit=LISTED))
        except LineageError as problem:
            self.finding.note = f"{said}: {problem}"[:200]
            claims_nothing = any(word in str(problem) for word in NOTHING)
            if truth and claims_nothing and not is_changed:
                self.finding.faults.append(f"{said} says {problem}; it has {sorted(truth)}")
            elif self.strict and not is_changed:
                self.finding.faults.append(f"{said} is refused: {problem}")
            return
        found = frozenset(self._found(answer, said))
        claim = Claim(said, _shown(truth), _shown(found), answer.exact)
        self.finding.rows += 1
        self.finding.exact += answer.exact
        self.finding.faults += claim.faults(complete=answer.complete)
        # Who read the file otherwise than by these columns is named, and can be asked by place alone.
        by_values = bool(answer.not_queried) and "#id=" in place
        is_whole = answer.exact and answer.complete
        if self.strict and not is_changed and not is_whole and not by_values:
            why = "; ".join((*answer.reasons, *answer.warnings))
            self.finding.faults.append(
                f"{said} from {app} is not exact and complete: {why or 'no reason'}"
            )

    def _found(self, answer: Answer, said: str) -> Iterator[Place]:
        for group in answer.groups:
            if answer.direction is Direction.FORWARD and group.gone:
                continue
            for item in group.items:
                if item.location is None and self.loads.is_gone(group.app):
                    continue
                if item.location is None:
                    self.finding.faults.append(
                        f"{said}: {item.address} stands nowhere: {item.text}"
                    )
                    continue
                place = place_of(item.location)
                self._hold_text(group, place, item.shown, said)
                yield place

    def _hold_text(self, group: Group, place: Place, shown: str | None, said: str) -> None:
        """A text that is not said to be of a changed file must be the row that stands there."""
        if shown is None or group.changed:
            return
        tags = self._tags(place)
        if tags and not any(re.search(rf"\b{re.escape(tag)}\b", shown) for tag in tags):
            self.finding.faults.append(
                f"{said}: {named(place)} is shown as {shown!r}; it has {tags}"
            )

    def _tags(self, place: Place) -> set[str]:
        """What names the row at a place, as any job read it; of an output row, its ids."""
        tags = {read[place].partition("@")[0] for read in self.loads.read.values() if place in read}
        return tags or {row.values["ids"] for row in self.rows if row.place == place}


def _shown(places: Iterable[Place]) -> frozenset[Place]:
    """Places by the names of their files and folders alone."""
    return frozenset(("/".join(path.rsplit("/", 2)[1:]), number) for path, number in places)
