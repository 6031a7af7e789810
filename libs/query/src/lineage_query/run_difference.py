"""What the traces of two runs of a job do not share, as commands and servers show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Group
from lineage_query.comparing import ComparedTrace


@dataclass(frozen=True, slots=True)
class SourceDifference:
    """Rows of one source (forward: one output): those of one run alone, those of which it is not known, and how many are in both.

    ``same_places``: how many rows of both runs are one row of one version of a file. ``same_texts``: how many have a row of
    the same text in the other run; which of equal rows are those is not known. ``undecided_left`` and ``undecided_right``:
    rows of which it is not known whether they are in the other run, with the ``reason``.
    """

    only_left: Group
    only_right: Group
    same_places: int
    same_texts: int
    undecided_left: Group
    undecided_right: Group
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """As tools read it."""
        return {
            "only_left": self.only_left.to_json(),
            "only_right": self.only_right.to_json(),
            "both": self.same_places + self.same_texts,
            "same_places": self.same_places,
            "same_texts": self.same_texts,
            "undecided_left": self.undecided_left.to_json(),
            "undecided_right": self.undecided_right.to_json(),
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SourceDifference:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(
            Group.from_json(document["only_left"]),
            Group.from_json(document["only_right"]),
            document["same_places"],
            document["same_texts"],
            Group.from_json(document["undecided_left"]),
            Group.from_json(document["undecided_right"]),
            document["reason"],
        )


@dataclass(frozen=True, slots=True)
class RunDifference:
    """What the traces of two runs do not share.

    ``apps``: the two applications. ``exact``: both traces are exact, and each row is on exactly the stated side; else
    ``reasons`` give the reasons. ``complete``: neither trace lacks lineage.
    """

    apps: tuple[str, str]
    direction: Direction
    left: ComparedTrace
    right: ComparedTrace
    exact: bool
    reasons: tuple[str, ...]
    complete: bool
    changed: bool
    groups: tuple[SourceDifference, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The shape that tools rely on; keys are only ever added."""
        return {
            "apps": list(self.apps),
            "direction": self.direction.value,
            "left": self.left.to_json(),
            "right": self.right.to_json(),
            "exact": self.exact,
            "reasons": list(self.reasons),
            "complete": self.complete,
            "changed": self.changed,
            "groups": [group.to_json() for group in self.groups],
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunDifference:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        left_app, right_app = document["apps"]
        return cls(
            (left_app, right_app),
            Direction(document["direction"]),
            ComparedTrace.from_json(document["left"]),
            ComparedTrace.from_json(document["right"]),
            document["exact"],
            tuple(document["reasons"]),
            document["complete"],
            document["changed"],
            tuple(map(SourceDifference.from_json, document["groups"])),
            tuple(document["warnings"]),
        )
