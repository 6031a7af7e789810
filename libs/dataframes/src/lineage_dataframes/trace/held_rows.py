"""Some rows of a source that are held in memory, for many runs of a plan over some of them.

Each has a number. A run's rows are chosen by a set of bits, which the statement has as a constant: Spark makes the same code of all such
statements, and compiles it once. Few rows are one partition, so that a run is one task, without a shuffle. Of files of text whose lines
are rows, just the lines are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import Source
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, view_of
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import from_arrow, to_arrow
from lineage_dataframes.trace.rows import extracted_rows
from lineage_dataframes.trace.session import translate_spark_errors
from lineage_query.standing_out import standing_out

NUMBER_COLUMN = "__lineage_number"
ONE_PARTITION_ROWS = 100_000
"""Up to this many rows are one partition."""
EXTRACTED_ROWS = 20_000
"""Up to this many lines are read by themselves: the statement names each by its number."""
EXTRACTED_FILES = 16
WORD_BITS = 32

MEASURED_ROWS = 100_000
"""Rows of one source of which is looked whether they stand out."""

OrdinalsByFile = Mapping[str, NDArray[np.uint64]]
"""Rows of a source: by file, their ordinals, ascending."""
SourceRows: TypeAlias = "Mapping[tuple[int, str], NDArray[np.uint64]]"
"""Rows by source (its place in the recipe) and file: their ordinals, ascending."""
ReadRow: TypeAlias = tuple[tuple[str, int], list[int]]
"""File and ordinal of a row, and the sources that read it: a file may be read as several."""


@dataclass(frozen=True)
class HeldRows:
    """Rows of a source. ``frame``: with `FILE_COLUMN`, `ROW_COLUMN` and `NUMBER_COLUMN`, cached; rows are numbered in the order of ``ordinals``."""

    frame: DataFrame
    ordinals: OrdinalsByFile

    @property
    def count(self) -> int:
        """How many they are."""
        return sum(map(len, self.ordinals.values()))

    def places(self) -> Iterator[tuple[str, int]]:
        """The file and ordinal of each."""
        for path, of_file in self.ordinals.items():
            yield from ((path, ordinal) for ordinal in of_file.tolist())

    def chosen(self, rows: OrdinalsByFile, *, others: bool = False) -> DataFrame:
        """Those of some rows that are among these, without their numbers. ``others``: all but those."""
        nothing = np.empty(0, np.uint64)
        masks = [np.isin(held, rows.get(path, nothing)) for path, held in self.ordinals.items()]
        is_chosen = np.concatenate([np.zeros(0, np.bool_), *masks]) != others
        return self.frame.where(_has_bit(is_chosen)).drop(NUMBER_COLUMN)

    def measures(self) -> tuple[NDArray[np.float64], ...]:
        """Columns of the rows as numbers, in the order of ``ordinals``: of texts and lists the length, NaN where there is none.

        Spark's errors are raised as they are.
        """
        terms = [_measure(name, kind) for name, kind in self.frame.dtypes]
        measured = [f"{term} AS m{n}" for n, term in enumerate(filter(None, terms))]
        table = to_arrow(self.frame.selectExpr(NUMBER_COLUMN, *measured)).sort_by(NUMBER_COLUMN)
        columns = (table[f"m{n}"] for n in range(len(measured)))
        return tuple(column.to_numpy(zero_copy_only=False).astype(np.float64) for column in columns)


def ordinals_of(rows: SourceRows, source: int) -> dict[str, NDArray[np.uint64]]:
    """Those of some rows that are of one source."""
    return {path: ordinals for (n, path), ordinals in rows.items() if n == source}


def source_rows(elements: Iterable[ReadRow]) -> SourceRows:
    """Some rows, by source and file."""
    rows: dict[tuple[int, str], list[int]] = {}
    for (path, ordinal), sources in elements:
        for source in sources:
            rows.setdefault((source, path), []).append(ordinal)
    return {place: np.array(sorted(ordinals), np.uint64) for place, ordinals in rows.items()}


def suspects_first(elements: Sequence[ReadRow], held: Iterable[HeldRows]) -> list[int]:
    """The numbers of rows, those first that stand out most among the rows of their source (`lineage_query.standing_out`).

    Rows of sources with many rows do not.

    Raises:
        RefusedError: Spark can't tell.
    """
    away: dict[tuple[str, int], float] = {}
    for rows in held:
        if not 0 < rows.count <= MEASURED_ROWS:
            continue
        with translate_spark_errors():
            distances = standing_out(rows.measures(), rows.count).tolist()
        for place, distance in zip(rows.places(), distances, strict=True):
            away[place] = max(distance, away.get(place, 0.0))
    return sorted(range(len(elements)), key=lambda n: -away.get(elements[n][0], 0.0))


def hold_rows(
    session: SparkSession, source: Source, complete: DataFrame, ordinals: OrdinalsByFile
) -> HeldRows:
    """Read some rows of a source, and keep them in memory until ``frame`` is unpersisted.

    Args:
        session: with the settings under which rows of the source are numbered.
        source: it must be what it was, which the caller sees to afterwards.
        complete: all of its rows, with `FILE_COLUMN` and `ROW_COLUMN`.
        ordinals: which.

    Raises:
        RowError: a file has no such row. Spark's errors are raised as they are.
    """
    ordinals = {path: of_file for path, of_file in sorted(ordinals.items()) if len(of_file)}
    count = sum(map(len, ordinals.values()))
    with ExitStack() as files:
        rows = None
        if 0 < count <= EXTRACTED_ROWS and len(ordinals) <= EXTRACTED_FILES:
            rows = _extracted(session, source, ordinals, files)
        if rows is None:
            rows = _joined(session, complete, ordinals)
        if count <= ONE_PARTITION_ROWS:
            rows = rows.coalesce(1)
        held = HeldRows(rows.cache(), ordinals)
        try:
            # Now, while the files are there.
            held.frame.count()
        except BaseException:
            held.frame.unpersist()
            raise
    return held


def _extracted(
    session: SparkSession, source: Source, ordinals: OrdinalsByFile, files: ExitStack
) -> DataFrame | None:
    """The rows from files that have hardly more; None where one can't be extracted. ``files``: has them until it is closed."""
    parts, first = list[DataFrame](), 0
    for path, of_file in ordinals.items():
        part, part_path, part_ordinals = files.enter_context(
            extracted_rows(session, source, path, of_file)
        )
        if part_path == path:
            return None
        numbers = f"array({', '.join(f'{n}L' for n in of_file.tolist())})"
        view = view_of(session, part)
        own = [name for name in view.columns if name not in {FILE_COLUMN, ROW_COLUMN}]
        columns = [literals.quoted_name(name) for name in own]
        names = [
            f"{literals.string_constant(path)} AS {FILE_COLUMN}",
            f"element_at({numbers}, CAST({ROW_COLUMN} AS INT) + 1) AS {ROW_COLUMN}",
            f"{ROW_COLUMN} + {first}L AS {NUMBER_COLUMN}",
        ]
        parts.append(view.selectExpr(*columns, *names))
        first += len(part_ordinals)
    return reduce(lambda rows, more: rows.unionAll(more), parts)


