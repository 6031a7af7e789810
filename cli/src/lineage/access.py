"""Where commands get their answers: a store of this machine or Neo4j, or a server of the query API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from types import TracebackType
from typing import IO, TYPE_CHECKING, Protocol, Self, TypeAlias

from lineage.background.asking import answered
from lineage.servers import SERVER_SCHEMES
from lineage.spools import remove_spool
from lineage_core.contract.graph import LinkRecord, NodeRecord
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.trace_result import TraceError
from lineage_query.answers import Answer
from lineage_query.composing import answer_all
from lineage_query.engine import QueryEngine, TraceQuery, continues_in
from lineage_query.finding import find_application
from lineage_query.materialised_flows import LookedUp, MaterialisedFlows, best
from lineage_query.planning import Part, Plan, plan_of, plan_of_output
from lineage_query.recipe_rows import RecipePlace, RecipeRowError
from lineage_query.rows.reader import RowReader
from lineage_query.trace import Trace
from lineage_query.verdicts import verdict_of, with_reasons
from lineage_store.port import ApplicationRecord, GraphStore
from lineage_store.url import index_folder, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_openlineage.naming import Naming
    from lineage_openlineage.sending import OpenLineageRun
    from lineage_query.exports import Exported, Options
    from lineage_query.record_views import ViewMade, ViewWanted

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

    def ask(self, question: TraceQuery) -> Answer:
        """Where rows come from, or where they went."""

    def ask_where(self, question: TraceQuery, where: str) -> Answer:
        """Where the rows of a DataFrame's output come from that fulfil a condition."""

    def dump(self, name: str) -> Iterator[str]:
        """All lineage of an application, line by line."""

    def delete(self, app: str) -> None:
        """Remove all lineage of an application."""

    def export(self, question: TraceQuery, name: str, output: Output, options: Options) -> Exported:
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


