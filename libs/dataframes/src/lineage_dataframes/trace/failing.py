"""The smallest set of rows of sources on which the plan of an action that failed still fails so.

The plan runs over parts of the rows of its sources, which are held in memory, and writes its rows nowhere. What is looked for is the error that
ended the action. There are no output rows to begin with, so all rows of the sources are searched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.names import KAFKA
from lineage_core.recipe.plan import Limit, Sample, Scan
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.rewrite.functions import register, runnable
from lineage_dataframes.sandbox.starting import confined_reason
from lineage_dataframes.sources.file_changes import check_local
from lineage_dataframes.sources.jdbc import live_sources
from lineage_dataframes.sources.views import (
    FILE_COLUMN,
    ROW_COLUMN,
    replace_views,
    view_name,
)
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, is_connected, to_arrow
from lineage_dataframes.trace.held_rows import (
    NUMBER_COLUMN,
    HeldRows,
    ReadRow,
    SourceRows,
    hold_rows,
    ordinals_of,
    source_rows,
    suspects_first,
)
from lineage_dataframes.trace.session import trace_session, translate_spark_errors
from lineage_query.minimising import (
    Minimised,
    PassingTestError,
    StoppedError,
    first_suspects,
    minimise,
)

ROWS_MAX = 1_000_000
"""Rows of all sources together that are searched."""
ORDER_CHECKED_ROWS = 32
"""Up to this many rows that are left are each left out in another order, too."""
OTHER_WORK = {"foreach", "foreachPartition", "toLocalIterator"}
"""Actions that do what is no part of their plan, or not all of it at once."""

QUERY_LOGGER = "SQLQueryContextLogger"

IsSought = Callable[[Exception], str]
"""What an error of Spark's says, where it is the one that is looked for, else an empty text."""


@dataclass(frozen=True)
class FailingRows:
    """What was found. ``places``: file and ordinal of each row; ``rows``: the same, by source; ``error``: what the plan ends with on them.

    ``searched``: how many rows the sources have.
    """

    places: tuple[tuple[str, int], ...]
    rows: SourceRows
    error: str
    searched: int
    found: Minimised


