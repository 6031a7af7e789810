"""Tracing rows of a DataFrame from the program that has it: ``df.lineage().back(row)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from lineage_emitter import scope
from lineage_emitter.dataframes.plans import recipe_of
from lineage_emitter.dataframes.replayed_frames import ReplayedRows, SmallestRows
from lineage_emitter.dataframes.traced_frames import FrameRows, OutputRows
from lineage_emitter.sdk.checksums import Checksums
from lineage_query.minimising import PassingTestError, stop_after
from lineage_query.row_tests import FAILING_MAX, failing_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lineage_core.recipe.document import Recipe

ROWS_TESTED_MAX = 1_000_000
"""Rows of a frame that are tested where none are named: they are in memory meanwhile."""
LOCATION_FORMS = "say PATH:LINE of files of lines, PATH#ROW of others"


def frame_lineage(frame: DataFrame) -> FrameLineage:
    """The lineage of a frame's rows, as the frame would give them now; it needs no store.

    Raises:
        ValueError: the plan can't be recorded.
    """
    with scope.suspended():
        return FrameLineage(frame, _with_checksums(recipe_of(frame)))


def _with_checksums(recipe: Recipe) -> Recipe:
    """The recipe with checksums of its sources' files: one that is only touched has not changed."""
    checksums = Checksums()
    return replace(
        recipe,
        sources=tuple(
            replace(
                source,
                files=tuple(
                    replace(file, checksum=checksums.of(file, source.format))
                    for file in source.files
                ),
            )
            for source in recipe.sources
        ),
    )


def lineage_property(frame: DataFrame) -> Any:
    """``df.lineage``: the method, or the column of that name where the frame has one."""
    if "lineage" in frame.columns:
        return frame["lineage"]
    return partial(frame_lineage, frame)


