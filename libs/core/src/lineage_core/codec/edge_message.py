"""What the linker sends to be stored: blocks in their stored form, and what links them.

Each is one record batch (:mod:`lineage_core.codec.record_batch`): the header is a JSON object with ``v``, ``type`` and
``app``, the payload the bytes that are stored. Messages of the driver pass on as they are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lineage_core.codec.packing import PackedBlock, pack_edge
from lineage_core.codec.record_batch import pack_record_batch, read_record_batches
from lineage_core.contract.block import BlockId
from lineage_core.contract.block_check import BLOCK_RUNS_MAX, check_name, check_space
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.sealing import Seal
from lineage_core.errors import BlockError, RecordBatchError
from lineage_core.linking.linker import TaskId

EDGE_VERSION = 1
LINKS_BYTES = 1 << 20
"""Links are split into record batches of about this many bytes."""
LINKS_MAX = 4_000
"""Edges, visible blocks, counts and seals in one record batch."""
EPOCH_MAX = 64
"""Characters of an epoch."""

Unsigned64: TypeAlias = Annotated[int, Field(ge=0, lt=2**64)]
Natural: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
BlockKey: TypeAlias = tuple[str, Natural, Natural, Natural]


@dataclass(frozen=True, slots=True, eq=False)
class StoredBlock:
    """A block as stores keep it; invisible until :class:`Links` names it.

    ``task``: whose commit makes it visible. ``data``: see :mod:`lineage_core.codec.columns`; the other
    fields as in :class:`lineage_core.codec.packing.PackedBlock`.
    """

    app: str
    task: TaskId
    block_id: BlockId
    in_space: str
    in_low: int | None
    in_high: int | None
    rows: int
    associations: int
    exact: bool
    reason: str
    sections: tuple[tuple[str, int, int], ...]
    data: bytes


@dataclass(frozen=True, slots=True, eq=False)
class PackedEdge:
    """An edge batch as stores keep it. ``data``: see :func:`lineage_core.codec.packing.pack_edge`."""

    producer: BlockId
    consumer: BlockId
    pairs: int
    data: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """The results of linking for one application.

    ``visible``: blocks that are visible from now on. ``unmatched``: input positions of a block that
    no visible block puts out; of several counts of one block the smallest is true. ``edges`` may
    name blocks that have not arrived yet. ``seals``: of several of one space the largest counts.
    ``epoch``: of the state of linking; a state of another epoch shares nothing with this one.
    """

    app: str
    visible: Sequence[BlockId] = ()
    unmatched: Sequence[tuple[BlockId, int]] = ()
    edges: Sequence[PackedEdge] = ()
    seals: Sequence[Seal] = ()
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class LinksRecords:
    """Links as record batches of bounded size.

    ``last`` may be sent when all of ``edges`` have arrived: what they call visible or sealed has all
    of its edges then.
    """

    edges: Sequence[bytes]
    last: Sequence[bytes]

    def __iter__(self) -> Iterator[bytes]:
        """All of them, in order."""
        return iter((*self.edges, *self.last))


def stored_block(app: str, task: TaskId, packed: PackedBlock) -> StoredBlock:
    """A packed block on its way to the store."""
    return StoredBlock(
        app=app,
        task=task,
        block_id=packed.block_id,
        in_space=packed.in_space,
        in_low=packed.in_low,
        in_high=packed.in_high,
        rows=packed.rows,
        associations=packed.associations,
        exact=packed.exact,
        reason=packed.reason,
        sections=packed.sections,
        data=packed.data,
    )


def packed_edge(edge: EdgeBatch) -> PackedEdge:
    """An edge batch on its way to the store."""
    return PackedEdge(edge.producer, edge.consumer, edge.pairs, pack_edge(edge))


def pack_stored(block: StoredBlock) -> bytes:
    """One block as a record batch."""
    fields = {
        "v": EDGE_VERSION,
        "type": "block",
        "app": block.app,
        "task": block.task.node,
        "block": _key(block.block_id),
        "attempt": block.task.attempt,
        "partition": block.task.partition,
        "in_space": block.in_space,
        "in_low": block.in_low,
        "in_high": block.in_high,
        "rows": block.rows,
        "associations": block.associations,
        "exact": block.exact,
        "reason": block.reason,
        "sections": block.sections,
    }
    return pack_record_batch(_json(fields), block.data)


def pack_links(links: Links) -> LinksRecords:
    """Links as record batches; none where there are no links."""
    parts = list(_split_edges(links.edges))
    longest = max(len(links.visible), len(links.unmatched), len(links.seals))
    cuts = [slice(start, start + LINKS_MAX) for start in range(0, longest, LINKS_MAX)]
    # A record batch is stored as a whole: edges that fit beside all the rest need not come first.
    edges_alongside = parts.pop() if len(cuts) == 1 and parts else []
    return LinksRecords(
        [_pack_links(Links(links.app, edges=part, epoch=links.epoch)) for part in parts],
        [
            _pack_links(
                Links(
                    links.app,
                    links.visible[cut],
                    links.unmatched[cut],
                    edges_alongside,
                    links.seals[cut],
                    links.epoch,
                )
            )
            for cut in cuts
        ],
    )


def _split_edges(edges: Iterable[PackedEdge]) -> Iterator[list[PackedEdge]]:
    part: list[PackedEdge] = []
    size = 0
    for edge in edges:
        part.append(edge)
        size += 0 if edge.data is None else len(edge.data)
        if size >= LINKS_BYTES or len(part) >= LINKS_MAX:
            yield part
            part, size = [], 0
    if part:
        yield part


def _pack_links(links: Links) -> bytes:
    fields = {
        "v": EDGE_VERSION,
        "type": "links",
        "app": links.app,
        "epoch": links.epoch,
        "visible": [_key(block) for block in links.visible],
        "unmatched": [[_key(block), count] for block, count in links.unmatched],
        "seals": [
            [seal.space, seal.producers, seal.consumers, seal.digest] for seal in links.seals
        ],
        "edges": [
            [
                _key(edge.producer),
                _key(edge.consumer),
                edge.pairs,
                None if edge.data is None else len(edge.data),
            ]
            for edge in links.edges
        ],
    }
    return pack_record_batch(_json(fields), b"".join(edge.data or b"" for edge in links.edges))


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    v: Literal[1]
    app: str = Field(min_length=1, max_length=512)


class _BlockFields(_Model):
    type: Literal["block"]
    task: str
    block: BlockKey
    attempt: Natural
    partition: Natural
    in_space: str
    in_low: Unsigned64 | None
    in_high: Unsigned64 | None
    rows: Natural
    associations: int = Field(ge=0)
    exact: bool
    reason: str
    sections: tuple[tuple[str, Unsigned64, Unsigned64], ...]


class _LinksFields(_Model):
    type: Literal["links"]
    visible: tuple[BlockKey, ...]
    unmatched: tuple[tuple[BlockKey, Unsigned64], ...]
    edges: tuple[tuple[BlockKey, BlockKey, Annotated[int, Field(ge=0)], Natural | None], ...]
    # Linkers of earlier versions do not send these.
    seals: tuple[tuple[str, Natural, Natural, Unsigned64], ...] = ()
    epoch: str = Field(default="", max_length=EPOCH_MAX)


def parse_edge_record(value: bytes) -> StoredBlock | Links:
    """Read a record batch that :func:`pack_stored` or :func:`pack_links` made.

    Raises:
        ContractError: it is not such a record batch; ``where`` names the field.
    """
    record_batches = list(read_record_batches(io.BytesIO(value)))
    if len(record_batches) != 1:
        raise RecordBatchError(
            f"{len(record_batches)} record batches in one record", where="record"
        )
    header, payload = record_batches[0].header, record_batches[0].payload
    kind = _kind(header)
    try:
        if kind == "block":
            return _block(_BlockFields.model_validate_json(header), payload)
        return _links(_LinksFields.model_validate_json(header), payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field_path = ".".join(map(str, first["loc"])) or "header"
        raise RecordBatchError(f"{kind}: {first['msg']}", where=field_path) from error


def _kind(header: bytes) -> str:
    try:
        fields: Any = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise RecordBatchError(f"not JSON: {error}", where="header") from error
    kind = fields.get("type") if isinstance(fields, dict) else None
    if kind not in ("block", "links"):
        raise RecordBatchError(f"{kind!r:.80} is not block or links", where="type")
    return str(kind)


def _block(fields: _BlockFields, payload: bytes) -> StoredBlock:
    block_id = BlockId(*fields.block)
    check_name(fields.app, block_id, fields.in_space, fields.reason)
    check_space(f"{fields.task}#0", "task")
    for index, (space, low, high) in enumerate(fields.sections):
        check_space(space, f"sections[{index}]")
        if low > high:
            raise BlockError(f"{low} is above {high}", where=f"sections[{index}]")
    return StoredBlock(
        app=fields.app,
        task=TaskId(fields.task, fields.partition, fields.attempt),
        block_id=block_id,
        in_space=fields.in_space,
        in_low=fields.in_low,
        in_high=fields.in_high,
        rows=fields.rows,
        associations=fields.associations,
        exact=fields.exact,
        reason=fields.reason,
        sections=fields.sections,
        data=payload,
    )


def _links(fields: _LinksFields, payload: bytes) -> Links:
    edges = []
    offset = 0
    blocks = [*fields.visible, *(key for key, _ in fields.unmatched)]
    blocks += [key for ends in fields.edges for key in ends[:2]]
    for node in {key[0] for key in blocks}:
        check_space(f"{node}#0", "links")
    for index, (space, *_) in enumerate(fields.seals):
        check_space(space, f"seals[{index}]")
    for producer, consumer, pairs, size in fields.edges:
        if size is not None and pairs > BLOCK_RUNS_MAX:
            raise RecordBatchError(
                f"{pairs} pairs, at most {BLOCK_RUNS_MAX} are written out", where="edges"
            )
        data = None if size is None else payload[offset : offset + size]
        offset += size or 0
        edges.append(PackedEdge(BlockId(*producer), BlockId(*consumer), pairs, data))
    if offset != len(payload):
        raise RecordBatchError(f"{len(payload)} bytes of edges, {offset} announced", where="edges")
    return Links(
        app=fields.app,
        visible=[BlockId(*key) for key in fields.visible],
        unmatched=[(BlockId(*key), count) for key, count in fields.unmatched],
        edges=edges,
        seals=[Seal(*seal) for seal in fields.seals],
        epoch=fields.epoch,
    )


def _key(block: BlockId) -> tuple[str, int, int, int]:
    return block.node, block.partition, block.attempt, block.seq


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
