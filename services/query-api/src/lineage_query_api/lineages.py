"""Queries of the store within limits of time and work, and the caches shared between them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from http import HTTPStatus
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from lineage_core.contract.address import parse_space
from lineage_core.contract.region import Region
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.budget import (
    MIB,
    Budget,
    BusyError,
    MessageRoom,
    TimeUpError,
    TooMuchError,
    current_budget,
    use_budget,
)
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Item
from lineage_query.collected_rows import CellBackend
from lineage_query.comparing import records_to_compare
from lineage_query.dataset_index import DatasetIndex
from lineage_query.engine import QueryEngine
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.named_sources import with_table
from lineage_query.erasure.plan import Plan, Purpose, make_plan
from lineage_query.finding import NotFoundError, find_application, other_readers
from lineage_query.listing import Listing
from lineage_query.planning import plan_of
from lineage_query.record_trace import RecordTrace
from lineage_query.record_tracing import also_read_warnings
from lineage_query.record_views import ViewSelection, requested_flows
from lineage_query.rows.file_status import has_changed
from lineage_query.rows.places import (
    FolderError,
    LocationError,
    ValuedPlace,
    parse_location,
    parse_valued,
)
from lineage_query.rows.reader import RowReader
from lineage_query.snapshot import ApplicationCache, ApplicationSnapshot
from lineage_query.trace import Trace
from lineage_query.trace_query import TraceQuery
from lineage_query.verdicts import verdict_of
from lineage_query_api.errors import (
    ProblemError,
    busy_error,
    hidden_parts_error,
    rows_refused_error,
    too_costly_error,
)
from lineage_query_api.granted_store import GrantedApplicationCache, GrantedStore
from lineage_query_api.models import StartModel, TraceRequest
from lineage_query_api.recipe_traces import RecipeTraces
from lineage_query_api.settings import QueryApiSettings
from lineage_query_api.trace_ids import pack
from lineage_query_api.visible_store import (
    HIDDEN_WARNING,
    MASKED_WARNING,
    VisibleApplicationCache,
    VisibleListing,
    VisibleReader,
    VisibleReaders,
    VisibleStore,
)
from lineage_store.materialised import delete_application
from lineage_store.port import ApplicationRecord, GraphStore
from lineage_store.record_flow import RecordFlows

if TYPE_CHECKING:
    from lineage_dataframes.trace.ranked_influence import InfluenceAnswer

T = TypeVar("T")
CACHED_TRACES_MAX = 256
CACHED_RECOMPUTED_MAX = 32
"""Traces among them whose items are listed: answers that were recomputed."""
CACHED_RUNS_MAX = 1 << 22
"""Maximum number of runs of positions in cached traces: 64 MiB."""
MATCHES_MAX = 10_000
"""Maximum number of items matched by a search text at which a trace starts."""
STALE_S = 2.0
"""Seconds for which the lineage of a running job is cached: pages of one trace agree."""
CACHED_VERDICTS_MAX = 10_000
CACHED_REASONS_MAX = 1 << 16
"""Maximum number of characters of the reasons in a verdict that is kept."""
SLOW_S = 60.0
"""Seconds until the next attempt at a verdict for a list, after one that took too long."""
CHECKED_S = 5.0
"""Seconds that a request spends on checking whether rows of outputs can be traced."""
INDEXED_EACH_S = 1.0
"""Seconds that one run may take in the index of datasets."""
READ_FILES_MAX = 3
"""Maximum number of files at a trace's start whose other readers are named."""
NOT_GRANTED_WARNING = "applications that are not granted to you are left out"
WAITING_MAX = 16
"""Maximum number of requests that wait for a turn: each holds a thread, and the other threads serve other requests."""
CHECK_TURN_S = 0.25
"""Seconds between checks of a waiting request whether its client is still connected."""
_HAS_TURN: ContextVar[bool] = ContextVar("lineage_turn", default=False)


