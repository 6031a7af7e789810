"""What capture noted of a program, read from its spool and walked by the plainest means.

No linking, no store, no tracing code: every association of every block is laid out, and a row's
witnesses are what can be reached backward from it. So a wrong answer is capture's own.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lineage_core.codec.csv_codec import BlockHeader, decode_csv
from lineage_core.codec.record_batch import decompress_payload, read_record_batches
from lineage_core.contract.address import parse_space
from lineage_core.contract.block import FlowBlock
from lineage_core.contract.message import (
    Commit,
    Job,
    Message,
    RecordSplits,
    Register,
    SinkFiles,
    Splits,
    Unknown,
    parse_message,
)
from lineage_core.errors import TruncatedRecordBatchError
from tests.oracle.brute import Witnesses
from tests.oracle.layout import lines_of, list_partitions, records_of
from tests.oracle.model import Program, Source, Witness
from tests.support.memory_graph import associations, outputs_of, space_of

Item = tuple[str, int]
"""Space and position."""


@dataclass(frozen=True)
class Trace:
    """The witnesses of one row, and whether lineage calls them exact."""

    witnesses: Witnesses
    exact: bool


@dataclass
class SpoolReader:
    """Reads an application's spool piece by piece, as its driver writes it."""

    folder: Path
    _offset: int = 0
    _seen: set[str] = field(default_factory=set)

    def messages(self) -> list[Message]:
        """Messages written since the last call."""
        text = (self.folder / "driver.jsonl").read_bytes()[self._offset :]
        self._offset += len(text)
        return [parse_message(line) for line in text.splitlines() if line.strip()]

    def blocks(self, messages: Iterable[Message]) -> list[FlowBlock]:
        """All blocks written since the last call, whether their task was committed or claimed.

        (A worker whose reader stopped early is killed: what was read of it is there, uncommitted.)
        """
        written = {path.name for path in (self.folder / "blocks").iterdir()} - self._seen
        named = {m.file for m in messages if isinstance(m, Commit) and m.blocks}
        assert named <= written, f"{named - written} are not there"
        self._seen |= written
        return [block for name in sorted(written) for block in self._read(name)]

    def _read(self, name: str) -> Iterator[FlowBlock]:
        with (
            (self.folder / "blocks" / name).open("rb") as stream,
            suppress(TruncatedRecordBatchError),
        ):
            for frame in read_record_batches(stream):
                header = BlockHeader.from_json(frame.header)
                yield decode_csv(decompress_payload(frame.payload), header)


