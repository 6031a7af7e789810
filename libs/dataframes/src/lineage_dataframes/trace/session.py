"""The Spark session that a trace runs in, a session of its own under the settings of the job, and its queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import Recipe, Source
from lineage_core.recipe.names import JDBC
from lineage_core.recipe.plan import (
    Expression,
    Filter,
    OpaqueExpression,
    PythonCall,
    Scan,
    Subquery,
    subexpressions_of,
)
from lineage_dataframes.errors import NotComputedError, RefusedError, TiedError
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.rewrite.expressions import conjuncts
from lineage_dataframes.rewrite.numbering import TIED_ROWS
from lineage_dataframes.sandbox.starting import check_reach, explain_problem
from lineage_dataframes.sources import jdbc
from lineage_dataframes.sources.file_changes import check_unchanged
from lineage_dataframes.sources.hive_text import check_fields
from lineage_dataframes.sources.splits import settings_for
from lineage_dataframes.sources.views import ROW_COLUMN, make_views, view_name, view_of
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.connected import new_session
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, spark_reason, to_arrow
from lineage_dataframes.spark.settings import STATEMENT_SETTINGS, replayed_settings
from lineage_dataframes.spark.versions import check_spark
from lineage_dataframes.trace.allowed import check_text

VIEWS_AT_ONCE = 4
"""Most of what a view takes is waiting for Spark."""

REASON_CHARACTERS_MAX = 300
"""Characters of what Spark says."""


def trace_session(spark: SparkSession, recipe: Recipe) -> SparkSession:
    """A new session of the same Spark, with the recipe's settings and views of each source.

    Raises:
        RefusedError: rows of a source have no names, or the plan may mean something else to this Spark.
        ChangedSourceError: a source is not what it was.
    """
    session, ready = start_session(spark, recipe, {})
    ready()
    return session


def start_session(
    spark: SparkSession, recipe: Recipe, more_sources: Mapping[str, Source]
) -> tuple[SparkSession, Callable[[], None]]:
    """A session as `trace_session` gives it, and what waits until its views of sources are there.

    ``more_sources``: more rows that are read in it, by the names of their views, which are there at once. Both raise
    what `trace_session` does.
    """
    check_spark(recipe, spark.version)
    session = session_with_settings(spark, recipe, [*recipe.sources, *more_sources.values()])
    scans = [node for node in recipe.plan if isinstance(node, Scan)]
    check_reach([*(recipe.sources[node.source] for node in scans), *more_sources.values()])
    for node in scans:
        check_fields(recipe.sources[node.source], node.fields)
    for name, source in more_sources.items():
        check_unchanged(session, source)
        view_of(session, source).createOrReplaceTempView(name)
    pool = ThreadPoolExecutor(VIEWS_AT_ONCE)
    making = [
        pool.submit(copy_context().run, _make_view, session, recipe, source_number)
        for source_number in sorted({node.source for node in scans})
    ]
    pool.shutdown(wait=False)

    def ready() -> None:
        for view in making:
            view.result()
        with translate_spark_errors():
            for node in recipe.plan:
                if isinstance(node, Filter):
                    check_pushed_filter(session, recipe, node)

    return session, ready


def _make_view(session: SparkSession, recipe: Recipe, source_number: int) -> None:
    check_unchanged(session, recipe.sources[source_number])
    make_views(session, recipe.sources[source_number], source_number)


def check_pushed_filter(session: SparkSession, recipe: Recipe, node: Filter) -> None:
    """See that a filter of a database's rows, which the database itself applies, chooses those that Spark would.

    Raises:
        RefusedError: it compares texts otherwise, say.
    """
    below = recipe.plan[node.input]
    if not isinstance(below, Scan) or recipe.sources[below.source].format != JDBC:
        return
    source, builder = recipe.sources[below.source], Builder(recipe)
    pushed = [term for term in conjuncts(node.condition) if _may_be_pushed(term)]
    condition = literals.all_of([builder.writer().of(term) for term in pushed])
    columns = [
        F.col(literals.quoted_name(name)).alias(f"c{column.id}")
        for name, column in zip(below.fields, below.columns, strict=True)
    ]
    live = jdbc.read_table(session, source).select(
        *columns, jdbc.ordinal_column(source).alias(ROW_COLUMN)
    )
    snapshot = session.table(view_name(below.source)).select(*columns, ROW_COLUMN)
    live_ordinals, own_ordinals = (
        view.where(condition).select(ROW_COLUMN) for view in (live, snapshot)
    )
    if live_ordinals.exceptAll(own_ordinals).take(1) or own_ordinals.exceptAll(live_ordinals).take(
        1
    ):
        raise RefusedError(
            f"the database of {source.name} chooses other rows than Spark, or was written to meanwhile"
        )


def _may_be_pushed(condition: Expression) -> bool:
    """Whether a condition is of the row's own columns, and no code; a database applies no other."""
    return not any(
        isinstance(part, Subquery | OpaqueExpression | PythonCall)
        for part in subexpressions_of(condition)
    )


def session_with_settings(
    spark: SparkSession, recipe: Recipe, sources: Sequence[Source]
) -> SparkSession:
    """A new session of the same Spark, with the recipe's settings, in which ``sources`` have numbered rows.

    Raises:
        RefusedError: the recipe has settings that a trace does not set, or may do something else than compute.
    """
    check_text(recipe)
    settings = replayed_settings(recipe)
    session = new_session(spark)
    # The last of a name counts: nothing of a recipe takes the place of what statements are written for.
    for name, value in {**settings, **STATEMENT_SETTINGS, **settings_for(sources)}.items():
        session.conf.set(name, value)
    return session


def run_query(session: SparkSession, builder: Builder, select: str) -> pa.Table:
    """The statement's rows, after its checks.

    Raises:
        RefusedError: a check failed.
        NotComputedError: Spark refused or could not run the statement.
    """
    with translate_spark_errors():
        run_checks(session, builder)
        return to_arrow(session.sql(builder.statement(select)))


def run_checks(session: SparkSession, builder: Builder) -> None:
    """Run the checks of a statement.

    Raises:
        RefusedError: one failed; `TiedError` where it is one of windows.
    """
    for statement, reason in builder.checks:
        if session.sql(builder.statement(statement)).take(1):
            raise (TiedError if reason == TIED_ROWS else RefusedError)(reason)


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """What Spark says of a statement, as an error of ours.

    Raises:
        NotComputedError: Spark refused it or could not run it.
    """
    try:
        yield
    except SPARK_ERRORS as problem:
        reason = explain_problem(problem, spark_reason(problem)[:REASON_CHARACTERS_MAX])
        raise NotComputedError(f"Spark can't compute the plan anew: {reason}") from problem
