"""What becomes of a job's output without some rows of its sources, and what the job that reads the output reads then.

The output's rows are computed twice, with and without these rows. Where the plan's rows depend on their witnesses alone (`rewrite.locality`), these are
the rows that were made from them; else all rows. What the output would lack is looked up in its files, so the next job's source is left without these
places; what it would have besides is written as the job wrote it and read as the next job reads it, so that the values are those that the next job would get.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from lineage_core.recipe.document import File, Recipe, Source
from lineage_core.recipe.names import TEXT_FORMATS
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.locality import nonlocal_reasons
from lineage_dataframes.sandbox.starting import written_folder
from lineage_dataframes.sources.text_records import has_lines, header_count
from lineage_dataframes.sources.unknown_value import UNKNOWN
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, view_of
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import from_arrow, to_arrow
from lineage_dataframes.trace.chosen_rows import WRITTEN_FORMATS, write_rows
from lineage_dataframes.trace.exact_values import taken
from lineage_dataframes.trace.forward import trace_forward
from lineage_dataframes.trace.held_rows import SourceRows
from lineage_dataframes.trace.replay import (
    NO_ROWS,
    AddedRows,
    OutputRow,
    Replayer,
    RequestedOutput,
    without,
)
from lineage_dataframes.trace.rows import find_in_output, output_of
from lineage_dataframes.trace.session import session_with_settings, translate_spark_errors
from lineage_store.paths import canonical, plain_path

AFFECTED_MAX = 200
"""Rows of an output that are computed by themselves; where more are affected, all of them are."""
NOT_CARRIED = ("map<", "variant", "interval", "void", "timestamp_ntz")
"""Types whose values do not come through this process as they are."""
NEW_ROWS = 1 << 40
"""Where places of rows begin that no file of the output has."""
ROW_OPTIONS = frozenset({
    "header", "sep", "delimiter", "quote", "escape", "comment", "multiline", "linesep", "encoding", "charset", "mode", "wholetext",
})  # fmt: skip
"""Options that decide which rows a file of text has, in lower case."""


@dataclass(frozen=True)
class OutputChanges:
    """What an output would lack, and what it would have besides.

    ``of``: for each added row, the place of the removed one that it stands in the place of; None: it is new. ``uncertain``: why values may be other ones.
    """

    recipe: Recipe
    removed: tuple[OutputRow, ...]
    added: pa.Table
    of: tuple[int | None, ...]
    uncertain: tuple[str, ...]

    @property
    def changed(self) -> int:
        """How many rows come out otherwise."""
        return sum(place is not None for place in self.of)

    @property
    def new(self) -> int:
        """How many rows there are besides."""
        return len(self.of) - self.changed

    @property
    def gone(self) -> int:
        """How many rows do not come out."""
        return len(self.removed) - self.changed


@dataclass(frozen=True)
class ChangedSource:
    """A source as the output of a job that changes has it. ``left_out``: by file, ordinals of rows that it lacks; ``added``: rows of its view, if any."""

    left_out: dict[str, NDArray[np.uint64]]
    added: pa.Table | None
    uncertain: tuple[str, ...] = ()


def output_changes(
    spark: SparkSession,
    recipe: Recipe,
    left_out: SourceRows,
    added: AddedRows = NO_ROWS,
    key: str | None = None,
) -> OutputChanges | None:
    """What becomes of an output without some rows of its sources, or with others; None: nothing.

    Args:
        spark: any session of a Spark of this machine.
        recipe: of the output.
        left_out: rows of its sources.
        added: rows that its sources have besides.
        key: of the recipe's Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Raises:
        RefusedError: it can't be computed anew, or has too many rows.
        ChangedSourceError: a source is not what it was.
        FunctionsKeyError: the key can't be used.
    """
    affected = None if added else _affected(spark, recipe, left_out, key)
    if affected == []:
        return None
    requested = RequestedOutput() if affected is None else RequestedOutput(rows=tuple(affected))
    replayer = Replayer(spark, recipe, requested, key)
    if affected is None:
        before, after = replayer.requested, replayer.all_rows_without(left_out, added)
    else:
        before = replayer.outcome(replayer.witnesses)
        after = replayer.outcome(without(replayer.witnesses, left_out)[0])
    removed, new = _difference(replayer, before, after)
    if not removed and not new:
        return None
    of = _replaced(removed, new)
    return OutputChanges(recipe, tuple(removed), replayer.table_of(new), of, replayer.uncertain)


def _affected(
    spark: SparkSession, recipe: Recipe, left_out: SourceRows, key: str | None
) -> list[Sequence[Any]] | None:
    """The rows of an output that were made from some of its sources; None: any row may come out otherwise without these."""
    if nonlocal_reasons(recipe):
        return None
    by_file: dict[str, list[int]] = {}
    for (_, path), ordinals in left_out.items():
        by_file[path] = sorted({*by_file.get(path, []), *ordinals.tolist()})
    rows = trace_forward(spark, recipe, by_file, key).rows
    if len(rows) > AFFECTED_MAX or any(value is UNKNOWN for row in rows for value in row):
        return None
    return list(rows)


def _difference(
    replayer: Replayer, before: Sequence[OutputRow], after: Sequence[OutputRow]
) -> tuple[list[OutputRow], list[OutputRow]]:
    """The rows of ``before`` that ``after`` lacks, and the other way. Rows that differ in last digits alone, as sums of doubles do, are the same."""
    remaining = Counter(row.exact for row in after)
    removed = [row for row in before if not taken(remaining, row.exact)]
    new = [row for row in after if taken(remaining, row.exact)]
    by_identity = defaultdict[Any, list[int]](list)
    for n, row in enumerate(new):
        by_identity[row.identity].append(n)
    gone: list[OutputRow] = []
    near = set[int]()
    for row in removed:
        for n in by_identity[row.identity]:
            if n not in near and replayer.state(row.exact, new[n].exact) == "nearly the same":
                near.add(n)
                break
        else:
            gone.append(row)
    return gone, [row for n, row in enumerate(new) if n not in near]


def _replaced(removed: Sequence[OutputRow], new: Sequence[OutputRow]) -> tuple[int | None, ...]:
    """For each new row, the place of the one that was made from the same; None where that is not one for one."""
    before, after = defaultdict[Any, list[int]](list), Counter(row.identity for row in new)
    for place, row in enumerate(removed):
        before[row.identity].append(place)
    return tuple(
        before[row.identity][0] if len(before[row.identity]) == after[row.identity] == 1 else None
        for row in new
    )


# -- as the next job reads it ----------------------------------------------------------------------


def changed_source(
    spark: SparkSession, changes: OutputChanges, reader: Recipe, number: int
) -> ChangedSource:
    """What a source of the next job lacks, and has besides, where the output that it reads changes.

    Args:
        spark: any session of a Spark of this machine.
        changes: of the output.
        reader: the recipe of the next job.
        number: of its source.

    Raises:
        RefusedError: the source reads the output otherwise than it was written, or it is not known which of its rows these are.
        ChangedSourceError: the output's files are not what the job wrote.
    """
    writer, source = changes.recipe, reader.sources[number]
    output = output_of(spark, writer)
    name = plain_path(source.name or "a source")
    if reason := _not_followed(writer, output, source):
        raise RefusedError(f"rows of {name} can't be followed from job to job: {reason}")
    spelled = {canonical(file.path): file.path for file in source.files}
    if not {canonical(file.path) for file in output.files} <= spelled.keys():
        raise RefusedError(
            f"{name} is read in part, so which of its rows are new there is not known"
        )
    places, uncertain = _places_of(spark, changes, output, name)
    left_out: dict[str, list[int]] = {}
    for path, ordinal in places:
        left_out.setdefault(spelled[canonical(path)], []).append(ordinal)
    ordinals = {path: np.array(sorted(rows), np.uint64) for path, rows in left_out.items()}
    reasons = tuple(f"rows of {name}: {reason}" for reason in (*changes.uncertain, *uncertain))
    if not changes.of:
        return ChangedSource(ordinals, None, reasons)
    rows = _as_read(spark, changes, reader, source)
    first = spelled[canonical(output.files[0].path)]
    at = [
        (first, NEW_ROWS + n) if of is None else (spelled[canonical(places[of][0])], places[of][1])
        for n, of in enumerate(changes.of)
    ]
    for name_of_column, values in zip(
        (FILE_COLUMN, ROW_COLUMN), zip(*at, strict=True), strict=True
    ):
        number_of_column = rows.column_names.index(name_of_column)
        field = rows.schema.field(number_of_column)
        rows = rows.set_column(number_of_column, field, pa.array(values, field.type))
    return ChangedSource(ordinals, rows, reasons)


def _not_followed(writer: Recipe, output: Source, source: Source) -> str:
    """Why a source's rows are not those of the output that it reads, place for place; empty: they are."""
    if output.format not in WRITTEN_FORMATS or source.format != output.format:
        return f"it was written as {output.format} and is read as {source.format}"
    kinds = [column.type for column in writer.columns]
    if not_carried := [part for part in NOT_CARRIED if any(part in kind for kind in kinds)]:
        return f"it has columns of {not_carried[0].rstrip('<')}"
    if source.partitions or any("=" in Path(file.path).parent.name for file in output.files):
        return "columns are names of its folders"
    if source.format in TEXT_FORMATS:
        one, other = _row_options(output), _row_options(source)
        rows = [(has_lines(each), header_count(each)) for each in (output, source)]
        if one != other or rows[0] != rows[1] or not rows[0][0]:
            return "its rows are no lines, or it is read with other options than it was written"
    return ""


