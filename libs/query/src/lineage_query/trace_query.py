"""Queries of a store: where rows or items come from, or where they went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction

LEVELS = ("row", "split", "file", "dataset", "task", "stage", "node", "application", "job")
"""What an answer may list: rows, or containers of rows. On the side of the data splits, files and datasets, on the side of the
work tasks, stages, nodes, applications and jobs."""
TASK_LEVELS = ("task", "stage")
"""Levels for which a trace finds the tasks of rows."""


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """A query for a trace.

    ``places``: ``path:line``, ``path#record``, paths of files that are single items, item
    addresses or opaque strings. ``regions``: more items to start at, by space (with node ids).
    ``limit`` bounds the items listed of each node. ``as_now``: DataFrames whose files have changed
    are traced over the current files, and the answer says so. ``where``: a condition in Spark's SQL; the only place
    is then an output of DataFrames (its path, table or node), and all its rows that fulfil the condition are traced.
    ``all_jobs``: the trace continues through the applications that wrote the files read, or read the files written.
    ``way``: with it, the answer also lists the rows at which the trace goes on from one application to another.
    ``by``: the level of the answer, one of `LEVELS` or a type of containers that the program registered: containers with the number of their rows, instead of rows.
    """

    direction: Direction
    places: tuple[str, ...]
    app: str | None = None
    until: str | None = None
    steps: int | None = None
    limit: int | None = None
    texts: bool = True
    regions: Mapping[str, Region] = field(default_factory=dict)
    as_now: bool = False
    where: str = ""
    all_jobs: bool = False
    way: bool = False
    by: str = "row"
