"""Commits of tables with versions: which of them changed rows, though no known write made them.

Delta Lake's log has a file of JSON lines for each version (https://github.com/delta-io/delta/blob/master/PROTOCOL.md), Iceberg's
metadata name all snapshots that a table has (https://iceberg.apache.org/spec/#table-metadata). Both are read where they lie on
this machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

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


def strange_commits(
    reader: RowReader, kind: str, place: str, known: Collection[str]
) -> tuple[str, ...]:
    """The commits that changed rows of a table since it was last written anew, and are not known.

    Args:
        reader: says which files may be read.
        kind: Delta Lake or Iceberg, as recipes name them.
        place: the table's folder.
        known: the versions that known writes made.

    Returns:
        Versions or ids of snapshots, the latest first; `EARLIER` last, where the table tells nothing of earlier ones any more.

    Raises:
        RowsError: nobody can tell.
    """
    if split_scheme(canonical(place))[0] not in {"", "file"}:
        raise RowsError("it lies elsewhere")
    if not reader.may_read(canonical(place)):
        raise ForbiddenRowsError("its files may not be read here")
    found = _delta if kind == DELTA else _iceberg
    try:
        return tuple(found(Path(plain_path(canonical(place))), known))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise RowsError(f"what its log says can't be read: {problem}") from problem


EARLIER = "earlier ones"


def _delta(folder: Path, known: Collection[str]) -> Iterator[str]:
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
            if not all(str(one) in known for one in range(version + 1)):
                yield EARLIER
            return
        changes, anew = _of_commit(path)
        if changes and str(version) not in known:
            yield str(version)
        if anew:
            return


def _of_commit(path: Path) -> tuple[bool, bool]:
    """Whether a version changed rows of its table, and whether it left none of those before."""
    if path.stat().st_size > BYTES_MAX:
        return True, False
    changes = anew = False
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            action = json.loads(line)
            for name in ("add", "remove"):
                changes = changes or bool(action.get(name, {}).get("dataChange", False))
            told = action.get("commitInfo", {})
            given = told.get("operationParameters", {})
            # Of tables with partitions an overwrite may leave some; with a condition any does.
            anew = anew or (
                told.get("operation") in _ANEW
                and given.get("partitionBy") == "[]"
                and "predicate" not in given
                and (given.get("mode") == "Overwrite" or told["operation"] != "WRITE")
            )
    return changes, anew


def _iceberg(folder: Path, known: Collection[str]) -> Iterator[str]:
    files = [
        (int(found[1]), path)
        for path in (folder / "metadata").iterdir()
        if (found := _ICEBERG.fullmatch(path.name)) is not None
    ]
    if not files:
        raise RowsError("it has no metadata")
    latest = max(number for number, _ in files)
    strange: dict[str, None] = {}
    for number, path in files:
        # Of a commit that came too late a file may be left that is none of the table's.
        if number == latest:
            strange.update(dict.fromkeys(_of_metadata(path, known)))
    yield from strange


def _of_metadata(path: Path, known: Collection[str]) -> Iterator[str]:
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
            yield EARLIER
            return
        summary = snapshot["summary"]
        if summary["operation"] != "replace" and str(at) not in known:
            yield str(at)
        if _is_anew(summary):
            return
        at = snapshot.get("parent-snapshot-id")
    yield EARLIER


def _is_anew(summary: dict[str, str]) -> bool:
    """Whether all rows that a table had after a commit were its own."""
    records = summary.get("total-records")
    return records is not None and records == summary.get("added-records")
