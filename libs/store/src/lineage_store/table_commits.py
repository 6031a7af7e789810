"""Commits of tables with versions: whose rows a table may hold, which of them are all there, and who made them.

Delta Lake's log has a file of JSON lines for each version (https://github.com/delta-io/delta/blob/master/PROTOCOL.md), Iceberg's
metadata name all snapshots that a table has (https://iceberg.apache.org/spec/#table-metadata). Both are read where they lie on
this machine.
"""

from __future__ import annotations

import json
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lineage_core.recipe import DELTA
from lineage_store.paths import RowsError, canonical, plain_path, split_scheme
from lineage_store.rows import ForbiddenRowsError, RowReader

COMMITS_MAX = 2_000
"""Commits that are looked at, the latest ones: some seconds."""
BYTES_MAX = 64 << 20
"""Of a file of a log: of a commit with more nothing is known."""
LOG_BYTES_MAX = 256 << 20
"""Of all files of a log that are read for one question."""
_DELTA = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*")
_ICEBERG = re.compile(r"v(\d+)\.metadata\.json(\.gz)?")
_WRITES = {"WRITE", "CREATE OR REPLACE TABLE AS SELECT", "CREATE TABLE AS SELECT", "REPLACE TABLE AS SELECT"}  # fmt: skip
_UNCONDITIONAL = {
    *("canMergeSchema", "canOverwriteSchema", "clusterBy", "description", "isDynamicPartitionOverwrite"),
    *("isManaged", "isV1SaveAsTableOverwrite", "mode", "partitionBy", "properties", "statsOnLoad"),
}  # fmt: skip
"""What Delta Lake tells of a write whose files hold no rows but its own: with any other condition it may copy some."""
_MOVES = {"OPTIMIZE", "REORG", "COMPUTE STATS", "ROW TRACKING BACKFILL"}
"""Operations of Delta Lake that put the same rows into other files."""
EARLIER = "earlier ones"
Known = Mapping[str, Iterable[frozenset[str]]]
"""The versions that known writes made, with the names of the files that each write left, without folders."""


@dataclass(frozen=True, slots=True)
class Commits:
    """Versions, or ids of snapshots, of which a table may hold rows now: the latest first.

    ``strange``: those that no known write made; `EARLIER` last, where the table tells nothing of earlier ones any more.
    ``whole``: those of which all rows are there.
    ``files``: names of the files that a table of Delta Lake consists of, as far as its log tells.
    ``added``: the same of each version of its log, of what it added.
    """

    changes: tuple[str, ...]
    strange: tuple[str, ...]
    whole: tuple[str, ...]
    files: frozenset[str] = frozenset()
    added: Mapping[str, frozenset[str]] = field(default_factory=dict)


def commits_of(reader: RowReader, kind: str, place: str, known: Known) -> Commits:
    """The commits of which a table may hold rows.

    Args:
        reader: says which files may be read.
        kind: Delta Lake or Iceberg, as recipes name them.
        place: the table's folder.
        known: a version of Delta Lake counts only where a known write left just the files that it added: a table that was
            made anew counts from 0 again. Snapshots of Iceberg have numbers of their own.

    Raises:
        RowsError: nobody can tell.
    """
    if split_scheme(canonical(place))[0] not in {"", "file"}:
        raise RowsError("it lies elsewhere")
    if not reader.may_read(canonical(place)):
        raise ForbiddenRowsError("its files may not be read here")
    walk = _delta if kind == DELTA else _iceberg
    try:
        return walk(_Files(reader), Path(plain_path(canonical(place))), known)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise RowsError(f"what its log says can't be read: {problem}") from problem


@dataclass(slots=True)
class _Files:
    """Reads files of a log, which a job may have put there: nothing but files, and not too much of them."""

    reader: RowReader
    left: int = field(default_factory=lambda: LOG_BYTES_MAX)

    def text(self, path: Path) -> str | None:
        """What is in a file; None where it is too large.

        Raises:
            RowsError: it is no file that may be read here.
        """
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or not self.reader.may_read(canonical(str(path))):
            raise RowsError(f"{path.name} is no file of its own")
        if status.st_size > BYTES_MAX:
            return None
        with path.open("rb") as stream:
            data = stream.read(min(BYTES_MAX, self.left) + 1)
        self.left -= len(data)
        if self.left < 0:
            raise RowsError("its log is too large")
        return data.decode("utf-8")


# -- Delta Lake ---------------------------------------------------------------------------------


