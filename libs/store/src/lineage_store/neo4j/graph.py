"""Reading one application's lineage from Neo4j: few round trips, indexes for all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lineage_core.codec.columns import unpack_block
from lineage_core.codec.packing import unpack_edge
from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import (
    BlockRef,
    EdgeBatch,
    LinkRecord,
    NodeRecord,
    PositionRange,
    SinkFileRecord,
    SplitRecord,
)
from lineage_core.contract.message import Message
from lineage_core.contract.sealing import Seal
from lineage_store import records
from lineage_store.neo4j.connection import Reads
from lineage_store.neo4j.counting import HALF, silent_s
from lineage_store.neo4j.keys import block_of, key, prefix
from lineage_store.neo4j.sealed_spaces import count_unsealed, sealed_spaces, seals_of
from lineage_store.recipes import read_messages, recipe_in
from lineage_store.recomputing import NAMED
from lineage_store.signed import BIAS

if TYPE_CHECKING:
    from typing_extensions import LiteralString

REFS_AT_ONCE = 5_000
"""Blocks that a listing of all reads at a time."""
_REF: Final[LiteralString] = (
    "b.id, b.in_space, b.in_low, b.in_high, b.rows, b.associations, b.exact, b.reason, b.task, "
    "b.unmatched"
)

_INTO: Final[LiteralString] = """
UNWIND $ranges AS one
MATCH (s:FlowSection)
USING INDEX s:FlowSection(app, space, low)
WHERE s.app = $app AND s.space = one.space AND s.low <= one.last AND s.high >= one.first
MATCH (b:FlowBlock {id: s.block})
WHERE b.visible
RETURN one.at, """

_FROM: Final[LiteralString] = """
UNWIND $ranges AS one
MATCH (b:FlowBlock)
USING INDEX b:FlowBlock(app, in_space, in_low)
WHERE b.app = $app AND b.in_space = one.space AND b.in_low <= one.last AND b.in_high >= one.first
    AND b.visible
