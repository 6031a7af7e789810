"""Parts of tables that micro-batches read: some of the files of a version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineage_core.recipe.document import Source
from lineage_emitter.dataframes.plan_text import compiled
from lineage_emitter.dataframes.stream_state import PLANS_CLASS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class TablePart:
    """Files of a version of a table. ``named``: what names the version in a plan (Spark's object): this very object, and no equal one."""

    named: Any
    source: Source


@dataclass(frozen=True, slots=True)
class TableRead:
    """What a batch read of a stream of a table.

    ``sources``: none: the batch read nothing. ``rows``: the plan that reads them as a batch (Spark's object); None: there are none, or a
    ``problem``. ``like``: one that reads the same columns, whatever their number of versions. ``parts``: what ``rows`` reads. ``problem``: why its
    rows can't be traced; empty: they can.
    """

    sources: tuple[Source, ...] = ()
    rows: Any | None = None
    like: Any | None = None
    parts: tuple[TablePart, ...] = ()
    problem: str = ""


def read_of(parts: Iterable[tuple[TablePart, DataFrame]]) -> TableRead:
    """What a batch read: parts, with frames over their whole versions."""
    known = list(parts)
    if not known:
        return TableRead()
    rows = known[0][1]
    for _, frame in known[1:]:
        rows = rows.union(frame)
    of_table = tuple(part for part, _ in known)
    sources = tuple(part.source for part in of_table)
    plan, like = (frame._jdf.queryExecution().analyzed() for frame in (rows, known[0][1]))
    return TableRead(sources, plan, like, of_table)


def part_of(parts: Iterable[TablePart], named: Any) -> Source | None:
    """The source of which a leaf of a plan reads the files, by what names the version there (Spark's object); None: of none."""
    plans = compiled(PLANS_CLASS)
    return next((part.source for part in parts if plans.isSame(part.named, named)), None)


def same_columns(schema: str, others: str) -> bool:
    """Whether two schemas, as Spark's JSON, have the same columns, whatever else is said of them."""
    return _columns(schema) == _columns(others)


def _columns(schema: str) -> list[tuple[str, Any]]:
    return [(field["name"], field["type"]) for field in json.loads(schema)["fields"]]
