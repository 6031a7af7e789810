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
        provenance_fields: Mapping[str, Any] = self.fields["provenance"]
        return provenance_fields

    def value(self, path: str) -> float | None:
        """A number by its dotted path, of a median with an interval the median; None: not there."""
        value = self.at(path)
        if isinstance(value, Mapping):
            value = value.get("median")
        return None if value is None else float(value)

    def interval(self, path: str) -> tuple[float, float] | None:
        """The interval around a median; None where there is none."""
        field_value = self.at(path)
        if not isinstance(field_value, Mapping) or "low" not in field_value:
            return None
        return float(field_value["low"]), float(field_value["high"])

    def at(self, path: str) -> Any:
        """What is at a dotted path; None: nothing."""
        value: Any = self.fields
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


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
    rows = []
    for file in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                row = Row(json.loads(line))
                row.provenance["commit"]
            except (ValueError, KeyError, TypeError) as error:
                raise ResultsError(f"{file}:{number} is no row of a benchmark: {error!r}") from None
            rows.append(row)
    return rows


def latest(rows: Iterable[Row]) -> list[Row]:
    """Of rows about the same thing the one that was measured last, in the order of their sizes."""
    latest_rows: dict[tuple[str, ...], Row] = {}
    for row in sorted(rows, key=lambda row: str(row.provenance["at"])):
        # Other programs say by their arguments what a row is about.
        named = (str(row.fields.get(name, "")) for name in ("workers", "engine", "job"))
        about = (row.size,) if row.mode else (row.command, *named)
        latest_rows[(row.benchmark, row.mode, *about)] = row
    return sorted(latest_rows.values(), key=lambda row: (row.benchmark, row.mode, row.input_bytes))


def jobs(rows: Iterable[Row]) -> list[Row]:
    """Rows of jobs."""
    return [row for row in rows if row.mode]


def by_workload(rows: Iterable[Row]) -> dict[str, dict[str, list[Row]]]:
    """Rows by workload, then by mode."""
    rows_by_mode: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        rows_by_mode.setdefault(row.benchmark, {}).setdefault(row.mode, []).append(row)
    return rows_by_mode


def find_row(rows: Sequence[Row], benchmark: str, mode: str, size: str = "") -> Row | None:
    """The row of a workload and mode at a size; without a size, at the largest."""
    fitting = [
        row
        for row in rows
        if (row.benchmark, row.mode) == (benchmark, mode) and size in ("", row.size)
    ]
    return max(fitting, key=lambda row: row.input_bytes, default=None)