def _joined(session: SparkSession, complete: DataFrame, ordinals: OrdinalsByFile) -> DataFrame:
    keys = pa.table(
        {
            "its_file": pa.array(list(_paths(ordinals)), pa.string()),
            "its_row": pa.array(_concatenated(list(ordinals.values())).astype(np.int64)),
        }
    )
    keys = keys.append_column(NUMBER_COLUMN, pa.array(np.arange(keys.num_rows, dtype=np.int64)))
    is_held = (F.col(FILE_COLUMN) == F.col("its_file")) & (F.col(ROW_COLUMN) == F.col("its_row"))
    rows = complete.join(F.broadcast(from_arrow(session, keys)), is_held)
    return rows.drop("its_file", "its_row")


def _paths(ordinals: OrdinalsByFile) -> Iterator[str]:
    for path, of_file in ordinals.items():
        yield from [path] * len(of_file)


def _concatenated(parts: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return np.concatenate([np.empty(0, np.uint64), *parts])


def _has_bit(bits: NDArray[np.bool_]) -> str:
    """The condition that a row's number is that of a bit that is set."""
    if not len(bits):
        return "false"
    packed = np.packbits(np.pad(bits, (0, -len(bits) % WORD_BITS)), bitorder="little")
    words = ", ".join(f"{word}L" for word in packed.view("<u4").tolist())
    word = f"element_at(array({words}), CAST({NUMBER_COLUMN} DIV {WORD_BITS} AS INT) + 1)"
    return f"getbit({word}, CAST({NUMBER_COLUMN} % {WORD_BITS} AS INT)) = 1"


def _measure(name: str, kind: str) -> str:
    """The term for a column's value as a number; none where it has no such form, or says where a row stands."""
    column = literals.quoted_name(name)
    if name in {FILE_COLUMN, ROW_COLUMN, NUMBER_COLUMN}:
        return ""
    if kind in {"string", "binary"}:
        return f"CAST(length({column}) AS DOUBLE)"
    if kind == "date":
        return f"CAST(unix_date({column}) AS DOUBLE)"
    if kind.startswith(("array<", "map<")):
        return f"CAST(size({column}) AS DOUBLE)"
    if kind in NUMBERS or kind.startswith("decimal("):
        return f"CAST({column} AS DOUBLE)"
    return ""


NUMBERS = {"tinyint", "smallint", "int", "bigint", "float", "double", "boolean"}
