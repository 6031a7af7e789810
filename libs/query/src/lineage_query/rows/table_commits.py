"""Commits of versioned tables: whose rows a table may hold, which are complete, and which writes committed them.

Delta Lake's log has a file of JSON lines for each version (https://github.com/delta-io/delta/blob/master/PROTOCOL.md), Iceberg's
metadata name all snapshots that a table has (https://iceberg.apache.org/spec/#table-metadata). Both are read where they lie on
this machine.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineage_core.recipe.names import DELTA
from lineage_query.rows.delta_log import COMMITS_MAX, DeltaTable, file_names, read_commits
from lineage_query.rows.iceberg_log import latest_metadata
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_log import LogReader, kind_at, opened_log
from lineage_store.paths import canonical, plain_path, split_scheme

EARLIER = "earlier ones"
WrittenFiles = Mapping[str, Collection[frozenset[str]]]
"""The versions of known writes, with the names of the files that each write left, without folders."""


@dataclass(frozen=True, slots=True)
class Commits:
    """Versions, or ids of snapshots, of which a table may currently hold rows: the latest first.

    ``foreign_versions``: those of unknown writers; `EARLIER` last, if the table no longer lists earlier commits.
    ``complete_versions``: those of which all rows are in the table.
    ``replaced_snapshots``: snapshots without any row in the table. Versions have none if they are before ``since`` and in no other field.
    ``files``: names of the current files of a Delta Lake table, as far as its log lists them; None for other tables.
    ``added``: names of the files that each version in its log added.
    """

    changes: tuple[str, ...]
    foreign_versions: tuple[str, ...]
    complete_versions: tuple[str, ...]
    replaced_snapshots: frozenset[str] = frozenset()
    since: int = 0
    files: frozenset[str] | None = None
    added: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def was_replaced(self, version: str) -> bool:
        """Whether the table certainly has no row of a version."""
        if self.files is None:
            return version in self.replaced_snapshots
        is_listed = version in self.added or version in self.changes
        return not is_listed and version.isdecimal() and int(version) < self.since


def is_versioned_table(reader: RowReader, path: str) -> bool:
    """Whether a folder of this machine has the log of a versioned table."""
    folder = canonical(path)
    if split_scheme(folder)[0] not in {"", "file"} or not reader.may_read(folder):
        return False
    return kind_at(Path(plain_path(folder))) is not None


def commits_of(
    reader: RowReader,
    table_path: str,
    written_files: WrittenFiles,
    current_versions: Collection[str] = (),
) -> Commits:
    """The commits of which a table may hold rows.

    Args:
        reader: decides which files may be read.
        table_path: the table's folder.
        written_files: a version of Delta Lake counts only if a known write left exactly the files that it added: a recreated
            table counts from 0 again. Snapshot ids of Iceberg are unique.
        current_versions: versions of known writes whose files exist unchanged.

    Raises:
        RowsError: it is not known.
    """
    with opened_log(reader, table_path) as log:
        if log.kind == DELTA:
            return _delta(log.files, log.folder, written_files, current_versions)
        return _iceberg(log.files, log.folder, written_files)


def _delta(
    files: LogReader, folder: Path, written_files: WrittenFiles, current_versions: Collection[str]
) -> Commits:
    commits = read_commits(files, folder)
    # The log is cleaned from its beginning on. Known writes whose files are there were of this table.
    first = min(commits)
    table = DeltaTable(
        earlier=not all(str(version) in current_versions for version in range(first))
    )
    for version, read_commit in commits.items():
        table.apply(version, read_commit())
    table.check_files_exist(folder)
    live = sorted(table.live_versions(), reverse=True)
    foreign_versions = [
        str(version)
        for version in live
        if not table.added.get(version)
        or table.added[version] not in written_files.get(str(version), ())
    ]
    more = (EARLIER,) if table.earlier else ()
    return Commits(
        (*map(str, live), *more),
        (*foreign_versions, *more),
        tuple(str(version) for version in live if version not in table.lost),
        since=table.since,
        files=file_names(table.versions_of_files),
        added={str(version): names for version, names in table.added.items()},
    )


def _iceberg(files: LogReader, folder: Path, written_files: WrittenFiles) -> Commits:
    metadata = json.loads(latest_metadata(files, folder / "metadata"))
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots", [])}
    schemas = {schema["schema-id"]: _columns_of(schema) for schema in metadata.get("schemas", [])}
    current_schema = schemas.get(metadata.get("current-schema-id"))
    changes: list[str] = []
    complete: list[str] = []
    overwritten: list[str] = []
    snapshot_id: int | None = metadata.get("current-snapshot-id")
    only_appended, is_replaced = True, False
    for _ in range(COMMITS_MAX):
        if snapshot_id in {None, -1}:
            break
        snapshot = snapshots.get(snapshot_id or 0)
        if snapshot is None:
            # It has expired.
            break
        summary = snapshot["summary"]
        if is_replaced:
            overwritten.append(str(snapshot_id))
        # Which files hold the rows is another matter than which rows there are.
        elif summary["operation"] != "replace":
            changes.append(str(snapshot_id))
            schema_then = schemas.get(snapshot.get("schema-id"))
            if (
                only_appended
                and schema_then is not None
                and current_schema is not None
                and schema_then <= current_schema
            ):
                complete.append(str(snapshot_id))
            is_replaced = _replaces_all_rows(summary)
            only_appended = only_appended and summary["operation"] == "append"
        snapshot_id = snapshot.get("parent-snapshot-id")
    # A snapshot whose parent has expired or is not named is not the first.
    earlier = (EARLIER,) if not is_replaced and (changes or snapshot_id not in {None, -1}) else ()
    foreign_versions = (change for change in changes if change not in written_files)
    return Commits(
        (*changes, *earlier), (*foreign_versions, *earlier), tuple(complete), frozenset(overwritten)
    )


def _columns_of(schema: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        json.dumps([field["id"], field["name"], field["type"]]) for field in schema["fields"]
    )


def _replaces_all_rows(summary: Mapping[str, str]) -> bool:
    """Whether a commit replaced all earlier rows: it added all rows that the table had after it."""
    records = summary.get("total-records")
    return records is not None and records == summary.get("added-records")
