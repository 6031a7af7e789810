"""Rows that plans know by their values alone, records of topics, and records that were set aside: none is lost, or called gone."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lineage_core.contract.message import Message, Register, SinkFile, SinkFiles
from lineage_core.contract.verdict import QUARANTINE
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group, Item
from lineage_query.engine import QueryEngine
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.plan import Plan, make_plan
from lineage_query.erasure.report import html_of, lines_of
from lineage_query.erasure.row_list import list_of, rows_of
from lineage_query.erasure.steps import ErasureError
from lineage_query.erasure.tables import begin_deletion, on_other_storage
from lineage_query.erasure.verified import Verified
from lineage_query.erasure.verifying import Verifying
from lineage_query.rows.reader import RowReader
from lineage_query.trace import Trace
from lineage_query.trace_query import TraceQuery
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.erasure import FORM
from tests.oracle.erasure_applying import place_beside
from tests.oracle.erasure_chains import World, world_of_four_rows

pytestmark = pytest.mark.unit
TOPIC = "kafka://kafka:9092/out[0]"


class Answering(QueryEngine):
    """Gives other groups than the real engine does of a job, as for rows of DataFrames; ``back``: of a trace back."""

    groups: Callable[[Group], list[Group]]
    back: tuple[Group, ...] = ()

    def trace_way(
        self,
        query: TraceQuery,
        on_answer: Callable[[Answer], None],
        on_trace: Callable[[Trace], None] | None = None,
    ) -> Answer:
        def changed(answer: Answer) -> Answer:
            groups = [of_value for group in answer.groups for of_value in self.groups(group)]
            return replace(answer, groups=tuple(groups))

        return super().trace_way(query, lambda answer: on_answer(changed(answer)), on_trace)

    def ask(self, query: TraceQuery) -> Answer:
        if query.direction is Direction.BACKWARD and self.back:
            return Answer(
                query.app or "", query.direction, query.places, (), True, (), self.back, (),
                changed=False, complete=True,
            )  # fmt: skip
        return super().ask(query)


@dataclass
class Asked:
    """Plans over a world in which a job read the third row of a source, and wrote it."""

    world: World
    groups: Callable[[Group], list[Group]] = lambda group: [group]
    back: tuple[Group, ...] = ()

    @property
    def query(self) -> SubjectQuery:
        return SubjectQuery(str(self.world.datasets[0].path), where="token = 'r3x'", form=FORM)

    def engine(self) -> QueryEngine:
        engine = Answering(self.world.store, RowReader())
        engine.groups, engine.back = self.groups, self.back
        return engine

    def plan(self, purpose: Any = "access") -> Plan:
        place = place_beside(self.world.folder)
        return make_plan(purpose, self.query, self.world.store, RowReader(), self.engine(), place)

    def verify(self, plan: Plan) -> Verified:
        place = place_beside(self.world.folder)
        return Verifying(
            plan.to_json(), self.query, self.world.store, RowReader(), self.engine(), place,
            lambda: self.plan("erase"),
        ).verify()  # fmt: skip


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    with SqliteStore(tmp_path / "lineage.db") as store:
        yield Asked(world_of_four_rows(tmp_path, store, "copy"))


def by_values(*texts: str, **changed: Any) -> Callable[[Group], list[Group]]:
    """What answers have of rows of DataFrames that have no place: the output's label is the address of each."""

    def groups(group: Group) -> list[Group]:
        items = tuple(Item(group.label, None, text) for text in texts)
        return [replace(group, items=items, count=len(items), **changed)]

    return groups


def test_each_row_without_a_place_is_in_the_plan_and_shown(asked: Asked) -> None:
    asked.groups = by_values("rome 1", "oslo 2", "rome 1", path=None, what="collect")
    plan = asked.plan()
    assert sorted(row.text or "" for row in plan.rows) == ["oslo 2", "rome 1", "rome 1"]
    assert not any(row.is_there for row in plan.rows)
    shown = "\n".join(lines_of(plan))
    assert "3 in the program alone" in shown
    assert shown.count("rome 1") == 2
    assert "oslo 2" in shown
    assert "oslo 2" in html_of(plan)
    assert any(line.startswith("What 3 results handed to programs") for line in plan.not_removed)
    erasing = asked.plan("erase")
    assert len(erasing.rows) == 3
    assert "oslo 2" not in "\n".join([*lines_of(erasing), html_of(erasing), str(erasing.to_json())])


def test_a_row_at_a_place_that_is_not_known_is_in_its_output(asked: Asked) -> None:
    asked.groups = by_values("b r3x")
    plan = asked.plan("erase")
    [row] = plan.rows
    out = str(asked.world.folder / "out2")
    assert (row.place, row.path, row.status, row.is_there) == (None, out, "same", True)
    assert plan.of_kind("unknown") == [row]
    assert not plan.elsewhere
    assert f"    {out}, at a place that is not known [" in "\n".join(lines_of(plan))
    assert any(
        line.startswith("1 rows of outputs in which their places are not known") and out in line
        for line in plan.not_removed
    )
    [listed] = rows_of(plan.to_json())
    assert (listed["path"], listed["row"], listed["place"], listed["there"]) == (
        out, None, None, True,
    )  # fmt: skip
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))).to_json() == plan.to_json()


