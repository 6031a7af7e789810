"""Rows of files that a job wrote or read: what stands at a place, and at which places given rows stand."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import File, Recipe, Source
from lineage_core.recipe.names import HIVE_TEXT, JDBC, KAFKA
from lineage_core.tracing.budget import TooMuchError
from lineage_dataframes.errors import NoMatchError, RefusedError, RowError
from lineage_dataframes.rewrite.orders import texts_of_sums
from lineage_dataframes.rewrite.values import (
    ColumnValues,
    NamedColumn,
    select_columns,
    values_condition,
)
from lineage_dataframes.sandbox.starting import given_folder
from lineage_dataframes.sources.file_changes import check_unchanged, local_path
from lineage_dataframes.sources.hive_text import check_fields, split_partition_columns
from lineage_dataframes.sources.locations import ordinal_at_line
from lineage_dataframes.sources.lossy_formats import (
    loses_values,
    stands_as_it_is,
    text_as_written,
)
from lineage_dataframes.sources.row_texts import TEXT_OPTIONS
from lineage_dataframes.sources.text_records import MarkedError, has_lines, header_count, text_file
from lineage_dataframes.sources.topics import narrowed, rows_at_offset
from lineage_dataframes.sources.unknown_value import UNKNOWN
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, view_of
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import from_arrow, is_connected, parse_schema, to_arrow
from lineage_dataframes.trace.given_rows import RowConditions
from lineage_dataframes.trace.session import session_with_settings
from lineage_query.rows.places import Location
from lineage_query.rows.reader import ForbiddenRowsError, values_from
from lineage_query.rows.typed_values import UnsureError
from lineage_store.paths import RowsError, canonical


def output_of(spark: SparkSession, recipe: Recipe) -> Source:
    """The files that the job wrote, as a source of rows.

    Raises:
        RowError: it wrote none.
    """
    output = recipe.output
    # What is written to a database is in none of its files: a recipe that says otherwise has it asked by whoever reads them.
    if not output.files or output.format in {None, JDBC, KAFKA}:
        raise RowError("the job kept no file of these rows: say by a condition which are meant")
    assert output.format is not None
    columns = ", ".join(
        f"{literals.quoted_name(column.name)} {column.type}" for column in recipe.columns
    )
    path, schema, partitions = output.path, parse_schema(spark, columns), ""
    if output.format == HIVE_TEXT and path is not None:
        schema, folders = split_partition_columns(schema, path, output.files[0].path)
        partitions = folders.json() if folders.fields else ""
    return Source(
        format=output.format,
        paths=() if path is None else (path,),
        schema=schema.json(),
        partitions=partitions,
        # Columns that are names of folders are searched for below the output.
        options={**output.options, **({} if path is None else {"basePath": path})},
        files=output.files,
        version=output.version,
    )


def find_file(files: Iterable[File], location: Location) -> File:
    """The file that a place is in.

    Raises:
        RowError: it is none of these.
    """
    path = canonical(location.path)
    for file in files:
        if canonical(file.path) == path:
            return file
    raise RowError(f"{location.path} is no file of this output")


def find_source(sources: Iterable[Source], location: Location) -> tuple[Source, File]:
    """The source, and its file, that a place is in.

    Raises:
        RowError: no source has such a file.
    """
    for source in sources:
        try:
            return source, find_file(source.files, location)
        except RowError:
            continue
    raise RowError(f"{location.path} was not read")


def ordinal_in_file(
    spark: SparkSession, source: Source, file: File, number: int, *, line: bool
) -> int:
    """The ordinal of a row, from 0: of a line (from 1) where the file has lines, else the number itself.

    Raises:
        RowError: no row stands there, or rows of such a file are named otherwise.
    """
    if line != has_lines(source):
        form = "PATH:LINE" if has_lines(source) else "PATH#ROW, rows counted from 0"
        raise RowError(f"rows of {file.path} are named {form}")
    return ordinal_at_line(spark, source, file.path, number) if line else number


def values_at(
    spark: SparkSession, recipe: Recipe, source: Source, file: File, ordinal: int
) -> tuple[Any, ...]:
    """The values of a row of an output.

    Raises:
        RowError: the file has no such row.
        ChangedSourceError: the file is not what the job wrote.
    """
    source_of_file = replace(source, files=(file,))
    check_unchanged(spark, source_of_file)
    values = parquet_values(recipe, source, file, ordinal)
    if values is not None:
        return values
    session = session_with_settings(spark, recipe, [source])
    check_fields(source, [column.name for column in recipe.columns])
    # Columns that are names of folders come last in the view, those that an insertion gave by name beside them.
    columns = [literals.quoted_name(column.name) for column in recipe.columns]
    rows = (
        view_of(session, source_of_file)
        .where(F.col(ROW_COLUMN) == ordinal)
        .select(*columns)
        .collect()
    )
    if not rows:
        raise RowError(f"{file.path} has no row {ordinal}")
    return tuple(rows[0])


def values_in_file(
    spark: SparkSession, recipe: Recipe, source: Source, file: File
) -> list[tuple[Any, ...]]:
    """The values of all rows of a file of an output.

    Raises:
        ChangedSourceError: the file is not what the job wrote.
        TooMuchError: it has more rows than are looked up by their values.
    """
    source_of_file = replace(source, files=(file,))
    check_unchanged(spark, source_of_file)
    session = session_with_settings(spark, recipe, [source])
    check_fields(source, [column.name for column in recipe.columns])
    columns = [literals.quoted_name(column.name) for column in recipe.columns]
    rows = view_of(session, source_of_file).select(*columns).limit(LOOKUP_MAX + 1).collect()
    if len(rows) > LOOKUP_MAX:
        raise TooMuchError(
            f"{file.path} has more than {LOOKUP_MAX:,} rows, and the output has other files",
            "trace the whole output by its path, or rows of it by --where, or run `lineage materialise` first",
        )
    return [tuple(row) for row in rows]


def all_ordinals(
    spark: SparkSession, recipe: Recipe, source: Source, file: File
) -> NDArray[np.uint64]:
    """The ordinals of all rows of a file of a source, ascending.

    Raises:
        ChangedSourceError: the file is not what the job read.
        TooMuchError: it has more rows than are traced forward together.
    """
    source_of_file = replace(source, files=(file,))
    check_unchanged(spark, source_of_file)
    view = view_of(session_with_settings(spark, recipe, [source]), source_of_file)
    rows = to_arrow(view.select(ROW_COLUMN).limit(FORWARD_ROWS_MAX + 1))[ROW_COLUMN]
    check_forward_rows(file.path, len(rows))
    return np.sort(rows.to_numpy().astype(np.uint64))


def check_forward_rows(name: str, count: int) -> None:
    """See that rows of one or several files are no more than are traced forward together.

    Raises:
        TooMuchError: they are more.
    """
    if count > FORWARD_ROWS_MAX:
        raise TooMuchError(
            f"{name} have more than {FORWARD_ROWS_MAX:,} rows, which are traced forward together at most",
            "trace rows of it by their values, or run `lineage materialise` first",
        )


def parquet_values(
    recipe: Recipe, source: Source, file: File, ordinal: int
) -> tuple[Any, ...] | None:
    """The values of a row of a Parquet file of this machine, where they surely are those that Spark reads; else None.

    It saves a query before the first one of a trace.
    """
    rows = parquet_rows(recipe, source, file, ordinal, 1)
    return rows[0] if rows else None


def parquet_rows(
    recipe: Recipe, source: Source, file: File, first: int, count: int
) -> list[tuple[Any, ...]] | None:
    """The same of up to ``count`` rows that follow each other, the first one at ``first``; fewer where the file ends."""
    path = _parquet_path(recipe, source, file)
    if path is None:
        return None
    columns = [(column.name, column.type) for column in recipe.columns]
    try:
        return values_from(str(path), first, count, columns)
    except ForbiddenRowsError:
        raise
    except (
        UnsureError, OSError, RowsError, OverflowError, pa.ArrowException, UnicodeError, ValueError,
    ):  # fmt: skip
        return None


def _parquet_path(recipe: Recipe, source: Source, file: File) -> Path | None:
    """The path of a file that is read here as Spark reads it, as far as its source says."""
    if source.format != "parquet" or recipe.output.kind != "files":
        return None
    if source.partitions or not source.options.keys() <= {"basePath"}:
        return None
    if recipe.settings.get("spark.sql.parquet.binaryAsString", "false") != "false":
        return None
    return local_path(file.path)


def texts_at(
    spark: SparkSession, recipe: Recipe, source: Source, path: str, ordinals: NDArray[np.uint64]
) -> list[str]:
    """Rows of a file as JSON text, in order of their ordinals.

    Raises:
        NoMatchError: the source has no such row.
    """
    texts = texts_of_rows(spark, recipe, source, path, ordinals)
    missing = [ordinal for ordinal in ordinals.tolist() if ordinal not in texts]
    if missing:
        raise NoMatchError(f"{path} has no row {missing[0]}")
    return [texts[ordinal] for ordinal in ordinals.tolist()]


def texts_of_rows(
    spark: SparkSession, recipe: Recipe, source: Source, path: str, ordinals: NDArray[np.uint64]
) -> dict[int, str]:
    """The same by ordinal, of those rows that the source has: others are deleted in the version of a table that was read, or are none."""
    with extracted_rows(spark, source, path, ordinals) as (part_source, part_path, part_ordinals):
        rows = rows_at(spark, recipe, part_source, {part_path: part_ordinals})
        columns = [literals.quoted_name(name) for name in _own_columns(rows)]
        rows_as_json = rows.select(
            ROW_COLUMN, F.to_json(F.struct(*columns), TEXT_OPTIONS).alias("text")
        ).collect()
        numbers = dict(zip(part_ordinals.tolist(), ordinals.tolist(), strict=True))
    return {numbers[row[ROW_COLUMN]]: row.text for row in rows_as_json}


@contextmanager
def extracted_rows(
    spark: SparkSession, source: Source, path: str, ordinals: NDArray[np.uint64]
) -> Iterator[tuple[Source, str, NDArray[np.uint64]]]:
    """Rows of a file in a source that has hardly more than these, which Spark reads as it reads the file.

    The source, the file in it, and their ordinals there. Where that can't be, those that are given.
    """
    file = (
        text_file(source, path) if source.format in LINE_BY_LINE and not source.partitions else None
    )
    options = dict(source.options)
    if options.get("basePath") == path.rpartition("/")[0]:
        # No folder between them names a column.
        del options["basePath"]
    local = not is_connected(spark) and str(spark.sparkContext.master).startswith("local")
    if file is None or not local or "basePath" in options:
        yield source, path, ordinals
        return
    headers, part_path = header_count(source), ""
    record_numbers = np.concatenate([np.arange(headers), ordinals.astype(np.int64) + headers])
    with tempfile.TemporaryDirectory(prefix="lineage-rows-", dir=given_folder()) as folder:
        part = Path(folder, "rows").with_suffix(file.path.suffix)
        with part.open("wb") as to, suppress(MarkedError):
            if file.copy(record_numbers, to) != len(record_numbers):
                raise RowError(f"{path} has no row {ordinals[-1]}")
            part_path = f"file:{part}"
        if not part_path:
            yield source, path, ordinals
            return
        original = next(file for file in source.files if file.path == path)
        part_file = replace(original, path=part_path, size=part.stat().st_size)
        part_source = replace(source, options=options, files=(part_file,))
        yield part_source, part_path, np.arange(len(ordinals), dtype=np.uint64)


LINE_BY_LINE = {"csv", "json", "text"}
"""Formats of text whose readers make of a line the same row wherever it stands."""


def rows_at(
    spark: SparkSession,
    recipe: Recipe,
    source: Source,
    ordinals_by_file: Mapping[str, NDArray[np.uint64]],
) -> DataFrame:
    """Rows of a source as a frame with `FILE_COLUMN` and `ROW_COLUMN`. ``ordinals_by_file``: their ordinals, by file."""
    session = session_with_settings(spark, recipe, [source])
    files = tuple(file for file in source.files if file.path in ordinals_by_file)
    keys = pa.table(
        {
            "wanted_file": [path for path, rows in ordinals_by_file.items() for _ in rows],
            "wanted_row": pa.array(
                np.concatenate(list(ordinals_by_file.values())).astype(np.int64)
            ),
        }
    )
    requested = F.broadcast(from_arrow(session, keys))
    is_requested = (F.col(FILE_COLUMN) == F.col("wanted_file")) & (
        F.col(ROW_COLUMN) == F.col("wanted_row")
    )
    read = replace(source, files=files)
    if source.format == KAFKA:
        read = narrowed(source, ordinals_by_file)
    return view_of(session, read).join(requested, is_requested, "leftsemi")


@dataclass(frozen=True)
class OutputPlaces:
    """Where rows stand in an output's files.

    ``places``: files and ordinals of all rows that may be these. ``wider``: they are more than the rows. ``missing``: of
    the rows those that the files do not hold. ``texts``: at the places, as JSON, where these are wanted. ``equal``: rows that are
    equal as far as they are compared, with the places of these values.
    """

    places: tuple[tuple[str, int], ...]
    wider: bool
    missing: tuple[Sequence[Any], ...]
    texts: Mapping[tuple[str, int], str] = field(default_factory=dict)
    equal: tuple[tuple[tuple[Sequence[Any], ...], tuple[tuple[str, int], ...]], ...] = ()


def find_in_output(
    spark: SparkSession,
    recipe: Recipe,
    source: Source,
    rows: Sequence[Sequence[Any]],
    *,
    with_texts: bool = False,
) -> OutputPlaces:
    """Where rows of an output that have been computed anew stand in its files.

    Values that are `UNKNOWN` are not compared, nor, where rows are not found by them, texts of sums of doubles. Texts in
    CSV are compared without the blanks around them, which writing trims. ``with_texts``: what stands there is wanted, too.

    Raises:
        ChangedSourceError: the files are not what the job wrote.
        RefusedError: there are too many rows, or too many that may be these.
    """
    session = session_with_settings(spark, recipe, [source])
    check_unchanged(session, source)
    return find_in_view(
        session, recipe, source, view_of(session, source), rows, with_texts=with_texts
    )


def find_in_view(
    session: SparkSession,
    recipe: Recipe,
    source: Source,
    view: DataFrame,
    rows: Sequence[Sequence[Any]],
    *,
    with_texts: bool = False,
) -> OutputPlaces:
    """As :func:`find_in_output`, among the rows of a frame with `FILE_COLUMN` and `ROW_COLUMN`; columns that it does not have are not compared."""
    view.createOrReplaceTempView(OUTPUT_VIEW)
    absent = frozenset[int]()
    if source.format == KAFKA:
        held = _own_columns(view)
        absent = frozenset(column.id for column in recipe.columns if column.name not in held)
    text_term = _text_term(view) if with_texts else ""
    lookup = _Lookup(session, recipe, source.format, text_term, absent)
    places = lookup.places(rows, frozenset())
    sums = texts_of_sums(recipe) if places.missing else frozenset[int]()
    return lookup.places(rows, sums) if sums else places


def _text_term(view: DataFrame) -> str:
    """The term for a row's text, as of `texts_of_rows`."""
    columns = ", ".join(map(literals.quoted_name, _own_columns(view)))
    options = ", ".join(
        literals.string_constant(part) for option in TEXT_OPTIONS.items() for part in option
    )
    return f", to_json(struct({columns}), map({options})) AS text"


