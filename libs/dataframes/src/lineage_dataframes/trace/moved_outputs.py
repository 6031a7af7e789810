"""Outputs whose files were moved or copied: their rows are read where the content of these files is now.

A file of the same checksum has the same rows in the same places. So the place of a row in it is the place of the row in the file that was
written, though that file is gone or was written since.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from lineage_core.recipe.document import File, Recipe, Source
from lineage_core.tracing.budget import current_budget
from lineage_dataframes.errors import ChangedSourceError, RefusedError, RowError
from lineage_dataframes.sources.file_changes import Change, local_changes, local_path, may_be_held
from lineage_dataframes.trace.allowed import check_files_allowed
from lineage_query.rows.reader import ForbiddenRowsError, RowReader
from lineage_store.paths import RowsError, Spellings, plain_path
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery

MOVED_MAX = 1_000
"""Maximum number of files of an output that are looked for elsewhere: each takes a query of the store."""
CANDIDATES_MAX = 100
"""Maximum number of files of one checksum that are looked at."""


@dataclass(frozen=True)
class MovedOutput:
    """An output some of whose files are read elsewhere. ``written``: by the path of a file that is read there, the one that was written."""

    source: Source
    written: Mapping[str, str]


def held_output(output: Source, held_in: Mapping[File, str]) -> MovedOutput:
    """An output of which the rows of some files are read in others of the same checksum. ``held_in``: the path of each.

    Raises:
        RowError: no checksum was recorded, or folders of the output may hold values of the rows.
    """
    for file, path in held_in.items():
        if not may_be_held(output.paths[0] if output.paths else None, file):
            raise RowError(
                f"{plain_path(file.path)} is not what it was: its rows are not read in {path}"
            )
    held = {file: replace(file, path=f"file:{path}") for file, path in held_in.items()}
    options = {name: value for name, value in output.options.items() if name != "basePath"}
    files = tuple(held.get(file, file) for file in output.files)
    source = replace(output, paths=(), options=options, files=files)
    return MovedOutput(source, {path: file.path for file, path in held_in.items()})


def find_moved(
    store: GraphStore, reader: RowReader, recipe: Recipe, output: Source
) -> MovedOutput | None:
    """An output, those of whose files that are not what they were are read where applications recorded their checksums.

    Args:
        store: has the applications.
        reader: decides which files may be read.
        recipe: of the output.
        output: its files, as `rows.output_of` gives them.

    Returns:
        None where all files of this machine are what they were.

    Raises:
        ChangedSourceError: the content of a file is in no other one that is known and may be read; the message says why.
        StoreUnavailableError: the store does not answer.
        BudgetError: the query has no time left.
    """
    changes, _ = local_changes(output)
    if len(changes) > MOVED_MAX:
        reason = f"more than {MOVED_MAX:,} files of the output are not looked for elsewhere"
        raise ChangedSourceError(f"{changes[0].message}; {reason}")
    if not changes:
        return None
    search = _Search(store, reader, recipe)
    changed = {change.file for change in changes}
    taken = {search.spellings.of(file.path) for file in output.files if file not in changed}
    held_in: dict[File, str] = {}
    for change in changes:
        folder = output.paths[0] if output.paths else None
        path = search.held_in(change, folder, taken)
        taken.add(path)
        held_in[change.file] = path
    return held_output(output, held_in)


class _Search:
    """Looks for files by their checksums. Arguments as of `find_moved`."""

    def __init__(self, store: GraphStore, reader: RowReader, recipe: Recipe) -> None:
        self._store = store
        self._reader = reader
        self._recipe = recipe
        self.spellings = Spellings()

    def held_in(self, change: Change, folder: str | None, taken: Container[str]) -> str:
        """A file that has the content of one that changed. ``taken``: those that stand for others already.

        Raises:
            ChangedSourceError: there is none.
        """
        file = change.file
        if not file.checksum:
            reason = "no checksum was recorded, by which a copy would be found"
        elif not may_be_held(folder, file):
            reason = "its folder may hold values of its rows, so they are not read in a copy"
        else:
            query = FileQuery(plain_path(file.path), self.spellings, checksum=file.checksum)
            paths: dict[str, None] = {}
            for recorded in self._store.recorded_files(query).items:
                current_budget().check()
                with suppress(RowsError):
                    paths[self.spellings.of(recorded.path)] = None
            for path in list(paths)[:CANDIDATES_MAX]:
                if path not in taken and self._holds(path, file):
                    return path
            reason = "no file that an application recorded with its checksum has this content now and may be read here"
        raise ChangedSourceError(f"{change.message}; {reason}")

    def _holds(self, path: str, file: File) -> bool:
        """Whether a file may be read, and has the content of another one."""
        current_budget().check()
        if local_path(path) is None:
            return False
        held = replace(file, path=f"file:{path}")
        output = replace(self._recipe.output, files=(held,))
        try:
            check_files_allowed(replace(self._recipe, sources=(), output=output), self._reader)
        except (RefusedError, ForbiddenRowsError):
            return False
        changes, _ = local_changes(Source(output.format or "", (), "", files=(held,)))
        return not changes
