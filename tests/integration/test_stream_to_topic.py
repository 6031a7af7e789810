"""Records that streaming queries and jobs wrote to a topic of Kafka go back to the rows that they were made of, by the real thing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from lineage_dataframes.trace.answers import EQUAL_RECORDS
from lineage_dataframes.trace.written_records import OTHERS
from tests.support.fetched_jars import fetched_jars
from tests.support.job_runs import run_captured
from tests.support.servers import KafkaUnderTest
from tests.support.versions import only_in
from tests.tables.conf import SMALL_SPARK
from tests.tables.jars import HERE
from tests.tables.ran import Ran

pytestmark = [pytest.mark.integration, pytest.mark.long, only_in("a connector for Kafka", "4.1")]

TOPIC, COUNTS = "orders.written", "orders.counts"
Records: TypeAlias = dict[str, tuple[bytes | None, str]]
"""Keys and values of the records of the topic, by place."""

EXACT = {
    "ONE": "in/0.json:1",
    "TWO": "in/1.json:1",
    "": "in/1.json:4",
    "FOUR": "jobs/0.json:1",
}
"""Where records came from whose values nobody else has written meanwhile."""
LIKE = {"COPIED": "in/0.json:3", "SAME": "jobs/0.json:2"}
"""Where one of two records came from that another program has written, too."""
OF_OTHERS = {"BEFORE", "NOBODY", "BETWEEN", "BEHIND"}
COUNTED = (
    ("counted/0.json:1", "counted/0.json:2", "counted/0.json:3"),
    ("counted/1.json:1", "counted/1.json:2", "counted/1.json:3"),
    ("counted/2.json:1",),
    ("counted/3.json:1",),
)
"""Rows of one group, batch by batch; the other group has one row, of the second batch."""


def records_of(kafka: KafkaUnderTest, topic: str, partitions: int) -> Records:
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "reader", "enable.auto.commit": False}
    )
    assigned = [TopicPartition(topic, number, 0) for number in range(partitions)]
    wanted = sum(consumer.get_watermark_offsets(one)[1] for one in assigned)
    consumer.assign(assigned)
    found: Records = {}
    while len(found) < wanted:
        for message in consumer.consume(100, 1.0):
            assert message.error() is None
            place = f"{topic}[{message.partition()}]@{message.offset()}"
            found[place] = message.key(), (message.value() or b"").decode()
    consumer.close()
    return found


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, kafka: KafkaUnderTest) -> tuple[Ran, Records]:
    made = Ran(tmp_path_factory.mktemp("written"))
    kept = [
        NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
        for topic, partitions in ((TOPIC, 2), (COUNTS, 1))
    ]
    admin = kafka.admin()
    for created in admin.create_topics(kept).values():
        created.result()
    jars = ",".join(map(str, sorted(fetched_jars(HERE / "topics").glob("*.jar"))))
    (made.folder / "conf").mkdir()
    (made.folder / "conf/spark-defaults.conf").write_text(f"{SMALL_SPARK}spark.jars {jars}\n")
    made.conf |= {"LINEAGE_TOPICS_SERVERS": kafka.bootstrap, "LINEAGE_TRACING_NETWORK": "true"}
    shutil.copy(HERE / "stream_to_topic_job.py", made.folder)
    done = run_captured(
        made.folder, "stream_to_topic_job.py", kafka.bootstrap, TOPIC, COUNTS, env=made.conf
    )
    assert done.returncode == 0, done.stderr
    records = records_of(kafka, TOPIC, 2) | records_of(kafka, COUNTS, 1)
    lines = [
        f"in/{name}.json:{line}"
        for name, count in enumerate((3, 4, 1, 1))
        for line in range(1, count + 1)
    ]
    lines += ["jobs/0.json:1", "jobs/0.json:2"]
    places: dict[str, tuple[str, str | None, str]] = {
        place: (place, None, "backward") for place in records
    }
    places |= {line: (f"{made.folder}/{line}", None, "forward") for line in lines}
    made.ask(places)
    return made, records


def with_value(records: Records, value: str) -> set[str]:
    return {place for place, (_, one) in records.items() if one == value}


def found(answer: dict[str, Any], folder: Path) -> set[str]:
    assert "error" not in answer, answer
    return {place.removeprefix(f"{folder}/") for place, _ in answer["rows"]}


def test_records_go_back_to_their_rows(ran: tuple[Ran, Records]) -> None:
    made, records = ran
    for value, line in EXACT.items():
        (place,) = with_value(records, value)
        assert found(made.answers[place], made.folder) == {line}
        assert not made.answers[place]["reasons"]


def test_a_record_that_a_batch_wrote_twice_goes_back_from_both(ran: tuple[Ran, Records]) -> None:
    """Others have written the like of it before: that one is of nobody, or not told apart where it may be among the batch's."""
    made, records = ran
    places = with_value(records, "THREE")
    assert len(places) == 3
    answers = [made.answers[place] for place in places]
    traced = [answer for answer in answers if "error" not in answer]
    assert len(traced) >= 2
    for answer in traced:
        assert found(answer, made.folder) == {"in/3.json:1"}
    for answer in answers:
        assert "error" not in answer or "no row of the output" in answer["error"]