def _row_options(source: Source) -> dict[str, str]:
    options = {name.lower(): value.lower() for name, value in source.options.items()}
    kept = {name: value for name, value in options.items() if name in ROW_OPTIONS}
    separator = kept.pop("delimiter", kept.pop("sep", ","))
    return {"header": "false", "mode": "permissive", **kept, "sep": separator}


def _places_of(
    spark: SparkSession, changes: OutputChanges, output: Source, name: str
) -> tuple[list[tuple[str, int]], list[str]]:
    """Where the removed rows stand in the output's files, one place each, in their order."""
    rows = [row.values for row in changes.removed]
    found = find_in_output(spark, changes.recipe, output, rows)
    if found.missing:
        raise RefusedError(
            f"{len(found.missing):,} rows of {name} that come out otherwise are not in its files as they are computed anew"
        )
    kinds = [column.type for column in changes.recipe.columns]
    are_compared = all(map(literals.comparable, kinds))
    are_exact = are_compared and not literals.FLOATING_TYPES & set(kinds)
    numbers = defaultdict[Any, list[int]](list)
    for number, row in enumerate(rows):
        numbers[id(row)].append(number)
    places: dict[int, tuple[str, int]] = {}
    uncertain: list[str] = []
    for equal_rows, at in found.equal:
        is_wider = len(at) > len(equal_rows)
        if (is_wider and not are_exact) or (len(equal_rows) > 1 and not are_compared):
            raise RefusedError(
                f"rows of {name} that come out otherwise can't be told from others, as not all of their columns are compared exactly"
            )
        if is_wider:
            uncertain.append("of equal rows it is not known which one comes out otherwise")
        for values, place in zip(equal_rows, at, strict=False):
            places[numbers[id(values)].pop()] = place
    return [places[number] for number in range(len(rows))], list(dict.fromkeys(uncertain))


