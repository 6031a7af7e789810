"""Captured RDDs on executors that may not be able to run captured functions.

A program may hold captured RDDs long before an executor is there, and some programs run no task at all.
So executors are looked at when the first job is about to run: it waits for them anyway. Where they can't
load captured functions, the RDDs that there are by then are made again without capture, by the calls that
made them, and those take their places from then on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark import RDD

from lineage_emitter import scope
from lineage_emitter.driver.older_rdds import name_of_ended
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.program.recipes import Source, recipe_of, replaced, upstream

if TYPE_CHECKING:
    from lineage_emitter.driver.captured import CapturedRDD
    from lineage_emitter.session.session import Session

WITHOUT_JOBS = frozenset(
    ("map", "flatMap", "filter", "mapValues", "flatMapValues", "keyBy", "keys", "values", "glom",
     "mapPartitions", "mapPartitionsWithIndex", "mapPartitionsWithSplit", "barrier", "pipe",
     "sample", "sampleByKey", "randomSplit", "zipWithUniqueId", "union", "__add__", "cartesian",
     "coalesce", "repartition", "partitionBy", "combineByKey", "groupByKey", "reduceByKey",
     "foldByKey", "aggregateByKey", "groupBy", "distinct", "cogroup", "groupWith", "join",
     "leftOuterJoin", "rightOuterJoin", "fullOuterJoin", "intersection", "subtract",
     "subtractByKey", "repartitionAndSortWithinPartitions", "checkpoint", "localCheckpoint")
)  # fmt: skip
"""Methods of RDDs that PySpark returns from without having run a task."""


def where_it_can_run(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A public method of captured RDDs; where executors can't run it, the same without capture."""

    @functools.wraps(method)
    def call(self: CapturedRDD, /, *arguments: Any, **named: Any) -> Any:
        inside = scope.is_suspended() or scope.outermost() is not None
        if not inside:
            name_of_ended(self.session, name)
        if inside or can_run(self.session, name):
            return method(self, *arguments, **named)
        given = {key: uncaptured(value) for key, value in named.items()}
        return getattr(uncaptured(self), name)(*map(uncaptured, arguments), **given)

    return call


def can_run(session: Session, name: str = "") -> bool:
    """Whether a method of a captured RDD is captured; the first that runs a job looks at the executors."""
    if name not in WITHOUT_JOBS or (not session.executors.looked and scope.called_from_pyspark()):
        session.executors.look()
    return not session.executors.unfit


def uncaptured(value: Any) -> Any:
    """What stands for a captured RDD (or for those in a list) where executors can't run captured functions.

    Raises:
        CaptureFailedError: it is not known how an RDD on the way was made.
    """
    return replaced(value, _twin)


def _twin(goal: RDD[Any]) -> RDD[Any]:
    session = getattr(goal, "session", None)
    if session is None or not session.executors.unfit:
        return goal
    with scope.suspended():
        for rdd in upstream(goal):
            if hasattr(rdd, "node"):
                _make_twin(rdd)
        found: RDD[Any] = getattr(goal, "twin", None) or goal
        return found


def _make_twin(rdd: Any) -> None:
    """The twin of an RDD whose inputs have theirs."""
    if rdd.twin is None:
        recipe = recipe_of(rdd)
        if recipe is None:
            raise CaptureFailedError(
                f"node {rdd.node.name} can't be run without capture: no call of the program made its RDD"
            )
        if isinstance(recipe, Source):
            rdd.twin = recipe.plain
        else:
            rdd.twin = recipe.again(lambda one: getattr(one, "twin", None) or one)
    _keep_as(rdd, rdd.twin)


def _keep_as(rdd: Any, twin: RDD[Any]) -> None:
    """The program may have cached the captured one, or have asked for a checkpoint."""
    if rdd.is_cached and not twin.is_cached:
        twin.persist(rdd.getStorageLevel())
    elif twin.is_cached and not rdd.is_cached:
        twin.unpersist()
    if rdd.is_checkpointed and not twin.is_checkpointed:
        (twin.localCheckpoint if rdd.checkpointed_locally else twin.checkpoint)()
