"""Which offsets of topics a micro-batch has read, and of which topic these were."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from lineage_core.contract.message import TOPIC_PARTITIONS_MAX, TopicOfStream
from lineage_core.recipe.document import Source
from lineage_emitter.dataframes import topics
from lineage_emitter.dataframes.stream_topics import (
    ranges_of,
    topics_of_query,
    topics_of_stream,
    with_offsets,
)
from lineage_emitter.dataframes.topic_ids import STREAM, SeenTopics

IDS = {("broker:9092", "orders"): "first"}


def place(**topics: dict[int, int]) -> str:
    """A place in a stream, as Spark writes it into checkpoints."""
    return json.dumps(topics)


def orders(ranges: dict[tuple[str, int], tuple[int, int]], ids: dict[str, str]) -> Source:
    return topics.source("broker:9092", "orders", "{}", topics.TopicRead(ranges, ids), None)


def test_ranges_lie_between_two_places() -> None:
    start, end = place(orders={0: 5, 1: 7}), place(orders={0: 9, 1: 7, 2: 3}, returns={0: 1})
    assert ranges_of(start, end) == {
        "orders": {0: (5, 9), 1: (7, 7), 2: (0, 3)},
        "returns": {0: (0, 1)},
    }


def test_another_batch_of_one_topic_has_other_offsets_alone() -> None:
    known = orders({("orders", 0): (0, 5)}, {"orders": "first"})
    other = with_offsets(known, place(orders={0: 5}), place(orders={0: 8}))
    assert other is not None
    assert (other.version, other.options) == ("0:5-8", known.options)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("", place(orders={0: 8})),
        (place(orders={0: 5}), ""),
        (place(orders={0: 5}), place(orders={0: 5})),
        (place(orders={0: 5}), place(orders={0: 8}, returns={0: 2})),
        (place(orders={0: 5}), place(returns={0: 2})),
    ],
)
def test_other_batches_are_made_of_their_plan(start: str, end: str) -> None:
    known = orders({("orders", 0): (0, 5)}, {"orders": "first"})
    assert with_offsets(known, start, end) is None


def test_a_topic_is_traced_by_its_id_and_offsets() -> None:
    ranges = {("orders", 0): (0, 5)}
    assert topics.untraced_reason(orders(ranges, {"orders": "first"})) == ""
    assert "by its id" in topics.untraced_reason(orders(ranges, {"returns": "first"}))
    assert "offsets are not known" in topics.untraced_reason(orders({}, {"orders": "first"}))


def test_ids_count_for_what_is_read_after_they_were_seen() -> None:
    seen_first, seen_later = SeenTopics(IDS), SeenTopics(IDS, at=100.0)
    assert seen_first.before(None).ids == seen_first.before(1.0).ids == IDS
    assert seen_later.before(100.0).ids == IDS
    assert not seen_later.before(99.9).ids
    assert not seen_later.before(None).ids


SEEN = SeenTopics(IDS)


@pytest.mark.parametrize(
    ("text", "initial", "expected"),
    [
        (
            "KafkaV2[Subscribe[orders, returns]]",
            place(orders={0: 5, 1: 0}),
            [
                TopicOfStream(topic="orders", id="first", firsts={0: 5, 1: 0}),
                TopicOfStream(topic="returns"),
            ],
        ),
        # Where it begins is not known yet.
        ("KafkaV2[Subscribe[orders]]", "", [TopicOfStream(topic="orders", id="first")]),
        (
            "KafkaV2[Assign[orders-0, orders-3]]",
            place(orders={0: 1, 3: 2}),
            [TopicOfStream(topic="orders", id="first", firsts={0: 1, 3: 2}, assigned=True)],
        ),
        ("KafkaV2[SubscribePattern[or.*]]", place(orders={0: 1}), [TopicOfStream()]),
    ],
)
def test_a_stream_says_which_topics_it_reads(
    text: str, initial: str, expected: list[TopicOfStream]
) -> None:
    assert list(topics_of_stream(text, initial, "broker:9092", SEEN)) == expected


def test_firsts_are_named_where_they_are_few_and_known() -> None:
    text = "KafkaV2[Subscribe[orders]]"
    for partitions in ({0: -2}, dict.fromkeys(range(TOPIC_PARTITIONS_MAX + 1), 0)):
        (named,) = topics_of_stream(text, place(orders=partitions), "broker:9092", SEEN)
        assert named.firsts is None


class KafkaStream:
    """A stream as Spark has it: of which class it is, and what it says of itself."""

    def getClass(self) -> KafkaStream:
        return self

    def getSimpleName(self) -> str:
        return STREAM

    def toString(self) -> str:
        return "KafkaV2[Subscribe[orders]]"


class Streams(list[KafkaStream]):
    def size(self) -> int:
        return len(self)

    def apply(self, place: int) -> KafkaStream:
        return self[place]


@pytest.mark.parametrize(
    ("is_first", "initial", "seen_at", "firsts", "is_all"),
    [
        # The query has not looked up yet where it begins.
        (None, "", 0.0, None, False),
        (True, "", 0.0, None, False),
        # Whether an earlier run has read something is not known yet.
        (None, place(orders={0: 5}), 0.0, None, False),
        (True, place(orders={0: 5}), 0.0, {0: 5}, True),
        # Another topic may have had the name in an earlier run, or before ids were looked up.
        (False, place(orders={0: 5}), 0.0, None, True),
        (True, place(orders={0: 5}), 9.0, None, True),
    ],
)
def test_where_a_query_began_is_said_of_topics_that_had_their_name_then(
    is_first: bool | None,
    initial: str,
    seen_at: float,
    firsts: dict[int, int] | None,
    is_all: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = "lineage_emitter.dataframes.stream_topics"
    servers = {"bootstrap.servers": "broker:9092"}
    monkeypatch.setattr(f"{module}.initial_offsets", lambda *_: initial)
    monkeypatch.setattr(f"{module}.parameters_of", lambda _: servers)
    execution = SimpleNamespace(sources=lambda: Streams([KafkaStream()]))
    seen = SeenTopics(IDS, at=seen_at)
    spark = cast("SparkSession", None)
    expected = TopicOfStream(topic="orders", id="first", firsts=firsts)
    assert topics_of_query(spark, execution, seen, is_first=is_first) == ((expected,), is_all)
