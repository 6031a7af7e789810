"""Folders that a query names: all of their files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lineage_core.contract.graph import FlowGraph
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_query.rows.reader import RowReader
from lineage_store.materialised import whose_rows
from lineage_store.paths import Spellings
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery

FILES_MAX = 1_000
"""Maximum number of files of a folder that a query names."""
LOOKED_UP_MAX = 5_000
"""Files of a folder that are looked up for a caller who sees a part of the store."""
FILES_NAMED = 3


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The files of a folder. ``gaps``: why rows of it may be left out."""

    files: tuple[str, ...]
    gaps: tuple[str, ...] = ()


def files_of_folder(
    store: GraphStore,
    reader: RowReader,
    folder: str,
    *,
    wrote: bool,
    app: str | None,
    spellings: Spellings,
) -> FolderFiles | None:
    """The files that a folder has, and those that it had when an application had written it.

    Args:
        store: has the applications.
        reader: lists the files that are there.
        folder: as typed.
        wrote: files that were written are meant, and not those that were read.
        app: the application that wrote or read them; None: any.
        spellings: the links already resolved for this query.

    Returns:
        None where it is no folder, or no application used a file of it.

    Raises:
        RowsError: the files can't be listed.
        TooMuchError: the folder has very many files.
    """
    if not reader.is_folder(folder):
        return None
    path = spellings.of(folder)
    present = reader.files_below(path)
    used: dict[str, None] = {}
    apps: dict[str, None] = {}
    ids = store.application_ids()
    may_tell = reader.names_unknown_files
    for file in present if may_tell else present[:LOOKED_UP_MAX]:
        # Who has no right to any of its files is not told that it has many.
        if used or may_tell:
            _check_most(folder, present, may_tell=may_tell)
        current_budget().check()
        recorded = store.recorded_files(FileQuery(file, spellings, app=app))
        for record in recorded.items:
            if record.wrote == wrote and whose_rows(record.app, ids) is None:
                used[file] = None
                apps[record.app] = None
    if used:
        _check_most(folder, present, may_tell=may_tell)
    if app is not None:
        apps = {app: None}
    if not wrote:
        # What nobody read went nowhere; of a file that is gone it is not known.
        return FolderFiles(tuple(used)) if used else None
    gaps: list[str] = []
    if len(apps) == 1:
        # Files of several applications are refused: one is queried at a time.
        graph = store.graph(next(iter(apps)))
        used |= dict.fromkeys(_written_below(graph, path.rstrip("/"), spellings))
    if not used:
        return None
    _check_most(folder, list(used), may_tell=may_tell)
    unknown = [file for file in present if file not in used]
    if unknown:
        gaps.append(f"{folder}: {_unknown_text(unknown, app, may_tell=may_tell)}")
    return FolderFiles(tuple(used), tuple(gaps))


def _written_below(graph: FlowGraph, folder: str, spellings: Spellings) -> Iterator[str]:
    """The files below a folder that an application wrote, whether they are still there or not."""
    for node in graph.nodes():
        if node.kind in {"sink", "frame"}:
            for file in graph.sink_files(node.node):
                current_budget().check()
                path = spellings.of(file.path)
                if path.startswith(f"{folder}/"):
                    yield path


def _unknown_text(unknown: Sequence[str], app: str | None, *, may_tell: bool) -> str:
    """What is left out of a folder. ``app``: the only one that is queried."""
    if not may_tell:
        # They may be another application's, which the caller does not see.
        return "some of its files were not written by what is queried: their rows are left out"
    named = ", ".join(unknown[:FILES_NAMED]) + (", ..." if unknown[FILES_NAMED:] else "")
    wrote = "no known application wrote" if app is None else f"{app} did not write"
    files = "1 file" if len(unknown) == 1 else f"{len(unknown):,} files"
    return f"{wrote} {named}: rows of {files} are left out"


def _check_most(folder: str, files: Sequence[str], *, may_tell: bool) -> None:
    if len(files) > FILES_MAX:
        number = f"{len(files):,}" if may_tell else f"more than {FILES_MAX:,}"
        raise TooMuchError(
            f"{folder} has {number} files; a query takes at most {FILES_MAX:,} of a folder",
            "name some of its files",
        )
