"""Records in Kafka and views: those of an erased application go where that is exact, and all that hold its texts are found."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.codec.csv_codec import encode_csv
from lineage_core.codec.record_batch import compress, pack_record_batch
from lineage_core.contract.block import BlockId
from lineage_core.contract.block_header import header_of
from lineage_core.contract.message import Begin, DeadLetter, dump_message
from lineage_core.contract.region import Region
from lineage_kafka.topic_records import TopicRecord
from lineage_query.engine import QueryEngine
from lineage_query.erasure.applying import applied_lines, apply_plan
from lineage_query.erasure.erased_texts import ERASED, ItemsOfTexts
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.keeping import kept_of
from lineage_query.erasure.own_texts import SubjectTexts
from lineage_query.erasure.plan import Plan, make_plan
from lineage_query.erasure.steps import ErasureError
from lineage_query.erasure.topics import delete_records, records_with_texts
from lineage_query.erasure.verifying import Verifying
from lineage_query.rows.reader import RowReader
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.erasure import FORM
from tests.oracle.erasure_applying import place_beside
from tests.oracle.erasure_chains import Job, world_of_four_rows
from tests.support.stored_lineage import flows

pytestmark = pytest.mark.unit
KEYS = ((("r1x",),),)


@dataclass
class MemoryTopics:
    """Topics of one partition each; ``at``: which offset is used up to, by topic."""

    logs: dict[str, list[TopicRecord]] = field(default_factory=dict)
    at: dict[str, int | None] = field(default_factory=dict)

    def send(self, topic: str, app: str, value: bytes | None = b"{") -> None:
        log = self.logs.setdefault(topic, [])
        log.append(TopicRecord(topic, 0, log[-1].offset + 1 if log else 0, app, value))

    def partitions(self) -> Iterator[tuple[str, int]]:
        yield from ((topic, 0) for topic in self.logs)

    def is_dead_letters(self, topic: str) -> bool:
        return topic == "dead"

    def records(self, topic: str, partition: int) -> Iterator[TopicRecord]:
        return iter(list(self.logs[topic]))

    def used(self, topic: str, partition: int) -> int | None:
        return self.at.get(topic, 10**9)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        self.logs[topic] = [record for record in self.logs[topic] if record.offset >= offset]


@given(
    st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12),
    st.sets(st.sampled_from("abc"), max_size=2),
    st.none() | st.integers(0, 12),
)
def test_no_record_of_others_and_none_that_is_not_used_goes(
    senders: Sequence[str], erased: set[str], used: int | None
) -> None:
    topics = MemoryTopics(at={"edge": used})
    for app in senders:
        topics.send("edge", app)
    before = list(topics.logs.get("edge", ()))
    result = delete_records(topics, erased)
    after = topics.logs.get("edge", [])
    gone = [record for record in before if record not in after]
    assert all(record.app in erased for record in gone)
    assert all(used is not None and record.offset < used for record in gone)
    assert gone == before[: len(gone)]
    assert result["records"] == len(gone)
    # Where one of them stays, it is named, and why; the first that stays is not theirs, or is not used.
    left = [record for record in after if record.app in erased]
    assert sum(int(text.split(": ")[1].split()[0]) for text in result["left"]) == len(left)
    if left:
        first = after[0]
        assert first.app not in erased or used is None or first.offset >= used
        assert any(text.startswith("edge/0/") for text in result["left"])
    assert delete_records(topics, erased)["records"] == 0


def _frame(app: str, text: str) -> bytes:
    block = replace(flows(BlockId("9", 0, 0, 0), "0#0", "9#0", [([0], 0)], app), values=[text])
    return pack_record_batch(header_of(block).to_json(), compress(encode_csv(block)))


def test_texts_are_found_in_whatever_a_record_holds() -> None:
    topics = MemoryTopics()
    topics.send("flow", "a", _frame("a", "of r1x"))
    topics.send("flow", "a", _frame("a", ERASED))
    topics.send("flow", "b", _frame("b", "of r1x"))
    topics.send("flow", "b", _frame("b", "of r2x"))
    topics.send("node", "b", dump_message(Begin(app="b", name="r1x", started_at=1.0)).encode())
    reason = DeadLetter(app="b", place="x/0/1", reason="'r1x' is no number")
    topics.send("node", "b", dump_message(reason).encode())
    topics.send("dead", "a", b"\0what is this")
    topics.send("dead", "", b"\0what is this")
    topics.send("dead", "a", None)
    whose = {"a": (ItemsOfTexts(spaces={"9#0": Region.from_positions([0])}), ())}
    held, unknown = records_with_texts(topics, SubjectTexts(KEYS, ()), whose)
    assert sorted((where, count) for where, _, count in held) == [
        ("dead/0/0 to 0", 1),
        ("flow/0/0 to 0", 1),
        ("flow/0/2 to 2", 1),
        ("node/0/0 to 1", 2),
    ]
    assert [(where, what) for where, what, _ in unknown] == [
        ("dead/0/1 to 1", "of an unknown application that can't be read")
    ]
    # A text that is none of the values is left where its row was to be erased.
    whose_all = {"b": (ItemsOfTexts(whole=True), ())}
    held, _ = records_with_texts(topics, SubjectTexts((), ()), whose_all)
    assert [count for where, _, count in held if where.startswith("flow")] == [2]


def test_an_erasure_waits_for_records_that_would_bring_texts_back(tmp_path: Path) -> None:
    topics = MemoryTopics()
    with SqliteStore(tmp_path / "lineage.db") as store:
        world = world_of_four_rows(tmp_path, store, "copy")
        app = store.application_ids()[0]
        place = replace(
            place_beside(tmp_path), has_pipeline=True, topics=lambda: nullcontext(topics)
        )
        query = SubjectQuery(str(world.datasets[0].path), rows=(1,))

        def make() -> Plan:
            reader = RowReader()
            return make_plan("erase", query, store, reader, QueryEngine(store, reader), place)

        for topic, sender in (("edge", app), ("edge", "b"), ("edge", app), ("dead", app)):
            topics.send(topic, sender)
        plan = make()
        document = plan.to_json()
        assert [
            (kept.kind, kept.where, kept.items)
            for kept in kept_of(store, [app], plan.rows, place)
            if kept.kind in {"topics", "dead letters"}
        ] == [("dead letters", "dead/0/0 to 0", 1), ("topics", "edge/0/0 to 2", 2)]
        topics.at["edge"] = 2
        with pytest.raises(ErasureError, match="not used yet"):
            apply_plan(document, query, make, store, place)
        assert len(topics.logs["edge"]) == 3
        topics.at["edge"] = 3
        applied = apply_plan(document, query, make, store, place)
        assert [record.offset for record in topics.logs["edge"]] == [1, 2]
        assert topics.logs["dead"] == []
        lines = "\n".join(applied_lines(applied, document, None))
        assert "topics: 2 records" in lines
        assert f"edge/0/2 to 2: 1 records of {app}, behind the record at 1 of another" in lines


class ViewingSqlite(SqliteStore):
    """Has views, as Neo4j has."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.views: dict[str, list[str]] = {}

    def view_texts(self, app: str) -> Iterator[str]:
        return iter(self.views.get(app, ()))

    def remove_view(self, app: str) -> int:
        return len(self.views.pop(app, ()))


