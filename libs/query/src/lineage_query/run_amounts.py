"""How much a run read and wrote, as far as what it recorded tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lineage_core.contract.message import (
    Commit,
    Message,
    RecordFiles,
    RecordSplits,
    Register,
    SinkFiles,
    Splits,
)
from lineage_core.contract.verdict import ARRAY
from lineage_core.tracing.budget import current_budget
from lineage_store.dataset_paths import is_no_file, is_table_log
from lineage_store.recorded_files import FileVersion, file_versions
from lineage_store.records import split_reads


@dataclass(frozen=True, slots=True)
class Amount:
    """How much was read, or written; None: not known.

    ``bytes``: of the files, each version as a whole and once. ``rows``: of text files lines, else records.
    """

    bytes: int | None = None
    rows: int | None = None


UNKNOWN = Amount()


def bytes_used(messages: Iterable[Message], *, wrote: bool) -> int | None:
    """The bytes of all files that messages of a run say it read, or wrote; None: not known of all, or there are none."""
    versions: dict[tuple[str, FileVersion], None] = {}
    for message in messages:
        current_budget().check()
        for _, path, version, is_written in file_versions(message):
            if is_written == wrote:
                if is_no_file(path) or is_table_log(path) or version.is_unknown:
                    return None
                versions[path, version._replace(checksum="")] = None
    return sum(version.size for _, version in versions) if versions else None


def rows_written(messages: Iterable[Message]) -> int | None:
    """The rows of all files that messages of a run say it wrote; None: not known of all, or there are none."""
    rows: dict[tuple[str, int, str], int | None] = {}
    for message in messages:
        current_budget().check()
        if isinstance(message, SinkFiles | RecordFiles):
            for file in message.files:
                rows[message.node, file.partition, file.path] = file.rows
    return _total(rows.values())


def rows_read(messages: Iterable[Message]) -> int | None:
    """The rows that tasks counted of all files that a run read, each once; None: not known of all, or there are none.

    Args:
        messages: of a run, its commits among them.
    """
    splits: dict[tuple[str, int, int, int, float], list[str]] = {}
    rows: dict[str, int | None] = {}
    reads: list[tuple[str, int, bool, str]] = []
    arrays: set[str] = set()
    for message in messages:
        current_budget().check()
        if isinstance(message, Register) and message.op == ARRAY:
            arrays.add(message.node)
        elif isinstance(message, Commit):
            reads += [(read.space, read.rows, read.exhausted, "") for read in message.reads]
        elif isinstance(message, Splits | RecordSplits):
            for space, key, count in _splits_of(message, is_array=message.node in arrays):
                splits.setdefault(key, []).append(space)
                rows[space] = count
    rows |= {space: read.rows for space, read in split_reads(reads).items() if space in rows}
    counted = [[rows[space] for space in spaces] for spaces in splits.values()]
    # Several nodes may have read one part of a file.
    return _total(
        max((count for count in of_part if count is not None), default=None) for of_part in counted
    )


def _splits_of(
    message: Splits | RecordSplits, *, is_array: bool
) -> Iterator[tuple[str, tuple[str, int, int, int, float], int | None]]:
    """Each part of a file that a node read: its space, what tells it from others, and how many rows it has if that is known at once."""
    is_whole = isinstance(message, RecordSplits) and message.whole
    for split in message.splits:
        space = f"{message.node}#{split.partition}"
        if is_whole:
            # A record each, and several in a partition.
            space = f"{space}/{split.path}"
        key = split.path, split.start, split.length, split.file_size, split.mtime
        yield space, key, 1 if is_whole and not is_array else None


def _total(counts: Iterable[int | None]) -> int | None:
    listed = list(counts)
    known = [count for count in listed if count is not None]
    return sum(known) if known and len(known) == len(listed) else None
