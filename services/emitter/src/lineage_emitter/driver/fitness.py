"""Captured RDDs on executors that may not be able to run captured functions.

A program may hold captured RDDs long before an executor is there, and some programs run no task at all.
So executors are examined when the first job is about to run: it waits for them anyway. Where they can't
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
from lineage_emitter.program.recipes import SourceRecipe, recipe_of, replace_rdds, upstream_rdds

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


def unless_unfit(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A public method of captured RDDs; where executors can't run it, the same without capture."""

    @functools.wraps(method)
    def call(self: CapturedRDD, /, *arguments: Any, **keywords: Any) -> Any:
        inside = scope.is_suspended() or scope.outermost() is not None
        if not inside:
            name_of_ended(self.session, name)
        if inside or can_run_captured(self.session, name):
            return method(self, *arguments, **keywords)
        keyword_arguments = {key: uncaptured(value) for key, value in keywords.items()}
        return getattr(uncaptured(self), name)(*map(uncaptured, arguments), **keyword_arguments)

    return call


def can_run_captured(session: Session, name: str = "") -> bool:
    """Whether a method of a captured RDD is captured; the first that runs a job looks at the executors."""
    if name not in WITHOUT_JOBS or (not session.executors.checked and scope.called_from_pyspark()):
        session.executors.check_before_job()
    return not session.executors.unfit


def uncaptured(value: Any) -> Any:
    """What stands for a captured RDD (or for those in a list) where executors can't run captured functions.

    Raises:
        CaptureFailedError: it is not known how an RDD on the way was made.
    """
    return replace_rdds(value, _uncaptured_rdd)


def _uncaptured_rdd(goal: RDD[Any]) -> RDD[Any]:
    session = getattr(goal, "session", None)
    if session is None or not session.executors.unfit:
        return goal
    with scope.suspended():
        for rdd in upstream_rdds(goal):
            if hasattr(rdd, "node"):
                _make_uncaptured_rdd(rdd)
        uncaptured: RDD[Any] = getattr(goal, "uncaptured_rdd", None) or goal
        return uncaptured


def _make_uncaptured_rdd(rdd: Any) -> None:
    """Make an RDD without capture, whose inputs have theirs."""
    if rdd.uncaptured_rdd is None:
        recipe = recipe_of(rdd)
        if recipe is None:
            raise CaptureFailedError(
                f"node {rdd.node.name} can't be run without capture: no call of the program made its RDD"
            )
        if isinstance(recipe, SourceRecipe):
            rdd.uncaptured_rdd = recipe.plain
        else:
            rdd.uncaptured_rdd = recipe.repeat(
                lambda rdd_input: getattr(rdd_input, "uncaptured_rdd", None) or rdd_input
            )
    _copy_storage(rdd, rdd.uncaptured_rdd)


def _copy_storage(rdd: Any, uncaptured_rdd: RDD[Any]) -> None:
    """Cache or checkpoint the RDD without capture as the program did with the captured one."""
    if rdd.is_cached and not uncaptured_rdd.is_cached:
        uncaptured_rdd.persist(rdd.getStorageLevel())
    elif uncaptured_rdd.is_cached and not rdd.is_cached:
        uncaptured_rdd.unpersist()
    if rdd.is_checkpointed and not uncaptured_rdd.is_checkpointed:
        (
            uncaptured_rdd.localCheckpoint
            if rdd.checkpointed_locally
            else uncaptured_rdd.checkpoint
        )()
