"""Rows that hold a value of a subject are told from counts and sums in which the same number stands by chance."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_query.answers import Answer, Group, Item
from lineage_query.engine import QueryEngine
from lineage_query.erasure.finding import SubjectQuery, SubjectRow, matching_rows
from lineage_query.erasure.kinds import holds, holds_unreadable, told_apart, words_of
from lineage_query.erasure.own_texts import SubjectTexts
from lineage_query.erasure.reached import ReachedRow
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.port import GraphStore

pytestmark = pytest.mark.unit
Person = tuple[int, str, int]
COLUMNS = ("id", "name", "amount")
NAMES = ("ann", "bob", "eve", "zoe")


class _Nodes:
    """A store whose applications have no DataFrames."""

    def graph(self, app: str) -> _Nodes:
        return self

    def nodes(self) -> tuple[()]:
        return ()


class _Back:
    """A row goes back to some lines of `/s.csv`."""

    def __init__(self, lines: list[str], others: str) -> None:
        items = tuple(Item("", f"/s.csv:{at}", line) for at, line in enumerate(lines, 1))
        if others == "not listed":
            items = items[:1]
        elif others != "listed":
            other = Item("", None, None) if others == "not read" else Item("", None, "", "now")
            items = (items[0], *(replace(other, location=one.location) for one in items[1:]))
        kept = tuple(
            replace(item, location=f"/rows/1.parquet#{at}") for at, item in enumerate(items)
        )
        self.groups = tuple(
            Group(str(at), "read", "read", "", len(lines), of_source)
            for at, of_source in enumerate((kept, items))
        )

    def ask(self, query: TraceQuery) -> Answer:
        return Answer(
            "app", query.direction, query.places, (), True, (), self.groups, (),
            changed=False, complete=True,
        )  # fmt: skip


def judged(
    text: str, people: list[Person], others: str = "listed", *, complete: bool = True
) -> ReachedRow:
    """A row of an output that was made of all people. The first one is the subject. ``others``: how the trace gives the other ones."""
    lines = [",".join(map(str, person)) for person in people]
    values = tuple(zip(COLUMNS, map(str, people[0]), strict=True))
    row = ReachedRow("app", "9", "out", "write", "/out:1", "/out", "same", exact=True, text=text)
    # Rows of an RDD that lineage keeps as a DataFrame read them.
    kept = replace(row, node="1", place="/rows/1.parquet#0", kept=True)
    result, _ = told_apart(
        [row, kept],
        [SubjectRow("/s.csv:1", lines[0], values)],
        cast("GraphStore", _Nodes()),
        cast("QueryEngine", _Back(lines, others)),
        complete=complete,
    )
    assert result.others == len(people) - 1
    return result


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("rome,2", "unknown"),
        ('{"city":"rome","n":2}', "unknown"),
        ('{"city":"rome","ID":2}', "carries"),
        ('{"city":"rome","id":[1,2]}', "carries"),
        ('{"city":"rome","persons":[1,2]}', "unknown"),
        ("rome,3", "mixed"),
        ("rome,ann", "carries"),
        ("rome,123456", "carries"),
        ("rome,1234560", "mixed"),
    ],
)
def test_a_short_number_alone_does_not_say_whose_it_is(text: str, kind: str) -> None:
    people = [(2, "ann", 123456), (1, "bob", 7)]
    assert judged(text, people).kind == kind


@pytest.mark.parametrize("others", ["not listed", "not read", "as it is now"])
def test_a_value_that_others_may_have_does_not_say_whose_it_is(others: str) -> None:
    people = [(2, "ann", 123456), (1, "ann", 7)]
    row = judged("ann,2 persons", people, others)
    assert (row.kind, row.columns) == ("unknown", ("id", "name"))
    assert "may have" in row.basis
    assert judged("rome,3", people, others).kind == "mixed"


def test_in_a_plan_that_is_not_complete_what_no_other_has_is_the_subjects() -> None:
    people = [(2, "ann", 123456), (1, "ann", 7)]
    assert judged("ann,3", people, complete=False).kind == "unknown"
    assert judged("ann,123456", people, complete=False).kind == "carries"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"counts":{"ann@x.org":3}}', "ann@x.org"),
        ('{"value":"{\\"name\\": \\"M\\\\u00fcller\\"}"}', "Müller"),
        ('{"value":"{\\"M\\\\u00fcller\\": 1}"}', "Müller"),
        ('{"value":"eyJuYW1lIjogIk1cdTAwZmNsbGVyIn0="}', "Müller"),
        ("""{"raw":"b'\\\\x9aann@x.org\\\\xff'"}""", "ann@x.org"),
        ("""{"mail":"ann@x.org"}""", "b'ann@x.org'"),
        ('{"of":{"first":"Ann","last":"Lee"}}', "Ann Lee"),
        (f"{'[' * 900}7{']' * 900}", "7"),
    ],
)
def test_values_are_found_where_they_are_hidden(text: str, value: str) -> None:
    assert holds(words_of(text), words_of(value))


def test_bytes_that_are_no_utf_8_are_told() -> None:
    assert holds_unreadable("""{"raw":"b'M\\\\xfcller'"}""")
    assert not holds_unreadable("""{"raw":"b'M\\\\xc3\\\\xbcller'","of":"b'"}""")
    assert judged("""{"raw":"b'M\\\\xfcller'"}""", [(2, "ann", 3), (1, "bob", 7)]).kind == "unknown"


def test_texts_that_are_kept_are_looked_at_with_names_of_columns() -> None:
    texts = SubjectTexts([(words_of("42"), words_of("ann@x.org"))], ())
    assert texts.hold('{"id":42,"ann@x.org":3}')
    assert not texts.hold('{"id":41,"ann@x.org":3}')


def test_values_of_nested_columns_of_a_subject_are_compared_without_names(tmp_path: Path) -> None:
    source = tmp_path / "people.json"
    source.write_text('{"id":1,"of":{"first":"Ann","last":"Lee"}}\n')
    [row] = matching_rows(SubjectQuery(str(source), where="id = 1"), RowReader(tmp_path)).rows
    value = dict(row.values)["of"]
    assert holds(words_of("Ann;Lee;3"), words_of(value))


@pytest.mark.parametrize("text", ["rome,2", "rome,true", "rome,f"])
def test_in_a_row_of_the_subject_alone_any_value_counts(text: str) -> None:
    assert judged(text, [(2, "ann", 3)]).kind == "carries"


persons = st.tuples(st.integers(0, 30), st.sampled_from(NAMES), st.integers(0, 9))


@given(
    people=st.lists(persons, min_size=2, max_size=5),
    shows=st.sampled_from(["count", "sum", "ids", "names"]),
    is_json=st.booleans(),
)
def test_no_count_is_said_to_carry_and_no_list_to_show_nothing(
    people: list[Person], shows: str, is_json: bool
) -> None:
    made: dict[str, Any] = {
        "count": len(people),
        "sum": sum(amount for _, _, amount in people),
        "ids": [number for number, _, _ in people],
        "names": [name for _, name, _ in people],
    }
    value = made[shows]
    row = judged(json.dumps({"made": value}) if is_json else f"rome,{value}", people)
    first, others = people[0], people[1:]
    if shows in {"count", "sum"}:
        assert row.kind != "carries", row
    elif shows == "names":
        is_own = first[1] not in {name for _, name, _ in others}
        assert row.kind == ("carries" if is_own else "mixed"), row
        assert "name" in (row.columns if is_own else row.basis)
    else:
        # Numbers of others may be equal, or of other columns.
        is_own = all(first[0] not in (number, amount) for number, _, amount in others)
        assert not (is_own and row.kind == "mixed"), row
