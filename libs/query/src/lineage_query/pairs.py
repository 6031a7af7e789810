"""Which rows of an answer belong together: those that were joined with each other on the way."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

INCOMPLETE = "items may be missing, and with them what they were joined with"
BEYOND_RECORDS = "the trace ends at rows of DataFrames, of which equal ones have one name"
NOT_SHOWN = "which rows were joined is not kept with materialised lineage, and not shown where a part of an application is hidden"


@dataclass(frozen=True, slots=True)
class PairedRow:
    """A row of an answer's groups. ``label``: of its node; ``location``: None if no file has it."""

    node: str
    label: str
    address: str
    location: str | None

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {
            "node": self.node,
            "name": self.label,
            "address": self.address,
            "location": self.location,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> PairedRow:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(document["node"], document["name"], document["address"], document["location"])


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of sources that were joined into one row on the way: pairs, or more rows where more sides were joined.

    No combination is listed that did not take part. ``unknown``: why others may be missing; empty: these are all.
    """

    rows: tuple[tuple[PairedRow, ...], ...]
    unknown: tuple[str, ...] = ()

    def among(self, nodes: Collection[str]) -> Pairs:
        """Those whose rows are all of some nodes."""
        rows = tuple(
            together for together in self.rows if all(row.node in nodes for row in together)
        )
        return Pairs(rows, self.unknown)

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {
            "rows": [[row.to_json() for row in together] for together in self.rows],
            "unknown": list(self.unknown),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Pairs:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        rows = (tuple(map(PairedRow.from_json, together)) for together in document["rows"])
        return cls(tuple(rows), tuple(document["unknown"]))

    def lines(self) -> list[str]:
        """As people read them: a line each."""
        return [
            " + ".join(row.location or row.address for row in together) for together in self.rows
        ]
