"""The outputs of a job that set rows aside, as Python functions failed on them, with these rows repaired.

Each output's recipe is computed anew over all rows of its sources, but for those that set-aside rows were made from: a function gives others in their place. Nothing is
set aside then, and a row that still fails ends it. What comes out is what the program gives over sources with these rows repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from lineage_core.recipe.document import Recipe, Source
from lineage_core.recipe.names import KAFKA
from lineage_core.recipe.plan import Call, Expression, Filter, Limit, Literal, Sample, Scan
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.rewrite.functions import register, runnable
from lineage_dataframes.sources.file_changes import check_local
from lineage_dataframes.sources.jdbc import live_sources
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, replace_views, view_name
from lineage_dataframes.spark.pyspark_parts import from_arrow, is_connected, to_arrow
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.chosen_rows import matching_rows, write_rows
from lineage_dataframes.trace.session import trace_session, translate_spark_errors

Repair = Callable[[dict[str, Any]], "dict[str, Any] | None"]
"""Gives the row to be read in the place of one, by columns; None: none."""
ROWS_MAX = 100_000
"""Rows of sources that are repaired."""
TRUE = Literal("true", "boolean")


@dataclass(frozen=True)
class SetAsideSources:
    """The rows of sources that all set-aside rows of a job were made from.

    ``recipes``: of the set-aside rows. ``reasons``: why the rows may be more than functions failed on.
    """

    recipes: tuple[Recipe, ...]
    rows: tuple[tuple[Source, Mapping[str, NDArray[np.uint64]]], ...]
    reasons: tuple[str, ...]

    def of(self, source: Source) -> Mapping[str, NDArray[np.uint64]]:
        """Those that a source reads, by file.

        Raises:
            RefusedError: it reads such a file otherwise, so that its rows may be other ones.
        """
        files = {file.path for file in source.files}
        rows: dict[str, NDArray[np.uint64]] = {}
        for other, by_file in self.rows:
            for path, ordinals in by_file.items():
                if path not in files:
                    continue
                if (other.format, other.options) != (source.format, source.options):
                    raise RefusedError(f"{path} is read in several ways: its rows are not repaired")
                rows[path] = np.union1d(rows.get(path, ordinals), ordinals)
        return rows

    def reaches(self, recipe: Recipe) -> bool:
        """Whether a plan reads a file with one of them."""
        paths = {path for _, by_file in self.rows for path in by_file}
        return any(file.path in paths for source in recipe.sources for file in source.files)


def set_aside_sources(
    spark: SparkSession, recipes: Sequence[Recipe], key: str | None = None
) -> SetAsideSources:
    """The rows of sources that set-aside rows were made from.

    Args:
        spark: any session of a Spark of this machine.
        recipes: of all set-aside rows of a job.
        key: of the recipes' Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Raises:
        RefusedError: they can't be found, or are of no file.
        ChangedSourceError: a source is not what it was.
        FunctionsKeyError: the key can't be used.
    """
    rows: list[tuple[Source, Mapping[str, NDArray[np.uint64]]]] = []
    reasons: list[str] = []
    for recipe in recipes:
        _check(spark, recipe)
        witnesses = trace_backward(spark, recipe, key=key)
        reasons += witnesses.reasons
        for (source, path), ordinals in witnesses.rows.items():
            if source is None:
                raise RefusedError(
                    "a set-aside row was made from one that stands in the program: change it there"
                )
            rows.append((recipe.sources[source], {path: ordinals}))
    if sum(len(ordinals) for _, by_file in rows for ordinals in by_file.values()) > ROWS_MAX:
        raise RefusedError(f"more than {ROWS_MAX:,} rows of sources would have to be repaired")
    return SetAsideSources(tuple(recipes), tuple(rows), tuple(dict.fromkeys(reasons)))


def write_repaired(
    spark: SparkSession,
    recipe: Recipe,
    set_aside: SetAsideSources,
    repair: Repair,
    folder: Path,
    key: str | None = None,
) -> int:
    """Write the rows of an output where rows of its sources are repaired.

    Args:
        spark: any session of a Spark of this machine.
        recipe: of the output.
        set_aside: what its job set aside.
        repair: gives the row of a source to be read in the place of one that a set-aside row was made from.
        folder: a new one, which Spark makes.
        key: of the recipe's Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Returns:
        How many rows of its sources were repaired.

    Raises:
        RefusedError: the plan can't be computed anew, what it gives depends on more than its rows, or a function's code can't be run.
        ChangedSourceError: a source is not what it was.
        FunctionsKeyError: the key can't be used.
    """
    _check(spark, recipe)
    whole = runnable(spark, recipe, key)
    code = replace(whole, recipe=without_set_aside(whole.recipe, set_aside.recipes))
    session = trace_session(spark, recipe)
    register(session, code.recipe)
    builder = Builder(code.recipe)
    with code.explained():
        built = builder.build(len(code.recipe.plan) - 1, ids=False)
        unknown = [c.name for c in code.recipe.columns if c.id in built.unknown]
        if unknown:
            raise RefusedError(f"values of {', '.join(unknown)} can't be computed anew")
    if builder.checks:
        raise RefusedError(f"two runs of it may differ: {builder.checks[0][1]}")
    scanned = sorted({n.source for n in recipe.plan if isinstance(n, Scan)})
    count = 0
    for n in scanned:
        rows = set_aside.of(recipe.sources[n])
        if not rows:
            continue
        complete = session.table(view_name(n))
        with translate_spark_errors():
            taken = to_arrow(matching_rows(session, complete, rows, "leftsemi"))
        count += taken.num_rows
        others = matching_rows(session, complete, rows, "leftanti")
        replace_views(n, others.unionByName(_repaired(session, taken, repair)))
    values = ", ".join(f"c{c.id} AS v{n}" for n, c in enumerate(code.recipe.columns))
    with translate_spark_errors():
        frame = session.sql(builder.statement(f"SELECT {values} FROM {built.name}"))
        write_rows(frame, recipe, folder)
    for n in scanned:
        check_local(recipe.sources[n])
    return count


def without_set_aside(recipe: Recipe, set_aside: Sequence[Recipe]) -> Recipe:
    """The recipe of the plan as the program made it, which leaves out no rows that functions fail on."""
    conditions = [_condition(one) for one in set_aside]
    plan = tuple(
        replace(node, condition=TRUE)
        if isinstance(node, Filter) and _leaves_out(node, conditions)
        else node
        for node in recipe.plan
    )
    return replace(recipe, plan=plan)


def _condition(set_aside: Recipe) -> Expression:
    """That a row is one of a set-aside recipe's, as the plan of the output has it."""
    left_out = set_aside.plan[-2]
    assert isinstance(left_out, Filter)
    return left_out.condition


