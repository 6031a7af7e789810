"""Nodes, links, splits and files from messages: the same for every store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from lineage_core.contract.graph import (
    ContainerRecord,
    LinkRecord,
    NodeRecord,
    RowChecksums,
    SinkFileRecord,
    SplitRecord,
    Unit,
)
from lineage_core.contract.message import (
    Commit,
    DeadLetter,
    End,
    Link,
    Message,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    Register,
    SinkFiles,
    Split,
    Splits,
    Totals,
)
from lineage_core.contract.positions import is_file_node
from lineage_core.contract.verdict import ABANDONED_AFTER_S
from lineage_store.dataset_paths import is_no_file
from lineage_store.paths import is_unknown_state

ABOUT_NODES = ("register", "end", "dead_letter")
"""Types of messages about nodes, and about missing parts of them."""
SPLITS = ("splits", "record_splits")
FILES = ("sink_files", "record_files")
"""Types of messages about a source's splits and a sink's files."""


COMMITS_MISSING = "commits of tasks are missing: other attempts may have been read"
RECORDS_LOST = "records were lost: other attempts may have been read"
ABANDONED = "the application never ended: other attempts may have been read"


class NodeCounts(NamedTuple):
    """What visible blocks of one node hold."""

    blocks: int = 0
    flows: int = 0
    associations: int = 0


class SplitRead(NamedTuple):
    """What tasks read of a split: its rows, where one met the end, and checksums."""

    rows: int | None = None
    summed: tuple[RowChecksums, ...] = ()


class CommitCounts(NamedTuple):
    """Commits of tasks that put out what belongs to one node; ``unnamed``: whose readers don't name attempts."""

    commits: int
    unnamed: int


def node_records(
    messages: Iterable[Message],
    counts: Mapping[str, NodeCounts],
    committed: Callable[[], Mapping[str, CommitCounts]],
    silent_s: Callable[[], float],
) -> list[NodeRecord]:
    """Nodes in order of creation, as last registered, by messages of types register and end.

    ``messages``: of the types `ABOUT_NODES`. While a commit is missing, an attempt may be unknown whose flows by key were
    read instead of those of another: shuffles whose readers don't name attempts are supersets. So they are where the end
    is not there, which counts commits, and records were lost or nothing was heard of the application for so long
    (``silent_s``: seconds) that it counts as abandoned. What was lost may also have linked nodes to others.
    """
    nodes_by_id: dict[str, NodeRecord] = {}
    totals: Totals | None = None
    lost: set[str] = set()
    for message in messages:
        if isinstance(message, End):
            totals = message.totals
            continue
        if isinstance(message, DeadLetter):
            (lost.discard if message.resolved else lost.add)(message.place)
            continue
        assert isinstance(message, Register)
        node_counts = counts.get(message.node, NodeCounts())
        nodes_by_id[message.node] = NodeRecord(
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
            blocks=node_counts.blocks,
            flows=node_counts.flows,
            associations=node_counts.associations,
            call_path=message.call_path,
            inputs=message.inputs or 0,
            containers=tuple(map(ContainerRecord, message.containers, message.container_types)),
        )
    if lost or (totals is not None and len(nodes_by_id) < totals.nodes):
        nodes_by_id = {node: replace(record, inputs=None) for node, record in nodes_by_id.items()}
    if totals is None:
        abandoned = ABANDONED if silent_s() > ABANDONED_AFTER_S else ""
        inexact_reason = RECORDS_LOST if lost else abandoned
        stored = committed() if inexact_reason else {}
    else:
        stored = committed() if totals.tasks else {}
        is_missing = sum(commit_counts.commits for commit_counts in stored.values()) < totals.tasks
        inexact_reason = COMMITS_MISSING if is_missing else ""
    if inexact_reason:
        for node, record in nodes_by_id.items():
            names_attempts = node in stored and not stored[node].unnamed
            if record.kind == "shuffle" and record.exact and not names_attempts:
                nodes_by_id[node] = replace(record, exact=False, reason=inexact_reason)
    return list(nodes_by_id.values())


def link_records(messages: Iterable[Message]) -> list[LinkRecord]:
    """Links in order of creation."""
    links: dict[LinkRecord, None] = {}
    for message in messages:
        assert isinstance(message, Link)
        links[LinkRecord(message.src, message.dest)] = None
    return list(links)


