"""The map side of PySpark's ``partitionBy``, some records at a time.

PySpark's own looks at the environment for each key it hashes, which costs more than the hash.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np
from pyspark.serializers import pack_long
from pyspark.shuffle import get_used_memory

from lineage_emitter.pyspark_parts import portable_hash
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.attempts import head_of

HASHED_AS_THEY_ARE = frozenset((str, bytes, int, float, bool))
"""Types of which PySpark's ``portable_hash`` is ``hash``, but for its look at the environment."""
CHECKED = 1000
"""Records between two looks at the memory in use."""

_key_of = itemgetter(0)


def hashing(partition_function: Callable[[Any], int]) -> Callable[[Any], int]:
    """A function of the same results, which looks at the environment once."""
    if partition_function is not portable_hash:
        return partition_function
    portable_hash("")
    return _portable_hash


def _portable_hash(key: Any) -> int:
    return hash(key) if type(key) in HASHED_AS_THEY_ARE else portable_hash(key)


def targets_of(
    keys: list[Any], partition_function: Callable[[Any], int], num_partitions: int
) -> np.ndarray[Any, Any]:
    """The partition (int64) that each key goes to.

    Raises:
        pyspark.errors.PySparkRuntimeError: texts are hashed by another seed in each worker.
    """
    if partition_function is portable_hash and set(map(type, keys)) <= HASHED_AS_THEY_ARE:
        portable_hash("")
        hashes = np.fromiter(map(hash, keys), np.int64, len(keys))
        targets: np.ndarray[Any, Any] = hashes % num_partitions
        return targets
    return np.array([partition_function(key) % num_partitions for key in keys], dtype=np.int64)


class CalledOnce:
    """A partition function of the user's, which PySpark calls once a key: capture must ask before it does.

    So what the function gave is kept until the key goes out, or goes out of memory.
    """

    def __init__(self, partition_function: Callable[[Any], int]) -> None:
        self.partition_function = partition_function
        self._given: dict[Any, int] = {}
        self._keeps = True

    def first(self, key: Any) -> int:
        """What the function gives; kept for :meth:`last`."""
        found = self._given.get(key)
        if found is None:
            found = self.partition_function(key)
            if self._keeps:
                self._given[key] = found
        return found

    def last(self, key: Any) -> int:
        """What it gave, or gives where that is not kept."""
        found = self._given.pop(key, None)
        return self.partition_function(key) if found is None else found

    def keep_no_more(self) -> None:
        """Keys are spilled: memory has no room for what the function gave."""
        self._given.clear()
        self._keeps = False


class Buckets:
    """Writes (key, value) records as PySpark's ``partitionBy`` does: same batches, same order.

    Each batch names the attempt that wrote it (see :mod:`lineage_emitter.worker.attempts`).
    """

    def __init__(
        self,
        num_partitions: int,
        partition_function: Callable[[Any], int],
        memory_mb: float,
        serializer: Any,
    ) -> None:
        self.num_partitions = num_partitions
        self.partition_function = partition_function
        self.memory_mb = memory_mb
        self.serializer = serializer

    def __call__(self, split: int, iterator: Iterable[Any]) -> Iterator[bytes]:
        # Its own map side is what this worker captured last.
        head = head_of(segments.current().incarnation)
        function = getattr(iterator, "partition_function", self.partition_function)
        return self.frames(iter(iterator), head, function)

    def frames(
        self,
        records: Iterator[Any],
        head: bytes,
        partition_function: Callable[[Any], int] | None = None,
    ) -> Iterator[bytes]:
        """What PySpark's writes, with ``head`` before each batch."""
        function = partition_function or self.partition_function
        limit = self.memory_mb / 2
        buckets: defaultdict[int, list[Any]] = defaultdict(list)
        count, batch = 0, float(min(10 * self.num_partitions, CHECKED))
        while True:
            wanted = min(CHECKED - count % CHECKED, int(batch) + 1 - count)
            chunk = list(islice(records, wanted))
            targets = targets_of(list(map(_key_of, chunk)), function, self.num_partitions)
            for record, target in zip(chunk, targets.tolist(), strict=True):
                buckets[target].append(record)
            if len(chunk) < wanted:
                break
            count += wanted
            if count > batch or (count % CHECKED == 0 and get_used_memory() > limit):
                average = yield from written(buckets, self.serializer, head)
                batch = next_batch(batch, average)
                count = 0
        yield from written(buckets, self.serializer, head)


def written(
    buckets: dict[int, Any], serializer: Any, head: bytes = b""
) -> Generator[bytes, None, int]:
    """Each bucket as PySpark's JVM half reads it, and forgotten; returns their bytes on average.

    ``head``: stands before each, and takes no part in the average.
    """
    filled, size = len(buckets), 0
    for target in list(buckets):
        yield pack_long(target)
        frame = serializer.dumps(buckets.pop(target))
        yield head + frame if head else frame
        size += len(frame)
    return size // max(filled, 1)


def next_batch(batch: float, frame_bytes: int) -> float:
    """How many records PySpark writes together next, so that a frame has 1 to 10 MB."""
    average = frame_bytes >> 20
    if average < 1:
        return min(2**63 - 1, batch * 1.5)
    if average > 10:
        return max(int(batch / 1.5), 1)
    return batch
