"""A group's commits are asked for again while it has no coordinator."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from benchmarks import kafka

PLACES = [TopicPartition("flow", 0), TopicPartition("flow", 1)]


class _Consumer:
    """Answers that there is no coordinator ``failures`` times."""

    failures = 0

    def __init__(self, settings: dict[str, str]) -> None:
        self.closed = False

    def committed(self, places: list[TopicPartition], timeout: float) -> Sequence[TopicPartition]:
        assert not self.closed
        if type(self).failures:
            type(self).failures -= 1
            raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))
        offsets = [7, -1001]
        return [
            TopicPartition(one.topic, one.partition, offset)
            for one, offset in zip(places, offsets, strict=True)
        ]

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "Consumer", _Consumer)
    monkeypatch.setattr(kafka, "POLL_S", 0.0)


@pytest.mark.parametrize("failures", [0, 3])
def test_a_coordinator_that_is_not_there_yet_is_asked_again(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Consumer, "failures", failures)
    assert kafka.committed("there:9092", "readers", PLACES) == [7, 0]
    assert _Consumer.failures == 0


def test_one_that_never_comes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Consumer, "failures", -1)
    monkeypatch.setattr(kafka, "KAFKA_S", 0.0)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        kafka.committed("there:9092", "readers", PLACES)
