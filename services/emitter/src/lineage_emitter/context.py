"""The explicit way in: a LineageContext over a SparkContext."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.serializers import BatchedSerializer

from lineage_emitter import scope, shuffles
from lineage_emitter.lines import LineDeserializer
from lineage_emitter.rdd import LineageRDD, adopt, batch_of_ten
from lineage_emitter.session import Session, forget, latest_app, session_of


class LineageContext:
    """Sources whose RDDs note lineage; everything else is the SparkContext's own.

    Keyword arguments are settings (see docs/reference/settings.md), e.g.
    ``LineageContext(sc, store="sqlite:///lineage.db")``.

    Raises:
        SettingsError: a setting can't be used.
    """

    def __init__(self, sc: SparkContext, **settings: Any) -> None:
        self.sc = sc
        self.session = session_of(sc, **settings)
        self.app = latest_app(sc) if self.session is None else self.session.app
        """The application's id, as ``lineage apps`` lists it."""

    def textFile(
        self, name: str, minPartitions: int | None = None, use_unicode: bool = True
    ) -> RDD[Any]:
        """``SparkContext.textFile`` with lineage: an item is a line."""
        if self.session is None:
            return self.sc.textFile(name, minPartitions, use_unicode)
        return text_file(self.session, name, minPartitions, use_unicode)

    def parallelize(self, c: Iterable[Any], numSlices: int | None = None) -> RDD[Any]:
        """``SparkContext.parallelize`` with lineage: an item is an element."""
        if self.session is None:
            return self.sc.parallelize(c, numSlices)
        return parallelize(self.session, c, numSlices)

    def union(self, rdds: Sequence[RDD[Any]]) -> RDD[Any]:
        """``SparkContext.union`` with lineage."""
        if self.session is None:
            return self.sc.union(list(rdds))
        return union(self.session, rdds)

    def close(self) -> None:
        """End the application's lineage; ``sc.stop()`` and the end of the program do so too."""
        if self.session is not None:
            self.session.close()
        else:
            forget(self.sc)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sc, name)

    def __enter__(self) -> LineageContext:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _stock(name: str) -> Callable[..., Any]:
    """The SparkContext's own method, also where ``lineage run`` has wrapped it."""
    method = getattr(SparkContext, name)
    stock: Callable[..., Any] = getattr(method, "lineage_stock", method)
    return stock


def text_file(
    session: Session, name: str, min_partitions: int | None = None, use_unicode: bool = True
) -> RDD[Any]:
    """A captured ``textFile``."""
    with scope.operator("textFile"):
        plain = _stock("textFile")(session.sc, name, min_partitions, use_unicode)
        node = session.register("source", "textFile", path=name, alias="read")
        node.text_source = plain._jrdd
        lines = LineDeserializer(use_unicode)
        return LineageRDD.wrap(plain, session, node, node.name, deserializer=lines)


def parallelize(session: Session, c: Iterable[Any], num_slices: int | None = None) -> RDD[Any]:
    """A captured ``parallelize``."""
    with scope.operator("parallelize"):
        with scope.suspended():
            plain = _stock("parallelize")(session.sc, c, num_slices)
        node = session.register("source", "parallelize", alias="parallelize")
        deserializer = plain._jrdd_deserializer
        batch = batch_of_ten(session.sc)
        whole = isinstance(deserializer, BatchedSerializer) and deserializer == batch
        return LineageRDD.wrap(
            plain, session, node, node.name, batched=batch.batchSize if whole else 0
        )


def union(session: Session, rdds: Sequence[RDD[Any]]) -> RDD[Any]:
    """A captured ``SparkContext.union``."""
    with scope.operator("union"):
        captured = [adopt(rdd, session) for rdd in rdds]
        return captured[0] if len(captured) == 1 else shuffles.union(captured)