def test_views_go_and_those_that_were_made_again_are_found(tmp_path: Path) -> None:
    with ViewingSqlite(tmp_path / "lineage.db") as store:
        world = world_of_four_rows(tmp_path, store, "copy")
        world.run(Job((1,), "copy", 1, "new", 0, lands_again=False), random.Random(0))
        app, other = sorted(store.application_ids())
        store.views = {app: ["c;r3x", "of somebody"], other: ["b;r4x"]}
        place = place_beside(tmp_path)
        query = SubjectQuery(str(world.datasets[0].path), where="token = 'r3x'", form=FORM)
        reader = RowReader()
        engine = QueryEngine(store, reader)

        def make() -> Plan:
            return make_plan("erase", query, store, reader, engine, place)

        document = make().to_json()
        views = [
            (kept["app"], kept["items"]) for kept in document["kept"] if kept["kind"] == "views"
        ]
        assert views == [(app, 2)]
        apply_plan(document, query, make, store, place)
        assert store.views == {other: ["b;r4x"]}

        def left_in_views() -> set[str]:
            verified = Verifying(document, query, store, reader, engine, place, make).verify()
            return {entry.where for entry in verified.left if "in its view" in entry.why}

        assert left_in_views() == set()
        store.views = {app: ["of somebody"], other: ["b;r4x", "c;r3x"]}
        assert left_in_views() == {app, other}