def _leaves_out(node: Any, conditions: Sequence[Expression]) -> bool:
    if not (isinstance(node, Filter) and isinstance(node.condition, Call)):
        return False
    call = node.condition
    return call.fn == "not" and _is_any_of(call.args[0], conditions)


def _is_any_of(condition: Expression, conditions: Sequence[Expression]) -> bool:
    if condition in conditions:
        return True
    if not (isinstance(condition, Call) and condition.fn == "or"):
        return False
    return all(_is_any_of(part, conditions) for part in condition.args)


def _check(spark: SparkSession, recipe: Recipe) -> None:
    """See that what the plan gives is decided by rows that can be read again.

    Raises:
        RefusedError: it is not.
    """
    for source in live_sources(recipe):
        raise RefusedError(f"rows of {source.name} are as they are now, not as the job read them")
    if any(source.format == KAFKA for source in recipe.sources):
        raise RefusedError("records of topics are not repaired")
    if is_connected(spark):
        raise RefusedError("rows are repaired on a Spark of this machine, not by Spark Connect")
    if any(isinstance(node, Limit | Sample) for node in recipe.plan):
        raise RefusedError("which rows its limit or sample takes depends on their order")


def _repaired(session: SparkSession, rows: pa.Table, repair: Repair) -> DataFrame:
    """What the function gives in the place of rows; each keeps its place in its file."""
    placed = (FILE_COLUMN, ROW_COLUMN)
    repaired: list[dict[str, Any]] = []
    for row in rows.to_pylist():
        place = {name: row.pop(name) for name in placed}
        given = repair(dict(row))
        if given is None:
            continue
        if not isinstance(given, dict) or given.keys() != row.keys():
            raise RefusedError(
                f"the function gave {given!r:.200} for a row: a dictionary of {', '.join(row)} is read in its place, or None for none"
            )
        repaired.append(given | place)
    try:
        table = pa.Table.from_pylist(repaired, schema=rows.schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise RefusedError(f"the function gave a value of another type: {problem}") from problem
    return from_arrow(session, table)
