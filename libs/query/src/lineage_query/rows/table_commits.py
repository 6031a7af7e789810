"""Commits of versioned tables: whose rows a table may hold, which are complete, and which writes committed them.

Delta Lake's log has a file of JSON lines for each version (https://github.com/delta-io/delta/blob/master/PROTOCOL.md), Iceberg's
metadata name all snapshots that a table has (https://iceberg.apache.org/spec/#table-metadata). Both are read where they lie on
this machine.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_query.rows.reader import ForbiddenRowsError, RowReader
from lineage_store.paths import RowsError, canonical, plain_path, split_scheme

COMMITS_MAX = 2_000
"""Maximum number of commits to read, the latest ones: takes a few seconds."""
BYTES_MAX = 64 << 20
"""Maximum size of a log file: a commit with a larger one is unknown."""
LOG_BYTES_MAX = 256 << 20
"""Maximum size of all log files that one query reads."""
_DELTA = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\..*")
_ICEBERG = re.compile(r"v([0-9]+)\.metadata\.json")
_WRITES = {"WRITE", "CREATE OR REPLACE TABLE AS SELECT", "CREATE TABLE AS SELECT", "REPLACE TABLE AS SELECT"}  # fmt: skip
_UNCONDITIONAL = {
    *("canMergeSchema", "canOverwriteSchema", "clusterBy", "description", "isDynamicPartitionOverwrite"),
    *("isManaged", "isV1SaveAsTableOverwrite", "mode", "partitionBy", "properties", "statsOnLoad"),
}  # fmt: skip
"""Parameters that Delta Lake logs for a write whose files hold only its own rows; other conditions may copy rows."""
_MOVES = {"OPTIMIZE", "REORG", "COMPUTE STATS", "ROW TRACKING BACKFILL"}
"""Operations of Delta Lake that put the same rows into other files."""
_ELSEWHERE = ("catalogManaged", "catalogOwned", "coordinatedCommits")
"""Features of Delta Lake's tables whose latest commits may be listed by a catalog only."""
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
    return _kind_at(Path(plain_path(folder))) is not None


