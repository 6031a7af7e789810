"""What leaves to the JVM by the program's own hands: ``rdd._jrdd``, given to a library of the JVM.

Captured RDDs move records with their names through the JVM, in frames that nobody else can read. So
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

WHAT = "RDD._jrdd"
REASON = "the JVM reads the RDD by itself"
_INSIDE = ("lineage_emitter.", "pyspark.core.rdd", "pyspark.core.context", "pyspark.rdd",
           "pyspark.context")  # fmt: skip
_ASKED = frozenset(
    ("id", "name", "setName", "getNumPartitions", "partitions", "partitioner", "getStorageLevel",
     "isCheckpointed", "getCheckpointFile", "toDebugString", "context", "unpersist")
)  # fmt: skip
"""Methods of a JavaRDD that read no records."""


def is_inside(depth: int) -> bool:
    """Whether the frame so far up is capture's own, or of PySpark's RDD."""
    return str(sys._getframe(depth + 1).f_globals.get("__name__", "")).startswith(_INSIDE)


def end_of_lineage(rdd: CapturedRDD, what: str) -> None:
    """The verdict names that the JVM reads the RDD by itself, if there is to be one."""
    if not rdd.session.closed:
        rdd.session.nodes.unknown(what, REASON, [rdd.node])


def plain_java(rdd: CapturedRDD, own: Any) -> Any:
    """The Java RDD of the plain records."""
    if not isinstance(rdd._jrdd_deserializer, AddressedSerializer):
        return own
    with scope.suspended():
        if not rdd.batched:
            return RDD.mapPartitionsWithIndex(rdd, pass_through, True)._jrdd
        # The very batches that PySpark moves.
        frames: Any = RDD(own, rdd.ctx, RawBatchSerializer())
        bare = frames.mapPartitionsWithIndex(without_addresses, True)
        bare._bypass_serializer = True
        return bare._jrdd


def without_addresses(split: int, frames: Iterable[bytes]) -> Iterator[bytes]:
    """Batches without the names of their records."""
    pieces = AddressRanges()
    for frame in frames:
        payload = strip_address(frame, 0, pieces)
        if payload is not None:
            yield payload


class JavaRecords(JavaObject):  # type: ignore[misc]
    """A Java RDD in the program's hands: the captured one until its records are read, then the plain one."""

    def __init__(self, rdd: CapturedRDD, own: Any) -> None:
        # Not the base's own: the Java object is another's, to be let go with that.
        self._rdd = rdd
        self._own = own
        self._lent: Any = None

    def _read(self) -> Any:
        if self._lent is None:
            end_of_lineage(self._rdd, WHAT)
            self._lent = plain_java(self._rdd, self._own)
        return self._lent

    def _get_object_id(self) -> str:
        found: str = self._read()._get_object_id()
        return found

    @property
    def _target_id(self) -> str:
        return self._get_object_id()

    def _detach(self) -> None:
        """The plain one is let go with this object, and the captured one with its RDD."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._own if name in _ASKED else self._read(), name)

    def __dir__(self) -> Any:
        return dir(self._own)

    def __str__(self) -> str:
        return str(self._own)

    def __eq__(self, other: object) -> bool:
        return bool(self._own == (other._own if isinstance(other, JavaRecords) else other))

    def __hash__(self) -> int:
        return hash(self._own)
