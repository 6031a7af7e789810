"""Which attempts at map tasks the reduce side of a combining shuffle reads.

Records of such a shuffle carry no addresses: their flows meet at the key. A map task that is run again
may put out other records under the same key, and a reduce task reads the outputs of one attempt. The
records say which: each batch of the map side begins with the number of its attempt.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from pyspark.serializers import BatchedSerializer

from lineage_core.contract.region import Region
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.worker.inband_addresses import RawBatchSerializer

_ATTEMPT = struct.Struct("<Q")


def attempt_header(attempt: int) -> bytes:
    """The bytes before each batch that an attempt writes."""
    return _ATTEMPT.pack(attempt)


class AttemptRecords:
    """Records of a shuffle's partition, and the attempts that put out those read so far."""

    def __init__(self, batches: Iterable[bytes], loads: Callable[[bytes], list[Any]]) -> None:
        self.attempts: set[int] = set()
        self._loads = loads
        # A map holds no batch while the next one is read.
        self._records = chain.from_iterable(map(self._batch, batches))

    def _batch(self, batch: bytes) -> list[Any]:
        self.attempts.add(_ATTEMPT.unpack_from(batch)[0])
        return self._loads(batch[_ATTEMPT.size :])

    def __iter__(self) -> Iterator[Any]:
        return self._records

    def __next__(self) -> Any:
        return next(self._records)


class AttemptReader(BatchedSerializer):
    """Reads batches behind the number of their attempt."""

    def __init__(self, serializer: Any) -> None:
        super().__init__(serializer)

    def load_stream(self, stream: Any) -> AttemptRecords:
        """The records, with the attempts that they are of."""
        return AttemptRecords(RawBatchSerializer().load_stream(stream), self.serializer.loads)


class AttemptsSeen:
    """Names the attempts whose outputs a reduce task has read, once it has read them all.

    Raises:
        CaptureFailedError: the records do not name their attempts.
    """

    def __init__(self, records: Iterable[Any]) -> None:
        if not isinstance(records, AttemptRecords):
            raise CaptureFailedError("records of a shuffle came without the attempts they are of")
        self._attempts = records.attempts

    def region(self) -> Region:
        """The attempts as a region of numbers."""
        return Region.from_positions(self._attempts)
