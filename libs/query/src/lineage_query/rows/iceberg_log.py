"""The metadata of a table of Apache Iceberg: a file of JSON that names all snapshots that the table has.

https://iceberg.apache.org/spec/#table-metadata
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lineage_core.tracing.budget import current_budget
from lineage_query.rows.row_tracking import is_number
from lineage_query.rows.table_log import LogReader
from lineage_store.paths import RowsError, canonical

_ICEBERG = re.compile(r"v([0-9]+)\.metadata\.json")
_NUMBERED = re.compile(r"v?([0-9]+)(?:-[-0-9a-zA-Z]+)?\.metadata\.json")
"""Names that a catalog gives, too."""
_PLACED_ELSEWHERE = {"write.data.path", "write.object-storage.enabled", "write.object-storage.path", "write.folder-storage.path"}  # fmt: skip
_MOVES = {"replace", "delete"}
"""Operations of snapshots that hold only rows of earlier ones."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of a table.

    ``appends``: it added files, and all others are as they were. ``spark_app``: the id of the Spark application that committed it.
    ``sequence``: its number in the order of the table's snapshots; 0: the table does not number them. ``row_ids``: those that it gave
    to rows first, if the table gives any.
    """

    number: int
    parent: int | None
    appends: bool
    spark_app: str
    operation: str = ""
    sequence: int = 0
    row_ids: range = range(0)

    @property
    def moves(self) -> bool:
        """Whether it put rows into other files, or deleted some, and made none."""
        return self.operation in _MOVES


def latest_metadata(files: LogReader, folder: Path) -> str:
    """The current metadata file of a table without a catalog; for other tables only the catalog names it."""
    metadata_files = _metadata_files(folder)
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
    return _text(files, by_number[highest])


def newest_snapshots(files: LogReader, folder: Path) -> dict[int, Snapshot]:
    """The snapshots that the newest metadata files of a table list, those of commits that failed among them."""
    found: dict[int, Snapshot] = {}
    for path in _newest(folder):
        found |= snapshots_in(files, path)
    return found


def check_data_below(files: LogReader, folder: Path) -> None:
    """See that the data files of a table lie below its folder, as its newest metadata files say.

    Raises:
        RowsError: they may lie elsewhere, or it is not known.
    """
    for path in _newest(folder / "metadata"):
        metadata = json.loads(_text(files, path))
        is_moved = canonical(metadata["location"]) != canonical(str(folder))
        if is_moved or _PLACED_ELSEWHERE & metadata.get("properties", {}).keys():
            raise RowsError("its data files may lie elsewhere")


def _newest(folder: Path) -> list[Path]:
    by_number: dict[int, list[Path]] = {}
    for path in _metadata_files(folder):
        match = _NUMBERED.fullmatch(path.name)
        if match is None:
            raise RowsError("which of its metadata files is the newest is not known")
        by_number.setdefault(int(match[1]), []).append(path)
    if not by_number:
        raise RowsError("it has no metadata file")
    return by_number[max(by_number)]


def _text(files: LogReader, path: Path) -> str:
    text = files.text(path)
    if text is None:
        raise RowsError("its metadata are too large")
    return text


def snapshots_in(files: LogReader, path: Path) -> dict[int, Snapshot]:
    """The snapshots that a metadata file lists, by number.

    Raises:
        RowsError: it does not list all that the table has.
    """
    metadata = json.loads(_text(files, path))
    if "write.metadata.path" in metadata.get("properties", {}):
        raise RowsError("its metadata files lie elsewhere")
    return {one.number: one for one in map(_snapshot, metadata.get("snapshots", []))}


def ancestors(snapshots: Mapping[int, Snapshot], number: int | None) -> tuple[list[Snapshot], bool]:
    """A snapshot and those before it, the latest first; and whether all are listed, back to the table's first."""
    found: dict[int, Snapshot] = {}
    while number is not None and number in snapshots and number not in found:
        current_budget().check()
        found[number] = snapshots[number]
        number = snapshots[number].parent
    return list(found.values()), number is None


def _metadata_files(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.iterdir()
        if ".metadata.json" in path.name and not path.name.startswith(".")
    ]


def _snapshot(raw: Mapping[str, object]) -> Snapshot:
    summary = raw["summary"]
    if not isinstance(summary, dict):
        raise TypeError("a snapshot has no summary")
    parent = raw.get("parent-snapshot-id")
    sequence = raw.get("sequence-number", 0)
    return Snapshot(
        int(str(raw["snapshot-id"])),
        None if parent in (None, -1) else int(str(parent)),
        summary["operation"] == "append",
        str(summary.get("spark.app.id", "")),
        str(summary["operation"]),
        sequence if is_number(sequence) else 0,
        _row_ids(raw),
    )


def _row_ids(raw: Mapping[str, object]) -> range:
    first, rows = raw.get("first-row-id"), raw.get("added-rows")
    if not (is_number(first) and is_number(rows)):
        return range(0)
    return range(first, first + rows)
