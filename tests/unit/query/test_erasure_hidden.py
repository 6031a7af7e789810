"""Places in which rows of a person stand that a reader may pass over: nothing is called clean while they are there."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_core.errors import LineageError
from lineage_query.erasure.finding import (
    SubjectError,
    SubjectQuery,
    Subjects,
    find_subject,
    matching_rows,
)
from lineage_query.erasure.journal import Journal
from lineage_query.erasure.plan import NOT_REMOVED
from lineage_query.erasure.tables import PART
from lineage_query.erasure.verified import Verified
from lineage_query.rows.reader import RowReader
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.erasure_chains import world_of_four_rows
from tests.unit.query.test_erasure_verifying import Erasure

pytestmark = pytest.mark.unit


@pytest.fixture
def erasure(tmp_path: Path) -> Iterator[Erasure]:
    with SqliteStore(tmp_path / "lineage.db") as store:
        yield Erasure(world_of_four_rows(tmp_path, store, "copy", "count"))


def left(verified: Verified) -> list[str]:
    return [entry.where.rpartition("/")[2] for entry in verified.left]


def test_an_output_that_is_played_back_after_the_plan_is_left(
    tmp_path: Path, erasure: Erasure
) -> None:
    [counted] = (erasure.world.folder / "out3").iterdir()
    backup, status = counted.read_bytes(), counted.stat()
    counted.write_text("later\n")
    erasure.document = erasure.make().to_json()
    [row] = [row for row in erasure.document["rows"] if row["path"].endswith("out3")]
    assert (row["there"], row["status"]) == (False, "changed")
    erasure.apply()
    for path in (erasure.world.folder / "out2").iterdir():
        path.unlink()
    erasure.delete_source_row()
    # Nobody knows who wrote it: the row may stand beside what was added.
    assert not erasure.verify().left
    assert any("whether the row is still there" in reason for reason in erasure.verify().unseen)
    # The count shows none of the values: reading does not find it.
    counted.write_bytes(backup)
    os.utime(counted, ns=(status.st_atime_ns, status.st_mtime_ns))
    verified = erasure.verify()
    assert [entry.kind for entry in verified.left] == ["unknown"]
    assert left(verified)[0].startswith(counted.name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("token=r3x/part-0", "c\n"),
        ("token=%723x/part-0", "c\n"),
        ("part-0.json", '{"c":1,"r3x":2}\n'),
        ("part-0.json", '{"a":[{"of":{"R3X":null}}]}\n'),
        ("part-0", "c;\uff52\uff13\uff58\n"),
    ],
)
def test_values_in_names_of_folders_and_columns_are_found(
    erasure: Erasure, name: str, text: str
) -> None:
    erasure.erase()
    path = erasure.world.folder / "out2" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert left(erasure.verify())
    path.write_text(text.replace("r3x", "r4x").replace("R3X", "r4x").replace("\uff13", "4"))
    assert not left(erasure.verify()) or "=" in name


def test_columns_of_a_turned_table_are_found(erasure: Erasure) -> None:
    erasure.erase()
    path = erasure.world.folder / "out2" / "part-0.parquet"
    pq.write_table(pa.table({"city": ["x", "y"], "r3x": [1, None]}), path)
    assert left(erasure.verify()) == ["part-0.parquet, names of columns"]


def test_an_accent_may_be_a_sign_of_its_own(tmp_path: Path, erasure: Erasure) -> None:
    name = "Jos\u00e9"
    query = replace(erasure.query, where=f"token = '{name}'")
    erasure.erase()
    document = erasure.document | {"condition": query.where}
    path = erasure.world.folder / "out2" / "part-0"
    path.write_text(f"c;{unicodedata.normalize('NFD', name)}\n")
    assert left(erasure.verify(query=query, document=document)) == ["part-0, row 1"]
    path.write_bytes(f"c;{name}\n".encode("latin-1"))
    verified = erasure.verify(query=query, document=document)
    assert any("not all in UTF-8" in reason for reason in verified.unseen)


@pytest.mark.parametrize("place", ["/out/rows#name=Ann", "orders[3]@1742", "sales.people#id=3,n="])
def test_rows_that_are_named_by_values_are_not_said_to_be_gone(
    erasure: Erasure, place: str
) -> None:
    erasure.erase()
    document: dict[str, Any] = dict(erasure.document)
    document["rows"] = [document["rows"][0] | {"place": place}, *document["rows"]]
    verified = erasure.verify(document=document)
    assert any(place in reason and "no row of a file" in reason for reason in verified.unseen)


def test_what_a_job_did_not_commit_is_not_clean(erasure: Erasure) -> None:
    erasure.erase()
    attempt = erasure.world.folder / "out2" / "_temporary" / "0"
    attempt.mkdir(parents=True)
    (attempt / "part-0").write_text("c;r3x\n")
    verified = erasure.verify()
    assert any("_temporary" in reason for reason in verified.unseen)


def test_a_row_whose_file_left_its_table_may_be_in_another_one(erasure: Erasure) -> None:
    """A table is written anew by `OPTIMIZE`, and its old files are vacuumed."""
    out = erasure.world.folder / "out3"
    erasure.erase()
    (out / "_delta_log").mkdir()
    verified = erasure.verify()
    assert any("out3" in reason and "OPTIMIZE" in reason for reason in verified.unseen)
    # It was deleted from there by the plan.
    (path,) = {row["place"].partition(":")[0] for row in erasure.document["rows"] if "out3" in row["place"]}  # fmt: skip
    step = {"kind": "table", "table": str(out), "files": {Path(path).name: [0]}}
    with Journal(erasure.place.journals, erasure.document["digest"], PART) as journal:
        journal.begin([step])
        journal.done(0, {"rows": 1})
        journal.end()
    assert erasure.verify().clean


def test_an_output_that_was_renamed_in_its_folder_is_not_said_to_be_gone(erasure: Erasure) -> None:
    """A count of the rows, without a value by which reading finds it."""
    erasure.apply()
    erasure.delete_source_row()
    for path in (erasure.world.folder / "out2").iterdir():
        path.unlink()
    (counted,) = (erasure.world.folder / "out3").iterdir()
    for name in ("part-renamed", ".part-hidden"):
        counted = counted.rename(counted.with_name(name))
        assert any(str(counted) in reason for reason in erasure.verify().unseen)
    counted.with_name("part-other").write_text("a job wrote something else\n")
    counted.unlink()
    assert erasure.verify().clean


def test_a_source_that_was_renamed_in_its_folder_is_not_said_to_be_gone(erasure: Erasure) -> None:
    erasure.apply()
    erasure.delete_outputs()
    renamed = erasure.source.rename(erasure.source.with_name("old.txt"))
    assert [str(renamed) in reason for reason in erasure.verify().unseen] == [True]
    renamed.write_text("it was erased there\n")
    assert erasure.verify().clean


def test_what_is_never_found_is_said() -> None:
    text = " ".join(NOT_REMOVED)
    for named in (
        "moved or renamed",
        "checkpoints",
        "cached",
        "lineage replay --to",
        "lineage access",
        "background sessions",
        "pivot",
        "partitionBy",
        "_temporary",
        "VACUUM",
        "expire_snapshots",
        "audit records",
        "windows of streams",
        "recordings of arrays",
        "triples",
        "spools on other machines",
        "Redis",
    ):
        assert named in text


def test_subjects_are_taken_once_and_those_without_a_row_are_counted(tmp_path: Path) -> None:
    source = tmp_path / "people.csv"
    source.write_text("id,name\n1,ann\n42,bob\n42.0,eve\n")
    keys = tmp_path / "keys.csv"
    keys.write_text("\ufeffID\n42\n42\n 42\n7\n")
    subjects = Subjects.read(keys)
    assert subjects.keys == (("42",), (" 42",), ("7",))
    found = matching_rows(SubjectQuery(str(source), subjects=subjects), RowReader())
    assert ([row.place for row in found.rows], found.not_found) == ([f"{source}:3"], 2)


@pytest.mark.parametrize(
    ("where", "lines"),
    [
        ("id = 42", [3, 4]),
        ("ID IN (42.00)", [3, 4]),
        ("id IS NULL", [5]),
        ("NOT id = 42", [2]),
        ("id <=> 1.0", [2]),
        ("name = 'Ann'", []),
        ("name IN ('ann', 'ANN')", [2, 5]),
        ("born = DATE '1990-01-02'", [2]),
        ("paid = 1.1", [2, 3]),
        ("paid BETWEEN 1.09 AND 1.11", [2, 3]),
    ],
)
def test_conditions_take_values_as_they_are_meant(
    tmp_path: Path, where: str, lines: list[int]
) -> None:
    source = tmp_path / "people.csv"
    source.write_text(
        "id,name,born,paid\n1,ann,1990-01-02,1.10\n42,bob,1990-1-2,1.1\n42.0,eve,,1.12\n,ANN,x,\n"
    )
    found = matching_rows(SubjectQuery(str(source), where=where), RowReader())
    assert [int(row.place.rpartition(":")[2]) for row in found.rows] == lines


def test_columns_within_others_and_in_names_of_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "source" / "id=42").mkdir(parents=True)
    (tmp_path / "source" / "id=42" / "part-0.json").write_text('{"name":{"first":"Ann"}}\n')
    source = str(tmp_path / "source")
    with pytest.raises(SubjectError, match="in the names of folders"):
        matching_rows(SubjectQuery(source, where="id = 42"), RowReader())
    for where in ("first = 'Ann'", "name.first = 'Ann'"):
        with pytest.raises(LineageError, match=r"no row of|no part of a condition"):
            find_subject(SubjectQuery(source, where=where), RowReader())
