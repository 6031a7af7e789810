"""Outputs whose rows say by their own values which group each was made from."""

from __future__ import annotations

from dataclasses import dataclass

from lineage_core.recipe import Recipe
from lineage_core.recipe_plan import (
    Aggregate,
    Column,
    Filter,
    Limit,
    Project,
    Sort,
    expressions_of,
)
from lineage_frames.built import Leaf
from lineage_frames.expressions import subqueries_in

KEEP_VALUES = {"parquet", "orc"}
"""Formats whose files give back the very values that were written."""


@dataclass(frozen=True)
class Grouping:
    """``leaf``: names a group by its key. ``places``: of the output's columns that hold the key."""

    leaf: Leaf
    places: tuple[int, ...]


def grouping_of(recipe: Recipe) -> Grouping | None:
    """How an output's rows name the groups of the last aggregate, so that none need be computed anew.

    None unless the aggregate's keys are columns of the output, with nothing between them but rows that are
    chosen, ordered and renamed. Then no two output rows are of one group.
    """
    held = {one.id: place for place, one in enumerate(recipe.columns)}
    place = len(recipe.plan) - 1
    while True:
        node = recipe.plan[place]
        if any(subqueries_in(one) for one in expressions_of(node)):
            return None
        match node:
            case Sort() | Limit() | Filter():
                place = node.input
            case Project():
                held = {
                    below.id: held[column.id]
                    for column, below in zip(node.columns, node.expressions, strict=True)
                    if isinstance(below, Column) and column.id in held
                }
                place = node.input
            case Aggregate():
                return _of_keys(place, node, held)
            case _:
                return None


def _of_keys(place: int, node: Aggregate, held: dict[int, int]) -> Grouping | None:
    places: list[int] = []
    for key in node.keys:
        found = [
            held[column.id]
            for column, one in zip(node.columns, node.expressions, strict=True)
            if one == key and column.id in held
        ]
        if not found:
            return None
        places.append(found[0])
    names = (f"b{place}", *(f"b{place}_{n}" for n in range(len(places))))
    return Grouping(Leaf(place, names), tuple(places))
