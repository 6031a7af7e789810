"""Which applications to query: all that used what the query names, unless it names one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.contract.message import RecordSplits, Splits
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import NotQueried
from lineage_query.finding import (
    UNREAD_REASON,
    NotFoundError,
    find_application,
    find_readers,
)
from lineage_query.names import Names, looks_like_address
from lineage_query.outputs import output_state, writes_to
from lineage_query.recipe_rows import RecipePlace
from lineage_query.rows.file_status import has_changed
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import LocationError, ValuedPlace, parse_location, parse_valued
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.materialised import whose_rows
from lineage_store.paths import Spellings, canonical
from lineage_store.port import GraphStore
from lineage_store.records import SPLITS

APPLICATIONS_QUERIED_MAX = 50
"""Maximum number of applications that one query runs on, the latest first; the answer names the others."""


@dataclass(frozen=True, slots=True)
class Part:
    """The query of one application.

    ``recipe_place``: rows of its DataFrames, or of those whose materialised lineage it holds; None: what the query's places
    name there. ``files``: those whose rows the query names by values.
    """

    query: TraceQuery
    recipe_place: RecipePlace | None = None
    files: frozenset[str] = frozenset()

    @property
    def by_values(self) -> bool:
        """Whether the query names rows of DataFrames by their values."""
        return self.recipe_place is not None and (
            self.recipe_place.valued is not None or bool(self.query.where)
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Which applications to query, and for what.

    ``parts``: the latest application first, each once. ``not_queried``: what takes part but is not queried. ``gaps``:
    warnings about other content that may hold rows, so that an answer is incomplete. ``changed``: files have changed since
    they were used.
    """

    parts: tuple[Part, ...]
    not_queried: tuple[NotQueried, ...] = ()
    gaps: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    changed: bool = False

    @property
    def only(self) -> Part | None:
        """The only part, if its answer is the answer to the query; None: there are several parts, gaps or warnings."""
        rest = self.not_queried or self.gaps or self.warnings or self.changed
        return self.parts[0] if len(self.parts) == 1 and not rest else None


def plan_of(store: GraphStore, reader: RowReader, query: TraceQuery) -> Plan:
    """Plan which applications to query.

    Raises:
        NotFoundError: the application that it names is not there, or no application gave the output whose rows are to
            fulfil a condition.
        TraceError: the query has a condition but does not name exactly one output.
    """
    planner = _Planner(store, reader, _with_app(store, query))
    if query.where:
        return planner.of_output()
    return planner.by_values() or planner.by_places() or Plan((Part(planner.query),))


def place_by_values(store: GraphStore, reader: RowReader, query: TraceQuery) -> RecipePlace | None:
    """The rows of DataFrames that a query names by their values; None if it names rows otherwise.

    Raises:
        NotFoundError: the application that it names is not there.
    """
    plan = _Planner(store, reader, _with_app(store, query)).by_values()
    return (
        next((part.recipe_place for part in plan.parts if part.recipe_place), None)
        if plan
        else None
    )


def _with_app(store: GraphStore, query: TraceQuery) -> TraceQuery:
    """The query with the full id of the application that it names, if any."""
    if query.app is None:
        return query
    return replace(query, app=find_application(store, query.app))


