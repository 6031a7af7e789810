"""Outputs of several writes: which writes still have rows in the output, and whether unknown writers wrote to it.

All writes to a path or table whose files still exist unchanged form one output. A write is identified by its files: if
no longer exists, it was overwritten. Of a versioned table the log decides: rows may have been moved to
other files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.errors import RecipeError, VersionError
from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_core.tracing.budget import current_budget
from lineage_query.rows.file_status import FileStatus, has_changed
from lineage_query.rows.locations import Locations
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_commits import EARLIER, Commits, commits_of, is_versioned_table
from lineage_query.showing import names_text
from lineage_store.paths import RowsError, canonical
from lineage_store.port import GraphStore
from lineage_store.recorded_files import PATH_MAX

if TYPE_CHECKING:
    from lineage_core.recipe.document import Output

FILES_NAMED = 3


@dataclass(frozen=True, slots=True)
class Write:
    """One write to an output. ``files``: by canonical path, each one's status compared with what was written."""

    app: str
    node: str
    files: dict[str, FileStatus]
    table: Output | None = None
    """The output, if it is a versioned table: its files don't show its current content."""
    current_files: tuple[str, ...] = ()
    """The files that are unchanged since this write, and not overwritten by a later one."""

    @property
    def version(self) -> str | None:
        """The version of the table that it wrote; None if unknown."""
        return None if self.table is None else self.table.version

    @property
    def gone(self) -> bool:
        """Whether all of its files are gone or overwritten."""
        return bool(self.files) and not self.current_files

    def uncertainty(self, name: str, *, of_table: bool) -> str:
        """Why its rows may no longer be in the output; empty: they are there.

        ``of_table``: whether the output is now a versioned table.
        """
        if of_table:
            return f"{name} is a table with versions: which rows of earlier writes it still holds is not known"
        if not self.files:
            return (
                f"whether {name} still holds what {self.app} (node {self.node}) wrote is not known"
            )
        lost = [path for path in self.files if path not in self.current_files]
        if not lost:
            return ""
        return (
            f"of the {len(self.files):,} files that {self.app} (node {self.node}) wrote to {name}, "
            f"{_named(lost)} changed or deleted since: some of its rows may be gone"
        )


@dataclass(frozen=True, slots=True)
class OutputState:
    """An output as it is now.

    ``writes``: those to query, the latest first. ``gaps``: other content of the output, which makes an answer
    incomplete. ``warnings``: further warnings. ``changed``: files have changed since they were written.
    """

    writes: tuple[Write, ...]
    uncertainties: dict[tuple[str, str], str] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    changed: bool = False


def writes_to(store: GraphStore, reader: RowReader, name: str, apps: Iterable[str]) -> list[Write]:
    """The writes of DataFrames to a path or a table, the latest first."""
    path = canonical(name)
    writes: list[Write] = []
    for app in apps:
        graph = store.graph(app)
        nodes = [node for node in graph.nodes() if _wrote_to(node, name, path)]
        if nodes:
            locations = Locations(graph, reader.of_application(app))
            writes += [
                Write(app, node.node, locations.file_statuses(node.node), _table_of(graph, node))
                for node in reversed(nodes)
            ]
    return writes


def output_state(reader: RowReader, name: str, writes: Sequence[Write]) -> OutputState:
    """What remains of some writes.

    Args:
        reader: lists the files.
        name: the output's path or table.
        writes: all that are known, of one application or of all, the latest first.
    """
    owned_writes = _with_current_files(writes)
    tables = [write for write in owned_writes if write.table is not None]
    is_table_now = bool(tables) or _is_table(reader, name)
    commits, unseen = _commits(reader, name, tables) if is_table_now else (None, "")
    remaining = [write for write in owned_writes if not _is_gone(write, commits)]
    changed = any(
        has_changed(status) for write in remaining for status in _file_statuses(write, commits)
    )
    warnings: tuple[str, ...] = ()
    # Only for outputs other than tables: no known write is later.
    certain = (
        [write for write in remaining if _has_all_rows(write, commits)]
        if is_table_now
        else remaining[:1]
    )
    if not remaining and owned_writes:
        remaining, changed = owned_writes[:1], True
        warnings = (
            f"{name}: no file is unchanged since it was written; the answer is about what "
            f"{remaining[0].app} wrote",
        )
    uncertainties = {
        (write.app, write.node): write.uncertainty(name, of_table=is_table_now)
        for write in remaining
        if (is_table_now or not warnings)
        and not (write in certain and (is_table_now or not write.files))
    }
    gaps = (
        _foreign_commits(name, commits, unseen)
        if is_table_now
        else _gaps(reader, name, owned_writes)
    )
    if warnings and len(owned_writes) > 1:
        gaps += (f"{name}: which of {len(owned_writes):,} known writes it held last is not known",)
    return OutputState(
        tuple(remaining),
        {key: why for key, why in uncertainties.items() if why},
        gaps,
        warnings,
        changed,
    )


def _is_logged(write: Write, commits: Commits | None) -> bool:
    """Whether a table's log confirms a write: if the log lists files, the commit must have added exactly the write's."""
    if commits is None or write.version is None:
        return False
    if commits.files is None:
        return write.version in commits.changes or commits.was_replaced(write.version)
    names = _names_of(write)
    return bool(names) and names == commits.added.get(write.version)


def _is_gone(write: Write, commits: Commits | None) -> bool:
    """Whether nothing of a write remains. Its rows may have moved to other files: a table's log decides."""
    if commits is not None and write.version is not None:
        if _is_logged(write, commits):
            return write.version not in commits.changes
        if commits.was_replaced(write.version):
            return True
    return write.gone


