"""Which datasets the nodes of an application used, and in which versions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeAlias

from lineage_core.contract.message import Message, RecordFiles, RecordSplits
from lineage_core.tracing.budget import current_budget
from lineage_openlineage.datasets import dataset_name, paths_by_dataset
from lineage_store.dataset_paths import is_no_file
from lineage_store.recorded_files import file_versions

DatasetName: TypeAlias = tuple[str, str]
"""Namespace and name."""
DIGEST_BYTES = 16
FILES = "files"
"""How the version of files begins, which no table's does."""


@dataclass(slots=True)
class Use:
    """What a node read or wrote, of one dataset or of all."""

    files: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    """By path the size, and the time of modification in milliseconds, which a writer and a reader of a file both record."""
    table_versions: set[str] = field(default_factory=set)


Uses: TypeAlias = Mapping[DatasetName, Mapping[str, Use]]
"""By dataset and node."""


def uses_of(
    messages: Iterable[Message], path_of: Callable[[str], str], cwd: str
) -> tuple[Uses, Uses]:
    """The datasets that nodes read, and those that nodes wrote.

    Args:
        messages: those that name files.
        path_of: what the program named, by node.
        cwd: where relative paths of the program begin.

    Raises:
        BudgetError: the query takes more time than it may.
    """
    nodes: dict[tuple[str, bool], Use] = {}
    for message in messages:
        current_budget().check()
        for node, path, version, wrote in file_versions(message):
            state = version.size, round(version.mtime * 1000)
            nodes.setdefault((node, wrote), Use()).files.setdefault(path, set()).add(state)
        if isinstance(message, RecordSplits | RecordFiles) and message.version:
            key = message.node, isinstance(message, RecordFiles)
            nodes.setdefault(key, Use()).table_versions.add(message.version)
    uses: tuple[dict[DatasetName, dict[str, Use]], ...] = ({}, {})
    for (node, wrote), of_node in nodes.items():
        for dataset, paths in paths_by_dataset(path_of(node), of_node.files, cwd).items():
            use = Use({path: of_node.files[path] for path in paths}, of_node.table_versions)
            uses[wrote].setdefault(dataset, {})[node] = use
    read, written = uses
    return read, written


def version_of(uses: Iterable[Use]) -> str:
    """The version of a dataset that a run used; empty: there is none, or several.

    A table has its own: a version of Delta Lake, a snapshot of Iceberg, offsets of a topic. The version of files is a digest
    of their names, sizes and times, without those that are empty.
    """
    uses = list(uses)
    table_versions = {version for use in uses for version in use.table_versions}
    if table_versions:
        # Where a node used the table's files by themselves, these may be of another version.
        is_one = len(table_versions) == 1 and all(use.table_versions for use in uses)
        return table_versions.pop() if is_one else ""
    return _version_of_files(uses)


def _version_of_files(uses: Sequence[Use]) -> str:
    files: dict[str, set[tuple[int, int]]] = {}
    for use in uses:
        for path, states in use.files.items():
            files.setdefault(path, set()).update(states)
    if not files or any(is_no_file(path) or len(states) > 1 for path, states in files.items()):
        return ""
    listed = sorted(
        (*dataset_name(path), size, mtime_ms)
        for path, states in files.items()
        for size, mtime_ms in states
        if size
    )
    digest = blake2b(json.dumps(listed).encode(), digest_size=DIGEST_BYTES).hexdigest()
    return f"{FILES}:{len(listed)}:{digest}"
