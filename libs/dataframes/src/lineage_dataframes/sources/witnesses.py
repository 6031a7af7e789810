"""What a trace gives: rows of sources, by file and ordinal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lineage_core.contract.runs import sorted_unique

SourceRow: TypeAlias = tuple[int | None, str, int]
"""A row of a source: the source's place in the recipe (None: rows of the plan itself), the file, and the ordinal."""


@dataclass(frozen=True)
class JoinedRows:
    """Combinations of rows of sources that were joined. ``unknown``: why there may be others."""

    rows: tuple[tuple[SourceRow, ...], ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Witnesses:
    """The rows that output rows were made from.

    ``rows``: by source (its place in the recipe; None: rows that stand in the plan itself, under the
    name ``plan:<node>``) and file, the ordinals in the file from 0, ascending; uint64. ``matched``: output
    rows that have the requested values. ``exact``: just these rows; else ``reasons`` say why they may be
    too many (never too few). ``warnings``: what else to know of them. ``joined``: which of them belong together.
    """

    rows: Mapping[tuple[int | None, str], NDArray[np.uint64]]
    matched: int
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    joined: JoinedRows = JoinedRows()

    @property
    def exact(self) -> bool:
        return not self.reasons

    @property
    def count(self) -> int:
        """How many rows of sources."""
        return sum(len(ordinals) for ordinals in self.rows.values())

    def locations(self) -> Iterator[str]:
        """The rows as ``path#ordinal``, file by file."""
        for (_, path), ordinals in sorted(self.rows.items(), key=lambda item: item[0][1]):
            for ordinal in ordinals.tolist():
                yield f"{path}#{ordinal}"


@dataclass
class WitnessCollector:
    """Rows of sources as they are found."""

    parts: dict[tuple[int | None, str], list[NDArray[np.uint64]]] = field(default_factory=dict)

    def add(self, source: int | None, path: str, ordinals: NDArray[np.uint64]) -> None:
        self.parts.setdefault((source, path), []).append(ordinals)

    def rows(self) -> dict[tuple[int | None, str], NDArray[np.uint64]]:
        """Each row once, in order."""
        return {key: sorted_unique(np.concatenate(parts)) for key, parts in self.parts.items()}