def _as_read(
    spark: SparkSession, changes: OutputChanges, reader: Recipe, source: Source
) -> pa.Table:
    """The added rows as the next job reads them, in their order, with all columns of its view."""
    writer, rows = changes.recipe, changes.added
    # Where it is confined, it writes to one folder alone.
    parent = os.path.realpath(written_folder() or tempfile.gettempdir())
    with tempfile.TemporaryDirectory(prefix="lineage-replay-", dir=parent) as scratch:
        folder = Path(scratch, "rows")
        numbered = rows.append_column("number", pa.array(range(rows.num_rows), pa.int64()))
        with translate_spark_errors():
            session = session_with_settings(spark, writer, [])
            frame = from_arrow(session, numbered).repartition(1).sortWithinPartitions("number")
            write_rows(frame, writer, folder)
        written = replace(source, paths=(f"file:{folder}",), files=tuple(_files_in(folder)))
        with translate_spark_errors():
            view = view_of(session_with_settings(spark, reader, [written]), written)
            table = to_arrow(view).sort_by(ROW_COLUMN)
    if table.num_rows != rows.num_rows:
        raise RefusedError(
            f"rows of {source.name} that come out otherwise are read as another number of rows"
        )
    return table


def _files_in(folder: Path) -> Iterator[File]:
    """The one file that Spark wrote."""
    for name in sorted(os.listdir(folder)):
        if name.startswith("part-"):
            state = os.lstat(folder / name)
            yield File(f"file:{folder / name}", state.st_size, state.st_mtime_ns // 1_000_000)
