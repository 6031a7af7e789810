"""Rows of files that a job wrote or read: what stands at a place, and at which places given rows stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe import HIVE_TEXT, File, Recipe, Source
from lineage_frames import literals
from lineage_frames.changed import check_unchanged
from lineage_frames.errors import RefusedError, RowError
from lineage_frames.hive_text import check_fields, parted
from lineage_frames.locations import has_lines, ordinal_of
from lineage_frames.pyspark_parts import frame_of, schema_of
from lineage_frames.session import session_of
from lineage_frames.sources import FILE, ROW, view_of
from lineage_frames.values import Named, Values, chosen, condition
from lineage_store.paths import canonical
from lineage_store.places import Location


def output_of(spark: SparkSession, recipe: Recipe) -> Source:
    """The files that the job wrote, as a source of rows.

    Raises:
        RowError: it wrote none.
    """
    output = recipe.output
    if not output.files or output.format is None:
        raise RowError("the job kept no file of these rows: say by a condition which are meant")
    columns = ", ".join(f"{literals.quoted(one.name)} {one.type}" for one in recipe.columns)
    path, schema, partitions = output.path, schema_of(spark, columns), ""
    if output.format == HIVE_TEXT and path is not None:
        schema, folders = parted(schema, path, output.files[0].path)
        partitions = folders.json() if folders.fields else ""
    return Source(
        format=output.format,
        paths=() if path is None else (path,),
        schema=schema.json(),
        partitions=partitions,
        # Columns that are names of folders are looked for below the output.
        options={**output.options, **({} if path is None else {"basePath": path})},
        files=output.files,
        version=output.version,
    )


def file_in(files: Iterable[File], place: Location) -> File:
    """The file that a place is in.

    Raises:
        RowError: it is none of these.
    """
    wanted = canonical(place.path)
    for file in files:
        if canonical(file.path) == wanted:
            return file
    raise RowError(f"{place.path} is no file of this output")


def source_with(recipe: Recipe, place: Location) -> tuple[Source, File]:
    """The source, and its file, that a place is in.

    Raises:
        RowError: no source has such a file.
    """
    for source in recipe.sources:
        try:
            return source, file_in(source.files, place)
        except RowError:
            continue
    raise RowError(f"{place.path} was not read")


def place_in(spark: SparkSession, source: Source, file: File, number: int, *, line: bool) -> int:
    """The ordinal of a row, from 0: of a line (from 1) where the file has lines, else the number itself.

    Raises:
        RowError: no row stands there, or rows of such a file are named otherwise.
    """
    if line != has_lines(source):
        form = "PATH:LINE" if has_lines(source) else "PATH#ROW, rows counted from 0"
        raise RowError(f"rows of {file.path} are named {form}")
    return ordinal_of(spark, source, file.path, number) if line else number


def values_at(
    spark: SparkSession, recipe: Recipe, source: Source, file: File, ordinal: int
) -> tuple[Any, ...]:
    """The values of a row of an output.

    Raises:
        RowError: the file has no such row.
        ChangedSourceError: the file is not what the job wrote.
    """
    session = session_of(spark, recipe, [source])
    check_fields(source, [column.name for column in recipe.columns])
    one = replace(source, files=(file,))
    check_unchanged(session, one)
    # Columns that are names of folders come last in the view, those that an insertion gave by name beside them.
    columns = [literals.quoted(column.name) for column in recipe.columns]
    rows = view_of(session, one).where(F.col(ROW) == ordinal).select(*columns).collect()
    if not rows:
        raise RowError(f"{file.path} has no row {ordinal}")
    return tuple(rows[0])


def texts_at(
    spark: SparkSession, recipe: Recipe, source: Source, path: str, ordinals: NDArray[np.uint64]
) -> list[str]:
    """Rows of a file as JSON text, in order of their ordinals."""
    rows = rows_at(spark, recipe, source, {path: ordinals})
    columns = [literals.quoted(name) for name in rows.columns if name not in {FILE, ROW}]
    found = rows.select(ROW, F.to_json(F.struct(*columns)).alias("text")).collect()
    texts = {row[ROW]: row.text for row in found}
    return [texts[one] for one in ordinals.tolist()]


def rows_at(
    spark: SparkSession, recipe: Recipe, source: Source, wanted: Mapping[str, NDArray[np.uint64]]
) -> DataFrame:
    """Rows of a source as a frame with `FILE` and `ROW`. ``wanted``: their ordinals, by file."""
    session = session_of(spark, recipe, [source])
    files = tuple(file for file in source.files if file.path in wanted)
    keys = pa.table(
        {
            "wanted_file": [path for path, rows in wanted.items() for _ in rows],
            "wanted_row": pa.array(np.concatenate(list(wanted.values())).astype(np.int64)),
        }
    )
    held = F.broadcast(frame_of(session, keys))
    same = (F.col(FILE) == F.col("wanted_file")) & (F.col(ROW) == F.col("wanted_row"))
    return view_of(session, replace(source, files=files)).join(held, same, "leftsemi")


def places_of(
    spark: SparkSession, recipe: Recipe, source: Source, rows: Sequence[Sequence[Any]]
) -> list[tuple[str, int]]:
    """Files and ordinals of an output's rows that have given values: at least as many as ``rows``.

    Raises:
        ChangedSourceError: the files are not what the job wrote.
        RefusedError: there are too many rows, or values can't be compared.
        RowError: the files hold a row otherwise than Spark gave it (CSV trims texts, say).
    """
    session = session_of(spark, recipe, [source])
    check_unchanged(session, source)
    compared = [
        (place, one) for place, one in enumerate(recipe.columns) if literals.comparable(one.type)
    ]
    if not compared:
        raise RefusedError("values of these columns can't be compared")
    conditions = Counter(
        literals.all_of(
            [
                literals.same(literals.quoted(one.name), row[place], one.type)
                for place, one in compared
            ]
        )
        for row in rows
    )
    if len(conditions) > LOOKED_UP_MAX:
        raise RefusedError(f"{len(conditions):,} different rows are too many to be looked up")
    view_of(session, source).createOrReplaceTempView(OUTPUT)
    whens = " ".join(f"WHEN {one} THEN {n}" for n, one in enumerate(conditions))
    which = f"SELECT {FILE}, {ROW}, CASE {whens} END AS which FROM {OUTPUT}"
    found = session.sql(f"SELECT * FROM ({which}) AS r WHERE which IS NOT NULL").collect()
    there = Counter(row.which for row in found)
    if any(there[n] < many for n, many in enumerate(conditions.values())):
        raise RowError("the files hold them otherwise than Spark gave them")
    return sorted((row[FILE], row[ROW]) for row in found)


def rows_with(
    spark: SparkSession, recipe: Recipe, source: Source, values: Values
) -> dict[str, NDArray[np.uint64]]:
    """The rows of a source that have given values: by file, their ordinals, ascending.

    Raises:
        ChangedSourceError: the files are not what the job read.
        RowError: there is no such row, or a value is none of its column.
        RefusedError: there are too many rows, or values can't be compared.
    """
    session = session_of(spark, recipe, [source])
    check_unchanged(session, source)
    view = view_of(session, source)
    columns = [
        Named(one.name, literals.quoted(one.name), one.dataType.simpleString())
        for one in view.schema
        if one.name not in {FILE, ROW}
    ]
    found = view.where(condition(session, chosen(columns, values))).select(FILE, ROW)
    rows = found.limit(ROWS_MAX + 1).collect()
    if not rows:
        raise RowError("no row of the source has these values")
    if len(rows) > ROWS_MAX:
        raise RefusedError(f"more than {ROWS_MAX:,} rows have these values: give more of them")
    by_file: dict[str, list[int]] = {}
    for path, ordinal in rows:
        by_file.setdefault(path, []).append(ordinal)
    return {path: np.array(sorted(by_file[path]), np.uint64) for path in sorted(by_file)}


ROWS_MAX = 1_000
"""Rows of a source that are traced forward at once."""

LOOKED_UP_MAX = 200
"""Different rows that are looked up in an output by one query."""

OUTPUT = "lineage_output"