class FrameLineage:
    """Where rows of a frame come from. Each question is a query (see :mod:`lineage_dataframes.trace.backward`)."""

    def __init__(self, frame: DataFrame, recipe: Recipe) -> None:
        self._frame = frame
        self._spark = frame.sparkSession
        self.recipe = recipe

    def back(self, *rows: Any, where: str | None = None, as_now: bool = False) -> FrameRows:
        """The rows of sources that some rows were made from.

        Args:
            rows: as the frame gave them. What has names (a ``Row``, a dictionary, a row of pandas, a named tuple) is
                taken by the names of columns, and may have some of them: then all rows with these values are meant.
                A tuple or list has all columns in order.
            where: instead, a condition in SQL over the frame's columns. Neither: all rows.
            as_now: trace over the sources' files as they are now, where these have changed. The answer is then not
                exact, and its reasons say which files changed.

        Raises:
            RefusedError: the plan does not allow a sound trace.
            ChangedSourceError: a source is not what it was when the frame was made.
            RowError: the frame has no such row or column, or a value is none of its column.
        """
        from lineage_dataframes.trace.backward import trace_backward

        with scope.suspended():
            recipe, now = self._recipe(as_now=as_now)
            if rows:
                witnesses = trace_backward(self._spark, recipe, list(rows))
            else:
                witnesses = trace_backward(self._spark, recipe, where=where)
        return FrameRows(
            self._spark, recipe, replace(witnesses, reasons=(*now, *witnesses.reasons))
        )

    def forward(self, place: str, *, as_now: bool = False) -> OutputRows:
        """The frame's rows that a row of a source went into.

        Args:
            place: ``PATH:LINE`` of files of lines, ``PATH#ROW`` (from 0) of others.
            as_now: as in `back`.

        Raises:
            RefusedError: the plan does not allow a sound trace.
            ChangedSourceError: a source is not what it was when the frame was made.
            RowError, LocationError: there is no such row, or the frame does not read its file.
        """
        from lineage_dataframes.errors import RowError
        from lineage_dataframes.trace.forward import trace_forward
        from lineage_dataframes.trace.rows import find_source, ordinal_in_file
        from lineage_query.rows.places import parse_location

        location = parse_location(place)
        recipe, now = self._recipe(as_now=as_now)
        source, file = find_source(recipe.sources, location)
        if location.number is None:
            raise RowError(f"{place} names no row: {LOCATION_FORMS}")
        with scope.suspended():
            row = ordinal_in_file(
                self._spark, source, file, location.number, line=location.unit == "line"
            )
            outcome = trace_forward(self._spark, recipe, {file.path: [row]})
        return OutputRows(replace(outcome, reasons=(*now, *outcome.reasons)))

    def replay(
        self, *rows: Any, where: str | None = None, exclude: str | Sequence[str] = ()
    ) -> ReplayedRows:
        """Some rows again: of the rows that they were made from alone, or without some rows of sources.

        Args:
            rows: as in `back`.
            where: as in `back`.
            exclude: places of rows of sources that are left out: ``PATH:LINE``, ``PATH#ROW`` or ``SOURCE#COLUMN=VALUE``.

        Raises:
            RefusedError: the plan can't be computed over these rows, or gives too many.
            ChangedSourceError: a source is not what it was when the frame was made.
            RowError, LocationError: there is no such row.
        """
        from lineage_dataframes.trace.replay import Replayer, RequestedOutput
        from lineage_dataframes.trace.source_rows import source_rows_at

        places = [exclude] if isinstance(exclude, str) else list(exclude)
        requested = RequestedOutput(rows=tuple(rows), where="" if rows else where or "true")
        with scope.suspended():
            left_out = source_rows_at(self._spark, self.recipe, places)
            return ReplayedRows(Replayer(self._spark, self.recipe, requested).replay(left_out))

    def sift(
        self,
        test: Callable[[Mapping[str, Any]], object],
        *rows: Any,
        where: str | None = None,
        runs_max: int | None = None,
        timeout_s: float | None = None,
    ) -> SmallestRows:
        """The smallest set of rows of sources that still gives a row which fails a test.

        Args:
            test: gets a row as a dictionary. The row fails where it raises AssertionError, or returns what is false, but not None.
            rows: as in `back`: what they were made from is searched.
            where: as in `back`. Neither: the rows that fail among all that the frame gives, of which there may be `ROWS_TESTED_MAX`, and
                of these the one that shares what it was made from with most others.
            runs_max: ends the search after so many runs of the plan, with the best set so far.
            timeout_s: ends it after so many seconds.

        Raises:
            PassingTestError: no row fails, or none does on what it was made from alone.
            UnsteadyTestError: the test, or the plan, does not give the same each time.
            RefusedError: the plan can't be computed over some rows, or the frame has too many.
            ChangedSourceError: a source is not what it was when the frame was made.
            RowError: the frame has no such row or column.
        """
        from lineage_dataframes.sources.witnesses import Witnesses
        from lineage_dataframes.trace.replay import RequestedOutput
        from lineage_dataframes.trace.sifting import sift_failing, sift_requested
        from lineage_dataframes.trace.source_rows import places_and_texts

        fails = failing_by(test, getattr(test, "__name__", "the test"))
        stop = stop_after(runs_max, timeout_s)
        with scope.suspended():
            if rows or where is not None:
                requested = RequestedOutput(rows=tuple(rows), where="" if rows else where or "true")
                found = sift_requested(self._spark, self.recipe, requested, fails, stop)
            else:
                failing = self._failing(fails)
                outputs = [RequestedOutput(rows=(row,)) for row in failing]
                _, found = sift_failing(
                    self._spark, self.recipe, failing, outputs, fails, stop, are_stored=False
                )
            texts = places_and_texts(self._spark, self.recipe, found.rows)
        by_source: dict[tuple[int | None, str], Any] = {}
        by_source.update((at, ordinals) for at, ordinals in found.rows.items() if len(ordinals))
        smallest = FrameRows(self._spark, self.recipe, Witnesses(by_source, matched=1))
        return SmallestRows(found, smallest, list(texts.values()))

    def _failing(self, fails: Callable[[Mapping[str, Any]], bool]) -> list[tuple[Any, ...]]:
        """The first of the frame's rows that fail."""
        from lineage_dataframes.errors import RefusedError
        from lineage_dataframes.spark.pyspark_parts import to_arrow
        from lineage_dataframes.trace.replay import values_of_rows
        from lineage_dataframes.trace.session import translate_spark_errors

        with translate_spark_errors():
            table = to_arrow(self._frame.limit(ROWS_TESTED_MAX + 1))
        if table.num_rows > ROWS_TESTED_MAX:
            raise RefusedError(
                f"the frame has more than {ROWS_TESTED_MAX:,} rows: give rows that fail, or a condition"
            )
        rows = values_of_rows(table)
        names = self._frame.columns
        failing = (row for row in rows if fails(dict(zip(names, row, strict=True))))
        found = list(islice(failing, FAILING_MAX))
        if not found:
            raise PassingTestError("no row of the frame fails the test")
        return found

    def _recipe(self, *, as_now: bool) -> tuple[Recipe, tuple[str, ...]]:
        """The recipe, over files as they are now if that is wanted, and what has changed in these."""
        from lineage_dataframes.trace import overwritten

        if not as_now:
            return self.recipe, ()
        current = overwritten.current_recipe(self.recipe)
        return current.recipe, current.reasons
