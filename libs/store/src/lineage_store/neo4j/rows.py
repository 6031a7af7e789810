"""Rows that statements take as parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from lineage_core.codec.edge_message import StoredBlock
from lineage_core.contract.message import (
    Commit,
    Message,
    RecordFiles,
    RecordSplits,
    Register,
    SinkFiles,
    Splits,
)
from lineage_store.neo4j.keys import key
from lineage_store.recomputing import merges_by_key
from lineage_store.recorded_files import file_rows
from lineage_store.signed import BIAS, INTEGER_MAX

ROWS_AT_ONCE = 5_000
"""Rows of one statement."""
BYTES_AT_ONCE = 8 << 20
"""Bytes of columns in one statement."""

Row = dict[str, Any]


def node_properties(message: Register) -> Row:
    """Properties of a node of the coarse-grained graph."""
    return message.model_dump(exclude={"v", "type", "app", "node"})


def block_properties(block: StoredBlock, task: str) -> Row:
    """Properties of a block; None where it has none."""
    block_id = block.block_id
    return {
        "node": block_id.node,
        "partition": block_id.partition,
        "attempt": block_id.attempt,
        "seq": block_id.seq,
        "task": task,
        "in_space": block.in_space,
        "in_low": None if block.in_low is None else block.in_low - BIAS,
        "in_high": None if block.in_high is None else block.in_high - BIAS,
        "rows": block.rows,
        "associations": min(block.associations, INTEGER_MAX),
        "exact": block.exact,
        "reason": block.reason or None,
        "merges": merges_by_key(space for space, _, _ in block.sections) or None,
        "data": block.data,
    }


def file_version_rows(message: Message, number: int) -> Iterator[Row]:
    """Nodes for the versions of files that a message of a number names."""
    for row in file_rows(message):
        columns = row._asdict()
        own = hashlib.blake2b(repr(row).encode(), digest_size=16).hexdigest()
        # Files without a checksum are in no index of checksums.
        columns["checksum"] = row.checksum or None
        yield {"id": key(message.app, own), "app": message.app, "number": number} | columns


def nodes_described(message: Message) -> list[str]:
    """Nodes that a query for one node's splits or files must read the message for."""
    match message:
        case Splits() | RecordSplits() | SinkFiles() | RecordFiles():
            return [message.node]
        case Commit():
            reads = [part for part in message.reads if part.exhausted or part.sums]
            nodes = {part.space.rpartition("#")[0] for part in reads}
            return sorted((nodes | ({message.node} if message.newlines else set())) - {""})
        case _:
            return []


def parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows, some at a time: bounded in number and in bytes of columns."""
    part: list[Row] = []
    size = 0
    for row in rows:
        part.append(row)
        size += _bytes_of(row)
        if len(part) >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part


def _bytes_of(row: Row) -> int:
    props = row.get("props", {})
    columns = row.get("data") or props.get("data") or props.get("packed") or b""
    return len(columns) + len(props.get("body", "")) + 64 * len(row.get("sections", ()))
