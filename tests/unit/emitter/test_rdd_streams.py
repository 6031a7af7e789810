"""What captures streams of RDDs, where its own look fails, where the JVM reads records by itself, and what it lets go."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import RDD
from pyspark.serializers import (
    AutoBatchedSerializer,
    BatchedSerializer,
    CPickleSerializer,
    UTF8Deserializer,
)
from pyspark.streaming import StreamingContext
from pyspark.streaming.dstream import DStream

from lineage_emitter.driver import rdd_streams
from lineage_emitter.worker.inband_addresses import AddressedSerializer
from lineage_emitter.worker.lines import LineDeserializer

pytestmark = pytest.mark.unit

PICKLED = AutoBatchedSerializer(CPickleSerializer())


class _Problems:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def guard(self, activity: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as problem:
            self.seen.append(f"{activity}: {problem}")


class _Session:
    closed = False

    def __init__(self) -> None:
        self.problems = _Problems()
        self.unknown: list[tuple[str, str]] = []
        self.nodes = SimpleNamespace(
            unknown=lambda name, reason, above: self.unknown.append((name, reason))
        )
        self.sc: Any = SimpleNamespace()


class _Java:
    """A Java RDD. ``kept``: by Spark."""

    def __init__(self, number: int, *, kept: bool = False) -> None:
        self.number, self.kept, self.unpersisted = number, kept, 0

    def id(self) -> int:
        return self.number

    def getNumPartitions(self) -> int:
        return 1

    def get(self) -> Any:
        return self

    def getStorageLevel(self) -> Any:
        return SimpleNamespace(useMemory=lambda: self.kept, useDisk=lambda: False)

    def unpersist(self, blocking: bool) -> None:
        assert not blocking
        self.unpersisted += 1


@pytest.fixture
def session() -> Any:
    return _Session()


def streams_of(session: Any) -> rdd_streams.RddStreams:
    return rdd_streams.RddStreams(session)


def rdd(deserializer: Any) -> Any:
    return SimpleNamespace(_jrdd_deserializer=deserializer)


def test_a_queue_is_read_by_what_pyspark_would_read_it_by() -> None:
    by_text, by_pickle = rdd(LineDeserializer(True)), rdd(AddressedSerializer(CPickleSerializer()))
    parallelized = BatchedSerializer(CPickleSerializer(), 3)
    of = rdd_streams.deserializer_of
    assert of([by_text, by_text], PICKLED) == UTF8Deserializer()
    assert type(of([by_text], PICKLED)) is UTF8Deserializer
    assert of([rdd(LineDeserializer(False))], PICKLED) == UTF8Deserializer(False)
    assert of([by_pickle, by_pickle], PICKLED) is PICKLED
    assert of([rdd(parallelized)], PICKLED) is parallelized
    assert of([by_text, by_pickle], PICKLED) is PICKLED


def test_records_stay_plain_where_streams_can_not_be_looked_at(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(context: StreamingContext) -> Any:
        raise RuntimeError("no look")

    streams, context = streams_of(session), SimpleNamespace()
    monkeypatch.setattr(rdd_streams, "_streams_in", fail)
    with pytest.raises(RuntimeError, match="no look"):
        streams.begin(context)  # type: ignore[arg-type]
    assert streams.refusal == rdd_streams.NOT_LOOKED_AT
    streams = streams_of(session)
    monkeypatch.setattr(rdd_streams, "_streams_in", lambda context: ())
    streams.begin(context)  # type: ignore[arg-type]
    assert streams.refusal == ""


def test_an_rdd_that_can_not_be_captured_is_given_as_it_is(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no folder")

    streams = streams_of(session)
    monkeypatch.setattr(rdd_streams, "can_run_captured", lambda session: True)
    monkeypatch.setattr(streams, "_union", lambda *_: None)
    monkeypatch.setattr(streams, "_unseen", fail)
    java = _Java(7)
    given = streams.given(java, SimpleNamespace(), PICKLED)  # type: ignore[arg-type]
    assert type(given) is RDD
    assert given._jrdd is java
    assert session.problems.seen == ["capture a batch of a stream of RDDs: no folder"]
    # Records with names are never read as plain ones.
    monkeypatch.setattr(streams, "_union", fail)
    with pytest.raises(RuntimeError, match="no folder"):
        streams.given(java, SimpleNamespace(), PICKLED)  # type: ignore[arg-type]


def test_records_that_the_jvm_reads_by_itself_are_plain(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = streams_of(session)
    monkeypatch.setattr(rdd_streams, "streams_of", lambda session: streams)

    class Stream(DStream[Any]):
        _jdstream = rdd_streams._java_stream(None, lambda sc: session)

        def __init__(self) -> None:
            self._sc, self._jdstream = session.sc, "java"

    stream = Stream()
    own = {"__name__": "pyspark.streaming.dstream", "stream": stream}
    assert eval("stream._jdstream", own) == "java"
    assert streams.refusal == ""
    assert stream._jdstream == "java"
    assert stream._jdstream == "java"
    assert streams.refusal == rdd_streams.JAVA_READS
    assert session.unknown == [("DStream._jdstream", rdd_streams.JAVA_READS)]


def test_what_capture_keeps_is_let_go_when_spark_keeps_its_own_no_more() -> None:
    java, instead = _Java(1, kept=True), _Java(2)
    known = rdd_streams._Known(java, persisted=instead)
    assert known.release() is known
    java.kept = False
    released = known.release()
    assert instead.unpersisted == 1
    assert released.persisted is None
    assert released.release() is released
    assert instead.unpersisted == 1
