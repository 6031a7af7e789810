"""Deletes rows of a plan from tables of Delta Lake and Iceberg on this machine: journaled, and in one commit a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_query.erasure.journal import Journal, Step, steps_in
from lineage_query.erasure.keeping import StorePlace
from lineage_query.erasure.row_list import rows_of
from lineage_query.erasure.steps import ErasureError
from lineage_query.erasure.table_rows import TableDeleter, TableRows
from lineage_store.paths import canonical, plain_path, split_scheme

PART = "tables"
_STEP = {DELTA: "table", ICEBERG: "iceberg"}


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """Rows that were deleted from a table. ``already``: by an earlier run. ``left``: what keeps them still, and how it is removed."""

    table: str
    rows: int
    already: bool
    left: Sequence[str] = ()


def begin_deletion(
    approved: Mapping[str, Any], place: StorePlace, names_of: Callable[[str], Sequence[str]]
) -> None:
    """Freeze which rows are to be deleted from which tables. Nothing is changed.

    Args:
        approved: the plan, as JSON.
        place: of the store.
        names_of: how programs named the table in a folder; what knows it may be erased by the plan.

    Raises:
        ErasureError: a row can't be named exactly; its table is in the message.
        JournalError: another process does this.
    """
    with Journal(place.journals, approved["digest"], PART) as journal:
        if journal.steps is None:
            journal.begin(
                [step | {"names": [*names_of(step["table"])]} for step in _steps(approved)]
            )
        elif not journal.is_ended:
            journal.restart()


def delete_from_tables(
    approved: Mapping[str, Any],
    place: StorePlace,
    deleters: Mapping[str, Callable[[], TableDeleter]],
) -> list[DeletedRows]:
    """Delete the rows of a plan that carry the subject's from tables, after `begin_deletion`; raises before any is changed.

    Args:
        approved: the plan, as JSON.
        place: of the store.
        deleters: give what deletes, by format of tables; called for those that are there.

    Raises:
        ErasureError: a row can't be named exactly, or a table uses what is not written here; its path is in the message.
        JournalError: another process does this.
    """
    digest = approved["digest"]
    with Journal(place.journals, digest, PART) as journal:
        if journal.steps is None:
            raise ErasureError("which rows are to be deleted from tables was not frozen before")
        steps = list(enumerate(journal.steps))
        kinds = {step["kind"] for number, step in steps if number not in journal.results}
        by_step = {step: deleters[kind]() for kind, step in _STEP.items() if step in kinds}
        for number, step in steps:
            if number not in journal.results:
                by_step[step["kind"]].check(_rows_in(step), digest)
        deleted = []
        for number, step in steps:
            rows, is_done = _rows_in(step), number in journal.results
            if not is_done:
                left = by_step[step["kind"]].delete(rows, digest)
                journal.done(number, {"rows": rows.count, "left": list(left)})
            result = journal.results[number]
            deleted.append(
                DeletedRows(rows.table, result["rows"], is_done, tuple(result.get("left", ())))
            )
        if not journal.is_ended:
            journal.end()
        return deleted


def on_other_storage(approved: Mapping[str, Any]) -> dict[str, int]:
    """Folders of outputs, and topics, that are not on this machine and have rows of a plan which may carry the subject's, and how many.

    Nothing is deleted from tables there.
    """
    folders: dict[str, int] = {}
    for row in rows_of(approved):
        if row["path"] is not None and _may_carry(row) and not _is_here(row["path"]):
            is_whole = row["row"] is None or row["unit"] == "offset"
            folder = row["path"] if is_whole else row["path"].rpartition("/")[0]
            folders[folder] = folders.get(folder, 0) + 1
    return folders


def deleted_files(place: StorePlace, digest: str) -> set[str]:
    """Files of tables that rows of a plan were deleted from, by canonical path."""
    steps = steps_in(place.journals, digest, PART) or ()
    return {canonical(f"{step['table']}/{path}") for step in steps for path in step["files"]}


def is_of_table(path: str) -> bool:
    """Whether a file, or one that was there, is of a table of Delta Lake or Iceberg on this machine."""
    return _is_here(path) and _table_of(plain_path(path)) is not None


def _may_carry(row: Mapping[str, Any]) -> bool:
    return row["kind"] != "mixed" and bool(row["there"])


def _is_here(path: str) -> bool:
    return split_scheme(path)[0] in {"", "file"}


def _steps(approved: Mapping[str, Any]) -> list[Step]:
    tables: dict[tuple[str, str], dict[str, set[int]]] = {}
    for row in rows_of(approved):
        if row["path"] is None or not _may_carry(row) or not _is_here(row["path"]):
            continue
        table = _table_of(row["path"])
        if table is None:
            continue
        kind, root = table
        if row["kind"] != "carries" or not row["exact"] or row["row"] is None:
            raise ErasureError(
                f"{root}: whether {row['place']} is the subject's is not known, so nothing is deleted from tables"
                if row["place"] is not None
                else f"{root}: where a row of the plan ({row['output']}, {row['app']}) stands in it is not known, so nothing is deleted from tables"
            )
        files = tables.setdefault((kind, str(root)), {})
        files.setdefault(_within(root, row["path"]), set()).add(row["row"])
    return [
        {
            "kind": kind,
            "table": root,
            "files": {path: sorted(rows) for path, rows in sorted(files.items())},
        }
        for (kind, root), files in sorted(tables.items())
    ]


def _rows_in(step: Step) -> TableRows:
    return TableRows(step["table"], step["files"], step.get("names", ()))


def _table_of(path: str) -> tuple[str, Path] | None:
    whole = Path(path).absolute()
    # Of a row whose place is not known, the path is that of the table itself.
    for parent in (whole, *whole.parents):
        if (parent / "_delta_log").is_dir():
            return _STEP[DELTA], parent
        if any((parent / "metadata").glob("*.metadata.json")):
            return _STEP[ICEBERG], parent
    return None


def _within(root: Path, path: str) -> str:
    return Path(path).absolute().relative_to(root).as_posix()
