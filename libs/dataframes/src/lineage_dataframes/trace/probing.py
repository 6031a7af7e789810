"""Tries whether rows of DataFrames' outputs can be traced: some of each are, by Spark.

What recipes alone can't tell is found out so: sources that changed, orders that tie, values that come out otherwise.
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
from lineage_dataframes.trace.answerable import OUTPUTS, told_of
from lineage_dataframes.trace.backward import trace_backward, trace_named
from lineage_dataframes.trace.rows import output_of
from lineage_dataframes.trace.session import check, session_of, told, trace_session
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe

ROWS = 3
"""Rows of each output that are tried, if not told otherwise."""


def probed(
    spark: SparkSession,
    store: GraphStore,
    app: str,
    verdict: Verdict,
    *,
    rows: int = ROWS,
    key: str | None = None,
) -> Verdict:
    """A verdict with what came of tracing some rows of each output; what it said before stays.

    Args:
        spark: any session; traces run in new ones beside it.
        store: has the recipes.
        app: the application.
        verdict: with what recipes alone tell (`answerable`): outputs that are refused there are not tried.
        rows: how many of each output.
        key: of recipes' Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.
    """
    graph, found = store.graph(app), list(verdict.refusals)
    refused = {one.node for one in found}
    for node in graph.nodes():
        recipe = None
        if node.kind in OUTPUTS and node.node not in refused:
            recipe = read_recipe(graph, node.node)
        if recipe is not None:
            problems = dict.fromkeys(probe(spark, recipe, rows, key))
            found += told_of(node, (("", problem) for problem in problems))
    return verdict.answered(found)


def probe(
    spark: SparkSession, recipe: Recipe, rows: int = ROWS, key: str | None = None
) -> Iterator[str]:
    """Trace some rows of an output: why which can't be. Of none there is nothing to say."""
    try:
        some, there = _some(spark, recipe, rows, key)
    except FramesError as problem:
        yield f"no row was found to try: {problem}"
        return
    for row in some:
        try:
            if recipe.names_rows:
                trace_named(spark, recipe, np.array([row[-1]], np.int64), shown=0, key=key)
            else:
                written = recipe.output.format if recipe.output.files else None
                trace_backward(spark, recipe, [row], there=there, written=written, key=key)
        except FramesError as problem:
            yield str(problem)


def _some(
    spark: SparkSession, recipe: Recipe, rows: int, key: str | None
) -> tuple[Sequence[Sequence[Any]], bool]:
    """Rows of the output, and whether they hold the very values that the job's had."""
    if recipe.output.files and recipe.output.format is not None:
        output = output_of(spark, recipe)
        session = session_of(spark, recipe, [output])
        columns = [literals.quoted_name(column.name) for column in recipe.columns]
        with told():
            some = view_of(session, output).select(*columns).limit(rows).collect()
        return [tuple(row) for row in some], output.format in LOSSLESS_FORMATS
    if not recipe.columns:
        return [], False
    code = runnable(spark, recipe, key)
    session = trace_session(spark, recipe)
    register(session, code.recipe)
    with code.explained():
        try:
            return _computed(session, Builder(code.recipe), rows), False
        except TiedError:
            return _computed(session, Builder(code.recipe, tied=True), rows), False


def _computed(session: SparkSession, builder: Builder, rows: int) -> Sequence[Sequence[Any]]:
    """Rows of the output as the trace itself looks for them."""
    built = builder.build(len(builder.recipe.plan) - 1, ids=False, top=True)
    names = ", ".join(f"c{one.id} AS v{n}" for n, one in enumerate(builder.recipe.columns))
    with told():
        check(session, builder)
        select = f"SELECT {names} FROM {built.name} AS r LIMIT {rows}"
        return [tuple(row) for row in session.sql(builder.statement(select)).collect()]
