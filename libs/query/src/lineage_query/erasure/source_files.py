"""The files of a folder, or of a table in it, that have rows: on this machine or on object storage."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lineage_core.recipe.names import ICEBERG
from lineage_core.tracing.budget import current_budget
from lineage_query.rows.iceberg_log import check_data_below
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_log import kind_at, opened_log
from lineage_store.paths import RowsError, canonical, is_hidden, plain_path, split_scheme

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


def passed_over_in(path: str) -> PassedOver:
    """What is passed over in a folder of this machine (its canonical path)."""
    files, uncommitted = list[str](), list[str]()
    if not _is_here(path):
        return PassedOver()
    root, links = plain_path(path), dict(_linked_below(path))
    for folder in (root, *links.values()):
        for at, folders, names in os.walk(folder):
            current_budget().check()
            uncommitted += (f"{at}/{name}" for name in folders if name.startswith(_UNCOMMITTED))
            folders[:] = [name for name in folders if not name.startswith((*_UNCOMMITTED, *_MARKS))]
            below = at.removeprefix(folder)
            files += (
                canonical(f"{at}/{name}")
                for name in names
                if is_hidden(f"{below}/{name}") and not _is_mark(name)
            )
    named = [link for link in links if "=" in link.rpartition("/")[2]]
    return PassedOver(files, sorted(uncommitted), named)


def _is_mark(name: str) -> bool:
    return name.startswith(_MARKS) or (name.startswith(".") and name.endswith(".crc"))


def _linked_below(path: str) -> Iterator[tuple[str, str]]:
    """Links to folders below a folder, and below those that they lead to, with these by canonical path; each once."""
    seen = {canonical(path)}
    waiting = [plain_path(path)]
    while waiting:
        for link in _links_in(waiting.pop()):
            folder = canonical(link)
            if folder not in seen and os.path.isdir(folder):
                seen.add(folder)
                waiting.append(folder)
                yield link, folder


def _links_in(folder: str) -> Iterator[str]:
    for at, folders, _ in os.walk(folder):
        current_budget().check()
        yield from (path for name in folders if os.path.islink(path := os.path.join(at, name)))


def _is_here(path: str) -> bool:
    return split_scheme(path)[0] in {"", "file"}
