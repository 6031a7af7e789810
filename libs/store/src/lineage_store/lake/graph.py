"""Reading one application's lineage from the lake."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa

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
from lineage_core.contract.sealing import Seal, seal_of
from lineage_core.contract.verdict import StoreCounts
from lineage_store import records
from lineage_store.errors import DeletedError, StoreUnavailableError
from lineage_store.lake.application import (
    blocks_table,
    first_number,
    messages_of,
    reasons_of,
    recipe_bodies,
    ref_rows,
    refs_of,
    summary_of,
    tasks_of,
    visible,
)
from lineage_store.lake.arrivals import arrivals_of, count_epochs
from lineage_store.lake.arrow import pc, scalar_of
from lineage_store.lake.columns import BLOCK_ID, PRODUCER_ID, REF, Kind
from lineage_store.lake.counting import count_nodes, count_store
from lineage_store.lake.files import Files, LakeReader, Lookup, rows_of
from lineage_store.recipes import MessageList, recipe_in
from lineage_store.signed import BIAS

T = TypeVar("T")
_PLAIN_NODE: Final = re.compile(r"[A-Za-z0-9_.-]+")
"""A node whose name is written in JSON as it is."""
_EDGE: Final = (*BLOCK_ID, *PRODUCER_ID, "pairs", "data")


class LakeGraph:
    """Implements :class:`lineage_core.contract.graph.FlowGraph`. Each call reads one version, the latest by then.

    Versions of one application alone: what is read once it was deleted and stored again, or in another copy of the lake, is no answer.
    """

    def __init__(self, reader: LakeReader, app: str, clock: Callable[[], float]) -> None:
        """Open an application; the caller knows that it is there."""
        self._reader = reader
        self._app = app
        self._key = reader.key_of(app)
        self._clock = clock
        self._beginning = reader.answer(self._key, self._beginning_in)

    def _beginning_in(self, files: Files) -> tuple[int, int]:
        """What stays while the application grows, is merged or has texts erased."""
        if not files:
            raise DeletedError(self._app, self._reader.table.address)
        return self._reader.table.openings, first_number(self._reader, files)

    def _answer(self, work: Callable[[Files], T]) -> T:
        def checked(files: Files) -> T:
            if self._beginning_in(files) != self._beginning:
                raise StoreUnavailableError(
                    f"{self._app} in {self._reader.table.address} was deleted and stored again while it was read, "
                    "or another copy was put in place of the lake; ask again"
                )
            return work(files)

        return self._reader.answer(self._key, checked)

    def messages(self, *kinds: str) -> Sequence[Message]:
        """Messages in the order written, of some types or (none given) all."""
        return self._answer(lambda files: messages_of(self._reader, files, kinds))

    def nodes(self) -> Sequence[NodeRecord]:
        return self._answer(self._nodes)

    def _nodes(self, files: Files) -> list[NodeRecord]:
        def committed() -> Mapping[str, records.CommitCounts]:
            counts = tasks_of(self._reader, files).committed()
            return {node: records.CommitCounts(*count) for node, count in counts.items()}

        return records.node_records(
            messages_of(self._reader, files, records.ABOUT_NODES),
            count_nodes(self._reader, files),
            committed,
            lambda: self._clock() - summary_of(self._reader, files).seen_at,
        )

    def links(self) -> Sequence[LinkRecord]:
        return records.link_records(self.messages("link"))

    def splits(self, node: str) -> Sequence[SplitRecord]:
        def read(files: Files) -> list[SplitRecord]:
            reads = records.reads_of(self._reading(files, node), node)
            return records.split_records(self._about(files, node, *records.SPLITS), node, reads)

        return self._answer(read)

    def sink_files(self, node: str) -> Sequence[SinkFileRecord]:
        def read(files: Files) -> list[SinkFileRecord]:
            newlines = records.newlines_by_partition(self._about(files, node, "commit"), node)
            return records.file_records(self._about(files, node, *records.FILES), node, newlines)

        return self._answer(read)

    def _about(self, files: Files, node: str, *kinds: str) -> MessageList:
        """Messages of some types that name a node."""
        return messages_of(
            self._reader,
            files,
            kinds,
            lambda rows: pc.equal(rows["node"], scalar_of(node)),
            ("node",),
        )

    def _reading(self, files: Files, node: str) -> MessageList:
        """Commits that may have read splits of a node."""
        if not _PLAIN_NODE.fullmatch(node):
            return messages_of(self._reader, files, ("commit",))
        space = json.dumps(f"{node}#")[:-1]
        return messages_of(
            self._reader,
            files,
            ("commit",),
            lambda rows: pc.match_substring(rows["body"], space),
            ("body",),
        )

    def recipe(self, node: str) -> str | None:
        body = self._answer(lambda files: recipe_bodies(self._reader, files, node).get(node))
        return None if body is None else recipe_in(body)

    def blocks_into(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        return self.blocks_into_each([(space, first, last)])[0]

    def blocks_from(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        return self.blocks_from_each([(space, first, last)])[0]

    def blocks_into_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        return self._refs_of_each(Kind.SECTION, ("space", "low", "high"), ranges)

    def blocks_from_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        return self._refs_of_each(Kind.BLOCK, ("in_space", "in_low", "in_high"), ranges)

    def _refs_of_each(
        self, kind: Kind, columns: tuple[str, str, str], ranges: Sequence[PositionRange]
    ) -> list[list[BlockRef]]:
        if not ranges:
            return []
        by_space: dict[str, list[tuple[int, int]]] = {}
        for space, first, last in ranges:
            by_space.setdefault(space, []).append((first - BIAS, last - BIAS))
        lookup = Lookup.of_ranges(*columns, by_space)

        def read(files: Files) -> list[list[BlockRef]]:
            rows = self._reader.read(files, kind, (*columns, *REF), lookup)
            rows_by_space: dict[str, list[tuple[Any, ...]]] = {}
            for space, *row in rows_of(rows):
                rows_by_space.setdefault(space, []).append(tuple(row))
            refs_by_range = []
            for space, first, last in ranges:
                fitting = (
                    row[2:]
                    for row in rows_by_space.get(space, ())
                    if row[0] is not None and row[0] <= last - BIAS and row[1] >= first - BIAS
                )
                refs_by_range.append(list(refs_of(self._reader, files, fitting)))
            return refs_by_range

        return self._answer(read)

    def blocks(self) -> Iterator[BlockRef]:
        def read(files: Files) -> list[BlockRef]:
            rows = ref_rows(blocks_table(self._reader, files, REF))
            return list(refs_of(self._reader, files, rows))

        yield from self._answer(read)

    def spaces_of(self, node: str) -> Sequence[str]:
        def read(files: Files) -> list[str]:
            # '$' follows '#': a range of names, by the statistics of their row groups.
            lookup = Lookup.of_prefix("space", f"{node}#", f"{node}$")
            rows = self._reader.read(files, Kind.SECTION, ["space", *BLOCK_ID], lookup)
            return list(pc.unique(visible(self._reader, files, rows)["space"]).to_pylist())

        spaces = [parse_space(space) for space in self._answer(read)]
        spaces.sort(key=lambda parsed: (parsed.partition, parsed.incarnation or 0))
        return [str(space) for space in spaces if space.kind is SpaceKind.PARTITION]

    def load(self, blocks: Iterable[BlockId]) -> dict[BlockId, FlowBlock]:
        wanted = list(dict.fromkeys(blocks))

        def read(files: Files) -> dict[BlockId, FlowBlock]:
            names = (*BLOCK_ID, "exact", "reason", "data")
            rows = self._reader.read(files, Kind.BLOCK, (*names, "number"), lookup_of(wanted))
            reasons = reasons_of(self._reader, files)
            found: dict[BlockId, FlowBlock] = {}
            chosen = set(wanted) - arrivals_of(self._reader, files).hidden
            for *key, exact, reason, data, _ in sorted(rows_of(rows), key=lambda row: row[-1]):
                block_id = BlockId(*key)
                if block_id not in chosen:
                    continue
                chosen.discard(block_id)
                # The store may have learnt since that the flows are supersets.
                decided = reasons.get(block_id, reason)
                found[block_id] = dataclasses.replace(
                    unpack_block(data),
                    app=self._app,
                    exact=not decided if block_id in reasons else exact,
                    reason=decided,
                )
            return {block_id: found[block_id] for block_id in wanted if block_id in found}

        return self._answer(read) if wanted else {}

    def stored(self, blocks: Collection[BlockId]) -> set[BlockId]:
        """Those among some blocks that are stored."""

        def read(files: Files) -> set[BlockId]:
            rows = self._reader.read(files, Kind.BLOCK, BLOCK_ID, lookup_of(blocks))
            return {BlockId(*key) for key in rows_of(rows)}.intersection(blocks)

        return self._answer(read) if blocks else set()

    def edges_into(self, consumers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        return self._edges(consumers, BLOCK_ID)

    def edges_from(self, producers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        return self._edges(producers, PRODUCER_ID)

    def _edges(self, blocks: Iterable[BlockId], side: tuple[str, str, str, str]) -> list[EdgeBatch]:
        wanted = set(blocks)
        if not wanted:
            return []
        lookup = lookup_of(wanted, side)

        def read(files: Files) -> tuple[pa.Table, frozenset[BlockId]]:
            rows = self._reader.read(files, Kind.EDGE, _EDGE, lookup)
            return rows, arrivals_of(self._reader, files).unseen

        rows, unseen = self._answer(read)
        edges: dict[tuple[BlockId, BlockId], EdgeBatch] = {}
        for row in rows_of(rows):
            consumer, producer = BlockId(*row[:4]), BlockId(*row[4:8])
            near, far = (consumer, producer) if side is BLOCK_ID else (producer, consumer)
            if near not in wanted or far in unseen or (consumer, producer) in edges:
                continue
            pairs, data = row[8:]
            columns = (None, None) if data is None else unpack_edge(pairs, data)
            edges[consumer, producer] = EdgeBatch(producer, consumer, pairs, *columns)
        return [edges[key] for key in sorted(edges)]

    def seals(self) -> Sequence[Seal]:
        return self._answer(partial(self._seals, lookup=None))

    def _seals(self, files: Files, lookup: Lookup | None) -> list[Seal]:
        rows = rows_of(self._reader.read(files, Kind.SEAL, ("number", "space", "seal"), lookup))
        largest: dict[str, Seal] = {}
        for _, space, text in sorted(rows):
            seal = Seal.from_text(space, text)
            if space not in largest or largest[space].size <= seal.size:
                largest[space] = seal
        return [largest[space] for space in sorted(largest)]

    def sealed(self, spaces: Iterable[str]) -> Collection[str]:
        wanted = sorted(set(spaces))
        return self._answer(lambda files: self._sealed(files, wanted)) if wanted else []

    def _sealed(self, files: Files, spaces: Sequence[str]) -> list[str]:
        seals = self._seals(files, Lookup.of_texts("space", spaces))
        sealed = Lookup.of_texts("space", [seal.space for seal in seals])
        read_by = Lookup.of_texts("in_space", [seal.space for seal in seals])
        producers = self._members(files, Kind.SECTION, ("space", "low"), sealed)
        consumers = self._members(files, Kind.BLOCK, ("in_space", "in_low"), read_by)
        return [
            seal.space
            for seal in seals
            if seal_of(seal.space, producers.get(seal.space, ()), consumers.get(seal.space, ()))
            == seal
        ]

    def _members(
        self, files: Files, kind: Kind, columns: tuple[str, str], lookup: Lookup
    ) -> dict[str, set[BlockId]]:
        """Blocks by space, of rows that name a position of it."""
        members: dict[str, set[BlockId]] = {}
        rows = self._reader.read(files, kind, (*columns, *BLOCK_ID), lookup)
        for space, low, *key in rows_of(visible(self._reader, files, rows)):
            if low is not None:
                members.setdefault(space, set()).add(BlockId(*key))
        return members

    def counts(self) -> StoreCounts:
        """The counts of the store for the verdict."""
        return self._answer(self._counts)

    def _counts(self, files: Files) -> StoreCounts:
        unsealed = 0
        if count_epochs(self._reader, files) > 1:
            # While one state makes all links, what is not sealed is on its way.
            spaces = [seal.space for seal in self._seals(files, None)]
            unsealed = len(spaces) - len(self._sealed(files, spaces))
        counts = count_store(self._reader, files, self._clock())
        return dataclasses.replace(counts, unsealed=unsealed)


def lookup_of(blocks: Iterable[BlockId], columns: tuple[str, str, str, str] = BLOCK_ID) -> Lookup:
    """Rows of some blocks, and perhaps others of the same nodes."""
    spans: dict[str, set[tuple[int, int]]] = {}
    for block_id in blocks:
        spans.setdefault(block_id.node, set()).add((block_id.partition, block_id.partition))
    node, of_partition, *_ = columns
    return Lookup.of_ranges(
        node, of_partition, of_partition, {key: sorted(some) for key, some in spans.items()}
    )