@dataclass
class Lineage:
    """The lineage of one program's actions."""

    program: Program
    messages: list[Message]
    blocks: list[FlowBlock]
    feeds: dict[Item, set[Item]] = field(default_factory=dict)
    inexact: set[Item] = field(default_factory=set)

    def __post_init__(self) -> None:
        for block in self.blocks:
            made = [
                (space_of(block, k), o) for k in range(block.rows) for o in outputs_of(block, k)
            ]
            for item in made:
                self.feeds.setdefault(item, set())
            for in_space, i, out_space, o in associations(block):
                self.feeds[(out_space, o)].add((in_space, i))
            if not block.exact:
                self.inexact.update(made)
        registered = [m for m in self.messages if isinstance(m, Register)]
        self.nodes = {m.node: m for m in registered}
        read = [m for m in registered if m.kind == "source"]
        self.sources = {
            node.node: source for node, source in zip(read, self.program.sources, strict=True)
        }
        self.splits = {m.node: m.splits for m in self.messages if isinstance(m, Splits)}
        self._files = dict(self._records())
        self.rows: dict[str, dict[int, int]] = {}
        for m in self.messages:
            if isinstance(m, Commit):
                reached = m.rows if m.keep is None else m.keep
                self.rows.setdefault(m.node, {})[m.partition] = reached

    @property
    def jobs(self) -> list[Job]:
        """The actions, in order."""
        return [m for m in self.messages if isinstance(m, Job)]

    @property
    def complaints(self) -> list[str]:
        """Everything that would make the verdict incomplete."""
        failed = [m.failed for m in self.messages if isinstance(m, Commit) and m.failed]
        unknown = [f"{m.what}: {m.reason}" for m in self.messages if isinstance(m, Unknown)]
        return failed + unknown

    def sink_partitions(self, sink: str) -> list[int]:
        """Partitions of a sink that were computed, in order."""
        return sorted(self.rows.get(sink, {}))

    def newlines(self, sink: str, partition: int) -> dict[int, int]:
        """Row ordinal -> newlines inside the row."""
        return {
            row: count
            for m in self.messages
            if isinstance(m, Commit) and (m.node, m.partition) == (sink, partition)
            for row, count in m.newlines
        }

    def files_of(self, sink: str) -> dict[int, Path]:
        """Partition -> part file."""
        return {
            file.partition: Path(file.path.removeprefix("file://").removeprefix("file:"))
            for m in self.messages
            if isinstance(m, SinkFiles) and m.node == sink
            for file in m.files
        }

    def back(self, space: str, position: int) -> Trace:
        """Source rows that can be reached backward from an item."""
        found: set[Witness] = set()
        exact = True
        seen: set[Item] = set()
        waiting: list[Item] = [(space, position)]
        while waiting:
            item = waiting.pop()
            if item in seen:
                continue
            seen.add(item)
            node = parse_space(item[0]).name
            if node in self.sources:
                found.add(self.witness(item))
                continue
            if item not in self.feeds and len(seen) > 1:
                raise AssertionError(f"nothing is known of {item}, which {space}#{position} needs")
            exact &= item not in self.inexact
            exact &= node not in self.nodes or self.nodes[node].exact
            waiting.extend(self.feeds.get(item, ()))
        return Trace(frozenset(found), exact)

    def witness(self, item: Item) -> Witness:
        """The source row that an item of a source is."""
        space = parse_space(item[0])
        node, source = space.name, self.sources[space.name]
        if source.kind == "list":
            return _of_list(source, space.partition, item[1])
        if source.kind != "text":
            return self._files[item]
        split = next(s for s in self.splits[node] if s.partition == space.partition)
        name = split.path.rpartition("/")[2]
        content = dict(source.files)[name]
        starts = [start for start, _ in lines_of(content)]
        before = bisect.bisect_right(starts, split.start) if split.start else 0
        assert before + item[1] < len(starts), f"{item} is past the end of {name}"
        return (name, before + item[1])

    def _records(self) -> Iterator[tuple[Item, Witness]]:
        """Items that are records of files, or files as a whole."""
        for m in self.messages:
            if not isinstance(m, RecordSplits) or m.node not in self.sources:
                continue
            source = self.sources[m.node]
            assert m.whole == (source.kind == "whole")
            for split in m.splits:
                name, space = split.path.rpartition("/")[2], f"{m.node}#{split.partition}"
                assert (split.start, split.length) == (0, len(dict(source.files)[name]))
                if m.whole:
                    yield (space, split.row), (name, 0)
                else:
                    assert split.first == 0
                    for row in range(len(records_of(dict(source.files)[name]))):
                        yield (space, row), (name, row)

    def source_items(self) -> dict[Item, Witness]:
        """Every item of every source that some job read."""
        found = dict(self._files)
        for node, source in self.sources.items():
            if source.kind == "list":
                dealt = list_partitions(source.rows, source.partitions)
                for partition, rows in enumerate(dealt):
                    found |= {
                        (f"{node}#{partition}", k): (source.name, row)
                        for k, (row, _) in enumerate(rows)
                    }
            for split in self.splits.get(node, ()):
                name = split.path.rpartition("/")[2]
                starts = [start for start, _ in lines_of(dict(source.files)[name])]
                stop = len(starts)
                if not split.compressed:
                    stop = bisect.bisect_right(starts, split.start + split.length)
                first = bisect.bisect_right(starts, split.start) if split.start else 0
                found |= {
                    (f"{node}#{split.partition}", k): (name, first + k) for k in range(stop - first)
                }
        return found


def of_one_program(
    program: Program, messages: list[Message], blocks: list[FlowBlock]
) -> tuple[Lineage, list[Message]]:
    """The lineage of the program that ``messages`` begin with, and the messages after it."""
    ends = [k for k, m in enumerate(messages) if isinstance(m, Job)]
    stop = ends[len(program.sinks) - 1] + 1
    mine = messages[:stop]
    nodes = {m.node for m in mine if isinstance(m, Register)}
    own = [block for block in blocks if block.block_id.node in nodes]
    return Lineage(program, mine, own), messages[stop:]


def _of_list(source: Source, partition: int, ordinal: int) -> Witness:
    row, _ = list_partitions(source.rows, source.partitions)[partition][ordinal]
    return (source.name, row)


def saved_items(lineage: Lineage, sink: str) -> list[tuple[str, Item]]:
    """(text, item) of every row that a sink wrote; a row may be several lines."""
    found: list[tuple[str, Item]] = []
    for partition, path in sorted(lineage.files_of(sink).items()):
        lines = path.read_bytes().decode("utf-8").split("\n")[:-1]
        newlines = lineage.newlines(sink, partition)
        row = line = 0
        while line < len(lines):
            stop = line + 1 + newlines.get(row, 0)
            found.append(("\n".join(lines[line:stop]), (f"{sink}#{partition}", row)))
            row, line = row + 1, stop
        assert row == lineage.rows.get(sink, {}).get(partition, 0)
    return found


def given_items(lineage: Lineage, sink: str) -> list[Item]:
    """The item of every row that an action gave, in the order in which it gave them."""
    return [
        (f"{sink}#{partition}", row)
        for partition in lineage.sink_partitions(sink)
        for row in range(lineage.rows[sink][partition])
    ]
