"""What micro-batches made of rows that are followed: see `lineage_query.following`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from lineage_core.recipe.document import Recipe, Source
from lineage_dataframes.errors import FramesError, RefusedError
from lineage_dataframes.sources.file_changes import check_local, local_path
from lineage_dataframes.sources.locations import row_locations
from lineage_dataframes.sources.row_texts import text_of_row
from lineage_dataframes.sources.unknown_value import UNKNOWN
from lineage_dataframes.trace.allowed import check_recipe_allowed
from lineage_dataframes.trace.answers import wider_reason
from lineage_dataframes.trace.followed_rows import Place, rows_at
from lineage_dataframes.trace.forward import ForwardRows, trace_forward
from lineage_dataframes.trace.session import translate_spark_errors
from lineage_dataframes.trace.written_records import find_standing
from lineage_query.follow_events import Done, Event, Gap, Late, Made
from lineage_query.following_loop import Note, Waiting
from lineage_query.rows.reader import RowReader, reading_by
from lineage_store.paths import shown_path

ROWS_MAX = 1_000
"""Rows of one batch that are listed."""


@dataclass(frozen=True, slots=True)
class FollowedRow:
    """An output row. ``place``: where it stands; None: in no file that can be read. ``text``: its values; None: not known."""

    place: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class FollowedRows:
    """The rows that a batch made of the followed ones: the first, of ``count``. ``reasons``: why they may be too many."""

    rows: tuple[FollowedRow, ...]
    count: int
    reasons: tuple[str, ...] = ()


class RowTracing:
    """Computes rows on Spark. Implements `lineage_query.follow_events.Tracing`.

    Args:
        session: gives Spark's session.
        reader: says which files may be read.
        place: the rows: a row of a file, a whole file, or a record of a topic.
        key: of recipes' Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession],
        reader: RowReader,
        place: Place,
        key: str | None = None,
    ) -> None:
        self._session = session
        self._reader = reader
        self._followed = rows_at(place)
        self._key = key

    def rows(self, recipe: Recipe) -> FollowedRows:
        """The rows that a batch made of them.

        Raises:
            LineageError: that can't be traced.
        """
        with reading_by(self._reader), translate_spark_errors():
            check_recipe_allowed(recipe, self._reader)
            spark = self._session()
            rows = self._followed.ordinals(spark, recipe)
            if not rows:
                return FollowedRows((), 0)
            outcome = trace_forward(spark, recipe, rows, self._key)
            listed = self._listed(spark, recipe, outcome)
            _check_sources(recipe)
            return listed

    def ends(self, windows: Recipe, batch: Recipe) -> Sequence[int]:
        """The ends of the windows of the rows, in microseconds since 1970.

        Raises:
            LineageError: that is not known.
        """
        with reading_by(self._reader), translate_spark_errors():
            spark = self._session()
            if len(windows.sources) != 1:
                raise RefusedError("they are computed from several sources")
            source = self._followed.alone(windows.sources[0], batch)
            recipe = replace(windows, sources=(source,))
            check_recipe_allowed(recipe, self._reader)
            outcome = trace_forward(
                spark, recipe, self._followed.ordinals(spark, recipe), self._key
            )
            _check_sources(recipe)
            if outcome.reasons or any(row[0] is UNKNOWN for row in outcome.rows):
                raise RefusedError("; ".join(outcome.reasons) or "they can't be computed anew")
            return sorted({int(row[0]) for row in outcome.rows if row[0] is not None})

    def _listed(self, spark: SparkSession, recipe: Recipe, outcome: ForwardRows) -> FollowedRows:
        if not outcome.rows:
            return FollowedRows((), 0, outcome.reasons)
        try:
            output, standing = find_standing(spark, recipe, outcome.rows, with_texts=True)
        except FramesError:
            return _by_values(outcome, outcome.rows, outcome.reasons)
        reasons = outcome.reasons
        if standing.wider:
            reasons = (*reasons, wider_reason(recipe, computed=bool(outcome.warnings)))
        rows: list[FollowedRow] = []
        shown = sorted(standing.places)[:ROWS_MAX]
        for path, places in groupby(shown, key=lambda place: place[0]):
            ordinals = [ordinal for _, ordinal in places]
            names = _place_names(spark, recipe, output, path, np.array(ordinals, np.uint64))
            rows += [
                FollowedRow(name, standing.texts[path, ordinal])
                for name, ordinal in zip(names, ordinals, strict=True)
            ]
        others = _by_values(outcome, outcome.missing(recipe, output, standing), ())
        return FollowedRows(
            (*rows, *others.rows)[:ROWS_MAX], len(standing.places) + others.count, reasons
        )


def documents_of(event: Event[FollowedRows] | Note | Waiting) -> list[dict[str, Any]]:
    """An event in the JSON shape that tools rely on: a row, or a batch, each."""
    kind = type(event).__name__.lower()
    if isinstance(event, Gap | Done | Note | Waiting):
        return [{"event": kind, **asdict(event)}]
    batch = {"query": event.batch.query, "run": event.batch.run, "batch": event.batch.number}
    if isinstance(event, Late):
        return [{"event": kind, **batch, "count": event.count, "first": event.first}]
    if not isinstance(event, Made):
        return [{"event": kind, **batch}]
    made = event.rows
    facts = {"exact": not made.reasons, "reasons": list(made.reasons), "committed": event.committed}
    documents = [{"event": "row", **batch, **asdict(row), **facts} for row in made.rows]
    return [*documents, {"event": "made", **batch, "rows": made.count, **facts}]


def _place_names(
    spark: SparkSession, recipe: Recipe, output: Source, path: str, ordinals: NDArray[np.uint64]
) -> list[str]:
    local = local_path(path)
    shown = path if local is None else shown_path(str(local), recipe.output.path)
    return row_locations(spark, output, path, ordinals, shown)


def _by_values(
    outcome: ForwardRows, rows: Sequence[Sequence[Any]], reasons: tuple[str, ...]
) -> FollowedRows:
    """Rows that have no place."""
    listed = [FollowedRow(None, text_of_row(outcome.columns, row)) for row in rows[:ROWS_MAX]]
    return FollowedRows(tuple(listed), len(rows), reasons)


def _check_sources(recipe: Recipe) -> None:
    """See that no source has changed while it was read.

    Raises:
        FramesError: one has.
    """
    for source in recipe.sources:
        check_local(source)
