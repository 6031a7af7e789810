"""What messages say of nodes, links, splits and files: the same for every store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from lineage_core.graph import LinkRecord, NodeRecord, SinkFileRecord, SplitRecord
from lineage_core.message import (
    Commit,
    Link,
    Message,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    Register,
    SinkFiles,
    Split,
    Splits,
)

SPLITS = ("splits", "record_splits")
FILES = ("sink_files", "record_files")
"""Types of messages that tell of a source's splits and of a sink's files."""


class NodeCounts(NamedTuple):
    """What visible blocks of one node hold."""

    blocks: int = 0
    flows: int = 0
    associations: int = 0


def node_records(messages: Iterable[Message], counts: Mapping[str, NodeCounts]) -> list[NodeRecord]:
    """Nodes in order of creation, as last registered."""
    found: dict[str, NodeRecord] = {}
    for message in messages:
        assert isinstance(message, Register)
        known = counts.get(message.node, NodeCounts())
        found[message.node] = NodeRecord(
            node=message.node,
            kind=message.kind,
            op=message.op,
            name=message.name,
            description=message.description,
            call_site=message.call_site,
            alias=message.alias,
            exact=message.exact,
            reason=message.reason,
            partitions=message.partitions,
            path=message.path,
            blocks=known.blocks,
            flows=known.flows,
            associations=known.associations,
            call_path=message.call_path,
        )
    return list(found.values())


def link_records(messages: Iterable[Message]) -> list[LinkRecord]:
    """Links in order of creation."""
    found: dict[LinkRecord, None] = {}
    for message in messages:
        assert isinstance(message, Link)
        found[LinkRecord(message.src, message.dest)] = None
    return list(found)


def split_records(
    messages: Iterable[Message], node: str, rows_of: Mapping[str, int]
) -> list[SplitRecord]:
    """Splits of a node, by partition. ``rows_of``: rows that were read, by space."""
    found: dict[tuple[int, int], SplitRecord] = {}
    for message in messages:
        assert isinstance(message, Splits | RecordSplits)
        if message.node == node:
            for split in message.splits:
                record = _split_record(message, split, rows_of.get(f"{node}#{split.partition}"))
                found[record.partition, record.row] = record
    return [found[place] for place in sorted(found)]


def _split_record(
    message: Splits | RecordSplits, split: Split | RecordSplit, rows: int | None
) -> SplitRecord:
    known = SplitRecord(
        node=message.node,
        partition=split.partition,
        path=split.path,
        start=split.start,
        length=split.length,
        file_size=split.file_size,
        mtime=split.mtime,
        compressed=False,
        rows=rows,
    )
    if isinstance(split, Split):
        return replace(known, compressed=split.compressed)
    if isinstance(message, RecordSplits) and message.whole:
        return replace(known, unit="file", row=split.row, rows=1)
    return replace(known, unit="record", row=split.row, first=split.first)


def file_records(
    messages: Iterable[Message], node: str, newlines: Mapping[int, tuple[tuple[int, int], ...]]
) -> list[SinkFileRecord]:
    """Files of a sink, by partition. ``newlines``: (row, newlines inside it) by partition."""
    found: dict[tuple[int, str], SinkFileRecord] = {}
    for message in messages:
        assert isinstance(message, SinkFiles | RecordFiles)
        if message.node != node:
            continue
        for file in message.files:
            found[file.partition, file.path] = SinkFileRecord(
                node=node,
                partition=file.partition,
                path=file.path,
                size=file.size,
                mtime=file.mtime,
                rows=file.rows,
                newlines=newlines.get(file.partition, ()),
                unit="record" if isinstance(message, RecordFiles) else "line",
            )
    return [found[place] for place in sorted(found)]


def rows_read(messages: Iterable[Message], node: str) -> dict[str, int]:
    """Rows of source partitions that some committed task read to the end, by space."""
    found: dict[str, int] = {}
    for message in messages:
        assert isinstance(message, Commit)
        for read in message.reads:
            if read.exhausted and read.space.startswith(f"{node}#"):
                found[read.space] = max(read.rows, found.get(read.space, 0))
    return found


def newlines_by_partition(
    messages: Iterable[Message], node: str
) -> dict[int, tuple[tuple[int, int], ...]]:
    """(row, newlines inside it) by partition of a sink."""
    found: dict[int, dict[int, int]] = {}
    for message in messages:
        assert isinstance(message, Commit)
        if message.node == node and message.newlines:
            found.setdefault(message.partition, {}).update(message.newlines)
    return {partition: tuple(sorted(by_row.items())) for partition, by_row in found.items()}
