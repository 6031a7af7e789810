"""RDDs that a context's capture knows nothing of: what they give is named in the verdict.

A program made them before its context was captured, under a capture that has ended, or by ``rows()`` and ``replay()``, which give
plain RDDs. All but the second are PySpark's own, as all are that are made of them. Their records reach a result by one of these methods, by a
DataFrame that is made of it, or by an operator of a captured RDD; the last two say so by themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark import RDD, SparkContext

from lineage_emitter import scope
from lineage_emitter.driver.saving import SAVES
from lineage_emitter.open_sessions import open_session_of

if TYPE_CHECKING:
    from lineage_emitter.session.session import Session

ACTIONS = (
    "aggregate", "collect", "collectAsMap", "collectWithJobGroup", "count", "countApprox", "countApproxDistinct",
    "countByKey", "countByValue", "first", "fold", "foreach", "foreachPartition", "histogram", "isEmpty", "lookup",
    "max", "mean", "meanApprox", "min", "reduce", "reduceByKeyLocally", "sampleStdev", "sampleVariance", "stats",
    "stdev", "sum", "sumApprox", "take", "takeOrdered", "takeSample", "toLocalIterator", "top", "treeAggregate",
    "treeReduce", "variance", "saveAsTextFile", *SAVES,
)  # fmt: skip
"""Methods of RDDs that give records, or what was computed of them, to a program or to files."""
REASON = (
    "the RDD is not captured: it was made before this capture began, or by rows() or by replay() without capture=True; "
    "its lineage is unknown"
)

_installed = False


def install(session_of: Callable[[SparkContext], Session | None]) -> None:
    """Name what RDDs give that are not captured, from now on; a second call changes nothing.

    ``session_of``: gives the session of a context that is captured as a whole.
    """
    global _installed  # noqa: PLW0603 - PySpark's classes are the process's, too
    if _installed:
        return
    _installed = True
    for name in ACTIONS:
        stock = getattr(RDD, name, None)
        if stock is not None:
            setattr(RDD, name, _named(stock, f"RDD.{name}", session_of))


def name_of_ended(ended: Session, name: str) -> None:
    """Name what a method of an RDD gives that was captured by a session that has ended, where another captures all."""
    session = open_session_of(ended.sc) if ended.closed and name in ACTIONS else None
    if session is not None and session.is_fully_captured:
        session.nodes.unknown(f"RDD.{name}", REASON, ())


def name_of_job(session: Session) -> None:
    """Name a job that the program runs by itself over an RDD that is not captured."""
    if session.is_fully_captured:
        session.nodes.unknown("SparkContext.runJob", REASON, ())


def _named(
    stock: Callable[..., Any],
    method_name: str,
    session_of: Callable[[SparkContext], Session | None],
) -> Callable[..., Any]:
    @functools.wraps(stock)
    def method(self: RDD[Any], *arguments: Any, **named: Any) -> Any:
        # Within an operator it is one of capture's own, or a part of what has been named.
        is_ours = hasattr(self, "session") or scope.is_suspended() or scope.outermost() is not None
        session = None if is_ours else session_of(self.ctx)
        if session is None:
            return stock(self, *arguments, **named)
        with scope.operator(method_name):
            session.nodes.unknown(method_name, REASON, ())
            with session.recorded():
                return stock(self, *arguments, **named)

    return method
