"""Attacks: a job that makes dead letters without end, and who then asks for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lineage_core.contract.dead_letter import DeadRecord, TopicPartitionOffset
from lineage_core.tracing.budget import Budget, TimeUpError, TooMuchError, use_budget
from lineage_kafka.dead_letters import DeadLetterRecord, DeadLetterTopic

pytestmark = pytest.mark.security


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> DeadLetterTopic:
    """A topic that has always one more letter."""

    def letters(_: DeadLetterTopic) -> Iterator[DeadLetterRecord]:
        offset = 0
        while True:
            place = TopicPartitionOffset("blocks", 0, offset)
            yield DeadLetterRecord(
                0, offset, DeadRecord(place, "no message", "linker", 0.0), None, b"x"
            )
            offset += 1

    monkeypatch.setattr(DeadLetterTopic, "_all", letters)
    return DeadLetterTopic.__new__(DeadLetterTopic)


def test_they_are_read_within_the_time_of_the_request(topic: DeadLetterTopic) -> None:
    with use_budget(Budget(seconds=0.2)), pytest.raises(TimeUpError):
        topic.unresolved()


def test_no_more_are_held_than_may(topic: DeadLetterTopic) -> None:
    with pytest.raises(TooMuchError, match="more than 1,000 dead letters"):
        topic.unresolved(1_000)
