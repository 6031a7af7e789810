"""Batches of pickled records that go through a Python worker as they are.

Where PySpark saves an RDD whose batches fit already, no Python worker touches them: the JVM writes
the very bytes. Capture has to see the records in them, and passes the bytes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.inband_addresses import AddressedRecords, AddressRanges, strip_address

Records = Iterable[Any]
PartitionFunction = Callable[[int, Records], Records]


class PassBatches:
    """Passes on batches, and their records through ``read`` (begins the segment) and ``sink``.

    ``serializer``: of a batch's records. Neither function may look ahead.
    """

    def __init__(self, read: PartitionFunction, sink: PartitionFunction, serializer: Any) -> None:
        self.read = read
        self.sink = sink
        self.serializer = serializer

    def __call__(self, split: int, iterator: Iterable[bytes]) -> Iterator[bytes]:
        waiting: deque[Any] = deque()
        address_ranges = AddressRanges()
        records = AddressedRecords(_drained(waiting), address_ranges)
        reached = iter(self.sink(split, self.read(split, records)))
        return self._payloads(iterator, waiting, address_ranges, reached)

    def _payloads(
        self,
        batches: Iterable[bytes],
        waiting: deque[Any],
        address_ranges: AddressRanges,
        reached: Iterator[Any],
    ) -> Iterator[bytes]:
        count = 0
        for batch in batches:
            payload = strip_address(batch, count, address_ranges)
            if payload is not None:
                waiting.extend(self._records(payload))
                count += len(waiting)
                # No more than there are: the records end where none is waiting.
                for _ in islice(reached, len(waiting)):
                    pass
                yield payload
        for _ in reached:
            pass

    def _records(self, payload: bytes) -> Iterable[Any]:
        try:
            records: Iterable[Any] = self.serializer.loads(payload)
            return records
        except Exception as problem:
            # Nobody but capture reads them here.
            segments.current_segment().fail(problem)
            return ()


def _drained(waiting: deque[Any]) -> Iterator[Any]:
    while waiting:
        yield waiting.popleft()
