"""What traces of a frame's rows give to the program that has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from lineage_emitter import scope
from lineage_emitter.errors import TracingError
from lineage_query.showing import ItemGroup, NotebookDisplay, Showing, rows_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lineage_core.recipe.document import Recipe, Source
    from lineage_dataframes.sources.witnesses import Witnesses
    from lineage_dataframes.trace.forward import ForwardRows

IN_PLAN = "plan:"
"""What the name of a node of the plan begins with, where rows stand in it."""

_traced_sessions: WeakSet[Any] = WeakSet()
"""Spark sessions that answers' rows are read in: frames that are made of these have the same one."""


def is_traced_frame(frame: Any) -> bool:
    """Whether a frame is made of rows of an answer: to look at them is no part of the job."""
    return bool(_traced_sessions) and getattr(frame, "sparkSession", None) in _traced_sessions


class TracedRows(NotebookDisplay):
    """What a trace in a program found, and what is said of it."""

    found: ForwardRows | Witnesses

    @property
    def exact(self) -> bool:
        return self.found.exact

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.found.reasons

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.found.warnings

    @property
    def count(self) -> int:
        return self.found.count


class OutputRows(TracedRows):
    """Rows of a frame that a row of a source went into: `rows`, tuples of the values of `columns`.

    ``exact``: just those; else ``reasons`` say why there may be more. A value that can't be computed anew is
    ``lineage_dataframes.sources.unknown_value.UNKNOWN``, and ``warnings`` say so.
    """

    found: ForwardRows

    def __init__(self, found: ForwardRows) -> None:
        self.found = found

    @property
    def columns(self) -> tuple[str, ...]:
        return self.found.columns

    @property
    def rows(self) -> tuple[tuple[Any, ...], ...]:
        return self.found.rows

    def __repr__(self) -> str:
        return f"<OutputRows: {rows_text(self.count)}, {_exactness(self.exact)}>"

    def _showing(self, limit: int) -> Showing:
        from lineage_dataframes.sources.row_texts import text_of_row

        rows = self.rows[:limit]
        texts = [(text_of_row(self.columns, row), None) for row in rows]
        groups = (
            [ItemGroup(rows_text(self.count), texts, self.count - len(rows))] if self.count else []
        )
        return Showing(groups, self.reasons, (), self.warnings)


class FrameRows(TracedRows):
    """Rows of sources. ``exact``: just those that were used; else ``reasons`` say why there may be more."""

    found: Witnesses

    def __init__(self, spark: SparkSession, recipe: Recipe, found: Witnesses) -> None:
        self._spark = spark
        self._recipe = recipe
        self.found = found

    @property
    def paths(self) -> list[str]:
        """The sources that have some of the rows: paths or tables."""
        return [source.name or "" for source in self._sources()]

    def rows(self, path: str | None = None) -> DataFrame:
        """The rows of one source as a frame of its columns; ``path`` is needed where there are several.

        What only looks at them (``show``, ``collect`` ...) is no part of the job, so it is not recorded;
        what writes them is.

        Raises:
            TracingError: there are several sources (none), or none of that path.
        """
        sources_by_name = {source.name or "": source for source in self._sources()}
        if path is None and len(sources_by_name) == 1:
            (path,) = sources_by_name
        if path not in sources_by_name:
            raise TracingError(
                f"rows of which source? There are {', '.join(sources_by_name) or 'none'}"
            )
        with scope.suspended():
            rows = self._rows(sources_by_name[path])
        _traced_sessions.add(rows.sparkSession)
        return rows

    def _rows(self, source: Source) -> DataFrame:
        from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN
        from lineage_dataframes.trace.rows import rows_at

        source_number = self._recipe.sources.index(source)
        ordinals_by_file = {
            path: rows for (of, path), rows in self.found.rows.items() if of == source_number
        }
        return rows_at(self._spark, self._recipe, source, ordinals_by_file).drop(
            FILE_COLUMN, ROW_COLUMN
        )

    @property
    def _places(self) -> set[int | None]:
        """The places of the sources that have some of the rows in the recipe; None: the program itself has some."""
        return {source_number for source_number, _ in self.found.rows}

    def _sources(self) -> list[Source]:
        places = sorted(
            source_number for source_number in self._places if source_number is not None
        )
        return [self._recipe.sources[source_number] for source_number in places]

    def __repr__(self) -> str:
        many = len(self._places)
        of = f"{many} source" if many == 1 else f"{many} sources"
        return f"<FrameRows: {rows_text(self.count)} of {of}, {_exactness(self.exact)}>"

    def _showing(self, limit: int) -> Showing:
        with scope.suspended():
            return Showing(list(self._shown(limit)), self.reasons, (), self.warnings)

    def _shown(self, many: int) -> Iterator[ItemGroup]:
        from lineage_dataframes.sources.locations import row_locations
        from lineage_dataframes.sources.row_texts import text_of_plan_row
        from lineage_dataframes.trace.rows import texts_at

        for source_number in sorted(self._places, key=lambda item: -1 if item is None else item):
            source = None if source_number is None else self._recipe.sources[source_number]
            listed, count = list[tuple[str, str | None]](), 0
            for (of, path), ordinals in sorted(
                self.found.rows.items(), key=lambda item: item[0][1]
            ):
                if of != source_number:
                    continue
                count += len(ordinals)
                shown_ordinals = ordinals[: max(0, many - len(listed))]
                if not len(shown_ordinals):
                    continue
                texts: Iterable[str | None]
                if source is None:
                    node = self._recipe.plan[int(path.removeprefix(IN_PLAN))]
                    texts = [text_of_plan_row(node, item) for item in shown_ordinals.tolist()]
                else:
                    texts = texts_at(self._spark, self._recipe, source, path, shown_ordinals)
                listed += zip(
                    row_locations(self._spark, source, path, shown_ordinals), texts, strict=True
                )
            name = "the program" if source is None else source.name
            yield ItemGroup(f"{rows_text(count)} of {name}", listed, count - len(listed))


def _exactness(exact: bool) -> str:
    return "exact" if exact else "superset"
