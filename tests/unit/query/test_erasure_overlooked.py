"""What a search for a person's rows could overlook: values written otherwise, places beside the output, sources under other names, other stores."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lineage_core.contract.message import Register
from lineage_query.erasure.applying import Applied, apply_plan
from lineage_query.erasure.file_search import RECORD_LINES_MAX
from lineage_query.erasure.finding import SubjectQuery, Subjects, matching_rows
from lineage_query.erasure.kinds import words_of
from lineage_query.erasure.steps import ErasureError
from lineage_query.erasure.verified import Verified
from lineage_query.rows.reader import RowReader
from lineage_store.port import ErasableStore
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.erasure_chains import Job, world_of_four_rows
from tests.unit.query.test_erasure_verifying import Erasure

pytestmark = pytest.mark.unit


@pytest.fixture
def erasure(tmp_path: Path) -> Iterator[Erasure]:
    with SqliteStore(tmp_path / "lineage.db") as store:
        yield Erasure(world_of_four_rows(tmp_path, store, "copy", "count"))


def verified_as(erasure: Erasure, where: str, name: str, text: str) -> Verified:
    """What is said of a file in an output, where rows of a condition are looked for that the source has not."""
    query = replace(erasure.query, where=where)
    path = erasure.world.folder / "out2" / name
    path.write_text(text)
    verified = erasure.verify(query=query, document=erasure.document | {"condition": where})
    path.unlink()
    return verified


def places(verified: Verified) -> list[str]:
    return [left.where.rpartition("/")[2] for left in verified.left]


def test_values_are_found_however_a_format_writes_them(erasure: Erasure) -> None:
    erasure.erase()
    for where, text in (
        ("token = 'r9x' AND key = TRUE", '{"token":"r9x","key":true}\n'),
        ("token = 123456789012345678.91", '{"token":123456789012345678.91}\n'),
        ("token = .5", '{"token":0.5}\n'),
        ("token = 0.5", "c;.5\n"),
    ):
        assert places(verified_as(erasure, where, "part-0.json", text)), where
    other = verified_as(
        erasure, "token = 'r9x' AND key = TRUE", "part-0.json", '{"token":"r9x","key":false}\n'
    )
    assert not other.left
    assert words_of("a.5 1.5.6 ...42 v.7 .25") == ("a", "5", "1.5", "6", "42", "v", "7", "0.25")


def test_values_without_letters_are_never_said_to_be_gone(erasure: Erasure) -> None:
    erasure.erase()
    verified = verified_as(erasure, "token IN ('***', 'r9x')", "part-0.json", '{"token":"***"}\n')
    assert any("without letters and digits" in reason for reason in verified.unseen)
    assert verified_as(erasure, "token IN ('*r8x*', 'r9x')", "part-0", "c;r7x\n").clean


def test_a_record_of_csv_over_several_lines_is_one(erasure: Erasure) -> None:
    erasure.erase()
    where = "token = 'r9x' AND key = 'zz'"
    for text, row in (
        ('r9x,"a\nb",zz\nr8x,b,yy\n', 2),
        ('r9x,"a\n""b""\n",zz\n', 3),
        ('r7x,"5\\" wide",zz\nr9x,"a\nb",zz\n', 3),
        ('"C:\\\nr9x\\",zz\n', 2),
        ('r9x,"never closed\nzz\n', 2),
    ):
        assert places(verified_as(erasure, where, "part-0.csv", text)) == [f"part-0.csv, row {row}"]
    others = 'r9x,"a ""b"" c",yy\nr8x,"5\\" wide",zz\nr8x,b,zz\n'
    assert verified_as(erasure, where, "part-0.csv", others).clean


def test_records_over_several_lines_of_other_formats_are_not_looked_at(erasure: Erasure) -> None:
    erasure.erase()
    where = "token = 'r9x' AND key = 'zz'"
    for name, text in (
        ("rows.json", '[{\n"token": "r9x",\n"key": "zz"\n}]\n'),
        ("rows.xml", "<row>\n<token>r9x</token>\n<key>zz</key>\n</row>\n"),
    ):
        verified = verified_as(erasure, where, name, text)
        assert any("go over several lines" in reason for reason in verified.unseen)
        # One word is found whatever stands in other lines.
        assert places(verified_as(erasure, "token = 'r9x'", name, text)) == [f"{name}, row 2"]
    assert verified_as(erasure, where, "rows.json", '{"token":"r9x","key":"yy"}\n\n').clean


def test_a_record_of_very_many_lines_is_said_not_to_be_read_as_one(erasure: Erasure) -> None:
    erasure.erase()
    text = 'r9x,"a\n' + "c\n" * RECORD_LINES_MAX + '",zz\n'
    verified = verified_as(erasure, "token = 'r9x' AND key = 'zz'", "part-0.csv", text)
    assert any("of a record of more than" in reason for reason in verified.unseen)


def test_files_that_no_reader_reads_are_read(erasure: Erasure) -> None:
    erasure.erase()
    for name in ("out2/_change_data/cdc-0", "out3/.part-0.swp", "out2/x=1/_old/part-0"):
        path = erasure.world.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("c;r4x\n")
        assert erasure.verify().clean
        path.write_text("c;r3x\n")
        assert places(erasure.verify()) == [f"{path.name}, row 1"]
        path.unlink()


def test_what_says_something_of_an_output_is_none_of_its_rows(erasure: Erasure) -> None:
    erasure.erase()
    out = erasure.world.folder / "out2"
    (out / "_SUCCESS").write_text("r3x\n")
    (out / ".part-0.crc").write_bytes(b"crc\0")
    assert erasure.verify().clean
    (out / "x=1" / "_temporary" / "0").mkdir(parents=True)
    # Nothing was written there.
    assert erasure.verify().clean
    (out / "x=1" / "_temporary" / "0" / "part-0").write_text("c;r4x\n")
    assert any("did not commit" in reason for reason in erasure.verify().unseen)


def test_links_to_folders_are_followed(erasure: Erasure, tmp_path: Path) -> None:
    erasure.erase()
    other, third = tmp_path / "elsewhere", tmp_path / "third"
    other.mkdir()
    third.mkdir()
    (erasure.world.folder / "out2" / "k").symlink_to(other)
    (other / "again").symlink_to(erasure.world.folder / "out2")
    (other / "on").symlink_to(third)
    assert erasure.verify().clean
    (third / "part-0").write_text("c;r3x\n")
    assert places(erasure.verify()) == ["part-0, row 1"]
    (third / "part-0").write_text("c\n")
    assert erasure.verify().clean
    # Spark takes the value for one of each row.
    (other / "on").unlink()
    (other / "token=r3x").symlink_to(third)
    assert any("lack the value in its name" in reason for reason in erasure.verify().unseen)


def test_rows_of_a_source_are_found_behind_links_to_folders(
    erasure: Erasure, tmp_path: Path
) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "k=1").symlink_to(erasure.source.parent / "moved")
    (erasure.source.parent / "moved").mkdir()
    shutil.copy2(erasure.source, erasure.source.parent / "moved" / "more.txt")
    plan = replace(erasure.query, source=str(folder))
    erasure.query = plan
    assert [Path(place).name for place in erasure.make().to_json()["subject"]] == ["more.txt:3"]


def test_a_plan_is_verified_as_it_was_made(erasure: Erasure) -> None:
    """The row is in the source; columns in another order would hide it."""
    erasure.apply()
    erasure.delete_outputs()
    assert not erasure.verify().clean
    form = replace(erasure.query.form, columns=("token", "key"))
    with pytest.raises(ErasureError, match="options it was made with"):
        erasure.verify(query=replace(erasure.query, form=form))


@pytest.mark.parametrize("name", ["renamed.txt", "archive/{}"])
def test_a_source_that_was_moved_since_it_was_read_makes_no_complete_plan(
    tmp_path: Path, name: str
) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        erasure = Erasure(world_of_four_rows(tmp_path, store, "copy", "count", checksums=True))
        rows, old = erasure.document["rows"], erasure.source
        assert rows
        assert erasure.document["complete"]
        moved = old.parent / name.format(old.name)
        moved.parent.mkdir(exist_ok=True)
        old.rename(moved)
        erasure.query = replace(erasure.query, source=str(moved))
        plan = erasure.make()
        assert not plan.complete
        assert all("put a link to it in that place" in gap.reason for gap in plan.gaps)
        # That is the way out.
        old.symlink_to(moved)
        plan = erasure.make()
        assert plan.complete, plan.gaps
        assert [row["place"] for row in plan.to_json()["rows"]] == [row["place"] for row in rows]


def test_who_read_a_copy_of_the_source_is_named(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        erasure = Erasure(world_of_four_rows(tmp_path, store, "copy", "count", checksums=True))
        copy = erasure.source.with_name("copy.txt")
        copy.write_bytes(erasure.source.read_bytes())
        erasure.query = replace(erasure.query, source=str(copy))
        plan = erasure.make()
        assert plan.complete
        assert any("make a plan for the rows of that file, too" in note for note in plan.notes)


def test_an_output_that_is_a_copy_of_the_source_is_none_of_a_moved_source(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        erasure = Erasure(world_of_four_rows(tmp_path, store, "copy", checksums=True))
        [copied] = (tmp_path / "out2").iterdir()
        assert copied.read_bytes() == erasure.source.read_bytes()
        erasure.world.run(Job((2,), "count", 1, "new", 0, lands_again=False), random.Random(0))
        plan = erasure.make()
        assert plan.complete
        assert not plan.notes
        assert {Path(row.path or "").name for row in plan.rows} == {"out2", "out3"}


def test_a_store_that_was_played_back_is_erased_again(erasure: Erasure, tmp_path: Path) -> None:
    database = tmp_path / "lineage.db"
    erasure.store.close()
    shutil.copy(database, tmp_path / "backup.db")

    def applied(store: ErasableStore) -> Applied:
        return apply_plan(erasure.document, erasure.query, erasure.make, store, erasure.place)

    with SqliteStore(database) as store:
        erasure.store = store
        assert not applied(store).already
        assert applied(store).already
    with SqliteStore(tmp_path / "backup.db") as store:
        erasure.store = store
        erasure.delete_source_row()
        erasure.delete_outputs()
        assert any(left.why.endswith("texts are stored") for left in erasure.verify().left)
        again = applied(store)
        assert not again.already
        assert applied(store).already
        assert applied(store).steps == again.steps
        assert erasure.verify().clean


def test_values_in_what_operators_are_called_are_found(erasure: Erasure) -> None:
    erasure.erase()
    app = erasure.store.application_ids()[0]
    node = Register(app=app, node="77", kind="operator", op="filter", description="token is r3x")
    erasure.store.write(app, [node])
    assert [left.why for left in erasure.verify().left] == ["what 77 is holds the values"]


def test_a_row_in_a_file_that_grew_is_not_said_to_be_gone(erasure: Erasure) -> None:
    """Who added to it is not known; the count shows none of the values that are looked for."""
    [counted] = (erasure.world.folder / "out3").iterdir()
    with counted.open("a") as file:
        file.write("more\n")
    erasure.document = erasure.make().to_json()
    assert any("what of them is there still" in line for line in erasure.document["not_removed"])
    erasure.apply()
    erasure.delete_source_row()
    for path in (erasure.world.folder / "out2").iterdir():
        path.unlink()
    assert any("whether the row is still there" in reason for reason in erasure.verify().unseen)
    counted.unlink()
    assert erasure.verify().clean


def test_rows_of_a_source_that_are_not_in_utf_8_are_counted(
    erasure: Erasure, tmp_path: Path
) -> None:
    source = tmp_path / "people.csv"
    source.write_bytes("id,name\n1,Jos\u00e9\n".encode() + "2,Jos\u00e9\n".encode("latin-1"))
    by_name = SubjectQuery(str(source), where="name = 'Jos\u00e9'")
    keys = SubjectQuery(str(source), subjects=Subjects(("name",), (("Jos\u00e9",),)))
    for query in (by_name, keys):
        found = matching_rows(query, RowReader())
        assert ([row.place.rpartition(":")[2] for row in found.rows], found.incomparable) == (
            ["2"],
            {"name": 1},
        )