def _delta(files: _Files, folder: Path, known: Known) -> Commits:
    log = folder / "_delta_log"
    versions: dict[int, Path] = {}
    checkpoints = [-1]
    for path in log.iterdir():
        if (found := _DELTA.fullmatch(path.name)) is not None:
            versions[int(found[1])] = path
        elif (found := _CHECKPOINT.fullmatch(path.name)) is not None:
            checkpoints.append(int(found[1]))
    staged = [*log.glob("_commits/*.json"), *log.glob("_staged_commits/*.json")]
    if not versions or staged:
        raise RowsError("its log is kept elsewhere, too" if staged else "it has no log")
    latest = max(versions)
    if max(checkpoints) > latest:
        raise RowsError("the latest commits are not in its log")
    first = latest
    while first - 1 in versions and latest - first + 1 < COMMITS_MAX:
        first -= 1
    # The log is cleaned from its beginning on. Known writes whose files are there were of this table.
    told = all(
        any(_is_there(folder, names) for names in known.get(str(one), ())) for one in range(first)
    )
    table = _Table(earlier=not told)
    for version in range(first, latest + 1):
        table.apply(version, _DeltaCommit.of(version, files.text(versions[version])))
    return table.commits(known)


def _is_there(folder: Path, names: Iterable[str]) -> bool:
    """Whether a file of some is in a folder: that is no other table than the one which it was written to."""
    return any((folder / name).is_file() for name in names)


@dataclass(frozen=True, slots=True)
class _DeltaCommit:
    """What a version did. ``added`` and ``removed``: paths of files.

    ``own``: whether its files hold no rows but its own.
    ``moves``: whether they hold rows of the files that it removed, and no others.
    ``anew``: whether it left none of the rows before. ``schema``: the fields that it gave the table; None: the same.
    """

    added: frozenset[str]
    removed: frozenset[str]
    own: bool
    moves: bool
    anew: bool
    schema: frozenset[str] | None

    @classmethod
    def of(cls, version: int, text: str | None) -> _DeltaCommit | None:
        """Read a file of the log; None where nothing is known of it."""
        if text is None:
            return None
        actions: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in text.splitlines():
            for name, action in json.loads(line).items():
                actions[name].append(action)
        files = [*actions["add"], *actions["remove"]]
        changing = [bool(file["dataChange"]) for file in files]
        told = actions["commitInfo"][0] if actions["commitInfo"] else {}
        own = _is_unconditional(told) and all(changing)
        return cls(
            frozenset(unquote(file["path"]) for file in actions["add"]),
            frozenset(unquote(file["path"]) for file in actions["remove"]),
            own,
            told.get("operation") in _MOVES and not any(changing),
            # Of partitions an overwrite may leave some, and one that adds nothing may have been of none.
            own
            and _is_of_whole(told)
            and told.get("readVersion", version - 1) == version - 1
            and bool(actions["add"])
            and not any(file.get("partitionValues") for file in files),
            _fields_of(actions["metaData"][-1]) if actions["metaData"] else None,
        )


def _is_unconditional(told: Mapping[str, Any]) -> bool:
    given = told.get("operationParameters", {})
    return told.get("operation") in _WRITES and given.keys() <= _UNCONDITIONAL


def _is_of_whole(told: Mapping[str, Any]) -> bool:
    """Whether an unconditional write is one of a whole table, if that has no partitions."""
    given = told["operationParameters"]
    return (
        given.get("partitionBy") == "[]"
        and str(given.get("isDynamicPartitionOverwrite", False)).lower() == "false"
        and (given.get("mode") == "Overwrite" or told["operation"] != "WRITE")
    )


def _fields_of(metadata: Mapping[str, Any]) -> frozenset[str]:
    """The fields of a table: name, type, and what they are called in files."""
    fields = json.loads(metadata["schemaString"])["fields"]
    names = "delta.columnMapping.physicalName"
    return frozenset(
        json.dumps([one["name"], one["type"], one.get("metadata", {}).get(names, one["name"])])
        for one in fields
    )