def _own_columns(view: DataFrame) -> list[str]:
    return [name for name in view.columns if name not in {FILE_COLUMN, ROW_COLUMN}]


def maybe_written(
    recipe: Recipe, source: Source, rows: Sequence[Sequence[Any]]
) -> tuple[Sequence[Any], ...]:
    """Of rows that an output may have and that were not found in it, those that may be there with other values."""
    if source.partitions:
        return tuple(rows)
    kinds = [column.type for column in recipe.columns]
    options = recipe.output.options
    return tuple(row for row in rows if not stands_as_it_is(kinds, row, source.format, options))


@dataclass(frozen=True)
class _Lookup:
    """Looks rows up in an output. ``written``: its format. ``text_term``: gives the texts that are wanted; empty: none. ``absent``: columns that it does not have."""

    session: SparkSession
    recipe: Recipe
    written: str
    text_term: str
    absent: frozenset[int]

    def places(
        self, rows: Sequence[Sequence[Any]], ignored_columns: Collection[int]
    ) -> OutputPlaces:
        rows_by_condition: dict[str, list[Sequence[Any]]] = {}
        for row in rows:
            condition = _row_condition(
                self.session, self.recipe, row, {*ignored_columns, *self.absent}, self.written
            )
            rows_by_condition.setdefault(condition, []).append(row)
        if len(rows_by_condition) > LOOKUP_MAX:
            raise RefusedError(
                f"{len(rows_by_condition):,} different rows are too many to be looked up"
            )
        if not rows:
            return OutputPlaces((), False, ())
        matches = self._matches(rows_by_condition)
        counts = Counter(row.which for row in matches)
        by_place = {(row[FILE_COLUMN], row[ROW_COLUMN]): row for row in matches}
        places_of: dict[int, list[tuple[str, int]]] = {n: [] for n in range(len(rows_by_condition))}
        for place, row in sorted(by_place.items()):
            places_of[row.which].append(place)
        return OutputPlaces(
            tuple(sorted(by_place)),
            any(
                counts[n] > len(equal_rows)
                for n, equal_rows in enumerate(rows_by_condition.values())
            ),
            tuple(
                row
                for n, equal_rows in enumerate(rows_by_condition.values())
                for row in equal_rows[counts[n] :]
            ),
            {place: row.text for place, row in by_place.items()} if self.text_term else {},
            tuple(
                (tuple(equal_rows), tuple(places_of[n]))
                for n, equal_rows in enumerate(rows_by_condition.values())
            ),
        )

    def _matches(self, conditions: Iterable[str]) -> list[Any]:
        whens = " ".join(f"WHEN {condition} THEN {n}" for n, condition in enumerate(conditions))
        numbered = f"SELECT {FILE_COLUMN}, {ROW_COLUMN}, CASE {whens} END AS which{self.text_term} FROM {OUTPUT_VIEW}"
        matching_rows = (
            f"SELECT * FROM ({numbered}) AS r WHERE which IS NOT NULL LIMIT {PLACES_MAX + 1}"
        )
        matches = self.session.sql(matching_rows).collect()
        if len(matches) > PLACES_MAX:
            raise RefusedError(
                f"more than {PLACES_MAX:,} rows are equal in all that is known of them"
            )
        return matches


