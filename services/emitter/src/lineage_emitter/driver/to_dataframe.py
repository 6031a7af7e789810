"""``toDF`` and ``createDataFrame``: a captured RDD hands its records to a DataFrame.

PySpark maps the RDD to rows in a few steps, perhaps looks at some records for their types, and
hands the rows to the JVM, which reads them when an action on the DataFrame does, if ever, and
however often. So each run's rows are items of their own, and their tasks' commits count whenever
they come. The rows are stored (:mod:`lineage_emitter.worker.row_files`), so that recipes of the DataFrame can name them;
where they can't be, what the DataFrame does with them is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import RDD
from pyspark.serializers import AutoBatchedSerializer, CPickleSerializer
from pyspark.sql.types import StructType

from lineage_emitter import scope
from lineage_emitter.dataframes import rdd_rows
from lineage_emitter.dataframes.rdd_rows import ROWS_NOT_STORED, StoredRows, row_storage_of
from lineage_emitter.driver.captured import PipedRDD
from lineage_emitter.errors import RowsNotStoredError
from lineage_emitter.session.nodes import Node
from lineage_emitter.worker.by_record import Map
from lineage_emitter.worker.operators import Collect
from lineage_emitter.worker.row_files import StoreRows


class RowSteps(PipedRDD):
    """Rows on their way into a DataFrame. PySpark's own looks at them stay out of the graph."""

    struct: StructType | None = None
    """The rows' type, at the last step."""

    def map(self, f: Callable[[Any], Any], preservesPartitioning: bool = False) -> RDD[Any]:
        """One more step; the last one puts rows into the form that their type has within Spark."""
        step = type(self)(self, Map(f), preservesPartitioning, self.session, self.node)
        of = getattr(f, "__self__", None)
        step.struct = of if isinstance(of, StructType) else None
        return step

    def _to_java_object_rdd(self) -> Any:
        """The last step: each row that the JVM takes is an item of the sink."""
        session = self.session
        with scope.operator("toDF"):
            sink = session.nodes.register("sink", "toDF", [self.node], alias="toDF")
            sink_function: Collect = Collect(sink.detail, each_run=True)
            reason = ""
            try:
                rows = self._stored_rows(sink)
            except RowsNotStoredError as problem:
                reason = f"{ROWS_NOT_STORED}: {problem}"
            else:
                sink_function = StoreRows(sink.detail, rows.storage)
                session.stored_rows.add(rows)
                rdd_rows.set_current_rows(rows)
            piped = self.pipe_function(sink_function, True, sink)
            piped.ending(AutoBatchedSerializer(CPickleSerializer()))
            session.jobs.begin_lazy("toDF", sink)
            with scope.suspended():
                java_rdd = RDD._to_java_object_rdd(piped)
        if reason:
            session.nodes.unknown("DataFrame", reason, [sink])
        return java_rdd

    def _stored_rows(self, sink: Node) -> StoredRows:
        """The rows, which are to be stored.

        Raises:
            RowsNotStoredError: they can't be stored.
        """
        if self.struct is None:
            raise RowsNotStoredError("their type is not known")
        partitions = self.getNumPartitions()
        storage = row_storage_of(self.session, sink.name, self.struct, partitions)
        return StoredRows(sink, sink.name, storage, partitions)


def _suspended_method(name: str) -> Callable[..., Any]:
    def method(self: RowSteps, *arguments: Any, **keywords: Any) -> Any:
        with scope.suspended():
            return getattr(RDD, name)(self, *arguments, **keywords)

    method.__name__ = name
    return method


for _name in ("first", "take", "sample", "reduce"):
    setattr(RowSteps, _name, _suspended_method(_name))
