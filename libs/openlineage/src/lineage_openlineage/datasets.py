"""Files, tables and topics as OpenLineage datasets: a namespace for where they are, a name for what they are.

A dataset is what the program named (a file or a folder), wherever it was then: ``out`` of one run is
the dataset that another run read as ``/data/out``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.contract.message import Message
from lineage_core.tracing.budget import current_budget
from lineage_store.dataset_paths import UnfiledDataset, unfiled_dataset
from lineage_store.paths import split_scheme
from lineage_store.recorded_files import file_versions

FILES_NAMED = 100
"""Maximum number of files of a source with a pattern that are reported one by one; else their folders are reported."""

_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "viewfs": "hdfs"}
_OBJECT_STORES = ("s3", "gs", "wasb", "wasbs")
"""Schemes whose object names are keys, without a leading slash."""
_WITH_AUTHORITY = re.compile(r"//(?P<authority>[^/]*)(?P<path>/.*)?", re.DOTALL)

_DATABASES = {"postgresql": "postgres", "sqlserver": "mssql"}
"""Schemes of databases that OpenLineage calls otherwise."""
_DATABASE = re.compile(r"(?P<scheme>\w+)://(?P<authority>[^/]*)(?:/(?P<database>[^/]*))?")


@dataclass(frozen=True, slots=True)
class RunDataset:
    """One dataset of a run. ``rows``: read or written, as far as known. ``size`` in bytes. ``version``: empty if not known."""

    namespace: str
    name: str
    rows: int | None = None
    size: int | None = None
    files: int | None = None
    version: str = ""


@dataclass(frozen=True, slots=True)
class _File:
    """A file that a node read or wrote, as Spark names it."""

    path: str
    rows: int | None
    size: int


def dataset_name(path: str) -> tuple[str, str]:
    """Namespace and name of a path, as OpenLineage's naming rules have them.

    ``/a/b`` and ``file:/a/b`` are ("file", "/a/b"), ``hdfs://nn:8020/a`` is ("hdfs://nn:8020", "/a"),
    ``s3a://bucket/a`` is ("s3://bucket", "a"). A path that stands for a table of a database or a topic
    (:mod:`lineage_store.dataset_paths`) is its name: ("postgres://db:5432", "shop.public.orders").
    """
    unfiled = unfiled_dataset(path)
    if unfiled is not None:
        return _name_of_unfiled(unfiled)
    scheme, path_in_scheme = split_scheme(path)
    if scheme == "file":
        return "file", posixpath.normpath(path_in_scheme)
    match = _WITH_AUTHORITY.fullmatch(path_in_scheme)
    authority, inner = (match["authority"], match["path"] or "/") if match else ("", path_in_scheme)
    scheme = _SAME.get(scheme, scheme)
    name = posixpath.normpath(re.sub("/+", "/", inner))
    if scheme in _OBJECT_STORES:
        name = name.lstrip("/") or "/"
    return f"{scheme}://{authority}", name


def _name_of_unfiled(dataset: UnfiledDataset) -> tuple[str, str]:
    url = dataset.address.removeprefix("jdbc:")
    match = _DATABASE.fullmatch(url)
    if match is None:
        return url, ".".join(dataset.parts)
    scheme = _DATABASES.get(match["scheme"], match["scheme"])
    parts = (*filter(None, [match["database"]]), *dataset.parts)
    return f"{scheme}://{match['authority']}", ".".join(parts)


def inputs_of(graph: FlowGraph, cwd: str = "") -> list[RunDataset]:
    """The datasets that the sources of an application read; sources without files are left out.

    ``cwd``: the folder for relative paths of the program.
    """
    datasets = []
    for node in _nodes(graph, "source", "frame-source"):
        # A file may be read in several splits: its rows are those of all.
        files: dict[str, _File] = {}
        for split in graph.splits(node.node):
            first_split = files.get(split.path)
            rows = split.rows
            if first_split is not None:
                rows = (
                    None
                    if None in (rows, first_split.rows)
                    else (rows or 0) + (first_split.rows or 0)
                )
            files[split.path] = _File(split.path, rows, split.file_size)
        datasets += _datasets(node, list(files.values()), cwd)
    return each_once(datasets)


def outputs_of(graph: FlowGraph, cwd: str = "") -> list[RunDataset]:
    """The datasets that the sinks of an application wrote; sinks without files are left out."""
    datasets = []
    for node in _nodes(graph, "sink", "frame", "unknown"):
        files = [
            _File(sink_file.path, sink_file.rows, sink_file.size)
            for sink_file in graph.sink_files(node.node)
        ]
        datasets += _datasets(node, files, cwd)
    return each_once(datasets)


def unfiled_uses(messages: Iterable[Message]) -> tuple[list[RunDataset], list[RunDataset]]:
    """The tables of databases and the topics that an application read, and those that it wrote: without rows and sizes.

    ``messages``: those that name files.
    """
    uses: tuple[list[RunDataset], list[RunDataset]] = [], []
    for message in messages:
        for _, path, _, wrote in file_versions(message):
            dataset = unfiled_dataset(path)
            if dataset is not None:
                uses[wrote].append(RunDataset(*_name_of_unfiled(dataset)))
    return each_once(uses[0]), each_once(uses[1])


def _nodes(graph: FlowGraph, *kinds: str) -> Iterable[NodeRecord]:
    return (node for node in graph.nodes() if node.kind in kinds)


def _datasets(node: NodeRecord, files: Sequence[_File], cwd: str) -> list[RunDataset]:
    """The datasets that a node's files belong to."""
    by_path: dict[str, list[_File]] = {}
    for file in files:
        by_path.setdefault(file.path, []).append(file)
    return [
        _dataset(name, [file for path in paths for file in by_path[path]])
        for name, paths in paths_by_dataset(node.path or "", list(by_path), cwd).items()
    ]


