"""Among which offsets the records of a micro-batch are, by what was looked up of the topic before and behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lineage_core.recipe.document import Output
from lineage_emitter.dataframes import topics
from lineage_emitter.dataframes.topic_sinks import TopicSink
from lineage_store.dataset_paths import UnfiledDataset

pytestmark = pytest.mark.unit

OPTIONS = {
    "kafka.bootstrap.servers": "b:1,a:1",
    "topic": "orders",
    "kafka.sasl.jaas.config": "secret",
}
NO_SPARK: Any = None


class Kafka:
    """Stands in for Kafka. ``ends``: by partition; None: it does not answer. ``at``: the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ends: Mapping[int, int] | None = {0: 0}
        self.at = 100.0
        monkeypatch.setattr(topics, "ends_of_written", lambda *_: self.ends)
        monkeypatch.setattr(topics, "id_of_written", lambda *_: "id-1")
        monkeypatch.setattr("lineage_emitter.dataframes.topic_sinks.time.time", lambda: self.at)


def begun(options: Mapping[str, str] = OPTIONS) -> TopicSink:
    sink = TopicSink.of(NO_SPARK, options)
    assert sink is not None
    return sink


def batch(
    kafka: Kafka, sink: TopicSink, began_at: float | None, ends: Mapping[int, int] | None
) -> Output:
    kafka.ends, kafka.at = ends, kafka.at + 1
    return sink.written(NO_SPARK, "start", began_at)


def test_a_batch_is_between_the_looks_before_it_began_and_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = Kafka(monkeypatch)
    sink = begun()
    first = batch(kafka, sink, 100.5, {0: 4, 1: 2})
    assert (first.version, first.format, first.kind) == ("0:0-4 1:0-2", "kafka", "table")
    assert first.options == {"servers": "a:1,b:1", "topic": "orders", "id": "id-1"}
    assert first.table == "kafka://a:1,b:1/orders"
    # The second look was over at 101.
    assert batch(kafka, sink, 101.0, {0: 4, 1: 9}).version == "1:2-9"
    # This batch began before the look behind the one before it was over.
    assert batch(kafka, sink, 101.9, {0: 5, 1: 9}).version == "0:4-5 1:2-9"


def test_what_is_not_known_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka(monkeypatch)
    sink = begun()
    assert batch(kafka, sink, None, {0: 4}).version is None
    assert batch(kafka, sink, 99.0, {0: 4}).version is None
    assert batch(kafka, sink, 103.5, None).version is None
    # What was not seen widens the next.
    assert batch(kafka, sink, 104.5, {0: 6}).version == "0:4-6"
    hasty = begun({**OPTIONS, "kafka.acks": "1"})
    assert batch(kafka, hasty, 110.0, {0: 9}).version is None


def test_a_topic_that_did_not_grow_has_no_record_of_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = Kafka(monkeypatch)
    assert batch(kafka, begun(), 100.5, {0: 0}).version == ""


def test_rows_that_name_their_topics_have_none() -> None:
    assert TopicSink.of(NO_SPARK, {"kafka.bootstrap.servers": "a:1"}) is None


def test_where_rows_name_topics_the_servers_are_recorded() -> None:
    by_rows = {name: value for name, value in OPTIONS.items() if name != "topic"}
    assert TopicSink.of(NO_SPARK, by_rows) is None
    output = topics.named_by_rows(Output("table", table="kafka", action="save"), by_rows)
    assert (output.format, output.table, output.version) == ("kafka", "kafka://a:1,b:1/*", None)
    assert output.options == {"servers": "a:1,b:1"}
    dataset = topics.dataset(output.format, output.options)
    assert dataset == UnfiledDataset("kafka://a:1,b:1", ("*",))
    assert topics.named_by_rows(output, {}) == output
