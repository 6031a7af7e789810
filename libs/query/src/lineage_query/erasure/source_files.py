"""The files of a folder, or of a table in it, that have rows: on this machine or on object storage."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_core.tracing.budget import current_budget
from lineage_query.rows.delta_log import read_commits
from lineage_query.rows.iceberg_log import check_data_below
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_log import kind_at, opened_log
from lineage_store.paths import (
    RowsError,
    Spellings,
    canonical,
    is_hidden,
    plain_path,
    split_scheme,
    walked,
)

_WITHOUT_ROWS = ("-deletes.parquet", ".puffin")
"""Files of Iceberg that name the places of deleted rows."""
_UNCOMMITTED = ("_temporary", ".spark-staging", ".hive-staging")
"""How folders begin in which a job keeps files until it commits them."""
_MARKS = ("_SUCCESS", "_committed_", "_started_", "_spark_metadata", "_delta_log")
"""How hidden files and folders begin that say something of an output, and have none of its rows."""


def files_with_rows(reader: RowReader, path: str) -> list[str]:
    """The files below a folder (its canonical path), or the file of that path, also those that are in older versions of a table alone.

    Links to folders are followed, as Spark does.

    Raises:
        RowsError: they can't be listed, or those of a table lie elsewhere.
    """
    files = reader.files_below(path)
    if files == [path] or not _is_here(path):
        return files
    linked = [file for _, folder in _linked_below(path) for file in reader.files_below(folder)]
    if linked:
        files = sorted({*files, *linked})
    if kind_at(Path(plain_path(path))) != ICEBERG:
        return files
    try:
        with opened_log(reader, path) as log:
            check_data_below(log.files, log.folder)
    except RowsError as problem:
        raise RowsError(f"{plain_path(path)} is a table of Iceberg, and {problem}") from problem
    own = f"{path.rstrip('/')}/metadata/"
    return [file for file in files if not file.startswith(own) and not file.endswith(_WITHOUT_ROWS)]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """What lies in a folder and readers of its rows do not read, or by other names.

    ``hidden``: files that may have rows, by canonical path: those of changes of a table (`_change_data`), say. ``uncommitted``: folders of files that a
    job did not commit. ``named``: links to folders whose names are values of columns: the canonical paths of the files below them lack these.
    """

    hidden: Sequence[str] = ()
    uncommitted: Sequence[str] = ()
    named: Sequence[str] = ()


def passed_over_in(reader: RowReader, path: str) -> PassedOver:
    """What is passed over in a folder (its canonical path); of a file of this machine, what lies beside it and was made with it.

    Raises:
        RowsError: it can't be listed.
    """
    links = dict(_linked_below(path)) if _is_here(path) else {}
    files, uncommitted = list[str](), dict[str, None]()
    for folder in (path, *links.values()):
        for file in reader.files_below(folder, hidden=True):
            parts = file.removeprefix(f"{folder.rstrip('/')}/").split("/")
            at = next((at for at, part in enumerate(parts) if _is_uncommitted(part)), None)
            if at is not None:
                below = "/".join(parts[at + 1 :])
                uncommitted[plain_path(file.removesuffix(f"/{below}" if below else ""))] = None
            elif not any(part.startswith(_MARKS) for part in parts) and not _is_sum(parts[-1]):
                files.append(file)
    if _is_here(path) and os.path.isfile(plain_path(path)):
        hidden, folders = _beside(path)
        files += hidden
        uncommitted |= dict.fromkeys(folders)
    named = [link for link in links if "=" in link.rpartition("/")[2]]
    return PassedOver(files, sorted(uncommitted), named)


def files_of_no_version(reader: RowReader, path: str) -> Sequence[str]:
    """The files below the folder of a table of Delta Lake that no version in its log has added: of writes that failed, say.

    Raises:
        RowsError: its log does not say which these are.
    """
    folder = Path(plain_path(path))
    if not _is_here(path) or kind_at(folder) != DELTA:
        return ()
    spellings, added = Spellings(), set[str]()
    with opened_log(reader, path) as log:
        commits = read_commits(log.files, folder)
        if 0 not in commits:
            raise RowsError("its log does not reach back to its first version")
        for version, read in commits.items():
            current_budget().check()
            commit = read()
            if commit is None:
                raise RowsError(f"the commit of version {version} is too large")
            added.update(spellings.of(os.path.join(folder, name)) for name in commit.added)
    return [file for file in reader.files_below(path) if file not in added]


def _is_uncommitted(name: str) -> bool:
    return name.startswith(_UNCOMMITTED)


def _is_sum(name: str) -> bool:
    return name.startswith(".") and name.endswith(".crc")


def _beside(path: str) -> tuple[list[str], list[str]]:
    """Beside a file, hidden ones in whose names its name is (of editors, of copies that did not end), and folders of files that a job did not commit."""
    folder, _, name = plain_path(path).rpartition("/")
    hidden, folders = list[str](), list[str]()
    with os.scandir(folder or "/") as entries:
        for entry in entries:
            current_budget().check()
            if _is_uncommitted(entry.name):
                folders.append(entry.path)
            elif is_hidden(entry.name) and name in entry.name and not _is_sum(entry.name):
                hidden.append(canonical(entry.path))
    return hidden, folders


def _linked_below(path: str) -> Iterator[tuple[str, str]]:
    """Links to folders below a folder, and below those that they lead to, with these by canonical path; each once."""
    seen = {canonical(path)}
    waiting = [plain_path(path)] if os.path.isdir(plain_path(path)) else []
    while waiting:
        for link in _links_in(waiting.pop()):
            folder = canonical(link)
            if folder not in seen and os.path.isdir(folder):
                seen.add(folder)
                waiting.append(folder)
                yield link, folder


def _links_in(folder: str) -> Iterator[str]:
    for at, folders, _ in walked(folder):
        yield from (path for name in folders if os.path.islink(path := os.path.join(at, name)))


def _is_here(path: str) -> bool:
    return split_scheme(path)[0] in {"", "file"}
