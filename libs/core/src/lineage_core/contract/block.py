"""Flow blocks: up to some thousands of flows of one node and one task, in columns.

Row ``i`` of a block is one flow: the input region made of the runs
``in_first[j]..in_last[j]`` for ``j`` in ``in_ptr[i]..in_ptr[i+1]`` (inclusive ends) of the one
input space, and the output positions ``out_first[i]..out_last[i]`` of the output space that the
directory ``out`` gives for the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from lineage_core.contract.region import Region

U64: TypeAlias = npt.NDArray[np.uint64]
I64: TypeAlias = npt.NDArray[np.int64]


class Relation(Enum):
    """How the rows of a block are read.

    ``ROWS``: every output position of the row from every input position of the row.
    ``IDENTITY``: each row is an offset: its one input run and its output run have the same
    length, the k-th output comes from the k-th input.
    ``ALL``: every output position of the block from every input position of the block.
    """

    ROWS = "rows"
    IDENTITY = "identity"
    ALL = "all"


@dataclass(frozen=True, slots=True, order=True)
class BlockId:
    """Deterministic name of a block: node, partition, task attempt, sequence.

    Its text is ``<node>#<partition>.<attempt>#<seq>``, e.g. ``4#0.17#2``; unique in an
    application. ``node`` is the rdd_id (or the SDK's node name) without the application.
    """

    node: str
    partition: int
    attempt: int
    seq: int

    def __str__(self) -> str:
        return f"{self.node}#{self.partition}.{self.attempt}#{self.seq}"


@dataclass(frozen=True, slots=True)
class Section:
    """Rows ``row_first`` to ``row_stop`` (exclusive) have their outputs in ``space``."""

    space: str
    row_first: int
    row_stop: int


@dataclass(frozen=True, slots=True, eq=False)
class FlowBlock:
    """Flows in columns.

    ``in_ptr`` (int64, n + 1) may be None when every row has exactly one run.
    ``in_last`` may be None when every run is one position (``in_last == in_first``).
    ``out_last`` may be None when every row has one output position.
    A row may have an empty region (an output that depends on no input).
    Runs of one row are in order, disjoint and not adjacent.
    ``out`` covers all rows in order; in one section rows need not be in order of position.
    ``exact`` False means every flow is a superset, and ``reason`` is why.
    ``values``: the texts of the records, or None.
    ``in_text``/``out_text``: the opaque strings behind positions of the opaque space, else None;
    one string a row.
    ``attempts_read``: of inputs that several attempts at one task may have put out, the attempts (of
    the producers' block ids) whose outputs were read; None: not known, it may be any.
    """

    block_id: BlockId
    relation: Relation
    in_space: str
    out: tuple[Section, ...]
    in_first: U64
    out_first: U64
    in_ptr: I64 | None = None
    in_last: U64 | None = None
    out_last: U64 | None = None
    exact: bool = True
    reason: str = ""
    values: Sequence[str | None] | None = None
    in_text: Sequence[str] | None = None
    out_text: Sequence[str] | None = None
    app: str = field(default="")
    attempts_read: Region | None = None

    @property
    def rows(self) -> int:
        """Number of flows."""
        return len(self.out_first)
