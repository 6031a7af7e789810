"""Rows of DataFrames' outputs that a person names, with the recipe that gave them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.names import KAFKA
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_dataframes.errors import RowError
from lineage_dataframes.trace.allowed import check_files_allowed
from lineage_dataframes.trace.overwritten import check_files_of_query
from lineage_dataframes.trace.replay import RequestedOutput
from lineage_dataframes.trace.rows import find_file, ordinal_in_file, output_of
from lineage_query.planning import plan_of
from lineage_query.recipe_rows import RecipePlace
from lineage_query.record_tracing import RecordTracer
from lineage_query.rows.places import Location, ValuedPlace, names_record
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RequestedRecipe:
    """A recipe, and which of its output's rows are requested: at locations, or by values, or by a condition."""

    app: str
    node: str
    recipe: Recipe
    locations: tuple[Location, ...] = ()
    valued: ValuedPlace | None = None
    where: str = ""
    warnings: tuple[str, ...] = ()

    def output(self, spark: SparkSession) -> RequestedOutput:
        """The requested rows, those at locations by file and ordinal.

        Raises:
            RowError: no row stands at a location.
        """
        if not self.locations:
            values = None if self.valued is None else self.valued.values
            return RequestedOutput(values=values, where=self.where)
        output, places = output_of(spark, self.recipe), []
        for location in self.locations:
            file = find_file(output.files, location)
            if location.number is None:
                raise RowError(f"{location.path} names no row")
            is_line = location.unit == "line"
            places.append(
                (file, ordinal_in_file(spark, output, file, location.number, line=is_line))
            )
        return RequestedOutput(places=tuple(places))


def requested_recipe(
    store: GraphStore, reader: RowReader, places: Sequence[str], app: str | None, where: str = ""
) -> RequestedRecipe:
    """What some places name.

    Args:
        store: has the recipes.
        reader: says which files may be read.
        places: of one output; with ``where``, its path, table or node.
        app: the application alone that is looked at; None: any.
        where: a condition in SQL over the output's columns.

    Raises:
        TraceError: these are no rows of one write of DataFrames.
        LineageError: there is no such output, or its files, or those of its sources, are not what they were.
    """
    base = TraceQuery(Direction.BACKWARD, tuple(places), app=app, where=where)
    found = [_recipe_place(store, reader, replace(base, places=(place,))) for place in places]
    (recipe_place, _, warnings), *others = found
    if others and (recipe_place.valued or where):
        raise TraceError("rows by values are requested of one output at a time: name one place")
    for other, _, _ in others:
        if (other.app, other.nodes, other.valued) != (recipe_place.app, recipe_place.nodes, None):
            raise TraceError(f"{recipe_place.place} and {other.place} are rows of several outputs")
    graph, node = store.graph(recipe_place.app), recipe_place.nodes[0]
    recipe = read_recipe(graph, node)
    if recipe is None:
        reason = next(record.reason for record in graph.nodes() if record.node == node)
        raise TraceError(f"node {node} of {recipe_place.app} has no recipe: {reason}")
    if (
        recipe.output.format == KAFKA
        and recipe_place.valued is not None
        and names_record(recipe_place.valued)
    ):
        raise TraceError(
            f"{recipe_place.place} is a record of a topic, which is traced alone: say by a condition (--where) which rows are meant"
        )
    reader = reader.of_application(recipe_place.app)
    for place, place_query, _ in found:
        check_files_of_query(store, reader, place_query, place)
    # Its text is looked at by each session that reads its rows: that takes Spark.
    check_files_allowed(recipe, reader)
    by_place = recipe_place.valued is None and not where
    return RequestedRecipe(
        app=recipe_place.app,
        node=node,
        recipe=recipe,
        locations=tuple(place.location for place, _, _ in found) if by_place else (),
        valued=recipe_place.valued,
        where=where,
        warnings=warnings,
    )


def _recipe_place(
    store: GraphStore, reader: RowReader, query: TraceQuery
) -> tuple[RecipePlace, TraceQuery, tuple[str, ...]]:
    """The rows that a query of one place names, the query, and what to know of the output."""
    plan = plan_of(store, reader, query)
    if len(plan.parts) != 1:
        raise TraceError(
            f"{len(plan.parts)} applications wrote {query.places[0]}: name one of them by --app"
        )
    part = plan.parts[0]
    place = part.recipe_place or RecordTracer(store, reader).look_up(part.query)
    if not isinstance(place, RecipePlace):
        raise TraceError(
            f"{query.places[0]} is a record of an RDD, not a row of a DataFrame; replay it by its program: --program 'job.py ...'"
        )
    if len(place.nodes) != 1:
        names = ", ".join(f"'{node}#...' --app {place.app}" for node in place.nodes)
        raise TraceError(f"{len(place.nodes)} writes made {place.place}: name one by {names}")
    kinds = {node.node: node.kind for node in store.graph(place.app).nodes()}
    if kinds[place.nodes[0]] == "frame-source":
        raise TraceError(f"{place.place} is a row of a source: name one of an output")
    warnings = (*plan.warnings, *plan.gaps, *(one.warning() for one in plan.not_queried))
    return place, part.query, warnings
