"""A frame's plan as a recipe.

The optimised plan is recorded: subqueries are joins there, views are unfolded, functions that stand for others
are replaced, and the current time is a constant. What only makes the run quicker is left out (runtime
filters, limits ahead of a shuffle, hints, the number of partitions): it changes no result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lineage_core.recipe.document import Output, Recipe, StreamBatch
from lineage_core.recipe.functions import sign_recipe
from lineage_core.recipe.plan import Attribute, OpaqueNode, Scan
from lineage_emitter.dataframes import catalog, delta, iceberg, rdd_rows
from lineage_emitter.dataframes.code import Functions
from lineage_emitter.dataframes.current_time import OWN_PLAN, current_time_columns, without
from lineage_emitter.dataframes.jvm import (
    default_setting,
    explicit_settings,
    optimised_plainly,
    optimised_plan,
    reads_delta,
)
from lineage_emitter.dataframes.leaves import PlanLeaves, Tables
from lineage_emitter.dataframes.nodes import PlanNodes
from lineage_emitter.dataframes.partial_reads import read_partially
from lineage_emitter.dataframes.plan_text import Tree, read_plan
from lineage_emitter.dataframes.pruning import pruned
from lineage_emitter.dataframes.set_aside import SetAsideCalls
from lineage_emitter.dataframes.types import ddl

SETTINGS = (
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.session.timeZone",
    "spark.sql.timestampType",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.json.enableExactStringParsing",
    "spark.sql.json.enablePartialResults",
    "spark.sql.legacy.json.allowEmptyString.enabled",
    "spark.sql.legacy.sizeOfNull",
    "spark.sql.legacy.castComplexTypesToString.enabled",
    "spark.sql.legacy.statisticalAggregate",
    "spark.sql.legacy.literal.pickMinimumPrecision",
    "spark.sql.parquet.binaryAsString",
    "spark.sql.parquet.int96AsTimestamp",
    "spark.sql.columnNameOfCorruptRecord",
    "spark.sql.sources.partitionColumnTypeInference.enabled",
)
"""Settings that change what a plan or a file means."""

PYTHON_SETTINGS = (
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.execution.arrow.useLargeVarTypes",
    "spark.sql.execution.pandas.convertToArrowArraySafely",
    "spark.sql.execution.pandas.structHandlingMode",
    "spark.sql.execution.pyspark.binaryAsBytes",
    "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled",
    "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype",
    "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName",
    "spark.sql.legacy.execution.pythonUDF.pandas.conversion.enabled",
)
"""Settings that change what Python functions are given, or what becomes of their values."""


READ_OTHERWISE = {
    "spark.sql.files.archive.reader.enabled": "false",
    "spark.sql.files.ignoredPathSegmentRegex": "^[._]",
}
"""Settings by which Spark reads other files than a trace does, or other rows of them, with the one value that traces have."""


def recipe_of(
    frame: DataFrame,
    output: Output | None = None,
    site: str = "",
    settings: Mapping[str, str] | None = None,
    tables: Tables | None = None,
    batch: StreamBatch | None = None,
    calls: SetAsideCalls | None = None,
) -> Recipe:
    """The recipe of the rows that ``frame`` gives.

    It runs no Spark job, and may be called on another thread after the action: a plan never changes.
    The session's settings may, so ``settings`` are those that were set before it (None: those of now), and ``tables`` says what
    was asked of tables (None: as they are now). ``batch``: the micro-batch that gave the rows, where it is of a streaming query.
    ``calls``: calls of Python functions that failed, of a plan that has run; it gets the recipes of the rows that these left out.

    Raises:
        ValueError: the current time decides on rows, or a setting on what is read.
    """
    spark = frame.sparkSession
    explicit = explicit_settings(spark) if settings is None else settings
    for name, value in READ_OTHERWISE.items():
        if explicit.get(name, value) != value:
            raise ValueError(f"files are read otherwise by {name}")
    of_delta = delta.is_used(explicit) and reads_delta(frame)
    if tables is None:
        read = iceberg.read_now(frame) if iceberg.is_used(explicit) else None
        versions = delta.latest(frame) if of_delta else {}
        tables = Tables(versions, catalog.listed(frame), read)
    anew = of_delta or tables.read is not None
    action = "collect" if output is None else output.action.rpartition(".")[2]
    own_plan = action in OWN_PLAN and not anew
    unknown = frozenset[int]() if own_plan else current_time_columns(frame)
    if tables.read is not None:
        plan = iceberg.optimised_table_plan(spark, tables.read.plan)
    else:
        plan = optimised_plainly(frame) if anew else optimised_plan(frame)
    return _recipe_of_plan(
        spark, plan, output or Output(), site, explicit, tables, unknown, _Run(batch, calls)
    )


def recipe_of_operator(
    spark: SparkSession,
    plan: Any,
    output: Output,
    site: str,
    settings: Mapping[str, str] | None,
    tables: Tables,
    calls: SetAsideCalls,
) -> Recipe:
    """The recipe of the rows that an operator of a plan gave: ``plan`` is the part of the plan that ran, from the operator down (Spark's object).

    Other arguments are those of the action's :func:`recipe_of`.
    """
    explicit = explicit_settings(spark) if settings is None else settings
    run = _Run(None, calls, lists_set_aside=False)
    return _recipe_of_plan(spark, plan, output, site, explicit, tables, frozenset(), run)


@dataclass(frozen=True)
class _Run:
    """How a plan ran: as which micro-batch, and on what its Python functions failed; None: it is none, or that is not known.

    ``lists_set_aside``: whether ``calls`` get the recipes of rows that were set aside: once an action.
    """

    batch: StreamBatch | None
    calls: SetAsideCalls | None
    lists_set_aside: bool = True


def _recipe_of_plan(
    spark: SparkSession,
    plan: Any,
    output: Output,
    site: str,
    explicit: Mapping[str, str],
    tables: Tables,
    unknown: frozenset[int],
    run: _Run,
) -> Recipe:
    """The recipe of the rows of an optimised plan (Spark's object), of which some columns are not known."""
    types: dict[int, str] = {}
    columns = json.loads(plan.schema().json())["fields"]
    functions = Functions.for_active_capture()
    nodes = PlanNodes(types, functions, run.calls)

    def beneath(inner: Any) -> tuple[int, tuple[Attribute, ...]]:
        tree, inner_types = read_plan(inner)
        types.update((number, ddl(kind)) for number, kind in inner_types.items())
        node_number = nodes.add_tree(tree)
        return node_number, nodes.plan[node_number].columns

    def named(tree: Tree, *fields: str) -> tuple[Attribute, ...]:
        listed = [attribute for field in fields or ("output",) for attribute in tree.trees(field)]
        return tuple(nodes.attribute(attribute) for attribute in listed)

    leaves = PlanLeaves(
        spark, nodes.add, named, beneath, tables, run.batch, with_delta=delta.is_used(explicit)
    )
    nodes.leaf = leaves.add_leaf
    beneath(plan)
    for node_number, node in enumerate(nodes.plan):
        of_rdd = isinstance(node, Scan) and leaves.sources[node.source] in leaves.of_rdds
        if of_rdd and read_partially(nodes.plan, node_number, output):
            nodes.plan[node_number] = OpaqueNode(node.columns, "RDD", rdd_rows.NOT_READ, ())
    last = nodes.plan[-1]
    typed = tuple(
        Attribute(attribute.id, attribute.name, ddl(field["type"]))
        for attribute, field in zip(last.columns, columns, strict=True)
    )
    nodes.plan[-1] = replace(last, columns=typed)
    if unknown:
        nodes.add(without(nodes.plan[-1].columns, unknown, len(nodes.plan) - 1))
    names = (*SETTINGS, *(PYTHON_SETTINGS if functions.collected else ()))
    recipe = Recipe(
        spark=spark.version,
        settings=_settings(spark, explicit, names),
        sources=tuple(leaves.sources),
        plan=tuple(pruned(nodes.plan)),
        output=output,
        site=site,
        functions=tuple(functions.collected),
    )
    if leaves.batch is not None:
        recipe = recipe.of_batch(leaves.batch)
    if output.failure is not None:
        recipe = recipe.of_failure()
        if run.calls is not None:
            run.calls.unguarded = dict(functions.unguarded)
    key = functions.key if functions.collected else None
    if run.calls is not None and run.lists_set_aside and output.failure is None:
        for rows in nodes.set_aside:
            run.calls.add_recipe(
                rows.number, rows.name, _signed(rows.recipe(recipe, nodes.plan), key)
            )
    return _signed(recipe, key)


def _signed(recipe: Recipe, key: bytes | None) -> Recipe:
    return recipe if key is None else sign_recipe(recipe, key)


def _settings(
    spark: SparkSession, explicit: Mapping[str, str], names: Iterable[str]
) -> dict[str, str]:
    """The settings' values, the defaults of this Spark where none is set."""
    values = {name: explicit.get(name) or _default(spark, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


_defaults: dict[str, str | None] = {}


def _default(spark: SparkSession, name: str) -> str | None:
    if name not in _defaults:
        _defaults[name] = default_setting(spark, name)
    return _defaults[name]
