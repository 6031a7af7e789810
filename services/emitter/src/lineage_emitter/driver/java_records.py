"""What leaves to the JVM by the program's own hands: ``rdd._jrdd``, given to a library of the JVM.

Captured RDDs move records with their names through the JVM, in batches that nobody else can read. So
whoever is not PySpark's RDD itself gets a stand-in: what is asked of the RDD is answered by the captured
one, and when its records are read, they are plain, capture ends there and the verdict names it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaObject
from pyspark import RDD

from lineage_emitter import scope
from lineage_emitter.worker.by_record import pass_through
from lineage_emitter.worker.inband_addresses import (
    AddressedSerializer,
    AddressRanges,
    RawBatchSerializer,
    strip_address,
)

if TYPE_CHECKING:
    from lineage_emitter.driver.captured import CapturedRDD

OPERATOR = "RDD._jrdd"
JVM_READS = "the JVM reads the RDD by itself"
_OWN_MODULES = ("lineage_emitter.", "pyspark.core.rdd", "pyspark.core.context", "pyspark.rdd",
           "pyspark.context", "pyspark.streaming.")  # fmt: skip
_METHODS_WITHOUT_RECORDS = frozenset(
    ("id", "name", "setName", "getNumPartitions", "partitions", "partitioner", "getStorageLevel",
     "isCheckpointed", "getCheckpointFile", "toDebugString", "context", "unpersist")
)  # fmt: skip
"""Methods of a JavaRDD that read no records."""


def is_own_caller(depth: int) -> bool:
    """Whether the caller so far up is capture's own, or of PySpark's RDD."""
    return str(sys._getframe(depth + 1).f_globals.get("__name__", "")).startswith(_OWN_MODULES)


def record_end_of_lineage(rdd: CapturedRDD, what: str) -> None:
    """The verdict names that the JVM reads the RDD by itself, if there is to be one."""
    if not rdd.session.closed:
        rdd.session.nodes.unknown(what, JVM_READS, [rdd.node])


def without_addresses_java(rdd: CapturedRDD, captured_java: Any) -> Any:
    """The Java RDD of the plain records."""
    if not isinstance(rdd._jrdd_deserializer, AddressedSerializer):
        return captured_java
    with scope.suspended():
        if not rdd.batched:
            return RDD.mapPartitionsWithIndex(rdd, pass_through, True)._jrdd
        # The very batches that PySpark moves.
        batches: Any = RDD(captured_java, rdd.ctx, RawBatchSerializer())
        stripped = batches.mapPartitionsWithIndex(without_addresses, True)
        stripped._bypass_serializer = True
        return stripped._jrdd


def without_addresses(split: int, batches: Iterable[bytes]) -> Iterator[bytes]:
    """Batches without the names of their records."""
    pieces = AddressRanges()
    for batch in batches:
        payload = strip_address(batch, 0, pieces)
        if payload is not None:
            yield payload


class JavaRecords(JavaObject):  # type: ignore[misc]
    """A Java RDD in the program's hands: the captured one until its records are read, then the plain one."""

    def __init__(self, rdd: CapturedRDD, captured_java: Any) -> None:
        # Not the base's own: the Java object is another's, to be let go with that.
        self._rdd = rdd
        self._captured_java = captured_java
        self._plain_java: Any = None

    def _plain(self) -> Any:
        if self._plain_java is None:
            record_end_of_lineage(self._rdd, OPERATOR)
            self._plain_java = without_addresses_java(self._rdd, self._captured_java)
        return self._plain_java

    def _get_object_id(self) -> str:
        object_id: str = self._plain()._get_object_id()
        return object_id

    @property
    def _target_id(self) -> str:
        return self._get_object_id()

    def _detach(self) -> None:
        """The plain one is let go with this object, and the captured one with its RDD."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(
            self._captured_java if name in _METHODS_WITHOUT_RECORDS else self._plain(), name
        )

    def __dir__(self) -> Any:
        return dir(self._captured_java)

    def __str__(self) -> str:
        return str(self._captured_java)

    def __eq__(self, other: object) -> bool:
        return bool(
            self._captured_java
            == (other._captured_java if isinstance(other, JavaRecords) else other)
        )

    def __hash__(self) -> int:
        return hash(self._captured_java)
