"""What Faust hands over is compared with what Kafka holds: nothing is skipped, nothing is left lying.

Around a rebalance Faust 0.15.3 may drop records that it has fetched and go on behind them; it even
counts them as committed when a later one is acked (``Consumer._add_gap``). It may also stop to fetch
a partition that is the worker's own, or wait at an offset that the log does not reach any more. None
of these raises. Here they are errors, and whoever gets one begins anew from what is committed
(docs/adr/0006).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import structlog

from lineage_core.contract.dead_letter import TopicPartitionOffset
from lineage_linker.errors import ReadingError

Partition = tuple[str, int]
"""Topic and number."""

log = structlog.get_logger(__name__)


class KafkaPositions(Protocol):
    """What Kafka, and the membership of the consumer group, know of partitions."""

    def generation(self) -> int:
        """Number of the assignment that is valid now."""

    async def start(self, partition: Partition) -> int:
        """Offset at which this worker has to begin: the committed one, else that of the first record."""

    async def first_at(self, partition: Partition, offset: int) -> int | None:
        """Offset of the first record at ``offset`` or behind; None: there is none."""


class Continuity:
    """Where a worker stands in its partitions.

    Args:
        positions: to ask Kafka.
        stall_s: seconds for which a record may lie unread while there is nothing else to do.
        clock: seconds of any origin.
    """

    def __init__(
        self, positions: KafkaPositions, stall_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._positions = positions
        self._stall_s = stall_s
        self._clock = clock
        self._generation = -1
        self._next: dict[Partition, int] = {}
        self._unread: dict[Partition, tuple[int, float]] = {}
        self._at_work = False

    async def follows(self, generation: int, place: TopicPartitionOffset) -> bool:
        """Whether a record, the next that Faust handed over, is to be handled.

        False: it is of an assignment that is over, and comes again to whoever has the partition now.

        Raises:
            ReadingError: records before it were skipped.
            KafkaError: Kafka does not answer.
        """
        current = self._positions.generation()
        if generation != current:
            return False
        if current != self._generation:
            self._generation = current
            self._next.clear()
        partition = place.topic, place.partition
        if partition not in self._next:
            self._next[partition] = await self._positions.start(partition)
        expected = self._next[partition]
        if place.offset > expected:
            await self._check_gap(partition, expected, place.offset)
        self._next[partition] = max(expected, place.offset + 1)
        return True

    async def _check_gap(self, partition: Partition, expected: int, offset: int) -> None:
        """Raises ReadingError unless Kafka itself has nothing there (any more)."""
        first = await self._positions.first_at(partition, expected)
        if first is None or first < offset:
            topic, number = partition
            raise ReadingError(
                f"the client of Kafka skipped the records {expected} to {offset - 1} of {topic}, "
                f"partition {number}"
            )
        log.warning("records_are_gone", partition=partition, expected=expected, first=offset)

    @contextmanager
    def working(self) -> Iterator[None]:
        """While a batch is done it is nobody's fault that records lie unread."""
        self._at_work = True
        try:
            yield
        finally:
            self._at_work = False

    def watch(self, bounds: Mapping[Partition, tuple[int, int]]) -> None:
        """Check whether records lie unread; call it regularly.

        ``bounds``: of the worker's partitions, where it had to begin and the offset behind the last
        record, as Kafka says now; empty where Kafka does not answer.

        Raises:
            ReadingError: some have for too long, or a log has lost records.
        """
        if self._at_work:
            self._unread.clear()
            return
        now = self._clock()
        unread: dict[Partition, tuple[int, float]] = {}
        for partition, (start, end) in bounds.items():
            at = max(self._next.get(partition, start), start)  # others had it meanwhile
            # Behind the end, too: either the bounds are old by now, and we go on, or the log is another.
            if at != end:
                previous_at, since = self._unread.get(partition, (at, now))
                unread[partition] = (at, since if previous_at == at else now)
        self._unread = unread
        for (topic, number), (at, since) in unread.items():
            if now - since > self._stall_s:
                if at > (end := bounds[topic, number][1]):
                    raise ReadingError(
                        f"{topic}, partition {number}, ends at {end}, and it was read up to {at}: the topic "
                        "was made anew, or Kafka has lost records"
                    )
                raise ReadingError(
                    f"the client of Kafka has not read on for {self._stall_s:g} s at offset {at} of "
                    f"{topic}, partition {number}, which ends at {end}"
                )
