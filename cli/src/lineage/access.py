"""Where commands get their answers: a store of this machine or Neo4j, or a server of the query API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import IO, TYPE_CHECKING, Protocol, Self, TypeAlias

from lineage.background.asking import answered
from lineage.options import SERVER_SCHEMES, asker
from lineage_core.graph import LinkRecord, NodeRecord
from lineage_core.trace_result import TraceError
from lineage_core.verdict import Verdict
from lineage_store.answers import Answer
from lineage_store.asking import Question, goes_on
from lineage_store.finding import find_application
from lineage_store.materialised_flows import LookedUp, MaterialisedFlows, best
from lineage_store.noted import NotedPlace, NotedRowError, noted_by_values, output_called
from lineage_store.opening import index_folder, open_store
from lineage_store.port import ApplicationRecord, GraphStore
from lineage_store.rows import RowReader
from lineage_store.traced import Traced
from lineage_store.verdicts import verdict_of, with_reasons

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_store.exports import Exported, Options
    from lineage_store.openlineage.naming import Naming
    from lineage_store.openlineage.sending import OpenLineageRun
    from lineage_store.record_views import ViewMade, ViewWanted

Sessions: TypeAlias = "Callable[[], AbstractContextManager[SparkSession]]"
"""Gives a session of Spark for the while."""

Output: TypeAlias = Callable[[], AbstractContextManager[IO[bytes]]]
"""Opens what a file is written to."""


class Access(Protocol):
    """What commands ask. Names of applications are ids, beginnings of ids, or ``latest``."""

    def applications(self) -> Sequence[ApplicationRecord]:
        """All applications, the latest first."""

    def find(self, name: str) -> str:
        """The whole id of an application.

        Raises:
            NotFoundError: there is none, or more than one.
        """

    def graph(self, name: str) -> tuple[str, Sequence[NodeRecord], Sequence[LinkRecord]]:
        """An application's id, its nodes (as exact as the verdict says) and their links."""

    def verdict(self, app: str) -> Verdict:
        """Whether the lineage of an application is complete.

        Raises:
            KeyError: there is no such application.
        """

    def answerable(self, app: str, verdict: Verdict, most_s: float | None = None) -> Verdict:
        """The verdict with whether rows of all outputs can be traced.

        ``most_s``: seconds after which outputs are left unchecked; None: all are looked at.
        """

    def probed(self, app: str, verdict: Verdict, rows: int) -> Verdict:
        """The verdict with what came of tracing so many rows of each DataFrame's output.

        Raises:
            TraceError: no Spark can be had here.
        """

    def ask(self, question: Question) -> Answer:
        """Where rows come from, or where they went."""

    def ask_where(self, question: Question, where: str) -> Answer:
        """Where the rows of a DataFrame's output come from that fulfil a condition."""

    def dump(self, name: str) -> Iterator[str]:
        """All lineage of an application, line by line."""

    def delete(self, app: str) -> None:
        """Remove all lineage of an application."""

    def export(self, question: Question, name: str, output: Output, options: Options) -> Exported:
        """Write a trace as a file of a format; ``output`` is opened once there is one to write."""

    def openlineage(self, name: str, naming: Naming) -> OpenLineageRun:
        """What OpenLineage is told of an application."""

    def create_view(
        self, name: str, wanted: ViewWanted, report: Callable[[int, int], None] | None
    ) -> ViewMade:
        """Write an application's record-level view; ``report`` hears how much is done of how much."""

    def remove_view(self, name: str) -> tuple[str, int]:
        """Remove it: the application's id, and how many flows the view had."""

    def close(self) -> None:
        """Release what is held."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class StoredAccess:
    """Answers from a store."""

    def __init__(self, store: GraphStore, url: str, spark: Sessions | None = None) -> None:
        """``spark``: gives the session that traces rows of DataFrames; None: a background one, or one of this process."""
        self.store = store
        self._url = url
        self._spark = spark

    def applications(self) -> Sequence[ApplicationRecord]:
        return self.store.applications()

    def find(self, name: str) -> str:
        return find_application(self.store, name)

    def graph(self, name: str) -> tuple[str, Sequence[NodeRecord], Sequence[LinkRecord]]:
        app = self.find(name)
        lineage = self.store.graph(app)
        return app, with_reasons(lineage.nodes(), self.verdict(app).superset), lineage.links()

    def verdict(self, app: str) -> Verdict:
        return verdict_of(self.store, app)

    def answerable(self, app: str, verdict: Verdict, most_s: float | None = None) -> Verdict:
        if not verdict.recipes_received:
            return verdict
        # Loads PySpark, which who has no DataFrames need not wait for.
        from lineage_frames.answerable import with_answerable

        return with_answerable(self.store, app, verdict, most_s=most_s)

    def probed(self, app: str, verdict: Verdict, rows: int) -> Verdict:
        if not verdict.recipes_received:
            return verdict
        from lineage.frame_traces import spark_session
        from lineage_frames.probing import probed

        with spark_session() as spark:
            return probed(spark, self.store, app, verdict, rows=rows)

    def ask(self, question: Question) -> Answer:
        noted = noted_by_values(self.store, question.places, question.direction, question.app)
        if noted is None:
            try:
                traced = asker(self.store, self._url).trace(question)
            except NotedRowError as error:
                noted = NotedPlace.of(error)
            else:
                return self._answer(question, traced)
        found = self._best(question, noted, self._looked_up(question, noted))
        if isinstance(found, Answer):
            return found
        return found.answer(question.limit, texts=question.texts)

    def _looked_up(self, question: Question, noted: NotedPlace) -> LookedUp | None:
        reader = RowReader(index_folder(self._url))
        return MaterialisedFlows(self.store, reader).look_up(question, noted)

    def _best(
        self, question: Question, noted: NotedPlace, looked_up: LookedUp | None
    ) -> Traced | Answer:
        """What was materialised, or what a query says."""
        by_query = question.app is not None
        return best(
            looked_up, question, noted, lambda: self._ask_noted(question, noted), by_query=by_query
        )

    def _answer(self, question: Question, traced: Traced) -> Answer:
        """The answer, through DataFrames whose rows are among the records that were found, or that these became."""
        if not goes_on(question, traced):
            return traced.answer(question.limit, texts=question.texts)
        found = self._in_background(question)
        if found is not None:
            return found
        # Loads PySpark, which who asks a session need not wait for.
        from lineage.frame_traces import traced_through

        return traced_through(self.store, question, traced, self._spark)

    def ask_where(self, question: Question, where: str) -> Answer:
        if len(question.places) != 1:
            raise TraceError("--where takes one output: its path, its table or its node")
        noted = output_called(self.store, question.places[0], question.app)
        return self._ask_noted(question, noted, where)

    def _ask_noted(self, question: Question, noted: NotedPlace, where: str = "") -> Answer:
        found = self._in_background(question, where)
        if found is not None:
            return found
        from lineage.frame_traces import traced

        return traced(self.store, question, noted, where, self._spark)

    def _in_background(self, question: Question, where: str = "") -> Answer | None:
        """The answer of a background session, unless a Spark was given."""
        return None if self._spark is not None else answered(self._url, question, where)

    def dump(self, name: str) -> Iterator[str]:
        from lineage_store.dump import dump_application

        return iter(dump_application(self.store, self.find(name)))

    def delete(self, app: str) -> None:
        from lineage.linking import remove_spool

        self.store.delete(app)
        remove_spool(self._url, app)

    def export(self, question: Question, name: str, output: Output, options: Options) -> Exported:
        from lineage_store.exports import exported, exported_answer, exported_through, format_of

        noted = noted_by_values(self.store, question.places, question.direction, question.app)
        if noted is None:
            try:
                traced = asker(self.store, self._url).trace(question)
            except NotedRowError as error:
                noted = NotedPlace.of(error)
            else:
                if format_of(name).table is None or not goes_on(question, traced):
                    with output() as stream:
                        return exported(traced, name, stream, options)
                answer = self._answer(replace(question, texts=options.texts), traced)
                with output() as stream:
                    return exported_through(traced, answer, name, stream, options)
        looked_up = self._looked_up(question, noted)
        found: Traced | Answer
        if looked_up is not None and format_of(name).table is None:
            # A query has no derivations.
            found = looked_up.traced
        else:
            found = self._best(replace(question, texts=options.texts), noted, looked_up)
        with output() as stream:
            if isinstance(found, Answer):
                return exported_answer(found, name, stream, options)
            return exported(found, name, stream, options)

    def openlineage(self, name: str, naming: Naming) -> OpenLineageRun:
        from lineage_store.openlineage.facts import facts_of
        from lineage_store.openlineage.sending import run_of

        return run_of(facts_of(self.store, self.find(name), naming=naming))

    def create_view(
        self, name: str, wanted: ViewWanted, report: Callable[[int, int], None] | None
    ) -> ViewMade:
        from lineage_store.neo4j.record_view import view_of
        from lineage_store.record_views import ViewMade, flows_wanted

        app = self.find(name)
        view = view_of(self.store, app)
        asking = asker(self.store, self._url)
        flows, warnings = flows_wanted(
            app, self.store.graph(app), wanted, asking.trace, asking.locations
        )
        view.create(flows, report and (lambda at: report(at.done, at.total)))
        return ViewMade.of(flows, warnings)

    def remove_view(self, name: str) -> tuple[str, int]:
        from lineage_store.neo4j.record_view import view_of

        app = self.find(name)
        return app, view_of(self.store, app).remove()

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_access(url: str) -> Access:
    """What answers for ``--store``.

    Raises:
        StoreError: there is no such store, or no server answers.
    """
    if url.startswith(SERVER_SCHEMES):
        from lineage.served import ServedAccess

        return ServedAccess(url)
    return StoredAccess(open_store(url), url)
