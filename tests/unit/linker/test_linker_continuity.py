"""Records that Faust skips or leaves lying: what is noticed, and what is none of its faults."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from lineage_core.contract.dead_letter import TopicPartitionOffset
from lineage_linker.continuity import Continuity, Partition
from lineage_linker.errors import ReadingError

pytestmark = pytest.mark.unit

FLOW = ("flow", 0)


@dataclass
class KafkaPositions:
    """A Kafka whose partition 0 of `flow` holds records at ``offsets``."""

    offsets: list[int]
    current: int = 1
    committed: dict[Partition, int] = field(default_factory=dict)

    def generation(self) -> int:
        return self.current

    async def start(self, partition: Partition) -> int:
        return self.committed.get(partition, self.offsets[0])

    async def first_at(self, partition: Partition, offset: int) -> int | None:
        assert partition == FLOW
        return next((one for one in self.offsets if one >= offset), None)


def follows(continuity: Continuity, *offsets: int, generation: int = 1) -> list[bool]:
    async def each() -> list[bool]:
        return [
            await continuity.follows(generation, TopicPartitionOffset(*FLOW, one))
            for one in offsets
        ]

    return asyncio.run(each())


def test_records_in_order_are_handled() -> None:
    positions = KafkaPositions(list(range(5, 20)))
    assert follows(Continuity(positions, 10), 5, 6, 7, 8) == [True] * 4
    positions.committed[FLOW] = 7
    assert follows(Continuity(positions, 10), 7, 8) == [True] * 2


def test_what_comes_again_is_handled_again() -> None:
    continuity = Continuity(KafkaPositions(list(range(10))), 10)
    assert follows(continuity, 0, 1, 2, 1, 2, 3) == [True] * 6


@pytest.mark.parametrize("offsets", [(6,), (5, 6, 8)])
def test_a_skipped_record_is_noticed(offsets: tuple[int, ...]) -> None:
    continuity = Continuity(KafkaPositions(list(range(5, 20))), 10)
    with pytest.raises(ReadingError, match="skipped the records"):
        follows(continuity, *offsets)


def test_what_kafka_does_not_have_is_not_missed() -> None:
    """Retention removed it, or the offset belongs to a marker of a transaction."""
    positions = KafkaPositions([7, 8, 10], committed={FLOW: 3})
    assert follows(Continuity(positions, 10), 7, 8, 10) == [True] * 3


def test_a_new_assignment_begins_where_it_is_committed() -> None:
    positions = KafkaPositions(list(range(20)))
    continuity = Continuity(positions, 10)
    assert follows(continuity, 0, 1, 2) == [True] * 3
    positions.current, positions.committed[FLOW] = 2, 2
    assert follows(continuity, 3, 4) == [False] * 2  # of the old one, still in a buffer
    assert follows(continuity, 2, 3, generation=2) == [True] * 2
    positions.current = 3
    with pytest.raises(ReadingError):
        follows(continuity, 4, generation=3)


def test_a_partition_that_is_not_read_is_noticed() -> None:
    now = 0.0
    continuity = Continuity(KafkaPositions(list(range(20))), 10, clock=lambda: now)
    bounds = {FLOW: (0, 20), ("flow", 1): (4, 4)}
    continuity.watch(bounds)
    now = 9.0
    continuity.watch(bounds)
    follows(continuity, 0)
    now = 15.0
    continuity.watch(bounds)
    now = 26.0
    with pytest.raises(ReadingError, match=r"offset 1 of flow, partition 0, which ends at 20"):
        continuity.watch(bounds)


def test_a_log_that_has_become_shorter_is_noticed() -> None:
    now = 0.0
    continuity = Continuity(KafkaPositions(list(range(20))), 10, clock=lambda: now)
    follows(continuity, *range(20))
    continuity.watch({FLOW: (20, 18)})  # asked before the last two were read
    now = 11.0
    continuity.watch({FLOW: (20, 20)})
    now = 12.0
    continuity.watch({FLOW: (20, 3)})
    now = 23.0
    with pytest.raises(
        ReadingError, match=r"flow, partition 0, ends at 5, and it was read up to 20"
    ):
        continuity.watch({FLOW: (20, 5)})


def test_what_another_worker_has_done_meanwhile_is_not_unread() -> None:
    times = iter([0.0, 11.0, 22.0])
    continuity = Continuity(KafkaPositions(list(range(20))), 10, clock=lambda: next(times))
    follows(continuity, 0, 1, 2)
    for _ in range(3):
        continuity.watch({FLOW: (20, 20)})


def test_time_in_which_nothing_could_be_read_does_not_count() -> None:
    now = 0.0
    continuity = Continuity(KafkaPositions(list(range(20))), 10, clock=lambda: now)
    bounds = {FLOW: (0, 20)}
    continuity.watch(bounds)
    with continuity.working():
        now = 9.0
        continuity.watch(bounds)  # Redis is away, say
    now = 15.0
    continuity.watch(bounds)
    now = 20.0
    continuity.watch({})  # Kafka is away
    now = 28.0
    continuity.watch(bounds)
    now = 37.0
    continuity.watch(bounds)
    now = 39.0
    with pytest.raises(ReadingError):
        continuity.watch(bounds)