def test_nothing_is_deleted_from_a_table_in_which_a_row_is_somewhere(asked: Asked) -> None:
    asked.groups = by_values("b r3x")
    (asked.world.folder / "out2" / "_delta_log").mkdir()
    with pytest.raises(ErasureError, match="stands in it is not known"):
        begin_deletion(
            asked.plan("erase").to_json(), place_beside(asked.world.folder), lambda _: ()
        )


def test_such_a_row_is_looked_for_until_all_files_of_its_output_are_gone(asked: Asked) -> None:
    asked.groups = by_values("b r3x")
    plan = asked.plan("erase")
    files = list((asked.world.folder / "out2").iterdir())
    reason = "where the row stands in it is not known"
    assert any(reason in unseen for unseen in asked.verify(plan).unseen)
    files[0].write_text("something else\n")
    assert any(reason in unseen for unseen in asked.verify(plan).unseen)
    files[0].unlink()
    assert not any(reason in unseen for unseen in asked.verify(plan).unseen)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("gone", "same", "unknown"),
        ("changed", "same", "unknown"),
        ("gone", "changed", "changed"),
        ("gone", "gone", "gone"),
    ],
)
def test_a_row_is_gone_only_where_all_files_are_that_may_have_it(
    asked: Asked, first: str, second: str, expected: str
) -> None:
    """The status of an output is that of the file that fares worst."""
    out = asked.world.folder / "out2"
    [app] = asked.world.store.application_ids()
    [written] = out.iterdir()
    other = out / "part-other"
    other.write_text("b;r4x\n")
    facts = other.stat()
    file = SinkFile(
        partition=1, path=f"file:{other}", size=facts.st_size, mtime=facts.st_mtime, rows=1
    )
    asked.world.store.write(app, [SinkFiles(app=app, node="9", path=str(out), files=(file,))])
    for path, status in ((written, first), (other, second)):
        if status == "gone":
            path.unlink()
        elif status == "changed":
            path.write_text("something else, and longer\n")
    asked.groups = by_values("b r3x", file_status="gone")
    plan = asked.plan("erase")
    [row] = plan.rows
    assert (row.status, row.is_there) == (expected, False)
    assert plan.unseen == ([row] if expected == "unknown" else [])
    assert f"1 {expected}" in "\n".join(lines_of(plan))


def test_records_that_were_set_aside_are_kept_by_lineage_and_not_handed_to_the_program(
    asked: Asked,
) -> None:
    [app] = asked.world.store.application_ids()
    registered: Message = Register(
        app=app, node="1:quarantine", kind="sink", op=QUARANTINE, name=QUARANTINE
    )
    asked.world.store.write(app, [registered])
    asked.groups = by_values(
        "ValueError: 'b;r3x'", node="1:quarantine", path=None, what=QUARANTINE, label=QUARANTINE
    )
    plan = asked.plan()
    [row] = plan.rows
    assert row.kept
    assert plan.kept_rows == [row]
    assert not plan.elsewhere
    assert not any("handed to programs" in line for line in plan.not_removed)
    for shown in ("\n".join(lines_of(plan)), html_of(plan)):
        assert "kept by lineage itself" in shown
        assert "ValueError: " in shown
    # Whether the text is still stored is looked up: nothing else is to be said of it.
    assert not any(QUARANTINE in reason for reason in asked.verify(plan).unseen)
    assert list(rows_of(plan.to_json())) == []


def record(value: bytes, offset: int = 17) -> Item:
    text = {"key": None, "value": base64.b64encode(value).decode(), "offset": offset}
    return Item(f"{TOPIC}@{offset}", f"{TOPIC}@{offset}", json.dumps(text))


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (b'{"names":["r3x","r9x"]}', "carries", "r9x"),
        (b"2 persons", "mixed", "2 persons"),
        (b"\xff\xfe2", "unknown", "\ufffd"),
    ],
)
def test_records_of_topics_are_read_as_text(
    asked: Asked, value: bytes, kind: str, shown: str
) -> None:
    asked.groups = lambda group: [
        replace(group, items=(record(value),), path="kafka://kafka:9092/out")
    ]
    source = str(asked.world.datasets[0].path)
    items = (Item("", f"{source}:3", "b;r3x"), Item("", f"{source}:4", "c;r4x"))
    asked.back = (Group("0", "read", "read", source, 2, items),)
    plan = asked.plan()
    [row] = plan.rows
    assert (row.place, row.kind, row.others) == (f"{TOPIC}@17", kind, 1)
    assert shown in (row.text or "")
    document = plan.to_json()
    [listed] = csv.DictReader(io.StringIO(list_of(document, as_csv=True)))
    assert (listed["path"], listed["row"], listed["unit"]) == (TOPIC, "17", "offset")
    expected = {} if kind == "mixed" else {TOPIC: 1}
    assert on_other_storage(document) == expected