class _Table:
    """Whose rows each file of a table may hold, after some versions. ``earlier``: there were others before."""

    def __init__(self, *, earlier: bool) -> None:
        self._earlier = earlier
        self._holds: dict[str, set[int]] = {}
        self._held: dict[str, set[int]] = {}
        """The same of files that are gone, too."""
        self._unknown: set[int] = set()
        """Those whose rows files may hold that nobody knows."""
        self._lost: set[int] = set()
        """Versions of which rows may be gone."""
        self._added: dict[int, frozenset[str]] = {}
        self._schema: frozenset[str] | None = None

    def apply(self, version: int, commit: _DeltaCommit | None) -> None:
        """Take the next version into account."""
        if commit is None:
            before = _union(self._holds.values())
            self._lost |= before
            self._unknown |= before | {version}
            return
        if commit.schema is not None:
            if self._schema is None or not self._schema <= commit.schema:
                # Values of a column may be called otherwise now, or be gone.
                self._lost |= _union(self._holds.values())
            self._schema = commit.schema
        # A file that is added again has other deletions, or other figures, or was restored.
        paths = commit.removed | commit.added
        carried = _union(self._held.get(one, ()) for one in paths)
        for one in paths:
            self._holds.pop(one, None)
        if not commit.moves:
            self._lost |= carried
        if commit.anew:
            self._earlier = False
            self._unknown = set()
        held = {version} if commit.own else carried if commit.moves else carried | {version}
        for one in commit.added:
            self._holds[one] = held
            self._held.setdefault(one, set()).update(held)
        self._added[version] = _names(commit.added - commit.removed)

    def commits(self, known: Known) -> Commits:
        """What the table holds now."""
        live = sorted(_union(self._holds.values()) | self._unknown, reverse=True)
        strange = [
            str(one)
            for one in live
            if one not in self._added
            or not any(names == self._added[one] for names in known.get(str(one), ()))
        ]
        return Commits(
            tuple(str(one) for one in live) + ((EARLIER,) if self._earlier else ()),
            tuple(strange) + ((EARLIER,) if self._earlier else ()),
            tuple(str(one) for one in live if one not in self._lost),
            _names(self._holds),
            {str(version): names for version, names in self._added.items()},
        )


def _union(several: Iterable[Iterable[int]]) -> set[int]:
    return {one for some in several for one in some}


def _names(paths: Iterable[str]) -> frozenset[str]:
    return frozenset(path.rpartition("/")[2] for path in paths)


# -- Iceberg ------------------------------------------------------------------------------------


def _iceberg(files: _Files, folder: Path, known: Known) -> Commits:
    told = json.loads(_latest_metadata(files, folder / "metadata"))
    snapshots = {one["snapshot-id"]: one for one in told.get("snapshots", [])}
    schemas = {one["schema-id"]: _columns_of(one) for one in told.get("schemas", [])}
    now = schemas.get(told.get("current-schema-id"))
    changes: list[str] = []
    whole: list[str] = []
    at: int | None = told.get("current-snapshot-id")
    adding = True
    for _ in range(COMMITS_MAX):
        snapshot = snapshots.get(at or 0)
        if at in {None, -1} or snapshot is None:
            break
        summary = snapshot["summary"]
        # Which files hold the rows is another matter than which rows there are.
        if summary["operation"] != "replace":
            changes.append(str(at))
            then = schemas.get(snapshot.get("schema-id"))
            if adding and then is not None and now is not None and then <= now:
                whole.append(str(at))
            if _is_anew(summary):
                return _of_snapshots(changes, whole, known, earlier=False)
            adding = adding and summary["operation"] == "append"
        at = snapshot.get("parent-snapshot-id")
    # One that has expired, or whose parent nobody names, is not the first.
    return _of_snapshots(changes, whole, known, earlier=bool(changes) or at not in {None, -1})


def _of_snapshots(
    changes: Sequence[str], whole: Sequence[str], known: Known, *, earlier: bool
) -> Commits:
    more = (EARLIER,) if earlier else ()
    strange = tuple(one for one in changes if one not in known)
    return Commits((*changes, *more), (*strange, *more), tuple(whole))


def _latest_metadata(files: _Files, folder: Path) -> str:
    """The metadata that a table of a folder without a catalog has now: of others the catalog alone knows which they are."""
    found = {
        int(match[1]): path
        for path in folder.iterdir()
        if (match := _ICEBERG.fullmatch(path.name)) is not None
    }
    hint = folder / "version-hint.text"
    if not found or not hint.exists():
        raise RowsError("which of its metadata are the latest is known to its catalog alone")
    highest = max(found)
    # The hint may be behind. Those of a table that was dropped stay where the next one is made.
    newest = max(found, key=lambda number: (found[number].stat().st_mtime_ns, number))
    if newest != highest or int(files.text(hint) or "-1") > highest:
        raise RowsError("which of its metadata are the latest is not known")
    if found[highest].name.endswith(".gz"):
        raise RowsError("its metadata are compressed")
    text = files.text(found[highest])
    if text is None:
        raise RowsError("its metadata are too large")
    return text


def _columns_of(schema: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(json.dumps([one["id"], one["name"], one["type"]]) for one in schema["fields"])


def _is_anew(summary: Mapping[str, str]) -> bool:
    """Whether all rows that a table had after a commit were its own."""
    records = summary.get("total-records")
    return records is not None and records == summary.get("added-records")