@dataclass(frozen=True, slots=True)
class CachedTrace:
    """A computed trace: its id, the query, and the result."""

    id: str
    opened: ApplicationSnapshot
    request: TraceRequest
    traced: Trace
    runs: int = 0
    """Runs of positions that it holds."""

    @property
    def records(self) -> RecordTrace:
        """The result for records, which is always set (see `Lineages.trace`)."""
        assert self.traced.records is not None
        return self.traced.records

    def is_of(self, opened: ApplicationSnapshot) -> bool:
        """Whether the application's lineage is unchanged, and so are the files of a recomputed answer."""
        if self.traced.recomputed is None:
            return self.opened is opened
        # An incomplete application is opened repeatedly.
        same = self.opened is opened or (
            self.opened.nodes == opened.nodes and self.opened.verdict == opened.verdict
        )
        return same and not self._has_other_files(self.traced.recomputed, opened)

    @staticmethod
    def _has_other_files(answer: Answer, opened: ApplicationSnapshot) -> bool:
        """Whether files of the rows in an answer have changed: then it is recomputed, or refused."""
        locations = opened.locations.as_now()
        nodes = {group.node for group in (*answer.start, *answer.groups)}
        return any(
            has_changed(version)
            for node in nodes
            for version in locations.file_statuses(node).values()
        )


class _SharedCache:
    """Turns and caches that all callers share. ``lock``: protects all except the turns.

    ``traces`` are cached by scope, which is the key of its store (None: all applications).
    """

    def __init__(self, parallel: int) -> None:
        self.turns = threading.BoundedSemaphore(parallel)
        self.lock = threading.Lock()
        self.waiting = 0
        self.traces: OrderedDict[tuple[Hashable, str], CachedTrace] = OrderedDict()
        self.runs = 0
        self.listings: OrderedDict[str, Listing] = OrderedDict()
        self.verdicts: OrderedDict[tuple[Hashable, str], tuple[Verdict, Hashable]] = OrderedDict()
        self.slow: OrderedDict[tuple[Hashable, str], float] = OrderedDict()
        """The times of the next attempt at verdicts that took too long."""

    def store_trace(self, scope: Hashable, trace: CachedTrace) -> None:
        """Cache a trace, within limits."""
        with self.lock:
            self.forget(scope, trace.id)
            self.traces[scope, trace.id] = trace
            self.runs += trace.runs
            while len(self.traces) > CACHED_TRACES_MAX or self.runs > CACHED_RUNS_MAX:
                self.forget(*next(iter(self.traces)))
            recomputed = [
                at for at, cached in self.traces.items() if cached.traced.recomputed is not None
            ]
            for at in recomputed[:-CACHED_RECOMPUTED_MAX]:
                self.forget(*at)

    def forget(self, scope: Hashable, key: str) -> None:
        """Remove a trace from the cache. The caller holds the lock."""
        dropped = self.traces.pop((scope, key), None)
        self.runs -= 0 if dropped is None else dropped.runs

    def forget_application(self, app: str) -> None:
        """Remove all of an application from the caches."""
        with self.lock:
            self.listings.pop(app, None)
            for key in [key for key in self.verdicts if key[1] == app]:
                del self.verdicts[key]
            for key in [key for key, trace in self.traces.items() if trace.opened.app == app]:
                self.forget(*key)


