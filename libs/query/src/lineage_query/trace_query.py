"""What is asked of a store: where rows or items come from, or where they went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """What is asked.

    ``places``: ``path:line``, ``path#record``, paths of files that are items as a whole, item
    addresses or opaque strings. ``regions``: more items to begin at, by space (with node ids).
    ``limit`` bounds the items listed of each node. ``as_now``: DataFrames whose files are not any more what they were
    are traced over them as they are now, and the answer says so. ``where``: a condition in Spark's SQL; the one place
    is then an output of DataFrames (its path, table or node), of which all rows that fulfil it are traced. ``all_jobs``: the
    trace goes on through the applications that wrote the files that were read, or read those that were written.
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