def _is_table(reader: RowReader, name: str) -> bool:
    try:
        return is_versioned_table(reader, name)
    except RowsError:
        return True


def _has_all_rows(write: Write, commits: Commits | None) -> bool:
    """Whether a table has all rows of a write, according to its log and its files."""
    return (
        commits is not None
        and _is_logged(write, commits)
        and write.version in commits.complete_versions
        and not any(has_changed(state) for state in _file_statuses(write, commits))
    )


def _file_statuses(write: Write, commits: Commits | None) -> Iterator[FileStatus]:
    """The status of those files of a write that its output should have."""
    files = commits.files if commits is not None and _is_logged(write, commits) else None
    for file, state in write.files.items():
        if files is None or file.rpartition("/")[2] in files:
            yield state


def _names_of(write: Write) -> frozenset[str]:
    return frozenset(file.rpartition("/")[2] for file in write.files)


def _with_current_files(writes: Sequence[Write]) -> list[Write]:
    """The writes with the files of each: a file belongs to the write that left its current state, or else to the last."""
    owner: dict[str, int] = {}
    for accepted_statuses in (("same",), ("touched", "unknown")):
        for at, write in enumerate(writes):
            for path, file_status in write.files.items():
                if file_status in accepted_statuses:
                    owner.setdefault(path, at)
    return [
        Write(
            write.app,
            write.node,
            write.files,
            write.table,
            tuple(path for path in write.files if owner.get(path) == at),
        )
        for at, write in enumerate(writes)
    ]


def _gaps(reader: RowReader, name: str, writes: Sequence[Write]) -> tuple[str, ...]:
    """Files of an output that no known write produced in their current state."""
    recorded_files = {file for write in writes for file in write.files}
    if not recorded_files:
        return ()
    try:
        existing_files = reader.files_below(canonical(name))
    except RowsError as error:
        return (f"{name}: whether other programs wrote to it is not known: {error}",)
    owned_files = {file for write in writes for file in write.current_files}
    unowned_files = [file for file in existing_files if file not in owned_files]
    changed = [file for file in unowned_files if file in recorded_files]
    unknown = [file for file in unowned_files if file not in recorded_files]
    gaps: list[str] = []
    if changed:
        gaps.append(f"{name}: {_named(changed)} changed since by an unknown write")
    if unknown:
        # They may be another application's, which the caller does not see.
        named = _named(unknown) if reader.names_unknown_files else "some of its files were"
        gaps.append(f"{name}: {named} not written by any known DataFrame")
    return tuple(gaps)


def _commits(reader: RowReader, name: str, writes: Sequence[Write]) -> tuple[Commits | None, str]:
    """The commits of a table with versions, or the reason why they are not known."""
    table_paths = (write.table.path for write in writes if write.table is not None)
    table_path = next((path for path in table_paths if path is not None), None if writes else name)
    files_by_version: dict[str, list[frozenset[str]]] = {}
    for write in writes:
        if write.version is not None:
            files_by_version.setdefault(write.version, []).append(_names_of(write))
    remaining_versions = {
        write.version for write in writes if write.version is not None and write.current_files
    }
    try:
        if table_path is None:
            raise RowsError("its folder is not known")
        return commits_of(reader, table_path, files_by_version, remaining_versions), ""
    except RowsError as error:
        return None, str(error)


def _foreign_commits(name: str, commits: Commits | None, unseen: str) -> tuple[str, ...]:
    """Commits of a table by unknown writers."""
    if commits is None:
        return (f"{name}: whether other programs wrote to it is not known: {unseen}",)
    versions_name = "snapshots" if commits.files is None else "versions"
    unknown_versions = [version for version in commits.foreign_versions if version != EARLIER]
    gaps = []
    if unknown_versions:
        gaps = [
            f"{name}: of its {versions_name}, {_named(unknown_versions)} not written by any known DataFrame"
        ]
    if EARLIER in commits.foreign_versions:
        gaps.append(
            f"{name}: which programs wrote its earlier {versions_name} is not known: its log does not list them"
        )
    return tuple(gaps)


def _wrote_to(node: NodeRecord, name: str, path: str) -> bool:
    return node.kind in {"frame", "unknown"} and is_called(node, name, path)


def is_called(node: NodeRecord, name: str, path: str) -> bool:
    """Whether the dataset of a node has a name.

    Args:
        node: of any application.
        name: of a table, or a path.
        path: the name as a canonical path.

    Raises:
        BudgetError: the query has no time left.
    """
    # Applications may have any number of nodes, with paths of any form.
    current_budget().check()
    if node.path is None or node.path == name:
        return node.path is not None
    # No system has files of longer paths.
    return len(node.path) <= PATH_MAX and canonical(node.path) == path


def _table_of(graph: FlowGraph, node: NodeRecord) -> Output | None:
    """The output of a node, where it is a table with versions."""
    text = graph.recipe(node.node)
    if text is None:
        return None
    # Recipes are read of DataFrames alone: traces of records do not load this.
    from lineage_core.recipe.document import Recipe

    try:
        output = Recipe.from_json(text).output
    except (RecipeError, VersionError):
        return None
    return output if output.version is not None or output.format in {DELTA, ICEBERG} else None


def _named(paths: Sequence[str]) -> str:
    """Some paths, with the verb that follows."""
    if len(paths) == 1:
        return f"{paths[0]} was"
    return f"{names_text(paths, FILES_NAMED)} were"
