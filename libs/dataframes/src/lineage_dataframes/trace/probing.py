"""Tries whether rows of DataFrames' outputs can be traced: some of each are, by Spark.

A trial finds what recipes alone don't show: sources that changed, orders that tie, values that come out otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from lineage_core.contract.verdict import Verdict
from lineage_core.recipe.document import Recipe
from lineage_dataframes.errors import FramesError, TiedError
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.rewrite.functions import register, runnable
from lineage_dataframes.rewrite.grouping import LOSSLESS_FORMATS
from lineage_dataframes.sources.views import view_of
from lineage_dataframes.spark import literals
from lineage_dataframes.trace.answerable import OUTPUT_KINDS, to_refusals
from lineage_dataframes.trace.backward import trace_backward, trace_named
from lineage_dataframes.trace.rows import output_of
from lineage_dataframes.trace.session import (
    run_checks,
    session_with_settings,
    trace_session,
    translate_spark_errors,
)
from lineage_store.port import GraphStore
from lineage_store.recipes import failed_recipes, read_recipe

ROWS_PROBED = 3
"""Rows of each output that are tried by default."""


def with_probes(
    spark: SparkSession,
    store: GraphStore,
    app: str,
    verdict: Verdict,
    *,
    rows: int = ROWS_PROBED,
    key: str | None = None,
) -> Verdict:
    """A verdict with what came of tracing some rows of each output; what it said before stays.

    Args:
        spark: any session; traces run in new ones beside it.
        store: has the recipes.
        app: the application.
        verdict: with what recipes alone show (`answerable`): outputs that are refused there are not tried.
        rows: how many of each output.
        key: of recipes' Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.
    """
    graph, refusals = store.graph(app), list(verdict.refusals)
    refused = {refusal.node for refusal in refusals} | failed_recipes(graph).keys()
    for node in graph.nodes():
        recipe = None
        if node.kind in OUTPUT_KINDS and node.node not in refused:
            recipe = read_recipe(graph, node.node)
        if recipe is not None:
            problems = dict.fromkeys(probe(spark, recipe, rows, key))
            refusals += to_refusals(node, (("", problem) for problem in problems))
    return verdict.answered(refusals)


def probe(
    spark: SparkSession, recipe: Recipe, rows: int = ROWS_PROBED, key: str | None = None
) -> Iterator[str]:
    """Trace some rows of an output: why which can't be. Of none there is nothing to say."""
    try:
        sample, is_in_output = _sample_rows(spark, recipe, rows, key)
    except FramesError as problem:
        yield f"no row was found to try: {problem}"
        return
    for row in sample:
        try:
            if recipe.names_rows:
                trace_named(spark, recipe, np.array([row[-1]], np.int64), shown=0, key=key)
            else:
                written = recipe.output.format if recipe.output.files else None
                trace_backward(
                    spark, recipe, [row], is_in_output=is_in_output, written=written, key=key
                )
        except FramesError as problem:
            yield str(problem)


def _sample_rows(
    spark: SparkSession, recipe: Recipe, rows: int, key: str | None
) -> tuple[Sequence[Sequence[Any]], bool]:
    """Rows of the output, and whether they hold the very values that the job's had."""
    if recipe.output.files and recipe.output.format is not None:
        output = output_of(spark, recipe)
        session = session_with_settings(spark, recipe, [output])
        columns = [literals.quoted_name(column.name) for column in recipe.columns]
        with translate_spark_errors():
            sample = view_of(session, output).select(*columns).limit(rows).collect()
        return [tuple(row) for row in sample], output.format in LOSSLESS_FORMATS
    if not recipe.columns:
        return [], False
    code = runnable(spark, recipe, key)
    session = trace_session(spark, recipe)
    register(session, code.recipe)
    with code.explained():
        try:
            return _computed_rows(session, Builder(code.recipe), rows), False
        except TiedError:
            return _computed_rows(session, Builder(code.recipe, tied=True), rows), False


def _computed_rows(session: SparkSession, builder: Builder, rows: int) -> Sequence[Sequence[Any]]:
    """Rows of the output as the trace itself looks for them."""
    built = builder.build(len(builder.recipe.plan) - 1, ids=False, top=True)
    names = ", ".join(f"c{column.id} AS v{n}" for n, column in enumerate(builder.recipe.columns))
    with translate_spark_errors():
        run_checks(session, builder)
        select = f"SELECT {names} FROM {built.name} AS r LIMIT {rows}"
        return [tuple(row) for row in session.sql(builder.statement(select)).collect()]
