"""The interface by which traces read a stored lineage graph, and the records that it returns.

:class:`FlowGraph` is the reading half of the graph-store port; ``lineage_store.port.GraphStore``
extends it with writing, listing and deleting. Everything here is one application's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.sealing import Seal

PositionRange: TypeAlias = tuple[str, int, int]
"""Positions of a space: its text, first, last."""
Unit: TypeAlias = Literal["line", "record", "file", "byte"]
"""What an item is of its file: a line of text, another record, all of it, or a byte."""
RECIPE_NODE_KINDS = frozenset({"frame", "frame-source"})
"""Kinds of nodes whose rows are in no block: they are traced by a recipe (lineage_core.recipe.document)."""


@dataclass(frozen=True, slots=True)
class BlockRef:
    """A stored block without its columns.

    ``in_min`` is above ``in_max`` where no row has an input. ``task``: the node of the task that
    sent the block. ``unmatched``: input positions that no visible block puts out, also of spaces
    that turned out to be a source's; it depends on the order of events and takes no part in
    comparisons.
    """

    block_id: BlockId
    in_space: str
    in_min: int
    in_max: int
    rows: int
    associations: int
    exact: bool
    reason: str
    task: str = ""
    unmatched: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class EdgeBatch:
    """Linked edges between two blocks.

    Pair ``k``: row ``rows_producer[k]`` of ``producer`` puts out what row ``rows_consumer[k]`` of
    ``consumer`` takes in (both uint32, sorted by consumer row). None for both: implied, the
    producer's outputs are dense and rows follow from positions. ``pairs`` counts flow pairs.
    """

    producer: BlockId
    consumer: BlockId
    pairs: int
    rows_producer: npt.NDArray[np.uint32] | None = None
    rows_consumer: npt.NDArray[np.uint32] | None = None


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """A container that a program registered: its handle and its type."""

    handle: str
    type: str


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node of the coarse-grained graph, with its counts.

    ``call_path``: equal where the same call made both nodes, in a loop; empty: not known. ``inputs``: so many other
    nodes lead to it at least, whatever links are there; None: any may, as records are lost.
    ``containers``: those that the program registered around the node, from the outermost to the innermost.
    """

    node: str
    kind: str
    op: str
    name: str
    description: str
    call_site: str
    alias: str | None
    exact: bool
    reason: str
    partitions: int | None
    path: str | None
    blocks: int = 0
    flows: int = 0
    associations: int = 0
    call_path: str = ""
    inputs: int | None = 0
    containers: tuple[ContainerRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """``src`` sends to ``dest``."""

    src: str
    dest: str


@dataclass(frozen=True, slots=True)
class RowChecksums:
    """The first ``rows`` rows of a split as a task read them: ``sums`` of their blocks, in hexadecimal digits."""

    rows: int
    sums: str


@dataclass(frozen=True, slots=True)
class SplitRecord:
    """One partition of a source: a range of a file. ``rows`` is None until a task read it whole.

    ``unit`` file: the file is one item, that with the ordinal ``row`` of the partition. ``unit`` byte: items are its bytes, of
    which a program read some. ``first``:
    the number in the file of the first record, where it is known without counting. ``summed``: what
    tasks read there, each once; nothing where no checksum was taken. ``checksum``: of the whole file, or empty.
    """

    node: str
    partition: int
    path: str
    start: int
    length: int
    file_size: int
    mtime: float
    compressed: bool
    rows: int | None
    unit: Unit = "line"
    row: int = 0
    first: int | None = None
    summed: tuple[RowChecksums, ...] = ()
    checksum: str = ""


@dataclass(frozen=True, slots=True)
class SinkFileRecord:
    """One file that a sink wrote, as it was when Spark had committed it."""

    node: str
    partition: int
    path: str
    size: int
    mtime: float
    rows: int | None
    newlines: tuple[tuple[int, int], ...]
    """(row ordinal, newlines inside the record), for the rows that hold any."""
    unit: Unit = "line"
    checksum: str = ""


class FlowGraph(Protocol):
    """Visible (committed or claimed) lineage of one application. Reads only; cheap to open."""

    def nodes(self) -> Sequence[NodeRecord]:
        """All nodes, in order of creation."""

    def links(self) -> Sequence[LinkRecord]:
        """All links of the coarse-grained graph."""

    def splits(self, node: str) -> Sequence[SplitRecord]:
        """Source partitions of a node, by partition and row."""

    def sink_files(self, node: str) -> Sequence[SinkFileRecord]:
        """Output files of a sink, by partition."""

    def recipe(self, node: str) -> str | None:
        """The recipe of a DataFrame's output, as JSON; None when the node has none (yet)."""

    def blocks_into(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        """Visible blocks with outputs in ``space`` that may lie in ``first..last``, by id."""

    def blocks_from(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        """Visible blocks with inputs in ``space`` that may lie in ``first..last``, by id."""

    def blocks_into_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        """:meth:`blocks_into` for each range, in one call to the store."""

    def blocks_from_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        """:meth:`blocks_from` for each range, in one call to the store."""

    def blocks(self) -> Iterator[BlockRef]:
        """All visible blocks, by id."""

    def spaces_of(self, node: str) -> Sequence[str]:
        """Partition spaces (all incarnations) with visible items that ``node`` put out."""

    def load(self, blocks: Iterable[BlockId]) -> dict[BlockId, FlowBlock]:
        """Blocks with all their columns."""

    def edges_into(self, consumers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        """Edges whose consumer is one of the blocks."""

    def edges_from(self, producers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        """Edges whose producer is one of the blocks."""

    def seals(self) -> Sequence[Seal]:
        """The latest seals of all spaces, by space, whether they still hold or not."""

    def sealed(self, spaces: Iterable[str]) -> Collection[str]:
        """Of some spaces those whose seal holds: all edges between their visible blocks are stored."""
