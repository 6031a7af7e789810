"""Plans of what rows went into: which rows, of which kind, what is missing and what is said of it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lineage_core.contract.message import Begin, Message, Unknown
from lineage_query.engine import QueryEngine
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.keeping import StorePlace
from lineage_query.erasure.kinds import holds, words_of
from lineage_query.erasure.plan import Plan, make_plan
from lineage_query.erasure.reached import ReachedRow
from lineage_query.erasure.report import html_of, lines_of
from lineage_query.erasure.source_rows import SourceForm
from lineage_query.rows.reader import RootedReader, RowReader
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.erasure_chains import Job, Row, World

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two sources of four rows: keys a, a, b, c."""
    with SqliteStore(tmp_path / "lineage.db") as store:
        world = World(tmp_path, store)
        world.land(0, random.Random(0))
        for number, keys in enumerate(("aabc", "abbd")):
            rows = [
                Row(key, frozenset({number * 4 + at + 1}), shows=True)
                for at, key in enumerate(keys)
            ]
            path = world.datasets[number].path
            world.datasets[number].files[path] = rows
            world._write(path, rows)
        yield world


def run(world: World, operator: str, *inputs: int, target: str = "new", picked: int = 0) -> None:
    world.run(Job(inputs, operator, 1, target, picked, lands_again=False), random.Random(0))


def plan_of(
    world: World, line: int, purpose: str = "erase", place: StorePlace | None = None
) -> Plan:
    reader = RowReader()
    query = SubjectQuery(str(world.datasets[0].path), rows=(line,))
    engine = QueryEngine(world.store, reader)
    return make_plan(purpose, query, world.store, reader, engine, place)  # type: ignore[arg-type]


def short(rows: tuple[ReachedRow, ...] | list[ReachedRow]) -> list[tuple[str, str, int | None]]:
    return [
        (str(row.place).rpartition("/")[0].rpartition("/")[2], row.kind, row.others) for row in rows
    ]


@pytest.mark.parametrize("readable", [(), (2,), (3,), (2, 4)])
def test_outputs_that_can_not_be_read_are_listed_and_not_called_gone(
    world: World, tmp_path: Path, readable: tuple[int, ...]
) -> None:
    """As for a server that reads some folders: the rows are those of who reads all."""
    run(world, "copy", 0)  # out2
    run(world, "copy", 2)  # out3
    run(world, "count", 3)  # out4
    expected = plan_of(world, 1)
    assert [row.is_there for row in expected.rows] == [True] * 3
    source = str(world.datasets[0].path)
    reader = _Some((source, *(f"{tmp_path}/out{number}/" for number in readable)))
    engine = QueryEngine(world.store, reader)
    plan = make_plan("erase", SubjectQuery(source, rows=(1,)), world.store, reader, engine)
    assert [row.place for row in plan.rows] == [row.place for row in expected.rows]
    assert (plan.complete, plan.exact) == (expected.complete, expected.exact)
    seen = [int(str(row.place).rpartition("/out")[2][0]) in readable for row in plan.rows]
    assert [row.is_there for row in plan.rows] == seen
    assert {row.kind for row in plan.unseen} == {"unknown"}
    count = seen.count(False)
    assert len(plan.unseen) == count
    assert any(line.startswith(f"{count} rows in files that can't be") for line in plan.not_removed)
    shown = "\n".join(lines_of(plan))
    assert "or may be in files that can't be looked at from here" in shown
    assert "can't be looked at" not in "\n".join(lines_of(expected))
    again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again.to_json() == plan.to_json()
    assert list(lines_of(again)) == list(lines_of(plan))
    assert html_of(again) == html_of(plan)


class _Some(RootedReader):
    """Reads what begins with some paths."""

    def __init__(self, beginnings: tuple[str, ...]) -> None:
        super().__init__(())
        self._roots = beginnings


def test_outputs_on_the_way_are_in_the_plan_and_rows_are_told_apart(world: World) -> None:
    run(world, "copy", 0)  # out2
    run(world, "count", 2)  # out3: of key a both rows
    run(world, "copy", 3)  # out4: a copy of a count
    run(world, "group", 2)  # out5: shows both tokens
    run(world, "join", 0, 1)  # out6
    plan = plan_of(world, 1)
    assert short(plan.rows) == [
        ("out2", "carries", 0),
        ("out3", "mixed", 1),
        ("out4", "mixed", 1),
        ("out5", "carries", 1),
        ("out6", "carries", 0),
    ]
    assert plan.complete
    assert plan.exact
    assert [row.columns for row in plan.rows][3] == ("value",)
    # The only row of its key is carried by its count.
    assert short(plan_of(world, 3).rows)[:3] == [
        ("out2", "carries", 0),
        ("out3", "carries", 0),
        ("out4", "carries", 0),
    ]


def test_a_copy_of_a_row_of_several_carries_no_more_than_that(world: World) -> None:
    """The key of a group is that of others, too: the copy of the group does not show it."""
    run(world, "count", 0)  # out2: of key a two rows
    run(world, "copy", 2)  # out3
    run(world, "join", 0, 2)  # out4: the very rows with their count
    reader = RowReader()
    query = SubjectQuery(
        str(world.datasets[0].path), where="token = 'r1x'",
        form=SourceForm(format="csv", separator=";", columns=("key", "token")),
    )  # fmt: skip
    engine = QueryEngine(world.store, reader)
    plan = make_plan("erase", query, world.store, reader, engine)
    assert short(plan.rows) == [
        ("out2", "mixed", 1),
        ("out3", "mixed", 1),
        ("out4", "carries", 0),
        ("out4", "mixed", 1),
    ]


