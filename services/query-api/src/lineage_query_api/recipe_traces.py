"""Traces of DataFrames' rows: answers of queries, the last of which are kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from importlib.util import find_spec
from typing import TYPE_CHECKING

from lineage_core.contract.address import named_space
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import NodeItems, TraceError
from lineage_query.answers import Answer, Group
from lineage_query.engine import TraceQuery, continues_in
from lineage_query.recipe_rows import RecipePlace
from lineage_query.rows.reader import RootedReader, RowReader
from lineage_query.rows.standing import has_changed
from lineage_query.snapshot import ApplicationSnapshot
from lineage_query.trace import Trace
from lineage_query_api.errors import ProblemError, no_rows, partly
from lineage_query_api.masking import masked_answer
from lineage_query_api.models import TraceRequest
from lineage_query_api.settings import QueryApiSettings
from lineage_query_api.spark_session_holder import ELSEWHERE, SparkSessionHolder
from lineage_query_api.visibility import VisibleApplication
from lineage_query_api.visible_store import VisibleReader
from lineage_store.port import GraphStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWERS_KEPT = 32
ITEMS_KEPT = 10_000
"""Items of each node that a kept answer has."""


@dataclass(frozen=True, slots=True)
class Computed:
    """An answer of queries over DataFrames' recipes.

    ``records``: the trace of an RDD's records that it goes on from; None where rows of DataFrames were asked for.
    """

    answer: Answer
    records: Trace | None = None

    def way(self) -> dict[str, NodeItems] | None:
        """The records that take part, by node; without the names of rows, where the answer has these."""
        if self.records is None:
            return None
        ends = {group.node for group in self.answer.groups}
        return {
            node: items if node in ends else NodeItems(node, _unnamed(items))
            for node, items in self.records.result.passed.items()
        }


def _unnamed(items: NodeItems) -> dict[str, Region]:
    named = named_space(items.node)
    return {space: region for space, region in items.spaces.items() if space != named}


@dataclass(frozen=True, slots=True)
class RecipeTrace:
    """A trace of DataFrames' rows: what was asked, and all that is known of the answer."""

    id: str
    opened: ApplicationSnapshot
    request: TraceRequest
    answer: Answer
    valued: bool
    """Its rows were asked for by their values."""
    way: Mapping[str, int] | None
    """Of a trace that goes on from an RDD's records: how many of them take part, by node."""

    @property
    def count(self) -> int:
        """Items that were found."""
        return sum(group.count for group in self.answer.groups)


