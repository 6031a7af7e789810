"""``toDF`` and ``createDataFrame``: a captured RDD hands its records to a DataFrame.

PySpark maps the RDD to rows in a few steps, perhaps looks at some records for their types, and
hands the rows to the JVM, which reads them when an action on the DataFrame does, if ever, and
however often. So each run's rows are items of their own, and their tasks' commits count whenever
they come. What the DataFrame does with the rows is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import RDD
from pyspark.serializers import AutoBatchedSerializer, CPickleSerializer

from lineage_emitter import scope
from lineage_emitter.by_record import Map
from lineage_emitter.dataframes import REASON
from lineage_emitter.operators import Collect
from lineage_emitter.rdd import LineagePipelinedRDD, LineageRDD


class FrameInput(LineagePipelinedRDD):
    """Rows on their way into a DataFrame. PySpark's own looks at them stay out of the graph."""

    def map(self, f: Callable[[Any], Any], preservesPartitioning: bool = False) -> RDD[Any]:
        """One more step."""
        return begin(self, f, preservesPartitioning)

    def _to_java_object_rdd(self) -> Any:
        """The last step: each row that the JVM takes is an item of the sink."""
        session = self.session
        with scope.operator("toDF"):
            sink = session.register("sink", "toDF", [self.node], alias="toDF")
            take = Collect(sink.detail, each_run=True)
            taken = self.pipe_function(take, True, sink)
            taken.ending(AutoBatchedSerializer(CPickleSerializer()))
            session.begin_lazy("toDF", sink)
            with scope.suspended():
                rows = RDD._to_java_object_rdd(taken)
        session.unknown("DataFrame", REASON, [sink])
        return rows


def begin(rdd: LineageRDD, f: Callable[[Any], Any], preserves: bool) -> FrameInput:
    """A step to a DataFrame's rows."""
    return FrameInput(rdd, Map(f), preserves, rdd.session, rdd.node)


def _plainly(name: str) -> Callable[..., Any]:
    def method(self: FrameInput, *arguments: Any, **named: Any) -> Any:
        with scope.suspended():
            return getattr(RDD, name)(self, *arguments, **named)

    method.__name__ = name
    return method


for _name in ("first", "take", "sample", "reduce"):
    setattr(FrameInput, _name, _plainly(_name))
