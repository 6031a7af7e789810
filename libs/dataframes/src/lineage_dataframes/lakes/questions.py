"""Questions about items of captured applications in a lake, and what they find, as Spark has them; see `tracing`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.region import Region
from lineage_core.tracing.tagged import TaggedRuns, tagged_runs
from lineage_core.tracing.tagged_plan import SpaceGroup
from lineage_core.tracing.topology import Topology

MOST_PAIRS: Final = 1_000_000_000


@dataclass(slots=True)
class Arrivals:
    """Items of one application at which a trace goes on, in frames of rows between processes.

    ``frames``: by group of spaces. ``bounds``: the first and last position of each space, less 2**63.
    """

    frames: dict[SpaceGroup, list[DataFrame]] = field(default_factory=dict)
    bounds: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, groups: Iterable[SpaceGroup], rows: DataFrame) -> None:
        """Rows of some groups; others of the frame are left out."""
        for group in sorted(groups):
            self.frames.setdefault(group, []).append(rows.where(F.col("grp") == group))

    def bound(self, space: str, low: int, high: int) -> None:
        """Some positions of a space, less 2**63, are on the way."""
        least, most = self.bounds.get(space, (low, high))
        self.bounds[space] = min(least, low), max(most, high)


@dataclass(frozen=True, slots=True)
class LakeQuestion:
    """What is traced.

    ``start``: tagged positions by space, or what other applications led to. ``most_pairs``: rows that the answer may have, and ranges
    that a step may reach. ``carried``: reasons that the items come with.
    """

    app: str
    graph: FlowGraph
    topology: Topology
    start: Mapping[str, TaggedRuns] | Arrivals
    backward: bool
    most_pairs: int = MOST_PAIRS
    carried: tuple[str, ...] = ()


@dataclass(slots=True)
class LakeTrace:
    """What a trace found.

    ``found``: rows between processes, of kind `FOUND`. ``spaces``: those of what was found, with the first and last position. ``pairs``: how
    many rows of a table they are at most. ``passed``: groups with items on the way. ``missing``: groups with items past which nothing is known, and why. ``reasons``: why the answer is not exact;
    ``numbered``: all reasons, by the numbers that ranges have. ``steps``: joins.
    """

    found: list[DataFrame] = field(default_factory=list)
    spaces: dict[str, tuple[int, int]] = field(default_factory=dict)
    passed: list[SpaceGroup] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    numbered: tuple[str, ...] = ()
    pairs: float = 0.0
    steps: int = 0


def union_of(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all of some frames, at least one."""
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def tagged_regions(
    regions: Mapping[str, Region], *, together: bool
) -> tuple[dict[str, TaggedRuns], dict[str, int]]:
    """Items of a question with their tags: numbered in the order of spaces and positions, or (together) all with one.

    Returns:
        By space the tagged positions, and the first tag.
    """
    start: dict[str, TaggedRuns] = {}
    firsts: dict[str, int] = {}
    number = 0
    for space in sorted(regions):
        region = regions[space]
        if not region:
            continue
        firsts[space] = number
        runs = (region.first, region.last)
        start[space] = tagged_runs(runs, None if together else number)
        number += 0 if together else region.count
    return start, firsts
