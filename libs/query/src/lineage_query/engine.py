"""The query engine: plans which applications to query, traces records, recomputes rows of DataFrames, composes answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from lineage_core.contract.positions import is_file_node
from lineage_core.contract.verdict import ARRAY
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer
from lineage_query.collected_rows import CellBackend, regions_of_rows
from lineage_query.composing import query_all
from lineage_query.materialised_flows import MaterialisedFlows, choose_trace
from lineage_query.planning import ApplicationQuery, Plan, plan_of, recipe_place_by_values
from lineage_query.recipe_rows import RecipePlace, RecipeRowError, recipe_nodes_among
from lineage_query.recomputation import RecomputationBackend
from lineage_query.record_trace import RecordTrace
from lineage_query.record_tracing import RecordTracer, continues_in
from lineage_query.rows.file_status import has_changed
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import Location, record_of_topic
from lineage_query.rows.reader import RowReader
from lineage_query.snapshot import ApplicationCache
from lineage_query.trace import Trace
from lineage_query.trace_query import LEVELS, TraceQuery
from lineage_store.errors import NoSuchRowError
from lineage_store.port import GraphStore

if TYPE_CHECKING:
    from lineage_core.contract.region import Region
    from lineage_query.job_links import FileNode
    from lineage_query.levels import RowCounts
    from lineage_query.run_difference import RunDifference


class QueryLimits(Protocol):
    """What a query may do on behalf of its caller."""

    def working(self) -> AbstractContextManager[None]:
        """Held while the store and files are read; not while rows of DataFrames are recomputed."""

    def check_by_values(self) -> None:
        """Refuse queries for rows of DataFrames by their values; the error that it raises ends the query."""

    def check_listed(self, items: int) -> None:
        """Refuse to list so many items in an answer of several applications."""


class NoLimits:
    """Limits of a query that may do all."""

    def working(self) -> AbstractContextManager[None]:
        """Holds no lock."""
        return nullcontext()

    def check_by_values(self) -> None:
        """Allows every query."""

    def check_listed(self, items: int) -> None:
        """All are listed."""


class QueryEngine:
    """Traces over a store. May be shared by threads."""

    def __init__(
        self,
        store: GraphStore,
        reader: RowReader,
        application_cache: ApplicationCache | None = None,
        backend: RecomputationBackend | None = None,
        limits: QueryLimits | None = None,
        cells: CellBackend | None = None,
    ) -> None:
        """An engine over one store.

        Args:
            store: has the lineage.
            reader: reads rows of files, and decides which files may be read.
            application_cache: caches opened applications; None: the last one is cached.
            backend: recomputes rows of DataFrames; None: an answer lists what could not be queried.
            limits: the caller's limits; None: there are none.
            cells: traces rows through arrays; None: a trace through all jobs is incomplete where it comes to one.
        """
        self._store = store
        self._reader = reader
        application_cache = application_cache or ApplicationCache(store, reader)
        self._tracer = RecordTracer(store, reader, application_cache)
        self._flows = MaterialisedFlows(store, reader, application_cache)
        self._backend = backend
        self._limits = limits or NoLimits()
        self._cells = cells

    def ask(self, query: TraceQuery) -> Answer:
        """Trace what a query names, and list what was found; raises as :meth:`trace`."""
        return self.trace(query).answer(query.limit, texts=query.texts, at_once=True)

    def trace(self, query: TraceQuery, *, derivations: bool = False) -> Trace:
        """Trace what a query names.

        Args:
            query: for records, or rows of DataFrames.
            derivations: the caller needs the pairs of outputs and inputs, which a recomputation does not return: use
                records and materialised flows wherever there are any.

        Raises:
            NotFoundError: no such application, or none used the file.
            LocationError: a place does not name a row.
            AddressError: an address can't be read, or names no node.
            RowsError: rows must be counted in a file that can't be read.
            RecipeRowError: rows of a DataFrame that have no lineage, or that no backend here can recompute.
            TraceError: ``until`` is not in that direction, or the query requests what such traces don't have.
            NoSuchRowError: all applications were queried, and none has the row.
            BudgetError: the query exceeds its budget.
        """
        if query.way and not query.all_jobs:
            raise TraceError("rows on the way lie between jobs: --way takes --all-jobs, too")
        if query.by != "row":
            return Trace(query, recomputed=self._count_by_level(query))
        if query.all_jobs:
            return Trace(query, recomputed=self._trace_all_jobs(query))
        return self._trace_plan(query, derivations=derivations)

    def trace_way(
        self,
        query: TraceQuery,
        on_answer: Callable[[Answer], None],
        on_trace: Callable[[Trace], None] | None = None,
    ) -> Answer:
        """Trace through all jobs.

        Args:
            query: for records, or rows of DataFrames.
            on_answer: receives the answer of each application on the way, with the rows from which others went on.
            on_trace: receives the traces of records, before anything is read from files.

        Returns:
            The rows at which no other application continues.

        Raises:
            LineageError: as :meth:`trace`.
        """
        return self._trace_all_jobs(query, on_trace, on_answer)

    def _trace_plan(
        self,
        query: TraceQuery,
        *,
        derivations: bool = False,
        on_trace: Callable[[Trace], None] | None = None,
    ) -> Trace:
        """The trace through the applications that a query is planned for. ``on_trace``: receives the trace of each."""
        plan, by_query = self._plan(query)
        if plan.only is not None:
            trace = self._trace_part(plan.only, by_query=by_query, derivations=derivations)
            if on_trace is not None:
                on_trace(trace)
            return trace.of_places(query)

        def answer_part(application_query: ApplicationQuery) -> Answer:
            current_budget().check()
            trace = self._trace_part(application_query, by_query=by_query)
            if on_trace is not None:
                on_trace(trace)
            self._limits.check_listed(trace.items_read(query.limit))
            with self._limits.working():
                return trace.answer(query.limit, texts=query.texts)

        return Trace(query, recomputed=query_all(query, plan, answer_part))

    def _plan(self, query: TraceQuery) -> tuple[Plan, bool]:
        """Which applications to query, and whether rows of DataFrames are computed even if they were materialised."""
        with self._limits.working():
            plan = plan_of(self._store, self._reader, query)
        if any(part.by_values for part in plan.parts):
            self._limits.check_by_values()
        # A query that names an application is computed by it again, even if its rows were materialised.
        return plan, query.app is not None

    def _count_by_level(self, query: TraceQuery) -> Answer:
        """The answer to a query with the containers of its rows, at the level that it names."""
        # Most queries are for rows: they do not load this.
        from lineage_query.levels import START_ITEMS, LevelCounter, merged

        with self._limits.working():
            counter = LevelCounter(query.by, self._store, self._tracer.locations)
        if query.all_jobs:
            listed = replace(query, texts=False)
            answer = self._trace_all_jobs(listed, counter.remember_tasks)
            with self._limits.working():
                counter.check_level(answer.apps or (answer.app,))
                return counter.count_answer(answer).shown(answer, query.by)
        counts: list[RowCounts] = []

        def count(trace: Trace) -> Answer:
            with self._limits.working():
                counter.remember_tasks(trace)
                if trace.recomputed is None and trace.records is not None:
                    answer = trace.answer(START_ITEMS, texts=query.texts, at_once=True)
                    part, answer = counter.count_records(trace.records, answer)
                else:
                    answer = trace.answer(None, texts=False)
                    part = counter.count_answer(answer)
            counts.append(part)
            return answer

        plan, by_query = self._plan(replace(query, limit=None, texts=False))

        if plan.only is not None and query.by not in LEVELS:
            # Where several applications take part, one of them may have the level.
            with self._limits.working():
                counter.check_level((self._application_of(plan.only),))

        def answer_part(application_query: ApplicationQuery) -> Answer:
            current_budget().check()
            return count(self._trace_part(application_query, by_query=by_query))

        answer = query_all(query, plan, answer_part)
        with self._limits.working():
            counter.check_level(answer.apps or (answer.app,))
        return merged(counts).shown(replace(answer, requested_places=query.places), query.by)

    def _application_of(self, part: ApplicationQuery) -> str:
        """The application that a part of a plan is about."""
        if part.recipe_place is not None:
            return part.recipe_place.app
        return self._tracer.application_of(part.query)

    def _trace_all_jobs(
        self,
        query: TraceQuery,
        on_trace: Callable[[Trace], None] | None = None,
        on_answer: Callable[[Answer], None] | None = None,
    ) -> Answer:
        # As above.
        from lineage_query.all_jobs import refuse_step_limits

        refuse_step_limits(query.until, query.steps)
        single = replace(query, all_jobs=False, way=False, limit=None)
        first = self._listed(self._trace_plan(single, on_trace=on_trace))
        return self.follow(first, query, on_trace, on_answer)

    def follow(
        self,
        first: Answer,
        query: TraceQuery,
        on_trace: Callable[[Trace], None] | None = None,
        on_answer: Callable[[Answer], None] | None = None,
    ) -> Answer:
        """Continue an answer through all jobs; ``first`` lists all of its items, to ``query``. Raises as :meth:`trace`."""
        # As above.
        from lineage_query.all_jobs import follow_across_applications, regions_of_locations
        from lineage_query.part_links import (
            PARTS_OF_ARRAYS,
            NotUsedError,
            lines_of_part,
            refuse,
            trace_in_parts,
        )

        single = replace(query, all_jobs=False, way=False, limit=None)
        base = replace(single, app=None, places=(), regions={}, where="")

        def trace_row(node: FileNode, row: Location) -> Answer:
            query = replace(base, app=node.app, places=(str(row),))
            record = record_of_topic(str(row))
            recipe_place = RecipePlace(
                *(node.app, (node.node,), str(row), record), held_in=held_in(node, row)
            )
            try:
                traced = self._trace_rows(query, recipe_place, by_query=False, derivations=False)
            except NoSuchRowError as problem:
                if record is None or first.direction is Direction.FORWARD:
                    raise
                # It is among the offsets of the write, and not of its rows.
                raise NotUsedError(str(problem)) from problem
            return self._listed(traced)

        def held_in(node: FileNode, row: Location) -> str | None:
            if row.held_in is None:
                return None
            with self._limits.working():
                locations = self._tracer.locations(node.app)
                status = locations.file_status(node.node, locations.spelled(row.path))
            return row.held_in if has_changed(status) else None

        def trace_records(node: FileNode, rows: Sequence[Location]) -> Answer:
            with self._limits.working():
                regions = regions_of_rows(rows) or regions_of_locations(
                    self._tracer.locations(node.app), node.node, rows
                )
            return trace_regions(node.app, regions)

        def trace_regions(app: str, regions: Mapping[str, Region]) -> Answer:
            rows_query = replace(base, app=app, regions=regions)
            return self._listed(self._trace_plan(rows_query, on_trace=on_trace))

        def trace_cells(cells: CellBackend, node: FileNode, rows: Sequence[Location]) -> Answer:
            with self._limits.working():
                return cells.trace_rows(first.direction, node.app, node.node, rows)

        def trace_at(
            node: FileNode, rows: Sequence[Location]
        ) -> Iterator[tuple[Sequence[Location], Callable[[], Answer]]]:
            with self._limits.working():
                among = recipe_nodes_among(self._store.graph(node.app).nodes(), (node.node,))
            is_array = any(one.op == ARRAY for one in among)
            if is_array and any(row.unit == "byte" for row in rows):
                yield rows, partial(refuse, TraceError(PARTS_OF_ARRAYS))
            elif self._cells is not None and is_array:
                yield rows, partial(trace_cells, self._cells, node, rows)
            elif among:
                for row in rows:
                    yield from trace_frame_rows(node, row)
            elif is_file_node(node.node):
                with self._limits.working():
                    locations = self._tracer.locations(node.app)
                    parts = list(
                        trace_in_parts(
                            locations, node, rows, first.direction, partial(trace_regions, node.app)
                        )
                    )
                yield from parts
            else:
                yield rows, partial(trace_records, node, rows)

        def trace_frame_rows(
            node: FileNode, row: Location
        ) -> Iterator[tuple[Sequence[Location], Callable[[], Answer]]]:
            try:
                with self._limits.working():
                    lines = lines_of_part(self._tracer.locations(node.app), node.node, row)
            except LineageError as problem:
                yield (row,), partial(refuse, problem)
                return
            for line in lines:
                yield (row,), partial(trace_row, node, line)

        return follow_across_applications(
            *(first, self._store, self._reader, trace_at, self._limits.working, on_answer),
            lists_way=query.way,
        )

    def _listed(self, trace: Trace) -> Answer:
        """All that a trace found.

        Raises:
            TooMuchError: it is more than is handed on.
        """
        from lineage_query.all_jobs import ROWS_MAX

        if trace.count > ROWS_MAX:
            raise TooMuchError(f"more than {ROWS_MAX:,} rows lie on the way", "ask for fewer rows")
        self._limits.check_listed(trace.items_read(None))
        with self._limits.working():
            return trace.answer(None, texts=trace.query.texts)

    def trace_records(self, query: TraceQuery) -> RecordTrace:
        """Trace the records that a query of one application names, and go no further.

        Raises:
            RecipeRowError: the query is for rows of DataFrames.
            LineageError: as :meth:`trace`.
        """
        with self._limits.working():
            recipe_place = recipe_place_by_values(self._store, self._reader, query)
            if recipe_place is not None:
                raise self._refusal(recipe_place)
            return self._tracer.trace(query)

    def compare_runs(
        self, query: TraceQuery, places: tuple[Sequence[str], Sequence[str]], apps: tuple[str, str]
    ) -> RunDifference:
        """What the traces of places in two runs of a job do not share.

        Args:
            query: without places and application; ``limit`` bounds the rows listed of each source and side.
            places: of each run.
            apps: the ids of the runs.

        Raises:
            LineageError: as :meth:`trace`, or both are the same run, or a trace has more rows than are compared.
        """
        # Other queries do not load this.
        from lineage_query.run_comparing import check_countable, compare_runs, queries_of_runs
        from lineage_query.run_rows import TracedRun

        left, right = (
            TracedRun(
                app,
                check_countable(self.trace(of_run)).answer(None, texts=query.texts),
                self._store,
            )
            for app, of_run in zip(apps, queries_of_runs(query, places, apps), strict=True)
        )
        return compare_runs(left, right, query.limit, texts=query.texts)

    def again(self, query: TraceQuery, records: RecordTrace) -> Trace:
        """The trace of a query whose records were traced before, with the current status of its files.

        Raises:
            LineageError: as :meth:`trace`.
        """
        return self._continued(query, self.records_again(query, records))

    def records_again(self, query: TraceQuery, records: RecordTrace) -> RecordTrace:
        """As :meth:`again`, for records only."""
        with self._limits.working():
            return self._tracer.again(query, records)

    def locations(self, app: str) -> Locations:
        """Rows of the files of an application, as they are now.

        Raises:
            KeyError: there is no such application.
        """
        return self._tracer.locations(app)

    def _trace_part(
        self, part: ApplicationQuery, *, by_query: bool, derivations: bool = False
    ) -> Trace:
        """The trace in one application."""
        query, recipe_place = part.query, part.recipe_place
        if recipe_place is None:
            with self._limits.working():
                result = self._tracer.look_up(query)
            if isinstance(result, RecordTrace):
                if derivations:
                    with self._limits.working():
                        continues = continues_in(query, result)
                    return Trace(query, _as_far_as_it_goes(result, continues=continues))
                return self._continued(query, result)
            recipe_place = result
        return self._trace_rows(query, recipe_place, by_query=by_query, derivations=derivations)

    def _trace_rows(
        self, query: TraceQuery, recipe_place: RecipePlace, *, by_query: bool, derivations: bool
    ) -> Trace:
        """The trace of rows of DataFrames in one application, by materialised flows or by a query over the recipe."""
        if query.where:
            return self._recomputed(query, recipe_place)
        with self._limits.working():
            materialised = self._flows.look_up(query, recipe_place)
        if derivations and materialised is not None:
            return Trace(query, materialised.traced)
        recompute = partial(self._recomputed, query, recipe_place)
        return choose_trace(materialised, query, recipe_place, recompute, by_query=by_query)

    def _recomputed(self, query: TraceQuery, recipe_place: RecipePlace) -> Trace:
        if self._backend is None:
            raise self._refusal(recipe_place)
        return Trace(query, recomputed=self._backend.trace_rows(query, recipe_place))

    def _refusal(self, recipe_place: RecipePlace) -> RecipeRowError:
        nodes = recipe_nodes_among(self._store.graph(recipe_place.app).nodes(), recipe_place.nodes)
        return RecipeRowError(recipe_place.place, recipe_place.app, nodes)

    def _continued(self, query: TraceQuery, records: RecordTrace) -> Trace:
        """A trace of records, through the DataFrames whose rows some of them are."""
        answer = None
        with self._limits.working():
            continues = continues_in(query, records)
        if self._backend is not None and continues:
            answer = self._backend.continue_trace(query, records)
        if answer is None:
            records = _as_far_as_it_goes(records, continues=continues)
        return Trace(query, records, answer)


def _as_far_as_it_goes(records: RecordTrace, *, continues: bool) -> RecordTrace:
    """A trace that does not continue: it is incomplete if the rest of the query lies beyond DataFrames."""
    return replace(records, complete=records.complete and not continues)
