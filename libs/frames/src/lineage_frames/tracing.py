"""Tracing output rows back to the rows of sources, query by query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from lineage_core.recipe import Recipe
from lineage_core.recipe_plan import Scan
from lineage_frames import literals
from lineage_frames.building import Builder
from lineage_frames.built import Built, Leaf
from lineage_frames.errors import RefusedError, RowError
from lineage_frames.keys import distinct
from lineage_frames.session import run, trace_session
from lineage_frames.stages import Stage, stage_of
from lineage_frames.witnesses import Collected, Witnesses


def trace_back(
    spark: SparkSession,
    recipe: Recipe,
    rows: Sequence[Sequence[Any]] | None = None,
    where: str | None = None,
) -> Witnesses:
    """The rows of sources that output rows were made from.

    Args:
        spark: any session; the trace runs in a new one beside it.
        recipe: noted when the job ran.
        rows: output rows, each with the values of the recipe's columns in order, as Spark gives them.
        where: instead of rows, a condition in SQL over the output's columns by name. Neither: all rows.

    Raises:
        RefusedError: the plan does not allow a sound trace.
        RowError: no output row, computed anew, has these values.
    """
    session = trace_session(spark, recipe)
    tracer = _Tracer(session, recipe, Collected(), [])
    matched = tracer.output(rows, where)
    return Witnesses(tracer.found.rows(), matched, tuple(dict.fromkeys(tracer.reasons)))


@dataclass
class _Tracer:
    session: SparkSession
    recipe: Recipe
    found: Collected
    reasons: list[str]
    subqueries: set[int] = field(default_factory=set)

    def output(self, rows: Sequence[Sequence[Any]] | None, where: str | None) -> int:
        """Trace output rows; how many rows match."""
        builder = Builder(self.recipe)
        built = builder.build(len(self.recipe.plan) - 1, ids=True, top=True)
        condition, every = "true", where is None and rows is None
        if rows is not None:
            condition = literals.any_of([self._has_values(built, row) for row in rows])
        select = f"SELECT {', '.join(built.ids) or 'true AS nothing'} FROM {built.name} AS r WHERE {condition}"
        if where is not None:
            named = ", ".join(
                f"c{one.id} AS `{one.name.replace('`', '``')}`" for one in self.recipe.columns
            )
            inner = f"SELECT {', '.join([named, *built.ids])} FROM {built.name}"
            select = f"SELECT {', '.join(built.ids)} FROM ({inner}) AS r WHERE ({where})"
        table = run(self.session, builder, select)
        if rows is not None:
            if not table.num_rows:
                raise RowError("no row of the output, computed anew, has these values")
            if table.num_rows > len(rows):
                self.reasons.append(f"{table.num_rows} output rows have these values")
        else:
            self.reasons += builder.reasons
            if not every and built.unknown:
                raise RefusedError("the output holds columns that can't be computed anew")
        self.follow(built, table)
        return int(table.num_rows)

    def _has_values(self, built: Built, row: Sequence[Any]) -> str:
        if len(row) != len(self.recipe.columns):
            raise RowError(f"the output has {len(self.recipe.columns)} columns, not {len(row)}")
        terms = [
            literals.same(f"c{column.id}", value, column.type)
            for column, value in zip(self.recipe.columns, row, strict=True)
            if column.id not in built.unknown and literals.comparable(column.type)
        ]
        return literals.all_of(terms)

    def follow(self, built: Built, table: pa.Table) -> None:
        """Collect the rows of sources that ``table`` names, and trace the groups that it names."""
        for leaf in built.leaves:
            there = table.filter(pc.is_valid(table[leaf.columns[-1 if self._stored(leaf) else 0]]))
            if not there.num_rows:
                continue
            if self._stored(leaf):
                self._collect(leaf, there)
            else:
                self._stage(leaf, there)

    def _stored(self, leaf: Leaf) -> bool:
        return not leaf.subquery and leaf.columns[0].startswith("p")

    def _collect(self, leaf: Leaf, table: pa.Table) -> None:
        node = self.recipe.plan[leaf.of]
        source = node.source if isinstance(node, Scan) else None
        files = table[leaf.columns[0]].combine_chunks().dictionary_encode()
        ordinals = table[leaf.columns[1]].to_numpy().astype(np.uint64)
        places = files.indices.to_numpy()
        for place, path in enumerate(files.dictionary.to_pylist()):
            name = f"plan:{leaf.of}" if source is None else str(path)
            self.found.add(source, name, np.unique(ordinals[places == place]))

    def _stage(self, leaf: Leaf, table: pa.Table) -> None:
        """Trace the groups of one node by the next query."""
        if leaf.subquery:
            if leaf.of in self.subqueries:
                return
            self.subqueries.add(leaf.of)
        keys = distinct(table.select(list(leaf.columns[1:])))
        builder = Builder(self.recipe)
        stage: Stage = stage_of(self.session, builder, leaf, keys)
        self.reasons += stage.reasons
        found = run(self.session, builder, stage.select)
        self.reasons += [*builder.reasons, *stage.keys_found(found)]
        self.follow(stage.built, found)
