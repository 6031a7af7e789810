"""Versions of tables that nodes read and wrote, as their recipes say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lineage_core.contract.graph import FlowGraph
from lineage_core.errors import RecipeError, VersionError
from lineage_core.recipe.document import File, Output, Recipe, Source
from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_core.recipe.row_ids import FileRowIds, row_ids_of
from lineage_core.tracing.budget import current_budget
from lineage_store.paths import RowsError, plain_path

VERSION_MAX = 20
"""Maximum number of digits of a version: those of a 64-bit integer."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table in the version that a node read or wrote. ``path``: its folder. ``metadata``: of Iceberg, the file that describes it."""

    kind: str
    path: str
    version: str
    metadata: str = ""

    def __str__(self) -> str:
        name = "version" if self.kind == DELTA else "snapshot"
        return f"{name} {self.version} of {plain_path(self.path)}"


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of a table that a node read or wrote, by path as it named them, and the ids of their rows, where the table gives any."""

    table: TableVersion
    files: Mapping[str, File]
    row_ids: Mapping[str, FileRowIds]


@dataclass(frozen=True, slots=True)
class UnknownCommit:
    """A write of an application to a table of Delta Lake that made one of the versions from ``first`` to ``last``."""

    app: str
    path: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"one of the versions {self.first} to {self.last} of {plain_path(self.path)}"


def tables_read(graph: FlowGraph, nodes: Iterable[str]) -> list[TableVersion]:
    """The tables that some nodes read.

    Raises:
        RowsError: a recipe can't be read.
    """
    return [read.table for read in files_read(graph, nodes)]


def tables_written(graph: FlowGraph, nodes: Iterable[str]) -> list[TableVersion]:
    """The tables that some nodes wrote, in the versions that they made.

    Raises:
        RowsError: a recipe can't be read.
    """
    return [written.table for written in files_written(graph, nodes)]


def files_read(graph: FlowGraph, nodes: Iterable[str]) -> list[TableFiles]:
    """The same as :func:`tables_read`, with the files."""
    return [
        _with_files(table, source)
        for recipe in _recipes(graph, nodes)
        for source in recipe.sources
        for table in _table(source.format, source.name, source.version, source.options)
    ]


def files_written(graph: FlowGraph, nodes: Iterable[str]) -> list[TableFiles]:
    """The same as :func:`tables_written`, with the files."""
    return [
        _with_files(table, output)
        for output in outputs(graph, nodes)
        for table in _table(_kind_of(output), output.path, output.version, output.options)
    ]


def _with_files(table: TableVersion, of_files: Source | Output) -> TableFiles:
    files = of_files.files
    try:
        ids = row_ids_of(of_files.options, files)
    except RecipeError as problem:
        raise RowsError(f"a recipe can't be read: {problem}") from problem
    return TableFiles(table, {file.path: file for file in files}, ids)


def outputs(graph: FlowGraph, nodes: Iterable[str]) -> list[Output]:
    """What some nodes wrote, those without a recipe left out.

    Raises:
        RowsError: a recipe can't be read.
    """
    return [recipe.output for recipe in _recipes(graph, nodes)]


def unknown_commit(app: str, output: Output) -> UnknownCommit | None:
    """The commit of a write of which it is not known which version it made; None: it is no such write."""
    if output.path is None or len(output.commits) != 2:
        return None
    return UnknownCommit(app, output.path, *output.commits)


def _recipes(graph: FlowGraph, nodes: Iterable[str]) -> Iterator[Recipe]:
    for node in nodes:
        current_budget().check()
        text = graph.recipe(node)
        if text is None:
            continue
        try:
            yield Recipe.from_json(text)
        except (RecipeError, VersionError) as problem:
            raise RowsError(f"a recipe can't be read: {problem}") from problem


def _kind_of(output: Output) -> str | None:
    if output.format is not None or output.version is None:
        return output.format
    # Its columns hold those of the output under other names.
    return ICEBERG if "metadata" in output.options else DELTA


def _table(
    kind: str | None, path: str | None, version: str | None, options: Mapping[str, str]
) -> Iterator[TableVersion]:
    if kind not in {DELTA, ICEBERG} or path is None or version is None:
        return
    if version.isdecimal() and len(version) <= VERSION_MAX:
        yield TableVersion(kind, path, version, options.get("metadata", ""))
