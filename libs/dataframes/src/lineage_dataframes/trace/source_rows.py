"""Rows of a recipe's sources as people name them, in every reading of their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from lineage_core.recipe.document import Recipe, Source
from lineage_dataframes.errors import NoMatchError, NotReadError, RowError
from lineage_dataframes.sources.locations import row_locations
from lineage_dataframes.trace.rows import find_file, ordinal_in_file, rows_with_values, texts_at
from lineage_query.rows.places import Location, ValuedPlace, parse_location, parse_valued
from lineage_store.paths import canonical, plain_path


def source_rows_at(
    spark: SparkSession, recipe: Recipe, places: Sequence[str]
) -> Mapping[tuple[int, str], NDArray[np.uint64]]:
    """The rows at some places (``PATH:LINE``, ``PATH#ROW`` or ``SOURCE#COLUMN=VALUE``), by source and file.

    A plan may read a file as several sources: a row is one of each.

    Raises:
        NotReadError: the plan has not read what a place names.
        RowError: that has no such row.
        LocationError: a place names none.
        ChangedSourceError: a source is not what it was.
        RefusedError: there are too many rows, or values can't be compared.
    """
    rows: dict[tuple[int, str], NDArray[np.uint64]] = {}
    for place in places:
        valued = parse_valued(place)
        found = (
            _rows_at(spark, recipe, parse_location(place))
            if valued is None
            else _rows_with_values(spark, recipe, valued)
        )
        for key, ordinals in found.items():
            rows[key] = np.union1d(rows.get(key, ordinals), ordinals)
    return rows


def places_and_texts(
    spark: SparkSession, recipe: Recipe, rows: Mapping[tuple[int, str], NDArray[np.uint64]]
) -> dict[tuple[str, int], tuple[str, str]]:
    """The places and texts of rows of sources, by file and ordinal."""
    shown: dict[tuple[str, int], tuple[str, str]] = {}
    for (number, path), ordinals in rows.items():
        if not len(ordinals):
            continue
        source = recipe.sources[number]
        places = row_locations(spark, source, path, ordinals, plain_path(path))
        texts = texts_at(spark, recipe, source, path, ordinals)
        for n, place, text in zip(ordinals.tolist(), places, texts, strict=True):
            shown[path, n] = (place or f"{plain_path(path)}#{n}", text)
    return shown


def _rows_at(
    spark: SparkSession, recipe: Recipe, location: Location
) -> dict[tuple[int, str], NDArray[np.uint64]]:
    rows: dict[tuple[int, str], NDArray[np.uint64]] = {}
    problem = NotReadError(f"{location.path} was not read")
    if location.number is None:
        raise RowError(f"{location.path} names no row: give PATH:LINE or PATH#ROW")
    for number, source in enumerate(recipe.sources):
        try:
            file = find_file(source.files, location)
        except RowError:
            continue
        is_line = location.unit == "line"
        ordinal = ordinal_in_file(spark, source, file, location.number, line=is_line)
        if file.rows is not None and ordinal >= file.rows:
            raise RowError(f"{file.path} has no row {ordinal}")
        rows[number, file.path] = np.array([ordinal], np.uint64)
    if not rows:
        raise problem
    return rows


def _rows_with_values(
    spark: SparkSession, recipe: Recipe, valued: ValuedPlace
) -> dict[tuple[int, str], NDArray[np.uint64]]:
    rows: dict[tuple[int, str], NDArray[np.uint64]] = {}
    problem: RowError = NotReadError(f"{valued.of} was not read")
    for number, source in enumerate(recipe.sources):
        if not _is_called(source, valued.of):
            continue
        try:
            found = rows_with_values(spark, recipe, source, valued.values)
        except NoMatchError as no_match:
            problem = no_match
            continue
        rows |= {(number, path): ordinals for path, ordinals in found.items()}
    if not rows:
        raise problem
    return rows


def _is_called(source: Source, name: str) -> bool:
    own = source.name
    return own is not None and (own == name or canonical(own) == canonical(name))
