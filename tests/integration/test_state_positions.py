"""Positions of the linker's state in Redis, as partitions go from worker to worker."""

from __future__ import annotations

import pytest

from lineage_core.contract.dead_letter import TopicPartitionOffset
from lineage_linker.errors import StateLostError, StateUnavailableError
from lineage_linker.records import Incoming
from lineage_linker.redis_access import RedisAccess
from lineage_linker.state_positions import StatePositions
from tests.support.servers import RedisUnderTest

pytestmark = pytest.mark.integration

FLOW = ("lineage-flow", 0)


def records(first: int, end: int, generation: int) -> list[Incoming]:
    return [
        Incoming(TopicPartitionOffset(*FLOW, offset), None, b"", generation=generation)
        for offset in range(first, end)
    ]


def handle(positions: StatePositions, read: list[Incoming]) -> bool:
    """A batch as a worker does it; whether its records may be acked."""
    moved = positions.advance(read)
    positions.confirm(moved)
    if moved:
        positions.acked(read)
    return bool(moved)


def test_a_partition_goes_to_another_worker_before_kafka_has_the_last_acks(
    redis_server: RedisUnderTest,
) -> None:
    redis_server.clear()
    with redis_server.client() as client:
        old, new = StatePositions(client, "group"), StatePositions(client, "group")
        assert old.locate(1, {FLOW: None}) == {FLOW: 0}
        assert handle(old, records(0, 150, 1))
        epoch = old.check().epoch
        # Acks are committed once a second: Kafka knows of 100.
        assert new.locate(2, {FLOW: 100}) == {FLOW: 100}
        assert old.check().epoch == epoch
        assert handle(new, records(100, 120, 2))
        assert handle(new, records(120, 160, 2))
        assert old.check().epoch == new.check().epoch == epoch
        # The old worker's last batch is over: what it moves is done, too.
        assert handle(old, records(150, 155, 1))
        assert new.check().records_to_reread == 0


def test_nothing_is_linked_over_a_redis_that_evicts(redis_server: RedisUnderTest) -> None:
    """A single key that is dropped is noticed by nobody."""
    with redis_server.client() as client:
        access = RedisAccess(client)
        client.config_set("maxmemory-policy", "volatile-lru")
        try:
            with pytest.raises(StateUnavailableError, match=r"volatile-lru.*noeviction"):
                access.run()
        finally:
            client.config_set("maxmemory-policy", "noeviction")
        assert access.run().run_id


def test_the_first_start_of_workers_one_by_one_has_one_epoch(redis_server: RedisUnderTest) -> None:
    """Workers of a version that kept no positions are replaced while others of it still read: nothing is lost."""
    redis_server.clear()
    other = (FLOW[0], 1)
    with redis_server.client() as client:
        first, second = StatePositions(client, "group"), StatePositions(client, "group")
        assert first.locate(1, {FLOW: 100}) == {FLOW: 0}
        epoch = first.check().epoch
        assert second.locate(2, {other: 70}) == {other: 0}
        assert second.check().epoch == epoch
        # Read again all the same: of what that version linked there are no seals.
        assert second.check().records_to_reread == 70
        # From here on a loss is one.
        client.hset("lm:positions:group", f"{other[0]}/1", 10)
        assert first.locate(3, {FLOW: 0, other: 80}) == {FLOW: 0, other: 10}
        assert first.check().epoch != epoch


def test_what_the_state_lost_is_read_again_under_an_epoch_of_its_own(
    redis_server: RedisUnderTest,
) -> None:
    redis_server.clear()
    with redis_server.client() as client:
        positions = StatePositions(client, "group")
        positions.locate(1, {FLOW: None})
        assert handle(positions, records(0, 50, 1))
        copy = client.dump("lm:positions:group")
        epoch = positions.check().epoch
        assert handle(positions, records(50, 150, 1))
        client.restore("lm:positions:group", 0, copy, replace=True)
        with pytest.raises(StateLostError):
            positions.check()
        again = StatePositions(client, "group")
        assert again.locate(2, {FLOW: 150}) == {FLOW: 50}
        assert again.check().epoch != epoch
        assert again.check().records_to_reread == 100
        assert handle(again, records(50, 150, 2))
        assert again.check().records_to_reread == 0
