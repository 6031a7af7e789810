"""Is a trace right? The query, run again on the rows that a trace names, must give the row that was traced."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from lineage_core.recipe.document import Recipe, Source
from lineage_core.recipe.plan import Join, Node, Scan, input_nodes_of
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, plain_view_name, view_name
from lineage_dataframes.sources.witnesses import Witnesses
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.session import trace_session
from lineage_emitter.dataframes.plans import recipe_of

NEAR = 1e-9
"""Relative tolerance: sums of doubles depend on their order."""


def same_value(first: Any, second: Any) -> bool:
    """Whether two values of rows are equal; doubles up to `NEAR`."""
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=NEAR) or (
            math.isnan(first) and math.isnan(second)
        )
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(same_value, first, second))
    return bool(first == second)


def same_rows(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two results hold the same rows, in any order."""

    def order(row: Sequence[Any]) -> list[Any]:
        return [
            (value is None, f"{value:.6g}" if isinstance(value, float) else str(value))
            for value in row
        ]

    return len(first) == len(second) and all(
        map(same_value, sorted(map(tuple, first), key=order), sorted(map(tuple, second), key=order))
    )


def recipe_of_frame(frame: DataFrame) -> Recipe:
    """The frame's recipe as a reader elsewhere has it."""
    return Recipe.from_json(recipe_of(frame).to_json())


def rebuild(spark: SparkSession, recipe: Recipe) -> list[Any]:
    """The recipe's rows, computed from it alone."""
    return _run_recipe(trace_session(spark, recipe), recipe)


def _run_recipe(session: SparkSession, recipe: Recipe) -> list[Any]:
    builder = Builder(recipe)
    built = builder.rows(len(recipe.plan) - 1)
    columns = ", ".join(f"c{column.id}" for column in recipe.columns)
    return session.sql(builder.statement(f"SELECT {columns} FROM {built.name}")).collect()


def rebuild_separately(
    spark: SparkSession, recipe: Recipe, row: Sequence[Any], witnesses: Witnesses
) -> list[Any]:
    """The recipe's rows where each scan of the plan gives just the rows that the row was made from there.

    A query may read a table several times: a witness of one reading may be in the way in another (as that of a
    subquery, where rows are ranked). ``witnesses``: of the row; those of all readings together must be the same.
    """
    sources, plan = list[Source](), list[Node]()
    for node in recipe.plan:
        if not isinstance(node, Scan):
            plan.append(node)
            continue
        plan.append(replace(node, source=len(sources)))
        sources.append(recipe.sources[node.source])
    apart = replace(recipe, sources=tuple(sources), plan=tuple(plan))
    trace = trace_backward(spark, apart, [row], is_in_output=True)
    assert set(trace.locations()) == set(witnesses.locations())
    session = trace_session(spark, apart)
    for place in range(len(sources)):
        complete_view = session.table(view_name(place))
        conditions = [
            (path, ordinal)
            for (source, path), ordinals in trace.rows.items()
            if source == place
            for ordinal in ordinals.tolist()
        ]
        keys = session.createDataFrame(conditions, f"{FILE_COLUMN} string, {ROW_COLUMN} bigint")
        rows = complete_view.join(keys, [FILE_COLUMN, ROW_COLUMN], "leftsemi")
        for name in (view_name, plain_view_name):
            rows.createOrReplaceTempView(name(place))
    return _run_recipe(session, apart)


@dataclass(frozen=True)
class ParquetTables:
    """Tables as Parquet files; a view for each, of all rows or of some."""

    folder: Path
    names: tuple[str, ...]

    @classmethod
    def written(cls, folder: Path, tables: Mapping[str, pa.Table], files: int = 2) -> ParquetTables:
        """Write each table as that many files."""
        for name, table in tables.items():
            (folder / name).mkdir(parents=True)
            size = max(1, math.ceil(table.num_rows / files))
            for n in range(files):
                pq.write_table(table.slice(n * size, size), folder / name / f"part-{n}.parquet")
        return cls(folder, tuple(tables))

    def views(self, spark: SparkSession) -> None:
        for name in self.names:
            spark.read.parquet(str(self.folder / name)).createOrReplaceTempView(name)

    def only(
        self,
        spark: SparkSession,
        witnesses: Witnesses,
        folder: Path,
        complete_tables: Iterable[str] = (),
    ) -> None:
        """Views of the witnesses alone; of the tables called ``complete_tables`` all rows."""
        kept_parts: dict[str, list[pa.Table]] = {name: [] for name in self.names}
        for (_, uri), ordinals in witnesses.rows.items():
            if uri.startswith("plan:"):
                continue
            path = Path(unquote(urlsplit(uri).path))
            name = path.stem if path.parent == self.folder else path.parent.name
            kept_parts[name].append(pq.read_table(path).take(pa.array(ordinals.astype("int64"))))
        for name, parts in kept_parts.items():
            first_file = next(iter(sorted((self.folder / name).glob("*.parquet"))))
            table = pa.concat_tables([pq.read_schema(first_file).empty_table(), *parts])
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, folder / f"{name}.parquet")
            spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
        for name in complete_tables:
            spark.read.parquet(str(self.folder / name)).createOrReplaceTempView(name)

    def absent_in(self, recipe: Recipe) -> set[str]:
        """Tables whose rows count by their absence: those below the right sides of anti joins."""
        todo = [join.right for join in recipe.plan if isinstance(join, Join) and join.how == "anti"]
        tables: set[str] = set()
        while todo:
            node = recipe.plan[todo.pop()]
            todo.extend(input_nodes_of(node))
            if isinstance(node, Scan):
                tables.add(recipe.sources[node.source].paths[0].rpartition("/")[2])
        return tables


def check_rows(
    spark: SparkSession,
    tables: ParquetTables,
    query: str,
    folder: Path,
    rows: Iterable[int] | None = None,
) -> list[Witnesses]:
    """Trace output rows of a query (by place; None: all), each checked by running the query again."""
    tables.views(spark)
    frame = spark.sql(query)
    output = frame.collect()
    recipe = recipe_of_frame(frame)
    assert same_rows(output, rebuild(spark, recipe))
    traced = []
    for place in range(len(output)) if rows is None else rows:
        witnesses = trace_backward(spark, recipe, [output[place]])
        tables.only(spark, witnesses, folder / str(place))
        recomputed = spark.sql(query).collect()
        assert any(same_value(tuple(output[place]), tuple(row)) for row in recomputed), (
            output[place],
            recomputed,
        )
        traced.append(witnesses)
    return traced
