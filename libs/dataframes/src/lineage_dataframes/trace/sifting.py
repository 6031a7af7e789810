"""The smallest part of a row's witnesses from which the plan still makes a row that fails a test."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage_core.contract.region import Region
from lineage_core.recipe.document import File, Recipe, Source
from lineage_dataframes.sources.file_changes import check_unchanged
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, view_of
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import to_arrow
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.held_rows import SourceRows, source_rows
from lineage_dataframes.trace.pushed_down import push_down
from lineage_dataframes.trace.replay import Replayer, RequestedOutput, values_of_rows
from lineage_dataframes.trace.rows import output_of, parquet_rows
from lineage_dataframes.trace.session import session_with_settings, translate_spark_errors
from lineage_query.minimising import Minimised, Part, first_suspects, minimise
from lineage_query.overlaps import (
    TRACED_MAX,
    Witnesses,
    most_overlapping,
    shared_parts,
    sharing,
    traced_each,
)

RowTest = Callable[[Mapping[str, Any]], bool]
"""Whether a row, its values by column, fails."""

ROWS_A_BATCH = 100_000
"""Rows of an output that are read at once, to be tested."""

READ_HERE_BYTES = 64 << 20
"""Larger files of an output are read by Spark."""


@dataclass(frozen=True)
class Sifted:
    """A smallest set. ``rows``: the rows of sources; ``outcome``: the rows that the plan makes of them alone, of which one fails.

    ``witnesses``: how many rows there were to search. ``pushed_down``: how many parts were tested by aggregates of their values, without a run of the plan.
    ``traced``: of how many failing rows is known what they are made from; ``sharing``: of how many of these each of the rows is a witness, by file and ordinal.
    """

    rows: SourceRows
    outcome: tuple[Mapping[str, Any], ...]
    witnesses: int
    found: Minimised
    pushed_down: int
    traced: int
    sharing: Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class FailingRow:
    """A row of an output's file that fails a test, by its place and with its values."""

    file: File
    ordinal: int
    values: tuple[Any, ...]


def failing_rows(spark: SparkSession, recipe: Recipe, fails: RowTest) -> Iterator[FailingRow]:
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
                yield FailingRow(file, ordinal, row)


def traced_rows(
    spark: SparkSession,
    recipe: Recipe,
    rows: Sequence[Sequence[Any]],
    *,
    are_stored: bool,
    stop: Callable[[int], str] = lambda _: "",
) -> list[Witnesses]:
    """What some output rows are made from, by file, as `traced_each`; nothing of one whose trace may have too many rows.

    ``are_stored``: their values are those of the output's files.
    """
    written = recipe.output.format if are_stored else None

    def witnesses_of(row: Sequence[Any]) -> Witnesses:
        found = trace_backward(spark, recipe, [row], is_in_output=True, written=written)
        by_file: dict[Hashable, Region] = {}
        for (source, path), ordinals in found.rows.items() if found.exact else ():
            if source is not None:
                by_file[path] = by_file.get(path, Region()) | Region.from_positions(ordinals)
        return by_file

    return traced_each(rows, witnesses_of, stop)


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


def sift_failing(
    spark: SparkSession,
    recipe: Recipe,
    failing: Sequence[Sequence[Any]],
    outputs: Sequence[RequestedOutput],
    fails: RowTest,
    stop: Callable[[int], str],
    *,
    are_stored: bool,
) -> tuple[int, Sifted]:
    """Sift the one of some failing rows that shares its witnesses with most others; its number, and what was found.

    Args:
        spark: as in `Replayer`.
        recipe: as there.
        failing: the values of the rows, at least one.
        outputs: each of them, as it is requested.
        fails: as in `sift`.
        stop: as in `sift`.
        are_stored: as in `traced_rows`.

    Raises:
        LineageError: as `sift` and `Replayer` raise it.
    """
    traced = _traced(spark, recipe, failing, stop, are_stored=are_stored)
    number = most_overlapping(traced)
    return number, sift(Replayer(spark, recipe, outputs[number]), fails, stop, traced)


def sift_requested(
    spark: SparkSession,
    recipe: Recipe,
    requested: RequestedOutput,
    fails: RowTest,
    stop: Callable[[int], str],
) -> Sifted:
    """Sift the witnesses of requested rows together.

    Arguments as those of `sift_failing`.

    Raises:
        LineageError: as `sift` and `Replayer` raise it.
    """
    replayer = Replayer(spark, recipe, requested)
    rows = [row.values for row in replayer.requested]
    if len(rows) > 1:
        rows = [row for row in rows if fails(dict(zip(replayer.columns, row, strict=True)))]
    return sift(replayer, fails, stop, _traced(spark, recipe, rows, stop, are_stored=False))


def _traced(
    spark: SparkSession,
    recipe: Recipe,
    failing: Sequence[Sequence[Any]],
    stop: Callable[[int], str],
    *,
    are_stored: bool,
) -> list[Witnesses]:
    """What the first of some failing rows are made from; of a single one this says nothing of the others."""
    if len(failing) < 2:
        return []
    return traced_rows(spark, recipe, failing[:TRACED_MAX], are_stored=are_stored, stop=stop)


def sift(
    replayer: Replayer,
    fails: RowTest,
    stop: Callable[[int], str] = lambda _: "",
    overlap: Sequence[Witnesses] = (),
) -> Sifted:
    """Search the witnesses of the requested rows for a smallest set from which one of these still fails.

    Args:
        replayer: of the rows.
        fails: must give the same verdict on the same row each time.
        stop: as in `lineage_query.minimising.minimise`.
        overlap: what failing rows of the output are made from, by file: the requested row and others.

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
    counts = sharing(overlap, list(places))
    pushed_down = 0

    latest: dict[tuple[int, ...], tuple[Mapping[str, Any], ...]] = {}

    def outcome(chosen: Sequence[int]) -> tuple[Mapping[str, Any], ...]:
        latest.clear()
        rows = replayer.outcome(source_rows([elements[n] for n in chosen]))
        made = tuple(dict(zip(replayer.columns, row.values, strict=True)) for row in rows)
        latest[tuple(chosen)] = made
        return made

    def parts() -> Iterator[Part]:
        nonlocal pushed_down
        whole = latest[tuple(range(len(elements)))]
        suspects = replayer.suspects_first(elements)
        pushed = push_down(replayer, list(places), whole, fails, stop, suspects)
        pushed_down = pushed.tests
        if pushed.part is not None:
            yield pushed.part
        yield from shared_parts(counts, suspects)
        yield from first_suspects(suspects)

    with replayer.holding_witnesses():
        found = minimise(
            len(elements), lambda chosen: any(map(fails, outcome(chosen))), stop, parts()
        )
        # A search that was not stopped ends with a run of what it found.
        alone = latest[found.rows] if found.rows in latest else outcome(found.rows)
    rows = source_rows([elements[n] for n in found.rows])
    of_failing = {elements[n][0]: int(counts[n]) for n in found.rows}
    traced = sum(map(bool, overlap))
    return Sifted(rows, alone, len(elements), found, pushed_down, traced, of_failing)