def split_records(
    messages: Iterable[Message], node: str, reads: Mapping[str, SplitRead]
) -> list[SplitRecord]:
    """Splits of a node, by partition. ``reads``: what tasks read of them, by space."""
    splits_by_position: dict[tuple[int, int], SplitRecord] = {}
    for message in messages:
        assert isinstance(message, Splits | RecordSplits)
        if message.node == node:
            for split in message.splits:
                if is_no_file(split.path) or is_unknown_state(split.file_size, split.mtime):
                    continue
                split_read = reads.get(f"{node}#{split.partition}", SplitRead())
                record = _split_record(message, split, split_read)
                splits_by_position[record.partition, record.row] = record
    return [splits_by_position[key] for key in sorted(splits_by_position)]


def _split_record(
    message: Splits | RecordSplits, split: Split | RecordSplit, split_read: SplitRead
) -> SplitRecord:
    record = SplitRecord(
        node=message.node,
        partition=split.partition,
        path=split.path,
        start=split.start,
        length=split.length,
        file_size=split.file_size,
        mtime=split.mtime,
        compressed=False,
        rows=split_read.rows,
        checksum=split.checksum,
    )
    if isinstance(split, Split):
        return replace(record, compressed=split.compressed, summed=split_read.summed)
    if isinstance(message, RecordSplits) and message.whole:
        return replace(record, unit="file", row=split.row, rows=1)
    if is_file_node(message.node):
        return replace(record, unit="byte")
    return replace(record, unit="record", row=split.row, first=split.first)


def file_records(
    messages: Iterable[Message], node: str, newlines: Mapping[int, tuple[tuple[int, int], ...]]
) -> list[SinkFileRecord]:
    """Files of a sink, by partition, but for what stands for something else. ``newlines``: (row, newlines inside it) by partition."""
    files_by_position: dict[tuple[int, str], SinkFileRecord] = {}
    for message in messages:
        assert isinstance(message, SinkFiles | RecordFiles)
        if message.node != node:
            continue
        for file in message.files:
            if is_no_file(file.path) or is_unknown_state(file.size, file.mtime):
                continue
            files_by_position[file.partition, file.path] = SinkFileRecord(
                node=node,
                partition=file.partition,
                path=file.path,
                size=file.size,
                mtime=file.mtime,
                rows=file.rows,
                newlines=newlines.get(file.partition, ()),
                unit=_unit_written(message),
                checksum=file.checksum,
            )
    return [files_by_position[key] for key in sorted(files_by_position)]


def _unit_written(message: SinkFiles | RecordFiles) -> Unit:
    if is_file_node(message.node):
        return "byte"
    return "record" if isinstance(message, RecordFiles) else "line"


def reads_of(messages: Iterable[Message], node: str) -> dict[str, SplitRead]:
    """What committed tasks read of the splits of a node, by space."""
    return split_reads(
        (read.space, read.rows, read.exhausted, read.sums)
        for message in messages
        if isinstance(message, Commit)
        for read in message.reads
        if read.space.startswith(f"{node}#")
    )


def split_reads(reads: Iterable[tuple[str, int, bool, str]]) -> dict[str, SplitRead]:
    """Of reads (space, rows, whether they met the end, checksums) what is known of each space."""
    rows: dict[str, int] = {}
    summed: dict[str, set[tuple[int, str]]] = {}
    for space, count, exhausted, sums in reads:
        summed.setdefault(space, set())
        if exhausted:
            rows[space] = max(count, rows.get(space, 0))
        if sums:
            summed[space].add((count, sums))
    return {
        space: SplitRead(
            rows.get(space),
            tuple(RowChecksums(*rows_and_sums) for rows_and_sums in sorted(space_sums)),
        )
        for space, space_sums in summed.items()
    }


def newlines_by_partition(
    messages: Iterable[Message], node: str
) -> dict[int, tuple[tuple[int, int], ...]]:
    """(row, newlines inside it) by partition of a sink."""
    newlines: dict[int, dict[int, int]] = {}
    for message in messages:
        assert isinstance(message, Commit)
        if message.node == node and message.newlines:
            newlines.setdefault(message.partition, {}).update(message.newlines)
    return {partition: tuple(sorted(by_row.items())) for partition, by_row in newlines.items()}
