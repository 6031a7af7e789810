"""Which rows of a table with versions no known write left, by its log alone."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from lineage_core.recipe.document import Output
from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_query.outputs import OutputState, Write, output_state
from lineage_query.rows import table_log
from lineage_query.rows.file_status import FileStatus
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_commits import EARLIER, commits_of
from lineage_store.paths import RowsError
from tests.support.table_logs import Lines, add, delta, info, moved, overwrote, remove, wrote

pytestmark = pytest.mark.unit


def columns(operation: str, *names: str) -> Lines:
    fields = [{"name": name, "type": "string", "metadata": {}} for name in names]
    return [*info(operation), {"metaData": {"schemaString": json.dumps({"fields": fields})}}]


def snapshot(
    number: int, parent: int | None, how: str, added: int, total: int, schema: int = 0
) -> dict[str, Any]:
    summary = {"operation": how, "added-records": str(added), "total-records": str(total)}
    told = {"snapshot-id": number, "parent-snapshot-id": parent, "summary": summary}
    return {**told, "schema-id": schema}


def iceberg(
    folder: Path,
    current: int,
    *snapshots: dict[str, Any],
    name: str = "v3.metadata.json",
    schemas: tuple[str, ...] = ("city",),
) -> str:
    """A table of Iceberg with these snapshots; of each schema the name of its one column, the last one counts."""
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    told = {
        "snapshots": list(snapshots),
        "current-snapshot-id": current,
        "current-schema-id": len(schemas) - 1,
        "schemas": [
            {"schema-id": at, "fields": [{"id": 1, "name": column, "type": "string"}]}
            for at, column in enumerate(schemas)
        ],
    }
    (folder / "metadata" / name).write_text(json.dumps(told))
    (folder / "metadata" / "version-hint.text").write_text("3")
    return str(folder)


def of_delta(place: str, *known: int, there: tuple[str, ...] = ()) -> tuple[tuple[str, ...], ...]:
    names = {str(one): [frozenset({f"f{one}"})] for one in known}
    found = commits_of(RowReader(), place, names, there)
    return found.changes, found.foreign_versions, found.complete_versions


def of_iceberg(place: str, *known: int) -> tuple[tuple[str, ...], ...]:
    found = commits_of(RowReader(), place, {str(one): () for one in known})
    return found.changes, found.foreign_versions, found.complete_versions


def written(
    place: str,
    version: int,
    kind: str = DELTA,
    standing: FileStatus = "same",
    name: str = "",
    app: str = "",
) -> Write:
    file = f"{place}/{name or f'f{version}'}"
    output = Output(kind="files", path=place, format=kind, version=str(version))
    return Write(app or f"app-{version}", "n1", {file: standing}, output)


def asked(state: OutputState) -> list[str]:
    return [one.app for one in state.writes]


def doubted(state: OutputState) -> set[str]:
    return {app for app, _ in state.uncertainties}


def test_what_was_overwritten_is_not_in_a_table(tmp_path: Path) -> None:
    commits = wrote("Append", "f0"), overwrote("f1", "f0"), wrote("Append", "f2")
    place = delta(tmp_path, *commits)
    assert of_delta(place, 1, 2) == (("2", "1"), (), ("2", "1"))
    assert of_delta(place, 1) == (("2", "1"), ("2",), ("2", "1"))
    # Its files lie there until VACUUM deletes them.
    state = output_state(RowReader(), place, [written(place, one) for one in (2, 1, 0)])
    assert (asked(state), doubted(state), state.gaps) == (["app-2", "app-1"], set(), ())


@pytest.mark.parametrize(
    "told",
    [
        {"predicate": "true"},
        {"replaceUsingCols": "(id)"},
        {"replaceOnCond": "t.id = s.id"},
        {"somethingNew": "1"},
    ],
)
def test_a_write_under_a_condition_may_have_copied_rows(
    told: dict[str, Any], tmp_path: Path
) -> None:
    place = delta(tmp_path, wrote("Append", "f0"), overwrote("f1", "f0", **told))
    assert of_delta(place, 1) == (("1", "0"), ("0",), ("1",))
    assert of_delta(place, 0, 1) == (("1", "0"), (), ("1",))


def test_an_overwrite_leaves_what_it_did_not_remove(tmp_path: Path) -> None:
    """Of other partitions, or what another writer appended meanwhile."""
    place = delta(tmp_path, wrote("Append", "f0"), wrote("Append", "f1"), overwrote("f2", "f0"))
    assert of_delta(place, 0, 2) == (("2", "1"), ("1",), ("2", "1"))


@pytest.mark.parametrize("operation", ["MERGE", "UPDATE", "DELETE", "STREAMING UPDATE", "WRITE"])
@pytest.mark.parametrize("changes", [True, False])
def test_what_others_write_may_hold_rows_of_the_files_that_they_removed(
    operation: str, changes: bool, tmp_path: Path
) -> None:
    told = {"predicate": "id = 1"} if changes else {"mode": "Overwrite", "partitionBy": "[]"}
    commit = [*info(operation, **told), *add("x", changes=changes), *remove("f0", changes=changes)]
    place = delta(tmp_path, wrote("Append", "f0"), commit, wrote("Append", "f2"))
    assert of_delta(place, 0, 2) == (("2", "1", "0"), ("1",), ("2", "1"))
    state = output_state(
        RowReader(), place, [written(place, 2), written(place, 0, standing="gone")]
    )
    assert (asked(state), doubted(state)) == (["app-2", "app-0"], {"app-0"})
    assert state.gaps


def test_other_deletions_of_a_file_leave_doubts(tmp_path: Path) -> None:
    commit = [*info("DELETE"), *remove("f0"), *add("f0")]
    place = delta(tmp_path, wrote("Append", "f0"), wrote("Append", "f1"), commit)
    assert of_delta(place, 0, 1) == (("2", "1", "0"), ("2",), ("2", "1"))


def test_what_was_deleted_as_a_whole_is_gone_and_what_was_restored_is_there(tmp_path: Path) -> None:
    deleted = [*info("DELETE"), *remove("f0")]
    place = delta(tmp_path / "deleted", wrote("Append", "f0"), deleted)
    assert of_delta(place, 0) == ((), (), ())
    restored = [*info("RESTORE"), *add("f0")]
    place = delta(tmp_path / "restored", wrote("Append", "f0"), deleted, restored)
    assert of_delta(place, 0) == (("2", "0"), ("2",), ("2",))


def test_a_commit_that_is_too_large_leaves_all_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = [*wrote("Append", "f1"), {"txn": {"appId": "x" * 3_000}}]
    commits = wrote("Append", "f0"), large, wrote("Append", "f2")
    monkeypatch.setattr(table_log, "BYTES_MAX", 2_000)
    place = delta(tmp_path / "appended", *commits)
    assert of_delta(place, 0, 1, 2) == (("2", "1", "0"), ("1",), ("2",))
    place = delta(tmp_path / "anew", *commits, overwrote("f3", "f0", "f1", "f2", read=2))
    assert of_delta(place, 0, 1, 2, 3) == (("3",), (), ("3",))
    monkeypatch.setattr(table_log, "LOG_BYTES_MAX", 500)
    with pytest.raises(RowsError, match="too large"):
        of_delta(place, 0)


def test_columns_that_go_or_are_called_otherwise_leave_doubts(tmp_path: Path) -> None:
    for number, (later, complete_versions) in enumerate(
        (
            (columns("ADD COLUMNS", "id", "city", "zip"), ("2", "0")),
            (columns("RENAME COLUMN", "id", "town"), ("2",)),
            (columns("DROP COLUMNS", "id"), ("2",)),
        )
    ):
        first = [*columns("CREATE TABLE AS SELECT", "id", "city"), *add("f0")]
        place = delta(tmp_path / str(number), first, later, wrote("Append", "f2"))
        assert of_delta(place, 0, 2) == (("2", "0"), (), complete_versions)


def test_a_table_that_was_made_anew_has_none_of_the_writes_before(tmp_path: Path) -> None:
    place = delta(tmp_path, wrote("ErrorIfExists", "g0"), wrote("Append", "g1"))
    old = [written(place, one, standing="gone") for one in (1, 0)]
    new = [written(place, one, name=f"g{one}", app=f"new-{one}") for one in (1, 0)]
    state = output_state(RowReader(), place, [*new, *old])
    assert (asked(state), doubted(state), state.gaps) == (["new-1", "new-0"], set(), ())
    # Just its log was made anew, by others.
    state = output_state(RowReader(), place, [written(place, one) for one in (1, 0)])
    assert (asked(state), doubted(state)) == (["app-1", "app-0"], {"app-1", "app-0"})
    assert state.gaps
    # A clone of both at once.
    clone = [*info("CLONE"), *add("file:/there/f0"), *add("file:/there/f1")]
    place = delta(tmp_path / "clone", clone)
    state = output_state(RowReader(), place, [written(place, 0, standing="gone")])
    assert state.gaps
    assert state.warnings


def test_versions_whose_log_is_cleaned_are_known_by_files_that_are_there(tmp_path: Path) -> None:
    overwritten = overwrote("f2", "f0", "f1", read=1)
    place = delta(tmp_path, wrote("Append", "f0"), wrote("Append", "f1"), overwritten)
    log = tmp_path / "_delta_log"
    (log / f"{0:020}.json").unlink()
    assert of_delta(place, 1, 2) == (("2",), (), ("2",))
    # What it overwrote is gone, though its files lie there.
    state = output_state(RowReader(), place, [written(place, one) for one in (2, 1, 0)])
    assert (asked(state), doubted(state), state.gaps) == (["app-2"], set(), ())
    (log / f"{2:020}.json").unlink()
    assert of_delta(place, 0, 1)[1] == (EARLIER,)
    assert of_delta(place, 0, 1, there=("0",))[1] == ()
    state = output_state(RowReader(), place, [written(place, one) for one in (1, 0)])
    assert (asked(state), doubted(state), state.gaps) == (["app-1", "app-0"], {"app-0"}, ())
    copied = [written(place, 1), written(place, 0, standing="changed")]
    assert output_state(RowReader(), place, copied).gaps
    (log / f"{2:020}.checkpoint.parquet").touch()
    with pytest.raises(RowsError, match="not in its log"):
        of_delta(place, 0, 1)


@pytest.mark.parametrize(
    ("last", "known"),
    [
        (overwrote("f1", "f0", read=0), True),
        (overwrote("f1", "f0", read=0, partitionBy='["p"]'), False),
        (overwrote("f1", "f0", read=0, isDynamicPartitionOverwrite=True), False),
        ([*overwrote("f1", "f0", read=0), *add("f2", {"p": "2"})], False),
        (overwrote("f1", "f0", read=-1), False),
        (overwrote("f1", "f0"), False),
        (overwrote("f1", "f0", read=0)[:1], False),
        (wrote("Append", "f1"), False),
    ],
)
def test_just_a_write_of_a_whole_table_ends_what_a_cleaned_log_may_hide(
    last: Lines, known: bool, tmp_path: Path
) -> None:
    place = delta(tmp_path, wrote("Append", "f0"), last)
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    assert (EARLIER not in of_delta(place, 1)[1]) == known


def test_files_of_a_log_that_are_none_are_not_read(tmp_path: Path) -> None:
    place = delta(tmp_path / "table", wrote("Append", "f0"))
    file = tmp_path / "table" / "_delta_log" / f"{1:020}.json"
    os.mkfifo(file)
    with pytest.raises(RowsError, match="no file of its own"):
        of_delta(place, 0)
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(RowsError, match="can't be read"):
        of_delta(place, 0)


def test_a_log_that_only_a_catalog_knows_whole_is_not_trusted(tmp_path: Path) -> None:
    protocol = {"protocol": {"readerFeatures": ["catalogManaged"], "minReaderVersion": 3}}
    place = delta(tmp_path, [protocol, *wrote("Append", "f0")])
    with pytest.raises(RowsError, match="only its catalog"):
        of_delta(place, 0)


def test_lines_of_a_log_end_where_json_says(tmp_path: Path) -> None:
    place = delta(tmp_path, wrote("Append", "f0"))
    file = tmp_path / "_delta_log" / f"{0:020}.json"
    file.write_text(file.read_text() + '{"txn": {"appId": "a\u2028b\x85c"}}\n\n')
    assert of_delta(place, 0) == (("0",), (), ("0",))


def test_a_log_of_many_files_is_held_once(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(1_000)]
    appends = [wrote("Append", f"f{number}") for number in range(300)]
    moves: list[Lines] = []
    old = [f"f{number}" for number in range(300)]
    for round_ in range(10):
        new = [f"{name}-{round_}" for name in names]
        many = [line for name in new for line in add(name, changes=False)]
        moves.append([*info("OPTIMIZE"), *many, *remove(*old, changes=False)])
        old = new
    place = delta(tmp_path, *appends, *moves)
    tracemalloc.start()
    of_delta(place)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20


def test_other_files_with_the_same_rows_are_no_write_of_all(tmp_path: Path) -> None:
    place = iceberg(
        tmp_path,
        *(3, snapshot(1, None, "append", 100, 100), snapshot(2, 1, "append", 50, 150)),
        snapshot(3, 2, "replace", 150, 150),
    )
    assert of_iceberg(place, 2) == (("2", "1"), ("1",), ("2", "1"))


def test_metadata_that_may_not_be_the_latest_tell_nothing(tmp_path: Path) -> None:
    old, new = snapshot(9, None, "append", 5, 5), snapshot(1, None, "append", 100, 100)
    place = iceberg(tmp_path / "dropped", 9, old, name="v5.metadata.json")
    os.utime(tmp_path / "dropped" / "metadata" / "v5.metadata.json", (1, 1))
    iceberg(tmp_path / "dropped", 1, new, name="v2.metadata.json")
    with pytest.raises(RowsError, match="current"):
        of_iceberg(place, 1, 9)
    place = iceberg(tmp_path / "catalog", 1, new, name="00002-a.metadata.json")
    with pytest.raises(RowsError, match="only its catalog"):
        of_iceberg(place, 1)
    iceberg(tmp_path / "registered", 1, new)
    place = iceberg(tmp_path / "registered", 1, new, name="00000-a.metadata.json")
    with pytest.raises(RowsError, match="only its catalog"):
        of_iceberg(place, 1)
    place = iceberg(tmp_path / "elsewhere", 1, new, name="v2.metadata.json")
    with pytest.raises(RowsError, match="current"):
        of_iceberg(place, 1)


def test_snapshots_under_other_columns_leave_doubts(tmp_path: Path) -> None:
    one = snapshot(1, None, "append", 100, 100)
    place = iceberg(tmp_path / "same", 1, one, schemas=("city", "city"))
    assert of_iceberg(place, 1) == (("1",), (), ("1",))
    place = iceberg(tmp_path / "renamed", 1, one, schemas=("city", "town"))
    assert of_iceberg(place, 1) == (("1",), (), ())


def test_a_first_snapshot_that_is_not_the_first_is_told(tmp_path: Path) -> None:
    place = iceberg(tmp_path, 1, snapshot(1, None, "append", 50, 150))
    assert of_iceberg(place, 1) == (("1", EARLIER), (EARLIER,), ("1",))


def test_writes_are_beyond_doubt_unless_rows_were_taken_away_later(tmp_path: Path) -> None:
    first, second, third = wrote("Append", "f0"), wrote("Append", "f1"), wrote("Append", "f2")
    none: set[str] = set()
    for number, (commits, writes, uncertainties, complete) in enumerate(
        (
            ([first, second], ["app-1", "app-0"], none, True),
            ([first, overwrote("f1", "f0")], ["app-1"], none, True),
            ([first, second, moved("f2", "f0", "f1")], ["app-1", "app-0"], none, True),
            ([first, second, third], ["app-1", "app-0"], none, False),
            (
                [first, second, [*info("DELETE"), *remove("f0"), *add("f0")]],
                ["app-1", "app-0"],
                {"app-0"},
                False,
            ),
        )
    ):
        place = delta(tmp_path / str(number), *commits)
        state = output_state(RowReader(), place, [written(place, one) for one in (1, 0)])
        assert (asked(state), doubted(state)) == (writes, uncertainties)
        assert (not state.gaps) == complete


def test_files_that_changed_though_no_commit_says_so_leave_doubts(tmp_path: Path) -> None:
    place = delta(tmp_path, wrote("Append", "f0"), wrote("Append", "f1"))
    for standing in ("changed", "gone"):
        writes = [written(place, 1), written(place, 0, standing=standing)]
        state = output_state(RowReader(), place, writes)
        assert (asked(state), doubted(state), state.changed) == (
            ["app-1", "app-0"],
            {"app-0"},
            True,
        )


def test_rows_that_were_moved_to_other_files_are_not_overwritten(tmp_path: Path) -> None:
    place = delta(tmp_path, wrote("Append", "f0"), wrote("Append", "f1"), moved("f2", "f0", "f1"))
    writes = [written(place, one, standing="gone") for one in (1, 0)]
    state = output_state(RowReader(), place, writes)
    assert (asked(state), doubted(state)) == (["app-1", "app-0"], set())
    assert (state.changed, state.gaps, state.warnings) == (False, (), ())


def test_what_others_made_a_table_of_is_in_doubt(tmp_path: Path) -> None:
    taken = [*info("CONVERT"), *add("f0"), *add("f1")]
    place = delta(tmp_path, taken, [*info("DELETE"), *remove("f0")])
    files: dict[str, FileStatus] = {f"{place}/f0": "same", f"{place}/f1": "same"}
    state = output_state(RowReader(), place, [Write("plain", "n1", files)])
    assert doubted(state) == {"plain"}
    assert state.gaps
    # A write whose columns are not those of the table has no format in its recipe.
    place = delta(tmp_path / "inserted", wrote("Append", "f0"), overwrote("f1", "f0"))
    output = Output(kind="table", path=place, version="0")
    state = output_state(
        RowReader(), place, [Write("insert", "n1", {f"{place}/f0": "same"}, output)]
    )
    assert state.warnings
    assert doubted(state) == {"insert"}


def test_what_is_a_table_by_now_may_not_hold_the_files_before(tmp_path: Path) -> None:
    place = delta(tmp_path, overwrote("f0"))
    plain = Write("plain", "n1", {f"{place}/part-0.parquet": "same"})
    state = output_state(RowReader(), place, [written(place, 0), plain])
    assert doubted(state) == {"plain"}


def test_snapshots_that_did_more_than_append_leave_doubts(tmp_path: Path) -> None:
    first, second = snapshot(1, None, "append", 100, 100), snapshot(2, 1, "append", 50, 150)
    both = {"app-1", "app-2"}
    for how, uncertainties in (("append", set()), ("overwrite", both), ("delete", both)):
        place = iceberg(tmp_path / how, 3, first, second, snapshot(3, 2, how, 5, 155))
        writes = [written(place, number, ICEBERG) for number in (2, 1)]
        assert doubted(output_state(RowReader(), place, writes)) == uncertainties


def test_what_was_rolled_back_is_doubted(tmp_path: Path) -> None:
    first, second = snapshot(1, None, "append", 100, 100), snapshot(2, 1, "append", 50, 150)
    place = iceberg(tmp_path, 1, first, second)
    writes = [written(place, 2, ICEBERG), written(place, 1, ICEBERG)]
    assert doubted(output_state(RowReader(), place, writes)) == {"app-2"}


def test_of_a_table_whose_log_nobody_sees_all_writes_are_doubted(tmp_path: Path) -> None:
    state = output_state(RowReader(), str(tmp_path), [written(str(tmp_path), 0, DELTA)])
    assert doubted(state) == {"app-0"}
    (gap,) = state.gaps
    assert "is not known" in gap
