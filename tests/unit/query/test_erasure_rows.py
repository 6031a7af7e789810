"""Rows of files that fulfil conditions, against SQLite; and whose rows they are."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.errors import LineageError
from lineage_query.conditions import ConditionError
from lineage_query.erasure import source_rows
from lineage_query.erasure.finding import SubjectError, SubjectQuery, Subjects, find_subject
from lineage_query.erasure.source_rows import SourceForm, plain_rows, rows_with
from lineage_query.erasure.testing import RowTest
from lineage_query.rows.reader import RowReader
from lineage_store.paths import RowsError

pytestmark = pytest.mark.unit

CUSTOMERS = """id,name,city
41,Ann Lee,Oslo
42,"Ray, Bob",Oslo
43,Cid Fox,
"""

_names = st.sampled_from(["number", "text", "Number", "`text`"])
_numbers = st.integers(-3, 3).map(str) | st.sampled_from(["0.5", "-1.5", "1e1", "+2."])
_texts = st.sampled_from(["'a'", "'b'", "''", "'A'"])


@st.composite
def _tests(draw: st.DrawFn) -> str:
    name = draw(_names)
    constants = _texts if "text" in name.lower() else _numbers
    one, other = draw(constants), draw(constants)
    return draw(
        st.sampled_from([
            f"{name} {sign} {one}" for sign in ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")
        ])
        | st.sampled_from([
            f"{name} IS NULL",
            f"{name} is not null",
            f"{name} IN ({one}, {other})",
            f"{name} NOT IN ({one}, {other})",
            f"{name} BETWEEN {one} AND {other}",
            f"{name} not between {one} and {other}",
        ])
    )  # fmt: skip


_conditions = st.recursive(
    _tests(),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        )
        | inner.map(lambda term: f"NOT {term}")
    ),
    max_leaves=5,
)
_rows = st.lists(
    st.tuples(st.none() | st.integers(-3, 3), st.none() | st.sampled_from(["a", "b", "A"])),
    max_size=6,
)


@given(condition=_conditions, rows=_rows)
def test_conditions_choose_the_rows_that_sqlite_chooses(
    condition: str, rows: list[tuple[int | None, str | None]]
) -> None:
    test = RowTest.of(condition)
    at = {name.lower(): number for number, name in enumerate(("number", "text"))}
    chosen = [
        number
        for number, row in enumerate(rows)
        if test([row[at[column.lower()]] for column in test.columns])
    ]
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (at INTEGER, number REAL, text TEXT)")
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, ?)", [(n, *row) for n, row in enumerate(rows)]
        )
        sql = condition.replace("<=>", "IS")
        expected = [at for (at,) in connection.execute(f"SELECT at FROM t WHERE {sql} ORDER BY at")]
    assert chosen == expected
    assert not test.incomparable


@settings(max_examples=30)
@given(rows=_rows, condition=_conditions)
def test_formats_choose_the_same_rows(
    rows: list[tuple[int | None, str | None]],
    condition: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    named = [{"number": number, "text": text} for number, text in rows]
    (folder / "rows.json").write_text("".join(f"{json.dumps(row)}\n" for row in named))
    lines = [f"{'' if number is None else number},{text or ''}" for number, text in rows]
    (folder / "rows.csv").write_text("".join(f"{line}\n" for line in ["number,text", *lines]))
    (folder / "rows.tsv").write_text(
        "\n".join(["number\ttext", *(line.replace(",", "\t") for line in lines)])
    )
    columns: dict[str, pa.Array[Any]] = {
        "number": pa.array([number for number, _ in rows], pa.int64()),
        "text": pa.array([text for _, text in rows], pa.string()),
    }
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    reader = RowReader()
    chosen = {
        ending: [
            number - first
            for number in rows_with(
                reader, str(folder / f"rows.{ending}"), SourceForm(), RowTest.of(condition)
            ).numbers
        ]
        for ending, first in (("json", 1), ("csv", 2), ("tsv", 2), ("parquet", 0))
    }
    # In files of text an empty text is NULL, but for comparisons with texts.
    assert chosen["csv"] == chosen["tsv"]
    assert chosen["json"] == chosen["parquet"]
    if "''" not in condition and None not in {text for _, text in rows}:
        assert chosen["csv"] == chosen["json"]


@given(
    lines=st.lists(
        st.lists(
            st.text(alphabet="a1 .;'\u00e9\u2028\x00\x0b#", max_size=3), min_size=0, max_size=3
        ),
        min_size=1,
        max_size=6,
    ),
    width=st.integers(1, 3),
    data=st.data(),
)
def test_lines_that_are_read_at_once_are_read_as_one_by_one(
    lines: list[list[str]], width: int, data: st.DataObject
) -> None:
    places = data.draw(st.lists(st.integers(0, width - 1), min_size=1, max_size=3))
    texts = [",".join(fields) for fields in lines]
    rows = plain_rows("\n".join(texts).encode(), ",", width, places)
    if all(len(text.split(",")) == width for text in texts) and all(texts):
        assert rows is not None
    if rows is not None:
        split = [text.split(",") for text in texts]
        assert rows == [
            tuple(fields[at] if at < len(fields) else None for at in places) for fields in split
        ]


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_numbers_of_lines_hold_over_many_blocks(tmp_path: Path, ends: str) -> None:
    path = tmp_path / "many.csv"
    # The longest line is more than a block; some have quotes, some another width.
    rows = [f"{at},{'x' * (at % 7)}" for at in range(200_000)]
    rows[70_000] = f"70000,{'y' * (3 << 20)}"
    rows[90_000], rows[90_001] = '90000,"a,b"', "90001"
    path.write_bytes(ends.join(["id,x", *rows]).encode())
    wanted = [0, 69_999, 70_000, 70_001, 90_000, 90_001, 199_999]
    where = f"id IN ({', '.join(map(str, wanted))})"
    found = find_subject(SubjectQuery(str(path), where, expected=len(wanted)), RowReader())
    assert [row.place for row in found.rows] == [f"{path}:{at + 2}" for at in wanted]
    assert found.searched == len(rows)


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.csv", "id,name\r1,Ann\r2,Bob\r", 1),
        ("a.csv", "id,name\n1,Ann\r2,Bob\n", 2),
        ("a.csv", "id,name\r\n3,Cid\r\n1,Ann\r2,Bob", 3),
        ("a.tsv", "id\tname\n1\tAnn\r2\tBob", 2),
        ("a.json", '{"id":3}\n{"id":1}\r{"id":2}\n', 2),
        ("a.txt", "1\n1\r2\n", 2),
    ],
)
def test_rows_that_end_with_a_carriage_return_alone_are_refused_and_not_overlooked(
    tmp_path: Path, name: str, content: str, line: int
) -> None:
    """Spark and pandas take each for a row, and a line names all of its rows."""
    path = tmp_path / name
    path.write_bytes(content.encode())
    where = "value = '2'" if name == "a.txt" else "id = 2"
    named = () if name == "a.txt" else (SubjectQuery(str(path), rows=(line,)),)
    for query in (SubjectQuery(str(path), where), *named):
        with pytest.raises(LineageError, match=rf"{name}:{line} holds a carriage return"):
            find_subject(query, RowReader())


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("id,name\n1,Ann\r2,Bob\n3,Cid\n7,Dan\n", [3, 4]),
        ("id,name\r1,Ann\n3,Cid\r\n2,Bob\r\r\n7,Dan", [2, 4]),
        ("id,name\n3,Cid\n\r\r1,Ann\r2,Bob\n\n7,Dan\n", [2, 5]),
    ],
)
@pytest.mark.parametrize("read_bytes", [7, 1 << 20])
def test_rows_beside_those_that_end_with_a_carriage_return_have_their_lines(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str,
    lines: list[int],
    read_bytes: int,
) -> None:
    """However few bytes are read at a time."""
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode())

    def blocks(_: Iterator[bytes]) -> Iterator[bytes]:
        whole = path.read_bytes()
        for at in range(0, len(whole), read_bytes):
            yield whole[at : at + read_bytes]

    chunks = source_rows._chunks
    monkeypatch.setattr(source_rows, "_chunks", lambda read, name: chunks(blocks(read), name))
    test = RowTest.of("id IN (3, 7)")
    assert rows_with(RowReader(), str(path), SourceForm(), test).numbers == lines


def test_a_line_is_named_where_all_of_its_rows_are_meant(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"b\na\r\ra\n\na\r\n")
    test = RowTest.of("value = 'a' OR value = ''")
    assert rows_with(RowReader(), str(path), SourceForm(), test).numbers == [2, 3, 4]
    with pytest.raises(ConditionError, match=r"a.txt:2 holds"):
        rows_with(RowReader(), str(path), SourceForm(), RowTest.of("value = 'a'"))


@pytest.mark.parametrize("content", ["id,name\r\n1,Ann\r\n2,Bob\r\n", "id,name\n1,Ann\n2,Bob\r"])
def test_a_carriage_return_at_the_end_of_a_line_ends_no_other_row(
    tmp_path: Path, content: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode())
    (row,) = find_subject(SubjectQuery(str(path), "name = 'Bob'"), RowReader()).rows
    assert row.values == (("id", "2"), ("name", "Bob"))


@pytest.fixture
def customers(tmp_path: Path) -> Path:
    path = tmp_path / "customers.csv"
    path.write_text(CUSTOMERS)
    return path


def places(query: SubjectQuery) -> list[str]:
    return [row.place.rpartition("/")[2] for row in find_subject(query, RowReader()).rows]


def test_rows_by_condition_by_number_and_by_keys(customers: Path, tmp_path: Path) -> None:
    source = str(customers)
    assert places(SubjectQuery(source, where="id = 42")) == ["customers.csv:3"]
    assert places(SubjectQuery(source, where="ID = 42.0 and name = 'Ray, Bob'")) == [
        "customers.csv:3"
    ]
    assert places(SubjectQuery(source, rows=(2, 4, 2))) == ["customers.csv:2", "customers.csv:4"]
    keys = tmp_path / "persons.csv"
    keys.write_text("ID\n43\n41\n99\n")
    found = find_subject(SubjectQuery(source, subjects=Subjects.read(keys)), RowReader())
    assert [row.place.rpartition("/")[2] for row in found.rows] == [
        "customers.csv:2",
        "customers.csv:4",
    ]
    assert found.not_found == 1
    assert found.rows[0].values == (("id", "41"), ("name", "Ann Lee"), ("city", "Oslo"))
    (row,) = find_subject(SubjectQuery(source, where="name = 'Ray, Bob'"), RowReader()).rows
    assert row.values[1] == ("name", "Ray, Bob")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"where": "city = 'Oslo'"}, "perhaps of several subjects"),
        ({"where": "city = 'Oslo'", "expected": 3}, "2 rows are the subject's, and not 3"),
        ({"where": "city = 'Oslo'", "identity": ("id",)}, "2 values in 'id'"),
        ({"where": "city = 'Oslo'", "identity": ("name", "nothing")}, "several subjects|no value"),
        ({"where": "city = 'Rome'"}, "no row"),
        ({"where": "name = 7"}, "another type"),
        ({"rows": (9,)}, "has no row 9"),
        ({}, "name the rows by one of"),
        ({"where": "id = 1", "rows": (1,)}, "name the rows by one of"),
    ],
)
def test_whose_rows_they_are_has_to_be_said(
    customers: Path, more: dict[str, object], says: str
) -> None:
    with pytest.raises(SubjectError, match=says):
        find_subject(SubjectQuery(str(customers), **more), RowReader())  # type: ignore[arg-type]


def test_several_rows_are_taken_where_it_is_said(customers: Path) -> None:
    where = "city = 'Oslo'"
    assert len(places(SubjectQuery(str(customers), where=where, expected=2))) == 2
    assert len(places(SubjectQuery(str(customers), where=where, identity=("city",)))) == 2


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        # A record that goes on in the next line, and a quote that is escaped.
        ("a.csv", 'id,name\n1,"Ann\nLee"\n', "id = 1"),
        ("a.csv", 'id,name\n1,"Ann \\"A\\" Lee"\n', "id = 1"),
        ("a.csv", "id,ID\n1,2\n", "id = 1"),
        ("a.csv", "1,Ann\n2,Bob\n", "id = 1"),
        ("a.json", '{"id": 1}\nnot json\n', "id = 1"),
        ("a.json", '{"id": 1, "ID": 2}\n', "id = 1"),
        ("a.orc", "ORC", "id = 1"),
        ("a.csv", "id\n1\n", "id = TIMESTAMP '2024-01-01 00:00:00'"),
        ("a.csv", "id\n1\n", "length(id) = 1"),
        ("a.csv", "id\n1\n", "id IN (SELECT 1)"),
        ("a.csv", "id\n1\n", "id = 1; DROP TABLE x"),
    ],
)
def test_what_may_be_read_in_two_ways_is_refused(
    tmp_path: Path, name: str, text: str, where: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConditionError):
        find_subject(SubjectQuery(str(path), where=where), RowReader())


def test_all_files_of_a_folder_are_searched(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"part-{number}.csv").write_text(f"{number},x\n7,y\n")
    (tmp_path / "_SUCCESS").write_text("")
    form = SourceForm(columns=("id", "sign"))
    found = find_subject(SubjectQuery(str(tmp_path), "id = 7", form=form, expected=3), RowReader())
    assert found.searched == 6
    with pytest.raises(SubjectError, match="one file"):
        find_subject(SubjectQuery(str(tmp_path), rows=(1,)), RowReader())
    with pytest.raises(RowsError, match="no such file"):
        find_subject(SubjectQuery(str(tmp_path / "gone.csv"), rows=(1,)), RowReader())


def test_columns_in_names_of_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a.csv").write_text("id,day\n1,2\n")
    with pytest.raises(SubjectError, match="names of folders"):
        find_subject(SubjectQuery(str(tmp_path), "day = 2"), RowReader())


def test_lines_are_counted_as_grep_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "lines.csv"
    path.write_bytes(b"\xef\xbb\xbfid,x\r\n1,a\r\n\r\n2,b\x85c\n3,d")
    for number, line in ((1, 2), (2, 4), (3, 5)):
        assert places(SubjectQuery(str(path), f"id = {number}")) == [f"lines.csv:{line}"]


@pytest.mark.parametrize(
    "text", ["", "id\n", "id,name\n1\n", 'id\n"1\n', "id,\n1,2\n", "id,x\n1,\n"]
)
def test_files_of_subjects_that_say_no_subject_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "persons.csv"
    path.write_text(text)
    with pytest.raises(SubjectError):
        Subjects.read(path)