RETURN one.at, """

_ALL: Final[LiteralString] = """
MATCH (b:FlowBlock)
USING INDEX b:FlowBlock(id)
WHERE b.id STARTS WITH $prefix
RETURN b.id
"""

_SOME: Final[LiteralString] = """
UNWIND $ids AS id
MATCH (b:FlowBlock {id: id})
WHERE b.visible AND b.stub IS NULL
RETURN 0, """

_LOAD: Final[LiteralString] = """
UNWIND $ids AS id
MATCH (b:FlowBlock {id: id})
WHERE b.visible AND b.stub IS NULL
RETURN b.id, b.data, b.exact, b.reason
"""

_EDGES_INTO: Final[LiteralString] = """
UNWIND $ids AS id
MATCH (c:FlowBlock {id: id})<-[f:FLOW]-(p:FlowBlock)
WHERE p.visible AND p.stub IS NULL
RETURN p.id, c.id, f.pairs, f.data
"""

_EDGES_FROM: Final[LiteralString] = """
UNWIND $ids AS id
MATCH (p:FlowBlock {id: id})-[f:FLOW]->(c:FlowBlock)
WHERE c.visible AND c.stub IS NULL
RETURN p.id, c.id, f.pairs, f.data
"""

_SPACES: Final[LiteralString] = """
MATCH (s:FlowSection)
USING INDEX s:FlowSection(app, space, low)
WHERE s.app = $app AND s.space STARTS WITH $start AND s.low IS NOT NULL
MATCH (b:FlowBlock {id: s.block})
WHERE b.visible
RETURN DISTINCT s.space
"""

_COUNTS: Final[LiteralString] = """
MATCH (b:FlowBlock)
USING INDEX b:FlowBlock(id)
WHERE b.id STARTS WITH $prefix AND b.visible AND b.stub IS NULL
RETURN b.node, count(*), sum(b.rows), sum(b.associations / $half), sum(b.associations % $half)
"""

_COMMITTED: Final[LiteralString] = """
MATCH (t:Task)
USING INDEX t:Task(id)
WHERE t.id STARTS WITH $prefix
RETURN t.node, sum(size(t.attempts)), sum(CASE WHEN t.digests = $named THEN 0 ELSE size(t.attempts) END)
"""


def _bodies_and_bytes(condition: LiteralString) -> tuple[LiteralString, LiteralString]:
    """Statements that read the bodies of messages in the order written, and that count their bytes."""
    match: LiteralString = (
        f"MATCH (m:Message)\nUSING INDEX m:Message(app, type)\nWHERE m.app = $app AND {condition}\n"
    )
    return (
        f"{match}RETURN coalesce(m.packed, m.body) ORDER BY m.number",
        f"{match}RETURN coalesce(sum(size(coalesce(m.packed, m.body))), 0)",
    )


_MESSAGES: Final = _bodies_and_bytes("m.type IN $types")
_ALL_MESSAGES: Final = _bodies_and_bytes("m.type IS NOT NULL")
_ABOUT: Final = _bodies_and_bytes("m.type IN $types AND $node IN m.about")

_RECIPE: Final[LiteralString] = """
MATCH (m:Message)
USING INDEX m:Message(app, recipe_of)
WHERE m.app = $app AND m.recipe_of = $node
RETURN m.packed ORDER BY m.number DESC LIMIT 1
"""


class Neo4jGraph:
    """Implements :class:`lineage_core.contract.graph.FlowGraph`. Each call reads what is committed by then."""

    def __init__(
        self,
        connection: Reads,
        app: str,
        clock: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._app = app
        self._clock = clock

    def messages(self, *kinds: str) -> Sequence[Message]:
        """Messages in the order written, of some types or (none given) all."""
        if kinds:
            return self._read_messages(_MESSAGES, types=list(kinds))
        return self._read_messages(_ALL_MESSAGES)

    def nodes(self) -> Sequence[NodeRecord]:
        rows = self._connection.read(_COUNTS, prefix=prefix(self._app), half=HALF)
        counts = {
            node: records.NodeCounts(blocks, flows, high * HALF + low)
            for node, blocks, flows, high, low in rows
        }
        return records.node_records(
            self.messages(*records.ABOUT_NODES), counts, self._committed, self._silent_s
        )

    def _silent_s(self) -> float:
        return silent_s(self._connection, self._app, self._clock())

    def _committed(self) -> Mapping[str, records.CommitCounts]:
        rows = self._connection.read(_COMMITTED, prefix=prefix(self._app), named=[NAMED])
        return {node: records.CommitCounts(*counts) for node, *counts in rows}

    def links(self) -> Sequence[LinkRecord]:
        return records.link_records(self.messages("link"))

    def splits(self, node: str) -> Sequence[SplitRecord]:
        reads = records.reads_of(self._about(node, "commit"), node)
        return records.split_records(self._about(node, *records.SPLITS), node, reads)

    def sink_files(self, node: str) -> Sequence[SinkFileRecord]:
        newlines = records.newlines_by_partition(self._about(node, "commit"), node)
        return records.file_records(self._about(node, *records.FILES), node, newlines)

    def recipe(self, node: str) -> str | None:
        rows = self._connection.read(_RECIPE, app=self._app, node=node)
        return recipe_in(rows[0][0]) if rows else None

    def blocks_into(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        return self.blocks_into_each([(space, first, last)])[0]

    def blocks_from(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        return self.blocks_from_each([(space, first, last)])[0]

    def blocks_into_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        return self._refs_of(_INTO, ranges)

    def blocks_from_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        return self._refs_of(_FROM, ranges)

    def blocks(self) -> Iterator[BlockRef]:
        ids = [row[0] for row in self._connection.read(_ALL, prefix=prefix(self._app))]
        ids.sort(key=block_of)
        for at in range(0, len(ids), REFS_AT_ONCE):
            rows = self._connection.read(_SOME + _REF, ids=ids[at : at + REFS_AT_ONCE])
            yield from sorted((_ref(row[1:]) for row in rows), key=lambda ref: ref.block_id)

    def spaces_of(self, node: str) -> Sequence[str]:
        rows = self._connection.read(_SPACES, app=self._app, start=f"{node}#")
        spaces = [parse_space(row[0]) for row in rows]
        return [
            str(space)
            for space in sorted(
                spaces, key=lambda parsed: (parsed.partition, parsed.incarnation or 0)
            )
            if space.kind is SpaceKind.PARTITION
        ]

    def load(self, blocks: Iterable[BlockId]) -> dict[BlockId, FlowBlock]:
        ids = [key(self._app, block_id) for block_id in dict.fromkeys(blocks)]
        rows = self._connection.read(_LOAD, ids=ids) if ids else []
        return {
            # The store may have learnt since that the flows are supersets.
            block_of(block_key): dataclasses.replace(
                unpack_block(data), app=self._app, exact=exact, reason=reason or ""
            )
            for block_key, data, exact, reason in rows
        }

    def edges_into(self, consumers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        return self._edges(_EDGES_INTO, consumers)

    def edges_from(self, producers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        return self._edges(_EDGES_FROM, producers)

    def seals(self) -> Sequence[Seal]:
        return seals_of(self._connection, self._app)

    def sealed(self, spaces: Iterable[str]) -> Collection[str]:
        return list(sealed_spaces(self._connection, self._app, spaces))

    def unsealed(self) -> int:
        """As :func:`lineage_store.neo4j.sealed_spaces.count_unsealed`."""
        return count_unsealed(self._connection, self._app)

    def _edges(self, query: LiteralString, blocks: Iterable[BlockId]) -> list[EdgeBatch]:
        ids = [key(self._app, block_id) for block_id in dict.fromkeys(blocks)]
        rows = self._connection.read(query, ids=ids) if ids else []
        return [
            EdgeBatch(
                block_of(producer),
                block_of(consumer),
                pairs,
                *((None, None) if data is None else unpack_edge(pairs, data)),
            )
            for producer, consumer, pairs, data in rows
        ]

    def _refs_of(
        self, query: LiteralString, ranges: Sequence[PositionRange]
    ) -> list[list[BlockRef]]:
        refs_by_range: list[list[BlockRef]] = [[] for _ in ranges]
        range_rows = [
            {"at": at, "space": space, "first": first - BIAS, "last": last - BIAS}
            for at, (space, first, last) in enumerate(ranges)
        ]
        if range_rows:
            rows = self._connection.read(query + _REF, app=self._app, ranges=range_rows)
            for at, *columns in rows:
                refs_by_range[at].append(_ref(columns))
        for refs in refs_by_range:
            refs.sort(key=lambda ref: ref.block_id)
        return refs_by_range

    def _about(self, node: str, *kinds: str) -> list[Message]:
        """Messages of some types that name splits or files of a node."""
        return self._read_messages(_ABOUT, types=list(kinds), node=node)

    def _read_messages(
        self, statements: tuple[LiteralString, LiteralString], **parameters: object
    ) -> list[Message]:
        def rows(statement: LiteralString) -> Sequence[Sequence[Any]]:
            return self._connection.read(statement, app=self._app, **parameters)

        bodies, body_bytes = statements
        return read_messages(
            lambda: (body for (body,) in rows(bodies)), lambda: int(rows(body_bytes)[0][0])
        )


def _ref(columns: Sequence[Any]) -> BlockRef:
    block_key, in_space, low, high, rows, associations, exact, reason, task, unmatched = columns
    return BlockRef(
        block_id=block_of(block_key),
        in_space=in_space,
        # No input at all: a range that holds nothing.
        in_min=1 if low is None else low + BIAS,
        in_max=0 if high is None else high + BIAS,
        rows=rows,
        associations=associations,
        exact=exact,
        reason=reason or "",
        task=task.partition("|")[2].rpartition("#")[0],
        unmatched=unmatched or 0,
    )