class SparkSessionLease:
    """Spark for the parts of one question: started by the first that needs it, once.

    ``sessions``: gives it; None: this process's own, or one that is started.
    """

    def __init__(self, sessions: Sessions | None) -> None:
        self._sessions = sessions
        self._open = ExitStack()
        self._session: SparkSession | None = None
        self._problem: TraceError | None = None

    def session(self) -> SparkSession:
        """The session.

        Raises:
            TraceError: Spark does not start.
        """
        if self._problem is not None:
            raise self._problem
        if self._session is None:
            from lineage.frame_traces import spark_session

            try:
                self._session = self._open.enter_context((self._sessions or spark_session)())
            except TraceError as problem:
                self._problem = problem
                raise
        return self._session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


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
        from lineage_dataframes.trace.answerable import with_answerable

        return with_answerable(self.store, app, verdict, timeout_s=most_s)

    def probed(self, app: str, verdict: Verdict, rows: int) -> Verdict:
        if not verdict.recipes_received:
            return verdict
        from lineage.frame_traces import spark_session
        from lineage_dataframes.trace.probing import with_probes

        with spark_session() as spark:
            return with_probes(spark, self.store, app, verdict, rows=rows)

    def ask(self, question: TraceQuery) -> Answer:
        return self._ask(question, plan_of(self.store, RowReader(), question))

    def ask_where(self, question: TraceQuery, where: str) -> Answer:
        if len(question.places) != 1:
            raise TraceError("--where takes one output: its path, its table or its node")
        return self._ask(question, plan_of_output(self.store, RowReader(), question), where)

    def _ask(self, question: TraceQuery, plan: Plan, where: str = "") -> Answer:
        by_query = question.app is not None
        with SparkSessionLease(self._spark) as spark:
            return answer_all(
                question, plan, lambda part: self._part(part, spark, where, by_query=by_query)
            )

    def _part(self, part: Part, spark: SparkSessionLease, where: str, *, by_query: bool) -> Answer:
        """What one application answers; ``by_query`` as in :meth:`_best`."""
        question, noted = part.question, part.noted
        if noted is None:
            try:
                traced = asker(self.store, self._url).trace(question)
            except RecipeRowError as error:
                noted = RecipePlace.of(error)
            else:
                return self._answer(question, traced, spark)
        if where:
            return self._queried(question, noted, spark, where)
        looked_up = self._looked_up(question, noted)
        found = self._best(question, noted, looked_up, spark, by_query=by_query)
        if isinstance(found, Answer):
            return found
        return found.answer(question.limit, texts=question.texts)

    def _best(
        self,
        question: TraceQuery,
        noted: RecipePlace,
        looked_up: LookedUp | None,
        spark: SparkSessionLease,
        *,
        by_query: bool,
    ) -> Trace | Answer:
        """What was materialised, or what a query says. ``by_query``: a query where it can, also what was materialised."""
        return best(
            looked_up,
            question,
            noted,
            lambda: self._queried(question, noted, spark),
            by_query=by_query,
        )

    def _looked_up(self, question: TraceQuery, noted: RecipePlace) -> LookedUp | None:
        reader = RowReader(index_folder(self._url))
        return MaterialisedFlows(self.store, reader).look_up(question, noted)

    def _queried(
        self, question: TraceQuery, noted: RecipePlace, spark: SparkSessionLease, where: str = ""
    ) -> Answer:
        # Who is asked in the background knows nothing of what other applications wrote.
        found = None if noted.doubts else self._in_background(question, where)
        if found is not None:
            return found
        # Loads PySpark, which who asks for records, or a session, need not wait for.
        from lineage_dataframes.trace.overwritten import check_files_of_query
        from lineage_dataframes.trace.query import trace_recipe_row

        check_files_of_query(self.store, RowReader(), question, noted)
        return trace_recipe_row(spark.session(), self.store, RowReader(), question, noted, where)

    def _answer(self, question: TraceQuery, traced: Trace, spark: SparkSessionLease) -> Answer:
        """The answer, through DataFrames whose rows are among the records that were found, or that these became."""
        if not continues_in(question, traced):
            return traced.answer(question.limit, texts=question.texts)
        found = self._in_background(question)
        if found is not None:
            return found
        from lineage_dataframes.trace.crossing import answer_through
        from lineage_dataframes.trace.overwritten import check_files_of_trace

        check_files_of_trace(self.store, RowReader(), question, traced)
        try:
            session = spark.session()
        except TraceError:
            if not traced.beside:
                raise
            # What records tell needs no Spark; the answer says what is left out.
            return traced.answer(question.limit, texts=question.texts)
        return answer_through(session, self.store, RowReader(), question, traced)

    def _in_background(self, question: TraceQuery, where: str = "") -> Answer | None:
        """The answer of a background session, unless a Spark was given."""
        return None if self._spark is not None else answered(self._url, question, where)

    def dump(self, name: str) -> Iterator[str]:
        from lineage_store.dump import dump_application

        return iter(dump_application(self.store, self.find(name)))

    def delete(self, app: str) -> None:
        self.store.delete(app)
        remove_spool(self._url, app)

    def export(self, question: TraceQuery, name: str, output: Output, options: Options) -> Exported:
        from lineage_query.exports import exported_answer

        wanted = replace(question, texts=options.texts)
        plan = plan_of(self.store, RowReader(), wanted)
        if plan.only is not None:
            return self._export(plan.only, name, output, options, by_query=question.app is not None)
        answer = self._ask(wanted, plan)
        with output() as stream:
            return exported_answer(answer, name, stream, options)

    def _export(
        self, part: Part, name: str, output: Output, options: Options, *, by_query: bool
    ) -> Exported:
        """Write what one application answers."""
        from lineage_query.exports import exported, exported_answer, exported_through, format_of

        question, noted, is_table = part.question, part.noted, format_of(name).table is not None
        found: Trace | Answer
        with SparkSessionLease(self._spark) as spark:
            if noted is None:
                try:
                    found = asker(self.store, self._url).trace(question)
                except RecipeRowError as error:
                    noted = RecipePlace.of(error)
                else:
                    if is_table and continues_in(question, found):
                        answer = self._answer(question, found, spark)
                        with output() as stream:
                            return exported_through(found, answer, name, stream, options)
            if noted is not None:
                looked_up = self._looked_up(question, noted)
                if looked_up is not None and not is_table:
                    # A query has no derivations.
                    found = looked_up.traced
                else:
                    found = self._best(question, noted, looked_up, spark, by_query=by_query)
        with output() as stream:
            if isinstance(found, Answer):
                return exported_answer(found, name, stream, options)
            return exported(found, name, stream, options)

    def openlineage(self, name: str, naming: Naming) -> OpenLineageRun:
        from lineage_openlineage.facts import facts_of
        from lineage_openlineage.sending import run_of

        return run_of(facts_of(self.store, self.find(name), naming=naming))

    def create_view(
        self, name: str, wanted: ViewWanted, report: Callable[[int, int], None] | None
    ) -> ViewMade:
        from lineage_query.record_views import ViewMade, flows_wanted
        from lineage_store.neo4j.opening_view import view_of

        app = self.find(name)
        view = view_of(self.store, app)
        asking = asker(self.store, self._url)
        flows, warnings = flows_wanted(
            app, self.store.graph(app), wanted, asking.trace, asking.locations
        )
        view.create(flows, report and (lambda at: report(at.done, at.total)))
        return ViewMade.of(flows, warnings)

    def remove_view(self, name: str) -> tuple[str, int]:
        from lineage_store.neo4j.opening_view import view_of

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


def asker(store: GraphStore, url: str) -> QueryEngine:
    """Answers questions over a store."""
    return QueryEngine(store, RowReader(index_folder(url)))
