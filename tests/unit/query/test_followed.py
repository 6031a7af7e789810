"""What is followed, as typed."""

from __future__ import annotations

import pytest

from lineage_core.contract.message import Stream, TopicOfStream
from lineage_query.conditions import ConditionError
from lineage_query.followed import FollowedSource, NamedRecord, Reading, parse_followed
from lineage_query.rows.places import Location, LocationError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders[3]@1742", NamedRecord("orders", 3, 1742)),
        ("kafka://a:1,b:2/orders[0]@0", NamedRecord("kafka://a:1,b:2/orders", 0, 0)),
        ("in/a.csv:3", Location("in/a.csv", 3)),
        ("in/a.parquet#3", Location("in/a.parquet", 3, "record")),
        ("in/a.csv", Location("in/a.csv", None, "file")),
        ("orders[3]", Location("orders[3]", None, "file")),
        ("orders[x]@1", Location("orders[x]@1", None, "file")),
        ("out#partition=1,offset=x", Location("out#partition=1,offset=x", None, "file")),
        ("out#k=1", Location("out#k=1", None, "file")),
    ],
)
def test_a_place_is_of_a_topic_or_a_file(text: str, expected: object) -> None:
    assert parse_followed(text) == expected


def test_other_texts_are_refused() -> None:
    for text in ("", "in/a.csv:0"):
        with pytest.raises(LocationError):
            parse_followed(text)


def facts(*reads: str, topics: tuple[TopicOfStream, ...] | None = None) -> Stream:
    return Stream(app="a", query="q", run="r", state="begun", reads=reads, topics=topics)


def test_a_condition_is_on_a_folder_a_file_or_a_topic() -> None:
    followed = parse_followed("/data/in", "user = 42")
    assert isinstance(followed, FollowedSource)
    assert (followed.source, followed.is_topic, followed.goes_on) == ("/data/in", False, True)
    streams = [
        followed.streams(facts(folder))
        for folder in ("file:/data/in", "file:/data/in/*.csv", "file:/data", "file:/data/i*")
    ]
    assert streams == [1, 1, 1, 1]
    assert not followed.streams(facts("file:/data/inner", "file:/other/*", ""))
    read = {"sources": [{"format": "csv", "files": [{"path": "file:/data/in/day=1/a.csv"}]}]}
    assert followed.reading(read) is Reading.READ
    read["sources"][0]["files"] = [{"path": "file:/data/inner/a.csv"}]
    assert followed.reading(read) is Reading.NO
    for text in ("kafka:orders", "kafka://a:1,b:2/orders"):
        topic = parse_followed(text, "value = 'x'")
        assert isinstance(topic, FollowedSource)
        assert (topic.source, topic.is_topic) == ("orders", True)
        named = TopicOfStream(topic="orders", id="i"), TopicOfStream(topic="others", id="j")
        assert topic.streams(facts("", topics=named)) == 1
        kafka = {"format": "kafka", "options": {"topic": "orders"}}
        assert topic.reading({"sources": [kafka]}) is Reading.READ


@pytest.mark.parametrize("where", ["", "user", "user = (SELECT 1)", "f(user) = 1"])
def test_other_conditions_are_refused(where: str) -> None:
    if where:
        with pytest.raises(ConditionError):
            parse_followed("/data/in", where)
    with pytest.raises(LocationError, match="is one row"):
        parse_followed("/data/in/a.csv:3", "user = 42")
