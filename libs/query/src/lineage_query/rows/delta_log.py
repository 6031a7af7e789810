"""The log of a table of Delta Lake: a file of JSON lines for each version.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lineage_query.rows.row_tracking import FileIds, Settings, ids_of_files, preserves_ids
from lineage_query.rows.table_log import LogReader
from lineage_store.paths import RowsError

COMMITS_MAX = 2_000
"""Maximum number of commits to read, the latest ones: takes a few seconds."""
_DELTA = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\..*")
_WRITES = {"WRITE", "CREATE OR REPLACE TABLE AS SELECT", "CREATE TABLE AS SELECT", "REPLACE TABLE AS SELECT"}  # fmt: skip
_UNCONDITIONAL = {
    *("canMergeSchema", "canOverwriteSchema", "clusterBy", "description", "isDynamicPartitionOverwrite"),
    *("isManaged", "isV1SaveAsTableOverwrite", "mode", "partitionBy", "properties", "statsOnLoad"),
}  # fmt: skip
"""Parameters that Delta Lake logs for a write whose files hold only its own rows; other conditions may copy rows."""
_MOVES = {"OPTIMIZE", "REORG", "COMPUTE STATS", "ROW TRACKING BACKFILL"}
"""Operations of Delta Lake that put the same rows into other files."""
_LEAVES = {"DELETE", "TRUNCATE", "RESTORE"}
"""Operations whose files hold rows of others as they are, and no new ones."""
_ELSEWHERE = ("catalogManaged", "catalogOwned", "coordinatedCommits")
"""Features of Delta Lake's tables whose latest commits may be listed by a catalog only."""


def read_commits(files: LogReader, folder: Path) -> dict[int, Callable[[], DeltaCommit | None]]:
    """The versions in a table's log, in order and without a gap up to the latest: each with what reads its commit.

    Raises:
        RowsError: the latest commits are stored elsewhere.
    """
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

    def read(version: int) -> DeltaCommit | None:
        return DeltaCommit.of(version, files.text(versions[version]))

    return {version: partial(read, version) for version in range(first, latest + 1)}


@dataclass(frozen=True, slots=True)
class DeltaCommit:
    """The changes of a version. ``added`` and ``removed``: paths of files.

    ``own``: whether its files hold only its own rows.
    ``moves``: whether they hold only rows of the files that it removed.
    ``leaves``: whether they hold only rows as those of other files.
    ``replaces_all``: whether it replaced all earlier rows. ``schema``: the new fields of the table; None: unchanged.
    ``tracking``: the new settings of the table; None: unchanged. ``ids``: of rows, by file. ``preserves_ids``: whether rows kept theirs.
    """

    added: frozenset[str]
    removed: frozenset[str]
    own: bool
    moves: bool
    replaces_all: bool
    schema: frozenset[str] | None
    leaves: bool = False
    tracking: Settings | None = None
    ids: Mapping[str, FileIds] = field(default_factory=dict)
    preserves_ids: bool = False

    @classmethod
    def of(cls, version: int, text: str | None) -> DeltaCommit | None:
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
        metadata = actions["metaData"][-1] if actions["metaData"] else None
        moves = commit_info.get("operation") in _MOVES and not any(data_changes)
        return cls(
            frozenset(unquote(file["path"]) for file in actions["add"]),
            frozenset(unquote(file["path"]) for file in actions["remove"]),
            own,
            moves,
            # An overwrite may leave some partitions, and one that adds nothing may have overwritten none.
            own
            and _replaces_table(commit_info)
            and commit_info.get("readVersion", -1) == version - 1
            and bool(actions["add"])
            and not any(file.get("partitionValues") for file in files),
            None if metadata is None else _fields_of(metadata),
            moves or commit_info.get("operation") in _LEAVES,
            None if metadata is None else Settings.of(metadata),
            ids_of_files(actions["add"]),
            preserves_ids(commit_info),
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


class DeltaTable:
    """Whose rows each file of a table may hold, after some versions. ``earlier``: there were others before."""

    def __init__(self, *, earlier: bool) -> None:
        self.earlier = earlier
        self.since = 0
        self.versions_of_files: dict[str, frozenset[int]] = {}
        self._versions_of_all_files: dict[str, frozenset[int]] = {}
        """The same, also for files that were removed."""
        self.lost: set[int] = set()
        """Versions of which rows may be gone."""
        self._unknown: set[int] = set()
        """Versions whose rows may be in unknown files."""
        self.added: dict[int, frozenset[str]] = {}
        self._schema: frozenset[str] | None = None

    def apply(self, version: int, commit: DeltaCommit | None) -> None:
        """Take the next version into account."""
        if commit is None:
            self._unknown |= union(self.versions_of_files.values()) | {version}
            self.lost |= self._unknown
            return
        if commit.schema is not None:
            if self._schema is None or not self._schema <= commit.schema:
                # A column may have been renamed or dropped.
                self.lost |= union(self.versions_of_files.values()) | self._unknown
            self._schema = commit.schema
        # A file that is added again has other deletions, or other figures, or was restored.
        paths = commit.removed | commit.added
        carried = union(self._versions_of_all_files.get(path, frozenset()) for path in paths)
        for path in paths:
            self.versions_of_files.pop(path, None)
        if not commit.moves:
            self.lost |= carried
        if commit.replaces_all:
            self.earlier, self.since = False, version
            self._unknown = set()
        own = frozenset([version])
        held = own if commit.own else carried if commit.moves else carried | own
        # One set for all of them: a log may be of very many files.
        for path in commit.added:
            self.versions_of_files[path] = held
            before = self._versions_of_all_files.get(path)
            self._versions_of_all_files[path] = held if before is None else before | held
        self.added[version] = file_names(commit.added - commit.removed)

    def check_files_exist(self, folder: Path) -> None:
        """Mark versions whose files are missing, or in other folders: their rows may be gone."""
        for path, held in self.versions_of_files.items():
            if ":" in path or not (folder / path).is_file():
                self.lost |= held

    def live_versions(self) -> frozenset[int]:
        """Versions of which files that are in the table now may hold rows."""
        return union(self.versions_of_files.values()) | self._unknown


def union(version_sets: Iterable[frozenset[int]]) -> frozenset[int]:
    # Many files share one set.
    return frozenset().union(*{id(versions): versions for versions in version_sets}.values())


def file_names(paths: Iterable[str]) -> frozenset[str]:
    return frozenset(path.rpartition("/")[2] for path in paths)
