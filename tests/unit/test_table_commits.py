"""Which rows of a table with versions no known write left, by its log alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lineage_core.recipe import DELTA, ICEBERG, Output
from lineage_store.outputs import OutputState, Write, output_state
from lineage_store.paths import RowsError
from lineage_store.rows import RowReader
from lineage_store.standing import Standing
from lineage_store.table_commits import EARLIER, Commits, commits_of

pytestmark = pytest.mark.unit

Lines = list[dict[str, Any]]
REMOVED = {"remove": {"path": "f0", "dataChange": True}}


def delta(folder: Path, *commits: Lines) -> str:
    """A table of Delta Lake with these versions."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for version, lines in enumerate(commits):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (log / f"{version:020}.json").write_text(text)
    return str(folder)


def wrote(mode: str, name: str, parts: dict[str, str] | None = None, **told: Any) -> Lines:
    """A write of one file."""
    given = {"mode": mode, "partitionBy": "[]", **told}
    return [
        {"commitInfo": {"operation": "WRITE", "operationParameters": given}},
        {"add": {"path": name, "partitionValues": parts or {}, "dataChange": True}},
    ]


def snapshot(number: int, parent: int | None, how: str, added: int, total: int) -> dict[str, Any]:
    summary = {"operation": how, "added-records": str(added), "total-records": str(total)}
    return {"snapshot-id": number, "parent-snapshot-id": parent, "summary": summary}


def iceberg(
    folder: Path, current: int, *snapshots: dict[str, Any], name: str = "v3.metadata.json"
) -> str:
    """A table of Iceberg with these snapshots."""
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    told = {"snapshots": list(snapshots), "current-snapshot-id": current}
    (folder / "metadata" / name).write_text(json.dumps(told))
    return str(folder)


def of_delta(place: str, *known: int) -> Commits:
    return commits_of(RowReader(), DELTA, place, {str(one): [f"f{one}"] for one in known})


def of_iceberg(place: str, *known: int) -> Commits:
    return commits_of(RowReader(), ICEBERG, place, {str(one): () for one in known})


def test_a_write_of_all_rows_ends_what_is_asked_of_deltas_log(tmp_path: Path) -> None:
    place = delta(tmp_path, wrote("Append", "f0"), wrote("Overwrite", "f1"), wrote("Append", "f2"))
    assert of_delta(place, 1, 2) == Commits(("2", "1"), (), ("2", "1"))
    assert of_delta(place, 1) == Commits(("2", "1"), ("2",), ("2", "1"))


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"p": "2"}, {}),
        ({}, {"predicate": "true"}),
        ({}, {"replaceUsingCols": "(id)"}),
        ({}, {"replaceOnCond": "t.id = s.id"}),
        ({}, {"isDynamicPartitionOverwrite": True}),
        ({}, {"somethingNew": "1"}),
        ({}, {"partitionBy": '["p"]'}),
    ],
)
def test_a_write_that_may_leave_rows_does_not(
    parts: dict[str, str], told: dict[str, Any], tmp_path: Path
) -> None:
    write = wrote("Overwrite", "f1", parts, **told)
    place = delta(tmp_path / "some", wrote("Append", "f0"), [*write, REMOVED])
    assert of_delta(place, 1) == Commits(("1", "0"), ("0",), ("1",))
    place = delta(tmp_path / "none", wrote("Append", "f0"), write)
    assert of_delta(place, 1) == Commits(("1", "0"), ("0",), ("1", "0"))


def test_an_overwrite_that_added_nothing_may_be_of_no_partition(tmp_path: Path) -> None:
    place = delta(tmp_path, wrote("Append", "f0"), wrote("Overwrite", "f1")[:1])
    assert of_delta(place, 1) == Commits(("0",), ("0",), ("0",))


def test_a_version_of_a_table_that_was_made_anew_is_not_the_one_before(tmp_path: Path) -> None:
    place = delta(tmp_path, wrote("Append", "part-of-another"), wrote("Append", "p=1/f1"))
    assert of_delta(place, 0, 1) == Commits(("1", "0"), ("0",), ("1", "0"))


def test_versions_whose_log_is_cleaned_are_known_by_files_that_are_there(tmp_path: Path) -> None:
    place = delta(tmp_path, wrote("Append", "f0"), wrote("Append", "f1"))
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    assert of_delta(place, 0, 1).strange == (EARLIER,)
    (tmp_path / "f0").touch()
    assert of_delta(place, 0, 1).strange == ()


def test_other_files_with_the_same_rows_are_no_write_of_all(tmp_path: Path) -> None:
    place = iceberg(
        tmp_path,
        *(3, snapshot(1, None, "append", 100, 100), snapshot(2, 1, "append", 50, 150)),
        snapshot(3, 2, "replace", 150, 150),
    )
    assert of_iceberg(place, 2) == Commits(("2", "1"), ("1",), ("2", "1"))