@dataclass
class _Planner:
    store: GraphStore
    reader: RowReader
    query: TraceQuery
    _not_queried: list[NotQueried] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ids = self.store.application_ids()

    def of_output(self) -> Plan:
        """Rows of a whole output: the query's place is its path, its table or its name."""
        query = self.query
        if len(query.places) != 1 or query.regions:
            raise TraceError("--where takes one output: its path, its table or its node")
        if query.direction is not Direction.BACKWARD:
            raise TraceError("a condition chooses rows of an output, which are traced back")
        plan = self.called(query.places[0], None)
        if plan is None:
            raise NotFoundError(
                f"no DataFrame's output is called {query.places[0]!r}: give its path, its table or its node "
                "(lineage graph lists them)"
            )
        return plan

    def by_values(self) -> Plan | None:
        """``OUTPUT#column=value`` (forward: ``SOURCE#``), the first place; None where it has another form."""
        places = self.query.places
        valued = parse_valued(places[0]) if places else None
        return None if valued is None else self.called(valued.of, valued)

    def called(self, name: str, valued: ValuedPlace | None) -> Plan | None:
        """Rows of the output (forward: the source) of that path, table or name."""
        app = self.query.app
        if app is None:
            apps = [app_id for app_id in self._ids if whose_rows(app_id, self._ids) is None]
        else:
            # A query that names the holder of materialised flows is for rows of the application they belong to.
            apps = [whose_rows(app, self._ids) or app]
        is_backward = self.query.direction is Direction.BACKWARD
        kind, path = "frame" if is_backward else "frame-source", canonical(name)
        for app_id in apps:
            nodes = self.store.graph(app_id).nodes()
            candidates = [node for node in nodes if node.kind == kind]
            if any(_is_at(node, name, path) for node in candidates):
                return (
                    self._writes(name, apps, valued)
                    if is_backward
                    else self._reads(name, apps, valued)
                )
            names = Names(nodes)
            for node in candidates:
                if name in {node.node, names.label(node.node)}:
                    return Plan((self._part_of(app_id, [node.node], valued),))
        return None

    def by_places(self) -> Plan | None:
        """All applications that read what the places of a forward query name; None for other queries."""
        query = self.query
        forward = query.direction is Direction.FORWARD and query.places and not query.regions
        # A node that the trace is to go to is one of some application.
        if not forward or query.app is not None or query.until is not None:
            return None
        places: dict[str, list[str]] = {}
        for place in query.places:
            path = None if looks_like_address(place) else self._path_of(place)
            readers = path and find_readers(self.store, self.reader, path)
            if not readers or not readers.apps:
                return None
            for app in readers.apps:
                places.setdefault(app, []).append(place)
            for app in readers.unsure:
                why = (
                    f"it read {path} at another time (too), and nothing tells whether it was the same "
                    "then: --app asks it"
                )
                self._not_queried.append(NotQueried(app, why))
            for app in readers.unread:
                why = f"whether it read {path} is not known: {UNREAD_REASON}"
                self._not_queried.append(NotQueried(app, why))
        apps = self._bounded([app for app in self._ids if app in places])
        parts = [Part(replace(query, app=app, places=tuple(places[app]))) for app in apps]
        return Plan(tuple(parts), tuple(self._not_queried))

    def _path_of(self, place: str) -> str | None:
        try:
            return parse_location(place).path
        except LocationError:
            return None

    def _bounded(self, apps: Sequence[str]) -> Sequence[str]:
        self._not_queried += [
            NotQueried(
                app,
                f"just the latest {APPLICATIONS_QUERIED_MAX} applications are asked; --app asks it",
            )
            for app in apps[APPLICATIONS_QUERIED_MAX:]
        ]
        return apps[:APPLICATIONS_QUERIED_MAX]

    # -- rows of an output ---------------------------------------------------------------------

    def _writes(self, name: str, apps: Sequence[str], valued: ValuedPlace | None) -> Plan:
        state = output_state(self.reader, name, writes_to(self.store, self.reader, name, apps))
        nodes: dict[str, list[str]] = {}
        for write in state.writes:
            nodes.setdefault(write.app, []).append(write.node)
        parts = [
            self._part_of(
                app,
                nodes[app],
                valued,
                {node: why for (of, node), why in state.doubts.items() if of == app},
            )
            for app in self._bounded(list(nodes))
        ]
        # What others wrote is no part of what one application did.
        gaps = state.gaps if self.query.app is None else ()
        return Plan(tuple(parts), tuple(self._not_queried), gaps, state.warnings, state.changed)

    def _part_of(
        self,
        app: str,
        nodes: Sequence[str],
        valued: ValuedPlace | None,
        doubts: Mapping[str, str] | None = None,
        files: Iterable[str] = (),
    ) -> Part:
        place = self.query.places[0]
        recipe_place = RecipePlace(app, tuple(nodes), place, valued, doubts or {})
        query = replace(self.query, app=self.query.app or app)
        return Part(query, recipe_place, files=frozenset(files))

    # -- rows of a source ----------------------------------------------------------------------

    def _reads(self, name: str, apps: Sequence[str], valued: ValuedPlace | None) -> Plan:
        path = canonical(name)
        reads = [source_read for app in apps for source_read in self._reads_of(app, name, path)]
        current_reads = [
            source_read for source_read in reads if source_read.there or not source_read.files
        ]
        if not current_reads:
            # If the file is gone, its last reader reports that.
            current_reads = [
                source_read for source_read in reads if source_read.app == reads[0].app
            ]
        nodes: dict[str, list[str]] = {}
        files: dict[str, set[str]] = {}
        for source_read in current_reads:
            nodes.setdefault(source_read.app, []).append(source_read.node)
            files.setdefault(source_read.app, set()).update(source_read.there)
        self._name_others(apps, nodes, frozenset().union(*files.values()))
        parts = [
            self._part_of(app, nodes[app], valued, files=files[app])
            for app in self._bounded(list(nodes))
        ]
        return Plan(tuple(parts), tuple(self._not_queried))

    def _reads_of(self, app: str, name: str, path: str) -> list[_Read]:
        graph = self.store.graph(app)
        nodes = [node for node in graph.nodes() if node.kind == "frame-source"]
        return [
            _read(graph, self.reader, app, node.node) for node in nodes if _is_at(node, name, path)
        ]

    def _name_others(
        self, apps: Iterable[str], queried_nodes: Mapping[str, Sequence[str]], files: frozenset[str]
    ) -> None:
        """Name what read the same files as records, or as a part of another source."""
        spellings = Spellings()
        for app in apps:
            paths_by_node: dict[str, str] = {}
            for message in self.store.messages(app, *SPLITS):
                if isinstance(message, Splits | RecordSplits):
                    for split in message.splits:
                        path = spellings.of(split.path)
                        if path in files and message.node not in queried_nodes.get(app, ()):
                            paths_by_node.setdefault(message.node, path)
            locations = Locations(self.store.graph(app), self.reader) if paths_by_node else None
            for node, path in paths_by_node.items():
                assert locations is not None
                same = not has_changed(locations.file_status(node, path))
                if same or locations.is_undecided(node, path):
                    why = f"it read {path} otherwise than by these columns: ask by a row's place"
                    self._not_queried.append(NotQueried(app, why, node))


@dataclass(frozen=True, slots=True)
class _Read:
    """A source as an application read it. ``there``: those of its files that are as they were then."""

    app: str
    node: str
    files: frozenset[str]
    there: frozenset[str]


def _read(graph: FlowGraph, reader: RowReader, app: str, node: str) -> _Read:
    file_statuses = Locations(graph, reader).file_statuses(node)
    unchanged_files = frozenset(
        path for path, status in file_statuses.items() if not has_changed(status)
    )
    return _Read(app, node, frozenset(file_statuses), unchanged_files)


def _is_at(node: NodeRecord, name: str, path: str) -> bool:
    return node.path is not None and (node.path == name or canonical(node.path) == path)