def paths_by_dataset(
    node_path: str, paths: Iterable[str], cwd: str = ""
) -> dict[tuple[str, str], list[str]]:
    """The datasets that files of a node belong to, by namespace and name.

    Args:
        node_path: what the program read or wrote; several paths are separated by commas.
        paths: the files, each once.
        cwd: where relative paths of the program begin.

    Raises:
        BudgetError: the query takes more time than it may.
    """
    node_paths = list(dict.fromkeys(part for part in node_path.split(",") if part))
    parts: dict[tuple[str, str], list[str]] = {}
    unnamed: list[str] = []
    owners = _Owners(node_paths, cwd)
    for path in paths:
        owner = owners.of(path)
        if owner is None:
            unnamed.append(path)
        else:
            parts.setdefault(owner, []).append(path)
    for path in unnamed:
        parts.setdefault(_by_itself(path, folder=len(unnamed) > FILES_NAMED), []).append(path)
    return parts


class _Owners:
    """The paths that a program named, found by the folders of a file: there may be very many of both."""

    def __init__(self, node_paths: Iterable[str], cwd: str) -> None:
        self._paths: dict[tuple[str | None, str], tuple[int, str]] = {}
        """By namespace (None: any) and path without slashes at its ends: the number of the first one, and the path."""
        self._tails = _Tails()
        for number, node_path in enumerate(node_paths):
            current_budget().check()
            self._add(number, node_path, cwd)
        self._tails.link()
        self._lengths = sorted({len(path) for _, path in self._paths})

    def _add(self, number: int, node_path: str, cwd: str) -> None:
        scheme, path_in_scheme = split_scheme(node_path)
        namespace: str | None = None
        path: str | None = None
        if scheme != "file" or node_path.startswith(("/", "file:")):
            namespace, path = dataset_name(node_path)
            if node_path.startswith("/"):
                # A path without a scheme is on the default file system, which the recorded file names.
                namespace = None
        elif cwd:
            path = posixpath.normpath(posixpath.join(cwd, path_in_scheme))
        if path is not None:
            self._paths.setdefault((namespace, path.strip("/")), (number, path))
        # The program may have had another working directory, as Hadoop has.
        if scheme == "file" and not node_path.startswith("/"):
            parts = posixpath.normpath(path_in_scheme).split("/")
            tail = [part for part in parts if part not in ("", ".", "..")]
            if tail:
                self._tails.add(tail, number)

    def of(self, file_path: str) -> tuple[str, str] | None:
        """The dataset of the first path that a file is, or lies under."""
        current_budget().check()
        namespace, name = dataset_name(file_path)
        first: int | None = None
        found = None
        for folder in self._folders_of(name.lstrip("/")):
            for of_namespace in (namespace, None):
                number, path = self._paths.get((of_namespace, folder), (None, ""))
                if number is not None and (first is None or number < first):
                    first = number
                    found = namespace, path if name.startswith("/") else path.lstrip("/") or "/"
        tail = self._tails.find(name)
        if tail is not None and (first is None or tail[0] < first):
            found = namespace, tail[1]
        return found

    def _folders_of(self, name: str) -> Iterator[str]:
        """Of a path without a slash before it, the folders above, and the root, those that are as long as a named path.

        A path may have very many folders, and all their names together are as long as the square of that.
        """
        for length in self._lengths:
            if length > len(name):
                return
            if length in (0, len(name)) or name[length] == "/":
                yield name[:length]