def test_what_others_may_have_written_is_said(ran: tuple[Ran, Records]) -> None:
    made, records = ran
    for value, line in LIKE.items():
        places = with_value(records, value)
        assert len(places) == 2
        for place in places:
            answer = made.answers[place]
            assert found(answer, made.folder) == {line}
            assert OTHERS in answer["reasons"]


def test_equal_rows_are_all_candidates(ran: tuple[Ran, Records]) -> None:
    made, records = ran
    for place in with_value(records, "TWICE"):
        answer = made.answers[place]
        assert found(answer, made.folder) == {"in/1.json:2", "in/1.json:3"}
        assert answer["reasons"] == ["2 rows of the write have the record's key and value"]


def test_records_of_others_go_back_to_nothing(ran: tuple[Ran, Records]) -> None:
    made, records = ran
    for value in OF_OTHERS:
        for place in with_value(records, value):
            assert "no row of the output" in made.answers[place]["error"], made.answers[place]


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_groups_go_back_to_the_rows_of_all_batches_so_far(
    ran: tuple[Ran, Records], mode: str
) -> None:
    made, records = ran
    expected: list[tuple[str, set[str]]] = []
    rows: set[str] = set()
    for number, batch in enumerate(COUNTED):
        rows |= set(batch)
        expected.append((f"{mode} {len(rows)}", set(rows)))
        # The other group is changed by one batch.
        if number == 1 or (number > 1 and mode == "complete"):
            expected.append((f"{mode} 1", {"counted/1.json:4"}))
    places = {place for place, (_, value) in records.items() if value.startswith(mode)}
    assert sorted(records[place][1] for place in places) == sorted(value for value, _ in expected)
    for value, lines in expected:
        for place in with_value(records, value):
            assert found(made.answers[place], made.folder) == lines
            # A group that no batch changed is written again, maybe before the topic's ends are looked up.
            again = {OTHERS} if len(with_value(records, value)) > 1 else set()
            assert set(made.answers[place]["reasons"]) <= again


def test_rows_go_forward_to_their_records(ran: tuple[Ran, Records]) -> None:
    made, records = ran

    def forward(line: str) -> tuple[set[str], Any]:
        answer = made.answers[line]
        places = {place.rpartition("/")[2] for place in found(answer, made.folder)}
        return {place for place in places if place.startswith(TOPIC)}, answer["reasons"]

    for value, line in EXACT.items():
        places, reasons = forward(line)
        assert places == with_value(records, value)
        assert not reasons
    for value, line in LIKE.items():
        places, reasons = forward(line)
        assert places == with_value(records, value)
        assert EQUAL_RECORDS in reasons
    assert forward("in/0.json:2")[0] == set()
    for line in ("in/1.json:2", "in/1.json:3"):
        places, reasons = forward(line)
        assert places == with_value(records, "TWICE")
        assert EQUAL_RECORDS in reasons
    places, _ = forward("in/3.json:1")
    assert places <= with_value(records, "THREE")
    assert len(places) >= 2


def test_records_that_are_gone_are_named(ran: tuple[Ran, Records], kafka: KafkaUnderTest) -> None:
    made, records = ran
    (gone,) = with_value(records, "ONE")
    partition, offset = (int(number) for number in gone.removeprefix(f"{TOPIC}[").split("]@"))
    admin = kafka.admin()
    removed = admin.delete_records([TopicPartition(TOPIC, partition, offset + 1)])
    for one in removed.values():
        one.result()
    held = next(place for place in with_value(records, "TWICE"))
    made.ask(
        {
            "gone": (gone, None, "backward"),
            "held": (held, None, "backward"),
            "forward": (f"{made.folder}/in/0.json:1", None, "forward"),
        }
    )
    assert "no longer holds the offsets" in made.answers["gone"]["error"]
    assert found(made.answers["held"], made.folder) == {"in/1.json:2", "in/1.json:3"}
    assert any("they are gone" in warning for warning in made.answers["forward"]["warnings"])