def _kind_at(folder: Path) -> str | None:
    """The kind of table in a folder; None if there is none.

    Raises:
        RowsError: it is of two kinds.
    """
    has_log = (folder / "_delta_log").is_dir()
    if any((folder / "metadata").glob("*.metadata.json")):
        if has_log:
            raise RowsError("it has logs of two kinds")
        return ICEBERG
    return DELTA if has_log else None


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
    if split_scheme(canonical(table_path))[0] not in {"", "file"}:
        raise RowsError("it is not on this machine")
    if not reader.may_read(canonical(table_path)):
        raise ForbiddenRowsError("its files may not be read here")
    folder = Path(plain_path(canonical(table_path)))
    try:
        kind = _kind_at(folder)
        if kind is None:
            raise RowsError("it has no log")
        if kind == DELTA:
            return _delta(_LogReader(reader), folder, written_files, current_versions)
        return _iceberg(_LogReader(reader), folder, written_files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise RowsError(f"its log can't be read: {problem}") from problem


@dataclass(slots=True)
class _LogReader:
    """Reads log files, which are untrusted (a job may have written them): only regular files, and limited in size."""

    reader: RowReader
    bytes_left: int = field(default_factory=lambda: LOG_BYTES_MAX)

    def text(self, path: Path) -> str | None:
        """The content of a file; None if it is too large.

        Raises:
            RowsError: it is no file that may be read here.
        """
        if not self.reader.may_read(canonical(str(path))):
            raise ForbiddenRowsError(f"{path.name} may not be read here")
        with open(path, "rb", opener=_no_link) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise RowsError(f"{path.name} is no file of its own")
            if status.st_size > BYTES_MAX:
                return None
            data = stream.read(status.st_size)
        self.bytes_left -= len(data)
        if self.bytes_left < 0:
            raise RowsError("its log is too large")
        return data.decode("utf-8")


def _no_link(path: str, flags: int) -> int:
    # Opening a pipe or device must not block.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


# -- Delta Lake ---------------------------------------------------------------------------------


def _delta(
    files: _LogReader, folder: Path, written_files: WrittenFiles, current_versions: Collection[str]
) -> Commits:
    log = folder / "_delta_log"
    versions: dict[int, Path] = {}
    checkpoints = [-1]
    for path in log.iterdir():
        if (match := _DELTA.fullmatch(path.name)) is not None:
            versions[int(match[1])] = path
        elif (match := _CHECKPOINT.fullmatch(path.name)) is not None:
            checkpoints.append(int(match[1]))
    staged = [*log.glob("_commits/*.json"), *log.glob("_staged_commits/*.json")]
    if not versions or staged:
        raise RowsError("a part of its log is stored elsewhere" if staged else "it has no log")
    latest = max(versions)
    if max(checkpoints) > latest:
        raise RowsError("the latest commits are not in its log")
    first = latest
    while first - 1 in versions and latest - first + 1 < COMMITS_MAX:
        first -= 1
    # The log is cleaned from its beginning on. Known writes whose files are there were of this table.
    table = _Table(earlier=not all(str(version) in current_versions for version in range(first)))
    for version in range(first, latest + 1):
        table.apply(version, _DeltaCommit.of(version, files.text(versions[version])))
    table.check_files_exist(folder)
    return table.commits(written_files)


@dataclass(frozen=True, slots=True)
class _DeltaCommit:
    """The changes of a version. ``added`` and ``removed``: paths of files.

    ``own``: whether its files hold only its own rows.
    ``moves``: whether they hold only rows of the files that it removed.
    ``replaces_all``: whether it replaced all earlier rows. ``schema``: the new fields of the table; None: unchanged.
    """

    added: frozenset[str]
    removed: frozenset[str]
    own: bool
    moves: bool
    replaces_all: bool
    schema: frozenset[str] | None

    @classmethod
    def of(cls, version: int, text: str | None) -> _DeltaCommit | None:
        """Parse a log file; None if its content is unknown."""
        if text is None:
            return None
        actions: dict[str, list[dict[str, Any]]] = defaultdict(list)
        # Not splitlines, which splits at other characters too.
        for line in filter(None, text.split("\n")):
            for name, action in json.loads(line).items():
                actions[name].append(action)
        if _is_elsewhere(actions["protocol"]):
            raise RowsError("only its catalog lists its latest commits")
        files = [*actions["add"], *actions["remove"]]
        data_changes = [bool(file["dataChange"]) for file in files]
        commit_info = actions["commitInfo"][0] if actions["commitInfo"] else {}
        own = _is_unconditional(commit_info, removes=bool(actions["remove"])) and all(data_changes)
        return cls(
            frozenset(unquote(file["path"]) for file in actions["add"]),
            frozenset(unquote(file["path"]) for file in actions["remove"]),
            own,
            commit_info.get("operation") in _MOVES and not any(data_changes),
            # An overwrite may leave some partitions, and one that adds nothing may have overwritten none.
            own
            and _replaces_table(commit_info)
            and commit_info.get("readVersion", -1) == version - 1
            and bool(actions["add"])
            and not any(file.get("partitionValues") for file in files),
            _fields_of(actions["metaData"][-1]) if actions["metaData"] else None,
        )


def _is_elsewhere(protocols: Iterable[Mapping[str, Any]]) -> bool:
    return any(
        str(feature).startswith(_ELSEWHERE)
        for protocol in protocols
        for side in ("readerFeatures", "writerFeatures")
        for feature in protocol.get(side) or ()
    )


def _is_unconditional(commit_info: Mapping[str, Any], *, removes: bool) -> bool:
    parameters = commit_info.get("operationParameters", {})
    if commit_info.get("operation") not in _WRITES or not parameters.keys() <= _UNCONDITIONAL:
        return False
    return (
        not removes or commit_info["operation"] != "WRITE" or parameters.get("mode") == "Overwrite"
    )


def _replaces_table(commit_info: Mapping[str, Any]) -> bool:
    """Whether an unconditional write replaces a whole table, if the table has no partitions."""
    parameters = commit_info["operationParameters"]
    return (
        parameters.get("partitionBy") == "[]"
        and str(parameters.get("isDynamicPartitionOverwrite", False)).lower() == "false"
        and (parameters.get("mode") == "Overwrite" or commit_info["operation"] != "WRITE")
    )


def _fields_of(metadata: Mapping[str, Any]) -> frozenset[str]:
    """The fields of a table: name, type, and physical name in files."""
    fields = json.loads(metadata["schemaString"])["fields"]
    names = "delta.columnMapping.physicalName"
    return frozenset(
        json.dumps(
            [field["name"], field["type"], field.get("metadata", {}).get(names, field["name"])]
        )
        for field in fields
    )


class _Table:
    """Whose rows each file of a table may hold, after some versions. ``earlier``: there were others before."""

    def __init__(self, *, earlier: bool) -> None:
        self._earlier = earlier
        self._since = 0
        self._versions_of_files: dict[str, frozenset[int]] = {}
        self._versions_of_all_files: dict[str, frozenset[int]] = {}
        """The same, also for files that were removed."""
        self._lost: set[int] = set()
        """Versions of which rows may be gone."""
        self._unknown: set[int] = set()
        """Versions whose rows may be in unknown files."""
        self._added: dict[int, frozenset[str]] = {}
        self._schema: frozenset[str] | None = None

    def apply(self, version: int, commit: _DeltaCommit | None) -> None:
        """Take the next version into account."""
        if commit is None:
            self._unknown |= _union(self._versions_of_files.values()) | {version}
            self._lost |= self._unknown
            return
        if commit.schema is not None:
            if self._schema is None or not self._schema <= commit.schema:
                # A column may have been renamed or dropped.
                self._lost |= _union(self._versions_of_files.values()) | self._unknown
            self._schema = commit.schema
        # A file that is added again has other deletions, or other figures, or was restored.
        paths = commit.removed | commit.added
        carried = _union(self._versions_of_all_files.get(path, frozenset()) for path in paths)
        for path in paths:
            self._versions_of_files.pop(path, None)
        if not commit.moves:
            self._lost |= carried
        if commit.replaces_all:
            self._earlier, self._since = False, version
            self._unknown = set()
        own = frozenset([version])
        held = own if commit.own else carried if commit.moves else carried | own
        # One set for all of them: a log may be of very many files.
        for path in commit.added:
            self._versions_of_files[path] = held
            before = self._versions_of_all_files.get(path)
            self._versions_of_all_files[path] = held if before is None else before | held
        self._added[version] = _names(commit.added - commit.removed)

    def check_files_exist(self, folder: Path) -> None:
        """Mark versions whose files are missing, or in other folders: their rows may be gone."""
        for path, held in self._versions_of_files.items():
            if ":" in path or not (folder / path).is_file():
                self._lost |= held

    def commits(self, written_files: WrittenFiles) -> Commits:
        """The current content of the table."""
        live = sorted(_union(self._versions_of_files.values()) | self._unknown, reverse=True)
        foreign_versions = [
            str(version)
            for version in live
            if not self._added.get(version)
            or self._added[version] not in written_files.get(str(version), ())
        ]
        more = (EARLIER,) if self._earlier else ()
        return Commits(
            (*map(str, live), *more),
            (*foreign_versions, *more),
            tuple(str(version) for version in live if version not in self._lost),
            since=self._since,
            files=_names(self._versions_of_files),
            added={str(version): names for version, names in self._added.items()},
        )


def _union(version_sets: Iterable[frozenset[int]]) -> frozenset[int]:
    # Many files share one set.
    return frozenset().union(*{id(versions): versions for versions in version_sets}.values())


def _names(paths: Iterable[str]) -> frozenset[str]:
    return frozenset(path.rpartition("/")[2] for path in paths)


# -- Iceberg ------------------------------------------------------------------------------------


def _iceberg(files: _LogReader, folder: Path, written_files: WrittenFiles) -> Commits:
    metadata = json.loads(_latest_metadata(files, folder / "metadata"))
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


def _latest_metadata(files: _LogReader, folder: Path) -> str:
    """The current metadata file of a table without a catalog; for other tables only the catalog names it."""
    metadata_files = [
        path
        for path in folder.iterdir()
        if ".metadata.json" in path.name and not path.name.startswith(".")
    ]
    by_number = {
        int(match[1]): path
        for path in metadata_files
        if (match := _ICEBERG.fullmatch(path.name)) is not None
    }
    hint = folder / "version-hint.text"
    if len(by_number) < len(metadata_files) or not by_number or not hint.exists():
        raise RowsError("only its catalog names its current metadata file")
    highest = max(by_number)
    # The hint may be out of date. Metadata of a dropped table remain in the folder when a table is created there again.
    newest = max(by_number, key=lambda number: (by_number[number].stat().st_mtime_ns, number))
    if newest != highest or int(files.text(hint) or "-1") > highest:
        raise RowsError("which metadata file is current is not known")
    text = files.text(by_number[highest])
    if text is None:
        raise RowsError("its metadata are too large")
    return text


def _columns_of(schema: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        json.dumps([field["id"], field["name"], field["type"]]) for field in schema["fields"]
    )


def _replaces_all_rows(summary: Mapping[str, str]) -> bool:
    """Whether a commit replaced all earlier rows: it added all rows that the table had after it."""
    records = summary.get("total-records")
    return records is not None and records == summary.get("added-records")
