"""``DataFrame.rdd``: rows of a DataFrame become records of a captured RDD.

Where the frame's rows can be named (:mod:`lineage_emitter.dataframes.naming`), its recipe is recorded and the records
are identified by these names, so a trace goes on through the recipe. Elsewhere lineage begins anew with the records,
and the verdict says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import RDD

from lineage_core.recipe.names import TO_RDD
from lineage_emitter import scope
from lineage_emitter.dataframes import catalog
from lineage_emitter.dataframes.hooks import ActionCall, record_action
from lineage_emitter.dataframes.jvm import explicit_settings
from lineage_emitter.dataframes.naming import named_rows
from lineage_emitter.dataframes.outputs import Target
from lineage_emitter.dataframes.own_commits import OwnCommits
from lineage_emitter.driver.rdd import LineageRDD
from lineage_emitter.failures import in_words
from lineage_emitter.session.nodes import Node
from lineage_emitter.worker.named_rows import NamedRowsSerializer
from lineage_emitter.worker.spaces import EACH_RUN

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from lineage_emitter.scope import Operator
    from lineage_emitter.session.session import Session


def dataframe_records(
    session: Session, frame: DataFrame, stock: Callable[[Any], RDD[Any]]
) -> RDD[Any]:
    """A DataFrame's rows as records: those of ``stock(frame)``, which is PySpark's own ``DataFrame.rdd``.

    A plan that is computed again may give its rows in another order, so each run has its own records.
    """
    with scope.operator(TO_RDD) as running:
        plain, above = _named_records(session, running, frame, stock)
    with scope.operator("df.rdd"):
        node = session.nodes.register("source", TO_RDD, alias="df.rdd")
        if above is not None:
            session.nodes.link(above, node)
        return LineageRDD.wrap(plain, session, node, node.name + EACH_RUN)


def _named_records(
    session: Session, running: Operator, frame: DataFrame, stock: Callable[[Any], RDD[Any]]
) -> tuple[RDD[Any], Node | None]:
    """The rows as a plain RDD, and the node that they are of."""
    try:
        with scope.suspended():
            named = named_rows(frame)
            settings, listed = explicit_settings(frame.sparkSession), catalog.listed(named)
            rows = stock(named)
    except Exception as problem:
        reason = f"its rows can't be traced: {in_words(problem)}"
        with scope.suspended():
            plain = stock(frame)
        return plain, session.nodes.unknown(TO_RDD, reason, ())
    called = ActionCall(named, Target("driver", TO_RDD), settings, listed)
    recipe_node = record_action(session, running, called, OwnCommits())
    plain = RDD(rows._jrdd, rows.ctx, NamedRowsSerializer())
    return plain, None if recipe_node is None else Node(recipe_node)
