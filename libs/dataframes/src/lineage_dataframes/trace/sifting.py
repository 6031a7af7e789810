"""The smallest part of a row's witnesses from which the plan still makes a row that fails a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import File, Recipe, Source
from lineage_dataframes.sources.file_changes import check_unchanged
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, view_of
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import to_arrow
from lineage_dataframes.trace.held_rows import SourceRows, source_rows
from lineage_dataframes.trace.replay import Replayer, values_of_rows
from lineage_dataframes.trace.rows import output_of, parquet_rows
from lineage_dataframes.trace.session import session_with_settings, translate_spark_errors
from lineage_query.minimising import Minimised, minimise

RowTest = Callable[[Mapping[str, Any]], bool]
"""Whether a row, its values by column, fails."""

ROWS_A_BATCH = 100_000
"""Rows of an output that are read at once, to be tested."""

READ_HERE_BYTES = 64 << 20
"""Larger files of an output are read by Spark."""


@dataclass(frozen=True)
class Sifted:
    """A smallest set. ``rows``: the rows of sources; ``outcome``: the rows that the plan makes of them alone, of which one fails.

    ``witnesses``: how many rows there were to search.
    """

    rows: SourceRows
    outcome: tuple[Mapping[str, Any], ...]
    witnesses: int
    found: Minimised


def failing_rows(spark: SparkSession, recipe: Recipe, fails: RowTest) -> Iterator[tuple[File, int]]:
    """The rows of an output's files that fail a test, file by file.

    Raises:
        RowError: the job kept no file of its rows.
        RefusedError: Spark can't read them.
        ChangedSourceError: a file is not what the job wrote.
    """
    output = output_of(spark, recipe)
    check_unchanged(spark, output)
    names = [column.name for column in recipe.columns]
    for file in sorted(output.files, key=lambda file: file.path):
        for ordinal, row in _rows_of(spark, recipe, output, file):
            if fails(dict(zip(names, row, strict=True))):
                yield file, ordinal


def _rows_of(
    spark: SparkSession, recipe: Recipe, output: Source, file: File
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The ordinals and values of a file's rows, read without Spark where that surely gives the same."""
    first = 0
    # Each time the file is read from the beginning of a row group.
    while file.size <= READ_HERE_BYTES:
        rows = parquet_rows(recipe, output, file, first, ROWS_A_BATCH)
        if rows is None:
            break
        yield from enumerate(rows, first)
        first += len(rows)
        if len(rows) < ROWS_A_BATCH:
            return
    yield from _rows_by_spark(spark, recipe, replace(output, files=(file,)), first)


def _rows_by_spark(
    spark: SparkSession, recipe: Recipe, output: Source, first: int
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The same of an output's file from a row on."""
    session = session_with_settings(spark, recipe, [output])
    columns = [
        F.col(literals.quoted_name(column.name)).alias(f"v{n}")
        for n, column in enumerate(recipe.columns)
    ]
    view = view_of(session, output).select(FILE_COLUMN, ROW_COLUMN, *columns)
    with translate_spark_errors():
        last = view.agg(F.max(ROW_COLUMN)).collect()[0][0]
    for begin in range(first, -1 if last is None else last + 1, ROWS_A_BATCH):
        is_next = F.col(ROW_COLUMN).between(begin, begin + ROWS_A_BATCH - 1)
        with translate_spark_errors():
            table = to_arrow(view.where(is_next))
        table = table.sort_by(ROW_COLUMN)
        rows = values_of_rows(table.select([f"v{n}" for n in range(len(columns))]))
        yield from zip(table[ROW_COLUMN].to_numpy().tolist(), rows, strict=True)


def sift(replayer: Replayer, fails: RowTest, stop: Callable[[int], str] = lambda _: "") -> Sifted:
    """Search the witnesses of the requested rows for a smallest set from which one of these still fails.

    Args:
        replayer: of the rows.
        fails: must give the same verdict on the same row each time.
        stop: as in `lineage_query.minimising.minimise`.

    Raises:
        PassingTestError: made of their witnesses alone, none of the rows fails.
        UnsteadyTestError: the test, or the plan, does not give the same each time.
        RefusedError: the plan can't be computed over some rows.
        ChangedSourceError: a source was written meanwhile.
    """
    places: dict[tuple[str, int], list[int]] = {}
    for (source, path), ordinals in sorted(replayer.witnesses.items()):
        for ordinal in ordinals.tolist():
            # A file may be read as several sources: its row is one all the same.
            places.setdefault((path, ordinal), []).append(source)
    elements = list(places.items())

    latest: dict[tuple[int, ...], tuple[Mapping[str, Any], ...]] = {}

    def outcome(chosen: Sequence[int]) -> tuple[Mapping[str, Any], ...]:
        latest.clear()
        rows = replayer.outcome(source_rows([elements[n] for n in chosen]))
        made = tuple(dict(zip(replayer.columns, row.values, strict=True)) for row in rows)
        latest[tuple(chosen)] = made
        return made

    with replayer.holding_witnesses():
        suspects = replayer.suspects_first(elements)
        found = minimise(
            len(elements), lambda chosen: any(map(fails, outcome(chosen))), stop, suspects
        )
        # A search that was not stopped ends with a run of what it found.
        alone = latest[found.rows] if found.rows in latest else outcome(found.rows)
    rows = source_rows([elements[n] for n in found.rows])
    return Sifted(rows, alone, len(elements), found)
