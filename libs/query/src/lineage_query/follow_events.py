"""What is known of rows that are followed through streaming queries, and who computes it: see `following`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

from lineage_core.contract.stream_progress import ID_CHARS
from lineage_core.recipe.document import Recipe, StreamBatch

Rows_co = TypeVar("Rows_co", covariant=True)
Rows = TypeVar("Rows")


class Tracing(Protocol[Rows_co]):
    """Computes what a batch made of the followed rows."""

    def rows(self, recipe: Recipe) -> Rows_co:
        """The rows that a batch made of them.

        Raises:
            LineageError: that can't be traced.
        """

    def ends(self, windows: Recipe, batch: Recipe) -> Sequence[int]:
        """The ends of the windows of the followed rows, in microseconds since 1970.

        ``windows``: the recipe for it. ``batch``: of the batch that has read them.

        Raises:
            LineageError: that is not known.
        """


class Ending(Enum):
    """How far a query is."""

    OPEN = "open"
    DONE = "done"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Read:
    """A batch is committed that has read the rows."""

    batch: StreamBatch


@dataclass(frozen=True, slots=True)
class Made(Generic[Rows]):
    """The rows that a batch made of the followed ones. ``committed``: the batch is; else it is run again when the query is."""

    batch: StreamBatch
    rows: Rows
    committed: bool


@dataclass(frozen=True, slots=True)
class Late:
    """Rows were dropped as late: windows that end by the watermark of the batch before theirs.

    ``batch``: the first one that gave windows and names the rows. ``count``: of such windows. ``first``: the first batch that may have read
    the rows: those from it to ``batch`` gave no window, so they name no rows.
    """

    batch: StreamBatch
    count: int
    first: int


def late_text(event: Late) -> str:
    """That rows were late, for people."""
    windows = "1 window was" if event.count == 1 else f"{event.count} windows were"
    query = event.batch.query[:ID_CHARS]
    number = event.batch.number
    batch = f"batch {number}" if event.first == number else f"a batch of {event.first} to {number}"
    return f"late in {batch} of query {query}: {windows} given before"


@dataclass(frozen=True, slots=True)
class Gap:
    """What is not known of a query."""

    query: str
    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more can come of a query. ``reason``: why."""

    query: str
    reason: str


Event = Read | Made[Rows] | Late | Gap | Done