def _row_condition(
    session: SparkSession,
    recipe: Recipe,
    row: Sequence[Any],
    ignored_columns: Collection[int],
    written: str,
) -> str:
    """The condition that a row of the output's files has a row's values, as far as they are known."""
    conditions = RowConditions(session, nan_is_null=False)
    for column, value in zip(recipe.columns, row, strict=True):
        if value is UNKNOWN or column.id in ignored_columns:
            continue
        name = literals.quoted_name(column.name)
        if loses_values(column.type, written):
            constant = text_as_written(literals.string_constant(value or ""), written)
            conditions.terms.append(f"{text_as_written(name, written)} = {constant}")
        else:
            conditions.add(NamedColumn(column.name, name, column.type), value)
    return literals.all_of(conditions.terms)


def rows_with_values(
    spark: SparkSession, recipe: Recipe, source: Source, values: ColumnValues
) -> dict[str, NDArray[np.uint64]]:
    """The rows of a source that have given values: by file, their ordinals, ascending.

    Raises:
        ChangedSourceError: the files are not what the job read.
        NoMatchError: there is no such row.
        RowError: a value is none of its column.
        RefusedError: there are too many rows, or values can't be compared.
    """
    if source.format == KAFKA:
        # The trace forward sees whether the record is there.
        rows_by_partition = rows_at_offset(source, values)
        if rows_by_partition:
            return rows_by_partition
        if rows_by_partition is not None:
            raise NoMatchError("no row of the source has these values")
    session = session_with_settings(spark, recipe, [source])
    check_unchanged(session, source)
    view = view_of(session, source)
    columns = [
        NamedColumn(field.name, literals.quoted_name(field.name), field.dataType.simpleString())
        for field in view.schema
        if field.name not in {FILE_COLUMN, ROW_COLUMN}
    ]
    matching_rows = view.where(values_condition(session, select_columns(columns, values))).select(
        FILE_COLUMN, ROW_COLUMN
    )
    rows = matching_rows.limit(ROWS_MAX + 1).collect()
    if not rows:
        raise NoMatchError("no row of the source has these values")
    if len(rows) > ROWS_MAX:
        raise RefusedError(f"more than {ROWS_MAX:,} rows have these values: give more of them")
    by_file: dict[str, list[int]] = {}
    for path, ordinal in rows:
        by_file.setdefault(path, []).append(ordinal)
    return {path: np.array(sorted(by_file[path]), np.uint64) for path in sorted(by_file)}


ROWS_MAX = 1_000
"""Rows of a source that are traced forward at once."""

PLACES_MAX = 10_000
"""Rows of an output that may be those that are looked up in it."""

FORWARD_ROWS_MAX = 10_000
"""Rows of a file of a source that are traced forward together: each is a part of a statement."""

LOOKUP_MAX = 200
"""Different rows that are looked up in an output by one query."""

OUTPUT_VIEW = "lineage_output"
