"""What an output row would be without each of the rows that it was made from, those first that change it most: as commands, servers and the page show it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from lineage_dataframes.sources.row_texts import json_of_row, text_of_row
from lineage_dataframes.trace.combined_groups import Witness
from lineage_dataframes.trace.influence import Influence, Influences
from lineage_dataframes.trace.replay import Replayer
from lineage_dataframes.trace.requested_recipes import RequestedRecipe
from lineage_dataframes.trace.source_rows import places_and_texts
from lineage_query.suspects.ranking import ranked


@dataclass(frozen=True, slots=True)
class RankedInfluence:
    """The influence of a row of a source, by its ``place`` and ``text``; ``tied`` rows share the rank."""

    influence: Influence
    rank: int
    tied: int
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class InfluenceAnswer:
    """The influence of rows on one row of a DataFrame, the first of them listed."""

    app: str
    node: str
    found: Influences
    rows: tuple[RankedInfluence, ...]
    warnings: tuple[str, ...]

    @property
    def before_text(self) -> str:
        """The row as it is, as JSON."""
        return text_of_row(self.found.columns, self.found.before)

    def after_text(self, influence: Influence) -> str | None:
        """The row as it would be, as JSON; None: it would not be there."""
        values = influence.values
        return None if values is None else text_of_row(self.found.columns, values)

    def changed(self, influence: Influence) -> dict[str, Any]:
        """The columns that would have other values, and these; empty also where the row would not be there."""
        found, values = self.found, influence.values
        if values is None:
            return {}
        columns = zip(found.columns, found.before, values, strict=True)
        return {
            name: after
            for name, before, after in columns
            if before is not after and before != after
        }

    def unsure(self, influence: Influence) -> tuple[str, ...]:
        """Those among them whose values Spark may round otherwise."""
        sure = dict(zip(self.found.columns, influence.sure, strict=True))
        return tuple(name for name in self.changed(influence) if not sure[name])

    def to_json(self) -> dict[str, Any]:
        """The shape that tools rely on; keys are only ever added."""
        found = self.found
        row = partial(json_of_row, found.columns)
        return {
            "app": self.app,
            "node": self.node,
            "columns": list(found.columns),
            "before": row(found.before),
            "rows": [
                {
                    "location": each.place,
                    "text": each.text,
                    "after": row(each.influence.values),
                    "sure": dict(zip(found.columns, each.influence.sure, strict=True)),
                    "rank": each.rank,
                    "tied": each.tied,
                }
                for each in self.rows
            ],
            "witnesses": found.witnesses,
            "computed": len(found.rows),
            "how": found.how,
            "why": found.why or None,
            "uncertain": list(found.uncertain),
            "warnings": list(self.warnings),
        }


def answer_influence(
    spark: SparkSession,
    requested: RequestedRecipe,
    limit: int,
    compute: Callable[[Replayer], Influences],
    *,
    key: str | None = None,
) -> InfluenceAnswer:
    """Compute the influence of the rows that one row was made from.

    Args:
        spark: any session of a Spark of this machine.
        requested: the row.
        limit: rows that are listed.
        compute: `lineage_dataframes.trace.influence.influences`, or its closed form alone.
        key: of the recipe's Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Raises:
        LineageError: as `Replayer` and ``compute``.
    """
    replayer = Replayer(spark, requested.recipe, requested.output(spark), key)
    found = compute(replayer)
    listed = _ranked(found)[:limit]
    rows = _rows_of(replayer, {each.witness for each, _, _ in listed})
    shown = places_and_texts(spark, requested.recipe, rows)
    return InfluenceAnswer(
        requested.app,
        requested.node,
        found,
        tuple(
            RankedInfluence(each, rank, tied, *shown[each.witness]) for each, rank, tied in listed
        ),
        requested.warnings,
    )


def _rows_of(replayer: Replayer, witnesses: set[Witness]) -> dict[tuple[int, str], Any]:
    """Some witnesses by source and file; of a file that several sources read, by one of these."""
    rows: dict[tuple[int, str], Any] = {}
    files = set[str]()
    for source, path in sorted(replayer.witnesses):
        if path not in files:
            files.add(path)
            rows[source, path] = np.array(
                sorted(at for file, at in witnesses if file == path), np.uint64
            )
    return rows


def change(before: Any, after: Any) -> Fraction | float:
    """How far two values lie apart: numbers by their difference, others, and what is NULL or no number, without bound."""
    if before == after or repr(before) == repr(after):
        return Fraction(0)
    numbers = [
        one
        for one in (before, after)
        if isinstance(one, int | float | Decimal) and not isinstance(one, bool)
    ]
    if len(numbers) < 2 or not all(map(math.isfinite, numbers)):
        return math.inf
    return abs(Fraction(before) - Fraction(after))


def _key(found: Influences, each: Influence) -> tuple[bool, tuple[Fraction | float, ...]]:
    """What rows are ranked by: whether the row would be gone, then how far its values change, column by column."""
    if each.values is None:
        return (True, ())
    return (False, tuple(map(change, found.before, each.values)))


def _ranked(found: Influences) -> list[tuple[Influence, int, int]]:
    places = ranked({each: _key(found, each) for each in found.rows})
    rows = [(each, *places[each]) for each in found.rows]
    return sorted(rows, key=lambda row: (row[1], row[0].witness))