class Lineages:
    """The store behind the API. May be shared by threads."""

    def __init__(
        self,
        store: GraphStore,
        reader: RowReader,
        settings: QueryApiSettings,
        *,
        part_of: Lineages | None = None,
        cells: Callable[[Lineages], CellBackend] | None = None,
    ) -> None:
        """``part_of``: lineages of the whole store, with which it shares turns, Spark and caches.

        ``cells``: gives what traces rows of one question through arrays; None: traces are incomplete where they come to some.
        """
        self.store = store
        self.settings = settings
        self._reader = reader
        self._part_of = part_of
        self._cells: Callable[[Lineages], CellBackend] | None = (
            cells if part_of is None else part_of._cells
        )
        self._message_room: MessageRoom = (
            MessageRoom(settings.api_message_mb * MIB) if part_of is None else part_of._message_room
        )
        self._scope: Hashable = None
        self._visible_store = store if isinstance(store, VisibleStore) else None
        self._restricted_store = store if isinstance(store, GrantedStore | VisibleStore) else None
        if part_of is not None and isinstance(store, VisibleStore):
            self._scope = store.key
            self._reader = reader = VisibleReader(reader, store.visible_app)
            self._application_cache: ApplicationCache = VisibleApplicationCache(
                part_of._application_cache, store, reader
            )
        elif part_of is not None and isinstance(store, GrantedStore):
            self._scope = store.key
            self._reader = reader = reader.without_unknown_files()
            if store.visibility is not None:
                readers = VisibleReaders(reader, store.visibility.visible_application)
                self._reader = reader = reader.with_readers_of_applications(readers)
            self._application_cache = GrantedApplicationCache(
                part_of._application_cache, store, reader
            )
        else:
            cache_bytes = settings.api_cache_mb << 20
            self._application_cache = ApplicationCache(
                store,
                reader,
                cached_max=settings.api_kept,
                stale_s=STALE_S,
                cache_bytes_max=cache_bytes,
            )
        shared = None if part_of is None else part_of.recipe_traces
        visible_app = None if self._visible_store is None else self._visible_store.visible_app
        self.recipe_traces: RecipeTraces = RecipeTraces(
            store, reader, settings, shared, visible_app
        )
        self._cache: _SharedCache = (
            _SharedCache(settings.api_parallel) if part_of is None else part_of._cache
        )

        self.dataset_index: DatasetIndex = (
            DatasetIndex(store, self._is_within_run_limits)
            if part_of is None
            else part_of.dataset_index
        )
        """Of the whole store."""

    def close(self) -> None:
        """Stop what was started for queries; the store stays open."""
        self.recipe_traces.close()

    def within(self, store: GrantedStore | VisibleStore) -> Lineages:
        """Lineages restricted to the applications granted to a caller, or to the visible part of one of them."""
        return Lineages(store, self._reader, self.settings, part_of=self)

    @property
    def is_unrestricted(self) -> bool:
        """Whether these are of the whole store, and no grants leave anything out."""
        return self._part_of is None

    @property
    def unrestricted_store(self) -> GraphStore:
        """The store behind all grants: only for an application that :meth:`find` found."""
        return self.store if self._part_of is None else self._part_of.store

    def has(self, app: str) -> bool:
        """Whether there is an application, by its full id."""
        return app in self.store.application_ids()

    def granted(self, things: Sequence[T], app_of: Callable[[T], str]) -> list[T]:
        """Those of the given objects whose applications are granted; all if the scope is unrestricted."""
        if self._part_of is None:
            return list(things)
        ids = set(self.store.application_ids())
        return [thing for thing in things if app_of(thing) in ids]

    @contextmanager
    def _hiding(self) -> Iterator[None]:
        """If not all applications are granted, give the same error for existing and missing files."""
        try:
            yield
        except (NotFoundError, FolderError) as error:
            if self._part_of is None:
                raise
            raise NotFoundError(
                "no application that is granted to you read or wrote what is asked for"
            ) from error

    def _add_scope_warnings(self, warnings: Sequence[str]) -> tuple[str, ...]:
        """Warnings, with one about applications that this caller does not see."""
        scope_warnings = [] if self._part_of is None else [NOT_GRANTED_WARNING]
        if self._visible_store is not None:
            scope_warnings.append(
                HIDDEN_WARNING if self._visible_store.visible_app.hides else MASKED_WARNING
            )
        return tuple(dict.fromkeys((*warnings, *scope_warnings)))

    def _with_scope_warnings(self, trace: Trace) -> Trace:
        return trace.warned(self._add_scope_warnings(()))

    @contextmanager
    def working(self) -> Iterator[None]:
        """Held while a query reads the store and files; raises as :meth:`turn`.

        Errors for missing and for ungranted objects are the same.
        """
        with self.turn(), self._hiding():
            yield

    # -- applications ------------------------------------------------------------------------

    def find(self, name: str) -> str:
        """The full id of an application.

        Raises:
            NotFoundError: there is none, or more than one.
        """
        return find_application(self.store, name)

    def open(self, name: str) -> ApplicationSnapshot:
        """An application by its id, the beginning of one, or ``latest``.

        Raises:
            NotFoundError: there is none, or more than one.
        """
        app = self.find(name)
        try:
            return self._application_cache.open(app)
        except KeyError as error:
            raise NotFoundError(f"there is no application {app!r} any more") from error

    def reader_of(self, app: str) -> RowReader:
        """Reads files of an application, by its full id, as far as the caller may.

        Raises:
            NotFoundError: there is none.
            BudgetError: as :meth:`RowReader.of_application`.
        """
        try:
            return self._reader.of_application(app)
        except KeyError as error:
            raise NotFoundError(f"there is no application {app!r} any more") from error

    @property
    def reader(self) -> RowReader:
        """Reads files of any application, as far as the caller may."""
        return self._reader

    def scope_warnings(self) -> tuple[str, ...]:
        """What an answer about several applications says of those that this caller does not see."""
        return self._add_scope_warnings(())

    def applications(self) -> list[ApplicationRecord]:
        """All of them, the latest first."""
        return list(self.store.applications())

    def application(self, app: str) -> ApplicationRecord:
        """An application, by its full id.

        Raises:
            NotFoundError: there is none.
        """
        for record in self.store.applications():
            if record.app == app:
                return record
        raise NotFoundError(f"there is no application {app!r} any more")

    def verdict(self, app: str) -> Verdict:
        """Whether the lineage of an application is complete; of a final one it is kept.

        Raises:
            NotFoundError: there is none.
        """
        with self._cache.lock:
            cached = self._cache.verdicts.get((self._scope, app))
        store = self.store if self._visible_store is None else self._visible_store.judged
        try:
            revision = store.revision(app)
            if cached is not None and cached[1] == revision:
                return self._shown(app, cached[0])
            verdict = verdict_of(store, app)
        except KeyError as error:
            raise NotFoundError(f"there is no application {app!r}") from error
        self._cache_verdict(app, verdict, revision)
        return self._shown(app, verdict)

    def verdict_within(self, app: str, seconds: float) -> Verdict | None:
        """:meth:`verdict`, where that takes no longer; None where it does, and for a while then without a try.

        Raises:
            NotFoundError: there is no such application.
            BudgetError: the question that asks has no time left.
        """
        key = self._scope, app
        with self._cache.lock:
            if self._cache.slow.get(key, 0.0) > time.monotonic():
                return None
        verdict = self.read_within(seconds, lambda: self.verdict(app))
        if verdict is None:
            with self._cache.lock:
                self._cache.slow[key] = time.monotonic() + SLOW_S
                self._cache.slow.move_to_end(key)
                while len(self._cache.slow) > CACHED_VERDICTS_MAX:
                    self._cache.slow.popitem(last=False)
        return verdict

    def read_within(self, seconds: float, read: Callable[[], T]) -> T | None:
        """What a part of a query reads within a time of its own; None where that takes longer or is more than may be held.

        Raises:
            BudgetError: the whole query has no time left.
        """
        try:
            with use_budget(Budget(seconds=seconds, messages=self._message_room)):
                return read()
        except (TimeUpError, TooMuchError, BusyError):
            current_budget().check()
            return None

    def _is_within_run_limits(self, read: Callable[[], None]) -> bool:
        """Do what an index does for one run; False: it takes too long, or too much memory."""

        def read_all() -> bool:
            read()
            return True

        return self.read_within(INDEXED_EACH_S, read_all) is True

    def answerable(self, app: str) -> Verdict:
        """:meth:`verdict` with whether rows of all captured outputs can be traced; not known where this server has no PySpark.

        Raises:
            NotFoundError: there is none.
        """
        try:
            revision = self.store.revision(app)
        except KeyError as error:
            raise NotFoundError(f"there is no application {app!r}") from error
        verdict = self.verdict(app)
        hides = self._visible_store is not None and self._visible_store.visible_app.hides
        if verdict.answerable is not None or hides or find_spec("lineage_dataframes") is None:
            return verdict
        from lineage_dataframes.rewrite.functions import NO_CODE
        from lineage_dataframes.trace.answerable import with_answerable

        answerable = with_answerable(self.store, app, verdict, timeout_s=CHECKED_S, key=NO_CODE)
        if answerable.answerable is not None:
            self._cache_verdict(app, answerable, revision)
        return answerable

    def _shown(self, app: str, verdict: Verdict) -> Verdict:
        return (
            verdict
            if self._restricted_store is None
            else self._restricted_store.verdict_of(app, verdict)
        )

    def _cache_verdict(self, app: str, verdict: Verdict, revision: Hashable) -> None:
        # Late deliveries may still complete what is final and incomplete.
        if verdict.final and verdict.complete and verdict.reason_chars <= CACHED_REASONS_MAX:
            with self._cache.lock:
                self._cache.verdicts[self._scope, app] = verdict, revision
                while len(self._cache.verdicts) > CACHED_VERDICTS_MAX:
                    self._cache.verdicts.popitem(last=False)

    def delete(self, app: str) -> None:
        """Remove an application, named by its full id, its materialised lineage, and its cached data.

        Raises:
            NotFoundError: there is none of this id: the beginning of one, or ``latest``, may mean another by then.
        """
        if not self.has(app):
            raise NotFoundError(f"there is no application {app!r}: give the whole id to delete one")
        # To its end, whoever still waits for it.
        with use_budget(Budget()):
            whole = self.store if self._visible_store is None else self._visible_store.judged
            removed = delete_application(whole, app)
        for name in removed:
            self._application_cache.forget(name)
            self._cache.forget_application(name)

    def listing(self, opened: ApplicationSnapshot) -> Listing:
        """The items of an application's nodes."""
        listings = self._cache.listings
        with self._cache.lock:
            listing = listings.get(opened.app)
            if listing is None or listing.opened is not opened:
                kind = Listing if self._visible_store is None else VisibleListing
                listing = listings[opened.app] = kind(opened)
            listings.move_to_end(opened.app)
            while len(listings) > self.settings.api_kept:
                listings.popitem(last=False)
        return listing

    # -- traces ------------------------------------------------------------------------------

    def _engine(self, *, rows: bool, cells: CellBackend | None = None) -> QueryEngine:
        """The query engine for a caller.

        ``rows``: the caller may read the text of rows, and so may query rows by values. ``cells``: traces rows through arrays.
        """
        return QueryEngine(
            self.store,
            self._reader,
            self._application_cache,
            self.recipe_traces.for_caller(rows=rows),
            _CallerLimits(self, rows),
            cells,
        )

    def _cells_of_caller(self) -> CellBackend | None:
        """What traces rows of one question through arrays; None of an application of which something is hidden or masked: chosen cells tell of values."""
        if self._cells is None or self._visible_store is not None:
            return None
        return self._cells(self)

    def follow(self, first: Answer, query: TraceQuery, cells: CellBackend) -> Answer:
        """Continue an answer, which lists all of its items, through all jobs.

        Raises:
            LineageError: as :meth:`trace_query`.
            ProblemError: as :meth:`trace_query`, or the answer has too many items.
        """
        answer = self._engine(rows=query.texts, cells=cells).follow(first, query)
        return self.answer(Trace(query, recomputed=answer), None, texts=query.texts)

    def trace(self, name: str, request: TraceRequest, *, rows: bool) -> CachedTrace:
        """As :meth:`trace_any`, for records only: the trace does not continue at rows of DataFrames.

        Raises:
            TraceError: also if the query is for rows of DataFrames.
        """
        opened, request, key = self._resolve_request(name, request, rows=rows)
        query = _query(opened, request)
        cached = self._cached_trace(key, opened, rows=rows)
        if cached is not None and cached.traced.records is not None:
            records = self._engine(rows=rows).records_again(query, cached.traced.records)
            return replace(cached, traced=self._with_scope_warnings(Trace(query, records)))
        records = records_to_compare(self._engine(rows=rows).trace_records, query)
        return self._cache_trace(
            key, opened, request, self._with_scope_warnings(Trace(query, records))
        )

    def trace_any(self, name: str, request: TraceRequest, *, rows: bool) -> CachedTrace:
        """Answer a request over one application, or return the cached answer.

        ``rows``: the caller may read the text of rows, and so may query rows by values.

        Raises:
            LineageError: what is asked for is not there.
            ProblemError: it costs more than a question may, or is not for this caller.
        """
        opened, request, key = self._resolve_request(name, request, rows=rows)
        query = _query(opened, request)
        cached = self._cached_trace(key, opened, rows=rows)
        if cached is not None and cached.traced.recomputed is not None:
            return cached
        if cached is None:
            trace = self.trace_query(query, rows=rows)
        else:
            self.recipe_traces.check_traceable()
            assert cached.traced.records is not None
            again = self._engine(rows=rows).again(query, cached.traced.records)
            trace = self._with_scope_warnings(again)
            if trace.recomputed is None:
                return replace(cached, traced=trace)
        if trace.recomputed is None and (trace.app != opened.app or self._is_valued(query)):
            # Not cached: materialised flows have no addresses of the application, and may replace a query that fails only
            # at the moment.
            return CachedTrace(key, opened, request, self.recipe_traces.detached(trace, rows=rows))
        if trace.recomputed is not None and request.as_now:
            # Over files as they are now.
            return CachedTrace(key, opened, request, trace)
        return self._cache_trace(key, opened, request, trace)

    def _is_valued(self, query: TraceQuery) -> bool:
        """Whether the query names rows of DataFrames by their values."""
        if not query.places or parse_valued(query.places[0]) is None:
            return False
        return any(part.by_values for part in plan_of(self.store, self._reader, query).parts)

    def trace_query(self, query: TraceQuery, *, rows: bool, derivations: bool = False) -> Trace:
        """Trace within bounds; ``derivations`` as `QueryEngine.trace` has it.

        Raises:
            LineageError: what is asked for is not there.
            ProblemError: it costs more than a question may, or is not for this caller.
        """
        self._check_places(query.places)
        if self._visible_store is not None and query.where:
            raise hidden_parts_error()
        self.recipe_traces.check_traceable()
        engine = self._engine(rows=rows, cells=self._cells_of_caller())
        return self._with_scope_warnings(engine.trace(query, derivations=derivations))

    def also_read(self, cached: CachedTrace, answer: Answer) -> list[str]:
        """What a trace forward of one application leaves out: others that read the files of its rows."""
        if answer.direction is not Direction.FORWARD:
            return []
        files: dict[str, str] = {}
        for item in (item for group in answer.start for item in group.items):
            with suppress(LocationError):
                files.setdefault(parse_location(item.location or "").path, item.location or "")
        app, warnings = cached.opened.app, list[str]()
        for path, place in list(files.items())[:READ_FILES_MAX]:
            seconds = min(CHECKED_S, current_budget().left_s)
            try:
                with use_budget(Budget(seconds=seconds, messages=self._message_room)):
                    others = other_readers(self.store, self._reader, path, app)
            except (TimeUpError, TooMuchError, BusyError) as error:
                # Any application may say that it read the file: it ends no trace of another.
                current_budget().check()
                warnings.append(f"{place}: who else read it is not known: {error.detail}")
            else:
                warnings += also_read_warnings(place, app, others)
        return warnings

    def plan(self, purpose: Purpose, query: SubjectQuery, *, rows: bool) -> Plan:
        """What rows of a subject went into. ``rows``: the caller may read the text of rows.

        Only for lineages of all applications: over fewer it would be called complete.

        Raises:
            LineageError: as `with_table` and `make_plan`.
            ProblemError: too many ask at once.
        """
        assert self.is_unrestricted
        with self.turn():
            query = with_table(query, self.store)
            return make_plan(purpose, query, self.store, self._reader, self._engine(rows=rows))

    def influence(self, place: str, app: str | None, limit: int) -> InfluenceAnswer:
        """What a row of a DataFrame would be without each row that it was made from; for callers who may read rows.

        Raises:
            LineageError: as `RecipeTraces.requested_row` and `RecipeTraces.influence`.
            ProblemError: as `RecipeTraces.influence`, or too many ask at once.
        """
        self._check_places((place,))
        with self.working():
            requested = self.recipe_traces.requested_row(place, app)
        return self.recipe_traces.influence(requested, limit)

    def trace_records(self, query: TraceQuery) -> RecordTrace:
        """Trace records within bounds.

        Raises:
            RecipeRowError: the query is for rows of DataFrames.
            LineageError: what is asked for is not there.
            ProblemError: it costs more than a question may, or too many ask at once.
        """
        records = self._engine(rows=False).trace_records(query)
        return replace(records, warnings=self._add_scope_warnings(records.warnings))

    def _check_places(self, places: Sequence[str]) -> None:
        """Refuse queries by values if some values are masked: the results would reveal them.

        Raises:
            ProblemError: 403.
        """
        if self._visible_store is not None and any(
            parse_valued(place) is not None for place in places
        ):
            raise hidden_parts_error()

    def _resolve_request(
        self, name: str, request: TraceRequest, *, rows: bool
    ) -> tuple[ApplicationSnapshot, TraceRequest, str]:
        """The application, the query of it, and the id of the trace.

        Raises:
            LineageError: what is asked for is not there.
            ProblemError: it is not for this caller, or is more than a question may be.
        """
        if request.start.contains is not None and not rows:
            raise rows_refused_error()
        if self._visible_store is not None and (request.start.contains or request.start.values):
            raise hidden_parts_error()
        self._check_places(request.start.places)
        opened = self.open(name)
        request = self._with_start_places(opened, request)
        return opened, request, pack(opened.app, request)

    def check_listed(self, items: int, hint: str) -> None:
        """Refuse an answer of more items than the limit.

        Raises:
            ProblemError: there are more; ``hint`` suggests another request.
        """
        most = self.settings.api_export_items
        if items > most:
            raise too_costly_error(
                f"the answer has {items:,} items; at most {most:,} are given at once", hint
            )

    def flows(self, app: str, selection: ViewSelection) -> tuple[RecordFlows, tuple[str, ...]]:
        """The flows of a record-level view, and the warnings.

        Raises:
            TooManyFlowsError: there are more than selection.
            LineageError: what a place names is not there.
            ProblemError: the trace costs more than the limits allow.
        """
        graph = self.open(app).graph
        return requested_flows(
            app, graph, selection, self.trace_records, self._engine(rows=False).locations
        )

    def answer(self, traced: Trace, limit: int | None, *, texts: bool) -> Answer:
        """A trace's answer that lists the first ``limit`` items of each node, or all.

        Raises:
            ProblemError: more items than the limit.
            BudgetError: more text than an answer may have, or it takes too long.
        """
        self.check_listed(traced.items_read(limit), "give a limit")
        with self.turn():
            return traced.answer(limit, texts=texts)

    def new_budget(self) -> Budget:
        """What a request may cost."""
        settings = self.settings
        return Budget(
            seconds=settings.api_query_s,
            blocks=settings.api_query_blocks,
            text_bytes=settings.api_query_mb * MIB,
            messages=self._message_room,
        )

    def allow_stream(self) -> None:
        """Extend the budget of the request to that of streams, exports and changes."""
        settings = self.settings
        current_budget().extend(settings.api_stream_s, settings.api_stream_mb * MIB)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One of a limited number of turns in which traces are computed, rows searched and files read.

        Reentrant: within a turn it takes no other one.

        Raises:
            ProblemError: too many requests wait, or no turn is free in time.
            AskerGoneError: the client has disconnected.
        """
        if _HAS_TURN.get():
            yield
            return
        self._await_turn()
        token = _HAS_TURN.set(True)
        try:
            yield
        finally:
            _HAS_TURN.reset(token)
            self._cache.turns.release()

    def _await_turn(self) -> None:
        with self._cache.lock:
            if self._cache.waiting >= WAITING_MAX:
                raise busy_error("questions")
            self._cache.waiting += 1
        try:
            budget = current_budget()
            until = time.monotonic() + min(self.settings.api_query_s, budget.left_s)
            while not self._cache.turns.acquire(timeout=CHECK_TURN_S):
                budget.check_client()
                if time.monotonic() > until:
                    raise busy_error("questions")
        finally:
            with self._cache.lock:
                self._cache.waiting -= 1

    def _cached_trace(
        self, key: str, opened: ApplicationSnapshot, *, rows: bool
    ) -> CachedTrace | None:
        """A cached trace of unchanged lineage.

        Raises:
            ProblemError: 403, it has the text of rows and the caller may not read it.
        """
        at = self._scope, key
        with self._cache.lock:
            cached = self._cache.traces.get(at)
            if cached is None:
                return None
            self._cache.traces.move_to_end(at)
        if not cached.is_of(opened):
            if cached.traced.recomputed is not None:
                with self._cache.lock:
                    self._cache.forget(*at)
            return None
        if cached.traced.by_values and not rows:
            raise rows_refused_error()
        return cached

    def _cache_trace(
        self, key: str, opened: ApplicationSnapshot, request: TraceRequest, traced: Trace
    ) -> CachedTrace:
        trace = CachedTrace(key, opened, request, traced, traced.runs)
        self._cache.store_trace(self._scope, trace)
        return trace

    def _with_start_places(
        self, opened: ApplicationSnapshot, request: TraceRequest
    ) -> TraceRequest:
        """A request whose search text has become the items that hold it."""
        start = request.start
        if start.values:
            return request.model_copy(update={"start": _start_by_values(start)})
        if start.node is None and start.contains is None:
            if not start.places and not start.regions:
                raise ProblemError(
                    HTTPStatus.UNPROCESSABLE_ENTITY,
                    "the trace begins nowhere",
                    hint="give start.places, start.regions, or start.node with start.contains",
                )
            return request
        if start.node is None or not start.contains:
            raise ProblemError(
                HTTPStatus.UNPROCESSABLE_ENTITY, "start.node and start.contains go together"
            )
        places = [item.address for item in self._matches(opened, start.node, start.contains)]
        resolved_start = StartModel(places=[*start.places, *places], regions=start.regions)
        return request.model_copy(update={"start": resolved_start})

    def _matches(self, opened: ApplicationSnapshot, name: str, contains: str) -> list[Item]:
        listing = self.listing(opened)
        node = opened.names.node(name)
        all_items = listing.items(node)
        matches: list[Item] = []
        cursor: str | None = None
        while True:
            with self.turn():
                page = listing.page(all_items, MATCHES_MAX, cursor=cursor, contains=contains)
            if page.cut:
                raise too_costly_error(
                    f"{page.cut:,} rows are too long to be searched to their end",
                    "trace from an item's address instead",
                )
            matches += page.items
            cursor = page.following
            if len(matches) > MATCHES_MAX:
                raise too_costly_error(
                    f"more than {MATCHES_MAX:,} rows hold the text", "give more of it"
                )
            if cursor is None:
                break
        if not matches:
            raise NotFoundError(f"no item of node {name} holds {contains!r}")
        return matches


@dataclass(frozen=True, slots=True)
class _CallerLimits:
    """Implements :class:`lineage_query.engine.QueryLimits` for a caller. ``rows``: they may read the text of rows."""

    lineages: Lineages
    rows: bool

    def working(self) -> AbstractContextManager[None]:
        return self.lineages.working()

    def check_by_values(self) -> None:
        if not self.rows:
            raise rows_refused_error()

    def check_listed(self, items: int) -> None:
        self.lineages.check_listed(items, "give a limit")


def _query(opened: ApplicationSnapshot, request: TraceRequest) -> TraceQuery:
    """The query of a request.

    Raises:
        AddressError: a space can't be read or names no node.
        RegionError: ranges that can't be read.
    """
    return TraceQuery(
        direction=Direction(request.direction),
        places=tuple(request.start.places),
        app=opened.app,
        until=None if request.until == "ends" else request.until,
        steps=request.steps,
        regions=_regions(opened, request.start),
        as_now=request.as_now,
    )


def _start_by_values(start: StartModel) -> StartModel:
    """A start by values as a place.

    Raises:
        ProblemError: it names no node.
    """
    if start.node is None or start.contains is not None:
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "start.values goes with start.node, and with no text"
        )
    valued = ValuedPlace(start.node, tuple((value.column, value.value) for value in start.values))
    return StartModel(places=[*start.places, str(valued)], regions=start.regions)


def _regions(opened: ApplicationSnapshot, start: StartModel) -> dict[str, Region]:
    """Regions by space, with node ids.

    Raises:
        AddressError: a space can't be read or names no node.
        RegionError: ranges that can't be read.
    """
    regions_by_space: dict[str, list[Region]] = {}
    for region in start.regions:
        space = parse_space(region.space)
        text = opened.names.node(space.name) + region.space[len(space.name) :]
        regions_by_space.setdefault(str(parse_space(text)), []).append(
            Region.from_text(region.ranges)
        )
    return {space: Region.union(regions) for space, regions in regions_by_space.items()}