class FailingPlan:
    """The plan of an action that failed, over rows of its sources.

    Args:
        spark: any session of a Spark of this machine.
        recipe: of the action.
        is_sought: of what the plan fails.
        key: of the recipe's Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Raises:
        RefusedError: the plan can't be computed anew, or what it does depends on more than the rows.
        ChangedSourceError: a source is not what it was.
        FunctionsKeyError: the key can't be used.
    """

    def __init__(
        self, spark: SparkSession, recipe: Recipe, is_sought: IsSought, key: str | None = None
    ) -> None:
        _check(spark, recipe)
        code = runnable(spark, recipe, key)
        self._recipe, self._is_sought = code.recipe, is_sought
        self._session = trace_session(spark, recipe)
        register(self._session, self._recipe)
        self._sources = sorted({n.source for n in self._recipe.plan if isinstance(n, Scan)})
        self._held: dict[int, HeldRows] = {}
        self._said: dict[tuple[int, ...], str] = {}
        self._otherwise = ""
        self._builder = Builder(self._recipe)
        with code.explained():
            self._built = self._builder.build(len(self._recipe.plan) - 1, ids=False)
            unknown = [c.name for c in self._recipe.columns if c.id in self._built.unknown]
            if unknown:
                raise RefusedError(f"values of {', '.join(unknown)} can't be computed anew")
        if self._builder.checks:
            raise RefusedError(f"two runs of it may differ: {self._builder.checks[0][1]}")

    def search(self, stop: Callable[[int], str] = lambda _: "") -> FailingRows:
        """Search all rows of the sources for a smallest set.

        Args:
            stop: as in `lineage_query.minimising.minimise`.

        Raises:
            PassingTestError: the plan does not fail so on all rows.
            UnsteadyTestError, RefusedError: it does not do the same each time, or in each order of the rows.
            ChangedSourceError: a source was written meanwhile.
            StoppedError: it was stopped in its first run.
        """
        with _quietly(), self._holding_all():
            elements = _elements(self._held)
            suspects = suspects_first(elements, self._held.values())

            def fails(chosen: Sequence[int]) -> bool:
                said = self._run(self._held, source_rows([elements[n] for n in chosen]))
                self._said = {tuple(chosen): said} if said else self._said
                return bool(said)

            try:
                found = minimise(len(elements), fails, stop, first_suspects(suspects))
            except PassingTestError:
                ended = f"ends with {self._otherwise}" if self._otherwise else "does not fail"
                raise PassingTestError(
                    f"computed anew over all {len(elements):,} rows of its sources, the plan {ended}: the error does not come again"
                ) from None
            chosen = [elements[n] for n in found.rows]
            rows = source_rows(chosen)
            error = self._said.get(found.rows) or self._run(self._held, rows)
            if found.one_minimal and len(chosen) > 1:
                found = replace(found, runs=found.runs + self._check_order(chosen))
        return FailingRows(tuple(place for place, _ in chosen), rows, error, len(elements), found)

    # Runs

    def _run(self, held: Mapping[int, HeldRows], rows: SourceRows) -> str:
        """What the plan says when it fails so over some rows; empty where it does not.

        Raises:
            StoppedError: its code requested what it is not given here.
        """
        for n, of_source in held.items():
            replace_views(n, of_source.chosen(ordinals_of(rows, n)))
        columns = ", ".join(f"c{column.id}" for column in self._recipe.columns) or "1"
        # To count its rows, Spark computes no column that decides on none.
        counts = self._recipe.output.action.rpartition(".")[2] in {"count", "isEmpty"}
        select = f"SELECT {'count(*)' if counts else columns} FROM {self._built.name}"
        try:
            frame = self._session.sql(self._builder.statement(select)).toDF(
                *(["n"] if counts else [f"v{n}" for n in range(columns.count(",") + 1)])
            )
            frame.write.format("noop").mode("overwrite").save()
        except SPARK_ERRORS as problem:
            withheld = confined_reason(problem)
            if withheld:
                raise StoppedError(f"a run that can't be judged: {withheld}") from problem
            said = self._is_sought(problem)
            if not said:
                self._otherwise = str(problem).strip().split("\n", 1)[0][:300]
            return said
        return ""

    def _check_order(self, chosen: Sequence[ReadRow]) -> int:
        """See that the verdict on the rows, and on all but one of them, is the same in the other order; how many runs that took.

        Raises:
            RefusedError: it is not.
        """
        runs = 0
        with ExitStack() as files:
            held: dict[int, HeldRows] = {}
            for n, of_source in self._held.items():
                rows = of_source.frame.where(
                    F.col(NUMBER_COLUMN).isin(_numbers(of_source, chosen, n))
                )
                # Kept in memory, or Spark leaves out the order where it thinks that none matters.
                rows = rows.orderBy(F.desc(NUMBER_COLUMN)).coalesce(1).cache()
                files.callback(rows.unpersist)
                held[n] = replace(of_source, frame=rows)
            parts = [chosen]
            if len(chosen) <= ORDER_CHECKED_ROWS:
                parts += [[*chosen[:n], *chosen[n + 1 :]] for n in range(len(chosen))]
            for part in parts:
                runs += 1
                if bool(self._run(held, source_rows(part))) != (part is chosen):
                    raise RefusedError(
                        "whether it fails depends on the order of the rows, which another run need not have: no smallest set can be named"
                    )
        return runs

    # Rows in memory

    @contextmanager
    def _holding_all(self) -> Iterator[None]:
        """In the body all rows of the sources are in memory."""
        left = ROWS_MAX
        try:
            for n in self._sources:
                complete = self._session.table(view_name(n))
                with translate_spark_errors():
                    places = to_arrow(complete.select(FILE_COLUMN, ROW_COLUMN).limit(left + 1))
                left -= places.num_rows
                if left < 0:
                    raise RefusedError(
                        f"its sources have more than {ROWS_MAX:,} rows, as many as are searched"
                    )
                paths = np.array(places[FILE_COLUMN].to_pylist(), object)
                numbers = places[ROW_COLUMN].to_numpy().astype(np.uint64)
                ordinals = {str(path): np.sort(numbers[paths == path]) for path in set(paths)}
                source = self._recipe.sources[n]
                with translate_spark_errors():
                    self._held[n] = hold_rows(self._session, source, complete, ordinals)
            for n in self._sources:
                check_local(self._recipe.sources[n])
            yield
        finally:
            held, self._held = self._held, {}
            for rows in held.values():
                rows.frame.unpersist()


@contextmanager
def _quietly() -> Iterator[None]:
    """PySpark logs each error of a query, with its stack; here errors are what is looked for."""
    logger = logging.getLogger(QUERY_LOGGER)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _check(spark: SparkSession, recipe: Recipe) -> None:
    """See that what the plan does is decided by rows that can be read again.

    Raises:
        RefusedError: it is not.
    """
    action = recipe.output.action.rpartition(".")[2]
    for source in live_sources(recipe):
        raise RefusedError(f"rows of {source.name} are as they are now, not as the job read them")
    if any(source.format == KAFKA for source in recipe.sources):
        raise RefusedError("records of topics are not searched")
    if is_connected(spark):
        raise RefusedError("a search needs a Spark of this machine, not one of Spark Connect")
    if action in OTHER_WORK:
        raise RefusedError(f"{action} may fail of what is no part of its plan")
    if recipe.output.limit is not None:
        raise RefusedError(
            f"{action} reads no more rows than it gives, and which these were is not known: collect or write the rows"
        )
    if any(isinstance(node, Limit | Sample) for node in recipe.plan):
        raise RefusedError("which rows its limit or sample takes depends on their order")
    if not any(isinstance(node, Scan) for node in recipe.plan):
        raise RefusedError("its plan reads no rows of files or tables")


def _elements(held: Mapping[int, HeldRows]) -> list[ReadRow]:
    """File and ordinal of each row, with the sources that read it: a file may be read as several."""
    sources: dict[tuple[str, int], list[int]] = {}
    for n, rows in held.items():
        for place in rows.places():
            sources.setdefault(place, []).append(n)
    return list(sources.items())


def _numbers(held: HeldRows, chosen: Sequence[ReadRow], source: int) -> list[int]:
    """The numbers of chosen rows among those that are held of a source."""
    places = {place for place, sources in chosen if source in sources}
    return [number for number, place in enumerate(held.places()) if place in places]
