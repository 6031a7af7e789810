"""Where commands get their answers: a store of this machine or Neo4j, or a server of the query API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

from lineage.array_rows import LocalCells
from lineage.recomputing import LocalRecomputation, Sessions, SparkSessionLease
from lineage.servers import SERVER_SCHEMES
from lineage.spools import remove_files
from lineage_core.contract.graph import LinkRecord, NodeRecord
from lineage_core.contract.verdict import Verdict
from lineage_query.answers import Answer
from lineage_query.engine import QueryEngine
from lineage_query.finding import find_application
from lineage_query.record_trace import RecordTrace
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_query.verdicts import verdict_of, with_files_read, with_reasons
from lineage_store.materialised import delete_application
from lineage_store.port import ApplicationRecord, GraphStore
from lineage_store.url import index_folder, open_store

if TYPE_CHECKING:
    from typing_extensions import Self

    from lineage_openlineage.naming import Naming
    from lineage_openlineage.sending import OpenLineageRun
    from lineage_query.application_search import ApplicationSearch, FoundApplications
    from lineage_query.comparing import Difference
    from lineage_query.erasure.finding import SubjectQuery
    from lineage_query.erasure.plan import Plan, Purpose
    from lineage_query.erasure.verified import Verified
    from lineage_query.exports import Exported, ExportOptions
    from lineage_query.jobs import DatasetRuns, Datasets, Job, Run
    from lineage_query.record_views import ViewSelection, ViewSummary
    from lineage_query.run_difference import RunDifference
    from lineage_query.suspects.answer import Suspects
    from lineage_query.suspects.query import SuspectsQuery

Output: TypeAlias = Callable[[], AbstractContextManager[IO[bytes]]]
"""Opens what a file is written to."""


class Access(Protocol):
    """The queries of commands. Names of applications are ids, prefixes of ids, or ``latest``."""

    def applications(self) -> Sequence[ApplicationRecord]:
        """All applications, the latest first."""

    def search_applications(self, search: ApplicationSearch) -> FoundApplications:
        """The applications that a search finds, the latest first."""

    def jobs(self, limit: int | None) -> Sequence[Job]:
        """Jobs with their last runs, those that ran latest first."""

    def runs(self, job: str, limit: int | None) -> Sequence[Run]:
        """Runs of a job, the latest first.

        Raises:
            StoreError: there is no such job.
        """

    def datasets(self, text: str) -> Datasets:
        """Datasets whose names hold a text, by name."""

    def dataset_runs(self, namespace: str, name: str) -> DatasetRuns:
        """The runs that read or wrote files of a dataset, the latest first.

        Raises:
            StoreError: there is no such dataset.
        """

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

    def files_read(self, app: str, verdict: Verdict) -> Verdict:
        """The verdict once all that a lake has of an application was read."""

    def answerable(self, app: str, verdict: Verdict, most_s: float | None = None) -> Verdict:
        """The verdict with whether rows of all captured outputs can be traced.

        ``most_s``: seconds after which outputs are left unchecked; None: all are checked.
        """

    def probed(self, app: str, verdict: Verdict, rows: int) -> Verdict:
        """The verdict with the results of tracing ``rows`` rows of each DataFrame's output.

        Raises:
            TraceError: no Spark is available here.
        """

    def ask(self, question: TraceQuery) -> Answer:
        """Where rows come from, or where they went."""

    def compare(self, left: TraceQuery, right: TraceQuery) -> Difference:
        """The differences between two traces of records; the limit is that of ``left``."""

    def compare_runs(
        self, query: TraceQuery, places: tuple[str, str], runs: tuple[str, str]
    ) -> RunDifference:
        """The differences between the traces of a place in one run and of a place in another one; the limit is the query's."""

    def suspects(self, query: SuspectsQuery) -> Suspects:
        """What to suspect of bad rows of outputs, or of an application."""

    def plan(self, purpose: Purpose, query: SubjectQuery) -> Plan:
        """What rows of a subject went into."""

    def dump(self, name: str) -> Iterator[str]:
        """All lineage of an application, line by line."""

    def delete(self, app: str) -> None:
        """Remove all lineage of an application."""

    def export(
        self, question: TraceQuery, name: str, output: Output, options: ExportOptions
    ) -> Exported:
        """Write a trace as a file of a format; ``output`` is opened once there is one to write."""

    def openlineage(self, name: str, naming: Naming) -> OpenLineageRun:
        """The OpenLineage events of an application."""

    def create_view(
        self, name: str, selection: ViewSelection, report: Callable[[int, int], None] | None
    ) -> ViewSummary:
        """Write an application's record-level view; ``report`` receives the done and total counts."""

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

    def __init__(
        self, store: GraphStore, url: str, spark: Sessions | None = None, *, choices: bool = False
    ) -> None:
        """``spark``: gives the session that traces rows of DataFrames; None: a background one, or one of this process.

        ``choices``: through arrays, all cells that took part in choices, not the chosen ones alone.
        """
        self._choices = choices
        self.store = store
        self._url = url
        self._spark = spark

    def applications(self) -> Sequence[ApplicationRecord]:
        return self.store.applications()

    def search_applications(self, search: ApplicationSearch) -> FoundApplications:
        from lineage_query.application_search import search_applications
        from lineage_query.jobs import StoredRuns

        return search_applications(StoredRuns(self.store), search)

    def jobs(self, limit: int | None) -> Sequence[Job]:
        from lineage_query.jobs import StoredRuns, list_jobs

        return list_jobs(StoredRuns(self.store), limit)

    def runs(self, job: str, limit: int | None) -> Sequence[Run]:
        from lineage_query.jobs import StoredRuns, list_runs

        return list_runs(StoredRuns(self.store), job, limit)

    def datasets(self, text: str) -> Datasets:
        from lineage_query.jobs import StoredRuns, find_datasets

        return find_datasets(StoredRuns(self.store), text)

    def dataset_runs(self, namespace: str, name: str) -> DatasetRuns:
        from lineage_query.jobs import StoredRuns, find_dataset_runs

        return find_dataset_runs(StoredRuns(self.store), namespace, name)

    def find(self, name: str) -> str:
        return find_application(self.store, name)

    def graph(self, name: str) -> tuple[str, Sequence[NodeRecord], Sequence[LinkRecord]]:
        app = self.find(name)
        lineage = self.store.graph(app)
        return app, with_reasons(lineage.nodes(), self.verdict(app).superset), lineage.links()

    def verdict(self, app: str) -> Verdict:
        return verdict_of(self.store, app)

    def files_read(self, app: str, verdict: Verdict) -> Verdict:
        return with_files_read(self.store, app, verdict)

    def answerable(self, app: str, verdict: Verdict, most_s: float | None = None) -> Verdict:
        if not verdict.recipes_received:
            return verdict
        # This import loads PySpark, which only applications with DataFrames need.
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
        from lineage_query.next_job_search import with_next_jobs

        return with_next_jobs(self.trace(question), question, self.store)

    def trace(self, question: TraceQuery) -> Answer:
        """As :meth:`ask`, without the other applications that wrote or read the files of the rows."""
        with self._engine() as engine:
            return engine.trace(question).answer(question.limit, texts=question.texts)

    def follow(self, first: Answer, question: TraceQuery) -> Answer:
        """Continue an answer through all jobs; it lists all of its items."""
        with self._engine() as engine:
            return engine.follow(first, question)

    @contextmanager
    def _engine(self, *, choices: bool = False) -> Iterator[QueryEngine]:
        """What traces, with a Spark that is started once for all parts of a query.

        ``choices``: through arrays, all cells that took part in choices.
        """
        reader = self._reader()
        with SparkSessionLease(self._spark) as lease:
            background = None if self._spark is not None else self._url
            backend = LocalRecomputation(self.store, reader, lease, background)
            cells = LocalCells(self.store, self._choices or choices)
            yield QueryEngine(self.store, reader, backend=backend, cells=cells)

    def _reader(self) -> RowReader:
        return RowReader(index_folder(self._url))

    def compare(self, left: TraceQuery, right: TraceQuery) -> Difference:
        from lineage_query.comparing import compare

        return compare(self._records(left), self._records(right), left.limit, texts=left.texts)

    def compare_runs(
        self, query: TraceQuery, places: tuple[str, str], runs: tuple[str, str]
    ) -> RunDifference:
        with self._engine() as engine:
            apps = self.find(runs[0]), self.find(runs[1])
            return engine.compare_runs(query, ((places[0],), (places[1],)), apps)

    def suspects(self, query: SuspectsQuery) -> Suspects:
        from lineage_query.snapshot import ApplicationCache
        from lineage_query.suspects.query import find_suspects, labels_of

        cache = ApplicationCache(self.store, self._reader())
        with self._engine() as engine:
            labels = labels_of(query, engine.trace)
        return find_suspects(query, labels, lambda app: cache.open(self.find(app or "latest")))

    def _records(self, query: TraceQuery) -> RecordTrace:
        """A trace of records that is to be compared."""
        from lineage_query.comparing import records_to_compare

        return records_to_compare(QueryEngine(self.store, self._reader()).trace_records, query)

    def plan(self, purpose: Purpose, query: SubjectQuery) -> Plan:
        from lineage.store_places import store_place
        from lineage_query.erasure.named_sources import with_folder
        from lineage_query.erasure.plan import make_plan

        query = with_folder(query, self.store, self._reader())
        with self._engine(choices=True) as engine:
            return make_plan(
                purpose, query, self.store, self._reader(), engine, store_place(self._url)
            )

    def verify_erasure(self, document: Mapping[str, Any], query: SubjectQuery) -> Verified:
        """What is left of the rows of a plan, as JSON; ``query``: by which it was made."""
        from lineage.store_places import store_place
        from lineage_query.erasure.named_sources import with_folder
        from lineage_query.erasure.verifying import Verifying

        place = store_place(self._url)
        query = with_folder(query, self.store, self._reader())
        with self._engine(choices=True) as engine:
            return Verifying(
                document, query, self.store, self._reader(), engine, place,
                partial(self.plan, "erase", query),
            ).verify()  # fmt: skip

    def dump(self, name: str) -> Iterator[str]:
        from lineage_store.dump import dump_application

        return iter(dump_application(self.store, self.find(name)))

    def delete(self, app: str) -> None:
        for removed in delete_application(self.store, app):
            remove_files(self._url, removed)

    def export(
        self, question: TraceQuery, name: str, output: Output, options: ExportOptions
    ) -> Exported:
        from lineage_query.exports import check_format, exported, format_of

        check_format(name, question)
        derivations = format_of(name).table is None
        with self._engine() as engine:
            trace = engine.trace(replace(question, texts=options.texts), derivations=derivations)
        with output() as stream:
            return exported(trace, name, stream, options)

    def openlineage(self, name: str, naming: Naming) -> OpenLineageRun:
        from lineage_openlineage.facts import facts_of
        from lineage_openlineage.sending import run_of

        return run_of(facts_of(self.store, self.find(name), naming=naming))

    def create_view(
        self, name: str, selection: ViewSelection, report: Callable[[int, int], None] | None
    ) -> ViewSummary:
        from lineage_query.record_views import ViewSummary, requested_flows
        from lineage_store.neo4j.opening_view import view_of

        app = self.find(name)
        view = view_of(self.store, app)
        engine = QueryEngine(self.store, self._reader())
        flows, warnings = requested_flows(
            app, self.store.graph(app), selection, engine.trace_records, engine.locations
        )
        view.create(flows, report and (lambda at: report(at.done, at.total)))
        return ViewSummary.of(flows, warnings)

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