def test_equal_plans_have_one_digest_and_others_another(world: World) -> None:
    run(world, "count", 0)
    first = plan_of(world, 1)
    assert first.digest == plan_of(world, 1).digest == plan_of(world, 1, "access").digest
    assert first.digest != plan_of(world, 3).digest
    run(world, "copy", 2)
    assert first.digest != plan_of(world, 1).digest
    assert first.to_json()["digest"] == first.digest
    assert [ReachedRow.from_json(row.to_json()) for row in first.rows] == list(first.rows)


def test_what_the_rows_hold_is_in_answers_to_access_and_in_no_erasure_plan(world: World) -> None:
    run(world, "group", 0)
    erasure, answer = plan_of(world, 1), plan_of(world, 1, "access")
    shown = json.dumps(answer.to_json()) + html_of(answer) + "\n".join(lines_of(answer))
    assert shown.count("r1x") >= 6
    hidden = json.dumps(erasure.to_json()) + html_of(erasure) + "\n".join(lines_of(erasure))
    assert "r1x" not in hidden


def test_another_version_of_the_source_is_a_gap(world: World) -> None:
    run(world, "copy", 0)
    assert plan_of(world, 1).complete
    path = world.datasets[0].path
    rows = [*world.datasets[0].files[path], Row("d", frozenset({99}), shows=True)]
    world._write(path, rows)
    plan = plan_of(world, 1)
    assert not plan.complete
    assert [gap.app for gap in plan.gaps] == ["app-001"]
    assert "another version" in plan.gaps[0].reason
    world.datasets[0].files[path] = rows
    run(world, "copy", 0)
    plan = plan_of(world, 1)
    assert not plan.complete
    assert {row.app for row in plan.rows} == {"app-002"}
    assert "rows may be missing" in "\n".join(lines_of(plan))


def test_applications_without_complete_lineage_are_gaps(world: World) -> None:
    run(world, "copy", 0)
    messages: list[Message] = [
        Begin(app="other", name="other", started_at=5.0),
        Unknown(app="other", what="socketTextStream", reason="not captured"),
    ]
    world.store.write("other", messages)
    plan = plan_of(world, 1)
    assert [gap.app for gap in plan.gaps] == ["other"]
    assert not plan.complete


def test_overwritten_rows_are_listed_apart(world: World) -> None:
    run(world, "copy", 0)
    run(world, "copy", 1, target="overwrite", picked=0)
    plan = plan_of(world, 1)
    assert not [row for row in plan.rows if row.is_there]
    assert [row.status for row in plan.elsewhere] == ["gone"]
    assert "1 row is not where it was written" in "\n".join(lines_of(plan))


def test_a_row_that_nobody_read_went_nowhere(world: World) -> None:
    run(world, "copy", 1)
    plan = plan_of(world, 1)
    assert (plan.rows, plan.complete, plan.apps) == ((), True, ())


def test_what_lineage_keeps_is_listed(world: World, tmp_path: Path) -> None:
    run(world, "copy", 0)
    kept = tmp_path / "rows" / "app-001"
    kept.mkdir(parents=True)
    (kept / "part-0.parquet").write_bytes(b"")
    (tmp_path / "spool" / "app-001").mkdir(exist_ok=True)
    (tmp_path / "spool" / "app-001" / "driver.jsonl").write_text("")
    place = StorePlace(
        "lake:x",
        tmp_path / "rows",
        tmp_path / "spool",
        tmp_path / "index",
        is_lake=True,
        has_pipeline=True,
    )
    listed = {(entry.kind, entry.app, entry.items) for entry in plan_of(world, 1, place=place).kept}
    assert ("kept rows", "app-001", 1) in listed
    assert ("lake", "", 0) in listed
    assert ("dead letters", "", 0) in listed
    assert ("spool", "app-001", 1) in listed


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_report_has_no_scripts_whatever_jobs_wrote(world: World) -> None:
    evil = "<img src=x onerror=alert(1)>'\"&{}"
    path = world.datasets[0].path
    world.datasets[0].files[path] = [Row(evil, frozenset({1}), shows=True)]
    world._write(path, world.datasets[0].files[path])
    run(world, "copy", 0)
    page = html_of(plan_of(world, 1, "access"))
    parser = _Tags()
    parser.feed(page)
    assert not parser.tags & {"img", "script", "iframe", "link", "a", "object"}
    assert not {
        name for name in parser.attributes if name.startswith("on") or name in {"src", "href"}
    }
    assert "&lt;img src=x" in page
    assert "What this does not remove" in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("text", "value", "stands"),
    [
        ("42,Bob Ray", "Bob Ray", True),
        ("BOB RAY;1", "Bob Ray", True),
        ("Bobby Ray", "Bob", False),
        ("Ray Bob", "Bob Ray", False),
        ("('Oslo', 30.0)", "30", True),
        ("total 130", "30", False),
        ('{"name":"J\\u00f6rg"}', "Jörg", True),
        ('{"b@x.org":1}', "b@x.org", False),
        ("mail:b@x.org", "b@x.org", True),
        ("007", "7", True),
        ("2024-01-05", "2024-01-05", True),
        ('{"name":"QW5u"}', "Ann", True),
        ('{"name":"SsO2cmc="}', "Jörg", True),
        ('{"name":"QW5uQQ=="}', "Ann", False),
        ('{"names":["b\'J\\\\xc3\\\\xb6rg\'"]}', "Jörg", True),
        ('{"name":"b\'\\\\xff\'","x":"Rome"}', "Rome", True),
        ('{"name":"b\'open"}', "open", True),
    ],
)
def test_values_are_found_as_words(text: str, value: str, stands: bool) -> None:
    assert holds(words_of(text), words_of(value)) is stands