class _Tails:
    """Paths of which the first folders are not known, found in others in one pass over their folders.

    Aho and Corasick, "Efficient string matching: an aid to bibliographic search" (1975), over the parts of paths.
    """

    def __init__(self) -> None:
        self._next: list[dict[str, int]] = [{}]
        """By state (0: nothing matches) and part of a path the next state."""
        self._shorter = [0]
        """By state the state of the longest end of it that begins a tail."""
        self._first: list[int | None] = [None]
        """By state the first number of the tails that end there."""

    def add(self, tail: Iterable[str], number: int) -> None:
        """Add a tail; of two that are the same the first one counts."""
        state = 0
        for part in tail:
            if part not in self._next[state]:
                self._next[state][part] = len(self._next)
                self._next.append({})
                self._shorter.append(0)
                self._first.append(None)
            state = self._next[state][part]
        self._first[state] = _least(self._first[state], number)

    def link(self) -> None:
        """See that tails are found that begin within others: after the last one was added, and once."""
        states = list(self._next[0].values())
        for state in states:
            current_budget().check()
            for part, longer in self._next[state].items():
                self._shorter[longer] = self._step(self._shorter[state], part)
                self._first[longer] = _least(
                    self._first[longer], self._first[self._shorter[longer]]
                )
                states.append(longer)

    def find(self, name: str) -> tuple[int, str] | None:
        """The first tail that a path has in it: its number, and the path up to where it lies last."""
        if len(self._next) == 1:
            return None
        state, found, stop = 0, None, 0
        parts = name.split("/")
        for at, part in enumerate(parts, 1):
            state = self._step(state, part)
            number = self._first[state]
            if number is not None and (found is None or number <= found):
                found, stop = number, at
        return None if found is None else (found, "/".join(parts[:stop]))

    def _step(self, state: int, part: str) -> int:
        while state and part not in self._next[state]:
            state = self._shorter[state]
        return self._next[state].get(part, 0)


def _least(one: int | None, other: int | None) -> int | None:
    return min((number for number in (one, other) if number is not None), default=None)


def _by_itself(path: str, *, folder: bool) -> tuple[str, str]:
    namespace, name = dataset_name(path)
    return namespace, (posixpath.dirname(name) or name) if folder else name


def _dataset(name: tuple[str, str], files: Sequence[_File]) -> RunDataset:
    rows = [file.rows for file in files]
    row_count = None if None in rows else sum(row or 0 for row in rows)
    return RunDataset(
        *name, rows=row_count, size=sum(file.size for file in files), files=len(files)
    )


def each_once(datasets: Iterable[RunDataset]) -> list[RunDataset]:
    """Datasets by name; of those that two nodes used the first."""
    unique: dict[tuple[str, str], RunDataset] = {}
    for dataset in datasets:
        unique.setdefault((dataset.namespace, dataset.name), dataset)
    return list(unique.values())