class RecipeTraces:
    """Answers questions about rows of DataFrames. May be shared by threads."""

    def __init__(
        self,
        store: GraphStore,
        reader: RowReader,
        settings: QueryApiSettings,
        shared: RecipeTraces | None = None,
        scope: Hashable = None,
        look: VisibleApplication | None = None,
    ) -> None:
        """``shared``: those of the whole store, with which it shares Spark and what is kept, each ``scope`` its own.

        ``look``: of the one application that the store holds, where something of it is hidden or masked.
        """
        self._look = look
        self._store = store
        self._reader = reader
        self._scope = scope
        self._spark: SparkSessionHolder | None
        self._kept: OrderedDict[tuple[Hashable, str], RecipeTrace]
        if shared is None:
            roots = reader.roots if isinstance(reader, RootedReader) else None
            self._spark = SparkSessionHolder(settings, roots) if settings.spark_master else None
            self._lock = threading.Lock()
            self._kept = OrderedDict()
        else:
            self._spark, self._lock, self._kept = shared._spark, shared._lock, shared._kept

    def continues_in(self, question: TraceQuery, traced: Trace) -> bool:
        """Whether a trace of records is to go on through DataFrames here."""
        if self._look is not None and not self._look.traceable:
            raise partly()
        return self._spark is not None and continues_in(question, traced)

    def go_on(self, question: TraceQuery, traced: Trace, *, rows: bool) -> Answer:
        """The answer to a question about records, through the DataFrames whose rows they are.

        Raises:
            LineageError, ProblemError: as :meth:`ask`.
        """

        def through(session: SparkSession, limited: TraceQuery) -> Answer:
            from lineage_dataframes.rewrite.functions import NO_CODE
            from lineage_dataframes.trace.crossing import answer_through

            return answer_through(session, self._store, self._reader, limited, traced, key=NO_CODE)

        assert self._spark is not None
        from lineage_dataframes.trace.overwritten import check_files_of_trace

        check_files_of_trace(self._store, self._reader, question, traced)
        return self._spark.run(lambda session: _answer(session, question, through, rows=rows))

    def ask(self, question: TraceQuery, noted: RecipePlace, *, rows: bool) -> Answer:
        """The answer to a question. ``rows``: whoever asks may read what rows say.

        Raises:
            TraceError: this server has no Spark.
            LineageError: no sound trace, or a file of it may not be read.
            ProblemError: 403 where values are asked for without the right to; Spark does not start or
                takes too long.
        """
        if noted.valued is not None and not rows:
            raise no_rows()
        if self._look is not None:
            if noted.valued is not None or not (self._look.traceable and self._look.of_frames):
                raise partly()
            # What Spark says of a row that it can't compute may hold its values.
            rows = False
        if self._spark is None:
            raise TraceError(
                f"{noted.place} names rows of a DataFrame (node {noted.nodes[0]} of {noted.app}): they are traced "
                f"by Spark, which this server has not (LINEAGE_SPARK_MASTER is not set): {ELSEWHERE}"
            )

        reader = (
            self._reader.computing() if isinstance(self._reader, VisibleReader) else self._reader
        )

        def trace(session: SparkSession, limited: TraceQuery) -> Answer:
            from lineage_dataframes.rewrite.functions import NO_CODE
            from lineage_dataframes.trace.query import trace_recipe_row

            return trace_recipe_row(session, self._store, reader, limited, noted, key=NO_CODE)

        if find_spec("lineage_dataframes") is not None:
            from lineage_dataframes.trace.overwritten import check_files_of_query

            check_files_of_query(self._store, self._reader, question, noted)
        found = self._spark.run(lambda session: _answer(session, question, trace, rows=rows))
        if self._look is None:
            return found
        assert isinstance(self._reader, VisibleReader)
        return masked_answer(found, self._look, self._reader.header)

    def looked_up(self, question: TraceQuery, traced: Trace, *, rows: bool) -> Answer:
        """What a trace along materialised flows says, as an answer of the application that these are of."""
        if self._look is not None:
            raise partly()
        limit = ITEMS_KEPT if question.limit is None else min(question.limit, ITEMS_KEPT)
        answer = traced.answer(limit, texts=question.texts and rows)

        def named(group: Group) -> Group:
            # Its own addresses are those of the flows.
            items = (replace(one, address=one.location or one.address) for one in group.items)
            return replace(group, items=tuple(items))

        return _bounded(
            replace(
                answer,
                app=question.app or answer.app,
                start=tuple(map(named, answer.start)),
                groups=tuple(map(named, answer.groups)),
            )
        )

    def keep(self, trace: RecipeTrace) -> None:
        """Have a trace again when it is asked for again."""
        with self._lock:
            self._kept[self._scope, trace.id] = trace
            while len(self._kept) > ANSWERS_KEPT:
                self._kept.popitem(last=False)

    def kept(self, key: str, opened: ApplicationSnapshot, *, rows: bool) -> RecipeTrace | None:
        """A trace that was made before, of the same lineage.

        Raises:
            ProblemError: 403, as :meth:`ask`.
        """
        with self._lock:
            found = self._kept.get((self._scope, key))
            if found is None or not _same(found.opened, opened):
                return None
            self._kept.move_to_end((self._scope, key))
        if _files_changed(found, opened):
            self.drop(key)
            return None
        if found.valued and not rows:
            raise no_rows()
        return found

    def drop(self, key: str) -> None:
        """Compute a trace anew when it is asked for again."""
        with self._lock:
            self._kept.pop((self._scope, key), None)

    def forget(self, app: str) -> None:
        """Keep no trace of an application."""
        with self._lock:
            for key in [key for key, one in self._kept.items() if one.opened.app == app]:
                del self._kept[key]

    def lacking(self) -> str:
        """What keeps its Spark from being confined as the settings ask; empty: nothing does, or there is none."""
        return "" if self._spark is None else self._spark.lacking()

    def close(self) -> None:
        """Stop Spark."""
        if self._spark is not None:
            self._spark.close()


def _files_changed(trace: RecipeTrace, opened: ApplicationSnapshot) -> bool:
    """Whether files of the rows in an answer are not any more what they were: it is computed anew, or refused."""
    locations = opened.locations.as_now()
    nodes = {group.node for group in (*trace.answer.start, *trace.answer.groups)}
    return any(has_changed(one) for node in nodes for one in locations.standings(node).values())


def _answer(
    session: SparkSession,
    question: TraceQuery,
    trace: Callable[[SparkSession, TraceQuery], Answer],
    *,
    rows: bool,
) -> Answer:
    """What ``trace`` answers, as much of it as is listed."""
    from lineage_dataframes.errors import NotComputedError

    limit = ITEMS_KEPT if question.limit is None else min(question.limit, ITEMS_KEPT)
    try:
        answer = trace(session, replace(question, limit=limit))
    except NotComputedError as error:
        if rows:
            raise
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "Spark can't compute the plan anew",
            hint="why may hold values of rows: ask for a token with the right to read rows",
        ) from error
    return _bounded(answer)


def _bounded(answer: Answer) -> Answer:
    """The answer, which says so where it does not list all items that would be kept."""
    if all(group.count <= ITEMS_KEPT for group in answer.groups):
        return answer
    told = f"of each node the first {ITEMS_KEPT:,} items are listed"
    return replace(answer, warnings=(*answer.warnings, told))


def _same(one: ApplicationSnapshot, other: ApplicationSnapshot) -> bool:
    """Whether nothing has come to an application's lineage: what is incomplete is opened over and over."""
    return one is other or (one.nodes == other.nodes and one.verdict == other.verdict)