def test_metadata_of_a_dropped_table_are_not_taken_for_those_of_the_next(tmp_path: Path) -> None:
    place = iceberg(tmp_path, 9, snapshot(9, None, "append", 5, 5), name="00005-b.metadata.json")
    os.utime(tmp_path / "metadata" / "00005-b.metadata.json", (1, 1))
    first, second = snapshot(1, None, "append", 100, 100), snapshot(2, 1, "append", 50, 150)
    iceberg(tmp_path, 2, first, second, name="00002-a.metadata.json")
    with pytest.raises(RowsError, match="latest"):
        of_iceberg(place, 2, 9)


def written(place: str, version: int, kind: str, standing: Standing = "same") -> Write:
    name = f"{place}/f{version}"
    output = Output(kind="files", path=place, format=kind, version=str(version))
    return Write(f"app-{version}", "n1", {name: standing}, output)


def doubted(state: OutputState) -> set[str]:
    return {app for app, _ in state.doubts}


def test_writes_are_beyond_doubt_unless_rows_were_taken_away_later(tmp_path: Path) -> None:
    deleted: Lines = [{"commitInfo": {"operation": "DELETE", "operationParameters": {}}}, REMOVED]
    first, second, third = wrote("Append", "f0"), wrote("Append", "f1"), wrote("Append", "f2")
    merged: Lines = [*wrote("Append", "f1"), REMOVED]
    moved: Lines = [{"add": {"path": "f2", "partitionValues": {}, "dataChange": False}}]
    for number, (commits, doubts, complete) in enumerate(
        (
            ([first, second], set(), True),
            ([first, merged], {"app-0"}, True),
            ([first, merged, moved], {"app-0"}, True),
            ([first, second, third], set(), False),
            ([first, second, deleted], {"app-0", "app-1"}, False),
        )
    ):
        place = delta(tmp_path / str(number), *commits)
        writes = [written(place, version, DELTA) for version in (1, 0)]
        state = output_state(RowReader(), place, writes)
        assert doubted(state) == doubts
        assert (not state.gaps) == complete


def test_snapshots_that_did_more_than_append_leave_doubts(tmp_path: Path) -> None:
    first, second = snapshot(1, None, "append", 100, 100), snapshot(2, 1, "append", 50, 150)
    for how, doubts in (
        ("append", set()),
        ("overwrite", {"app-1", "app-2"}),
        ("delete", {"app-1", "app-2"}),
    ):
        place = iceberg(tmp_path / how, 3, first, second, snapshot(3, 2, how, 5, 155))
        writes = [written(place, number, ICEBERG) for number in (2, 1)]
        assert doubted(output_state(RowReader(), place, writes)) == doubts


def test_rows_that_were_moved_to_other_files_are_not_overwritten(tmp_path: Path) -> None:
    moved: Lines = [
        {"remove": {"path": "f0", "dataChange": False}},
        {"remove": {"path": "f1", "dataChange": False}},
        {"add": {"path": "f2", "partitionValues": {}, "dataChange": False}},
    ]
    place = delta(tmp_path / "moved", wrote("Append", "f0"), wrote("Append", "f1"), moved)
    writes = [written(place, version, DELTA, "gone") for version in (1, 0)]
    state = output_state(RowReader(), place, writes)
    assert [one.app for one in state.writes] == ["app-1", "app-0"]
    assert (state.changed, state.gaps, state.warnings) == (False, (), ())
    # Another table has the same versions: no file of these writes is in it.
    place = delta(tmp_path / "anew", wrote("Append", "g0"), wrote("Append", "g1"))
    writes = [written(place, version, DELTA, "gone") for version in (1, 0)]
    state = output_state(RowReader(), place, writes)
    assert state.changed
    assert state.warnings
    assert state.gaps


def test_what_was_overwritten_is_not_asked_once_its_files_are_gone(tmp_path: Path) -> None:
    place = delta(tmp_path, wrote("Append", "f0"), wrote("Overwrite", "f1"))
    writes = [written(place, 1, DELTA), written(place, 0, DELTA, "gone")]
    state = output_state(RowReader(), place, writes)
    assert [one.app for one in state.writes] == ["app-1"]
    assert (state.changed, state.gaps, state.doubts) == (False, (), {})


def test_what_was_rolled_back_is_doubted(tmp_path: Path) -> None:
    first, second = snapshot(1, None, "append", 100, 100), snapshot(2, 1, "append", 50, 150)
    place = iceberg(tmp_path, 1, first, second)
    writes = [written(place, 2, ICEBERG), written(place, 1, ICEBERG)]
    assert doubted(output_state(RowReader(), place, writes)) == {"app-2"}


def test_of_a_table_whose_log_nobody_sees_all_writes_are_doubted(tmp_path: Path) -> None:
    state = output_state(RowReader(), str(tmp_path), [written(str(tmp_path), 0, DELTA)])
    assert doubted(state) == {"app-0"}
    (gap,) = state.gaps
    assert "can't be seen" in gap
