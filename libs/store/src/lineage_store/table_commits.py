"""Commits of tables with versions: which of them changed rows, though no known write made them.

Delta Lake's log has a file of JSON lines for each version (https://github.com/delta-io/delta/blob/master/PROTOCOL.md), Iceberg's
metadata name all snapshots that a table has (https://iceberg.apache.org/spec/#table-metadata). Both are read where they lie on
this machine.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lineage_core.recipe import DELTA
from lineage_store.paths import RowsError, canonical, plain_path, split_scheme
from lineage_store.rows import ForbiddenRowsError, RowReader

COMMITS_MAX = 2_000
"""Commits that are looked at, the latest ones: some seconds."""
BYTES_MAX = 64 << 20
"""Of a file of a log: a commit with more is taken for one that changed rows."""
_DELTA = re.compile(r"(\d{20})\.json")
_ICEBERG = re.compile(r"v?(\d+)(?:-[-\w]+)?(\.gz)?\.metadata\.json(\.gz)?")
_ANEW = {"WRITE", "CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT"}
_OF_WHOLE = {
    *("canMergeSchema", "canOverwriteSchema", "clusterBy", "description", "isDynamicPartitionOverwrite"),
    *("isManaged", "mode", "partitionBy", "properties", "statsOnLoad"),
}  # fmt: skip
"""What Delta Lake tells of a write that may be one of the whole table: any other condition leaves rows."""
Known = Mapping[str, Collection[str]]
"""The versions that known writes made, with the names of the files that each is known to have left, without folders."""


@dataclass(frozen=True, slots=True)
class Commits:
    """What changed rows of a table since it was last written anew: versions or ids of snapshots, the latest first.

    ``strange``: those that are not known; `EARLIER` last, where the table tells nothing of earlier ones any more.
    ``whole``: those of which the later ones left all rows, as they just added some.
    """

    changes: tuple[str, ...]
    strange: tuple[str, ...]
    whole: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Change:
    """One of them. ``adds``: whether it left all rows that there were."""

    name: str
    known: bool
    adds: bool = False


def commits_of(reader: RowReader, kind: str, place: str, known: Known) -> Commits:
    """The commits that changed rows of a table since it was last written anew.

    Args:
        reader: says which files may be read.
        kind: Delta Lake or Iceberg, as recipes name them.
        place: the table's folder.
        known: a version of Delta Lake counts only where one of its files is added there: a table that was made anew counts
            from 0 again. Snapshots of Iceberg have numbers of their own.

    Raises:
        RowsError: nobody can tell.
    """
    if split_scheme(canonical(place))[0] not in {"", "file"}:
        raise RowsError("it lies elsewhere")
    if not reader.may_read(canonical(place)):
        raise ForbiddenRowsError("its files may not be read here")
    walk = _delta if kind == DELTA else _iceberg
    try:
        found = list(walk(Path(plain_path(canonical(place))), known))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise RowsError(f"what its log says can't be read: {problem}") from problem
    adding = itertools.takewhile(lambda change: change.adds, found)
    return Commits(
        tuple(change.name for change in found),
        tuple(change.name for change in found if not change.known),
        tuple(change.name for change in found[: 1 + sum(1 for _ in adding)]),
    )


EARLIER = "earlier ones"


def _delta(folder: Path, known: Known) -> Iterator[_Change]:
    log = folder / "_delta_log"
    versions = {
        int(found[1]): path
        for path in log.iterdir()
        if (found := _DELTA.fullmatch(path.name)) is not None
    }
    staged = [*log.glob("_commits/*.json"), *log.glob("_staged_commits/*.json")]
    if not versions or staged:
        raise RowsError("its log is kept elsewhere, too" if staged else "it has no log")
    latest = max(versions)
    for version in range(latest, -1, -1):
        path = versions.get(version)
        if path is None or latest - version >= COMMITS_MAX:
            # The log is cleaned from its beginning on.
            if not all(_is_there(folder, known.get(str(one), ())) for one in range(version + 1)):
                yield _Change(EARLIER, False)
            return
        commit = _DeltaCommit.read(path)
        if commit.changes:
            is_known = not commit.added.isdisjoint(known.get(str(version), ()))
            yield _Change(str(version), is_known, commit.adds)
        if commit.anew:
            return


def _is_there(folder: Path, names: Collection[str]) -> bool:
    """Whether a file of some is in a folder: that is no other table than the one which it was written to."""
    return any((folder / name).is_file() for name in names)


@dataclass(frozen=True, slots=True)
class _DeltaCommit:
    """``changes``: whether it changed rows. ``anew``: whether it left none of those before. ``adds``: whether it left all.

    ``added``: names of files.
    """

    changes: bool
    anew: bool
    adds: bool
    added: frozenset[str] = frozenset()

    @classmethod
    def read(cls, path: Path) -> _DeltaCommit:
        """Read a file of the log."""
        if path.stat().st_size > BYTES_MAX:
            return cls(True, False, False)
        changes = anew = parts = False
        adds = True
        added: set[str] = set()
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                action = json.loads(line)
                for name in action.keys() & {"add", "remove"}:
                    changed = bool(action[name]["dataChange"])
                    changes = changes or changed
                    adds = adds and not (name == "remove" and changed)
                    parts = parts or bool(action[name].get("partitionValues"))
                if "add" in action:
                    added.add(unquote(action["add"]["path"]).rpartition("/")[2])
                anew = anew or _is_of_whole(action.get("commitInfo", {}))
        # Of partitions an overwrite may leave some, and one that adds nothing may have been of none.
        return cls(changes, anew and bool(added) and not parts, adds, frozenset(added))


def _is_of_whole(told: dict[str, Any]) -> bool:
    """Whether a commit's information is that of a write of a whole table, if it has no partitions."""
    given = told.get("operationParameters", {})
    return (
        told.get("operation") in _ANEW
        and given.get("partitionBy") == "[]"
        and given.keys() <= _OF_WHOLE
        and str(given.get("isDynamicPartitionOverwrite", False)).lower() == "false"
        and (given.get("mode") == "Overwrite" or told["operation"] != "WRITE")
    )


