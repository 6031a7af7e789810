"""What messages say of nodes, links, splits and files: the same for every store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lineage_core.graph import LinkRecord, NodeRecord, SinkFileRecord, SplitRecord
from lineage_core.message import Commit, Link, Message, Register, SinkFiles, Splits


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
    found: dict[int, SplitRecord] = {}
    for message in messages:
        assert isinstance(message, Splits)
        if message.node != node:
            continue
        for split in message.splits:
            found[split.partition] = SplitRecord(
                node=node,
                partition=split.partition,
                path=split.path,
                start=split.start,
                length=split.length,
                file_size=split.file_size,
                mtime=split.mtime,
                compressed=split.compressed,
                rows=rows_of.get(f"{node}#{split.partition}"),
            )
    return [found[partition] for partition in sorted(found)]


def file_records(
    messages: Iterable[Message], node: str, newlines: Mapping[int, tuple[tuple[int, int], ...]]
) -> list[SinkFileRecord]:
    """Files of a sink, by partition. ``newlines``: (row, newlines inside it) by partition."""
    found: dict[tuple[int, str], SinkFileRecord] = {}
    for message in messages:
        assert isinstance(message, SinkFiles)
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
