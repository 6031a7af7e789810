"""Methods of SparkContext that take RDDs, with lineage. Each takes PySpark's own arguments after the session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark import RDD

from lineage_emitter import scope
from lineage_emitter.driver import shuffles
from lineage_emitter.driver.actions import running_action
from lineage_emitter.driver.fitness import can_run_captured, uncaptured
from lineage_emitter.driver.rdd import LineageRDD, adopt
from lineage_emitter.driver.sources import stock
from lineage_emitter.program.recipes import CallRecipe, record_call
from lineage_emitter.session.session import Session
from lineage_emitter.worker.operators import ConsumingFunction, SinkIntoFunction


def run_job(
    session: Session,
    /,
    rdd: RDD[Any],
    partitionFunc: Callable[[Iterable[Any]], Iterable[Any]],
    partitions: Sequence[int] | None = None,
    allowLocal: bool = False,
) -> list[Any]:
    """``SparkContext.runJob``: each record that the function takes is an item of the sink."""
    if not can_run_captured(session):
        return list(
            stock("runJob")(session.sc, uncaptured(rdd), partitionFunc, partitions, allowLocal)
        )
    with scope.operator("runJob"):
        captured = adopt(rdd, session)
        sink = session.nodes.register("sink", "runJob", [captured.node], alias="runJob")
        if isinstance(partitions, Iterable):
            partitions = list(partitions)
        repeats = partitions is not None and len(set(partitions)) < len(partitions)
        sink_function = SinkIntoFunction(sink.detail, each_run=repeats)
        piped = captured.pipe_function(sink_function, True, sink).ending(session.sc.serializer)
        with running_action(captured, "runJob", sink, partitions):
            run = stock("runJob")
            results = run(
                session.sc, piped, ConsumingFunction(partitionFunc), partitions, allowLocal
            )
            return list(results)


def union(session: Session, /, rdds: Sequence[RDD[Any]]) -> RDD[Any]:
    """A captured ``SparkContext.union``."""
    if session.executors.unfit:
        return stock("union")(session.sc, uncaptured(list(rdds)))  # type: ignore[no-any-return]
    with scope.operator("union"):
        captured = [adopt(rdd, session) for rdd in rdds]
        united = captured[0] if len(captured) == 1 else shuffles.union(captured)
    record_call(united, CallRecipe("union", _union_again, (list(rdds),)))
    return united


def _union_again(rdds: list[RDD[Any]]) -> RDD[Any]:
    captured = [rdd for rdd in rdds if isinstance(rdd, LineageRDD)]
    if captured:
        return union(captured[0].session, rdds)
    with scope.suspended():
        return rdds[0].ctx.union(rdds)


RDD_ARGUMENT_METHODS: dict[str, Callable[..., Any]] = {"union": union, "runJob": run_job}
"""Methods of SparkContext that take RDDs."""
