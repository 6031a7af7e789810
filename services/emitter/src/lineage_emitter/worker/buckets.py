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
from lineage_emitter.worker.attempts import attempt_header

BUILTIN_HASH_TYPES = frozenset((str, bytes, int, float, bool))
"""Types of which PySpark's ``portable_hash`` is ``hash``, but for its look at the environment."""
MEMORY_CHECK_RECORDS = 1000
"""Records between two looks at the memory in use."""

_key_of = itemgetter(0)


def faster_hash(partition_function: Callable[[Any], int]) -> Callable[[Any], int]:
    """A function of the same results, which looks at the environment once."""
    if partition_function is not portable_hash:
        return partition_function
    portable_hash("")
    return _portable_hash


def _portable_hash(key: Any) -> int:
    return hash(key) if type(key) in BUILTIN_HASH_TYPES else portable_hash(key)


def targets_of(
    keys: list[Any], partition_function: Callable[[Any], int], num_partitions: int
) -> np.ndarray[Any, Any]:
    """The partition (int64) that each key goes to.

    Raises:
        pyspark.errors.PySparkRuntimeError: texts are hashed by another seed in each worker.
    """
    if partition_function is portable_hash and set(map(type, keys)) <= BUILTIN_HASH_TYPES:
        portable_hash("")
        hashes = np.fromiter(map(hash, keys), np.int64, len(keys))
        targets: np.ndarray[Any, Any] = hashes % num_partitions
        return targets
    return np.array([partition_function(key) % num_partitions for key in keys], dtype=np.int64)


class MemoisedPartitionFunction:
    """A partition function of the user's, which PySpark calls once a key: capture calls it first.

    So its result is cached until the key goes out, or goes out of memory.
    """

    def __init__(self, partition_function: Callable[[Any], int]) -> None:
        self.partition_function = partition_function
        self._targets_by_key: dict[Any, int] = {}
        self._is_caching = True

    def compute(self, key: Any) -> int:
        """The result of the function, cached for :meth:`take`."""
        target = self._targets_by_key.get(key)
        if target is None:
            target = self.partition_function(key)
            if self._is_caching:
                self._targets_by_key[key] = target
        return target

    def take(self, key: Any) -> int:
        """The cached result, or a new one where none is cached."""
        target = self._targets_by_key.pop(key, None)
        return self.partition_function(key) if target is None else target

    def stop_caching(self) -> None:
        """Keys are spilled: memory has no room for what the function gave."""
        self._targets_by_key.clear()
        self._is_caching = False


class PartitionBuckets:
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
        header = attempt_header(segments.current_segment().incarnation)
        function = getattr(iterator, "partition_function", self.partition_function)
        return self.batches(iter(iterator), header, function)

    def batches(
        self,
        records: Iterator[Any],
        header: bytes,
        partition_function: Callable[[Any], int] | None = None,
    ) -> Iterator[bytes]:
        """What PySpark's writes, with ``header`` before each batch."""
        function = partition_function or self.partition_function
        limit = self.memory_mb / 2
        buckets: defaultdict[int, list[Any]] = defaultdict(list)
        count, batch = 0, float(min(10 * self.num_partitions, MEMORY_CHECK_RECORDS))
        while True:
            chunk_records = min(
                MEMORY_CHECK_RECORDS - count % MEMORY_CHECK_RECORDS, int(batch) + 1 - count
            )
            chunk = list(islice(records, chunk_records))
            targets = targets_of(list(map(_key_of, chunk)), function, self.num_partitions)
            for record, target in zip(chunk, targets.tolist(), strict=True):
                buckets[target].append(record)
            if len(chunk) < chunk_records:
                break
            count += chunk_records
            if count > batch or (count % MEMORY_CHECK_RECORDS == 0 and get_used_memory() > limit):
                average = yield from write_buckets(buckets, self.serializer, header)
                batch = next_batch_records(batch, average)
                count = 0
        yield from write_buckets(buckets, self.serializer, header)


def write_buckets(
    buckets: dict[int, Any], serializer: Any, header: bytes = b""
) -> Generator[bytes, None, int]:
    """Each bucket as PySpark's JVM half reads it, and forgotten; returns their bytes on average.

    ``header``: stands before each, and takes no part in the average.
    """
    filled, size = len(buckets), 0
    for target in list(buckets):
        yield pack_long(target)
        pickled = serializer.dumps(buckets.pop(target))
        yield header + pickled if header else pickled
        size += len(pickled)
    return size // max(filled, 1)


def next_batch_records(batch: float, batch_bytes: int) -> float:
    """How many records PySpark writes together next, so that a batch has 1 to 10 MB."""
    average = batch_bytes >> 20
    if average < 1:
        return min(2**63 - 1, batch * 1.5)
    if average > 10:
        return max(int(batch / 1.5), 1)
    return batch
