"""The map side of ``partitionBy`` writes what PySpark's own writes, byte for byte."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import RDD
from pyspark.serializers import CPickleSerializer

from lineage_emitter.pyspark_parts import portable_hash
from lineage_emitter.worker import buckets
from lineage_emitter.worker.buckets import PartitionBuckets, faster_hash

SERIALIZER = CPickleSerializer()
plain_keys = st.one_of(
    st.text(max_size=3), st.integers(-5, 5), st.booleans(), st.floats(allow_nan=False)
)
keys = st.one_of(plain_keys, st.none(), st.tuples(plain_keys, st.none()))


def by_pyspark(records: list[Any], num_partitions: int, function: Any) -> list[bytes]:
    """What the map side in PySpark's ``partitionBy`` writes."""
    found: list[Any] = []

    def keep(map_side: Any, preservesPartitioning: bool) -> Any:
        found.append(map_side)
        return SimpleNamespace()

    context = SimpleNamespace(_unbatched_serializer=SERIALIZER, _jvm=None)
    rdd: Any = SimpleNamespace(
        partitioner=None, ctx=context, _memory_limit=lambda: 512, mapPartitionsWithIndex=keep
    )
    with pytest.raises(AssertionError):
        RDD.partitionBy(rdd, num_partitions, function)
    return list(found[0](0, iter(records)))


def by_number(key: Any) -> int:
    return 7 if key is None else len(str(key))


@given(st.lists(st.tuples(keys, st.integers())), st.integers(1, 5), st.integers(0, 60))
def test_frames_are_those_of_pyspark(
    records: list[tuple[Any, int]], num_partitions: int, times: int
) -> None:
    every = [(key, (value, turn)) for turn in range(times) for key, value in records]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "0")
        for function in (portable_hash, by_number):
            ours = PartitionBuckets(num_partitions, function, 512, SERIALIZER)
            assert list(ours.batches(iter(every), b"")) == by_pyspark(
                every, num_partitions, function
            )
            headed = list(ours.batches(iter(every), b"head"))
            assert [one.removeprefix(b"head") for one in headed] == list(
                ours.batches(iter(every), b"")
            )
            assert all(batch.startswith(b"head") for batch in headed[1::2])


@pytest.mark.parametrize("used", [100, 300])
def test_memory_in_use_cuts_batches_where_pyspark_cuts_them(
    used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setattr(buckets, "get_used_memory", lambda: used)
    monkeypatch.setattr(sys.modules[RDD.__module__], "get_used_memory", lambda: used)
    records = [(number % 97, "x" * (number % 500)) for number in range(30_000)]
    ours = PartitionBuckets(3, portable_hash, 512, SERIALIZER)
    assert list(ours.batches(iter(records), b"")) == by_pyspark(records, 3, portable_hash)


@given(keys)
def test_hashing_is_the_hash_of_pyspark(key: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "0")
        assert faster_hash(portable_hash)(key) == portable_hash(key)
        assert faster_hash(by_number) is by_number
