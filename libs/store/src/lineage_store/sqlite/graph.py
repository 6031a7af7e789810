"""Reading one application's lineage from the SQLite store."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

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
from lineage_core.contract.verdict import StoreCounts
from lineage_core.tracing.budget import current_budget
from lineage_store import records
from lineage_store.recipes import MessageList, read_messages, recipe_in
from lineage_store.recomputing import NAMED
from lineage_store.signed import BIAS
from lineage_store.sqlite.connection import Query
from lineage_store.sqlite.counting import count_store, silent_s
from lineage_store.sqlite.folding import BODY, WITH_BASE, body_of
from lineage_store.sqlite.sealed_spaces import sealed_spaces, seals_of

_REF_COLUMNS = (
    "block.id, block.node, block.partition, block.attempt, block.seq, space.text, "
    "block.in_low, block.in_high, block.count, block.associations, block.exact, block.reason, "
    "(SELECT task.node FROM task WHERE task.id = block.task), block.unmatched"
)


class SqliteGraph:
    """Implements :class:`lineage_core.contract.graph.FlowGraph`. Each call reads what is committed by then."""

    def __init__(
        self,
        query: Query,
        app_id: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._query = query
        self._app_id = app_id
        self._clock = clock
        self._row_ids: dict[BlockId, int] = {}

    @property
    def app_id(self) -> int:
        """The row of the application."""
        return self._app_id

    def messages(self, *kinds: str) -> Sequence[Message]:
        """Messages in the order written, of some types or (none given) all."""
        where = f" AND type IN ({', '.join('?' * len(kinds))})" if kinds else ""
        values = self._app_id, *kinds
        query = (
            f"SELECT {BODY} FROM message {WITH_BASE} "
            f"WHERE message.app = ?{where.replace('type', 'message.type')} ORDER BY message.id"
        )
        return read_messages(
            lambda: (body_of(*stored) for stored in self._query(query, *values)),
            lambda: self._body_bytes(where, values),
        )

    def _body_bytes(self, where: str, values: Sequence[object]) -> int:
        query = (
            f"SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM message WHERE app = ?{where}"
        )
        return int(self._query(query, *values)[0][0])

    def nodes(self) -> Sequence[NodeRecord]:
        rows = self._query(
            "SELECT node, count(*), sum(count), sum(associations >> 32), "
            "sum(associations & 4294967295) FROM block WHERE app = ? GROUP BY node",
            self._app_id,
        )
        counts = {
            # A sum of 64-bit integers that overflows is an error: it is taken in two halves.
            node: records.NodeCounts(blocks, flows, (high << 32) + low)
            for node, blocks, flows, high, low in rows
        }
        return records.node_records(
            self.messages(*records.ABOUT_NODES), counts, self._committed, self._silent_s
        )

    def _silent_s(self) -> float:
        return silent_s(self._query, self._app_id, self._clock())

    def _committed(self) -> Mapping[str, records.CommitCounts]:
        rows = self._query(
            "SELECT node, count(*), sum(digest <> ?) FROM task WHERE app = ? AND committed "
            "GROUP BY node",
            NAMED,
            self._app_id,
        )
        return {node: records.CommitCounts(*counts) for node, *counts in rows}

    def links(self) -> Sequence[LinkRecord]:
        return records.link_records(self.messages("link"))

    def splits(self, node: str) -> Sequence[SplitRecord]:
        return records.split_records(self.messages(*records.SPLITS), node, self._reads(node))

    def sink_files(self, node: str) -> Sequence[SinkFileRecord]:
        return records.file_records(self.messages(*records.FILES), node, self._newlines(node))

    def recipe(self, node: str) -> str | None:
        rows = self._query(
            f"SELECT {BODY} FROM recipe JOIN message ON message.id = recipe.message {WITH_BASE} "
            "WHERE recipe.app = ? AND recipe.node = ?",
            self._app_id,
            node,
        )
        return recipe_in(body_of(*rows[0])) if rows else None

    def blocks_into_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        return [self.blocks_into(*span) for span in ranges]

    def blocks_from_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        return [self.blocks_from(*span) for span in ranges]

    def blocks(self) -> Iterator[BlockRef]:
        where = "block JOIN space ON space.id = block.in_space WHERE block.app = ?"
        yield from self._refs(where, self._app_id)

    def blocks_into(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        return self._refs(
            "section JOIN space AS target ON target.id = section.space "
            "JOIN block ON block.id = section.block JOIN space ON space.id = block.in_space "
            "WHERE target.app = ? AND target.text = ? AND section.low <= ? AND section.high >= ?",
            self._app_id,
            space,
            last - BIAS,
            first - BIAS,
        )

    def blocks_from(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        return self._refs(
            "space JOIN block ON block.in_space = space.id "
            "WHERE space.app = ? AND space.text = ? AND block.in_low <= ? AND block.in_high >= ?",
            self._app_id,
            space,
            last - BIAS,
            first - BIAS,
        )

    def spaces_of(self, node: str) -> Sequence[str]:
        # '$' follows '#': a range of the index over (app, text).
        rows = self._query(
            "SELECT text FROM space WHERE app = ? AND text >= ? AND text < ? "
            "AND EXISTS (SELECT 1 FROM section WHERE section.space = space.id)",
            self._app_id,
            f"{node}#",
            f"{node}$",
        )
        spaces = [parse_space(row[0]) for row in rows]
        return [
            str(space)
            for space in sorted(
                spaces, key=lambda parsed: (parsed.partition, parsed.incarnation or 0)
            )
            if space.kind is SpaceKind.PARTITION
        ]

    def load(self, blocks: Iterable[BlockId]) -> dict[BlockId, FlowBlock]:
        blocks_by_id = {}
        for block_id in dict.fromkeys(blocks):
            rows = self._query(
                "SELECT data, application.app, block.exact, block.reason FROM block_columns "
                "JOIN block ON block.id = block_columns.block "
                "JOIN application ON application.id = block.app WHERE block_columns.block = ?",
                self._row_id(block_id),
            )
            if not rows:
                continue
            data, app, exact, reason = rows[0]
            # The store may have learnt since that the flows are supersets.
            blocks_by_id[block_id] = dataclasses.replace(
                unpack_block(data), app=app, exact=bool(exact), reason=reason
            )
        return blocks_by_id

    def edges_into(self, consumers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        return [
            edge for block in dict.fromkeys(consumers) for edge in self._edges(block, "consumer")
        ]

    def edges_from(self, producers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        return [
            edge for block in dict.fromkeys(producers) for edge in self._edges(block, "producer")
        ]

    def seals(self) -> Sequence[Seal]:
        return seals_of(self._query, self._app_id)

    def sealed(self, spaces: Iterable[str]) -> Collection[str]:
        return list(sealed_spaces(self._query, self._app_id, spaces))

    def counts(self) -> StoreCounts:
        """The counts of the store for the verdict."""
        return count_store(self._query, self._app_id, self._clock())

    def _edges(self, block_id: BlockId, side: str) -> Iterator[EdgeBatch]:
        other_side = "producer" if side == "consumer" else "consumer"
        rows = self._query(
            "SELECT pairs, data, block.node, block.partition, block.attempt, block.seq "
            f"FROM edge JOIN block ON block.id = edge.{other_side} WHERE edge.{side} = ?",
            self._row_id(block_id),
        )
        for pairs, data, *key in rows:
            producer, consumer = BlockId(*key), block_id
            if side == "producer":
                producer, consumer = block_id, BlockId(*key)
            if data is None:
                yield EdgeBatch(producer, consumer, pairs)
            else:
                yield EdgeBatch(producer, consumer, pairs, *unpack_edge(pairs, data))

    def _refs(self, where: str, *values: object) -> list[BlockRef]:
        block_refs = []
        rows = self._query(f"SELECT {_REF_COLUMNS} FROM {where}", *values)
        for row_id, node, partition, attempt, seq, *columns in rows:
            block_id = BlockId(node, partition, attempt, seq)
            self._row_ids[block_id] = row_id
            in_space, low, high, count, associations, exact, reason, task, unmatched = columns
            block_refs.append(
                BlockRef(
                    block_id=block_id,
                    in_space=in_space,
                    # No input at all: a range that holds nothing.
                    in_min=1 if low is None else low + BIAS,
                    in_max=0 if high is None else high + BIAS,
                    rows=count,
                    associations=associations,
                    exact=bool(exact),
                    reason=reason,
                    task=task or block_id.node,
                    unmatched=unmatched,
                )
            )
        block_refs.sort(key=lambda ref: ref.block_id)
        return block_refs

    def _row_id(self, block_id: BlockId) -> int | None:
        row_id = self._row_ids.get(block_id)
        if row_id is None:
            rows = self._query(
                "SELECT id FROM block WHERE app = ? AND node = ? AND partition = ? "
                "AND attempt = ? AND seq = ?",
                self._app_id,
                block_id.node,
                block_id.partition,
                block_id.attempt,
                block_id.seq,
            )
            if rows:
                row_id = self._row_ids[block_id] = rows[0][0]
        return row_id

    def _reads(self, node: str) -> dict[str, records.SplitRead]:
        """What committed tasks read of the splits of a node, by space."""
        rows = self._query(
            "SELECT DISTINCT json_extract(one.value, '$.space') AS read_space, "
            "json_extract(one.value, '$.rows'), json_extract(one.value, '$.exhausted'), "
            "coalesce(json_extract(one.value, '$.sums'), '') "
            "FROM message, json_each(message.body, '$.reads') AS one "
            "WHERE message.app = ? AND message.type = 'commit' "
            "AND read_space >= ? AND read_space < ?",
            self._app_id,
            f"{node}#",
            f"{node}$",
        )
        return records.split_reads(rows)

    def _newlines(self, node: str) -> dict[int, tuple[tuple[int, int], ...]]:
        """(row, newlines inside it) by partition of a sink."""
        held = MessageList()
        where = " AND type = 'commit' AND json_extract(body, '$.node') = ?"
        current_budget().hold_messages(held, lambda: self._body_bytes(where, (self._app_id, node)))
        rows = self._query(
            "SELECT json_extract(body, '$.partition'), json_extract(one.value, '$[0]'), "
            "json_extract(one.value, '$[1]') FROM message, json_each(body, '$.newlines') AS one "
            "WHERE app = ? AND message.type = 'commit' AND json_extract(body, '$.node') = ?",
            self._app_id,
            node,
        )
        newlines_by_partition: dict[int, dict[int, int]] = {}
        for partition, row, newlines in rows:
            newlines_by_partition.setdefault(partition, {})[row] = newlines
        return {
            partition: tuple(sorted(by_row.items()))
            for partition, by_row in newlines_by_partition.items()
        }