def _iceberg(folder: Path, known: Known) -> Iterator[_Change]:
    files = [
        (int(found[1]), path.stat().st_mtime_ns, path)
        for path in (folder / "metadata").iterdir()
        if (found := _ICEBERG.fullmatch(path.name)) is not None
    ]
    if not files:
        raise RowsError("it has no metadata")
    highest = max(number for number, _, _ in files)
    newest = {path: changed for number, changed, path in files if number == highest}
    # Those of a table that was dropped stay where the next one is made, one of a commit that came too late may be left.
    if len(newest) > 1 or max(changed for _, changed, _ in files) > max(newest.values()):
        raise RowsError("which of its metadata are the latest is not known")
    yield from _of_metadata(next(iter(newest)), known)


def _of_metadata(path: Path, known: Known) -> Iterator[_Change]:
    if path.suffix == ".gz" or path.name.endswith(".gz.metadata.json"):
        raise RowsError("its metadata are compressed")
    if path.stat().st_size > BYTES_MAX:
        raise RowsError("its metadata are too large")
    told = json.loads(path.read_text(encoding="utf-8"))
    snapshots: dict[int, dict[str, Any]] = {
        one["snapshot-id"]: one for one in told.get("snapshots", [])
    }
    at: int | None = told.get("current-snapshot-id", -1)
    for _ in range(COMMITS_MAX):
        if at in {None, -1}:
            return
        snapshot = snapshots.get(at or 0)
        if snapshot is None:
            # It has expired.
            yield _Change(EARLIER, False)
            return
        summary = snapshot["summary"]
        # Which files hold the rows is another matter than which rows there are.
        if summary["operation"] != "replace":
            yield _Change(str(at), str(at) in known, summary["operation"] == "append")
            if _is_anew(summary):
                return
        at = snapshot.get("parent-snapshot-id")
    yield _Change(EARLIER, False)


def _is_anew(summary: dict[str, str]) -> bool:
    """Whether all rows that a table had after a commit were its own."""
    records = summary.get("total-records")
    return records is not None and records == summary.get("added-records")
