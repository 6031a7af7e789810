"""The measured rows: which there are, and what they say."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from pathlib import Path
from typing import Any

PLACES = ("--folder", "--json-out")
"""Options that name a place on the machine."""


class ResultsError(Exception):
    """A results file can't be read."""


@dataclass(frozen=True)
class Row:
    """One line of a benchmark."""

    fields: Mapping[str, Any]

    @property
    def benchmark(self) -> str:
        """What was measured; programs of their own call it ``bench``."""
        return str(self.fields.get("benchmark", self.fields.get("bench")))

    @property
    def mode(self) -> str:
        """Of a job; empty of anything else."""
        return str(self.fields.get("mode", ""))

    @property
    def input_bytes(self) -> int:
        """Of a job; 0 of anything else."""
        return int(self.fields.get("input_bytes", 0))

    @property
    def size(self) -> str:
        """The input as a person says it: ``100 MB``."""
        return size_label(self.input_bytes)

    @property
    def command(self) -> str:
        """What printed it, without where it put things."""
        words = shlex.split(str(self.provenance["command"]))
        places = {at + step for at, word in enumerate(words) if word in PLACES for step in (0, 1)}
        return shlex.join(word for at, word in enumerate(words) if at not in places)

    @property
    def provenance(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.fields["provenance"]
        return found

    def value(self, path: str) -> float | None:
        """A number by its dotted path, of a median with an interval the median; None: not there."""
        found = self.at(path)
        if isinstance(found, Mapping):
            found = found.get("median")
        return None if found is None else float(found)

    def interval(self, path: str) -> tuple[float, float] | None:
        """The interval around a median; None where there is none."""
        found = self.at(path)
        if not isinstance(found, Mapping) or "low" not in found:
            return None
        return float(found["low"]), float(found["high"])

    def at(self, path: str) -> Any:
        """What is at a dotted path; None: nothing."""
        found: Any = self.fields
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


def size_label(size: int) -> str:
    """Two digits are enough: an input is a few bytes larger than what was asked for."""
    if size <= 0:
        return ""
    digits = 1 - floor(log10(size))
    rounded = round(size, digits)
    return f"{rounded / 1e9:g} GB" if rounded >= 1e9 else f"{rounded / 1e6:g} MB"


def read_rows(folder: Path) -> list[Row]:
    """All rows of a folder's ``*.jsonl``, file by file by name.

    Raises:
        ResultsError: a line is no row, or has no provenance.
    """
    found = []
    for file in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                row = Row(json.loads(line))
                row.provenance["commit"]
            except (ValueError, KeyError, TypeError) as error:
                raise ResultsError(f"{file}:{number} is no row of a benchmark: {error!r}") from None
            found.append(row)
    return found


def latest(rows: Iterable[Row]) -> list[Row]:
    """Of rows about the same thing the one that was measured last, in the order of their sizes."""
    kept: dict[tuple[str, ...], Row] = {}
    for row in sorted(rows, key=lambda row: str(row.provenance["at"])):
        # Other programs say by their arguments what a row is about.
        about = (row.size,) if row.mode else (row.command, str(row.fields.get("workers", "")))
        kept[row.benchmark, row.mode, *about] = row
    return sorted(kept.values(), key=lambda row: (row.benchmark, row.mode, row.input_bytes))


def jobs(rows: Iterable[Row]) -> list[Row]:
    """Rows of jobs."""
    return [row for row in rows if row.mode]


def by_workload(rows: Iterable[Row]) -> dict[str, dict[str, list[Row]]]:
    """Rows by workload, then by mode."""
    found: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        found.setdefault(row.benchmark, {}).setdefault(row.mode, []).append(row)
    return found


def find(rows: Sequence[Row], benchmark: str, mode: str, size: str = "") -> Row | None:
    """The row of a workload and mode at a size; without a size, at the largest."""
    fitting = [
        row
        for row in rows
        if (row.benchmark, row.mode) == (benchmark, mode) and size in ("", row.size)
    ]
    return max(fitting, key=lambda row: row.input_bytes, default=None)
